package processors

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// bench is a broker with weir's topics and one collector.
type bench struct {
	t       *testing.T
	cluster *kfake.Cluster
	cfg     config.Config
	cl      *kgo.Client
	adm     *kadm.Client
	shown   *prometheus.Registry
	metrics *Metrics
}

// newBench is the only one of its test. The test runs beside others, since it waits more than it works.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return newBenchOf(t, 1)
}

func newBenchOf(t *testing.T, collectors int) *bench {
	t.Helper()
	cluster := kafkatest.Broker(t)
	d := config.Default()
	d.Cluster, d.Interval, d.Collectors, d.BackoffCap = simCluster, time.Second, collectors, 300*time.Millisecond
	d.Partitions = config.Partitions{Routes: 1, JobSummary: 1, Partials: 1}
	d.Kafka.Brokers = cluster.ListenAddrs()
	cfg, err := config.Load(config.Source{Defaults: d})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	b := &bench{t: t, cluster: cluster, cfg: cfg, shown: registry, metrics: NewMetrics(registry)}
	b.cl = b.client()
	b.adm = kadm.NewClient(b.cl)
	b.createTopics()
	return b
}

// client connects as every part of weir does, until the test ends. Records name their partition.
func (b *bench) client(further ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	opts, err := kafka.ClientOpts(context.Background(), b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return kafkatest.Client(b.t, b.cfg.Kafka.Brokers, append(opts, further...)...)
}

func (b *bench) createTopics() {
	b.t.Helper()
	kafkatest.CreateTopics(b.t, b.cluster, b.cfg)
}

// collect runs Collect; stop ends it and returns its error.
func (b *bench) collect() (stop func() error, ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Collect(ctx, b.cfg, slog.New(slog.NewTextHandler(b.t.Output(), nil)), b.metrics) }()
	stop = func() error { cancel(); return <-done }
	return stop, done
}

