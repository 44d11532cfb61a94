package sink

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

const (
	testCounters = "weir." + schemas.TopicCounters
	midnight     = 1795305600000 // of some day
)

// readSamples reads the position of each row.
func readSamples(t testing.TB, path string) (positions, starts []int64) {
	t.Helper()
	for _, r := range sampleFile(t, path) {
		positions, starts = append(positions, r.Position), append(starts, r.IntervalStart)
	}
	return positions, starts
}

func sampleFile(t testing.TB, path string) []sampleRow {
	t.Helper()
	rows, err := parquet.ReadFile[sampleRow](path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return rows
}

// batchOf is a batch of two cores, with one metric of cores and one of the node.
func batchOf(node, job string, start int64) *schemas.CounterBatch {
	return &schemas.CounterBatch{
		NodeHeader: schemas.NodeHeader{
			Cluster: "c", Node: node, BootID: "b", RunID: "r", Seq: 1, JobID: job,
			IntervalStart: start, IntervalMs: 10_000, SampledAt: (start + 10_000) * 1000, SentAt: start + 10_001,
			Cpus: []int32{3, 1},
		},
		Metrics: []schemas.CounterBatchMetric{
			{Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore, Values: []float64{0.5, math.NaN()}},
			{Name: "mem_used", Unit: "B", Scope: schemas.ScopeNode, Values: []float64{7}},
		},
	}
}

// rowsOf are the rows that must be archived of a batch at a position.
func rowsOf(b *schemas.CounterBatch, partition int32, position int64) []sampleRow {
	row := sampleRow{
		Cluster: "c", Node: b.Node, JobID: b.JobID, IntervalStart: b.IntervalStart, IntervalMs: b.IntervalMs,
		SampledAt: b.SampledAt, Partition: partition, Position: position,
	}
	cores, node := row, row
	cores.Metric, cores.Unit, cores.Scope = "cpu_user", "1", schemas.ScopeCore
	cores.CPUs, cores.Values = b.Cpus, b.Metrics[0].Values
	node.Metric, node.Unit, node.Scope, node.Values = "mem_used", "B", schemas.ScopeNode, b.Metrics[1].Values
	return []sampleRow{cores, node}
}

func expand(rows []measured) (all []sampleRow) {
	for i := range rows {
		all = append(all, rows[i].row())
	}
	return all
}

func TestDecodeSamples(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Cluster = "c"
	const appended = midnight + 15_000
	at := func(start int64) *schemas.CounterBatch { return batchOf("n", "j", start) }
	with := func(change func(b *schemas.CounterBatch)) *schemas.CounterBatch {
		b := at(midnight)
		change(b)
		return b
	}
	devices := with(func(b *schemas.CounterBatch) { // of two cores: cpus is null where values are no CPUs'
		b.Metrics = []schemas.CounterBatchMetric{
			{Name: "acc_power", Unit: "W", Scope: schemas.ScopeGPU, Values: []float64{300, math.NaN(), 250}},
			{Name: "cpu_power", Unit: "W", Scope: schemas.ScopeSocket, Values: []float64{80, 90}},
			{Name: "job_mem", Unit: "B", Scope: schemas.ScopeJob, Values: []float64{9}},
		}
	})
	ofDevices := make([]sampleRow, len(devices.Metrics))
	for i, m := range devices.Metrics {
		ofDevices[i] = rowsOf(at(midnight), 2, 7)[1]
		ofDevices[i].Metric, ofDevices[i].Unit = m.Name, m.Unit
		ofDevices[i].Scope, ofDevices[i].Values = m.Scope, m.Values
	}
	unknown := marshal(t, at(midnight))
	unknown[2] ^= 0xFF
	mute := at(midnight)
	mute.Cpus, mute.Metrics = nil, mute.Metrics[:1]
	mute.Metrics[0].Values = nil
	for name, c := range map[string]struct {
		value  []byte
		rows   []sampleRow
		date   string
		reason string
	}{
		"a batch":         {marshal(t, at(midnight)), rowsOf(at(midnight), 2, 7), "2026-11-22", ""},
		"before midnight": {marshal(t, at(midnight-10_000)), rowsOf(at(midnight-10_000), 2, 7), "2026-11-21", ""},
		"of devices":      {marshal(t, devices), ofDevices, "2026-11-22", ""},
		"no values":       {marshal(t, mute), nil, "2026-11-22", ""},
		"a Tick": {
			marshal(t, &schemas.Tick{IntervalStart: midnight, IntervalMs: 1000}), nil, "2026-11-22", "",
		},
		"a Gap": {marshal(t, &schemas.Gap{Node: "n", RunID: "r"}), nil, "2026-11-22", ""},
		"a NodeSummary": {
			marshal(t, &schemas.NodeSummary{NodeHeader: at(midnight).NodeHeader}), nil, "2026-11-22", "",
		},
		"garbage":           {[]byte("garbage"), nil, "2026-11-22", "not an Avro"},
		"an empty value":    {nil, nil, "2026-11-22", "not an Avro"},
		"an unknown schema": {unknown, nil, "2026-11-22", "unknown schema"},
		"another record": {
			marshal(t, &schemas.Watermark{IntervalStart: midnight, IntervalMs: 1000}), nil, "2026-11-22", "Watermark",
		},
		"another cluster": {
			marshal(t, with(func(b *schemas.CounterBatch) { b.Cluster = "d" })), nil, "2026-11-22", "cluster d",
		},
		"from the future": {marshal(t, at(midnight+20_000)), nil, "2026-11-22", "ends 15s after"},
		"not quite so":    {marshal(t, at(midnight+10_000)), rowsOf(at(midnight+10_000), 2, 7), "2026-11-22", ""},
		"of yesterday":    {marshal(t, at(midnight-24*3600_000)), nil, "2026-11-22", "began 24h0m15s before"},
		"longer than it can": {
			marshal(t, with(func(b *schemas.CounterBatch) {
				b.IntervalStart, b.IntervalMs = midnight-24*3600_000, 24*3600_000
			})), nil, "2026-11-22", "began 24h0m15s before",
		},
	} {
		t.Run(name, func(t *testing.T) {
			it := samples(cfg).decode(&kgo.Record{
				Value: c.value, Partition: 2, Offset: 7, Timestamp: time.UnixMilli(appended),
			})
			if diff := gocmp.Diff(c.rows, expand(it.rows), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
			if it.date != c.date || (it.reason == "") != (c.reason == "") || !strings.Contains(it.reason, c.reason) {
				t.Errorf("date %s, reason %q", it.date, it.reason)
			}
			if it.newer || it.marker || it.offset != 7 || (it.bytes > 0) != (len(it.rows) > 0) {
				t.Errorf("%+v", it)
			}
		})
	}
	cfg.Samples.Metrics = []string{"mem_used", "not_there"}
	it := samples(cfg).decode(&kgo.Record{Value: marshal(t, at(midnight)), Timestamp: time.UnixMilli(appended)})
	if diff := gocmp.Diff(rowsOf(at(midnight), 0, 0)[1:], expand(it.rows)); diff != "" {
		t.Errorf("one metric of two (-want +got):\n%s", diff)
	}
}

// sampleBench is a bench of the topic counters.
type sampleBench struct {
	*bench
	agents *kgo.Client
	rows   []sampleRow // of every batch that was acknowledged
}

func newSampleBench(t *testing.T, partitions int32) *sampleBench {
	t.Helper()
	b := newBenchOf(t, testCounters, partitions)
	b.metrics = NewSamplesMetrics(prometheus.NewRegistry())
	agents := kafkatest.Client(t, b.cfg.Kafka.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return &sampleBench{bench: b, agents: agents}
}

// send publishes a value as an agent does, and returns its offset.
func (b *sampleBench) send(partition int32, value []byte, appended int64) int64 {
	b.t.Helper()
	r := &kgo.Record{Topic: b.topic, Partition: partition, Value: value, Timestamp: time.UnixMilli(appended)}
	if err := b.agents.ProduceSync(b.t.Context(), r).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
	return r.Offset
}

// batches publishes n batches of the intervals around a midnight.
func (b *sampleBench) batches(rnd *rand.Rand, partition int32, n int) {
	b.t.Helper()
	for range n {
		b.serial++
		batch := batchOf(fmt.Sprint("n", b.serial), fmt.Sprint("j", rnd.IntN(3)), midnight+(rnd.Int64N(5)-3)*10_000)
		batch.Metrics[0].Values[0] = rnd.NormFloat64()
		position := b.send(partition, marshal(b.t, batch), batch.IntervalStart+11_000)
		b.rows = append(b.rows, rowsOf(batch, partition, position)...)
	}
}

// someSamples writes what the topic of counters has: batches, Ticks in transactions, and what nobody can read.
func (b *sampleBench) someSamples(rnd *rand.Rand) {
	b.t.Helper()
	for range 6 {
		p := rnd.Int32N(2)
		switch rnd.IntN(4) {
		case 0:
			tick := marshal(b.t, &schemas.Tick{IntervalStart: midnight, IntervalMs: 10_000})
			b.transaction(p, rnd.IntN(4) > 0, tick)
		case 1:
			b.send(p, []byte("garbage"), midnight)
			b.send(p, marshal(b.t, batchOf("n", "j", midnight+3600_000)), midnight)
			b.bad += 2
		default:
			b.batches(rnd, p, 1+rnd.IntN(3))
		}
	}
}

func (b *sampleBench) newSink(before func(action, path string) error) *sink[measured] {
	s := newSink(b.cfg, samples(b.cfg), b.logged.Logger(), b.metrics, before)
	s.patience = time.Minute
	return s
}

func (b *sampleBench) drain() error {
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	return b.newSink(nil).run(ctx)
}

func (b *sampleBench) paths() []string {
	b.t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.cfg.Sink.Dir, "samples", "date=*", "*.parquet"))
	if err != nil {
		b.t.Fatal(err)
	}
	return paths
}

// check holds the archive against what the agents published, and returns its gaps.
func (b *sampleBench) check() (gaps []Footer) {
	b.t.Helper()
	var got []sampleRow
	var bad int64
	for _, path := range b.paths() {
		f, err := ReadFooter(path)
		if err != nil {
			b.t.Fatal(err)
		}
		rows := sampleFile(b.t, path)
		if !slices.IsSortedFunc(rows, func(x, y sampleRow) int {
			return cmp.Or(cmp.Compare(x.JobID, y.JobID), cmp.Compare(x.Metric, y.Metric),
				cmp.Compare(x.IntervalStart, y.IntervalStart), cmp.Compare(x.Node, y.Node))
		}) || int64(len(rows)) != f.Rows {
			b.t.Errorf("%s is not sorted, or has not %d rows", path, f.Rows)
		}
		for _, r := range rows {
			if want := "date=" + dateOf(r.IntervalStart); filepath.Base(filepath.Dir(path)) != want {
				b.t.Errorf("%s holds a row of %s", path, want)
			}
		}
		if f.Gap {
			gaps = append(gaps, f)
		}
		got, bad = append(got, rows...), bad+f.UndecodableCount
	}
	less := func(x, y sampleRow) bool {
		return x.Partition < y.Partition || x.Partition == y.Partition &&
			(x.Position < y.Position || x.Position == y.Position && x.Metric < y.Metric)
	}
	if diff := gocmp.Diff(b.rows, got, cmpopts.EquateNaNs(), cmpopts.SortSlices(less)); diff != "" {
		b.t.Fatalf("rows (-want +got):\n%.3000s", diff)
	}
	if bad != b.bad {
		b.t.Errorf("%d undecodable records in the footers, want %d", bad, b.bad)
	}
	return gaps
}

// TestSamplesMemory: all drafts together stay below sink.roll_bytes, however many partitions there are, and the
// estimate is not below what they take.
func TestSamplesMemory(t *testing.T) {
	t.Parallel()
	b := newSampleBench(t, 1)
	b.cfg.Cluster, b.cfg.Sink.RollBytes = "c", 200_000
	s := b.newSink(nil)
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for p := range int32(50) {
		s.drafts = append(s.drafts, newDraft[measured](p, tail{}))
	}
	records, values := sampleRecords(t, 20, 5)
	for i, r := range records {
		r.Partition, r.Offset = int32(i%50), int64(i/50)
		if err := s.accept(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var bytes int64
		for _, p := range s.drafts {
			bytes += p.bytes
		}
		if bytes > b.cfg.Sink.RollBytes {
			t.Fatalf("%d bytes are in drafts", bytes)
		}
	}
	if err := s.rollAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows int64
	for _, path := range b.paths() {
		f, err := ReadFooter(path)
		if err != nil {
			t.Fatal(err)
		}
		rows += f.Rows
	}
	if rows*16 != int64(values) || len(b.paths()) < 51 {
		t.Errorf("%d rows in %d files of %d values", rows, len(b.paths()), values)
	}
}

// TestSamplesEstimate compares the estimated memory of rows with the memory that they hold.
func TestSamplesEstimate(t *testing.T) { // not parallel: it measures the heap
	cfg := config.Default()
	cfg.Cluster = "c"
	records, _ := sampleRecords(t, 100, 5)
	estimateHolds(t, samples(cfg), records)
	cfg.Samples.Metrics = []string{"metric_00"}
	estimateHolds(t, samples(cfg), records)
}

func estimateHolds(t *testing.T, of stream[measured], records []*kgo.Record) {
	t.Helper()
	var held []item[measured]
	var estimate int64
	before := heap()
	for _, r := range records {
		it := of.decode(r)
		held, estimate = append(held, it), estimate+it.bytes
	}
	took := heap() - before
	runtime.KeepAlive(held)
	runtime.KeepAlive(records)
	if took > estimate*11/10 || took < estimate/2 {
		t.Errorf("%d records take %d bytes, the estimate is %d", len(held), took, estimate)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
