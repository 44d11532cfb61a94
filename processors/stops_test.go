package processors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/processors/foldtest"
	"github.com/weirhpc/weir/schemas"
)

// collectTo runs Collect and keeps its log.
func (b *bench) collectTo() (log *kafkatest.Log, stop func() error, ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	log = &kafkatest.Log{}
	go func() { done <- Collect(ctx, b.Config, log.Logger(), b.metrics) }()
	return log, func() error { cancel(); return <-done }, done
}

func TestRubbishStopsItsPartitionAlone(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, 2)
	b.Config.Collect.MaxRejects = 5
	log, stop, ended := b.collectTo()
	for range 7 {
		b.PutTo(schemas.TopicCounters, 0, []byte("rubbish"))
	}
	b.Eventually("the stop", b.Stopped("collect.max_rejects"))
	start := time.Now().UnixMilli()/foldtest.IntervalMs*foldtest.IntervalMs - 5*foldtest.IntervalMs
	for i := range int64(3) {
		at := start + i*foldtest.IntervalMs
		tick := foldtest.Tick(at, false, foldtest.TickJob("whole", 1, "n1"))
		batch := foldtest.Batch("n1", "whole", at, foldtest.IntervalMs, 1)
		b.PutTo(schemas.TopicCounters, 1, foldtest.Encode(t, batch), foldtest.Encode(t, tick))
		b.Eventually("the interval of the other partition", b.Summaries(int(i)+1))
	}
	if len(ended) > 0 {
		t.Errorf("the process ended: %v", <-ended)
	}
	b.StopOrFail(stop)
	if n := log.Count("partition stopped"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// A stop moves no position, and what Progress says beside that stays: open records, rejected offsets, counts, loads.
func TestAStopKeepsWhatProgressHas(t *testing.T) {
	b := newBench(t)
	b.Config.Collect.MaxRejects = 5
	b.Interval(9)
	start := time.Now().UnixMilli()/foldtest.IntervalMs*foldtest.IntervalMs - 4*foldtest.IntervalMs
	b.Put(foldtest.Encode(t, foldtest.Batch("n1", "whole", start, foldtest.IntervalMs, 1)), []byte("rubbish"))
	stop, _ := b.collect()
	b.Eventually("a commit with an open record", func() bool {
		p := b.Progress()
		return p.Open == 1 && len(p.Rejected) == 1
	})
	before := b.Progress()
	for range 9 {
		b.Put([]byte("rubbish"))
	}
	b.Eventually("the stop", b.Stopped("collect.max_rejects"))
	b.StopOrFail(stop)
	after := b.Progress()
	if after.Stopped = ""; after.From != after.Position {
		t.Errorf("from %d to %d", after.From, after.Position)
	}
	// The nine may come in two polls: the first of them is then committed.
	if after.Open != 1 || after.Hold != before.Hold || len(after.Loads) != len(before.Loads) ||
		*after.Closed != *before.Closed || after.TopicID != before.TopicID ||
		after.Counts.Summarized != before.Counts.Summarized ||
		after.Counts.Rejected != int64(len(after.Rejected)) || after.Counts.Rejected != after.Unreadable {
		t.Errorf("%+v after %+v", after, before)
	}
	b.Config.Collect.MaxRejects = 100
	b.Put(foldtest.Encode(t, foldtest.Tick(start, false, foldtest.TickJob("whole", 1, "n1"))))
	b.collectUntil("the open record's summary", b.Summaries(2))
	if c := b.Progress().Counts; c.Summarized != before.Counts.Summarized+1 || c.Rejected != 10 || c.Lost > 0 {
		t.Errorf("%+v", c)
	}
}

// replaceCounters deletes the input topic and makes it again.
func (b *bench) replaceCounters() {
	b.T.Helper()
	if err := b.Broker.DeleteTopic(b.Config.Prefix + schemas.TopicCounters); err != nil {
		b.T.Fatal(err)
	}
	b.CreateTopics()
	b.Kafka.PurgeTopicsFromClient(b.Config.Prefix + schemas.TopicCounters) // it would go on with the old one
}

func TestATopicMadeAnewThatHasGrownIsNotSkipped(t *testing.T) {
	b := newBench(t)
	b.Interval(30)
	b.Interval(29)
	b.collectUntil("two summaries", b.Summaries(2))
	old := b.Progress()
	b.replaceCounters()
	for i := range int64(5) {
		b.Interval(20 - i)
	}
	stop, _ := b.collect()
	b.Eventually("the stop",
		b.Stopped("deleted and made again", old.TopicID, b.Config.Prefix+schemas.TopicProgress))
	b.StopOrFail(stop)
	if p := b.Progress(); p.Position != old.Position || len(b.Read(schemas.TopicJobSummary)) != 2 {
		t.Errorf("it went on: %+v", p)
	}
	if err := b.Broker.DeleteTopic(b.Config.Prefix + schemas.TopicProgress); err != nil { // the remedy
		t.Fatal(err)
	}
	b.CreateTopics()
	b.collectUntil("all that the new topic has", b.Summaries(7))
}

func TestATopicMadeAnewWhileItIsRead(t *testing.T) {
	b := newBench(t)
	stop, _ := b.collect()
	b.Interval(30)
	b.Eventually("a summary", b.Summaries(1))
	b.replaceCounters()
	for i := range int64(5) {
		b.Interval(20 - i)
	}
	b.Eventually("the stop", b.Stopped("deleted and made again"))
	b.StopOrFail(stop)
	if n := len(b.Read(schemas.TopicJobSummary)); n != 1 {
		t.Errorf("%d summaries", n)
	}
}

// The embedded broker keeps the ids of its topics through a clean stop.
func TestTopicIDsOutliveTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "broker")
	var ids []string
	for range 2 {
		cluster := kafkatest.Broker(t, kfake.DataDir(dir))
		cl := kafkatest.Client(t, cluster.ListenAddrs())
		adm := kadm.NewClient(cl)
		if len(ids) == 0 {
			if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, "counters"); err != nil {
				t.Fatal(err)
			}
		}
		l := &loop{stage: Stage{Input: "counters"}}
		id, err := l.topicID(t.Context(), adm)
		if err != nil || len(id) != 32 {
			t.Errorf("id %q, %v", id, err)
		}
		ids = append(ids, id)
		cl.Close()
		cluster.Close()
	}
	if ids[0] != ids[1] {
		t.Errorf("%v", ids)
	}
}

