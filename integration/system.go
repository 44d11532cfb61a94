package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/topology"
)

// system is all of weir in one process, on topics of its own, with parts that can be stopped and started.
type system struct {
	t        *testing.T
	cfg      config.Config
	cl       *kgo.Client
	log      *slog.Logger
	said     *kafkatest.Log // to it
	replays  *atomic.Int64
	injected int      // how often faults were injected
	parts    []func() // what stops those of startPart
}

const simulated = 24

func newSystem(t *testing.T) *system {
	t.Helper()
	return systemOn(t, findBrokers(t))
}

// beside lets a test run beside others. On a Kafka that all share, they run one after another.
func beside(t *testing.T) {
	t.Helper()
	if os.Getenv("KAFKA_SEEDS") == "" {
		t.Parallel()
	}
}

// withoutBrokers lets a test that asks no broker run beside others. It is not run once more where a Kafka is named.
func withoutBrokers(t *testing.T) {
	t.Helper()
	if os.Getenv("KAFKA_SEEDS") != "" {
		t.Skip("it asks no broker: make test-full runs it")
	}
	t.Parallel()
}

// systemOn makes the topics of a system on brokers. The configuration may be changed before.
func systemOn(t *testing.T, at brokers, change ...func(c *config.Config)) *system {
	t.Helper()
	d := config.Default()
	d.Cluster, d.Interval, d.Collectors, d.BackoffCap = "testbed", time.Second, 4, time.Second
	d.Partitions = config.Partitions{Routes: 2, JobSummary: 2, Partials: 2}
	d.Topics = config.Topics{
		Replication: at.replication, CountersRetention: time.Hour, SummaryRetention: time.Hour,
		SegmentBytes: 1 << 20, Wire: config.WireSingleObject,
	}
	d.Kafka.Brokers, d.Prefix = at.seeds, at.prefix
	d.Sink.Period = 10 * time.Second // tests wait for files
	d.Agent.StateDir, d.Sink.Dir = filepath.Join(t.TempDir(), "agent"), filepath.Join(t.TempDir(), "archive")
	d.Balance.Nodes, d.Balance.LMax = producers.SimulatedNodes(simulated), max(2, simulated/4)
	for _, f := range change {
		f(&d)
	}
	cfg, err := config.Load(config.Source{Defaults: d})
	if err != nil {
		t.Fatal(err)
	}
	opts, err := kafka.ClientOpts(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	adm := kadm.NewClient(cl)
	topics := schemas.Topics(cfg.Prefix, schemas.Sizes{
		Collectors: cfg.Collectors, Routes: cfg.Partitions.Routes, Partials: cfg.Partitions.Partials,
		JobSummary:  cfg.Partitions.JobSummary,
		Replication: cfg.Topics.Replication, CountersRetention: time.Hour, SummaryRetention: time.Hour,
		SegmentBytes: cfg.Topics.SegmentBytes,
	})
	if err := kafka.CreateTopics(t.Context(), cl, topics, cfg.Topics.RegistryIDs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // what failed is kept for a look
		if at.shared && !t.Failed() {
			deleteTopics(t, adm, topics)
		}
	})
	if _, err := kafka.CheckTopics(t.Context(), adm, topics); err != nil {
		t.Fatal(err)
	}
	replays, said := new(atomic.Int64), new(kafkatest.Log)
	log := slog.New(&counting{Handler: slog.NewTextHandler(io.MultiWriter(t.Output(), said), nil), replays: replays})
	return &system{t: t, cfg: cfg, cl: cl, log: log, said: said, replays: replays}
}

// deleteTopics leaves a Kafka as it was.
func deleteTopics(t *testing.T, adm *kadm.Client, topics []schemas.Topic) {
	t.Helper()
	var names []string
	for _, topic := range topics {
		names = append(names, topic.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	deleted, err := adm.DeleteTopics(ctx, names...)
	if err := errors.Join(err, deleted.Error()); err != nil {
		t.Errorf("deleting the test's topics: %v", err)
	}
}

// counting is a log handler that adds up what loops say they will replay.
type counting struct {
	slog.Handler
	replays *atomic.Int64
}

// Handle implements slog.Handler.
func (c *counting) Handle(ctx context.Context, r slog.Record) error {
	var position, from int64
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "position":
			position = a.Value.Int64()
		case "replay_from":
			from = a.Value.Int64()
		}
		return true
	})
	c.replays.Add(position - from)
	return c.Handler.Handle(ctx, r)
}

