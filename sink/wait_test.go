package sink

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

const waitSays = "partition waits at a summary with an unknown schema: upgrade the sink; " +
	"if no weir wrote that record, `weir sink accept-gap PARTITION` passes it"

// ofTomorrow is a summary with a schema that this weir does not know.
func ofTomorrow(t *testing.T) []byte {
	t.Helper()
	b := marshal(t, randomSummary(random(t), "c", "tomorrow", 5000))
	b[2] ^= 0xFF // the fingerprint
	if _, err := schemas.Unmarshal(b); !errors.Is(err, schemas.ErrUnknownSchema) {
		t.Fatal(err)
	}
	return b
}

// live starts a sink, which writes files at once. The returned function ends it; ended waits until it ends by itself.
func (b *bench) live(s *sink[schemas.Row]) (end, ended func() error) {
	s.period, s.look = time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(b.t.Context())
	result := make(chan error, 1)
	go func() { result <- s.run(ctx) }()
	ended = func() error {
		defer cancel()
		select {
		case err := <-result:
			return err
		case <-time.After(90 * time.Second):
			return errors.New("the sink goes on")
		}
	}
	return func() error {
		cancel()
		return ended()
	}, ended
}

func (b *bench) position(partition int32) int64 {
	b.t.Helper()
	a, err := Look(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return a.Positions[partition]
}

func (b *bench) end(partition int32) int64 {
	b.t.Helper()
	ends, err := offsets(b.t.Context(), kadm.NewClient(b.cl).ListCommittedOffsets, b.topic)
	if err != nil {
		b.t.Fatal(err)
	}
	return ends[partition]
}

// TestWaitsAtNewerSchema: a sink that meets a newer weir's summary must not file it as undecodable: its rows were lost.
func TestWaitsAtNewerSchema(t *testing.T) {
	t.Parallel()
	const waits, goesOn = 1, 0
	b, rnd := newBench(t, 2), random(t)
	b.summaries(rnd, waits, 3)
	end, _ := b.live(b.newSink(nil))
	b.transaction(waits, true, ofTomorrow(t))
	behind := len(b.want)
	b.summaries(rnd, waits, 3)
	held := b.want[behind:]
	b.want = b.want[:behind:behind]
	b.summaries(rnd, goesOn, 3)
	kafkatest.Eventually(t, "the other partition", func() bool {
		return b.position(goesOn) > 0 && b.position(goesOn) >= b.end(goesOn)-1
	})
	kafkatest.Eventually(t, "what lies before the record", func() bool { return b.position(waits) >= 3 })
	kafkatest.Eventually(t, "a line in the log", func() bool { return b.logged.Count(waitSays) == 1 })
	if value(t, b.metrics.waits.With(labels(waits))) != 1 || value(t, b.metrics.waits.With(labels(goesOn))) != 0 {
		t.Error("the metric does not show which partition waits")
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := b.drain(); err != nil { // and once more from the start
		t.Fatal(err)
	}
	b.check()
	u, err := nextUnknown(t.Context(), b.cfg, waits, b.position(waits), b.end(waits))
	if err != nil || u == nil || u.Offset < 3 || u.TimestampMs == 0 {
		t.Fatalf("nextUnknown: %+v, %v", u, err)
	}
	if u, err := nextUnknown(t.Context(), b.cfg, goesOn, 0, b.end(goesOn)); u != nil || err != nil {
		t.Errorf("nextUnknown where nothing waits: %+v, %v", u, err)
	}

	// The remedy for a record that no weir wrote, under a sink that runs.
	end, _ = b.live(b.newSink(nil))
	kafkatest.Eventually(t, "a second line in the log", func() bool { return b.logged.Count(waitSays) >= 2 })
	if err := AcceptGap(t.Context(), b.cfg, waits, b.logged.Logger()); err != nil {
		t.Fatal(err)
	}
	b.want = append(b.want, held...)
	kafkatest.Eventually(t, "what lies behind the record", func() bool { return b.position(waits) >= b.end(waits)-1 })
	if value(t, b.metrics.waits.With(labels(waits))) != 0 {
		t.Error("the metric shows a partition that does not wait")
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	b.check()
	if err := AcceptGap(t.Context(), b.cfg, waits, b.logged.Logger()); !errors.Is(err, errNoGap) {
		t.Errorf("a second accept-gap: %v, want errNoGap", err)
	}
}

// TestAcceptsOnlyWhatIsNext: accept-gap must not pass rows that the sink has not archived yet.
func TestAcceptsOnlyWhatIsNext(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	log := b.logged.Logger()
	b.transaction(0, true, ofTomorrow(t))
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	if err := AcceptGap(t.Context(), b.cfg, 0, log); err != nil { // a chain that begins with it
		t.Fatal(err)
	}
	b.transaction(0, false, []byte("aborted"))
	b.summaries(rnd, 0, 2)
	b.transaction(0, true, ofTomorrow(t))
	if err := AcceptGap(t.Context(), b.cfg, 0, log); !errors.Is(err, errNoGap) {
		t.Fatalf("accept-gap over rows: %v, want errNoGap", err)
	}
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
	if err := AcceptGap(t.Context(), b.cfg, 0, log); err != nil {
		t.Fatal(err)
	}
	b.summaries(rnd, 0, 1)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
}

func TestAcceptGapOfNothing(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 2), random(t)
	b.summaries(rnd, 0, 1)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	log := b.logged.Logger()
	err := AcceptGap(t.Context(), b.cfg, 99, log)
	if !errors.Is(err, errNoGap) || !strings.Contains(err.Error(), "no partition 99, only 0 to 1") {
		t.Errorf("partition 99: %v", err)
	}
	b.cfg.Sink.Dir = filepath.Join(t.TempDir(), "elsewhere")
	err = AcceptGap(t.Context(), b.cfg, 0, log)
	if !errors.Is(err, errNoGap) || !strings.Contains(err.Error(), b.cfg.Sink.Dir) {
		t.Errorf("a directory without an archive: %v", err)
	}
	if _, err := os.Stat(b.cfg.Sink.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("accept-gap made a directory: %v", err)
	}
}

// remake deletes the topic and makes it again.
func (b *bench) remake(partitions int32) {
	b.t.Helper()
	adm := kadm.NewClient(b.cl)
	if _, err := adm.DeleteTopics(b.t.Context(), testTopic); err != nil {
		b.t.Fatal(err)
	}
	if _, err := adm.CreateTopic(b.t.Context(), partitions, 1, nil, testTopic); err != nil {
		b.t.Fatal(err)
	}
	b.cl.Close() // which knows the old one
	b.connect()
}

// TestTopicReplaced makes a topic anew and lets it grow past the old position. The sink took it for the old topic once,
// and skipped its records before that position.
func TestTopicReplaced(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	b.summaries(rnd, 0, 3)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
	b.remake(1)
	b.want = nil
	b.summaries(rnd, 0, 20)
	err := b.drain()
	if !errors.Is(err, errTopicReplaced) || !strings.Contains(err.Error(), "move it away, or choose another sink.dir") {
		t.Fatalf("a topic made anew: %v, want errTopicReplaced", err)
	}
	if err := AcceptGap(t.Context(), b.cfg, 0, b.logged.Logger()); !errors.Is(err, errTopicReplaced) {
		t.Errorf("accept-gap: %v, want errTopicReplaced", err)
	}
	// Both remedies.
	old := b.cfg.Sink.Dir
	b.cfg.Sink.Dir = t.TempDir()
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
	b.cfg.Sink.Dir = old
	aside := filepath.Join(old, "summaries-of-the-old-topic")
	if err := os.Rename(filepath.Join(old, summariesDir), aside); err != nil {
		t.Fatal(err)
	}
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
}

func TestTopicReplacedUnderARunningSink(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	b.summaries(rnd, 0, 3)
	_, ended := b.live(b.newSink(nil))
	kafkatest.Eventually(t, "the first rows", func() bool { return b.position(0) > 0 })
	b.remake(1)
	b.summaries(rnd, 0, 20)
	b.want = b.want[:0]
	if err := ended(); !errors.Is(err, errTopicReplaced) {
		t.Errorf("a topic made anew: %v, want errTopicReplaced", err)
	}
}

// TestPartitionsAdded: what comes in partitions that are added was not read.
func TestPartitionsAdded(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	b.summaries(rnd, 0, 3)
	s := b.newSink(nil)
	s.period, s.look = time.Hour, 10*time.Millisecond // rows of the last date stay in hand
	ended := make(chan error, 1)
	go func() { ended <- s.run(t.Context()) }()
	kafkatest.Eventually(t, "the rows", func() bool {
		return value(t, b.metrics.position.With(labels(0)))+value(t, b.metrics.lag.With(labels(0))) >= 3
	})
	if _, err := kadm.NewClient(b.cl).CreatePartitions(t.Context(), 1, testTopic); err != nil {
		t.Fatal(err)
	}
	err := <-ended
	if !errors.Is(err, kafka.ErrTopics) || !strings.Contains(err.Error(), "set partitions.job_summary") {
		t.Errorf("a partition added: %v, want ErrTopics", err)
	}
	b.check() // what was in hand is archived
}

// TestEmbeddedBrokerKeepsTopicIDs: a restart of weir up must not look like a topic made anew.
func TestEmbeddedBrokerKeepsTopicIDs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id := func() string {
		cluster := kafkatest.Broker(t, kfake.SeedTopics(1, testTopic), kfake.DataDir(dir))
		defer cluster.Close()
		cl := kafkatest.Client(t, cluster.ListenAddrs())
		defer cl.Close()
		_, id, err := describe(t.Context(), kadm.NewClient(cl), testTopic)
		if err != nil || id == "" {
			t.Fatalf("id %q, %v", id, err)
		}
		return id
	}
	if before, after := id(), id(); before != after {
		t.Errorf("the id was %s, and is %s after a restart", before, after)
	}
}
