package processors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// collectTo runs Collect and keeps its log.
func (b *bench) collectTo() (log *kafkatest.Log, stop func() error, ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	log = &kafkatest.Log{}
	go func() { done <- Collect(ctx, b.cfg, log.Logger(), b.metrics) }()
	return log, func() error { cancel(); return <-done }, done
}

func (b *bench) stopOrFail(stop func() error) {
	b.t.Helper()
	if err := stop(); err != nil {
		b.t.Fatal(err)
	}
}

// putTo puts values into a partition of a topic.
func (b *bench) putTo(topic string, partition int32, values ...[]byte) {
	b.t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: b.cfg.Prefix + topic, Partition: partition, Value: v}
		if err := b.cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestRubbishStopsItsPartitionAlone(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, 2)
	b.cfg.Collect.MaxRejects = 5
	log, stop, ended := b.collectTo()
	for range 7 {
		b.putTo(schemas.TopicCounters, 0, []byte("rubbish"))
	}
	b.eventually("the stop", b.stopped("collect.max_rejects"))
	start := time.Now().UnixMilli()/simT*simT - 5*simT
	for i := range int64(3) {
		at := start + i*simT
		tick := tickOf(at, false, tickJob("whole", 1, "n1"))
		b.putTo(schemas.TopicCounters, 1, encode(t, batch("n1", "whole", at, simT, 1)), encode(t, tick))
		b.eventually("the interval of the other partition", b.summaries(int(i)+1))
	}
	if len(ended) > 0 {
		t.Errorf("the process ended: %v", <-ended)
	}
	b.stopOrFail(stop)
	if n := log.Count("partition stopped"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// A stop moves no position, and what Progress says beside that stays: open records, rejected offsets, counts, loads.
func TestAStopKeepsWhatProgressHas(t *testing.T) {
	b := newBench(t)
	b.cfg.Collect.MaxRejects = 5
	b.interval(9)
	start := time.Now().UnixMilli()/simT*simT - 4*simT
	b.put(encode(t, batch("n1", "whole", start, simT, 1)), []byte("rubbish"))
	stop, _ := b.collect()
	b.eventually("a commit with an open record", func() bool {
		p := b.progress()
		return p.Open == 1 && len(p.Rejected) == 1
	})
	before := b.progress()
	for range 9 {
		b.put([]byte("rubbish"))
	}
	b.eventually("the stop", b.stopped("collect.max_rejects"))
	b.stopOrFail(stop)
	after := b.progress()
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
	b.cfg.Collect.MaxRejects = 100
	b.put(encode(t, tickOf(start, false, tickJob("whole", 1, "n1"))))
	b.collectUntil("the open record's summary", b.summaries(2))
	if c := b.progress().Counts; c.Summarized != before.Counts.Summarized+1 || c.Rejected != 10 || c.Lost > 0 {
		t.Errorf("%+v", c)
	}
}

// replaceCounters deletes the input topic and makes it again.
func (b *bench) replaceCounters() {
	b.t.Helper()
	if err := b.cluster.DeleteTopic(b.cfg.Prefix + schemas.TopicCounters); err != nil {
		b.t.Fatal(err)
	}
	b.createTopics()
	b.cl.PurgeTopicsFromClient(b.cfg.Prefix + schemas.TopicCounters) // it would go on with the old one
}

func TestATopicMadeAnewThatHasGrownIsNotSkipped(t *testing.T) {
	b := newBench(t)
	b.interval(30)
	b.interval(29)
	b.collectUntil("two summaries", b.summaries(2))
	old := b.progress()
	b.replaceCounters()
	for i := range int64(5) {
		b.interval(20 - i)
	}
	stop, _ := b.collect()
	b.eventually("the stop",
		b.stopped("deleted and made again", old.TopicID, b.cfg.Prefix+schemas.TopicProgress))
	b.stopOrFail(stop)
	if p := b.progress(); p.Position != old.Position || len(b.read(schemas.TopicJobSummary)) != 2 {
		t.Errorf("it went on: %+v", p)
	}
	if err := b.cluster.DeleteTopic(b.cfg.Prefix + schemas.TopicProgress); err != nil { // the remedy
		t.Fatal(err)
	}
	b.createTopics()
	b.collectUntil("all that the new topic has", b.summaries(7))
}

func TestATopicMadeAnewWhileItIsRead(t *testing.T) {
	b := newBench(t)
	stop, _ := b.collect()
	b.interval(30)
	b.eventually("a summary", b.summaries(1))
	b.replaceCounters()
	for i := range int64(5) {
		b.interval(20 - i)
	}
	b.eventually("the stop", b.stopped("deleted and made again"))
	b.stopOrFail(stop)
	if n := len(b.read(schemas.TopicJobSummary)); n != 1 {
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
		l := &loop{stage: stage{input: "counters"}}
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
	b.interval(30)
	_, end, err := kafka.Bounds(t.Context(), b.adm, b.cfg.Prefix+schemas.TopicCounters, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.commitProgress(&schemas.Progress{Position: end, Hold: end})
	b.interval(29)
	b.collectUntil("the next summary", b.summaries(1))
	if p := b.progress(); len(p.TopicID) != 32 {
		t.Errorf("%+v", p)
	}
}

// commitProgress writes a Progress as a loop does.
func (b *bench) commitProgress(p *schemas.Progress) {
	b.t.Helper()
	cl := b.client(kgo.TransactionalID("older"))
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	record := &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicProgress, Value: encode(b.t, p)}
	err := cl.ProduceSync(b.t.Context(), record).FirstErr()
	if err := errors.Join(err, cl.EndTransaction(b.t.Context(), kgo.TryCommit)); err != nil {
		b.t.Fatal(err)
	}
}

// A position that no loop committed moves nobody, neither back nor ahead.
func TestProgressByHandIsLeftOut(t *testing.T) {
	b := newBench(t)
	b.interval(5)
	b.collectUntil("a summary", b.summaries(1))
	b.interval(4)
	ahead := &schemas.Progress{Position: 1 << 40, Hold: 1 << 40}
	b.putTo(schemas.TopicProgress, 0, encode(t, &schemas.Progress{}), encode(t, ahead))
	b.collectUntil("a second summary", b.summaries(2))
	if c := b.progress().Counts; c.Summarized != 2 || c.Ticks != 2 {
		t.Errorf("%+v", c)
	}
}

// A topic of positions that is deleted and made again under a running collector costs nothing: no summary comes twice.
func TestProgressMadeAgainUnderARunningLoop(t *testing.T) {
	b := newBench(t)
	log, stop, _ := b.collectTo()
	b.interval(5)
	b.eventually("a summary", b.summaries(1))
	if err := b.cluster.DeleteTopic(b.cfg.Prefix + schemas.TopicProgress); err != nil {
		t.Fatal(err)
	}
	b.createTopics()
	for n := range int64(3) {
		b.interval(4 - n)
		b.eventually("the next summary", b.summaries(int(n)+2))
	}
	if c := b.progress().Counts; c.Summarized != 4 || c.Ticks != 4 {
		t.Errorf("%+v", c)
	}
	if n := log.Count("topic of positions was emptied"); n != 1 {
		t.Errorf("said %d times", n)
	}
	b.stopOrFail(stop)
}

// manyOf has many outputs at the Tick that closes anything.
type manyOf struct {
	Fold
	outputs func(tick Effects) []schemas.Record
}

func (f manyOf) Apply(e Entry) Effects {
	fx := f.Fold.Apply(e)
	if fx.Closes {
		fx.Outputs = append(f.outputs(fx), fx.Outputs...)
	}
	return fx
}

// collectMany runs the loop over a fold that has more outputs.
func (b *bench) collectMany(outputs func(tick Effects) []schemas.Record) (stop func() error) {
	input, progress := b.cfg.Prefix+schemas.TopicCounters, b.cfg.Prefix+schemas.TopicProgress
	newFold := func(_ context.Context, l *loop, _ *kadm.Client, p *schemas.Progress) (Fold, error) {
		return manyOf{NewCollector(b.cfg.Cluster, l.partition, 1, p), outputs}, nil
	}
	s := stage{name: "collect", input: input, progress: progress, newFold: newFold}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- own(ctx, b.cfg, slog.New(slog.NewTextHandler(b.t.Output(), nil)), b.metrics, s) }()
	return func() error { cancel(); return <-done }
}

func wideSummary(job string, metrics int) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: simCluster, JobID: job, IntervalStart: simEpochMs, IntervalMs: simT,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1,
	}
	mean, deciles := 1.0, slices.Repeat([]float64{1}, 11)
	for n := range metrics {
		s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
			Name: fmt.Sprintf("metric_with_a_long_name_that_a_stranger_has_chosen_%d", n), Unit: "1",
			Scope: schemas.ScopeCore, Count: 1, Mean: &mean, Deciles: &deciles,
		})
	}
	return s
}