// collectUntil runs Collect until what must come has come.
func (b *bench) collectUntil(what string, holds func() bool) {
	b.t.Helper()
	stop, _ := b.collect()
	b.eventually(what, holds)
	if err := stop(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) put(values ...[]byte) {
	b.t.Helper()
	for _, v := range values {
		r := &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicCounters, Key: schemas.CollectorKey(0), Value: v}
		if err := b.cl.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// interval puts a record of job "whole" and the Tick that closes its interval, ago intervals before now.
func (b *bench) interval(ago int64) {
	b.t.Helper()
	start := time.Now().UnixMilli()/simT*simT - ago*simT
	tick := tickOf(start, false, tickJob("whole", 1, "n1"))
	b.put(encode(b.t, batch("n1", "whole", start, simT, 1)), encode(b.t, tick))
}

func (b *bench) read(topic string) []schemas.Record {
	b.t.Helper()
	topic = b.cfg.Prefix + topic
	start, end, err := kafka.Bounds(b.t.Context(), b.adm, topic, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	var records []schemas.Record
	err = kafka.ReadPartition(b.t.Context(), b.cfg, topic, 0, start, end, func(r *kgo.Record) error {
		v, err := schemas.Unmarshal(r.Value)
		records = append(records, v)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return records
}

func (b *bench) progress() *schemas.Progress {
	b.t.Helper()
	all := b.read(schemas.TopicProgress)
	if len(all) == 0 {
		return &schemas.Progress{}
	}
	return all[len(all)-1].(*schemas.Progress)
}

func (b *bench) eventually(what string, holds func() bool) {
	b.t.Helper()
	kafkatest.Eventually(b.t, what, holds)
}

func (b *bench) summaries(n int) func() bool {
	return func() bool { return len(b.read(schemas.TopicJobSummary)) == n }
}

// tried reports whether the process that has the partition started again so often from what is committed.
func (b *bench) tried(times float64) func() bool {
	return func() bool { return series(b.t, b.shown)["weir_loop_restarts_total"] >= times }
}

// stopped reports whether Progress says that the partition stands still for all of these reasons.
func (b *bench) stopped(reasons ...string) func() bool {
	return func() bool {
		why := b.progress().Stopped
		return why != "" && !slices.ContainsFunc(reasons, func(r string) bool { return !strings.Contains(why, r) })
	}
}

func TestABadDeployStopsAndNamesTheSetting(t *testing.T) {
	b := newBench(t)
	b.cfg.Collect.MaxRejects = 5
	b.interval(3)
	open := time.Now().UnixMilli() / simT * simT // it holds back what follows
	b.put(encode(t, batch("n1", "whole", open, simT, 1)))
	for range 7 {
		b.put([]byte("rubbish"))
	}
	stop, ended := b.collect()
	b.eventually("the stop",
		b.stopped("collect.max_rejects", schemas.ErrNotSingleObject.Error(), errTooManyRejects.Error()))
	at := b.progress().Position
	b.eventually("several tries", b.tried(3))
	shown := series(t, b.shown)["weir_partition_stopped"]
	if now := b.progress().Position; len(ended) > 0 || shown != 1 || now != at {
		t.Errorf("ended %v, stopped %v, position %d after %d", len(ended) > 0, shown, now, at)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	b.cfg.Collect.MaxRejects = 100
	b.collectUntil("seven rejects", func() bool { return len(b.read(schemas.TopicRejects)) == 7 && b.summaries(1)() })
	if p := b.progress(); p.Counts.Rejected != 7 || len(p.Rejected) != 7 || p.Hold >= p.Position || p.Stopped != "" {
		t.Errorf("%+v", p)
	}
}

// With nothing but rubbish no interval is open, and a successor would have nothing to fold again.
func TestRubbishAloneStopsToo(t *testing.T) {
	b := newBench(t)
	b.cfg.Collect.MaxRejects = 5
	stop, _ := b.collect()
	for i := range 12 {
		b.put([]byte("rubbish"))
		if i == 3 {
			b.interval(2) // a Tick in between makes no difference
			b.eventually("a commit in between", b.summaries(1))
		}
	}
	b.eventually("the stop", b.stopped("collect.max_rejects"))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	at := b.progress()
	stop, _ = b.collect() // another process decides the same
	b.eventually("its tries", b.tried(2))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if p := b.progress(); p.Position != at.Position || p.Stopped == "" || p.Counts.Rejected > 5 {
		t.Errorf("%+v after %+v", p, at)
	}
}

func TestProgressIsFoundBehindAbortedTransactions(t *testing.T) {
	b := newBench(t)
	b.interval(5)
	b.collectUntil("a summary", b.summaries(1))
	zombie := b.client(kgo.TransactionalID("someone"))
	value := encode(t, &schemas.Progress{Position: 999, Hold: 999})
	for range 150 {
		if err := zombie.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		wrong := &kgo.Record{Topic: b.cfg.Prefix + schemas.TopicProgress, Value: value}
		if err := zombie.ProduceSync(t.Context(), wrong).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := zombie.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
	b.interval(4)
	b.collectUntil("a second summary", b.summaries(2))
	if c := b.progress().Counts; c.Summarized != 2 || c.Ticks != 2 {
		t.Errorf("%+v", c)
	}
}

// TestFencingComesFirst: an older owner commits at the last moment, when the newer one asks for its producer id. An
// owner that reads Progress before that would fold again what the older one committed.
func TestFencingComesFirst(t *testing.T) {
	b := newBench(t)
	b.interval(5)
	b.collectUntil("a summary", b.summaries(1))
	older := b.client(kgo.TransactionalID(b.cfg.Prefix + "collect-0"))
	last := b.progress()
	b.interval(4)
	_, end, err := kafka.Bounds(t.Context(), b.adm, b.cfg.Prefix+schemas.TopicCounters, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := *last
	closed := *last.Closed + simT
	p.From, p.Position, p.Hold, p.Closed = last.Position, end, end, &closed
	if err := older.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	summary := &schemas.JobSummary{
		Cluster: simCluster, JobID: "whole", IntervalStart: closed, IntervalMs: simT, Method: schemas.MethodExact,
	}
	err = older.ProduceSync(t.Context(),
		&kgo.Record{Topic: b.cfg.Prefix + schemas.TopicJobSummary, Value: encode(t, summary)},
		&kgo.Record{Topic: b.cfg.Prefix + schemas.TopicProgress, Key: schemas.PartitionKey(0), Value: encode(t, &p)},
	).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
	committed := make(chan error, 1)
	b.cluster.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.SleepControl(func() { committed <- older.EndTransaction(context.Background(), kgo.TryCommit) })
		return nil, nil, false
	})
	stop, _ := b.collect()
	if err := <-committed; err != nil {
		t.Fatalf("the older owner could not commit, so this proves nothing: %v", err)
	}
	b.interval(3)
	b.eventually("the next summary", func() bool { return len(b.read(schemas.TopicJobSummary)) >= 3 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n := len(b.read(schemas.TopicJobSummary)); n != 3 {
		t.Errorf("%d summaries of three intervals", n)
	}
}

func TestARecordThatFailsIsNotCommittedAround(t *testing.T) {
	b := newBench(t)
	topic, tiny, roomy := b.cfg.Prefix+schemas.TopicJobSummary, "100", "4194304"
	set := func(v *string) {
		limit := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: v}}
		if _, err := b.adm.AlterTopicConfigs(t.Context(), limit, topic); err != nil {
			t.Fatal(err)
		}
	}
	set(&tiny)
	stop, _ := b.collect()
	b.interval(3)
	b.eventually("several tries", b.tried(2))
	if n := len(b.read(schemas.TopicJobSummary)); n != 0 || b.progress().Closed != nil {
		t.Fatalf("%d summaries; %+v was committed without its output", n, b.progress())
	}
	set(&roomy)
	b.eventually("the summary", b.summaries(1))
	b.interval(2)
	b.eventually("the next", b.summaries(2))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if c := b.progress().Counts; c.Summarized != 2 || c.Outputs != 4 { // two of the job, two of _system
		t.Errorf("%+v", c)
	}
}

func TestWhatRetentionTookIsSaid(t *testing.T) {
	b := newBench(t)
	b.interval(9)
	b.collectUntil("a summary", b.summaries(1))
	before := b.progress().Position
	b.interval(8)
	b.interval(7)
	_, end, err := kafka.Bounds(t.Context(), b.adm, b.cfg.Prefix+schemas.TopicCounters, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cluster.DeleteRecords(b.cfg.Prefix+schemas.TopicCounters, 0, end); err != nil {
		t.Fatal(err)
	}
	b.interval(6)
	b.collectUntil("the summary of what is left", b.summaries(2))
	var said *schemas.Progress
	for _, r := range b.read(schemas.TopicProgress) {
		if p := r.(*schemas.Progress); p.LostFrom != nil {
			said = p
		}
	}
	if said == nil || *said.LostFrom != before || *said.LostTo != end || b.progress().Counts.Lost != end-before {
		t.Errorf("lost [%d, %d): %+v says otherwise", before, end, said)
	}
}

func TestATopicMadeAnewIsNotTakenForTheOldOne(t *testing.T) {
	b := newBench(t)
	b.interval(9)
	b.interval(8)
	b.collectUntil("two summaries", b.summaries(2))
	if err := b.cluster.DeleteTopic(b.cfg.Prefix + schemas.TopicCounters); err != nil {
		t.Fatal(err)
	}
	b.createTopics()
	stop, _ := b.collect()
	b.eventually("the stop", b.stopped("deleted and made again", b.cfg.Prefix+schemas.TopicProgress))
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestMergeWaitsForBrokers(t *testing.T) {
	b := newBench(t)
	b.cfg.Kafka.Brokers = []string{"127.0.0.1:1"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log kafkatest.Log
	ended := make(chan error, 1)
	go func() { ended <- Merge(ctx, b.cfg, log.Logger(), b.metrics) }()
	away := func() int { return log.Count("no connection to broker") }
	b.eventually("the outage in the log", func() bool { return away() > 0 })
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
	l := &loop{stage: stage{input: "counters"}, log: log.Logger()}
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