// A Progress of a version that did not know the id is adopted.
func TestProgressWithoutATopicIDIsAdopted(t *testing.T) {
	b := newBench(t)
	b.Interval(30)
	_, end, err := kafka.Bounds(t.Context(), b.Admin, b.Config.Prefix+schemas.TopicCounters, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.commitProgress(&schemas.Progress{Position: end, Hold: end})
	b.Interval(29)
	b.collectUntil("the next summary", b.Summaries(1))
	if p := b.Progress(); len(p.TopicID) != 32 {
		t.Errorf("%+v", p)
	}
}

// commitProgress writes a Progress as a loop does.
func (b *bench) commitProgress(p *schemas.Progress) {
	b.T.Helper()
	cl := b.Client(kgo.TransactionalID("older"))
	if err := cl.BeginTransaction(); err != nil {
		b.T.Fatal(err)
	}
	record := &kgo.Record{Topic: b.Config.Prefix + schemas.TopicProgress, Value: foldtest.Encode(b.T, p)}
	err := cl.ProduceSync(b.T.Context(), record).FirstErr()
	if err := errors.Join(err, cl.EndTransaction(b.T.Context(), kgo.TryCommit)); err != nil {
		b.T.Fatal(err)
	}
}

// A position that no loop committed moves nobody, neither back nor ahead.
func TestProgressByHandIsLeftOut(t *testing.T) {
	b := newBench(t)
	b.Interval(5)
	b.collectUntil("a summary", b.Summaries(1))
	b.Interval(4)
	ahead := &schemas.Progress{Position: 1 << 40, Hold: 1 << 40}
	b.PutTo(schemas.TopicProgress, 0, foldtest.Encode(t, &schemas.Progress{}), foldtest.Encode(t, ahead))
	b.collectUntil("a second summary", b.Summaries(2))
	if c := b.Progress().Counts; c.Summarized != 2 || c.Ticks != 2 {
		t.Errorf("%+v", c)
	}
}

// A topic of positions that is deleted and made again under a running collector costs nothing: no summary comes twice.
func TestProgressMadeAgainUnderARunningLoop(t *testing.T) {
	b := newBench(t)
	log, stop, _ := b.collectTo()
	b.Interval(5)
	b.Eventually("a summary", b.Summaries(1))
	if err := b.Broker.DeleteTopic(b.Config.Prefix + schemas.TopicProgress); err != nil {
		t.Fatal(err)
	}
	b.CreateTopics()
	for n := range int64(3) {
		b.Interval(4 - n)
		b.Eventually("the next summary", b.Summaries(int(n)+2))
	}
	if c := b.Progress().Counts; c.Summarized != 4 || c.Ticks != 4 {
		t.Errorf("%+v", c)
	}
	if n := log.Count("topic of positions was emptied"); n != 1 {
		t.Errorf("said %d times", n)
	}
	b.StopOrFail(stop)
}

// manyOf has many outputs at the Tick that closes anything.
type manyOf struct {
	fold.Fold
	outputs func(tick fold.Effects) []schemas.Record
}

func (f manyOf) Apply(e fold.Entry) fold.Effects {
	fx := f.Fold.Apply(e)
	if fx.Closes {
		fx.Outputs = append(f.outputs(fx), fx.Outputs...)
	}
	return fx
}

// collectMany runs the loop over a fold that has more outputs.
func (b *bench) collectMany(outputs func(tick fold.Effects) []schemas.Record) (stop func() error) {
	input, progress := b.Config.Prefix+schemas.TopicCounters, b.Config.Prefix+schemas.TopicProgress
	newFold := func(_ context.Context, of *Partition, last *schemas.Progress) (fold.Fold, error) {
		return manyOf{fold.NewCollector(b.Config.Cluster, of.Number, 1, last), outputs}, nil
	}
	s := Stage{Name: "collect", Input: input, Progress: progress, NewFold: newFold}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Own(ctx, b.Config, slog.New(slog.NewTextHandler(b.T.Output(), nil)), b.metrics, s) }()
	return func() error { cancel(); return <-done }
}

