package integration

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// onBroker writes the logs to a broker of their own, and the positions of each moment.
func (b *bookkept) onBroker() (config.Config, *kadm.Client) {
	b.t.Helper()
	cluster := kafkatest.Broker(b.t)
	cfg := config.Default()
	cfg.Cluster, cfg.Interval, cfg.Collectors = foldCluster, time.Duration(foldT)*time.Millisecond, foldCollectors
	cfg.Partitions = config.Partitions{Routes: 1, JobSummary: b.summaryPartitions(), Partials: 1}
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

// TestAuditOnABroker audits logs on a broker: the whole logs, the last intervals, one partition, and the rest after
// their beginnings were deleted.
func TestAuditOnABroker(t *testing.T) {
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 60), nil)
	cfg, adm := b.onBroker()
	whole := expectClean(t, cfg, audit.Options{Partition: -1, NoArchive: true})
	if whole.FromMs != nil || whole.Summaries.InFlight > 0 || whole.ToMs == nil || *whole.ToMs != foldStart+59*foldT {
		t.Errorf("all: from %v to %v, %+v", whole.FromMs, whole.ToMs, whole.Summaries)
	}
	if d := whole.Decoded; d.OneIn != audit.DecodedOneIn || d.Twice < d.Read/200 || d.Twice > d.Read/50 {
		t.Errorf("decoded twice: %+v", d)
	}
	full := expectClean(t, cfg, audit.Options{Partition: -1, NoArchive: true, Full: true}).Decoded
	if full.OneIn != 1 || full.Read != whole.Decoded.Read || full.Twice < full.Read*9/10 {
		t.Errorf("all decoded twice: %+v", full)
	}
	last10 := time.UnixMilli(foldStart + 50*foldT)
	since := expectClean(t, cfg, audit.Options{Partition: -1, NoArchive: true, Since: last10})
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
	rest := expectClean(t, cfg, audit.Options{Partition: -1, NoArchive: true})
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

// summaryPartitions returns how many partitions of job-summary have records.
func (b *bookkept) summaryPartitions() int {
	n := 1
	for s := range b.topics {
		if s.Topic == schemas.TopicJobSummary {
			n = max(n, int(s.Partition)+1)
		}
	}
	return n
}

// TestAuditReportsAStandingCollector: its records are not audited, and the report admits it.
func TestAuditReportsAStandingCollector(t *testing.T) {
	t.Parallel()
	cfg, _ := standing(t, 1, 40).onBroker()
	r, err := audit.Run(t.Context(), cfg, audit.Options{Partition: -1, NoArchive: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Differences {
		t.Error(d)
	}
	const note = "collect 1 stands still or lags: it has closed no interval, another one up to 2023-11-14T22:13:59Z; " +
		"its records from offset 0 on are not audited"
	if !slices.Contains(r.Notes, note) || r.Summaries.InFlight != 0 {
		t.Errorf("notes %q, %d in flight", r.Notes, r.Summaries.InFlight)
	}
}

// TestAuditLooksAtTheArchive: an audit without an archive fails, unless --no-archive is set. It also fails if a
// partition lacks files although the sink had the time to write one.
func TestAuditLooksAtTheArchive(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	b := bookkeep(t, auditedLog(t, 10), nil)
	one, two := audit.Source{Topic: schemas.TopicJobSummary}, audit.Source{Topic: schemas.TopicJobSummary, Partition: 1}
	half := len(b.topics[one]) / 2
	for i, e := range b.topics[one][half:] {
		e.Offset = int64(i)
		b.topics[two] = append(b.topics[two], e)
	}
	b.topics[one] = b.topics[one][:half]
	cfg, _ := b.onBroker()
	found := func(want ...string) {
		t.Helper()
		r, err := audit.Run(t.Context(), cfg, audit.Options{Partition: -1})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Differences) != len(want) {
			t.Errorf("differences %v, want %q", r.Differences, want)
			return
		}
		for i, d := range r.Differences {
			if !strings.Contains(d.String(), want[i]) {
				t.Errorf("%v: want %q", d, want[i])
			}
		}
	}
	found("there is none in " + cfg.Sink.Dir + ": mount it there, set sink.dir, or leave it out with --no-archive")
	expectClean(t, cfg, audit.Options{Partition: -1, NoArchive: true})
	expectClean(t, cfg, audit.Options{Partition: 1}) // it covers no archive

	over, cancel := context.WithCancel(t.Context())
	cancel()
	files := func(partition int) []string {
		t.Helper()
		name := fmt.Sprintf("%s-%d-*", cfg.Prefix+schemas.TopicJobSummary, partition)
		paths, err := filepath.Glob(filepath.Join(sink.DatePath(cfg.Sink.Dir, "*"), name))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	kafkatest.Eventually(t, "files of both partitions", func() bool {
		err := sink.Run(over, cfg, slog.New(slog.DiscardHandler), sink.NewMetrics(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		return len(files(0)) > 0 && len(files(1)) > 0
	})
	expectClean(t, cfg, audit.Options{Partition: -1})
	lost := func(partition, summaries int) string {
		return fmt.Sprintf("%s-%d at 0: the archive has no file of this partition, and lacks %d summaries",
			cfg.Prefix+schemas.TopicJobSummary, partition, summaries)
	}
	for _, path := range files(1) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	found(lost(1, len(b.topics[two])))
	for _, path := range files(0) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	found(lost(0, half), lost(1, len(b.topics[two])))
}