// part is a running part of the system.
type part struct {
	stop func()
}

// start runs a part until it is stopped. A part that ends by itself, or with an error, fails the test.
func (s *system) start(name string, run func(ctx context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			s.t.Errorf("%s: %v", name, err)
		} else if ctx.Err() == nil {
			s.t.Errorf("%s ended by itself", name)
		}
	}()
	var once sync.Once
	p := &part{func() {
		once.Do(func() { cancel(); <-done })
	}}
	s.t.Cleanup(p.stop)
	return p
}

func (s *system) startNodes() *part {
	return s.start("nodes", func(ctx context.Context) error {
		return producers.Simulate(ctx, s.cfg, producers.SimulatedNodes(simulated), s.log)
	})
}

func (s *system) startBalancer() *part {
	source := scheduler.NewSimulated(producers.SimulatedNodes(simulated), s.cfg.Interval)
	return s.start("balancer", func(ctx context.Context) error {
		return balancer.Run(ctx, s.cfg, topology.Flat(s.cfg.Balance.Nodes), source, s.log,
			balancer.NewMetrics(prometheus.NewRegistry()))
	})
}

func (s *system) startCollect() *part {
	return s.start("collect", func(ctx context.Context) error {
		return processors.Collect(ctx, s.cfg, s.log, processors.NewMetrics(prometheus.NewRegistry()))
	})
}

func (s *system) startMerge() *part {
	return s.start("merge", func(ctx context.Context) error {
		return processors.Merge(ctx, s.cfg, s.log, processors.NewMetrics(prometheus.NewRegistry()))
	})
}

func (s *system) startSink() *part {
	return s.start("sink", func(ctx context.Context) error {
		var aside sync.WaitGroup
		aside.Go(func() { jobs.Run(ctx, s.cfg, s.log, jobs.NewMetrics(prometheus.NewRegistry())) })
		defer aside.Wait()
		return sink.Run(ctx, s.cfg, s.log, sink.NewMetrics(prometheus.NewRegistry()))
	})
}

// endSink ends the sink once it has archived all summaries.
func (s *system) endSink(p *part) {
	endSinks(func() int { return s.said.Count(cutShort) }, func() { p.stop() }, func() { p = s.startSink() })
}