// More than a client buffers (50,000 records).
func TestATickOfManyJobsCommits(t *testing.T) {
	const jobs = 60_000
	b := newBench(t)
	stop := b.collectMany(func(fold.Effects) (all []schemas.Record) {
		for n := range jobs {
			all = append(all, wideSummary(fmt.Sprintf("j%d", n), 1))
		}
		return all
	})
	b.Interval(3)
	b.Eventually("the commit", func() bool { return b.Progress().Closed != nil })
	b.StopOrFail(stop)
	if n := len(b.Read(schemas.TopicJobSummary)); n != jobs+1 {
		t.Errorf("%d summaries", n)
	}
}

func TestAnOutputThatFitsNowhereDoesNotStopTheLoop(t *testing.T) {
	b := newBench(t)
	stop := b.collectMany(func(fold.Effects) []schemas.Record {
		return []schemas.Record{wideSummary("wide", 40_000), &schemas.JobSummary{JobID: "of no cluster"}}
	})
	b.Interval(3)
	b.Eventually("the interval", b.Summaries(2))
	b.Interval(2)
	b.Eventually("the next", b.Summaries(4))
	b.StopOrFail(stop)
	if c := b.Progress().Counts; c.Surplus == 0 || c.Surplus%2 != 0 {
		t.Errorf("%d metrics left out are said", c.Surplus)
	}
}

// Slow brokers: a commit that takes too long gets more time, and one of many bytes has it from the beginning.
func TestTransactionsGetTimeByTheirBytes(t *testing.T) {
	for bytes, want := range map[int]time.Duration{
		0: commitTimeout, 1 << 20: commitTimeout, 400 << 20: 200 * time.Second, 1 << 40: maxCommitTimeout,
	} {
		if got := timeFor(bytes); got != want {
			t.Errorf("%d bytes: %v, want %v", bytes, got, want)
		}
	}
	b := newBench(t)
	l := &loop{cfg: b.Config, patience: commitTimeout}
	err := l.transact(t.Context(), nil, &encoded{bytes: 400 << 20})
	if !errors.Is(err, errImpatient) || l.patience != 200*time.Second {
		t.Errorf("%v, then %v", err, l.patience)
	}
}

