package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// nodeKey names a number of the table.
type nodeKey struct {
	job     string
	restart int32
	hour    int64
	metric  string
	node    string
}

// truth are the values of the records, by the numbers that they must be in.
type truth map[nodeKey][][]float64

// take adds the values of a record: an interval each.
func (t truth) take(b *schemas.CounterBatch) {
	if b.JobID == schemas.JobRest {
		return
	}
	for i := range b.Metrics {
		m := &b.Metrics[i]
		values := slices.DeleteFunc(slices.Clone(m.Values), math.IsNaN)
		if m.Name == "cpu_user" || len(values) == 0 { // not in nodes.metrics
			continue
		}
		k := nodeKey{b.JobID, b.Restart, b.IntervalStart / hourMs * hourMs, m.Name, b.Node}
		t[k] = append(t[k], values)
	}
}

// nodeBatch is a batch of a node with numbers of its own. Names are such as somebody hostile would choose.
func nodeBatch(rnd *rand.Rand, start int64) *schemas.CounterBatch {
	b := batchOf("", "", start)
	b.Node = []string{"n1", "n2", "DROP.TABLE--nodes", strings.Repeat("n", 64), "n1.x", "_"}[rnd.IntN(6)]
	b.JobID = []string{"47", "48", "a", schemas.JobRest}[rnd.IntN(4)]
	b.Restart = rnd.Int32N(2)
	idle := []float64{rnd.Float64(), rnd.Float64()}
	if rnd.IntN(5) == 0 {
		idle[rnd.IntN(2)] = math.NaN()
	}
	b.Metrics = []schemas.CounterBatchMetric{
		{Name: "cpu_idle", Unit: "1", Scope: schemas.ScopeCore, Values: idle},
		{Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore, Values: []float64{0.5, 0.5}},
	}
	if rnd.IntN(3) > 0 {
		b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
			Name: "mem_used", Unit: "B", Scope: schemas.ScopeNode, Values: []float64{rnd.Float64() * 1e12},
		})
	}
	return b
}

// reduced is what a node sends of a batch if it reduces its job.
func reduced(b *schemas.CounterBatch) *schemas.NodeSummary {
	s := &schemas.NodeSummary{NodeHeader: b.NodeHeader}
	for i := range b.Metrics {
		m := &b.Metrics[i]
		values := slices.DeleteFunc(slices.Clone(m.Values), math.IsNaN)
		d, certified := quantile.Certify(slices.Clone(values), quantile.Large)
		of := schemas.JobSummaryMetric{
			Name: m.Name, Unit: m.Unit, Scope: m.Scope, Count: d.Count, Invalid: int64(len(m.Values) - len(values)),
		}
		if d.Count > 0 {
			of.Nodes, of.Mean, of.Stddev, of.NodeStddev = 1, &d.Mean, new(d.Stddev()), new(0.0)
			of.LowNode, of.HighNode, of.Deciles, of.RankError = &b.Node, &b.Node, new(d.Deciles[:]), new(0.0)
		}
		s.Metrics = append(s.Metrics, schemas.NodeSummaryMetric{
			JobSummaryMetric: of,
			Certified:        schemas.NewCertified(certified.Eps, certified.Order, certified.Knots, certified.Atoms),
		})
	}
	return s
}

// nodesConfig keeps two of the three metrics.
func nodesConfig() config.Config {
	cfg := config.Default()
	cfg.Cluster, cfg.Nodes.Metrics = "c", []string{"cpu_idle", "mem_used", "absent"}
	return cfg
}

