package find

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// putClosed commits a Progress that closes an interval, as a loop does.
func (b *bench) putClosed(topic string, closedMs int64) {
	b.T.Helper()
	cl := b.Client(kgo.TransactionalID(topic))
	value := foldtest.Encode(b.T, &schemas.Progress{Closed: &closedMs, ClosedIntervalMs: findT, Rejected: []int64{}})
	if err := cl.BeginTransaction(); err != nil {
		b.T.Fatal(err)
	}
	r := &kgo.Record{Topic: b.Config.Prefix + topic, Value: value}
	if err := cl.ProduceSync(b.T.Context(), r).FirstErr(); err != nil {
		b.T.Fatal(err)
	}
	if err := cl.EndTransaction(b.T.Context(), kgo.TryCommit); err != nil {
		b.T.Fatal(err)
	}
}

// TestFoldedThrough: everything is folded up to the interval that both collect and merge have closed. Find must have
// read its partition to the end for that, and open transactions must be over.
func TestFoldedThrough(t *testing.T) {
	b := newBench(t)
	of := &processors.Partition{Admin: b.Admin}
	expect := func(when string, position, want int64) {
		t.Helper()
		c := &closings{cfg: b.Config, log: slog.New(slog.DiscardHandler)}
		h := newHorizon()
		if got := c.foldedThrough(t.Context(), of, position, &h); got != want {
			t.Errorf("%s: through %d, want %d", when, got, want)
		}
	}
	expect("nothing is closed", 0, fold.Never)
	b.putClosed(schemas.TopicProgress, findEpoch+findT)
	expect("merge has closed nothing", 0, fold.Never)
	b.putClosed(schemas.TopicMergeProgress, findEpoch)
	b.PutTo(schemas.TopicProgress, 0, foldtest.Encode(t, &schemas.Progress{Closed: new(int64), Rejected: []int64{}}))
	expect("both have", 0, findEpoch)
	b.load("1", findEpoch, 1)
	expect("a summary waits", 0, fold.Never)
	expect("it is folded", 1, findEpoch)
	open := b.Client(kgo.TransactionalID("open"))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	value := foldtest.Encode(t, loadOf("1", findEpoch+findT, findT, 1))
	r := &kgo.Record{Topic: b.Config.Prefix + schemas.TopicJobSummary, Value: value}
	if err := open.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	expect("a transaction is open", 1, fold.Never)
	if err := open.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

// TestFoldedWhileMoreComes: a partition to which somebody writes all the time is folded up to where its end was. It
// need not come to rest.
func TestFoldedWhileMoreComes(t *testing.T) {
	b := newBench(t)
	of := &processors.Partition{Admin: b.Admin}
	c, h := &closings{cfg: b.Config, log: slog.New(slog.DiscardHandler)}, newHorizon()
	b.putClosed(schemas.TopicProgress, findEpoch)
	b.putClosed(schemas.TopicMergeProgress, findEpoch)
	for n := range int64(4) { // the fold is always two summaries behind
		b.load("1", findEpoch+n*findT, 1)
		b.load("2", findEpoch+n*findT, 1)
		want := int64(fold.Never)
		if n > 0 {
			want = findEpoch
		}
		if got := c.foldedThrough(t.Context(), of, 2*n, &h); got != want {
			t.Errorf("at %d: through %d, want %d", 2*n, got, want)
		}
	}
}

// TestNobodyWaitsForAnAnswer: while brokers are slow to answer one partition, the group can take another one back.
func TestNobodyWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	c := &closings{log: slog.New(slog.DiscardHandler), asked: time.Now(), through: findEpoch}
	c.mu.Lock()
	got := make(chan int64, 1)
	go func() { got <- c.get(t.Context(), nil) }()
	select {
	case through := <-got:
		if through != fold.Never {
			t.Errorf("through %d", through)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
	c.mu.Unlock()
	if through := c.get(t.Context(), nil); through != findEpoch {
		t.Errorf("through %d afterwards", through)
	}
}