// More than a client buffers (50,000 records).
func TestATickOfManyJobsCommits(t *testing.T) {
	const jobs = 60_000
	b := newBench(t)
	stop := b.collectMany(func(Effects) (all []schemas.Record) {
		for n := range jobs {
			all = append(all, wideSummary(fmt.Sprintf("j%d", n), 1))
		}
		return all
	})
	b.interval(3)
	b.eventually("the commit", func() bool { return b.progress().Closed != nil })
	b.stopOrFail(stop)
	if n := len(b.read(schemas.TopicJobSummary)); n != jobs+1 {
		t.Errorf("%d summaries", n)
	}
}

func TestAnOutputThatFitsNowhereDoesNotStopTheLoop(t *testing.T) {
	b := newBench(t)
	stop := b.collectMany(func(Effects) []schemas.Record {
		return []schemas.Record{wideSummary("wide", 40_000), &schemas.JobSummary{JobID: "of no cluster"}}
	})
	b.interval(3)
	b.eventually("the interval", b.summaries(2))
	b.interval(2)
	b.eventually("the next", b.summaries(4))
	b.stopOrFail(stop)
	if c := b.progress().Counts; c.Surplus == 0 || c.Surplus%2 != 0 {
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
	l := &loop{cfg: b.cfg, patience: commitTimeout}
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
		b.interval(9)
		b.eventually("a summary", b.summaries(1))
		topic = b.cfg.Prefix + topic
		if _, err := b.adm.CreatePartitions(t.Context(), 2, topic); err != nil {
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
		b.put(encode(t, batch("slow", "whole", now-(i+2)*slow, slow, 1)))
	}
	for i := range int64(2) {
		b.put(encode(t, &schemas.Tick{IntervalStart: now - (10-i)*slow, IntervalMs: slow}))
	}
	b.interval(3)
	b.eventually("a summary", b.summaries(1))
	if got := series(t, b.shown)["weir_records_other_interval_total"]; got != 6 {
		t.Errorf("%v are counted", got)
	}
	b.stopOrFail(stop)
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
	b.interval(9)
	b.collectUntil("a summary", b.summaries(1))
	unknown := append([]byte{0xC3, 0x01}, bytes.Repeat([]byte{7}, 20)...)
	for range 20 {
		other := encode(t, &schemas.Gap{Node: "n", Reason: "not a Progress"})
		b.putTo(schemas.TopicProgress, 0, []byte("rubbish"), unknown, other)
	}
	b.interval(8)
	log, stop, _ := b.collectTo()
	b.eventually("the next summary", b.summaries(2))
	b.stopOrFail(stop)
	if n := log.Count("topic of positions"); n != 1 {
		t.Errorf("%d lines of the log are about them", n)
	}
}