// sameNodes compares all files of nodes/ with the values of the records.
func sameNodes(t *testing.T, dir string, want truth) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, nodesDir, "date=*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[nodeKey]nodeSum{}
	for _, path := range paths {
		f, err := ReadFooter(path)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := parquet.ReadFile[NodeHour](path)
		if err != nil || int64(len(rows)) != f.Rows {
			t.Fatalf("%s: %d rows, %v", path, len(rows), err)
		}
		for _, r := range rows {
			if dateOf(r.Hour) != strings.TrimPrefix(filepath.Base(filepath.Dir(path)), datePrefix) {
				t.Errorf("%s has an hour of %s", path, dateOf(r.Hour))
			}
			if !slices.IsSorted(r.Nodes) || len(slices.Compact(slices.Clone(r.Nodes))) != len(r.Nodes) {
				t.Errorf("%s: nodes %q", path, r.Nodes)
			}
			for i, node := range r.Nodes {
				k := nodeKey{r.JobID, r.Restart, r.Hour, r.Metric, node}
				o := got[k]
				intervals := o.intervals + r.Intervals[i]
				o.add(r.Counts[i], r.Means[i], r.Mins[i], r.Maxs[i])
				o.intervals = intervals
				got[k] = o
			}
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d numbers, want %d", len(got), len(want))
	}
	for k, intervals := range want {
		all := slices.Concat(intervals...)
		d, o := quantile.Reduce(slices.Clone(all)), got[k]
		near := math.Abs(o.mean-d.Mean) <= 1e-9*max(1, math.Abs(d.Mean)) // false for NaN
		if !near || o.count != d.Count || int(o.intervals) != len(intervals) || o.min != slices.Min(all) ||
			o.max != slices.Max(all) {
			t.Errorf("%+v: %+v, want mean %v of %d values in %d intervals", k, o, d.Mean, d.Count, len(intervals))
		}
	}
}

// TestNodesEqualTheRecords: whatever is in the log, and whenever the service is killed, the table has the numbers of
// the records: of jobs across hours and midnight, of split ones, of late records, and of jobs that a node reduces.
func TestNodesEqualTheRecords(t *testing.T) {
	t.Parallel()
	cfg := nodesConfig()
	of := nodeHours(cfg)
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(33, seed))
			var log []item[*metricHour]
			want := truth{}
			starts := rnd.Perm(60)
			for i, at := range starts {
				appended := midnight + int64(at)*60_000 + 11_000
				b := nodeBatch(rnd, midnight+(int64(at)-30)*60_000) // half an hour late
				var value []byte
				switch rnd.IntN(8) {
				case 0:
					value = []byte("garbage")
				case 1:
					value = marshal(t, &schemas.Tick{IntervalStart: midnight, IntervalMs: 10_000})
				case 2, 3:
					value = marshal(t, reduced(b))
					want.take(b)
				default:
					value = marshal(t, b)
					want.take(b)
				}
				log = append(log, of.decode(&kgo.Record{
					Value: value, Offset: int64(i), Timestamp: time.UnixMilli(appended),
				}))
			}
			dir, kills := t.TempDir(), 0
			for {
				left := 1 + rnd.IntN(60) // actions before the kill
				err := onePass(dir, of, log, rnd, func(string, string) error {
					if left--; left < 0 {
						return errCrash
					}
					return nil
				})
				if err == nil {
					break
				}
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				kills++
			}
			sameNodes(t, dir, want)
		})
	}
}

// TestNodesOfTwoOwners: two services write the same archive, and both are stopped and begin again. Each record counts
// once.
func TestNodesOfTwoOwners(t *testing.T) {
	t.Parallel()
	b, rnd, want := newBenchOf(t, testCounters, 2), random(t), truth{}
	agents := kafkatest.Client(t, b.cfg.Kafka.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	cfg := b.cfg
	cfg.Cluster, cfg.Nodes, cfg.Sink.RollBytes = "c", nodesConfig().Nodes, 4000
	run := func(ctx context.Context) error {
		s := newSink(cfg, nodeHours(cfg), b.logged.Logger(), NewNodesMetrics(prometheus.NewRegistry()), nil)
		s.patience, s.period = time.Minute, 20*time.Millisecond
		return s.run(ctx)
	}
	at := 0
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- run(ctx) }()
		}
		for range 40 {
			at++
			batch := nodeBatch(rnd, midnight+int64(at)*10_000)
			batch.Node = fmt.Sprint("n", at) // of a split job
			want.take(batch)
			r := &kgo.Record{
				Topic: b.topic, Partition: rnd.Int32N(2), Value: marshal(t, batch),
				Timestamp: time.UnixMilli(batch.IntervalStart + 11_000),
			}
			if err := agents.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
	}
	sameNodes(t, cfg.Sink.Dir, want)
}

