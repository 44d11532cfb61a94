package processors

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/processors/looptest"
	"github.com/weirhpc/weir/schemas"
)

// bench is a broker with the topics, and with the metrics of the services that run here.
type bench struct {
	*looptest.Bench
	metrics *Metrics
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := looptest.New(t)
	return &bench{b, NewMetrics(b.Shown)}
}

func newBenchOf(t *testing.T, collectors int) *bench {
	t.Helper()
	b := looptest.NewOf(t, collectors)
	return &bench{b, NewMetrics(b.Shown)}
}

// collect runs Collect; stop ends it and returns its error.
func (b *bench) collect() (stop func() error, ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Collect(ctx, b.Config, slog.New(slog.NewTextHandler(b.T.Output(), nil)), b.metrics) }()
	stop = func() error { cancel(); return <-done }
	return stop, done
}

// collectUntil runs Collect until what must come has come.
func (b *bench) collectUntil(what string, holds func() bool) {
	b.T.Helper()
	stop, _ := b.collect()
	b.Eventually(what, holds)
	if err := stop(); err != nil {
		b.T.Fatal(err)
	}
}

func TestABadDeployStopsAndNamesTheSetting(t *testing.T) {
	b := newBench(t)
	b.Config.Collect.MaxRejects = 5
	b.Interval(3)
	open := time.Now().UnixMilli() / foldtest.IntervalMs * foldtest.IntervalMs // it holds back what follows
	b.Put(foldtest.Encode(t, foldtest.Batch("n1", "whole", open, foldtest.IntervalMs, 1)))
	for range 7 {
		b.Put([]byte("rubbish"))
	}
	stop, ended := b.collect()
	b.Eventually("the stop",
		b.Stopped("collect.max_rejects", schemas.ErrNotSingleObject.Error(), errTooManyRejects.Error()))
	at := b.Progress().Position
	b.Eventually("several tries", b.Tried(3))
	shown := series(t, b.Shown)["weir_partition_stopped"]
	if now := b.Progress().Position; len(ended) > 0 || shown != 1 || now != at {
		t.Errorf("ended %v, stopped %v, position %d after %d", len(ended) > 0, shown, now, at)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	b.Config.Collect.MaxRejects = 100
	b.collectUntil("seven rejects", func() bool { return len(b.Read(schemas.TopicRejects)) == 7 && b.Summaries(1)() })
	if p := b.Progress(); p.Counts.Rejected != 7 || len(p.Rejected) != 7 || p.Hold >= p.Position || p.Stopped != "" {
		t.Errorf("%+v", p)
	}
}

// With nothing but rubbish no interval is open, and a successor would have nothing to fold again.
func TestRubbishAloneStopsToo(t *testing.T) {
	b := newBench(t)
	b.Config.Collect.MaxRejects = 5
	stop, _ := b.collect()
	for i := range 12 {
		b.Put([]byte("rubbish"))
		if i == 3 {
			b.Interval(2) // a Tick in between makes no difference
			b.Eventually("a commit in between", b.Summaries(1))
		}
	}
	b.Eventually("the stop", b.Stopped("collect.max_rejects"))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	at := b.Progress()
	stop, _ = b.collect() // another process decides the same
	b.Eventually("its tries", b.Tried(2))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if p := b.Progress(); p.Position != at.Position || p.Stopped == "" || p.Counts.Rejected > 5 {
		t.Errorf("%+v after %+v", p, at)
	}
}

func TestProgressIsFoundBehindAbortedTransactions(t *testing.T) {
	b := newBench(t)
	b.Interval(5)
	b.collectUntil("a summary", b.Summaries(1))
	zombie := b.Client(kgo.TransactionalID("someone"))
	value := foldtest.Encode(t, &schemas.Progress{Position: 999, Hold: 999})
	for range 150 {
		if err := zombie.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		wrong := &kgo.Record{Topic: b.Config.Prefix + schemas.TopicProgress, Value: value}
		if err := zombie.ProduceSync(t.Context(), wrong).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := zombie.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
	b.Interval(4)
	b.collectUntil("a second summary", b.Summaries(2))
	if c := b.Progress().Counts; c.Summarized != 2 || c.Ticks != 2 {
		t.Errorf("%+v", c)
	}
}

// TestFencingComesFirst: an older owner commits at the last moment, when the newer one asks for its producer id. An
// owner that reads Progress before that would fold again what the older one committed.
func TestFencingComesFirst(t *testing.T) {
	b := newBench(t)
	b.Interval(5)
	b.collectUntil("a summary", b.Summaries(1))
	older := b.Client(kgo.TransactionalID(b.Config.Prefix + "collect-0"))
	last := b.Progress()
	b.Interval(4)
	_, end, err := kafka.Bounds(t.Context(), b.Admin, b.Config.Prefix+schemas.TopicCounters, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := *last
	closed := *last.Closed + foldtest.IntervalMs
	p.From, p.Position, p.Hold, p.Closed = last.Position, end, end, &closed
	if err := older.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	summary := &schemas.JobSummary{
		Cluster: foldtest.Cluster, JobID: "whole", IntervalStart: closed, IntervalMs: foldtest.IntervalMs,
		Method: schemas.MethodExact,
	}
	err = older.ProduceSync(t.Context(),
		&kgo.Record{Topic: b.Config.Prefix + schemas.TopicJobSummary, Value: foldtest.Encode(t, summary)},
		&kgo.Record{
			Topic: b.Config.Prefix + schemas.TopicProgress, Key: schemas.PartitionKey(0), Value: foldtest.Encode(t, &p),
		},
	).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
	committed := make(chan error, 1)
	b.Broker.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Broker.SleepControl(func() { committed <- older.EndTransaction(context.Background(), kgo.TryCommit) })
		return nil, nil, false
	})
	stop, _ := b.collect()
	if err := <-committed; err != nil {
		t.Fatalf("the older owner could not commit, so this proves nothing: %v", err)
	}
	b.Interval(3)
	b.Eventually("the next summary", func() bool { return len(b.Read(schemas.TopicJobSummary)) >= 3 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(b.Read(schemas.TopicJobSummary)); n != 3 {
		t.Errorf("%d summaries of three intervals", n)
	}
}

func TestARecordThatFailsIsNotCommittedAround(t *testing.T) {
	b := newBench(t)
	topic, tiny, roomy := b.Config.Prefix+schemas.TopicJobSummary, "100", "4194304"
	set := func(v *string) {
		limit := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: v}}
		if _, err := b.Admin.AlterTopicConfigs(t.Context(), limit, topic); err != nil {
			t.Fatal(err)
		}
	}
	set(&tiny)
	stop, _ := b.collect()
	b.Interval(3)
	b.Eventually("several tries", b.Tried(2))
	if n := len(b.Read(schemas.TopicJobSummary)); n != 0 || b.Progress().Closed != nil {
		t.Fatalf("%d summaries; %+v was committed without its output", n, b.Progress())
	}
	set(&roomy)
	b.Eventually("the summary", b.Summaries(1))
	b.Interval(2)
	b.Eventually("the next", b.Summaries(2))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if c := b.Progress().Counts; c.Summarized != 2 || c.Outputs != 4 { // two of the job, two of _system
		t.Errorf("%+v", c)
	}
}

func TestWhatRetentionTookIsSaid(t *testing.T) {
	b := newBench(t)
	b.Interval(9)
	b.collectUntil("a summary", b.Summaries(1))
	before := b.Progress().Position
	b.Interval(8)
	b.Interval(7)
	_, end, err := kafka.Bounds(t.Context(), b.Admin, b.Config.Prefix+schemas.TopicCounters, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Broker.DeleteRecords(b.Config.Prefix+schemas.TopicCounters, 0, end); err != nil {
		t.Fatal(err)
	}
	b.Interval(6)
	b.collectUntil("the summary of what is left", b.Summaries(2))
	var said *schemas.Progress
	for _, r := range b.Read(schemas.TopicProgress) {
		if p := r.(*schemas.Progress); p.LostFrom != nil {
			said = p
		}
	}
	if said == nil || *said.LostFrom != before || *said.LostTo != end || b.Progress().Counts.Lost != end-before {
		t.Errorf("lost [%d, %d): %+v says otherwise", before, end, said)
	}
}

func TestATopicMadeAnewIsNotTakenForTheOldOne(t *testing.T) {
	b := newBench(t)
	b.Interval(9)
	b.Interval(8)
	b.collectUntil("two summaries", b.Summaries(2))
	if err := b.Broker.DeleteTopic(b.Config.Prefix + schemas.TopicCounters); err != nil {
		t.Fatal(err)
	}
	b.CreateTopics()
	stop, _ := b.collect()
	b.Eventually("the stop", b.Stopped("deleted and made again", b.Config.Prefix+schemas.TopicProgress))
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestMergeWaitsForBrokers(t *testing.T) {
	b := newBench(t)
	b.Config.Kafka.Brokers = []string{"127.0.0.1:1"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log kafkatest.Log
	ended := make(chan error, 1)
	go func() { ended <- Merge(ctx, b.Config, log.Logger(), b.metrics) }()
	away := func() int { return log.Count("no connection to broker") }
	b.Eventually("the outage in the log", func() bool { return away() > 0 })
	<-time.After(time.Second) // several tries, at back-offs of 300 ms at most: nothing shows them
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("brokers that are away end it: %v", err)
	}
	if n := away(); n != 1 {
		t.Errorf("logged %d times that the broker is away: %s", n, log.String())
	}
}

// TestAPartitionThatCannotBeReadForAnotherReason: the log has every reason, once.
func TestAPartitionThatCannotBeReadForAnotherReason(t *testing.T) {
	var log kafkatest.Log
	l := &loop{stage: Stage{Input: "counters"}, log: log.Logger()}
	trouble := reading{since: time.Now().Add(-time.Minute)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is waited for
	for _, err := range []error{
		kerr.LeaderNotAvailable, kerr.LeaderNotAvailable, kerr.NotLeaderForPartition, kerr.NotLeaderForPartition,
	} {
		if err := l.checkFetches(ctx, kgo.NewErrFetch(err), &trouble); err != nil {
			t.Errorf("%v is not waited for", err)
		}
	}
	for _, reason := range []string{"LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"} {
		if n := log.Count(reason); n != 1 {
			t.Errorf("%s was logged %d times", reason, n)
		}
	}
}
