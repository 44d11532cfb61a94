package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// leastRatio is three quarters of the ratio between the times of the naive pipeline and of weir in the last
// measurement. A change that makes collect slower by more than a quarter falls below it.
const (
	measuredRatio = 2.7
	leastRatio    = 0.75 * measuredRatio
)

// TestAgainstNaive folds one collector's share of an interval of SuperMUC by weir and by the naive pipeline, in turn.
// Both begin with the bytes of the records, and end with the bytes of the summaries. The test compares the CPU time of
// this process, so it runs beside no other test. The best of some tries counts for both, so that a busy machine does
// not matter.
func TestAgainstNaive(t *testing.T) {
	if kafkatest.Raced || testing.Short() { // the detector slows down only a part; other packages run beside a short one
		t.Skip("make test-full runs it")
	}
	if os.Getenv("KAFKA_SEEDS") != "" {
		t.Skip("it asks no broker: make test-full runs it")
	}
	cfg := config.Default()
	collector := fold.NewCollector("c1", 0, 64, nil)
	collector.Sketch = cfg.Collect.Sketch
	simple, err := newNaive()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := time.Hour, time.Hour
	var ticked, sorted int
	for try := range int64(15) {
		start := ratioStart + try*ratioLength
		records, tick := shareOfInterval(t, start)
		offset := try * int64(len(records)+1)
		runtime.GC()
		began := cpuTime()
		for i, b := range records {
			collector.Apply(fold.Entry{Offset: offset + int64(i), AppendedMs: start + ratioLength, Value: b})
		}
		fx := collector.Apply(fold.Entry{
			Offset: offset + int64(len(records)), AppendedMs: start + ratioLength, Value: tick,
		})
		for _, o := range fx.Outputs {
			if _, err := schemas.MarshalChecked(o); err != nil {
				t.Fatal(err)
			}
		}
		ours = min(ours, cpuTime()-began)
		ticked = len(fx.Outputs) - 2 // but _system and the Watermark

		runtime.GC()
		began = cpuTime()
		for _, b := range records {
			if _, err := simple.add(b); err != nil {
				t.Fatal(err)
			}
		}
		summaries, err := simple.add(tick)
		if err != nil {
			t.Fatal(err)
		}
		theirs = min(theirs, cpuTime()-began)
		sorted = len(summaries)
	}
	if ticked != ratioJobs || sorted != ratioJobs {
		t.Fatalf("%d and %d summaries, want %d", ticked, sorted, ratioJobs)
	}
	ratio := theirs.Seconds() / ours.Seconds()
	t.Logf("weir %v, naive %v: %.2f times as long", ours, theirs, ratio)
	if ratio < leastRatio {
		t.Errorf("the naive pipeline takes %.2f times as long as weir, want %.2f: weir has become slower",
			ratio, leastRatio)
	}
}

const (
	ratioStart, ratioLength = 1_700_000_000_000, 10_000
	ratioJobs               = 3
)

// shareOfInterval is 145 nodes with 16 cores and 37 metrics in three jobs, and the Tick that closes them.
func shareOfInterval(t *testing.T, start int64) (records [][]byte, tick []byte) {
	t.Helper()
	const nodes, cpus, metrics = 145, 16, 37
	r := rand.New(rand.NewPCG(19, 19))
	end := &schemas.Tick{IntervalStart: start, IntervalMs: ratioLength}
	marshal := func(record schemas.Record) []byte {
		b, err := schemas.MarshalChecked(record)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for n := range nodes {
		b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: "c1", Node: fmt.Sprintf("n%03d", n), RunID: "r", IntervalStart: start,
			IntervalMs: end.IntervalMs, SentAt: start + ratioLength, JobID: fmt.Sprint("j", n*ratioJobs/nodes),
		}}
		for c := range int32(cpus) {
			b.Cpus = append(b.Cpus, c)
		}
		for m := range metrics {
			name := fmt.Sprintf("metric_%02d", m)
			metric := schemas.CounterBatchMetric{Name: name, Unit: "1", Scope: schemas.ScopeCore}
			for range cpus {
				v := r.ExpFloat64()
				switch m % 3 {
				case 1: // small whole numbers
					v = float64(int(20 * v))
				case 2: // mostly idle
					v = max(0, v-2)
				}
				metric.Values = append(metric.Values, v)
			}
			b.Metrics = append(b.Metrics, metric)
		}
		records = append(records, marshal(b))
		if k := len(end.Jobs); k == 0 || end.Jobs[k-1].JobID != b.JobID {
			end.Jobs = append(end.Jobs, schemas.TickJob{JobID: b.JobID, Parts: 1})
		}
		job := &end.Jobs[len(end.Jobs)-1]
		job.Nodes = append(job.Nodes, b.Node)
		job.JobNodes++
	}
	return records, marshal(end)
}