// TestNodesCountAnIntervalOnce: a record that is sent again does not count again. What is of another cluster or time,
// or of no job, has no row.
func TestNodesCountAnIntervalOnce(t *testing.T) {
	t.Parallel()
	cfg := nodesConfig()
	of := nodeHours(cfg)
	p := newDraft[*metricHour](0, tail{})
	rnd := rand.New(rand.NewPCG(1, 1))
	batch := func(change func(b *schemas.CounterBatch)) []byte {
		b := nodeBatch(rnd, midnight)
		b.Node, b.JobID, b.Restart = "n", "47", 0
		change(b)
		return marshal(t, b)
	}
	same := func(*schemas.CounterBatch) {}
	for i, value := range [][]byte{
		batch(same), batch(same), batch(func(b *schemas.CounterBatch) { b.Cluster = "d" }),
		batch(func(b *schemas.CounterBatch) { b.IntervalStart += 3 * hourMs }),
		batch(func(b *schemas.CounterBatch) { b.JobID = schemas.JobRest }),
		batch(func(b *schemas.CounterBatch) { b.Metrics = b.Metrics[1:2] }),
	} {
		r := &kgo.Record{Value: value, Offset: int64(i), Timestamp: time.UnixMilli(midnight + 11_000)}
		p.add(of.decode(r), time.Time{})
	}
	for _, row := range p.rows {
		if r := row.row(); len(r.Nodes) != 1 || r.Intervals[0] != 1 || r.JobID != "47" {
			t.Errorf("%+v", r)
		}
	}
	if len(p.rows) == 0 || len(p.rows) > 2 || p.badCount != 2 {
		t.Errorf("%d rows, %d bad records: %v", len(p.rows), p.badCount, p.undecodable)
	}
}

// TestNodesEstimate compares the estimated memory of a draft with the memory that it holds.
func TestNodesEstimate(t *testing.T) { // not parallel: it measures the heap
	cfg := nodesConfig()
	cfg.Nodes.Metrics = []string{"metric_00", "metric_01", "metric_02", "metric_03", "metric_04", "metric_05"}
	of := nodeHours(cfg)
	records, _ := sampleRecords(t, 300, 20)
	before := heap()
	p := newDraft[*metricHour](3, tail{})
	for _, r := range records {
		p.add(of.decode(r), time.Time{})
	}
	took := heap() - before
	runtime.KeepAlive(records)
	if p.badCount > 0 || took > p.bytes*11/10 || took < p.bytes/3 {
		t.Errorf("%d rows take %d bytes, the estimate is %d; %d bad", len(p.rows), took, p.bytes, p.badCount)
	}
}

// BenchmarkNodes reduces an hour of a partition's 145 nodes with 40 metrics, all of them kept.
func BenchmarkNodes(b *testing.B) {
	cfg := nodesConfig()
	cfg.Nodes.Metrics = nil
	for m := range 40 {
		cfg.Nodes.Metrics = append(cfg.Nodes.Metrics, fmt.Sprintf("metric_%02d", m))
	}
	of := nodeHours(cfg)
	records, values := sampleRecords(b, 145, 60)
	for i, r := range records { // of a minute each
		r.Offset = int64(i)
	}
	var size, memory int64
	rows := 0
	count := writerFunc(func(p []byte) (int, error) { size += int64(len(p)); return len(p), nil })
	began := cpuTime(b)
	for b.Loop() {
		p := newDraft[*metricHour](3, tail{})
		for _, r := range records {
			p.add(of.decode(r), time.Time{})
		}
		f := p.footer("t")
		size, memory, rows = 0, p.bytes, len(p.rows)
		if err := of.encode(count, p.rows, &f); err != nil || p.badCount > 0 {
			b.Fatal(err, p.undecodable)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N)/float64(values), "cpu-ns/value")
	b.ReportMetric(float64(size)/145/40, "B/node-metric")
	b.ReportMetric(float64(memory)/145, "draft-B/node")
	b.ReportMetric(float64(rows), "rows")
}
