package fold

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// BenchmarkInterval is one collector's share of an interval. The machine has 9,288 nodes with 16 CPUs, and 64
// collectors. The share has 145 nodes in jobs of 49, as SuperMUC's 185 jobs have in the mean, and 37 metrics. It
// reports nanoseconds a value for each of its steps, each at its best. These are reading the records from their bytes,
// the summaries of the jobs, and what _system adds. docs/performance.md names it. Each is measured with the certified
// summaries that collect.sketch allows, and once with jobs of 16 nodes.
func BenchmarkInterval(b *testing.B) {
	for _, sketch := range []int{0, 210, 512} {
		b.Run(fmt.Sprintf("sketch=%d", sketch), func(b *testing.B) { benchmarkInterval(b, sketch, 49) })
	}
	b.Run("sketch=512/small_jobs", func(b *testing.B) { benchmarkInterval(b, 512, 16) })
}

func benchmarkInterval(b *testing.B, sketch, jobSize int) {
	const nodes, cpus, metrics = 145, 16, 37
	r := rand.New(rand.NewPCG(1, 1))
	tick := &schemas.Tick{IntervalStart: simEpochMs, IntervalMs: simT}
	var entries []Entry
	var batches []*schemas.CounterBatch
	bytes := int64(0)
	for n := range nodes {
		node, job := fmt.Sprintf("n%03d", n), fmt.Sprintf("j%d", n/jobSize)
		batch := &schemas.CounterBatch{NodeHeader: header(node, job, simEpochMs, simT)}
		batch.Cpus = nil
		for c := range int32(cpus) {
			batch.Cpus = append(batch.Cpus, c)
		}
		for m := range metrics {
			name := fmt.Sprintf("metric_%02d", m)
			metric := schemas.CounterBatchMetric{Name: name, Unit: "1", Scope: schemas.ScopeCore}
			for range cpus {
				metric.Values = append(metric.Values, r.ExpFloat64())
			}
			batch.Metrics = append(batch.Metrics, metric)
		}
		batches = append(batches, batch)
		entries = append(entries, Entry{Offset: int64(n), AppendedMs: simEpochMs + simT, Value: encode(b, batch)})
		bytes += int64(len(entries[n].Value))
		if n%jobSize == 0 {
			tick.Jobs = append(tick.Jobs, schemas.TickJob{JobID: job, Parts: 1, JobNodes: int32(jobSize)})
		}
		last := &tick.Jobs[len(tick.Jobs)-1]
		last.Nodes = append(last.Nodes, node)
	}
	var read, closed, whole float64 // seconds, each at its best
	note := func(best *float64, began time.Duration) {
		if took := (b.Elapsed() - began).Seconds(); *best == 0 || took < *best {
			*best = took
		}
	}
	var all system
	fold, written := NewCollector(simCluster, 0, 64, nil), 0
	fold.Sketch = sketch
	b.SetBytes(bytes)
	for at := simEpochMs; b.Loop(); at += simT {
		b.StopTimer() // it is another interval, so that the fold goes on with the memory that it has
		for n := range entries {
			batches[n].IntervalStart, tick.IntervalStart = at, at
			entries[n] = Entry{Offset: entries[n].Offset + nodes, AppendedMs: at + simT, Value: encode(b, batches[n])}
		}
		end := Entry{Offset: entries[nodes-1].Offset, AppendedMs: at + simT, Value: encode(b, tick)}
		b.StartTimer()
		began := b.Elapsed()
		for _, e := range entries {
			fold.Apply(e)
		}
		note(&read, began)
		share := systemOf(b, note, &whole, fold, &all, tick)
		began = b.Elapsed()
		outputs := fold.Apply(end).Outputs
		for _, o := range outputs {
			written += len(encode(b, o))
		}
		note(&closed, began)
		if same := outputs[len(outputs)-2].(*schemas.JobPartial); len(same.Metrics) != len(share.Metrics) {
			b.Fatal("another _system was measured")
		}
	}
	each := 1e9 / (nodes * cpus * metrics)
	b.ReportMetric(read*each, "read-ns/value")
	b.ReportMetric((closed-whole)*each, "jobs-ns/value")
	b.ReportMetric(whole*each, "system-ns/value")
	b.ReportMetric(100*whole/(read+closed-whole), "system-%")
	b.ReportMetric(float64(written)/float64(b.N*len(tick.Jobs)*metrics), "B/metric")
}

// systemOf does what a Tick adds to _system, beside the fold, and notes how long that alone takes.
func systemOf(b *testing.B, note func(*float64, time.Duration), best *float64, fold *Collector, all *system,
	tick *schemas.Tick,
) *schemas.JobPartial {
	took := time.Duration(0)
	all.begin()
	for n := range tick.Jobs {
		job := &tick.Jobs[n]
		var records []*nodeRecord
		for _, node := range job.Nodes {
			r := fold.intervals[tick.IntervalStart].jobs[schemas.JobKey{JobID: job.JobID}][node]
			r.number = all.expect(node)
			records = append(records, r)
		}
		found := newColumns(records)
		cols, _ := earned(maps.Values(found), len(found))
		for _, c := range cols {
			gather([]*column{c}, records, &fold.rooms)
			r := c.reduce(fold.Sketch, &all.room)
			began := b.Elapsed()
			all.join(c, &r)
			took += b.Elapsed() - began
		}
	}
	began := b.Elapsed()
	share, _ := all.partial(simCluster, 0, 64, &closing{start: tick.IntervalStart, lengthMs: tick.IntervalMs})
	encode(b, share)
	note(best, began-took)
	return share
}
