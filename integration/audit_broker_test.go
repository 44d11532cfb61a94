package integration

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// onBroker writes the logs to a broker of their own, and the positions of each moment.
func (b *bookkept) onBroker() (config.Config, *kadm.Client) {
	b.t.Helper()
	cluster := kafkatest.Broker(b.t)
	cfg := config.Default()
	cfg.Cluster, cfg.Interval, cfg.Collectors = foldCluster, time.Duration(foldT)*time.Millisecond, foldCollectors
	cfg.Partitions = config.Partitions{Routes: 1, JobSummary: 1, Partials: 1}
	cfg.Collect.Sketch = auditedSketch
	cfg.Kafka.Brokers, cfg.Sink.Dir = cluster.ListenAddrs(), b.t.TempDir()
	kafkatest.CreateTopics(b.t, cluster, cfg)
	cl := kafkatest.Client(b.t, cfg.Kafka.Brokers, kgo.TransactionalID("bookkept"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		b.t.Fatal(err)
	}
	put := func(topic string, partition int32, atMs int64, value []byte) {
		cl.Produce(b.t.Context(), &kgo.Record{
			Topic: cfg.Prefix + topic, Partition: partition, Timestamp: time.UnixMilli(atMs), Value: value,
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.t.Error(err)
			}
		})
	}
	for s, log := range b.topics {
		for _, e := range log {
			put(s.Topic, s.Partition, e.AppendedMs, e.Value)
		}
	}
	position := func(topic string, partition int32, position, closed int64, counts schemas.ProgressCounts) {
		p := &schemas.Progress{Position: position, Counts: counts}
		if closed > 0 {
			p.Closed, p.ClosedIntervalMs = &closed, foldT
		}
		put(topic, partition, closed, b.marshal(p))
	}
	for i, m := range b.history {
		if i%10 != 0 && i < len(b.history)-1 {
			continue
		}
		for p := range int32(foldCollectors) {
			position(schemas.TopicProgress, p, m.read[p], m.closed[p], m.counts[p])
		}
		position(schemas.TopicMergeProgress, 0, m.partials, m.mergeClosed, m.merged)
	}
	if err := cl.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	if err := cl.EndTransaction(b.t.Context(), kgo.TryCommit); err != nil {
		b.t.Fatal(err)
	}
	return cfg, kadm.NewClient(cl)
}

// TestAuditOnABroker audits logs on a broker: all of them, the last intervals, one partition, and what is left after
// their beginnings were deleted.
func TestAuditOnABroker(t *testing.T) {
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 60), nil)
	cfg, adm := b.onBroker()
	whole := expectClean(t, cfg, audit.Options{Partition: -1})
	if whole.FromMs != nil || whole.Summaries.InFlight > 0 || whole.ToMs == nil || *whole.ToMs != foldStart+59*foldT {
		t.Errorf("all: from %v to %v, %+v", whole.FromMs, whole.ToMs, whole.Summaries)
	}
	since := expectClean(t, cfg, audit.Options{Partition: -1, Since: time.UnixMilli(foldStart + 50*foldT)})
	if n := since.Summaries.Recomputed; *since.FromMs != foldStart+50*foldT || n != whole.Summaries.Recomputed/6 {
		t.Errorf("10 of 60 intervals: %d of %d summaries", n, whole.Summaries.Recomputed)
	}
	one := expectClean(t, cfg, audit.Options{Partition: 1})
	if len(one.Partitions) != 1 || one.Summaries.Exact == 0 || one.Summaries.Brackets > 0 {
		t.Errorf("one partition: %+v", one.Summaries)
	}

	m := b.history[len(b.history)/4]
	deleted := kadm.Offsets{}
	for p := range int32(foldCollectors) {
		deleted.AddOffset(cfg.Prefix+schemas.TopicCounters, p, m.read[p], -1)
	}
	deleted.AddOffset(cfg.Prefix+schemas.TopicPartials, 0, m.partials, -1)
	if _, err := adm.DeleteRecords(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	rest := expectClean(t, cfg, audit.Options{Partition: -1})
	if rest.FromMs == nil || rest.Summaries.Recomputed == 0 || rest.Summaries.Recomputed >= whole.Summaries.Recomputed {
		t.Errorf("without the beginning: %+v", rest.Summaries)
	}
}

// expectClean audits, and fails the test for a difference or for fates that were not compared.
func expectClean(t *testing.T, cfg config.Config, o audit.Options) *audit.Report {
	t.Helper()
	r, err := audit.Run(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Differences {
		t.Errorf("%+v: %v", o, d)
	}
	for _, a := range r.Partitions {
		if a.Compared == nil || a.Compared.Summarized == 0 {
			t.Errorf("%+v: the fates of %s %d were not compared", o, a.Stage, a.Partition)
		}
	}
	return r
}
