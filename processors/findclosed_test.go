package processors

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/schemas"
)

// putClosed commits a Progress that closes an interval, as a loop does.
func (b *bench) putClosed(topic string, closedMs int64) {
	b.t.Helper()
	cl := b.client(kgo.TransactionalID(topic))
	value := encode(b.t, &schemas.Progress{Closed: &closedMs, ClosedIntervalMs: findT, Rejected: []int64{}})
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	r := &kgo.Record{Topic: b.cfg.Prefix + topic, Value: value}
	if err := cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	if err := cl.EndTransaction(b.t.Context(), kgo.TryCommit); err != nil {
		b.t.Fatal(err)
	}
}

// TestFoldedThrough: everything is folded up to the interval that both collect and merge have closed. Find must have
// read its partition to the end for that, and open transactions must be over.
func TestFoldedThrough(t *testing.T) {
	b := newBench(t)
	l := &loop{cfg: b.cfg, stage: stage{input: b.cfg.Prefix + schemas.TopicJobSummary}}
	expect := func(when string, position, want int64) {
		t.Helper()
		c := &closings{cfg: b.cfg, log: slog.New(slog.DiscardHandler)}
		if got := l.foldedThrough(t.Context(), &account{position: position}, b.adm, c); got != want {
			t.Errorf("%s: through %d, want %d", when, got, want)
		}
	}
	expect("nothing is closed", 0, never)
	b.putClosed(schemas.TopicProgress, findEpoch+findT)
	expect("merge has closed nothing", 0, never)
	b.putClosed(schemas.TopicMergeProgress, findEpoch)
	b.putTo(schemas.TopicProgress, 0, encode(t, &schemas.Progress{Closed: new(int64), Rejected: []int64{}}))
	expect("both have", 0, findEpoch)
	b.load("1", findEpoch, 1)
	expect("a summary waits", 0, never)
	expect("it is folded", 1, findEpoch)
	open := b.client(kgo.TransactionalID("open"))
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: l.stage.input, Value: encode(t, loadOf("1", findEpoch+findT, findT, 1))}
	if err := open.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	expect("a transaction is open", 1, never)
	if err := open.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
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
		if through != never {
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