// produce puts records into the system's topics as any client could.
func (s *system) produce(records ...*kgo.Record) {
	s.t.Helper()
	if err := s.cl.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// fence does what a second owner of a partition does first. The owner that runs finds out at its next commit.
func (s *system) fence(transactionalID string) {
	s.t.Helper()
	opts, err := kafka.ClientOpts(context.Background(), s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	cl, err := kgo.NewClient(append(opts, kgo.TransactionalID(transactionalID))...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// read returns all committed records of a topic, partition by partition in offset order.
func (s *system) read(topic string) (records []*kgo.Record) {
	s.t.Helper()
	topic = s.cfg.Prefix + topic
	adm := kadm.NewClient(s.cl)
	ends, err := adm.ListCommittedOffsets(s.t.Context(), topic)
	if err != nil {
		s.t.Fatal(err)
	}
	for p := range int32(len(ends[topic])) {
		of, err := s.readPartition(adm, topic, p)
		for errors.Is(err, kerr.OffsetOutOfRange) { // compaction has removed what was the first record
			of, err = s.readPartition(adm, topic, p)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		records = append(records, of...)
	}
	return records
}

func (s *system) readPartition(adm *kadm.Client, topic string, p int32) (records []*kgo.Record, err error) {
	start, end, err := kafka.Bounds(s.t.Context(), adm, topic, p)
	if err != nil {
		return nil, err
	}
	err = kafka.ReadPartition(s.t.Context(), s.cfg, topic, p, start, end, func(r *kgo.Record) error {
		records = append(records, r)
		return nil
	})
	return records, err
}

// lag is how many offsets of a topic are not yet folded, by the Progress in another.
func (s *system) lag(topic, progress string) int64 {
	s.t.Helper()
	ends, err := kadm.NewClient(s.cl).ListCommittedOffsets(s.t.Context(), s.cfg.Prefix+topic)
	if err != nil {
		s.t.Fatal(err)
	}
	var lag int64
	for _, e := range ends[s.cfg.Prefix+topic] {
		lag += e.Offset
	}
	for _, p := range s.lastProgress(progress) {
		lag -= p.Position
	}
	return lag
}

// lastProgress is the newest record of each partition of a topic of Progress.
func (s *system) lastProgress(topic string) map[int32]*schemas.Progress {
	s.t.Helper()
	last := map[int32]*schemas.Progress{}
	for _, r := range s.read(topic) {
		v, err := schemas.Unmarshal(r.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		last[r.Partition] = v.(*schemas.Progress)
	}
	return last
}

// eventually waits for what must come. It pauses between looks, since most of them read whole topics.
func (s *system) eventually(what string, holds func() bool) {
	s.t.Helper()
	kafkatest.Eventually(s.t, what, func() bool {
		time.Sleep(100 * time.Millisecond)
		return holds()
	})
}

// cutShort is what a sink logs that had too little time at its end.
const cutShort = "ended before the topic's end"

// endSinks ends sinks, and lets them begin and end again for as long as they say that they had too little time.
func endSinks(said func() int, end, begin func()) {
	for before := said(); ; before = said() {
		end()
		if said() == before {
			return
		}
		begin()
	}
}

// summarizes waits for the first summaries, after which every service has done its part.
func (s *system) summarizes() {
	s.t.Helper()
	s.eventually("the first summaries", func() bool { return len(s.read(schemas.TopicJobSummary)) > 30 })
}

// newest is the last interval of which a node has sent anything.
func (s *system) newest() (start int64) {
	s.t.Helper()
	for _, r := range s.read(schemas.TopicCounters) {
		switch v, _ := schemas.Unmarshal(r.Value); v := v.(type) { // what is no record has no interval
		case *schemas.CounterBatch:
			start = max(start, v.IntervalStart)
		case *schemas.NodeSummary:
			start = max(start, v.IntervalStart)
		}
	}
	return start
}

// awaitTicks waits until a balancer has closed an interval.
func (s *system) awaitTicks(start int64) {
	s.t.Helper()
	s.eventually("the Ticks of an interval", func() bool {
		states := s.read(schemas.TopicBalance)
		if len(states) == 0 {
			return false
		}
		v, err := schemas.Unmarshal(states[len(states)-1].Value)
		if err != nil {
			s.t.Fatal(err)
		}
		return v.(*schemas.BalanceState).IntervalStart >= start
	})
}

// awaitCollect, awaitMerge and awaitFind wait until a stage has read all that is before it.
func (s *system) awaitCollect() {
	s.t.Helper()
	s.eventually("collect reads to the end", func() bool {
		return s.lag(schemas.TopicCounters, schemas.TopicProgress) == 0
	})
}

func (s *system) awaitMerge() {
	s.t.Helper()
	s.eventually("merge reads to the end", func() bool {
		return s.lag(schemas.TopicPartials, schemas.TopicMergeProgress) == 0
	})
}

func (s *system) awaitFind() {
	s.t.Helper()
	s.eventually("find reads to the end", func() bool {
		return s.lag(schemas.TopicJobSummary, schemas.TopicFindProgress) == 0
	})
}

// awaitCommits waits until every partition has had a commit from now on.
func (s *system) awaitCommits() {
	s.t.Helper()
	from := time.Now()
	s.eventually("a commit in every partition", func() bool { return s.committedSince(from) })
}

// committedSince reports whether every partition of counters and partials has had a commit since a time, and of further
// topics of Progress.
func (s *system) committedSince(t time.Time, further ...string) bool {
	s.t.Helper()
	since := map[string]bool{}
	for _, topic := range append(further, schemas.TopicProgress, schemas.TopicMergeProgress) {
		for _, r := range s.read(topic) {
			if r.Timestamp.After(t) {
				since[fmt.Sprintf("%s-%d", topic, r.Partition)] = true
			}
		}
	}
	return len(since) == s.cfg.Collectors+s.cfg.Partitions.Partials+len(further)*s.cfg.Partitions.JobSummary
}