// One pause between two looks at the partitions is ten seconds: all of them pass at the same time.
func TestPartitionsAddedEndTheServiceWithTheRemedy(t *testing.T) {
	t.Parallel()
	type added struct {
		topic string
		stop  func() error
		ended <-chan error
	}
	var all []added
	for _, topic := range []string{
		schemas.TopicPartials, schemas.TopicJobSummary, schemas.TopicProgress, schemas.TopicCounters,
	} {
		b := newBenchOf(t, 1)
		stop, ended := b.collect()
		b.Interval(9)
		b.Eventually("a summary", b.Summaries(1))
		topic = b.Config.Prefix + topic
		if _, err := b.Admin.CreatePartitions(t.Context(), 2, topic); err != nil {
			t.Fatal(err)
		}
		all = append(all, added{topic, stop, ended})
	}
	for _, c := range all {
		t.Run(c.topic, func(t *testing.T) {
			select {
			case err := <-c.ended:
				if !errors.Is(err, kafka.ErrTopics) || !strings.Contains(err.Error(), c.topic) ||
					!strings.Contains(err.Error(), "set ") {
					t.Errorf("got %v", err)
				}
			case <-time.After(90 * time.Second):
				t.Errorf("it goes on: %v", c.stop())
			}
		})
	}
}

func TestJobsArePlacedByTheConfiguredPartitions(t *testing.T) {
	p := placing{kgo.StickyKeyPartitioner(nil), map[string]int{"job-summary": 3}}.ForTopic("job-summary")
	for n := range 200 {
		r := &kgo.Record{Topic: "job-summary", Key: fmt.Appendf(nil, "j%d/0", n)}
		if before, after := p.Partition(r, 3), p.Partition(r, 8); before != after {
			t.Fatalf("job %d goes to %d, and to %d once there are more partitions", n, before, after)
		}
	}
}

func TestAnotherIntervalIsSaidOnce(t *testing.T) {
	b := newBench(t)
	log, stop, _ := b.collectTo()
	const slow = 10_000
	now := time.Now().UnixMilli() / slow * slow
	for i := range int64(4) {
		b.Put(foldtest.Encode(t, foldtest.Batch("slow", "whole", now-(i+2)*slow, slow, 1)))
	}
	for i := range int64(2) {
		b.Put(foldtest.Encode(t, &schemas.Tick{IntervalStart: now - (10-i)*slow, IntervalMs: slow}))
	}
	b.Interval(3)
	b.Eventually("a summary", b.Summaries(1))
	if got := series(t, b.Shown)["weir_records_other_interval_total"]; got != 6 {
		t.Errorf("%v are counted", got)
	}
	b.StopOrFail(stop)
	for _, want := range []string{"records have another interval", "Ticks have another interval"} {
		if n := log.Count(want); n != 1 {
			t.Errorf("%q is said %d times", want, n)
		}
	}
	if log.Count("node=slow") != 1 || log.Count("interval_ms=10000") != 2 || log.Count("own_interval_ms=1000") != 2 ||
		log.Count("set interval to the same value") != 2 {
		t.Error("the values, a node or the remedy are missing")
	}
}

// Records of strangers in the topic of positions hold the partition up no more than they fill the log.
func TestRubbishAmongPositionsIsLeftOut(t *testing.T) {
	b := newBench(t)
	b.Interval(9)
	b.collectUntil("a summary", b.Summaries(1))
	unknown := append([]byte{0xC3, 0x01}, bytes.Repeat([]byte{7}, 20)...)
	for range 20 {
		other := foldtest.Encode(t, &schemas.Gap{Node: "n", Reason: "not a Progress"})
		b.PutTo(schemas.TopicProgress, 0, []byte("rubbish"), unknown, other)
	}
	b.Interval(8)
	log, stop, _ := b.collectTo()
	b.Eventually("the next summary", b.Summaries(2))
	b.StopOrFail(stop)
	if n := log.Count("topic of positions"); n != 1 {
		t.Errorf("%d lines of the log are about them", n)
	}
}
