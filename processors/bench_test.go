package processors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/schemas"
)

// BenchmarkInterval is one collector's share of an interval. The machine has 9,288 nodes with 16 CPUs, and 64
// collectors. The share has 145 nodes in jobs of 16, and 40 metrics. It reports nanoseconds a value for each of its
// steps: reading the records from their bytes, the summaries of the jobs, and what _system adds. docs/accuracy.md names
// it. Each is measured with the certified summaries that collect.sketch allows.
func BenchmarkInterval(b *testing.B) {
	for _, sketch := range []int{0, 210, 512} {
		b.Run(fmt.Sprintf("sketch=%d", sketch), func(b *testing.B) { benchmarkInterval(b, sketch) })
	}
}

func benchmarkInterval(b *testing.B, sketch int) {
	const nodes, cpus, metrics, jobSize = 145, 16, 40, 16
	r := rand.New(rand.NewPCG(1, 1))
	tick := &schemas.Tick{IntervalStart: simEpochMs, IntervalMs: simT}
	var entries []Entry
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
		entries = append(entries, Entry{Offset: int64(n), AppendedMs: simEpochMs + simT, Value: encode(b, batch)})
		bytes += int64(len(entries[n].Value))
		if n%jobSize == 0 {
			tick.Jobs = append(tick.Jobs, schemas.TickJob{JobID: job, Parts: 1, JobNodes: jobSize})
		}
		last := &tick.Jobs[len(tick.Jobs)-1]
		last.Nodes = append(last.Nodes, node)
	}
	var all system
	var read, jobs, system float64 // seconds
	written := 0
	b.SetBytes(bytes)
	for b.Loop() {
		fold := NewCollector(simCluster, 0, 64, nil)
		began := b.Elapsed()
		for _, e := range entries {
			fold.Apply(e)
		}
		read += (b.Elapsed() - began).Seconds()

		i := fold.intervals[tick.IntervalStart]
		all.begin()
		k := &closing{start: tick.IntervalStart, lengthMs: simT}
		for n := range tick.Jobs {
			job := &tick.Jobs[n]
			var records []*nodeRecord
			for _, node := range job.Nodes {
				records = append(records, i.take(schemas.JobKey{JobID: job.JobID}, node, simT))
				records[len(records)-1].number = all.expect(node)
			}
			began = b.Elapsed()
			byNode(records)
			gathered := newColumns(records, nil)
			cols := gathered.sorted()
			jobs += (b.Elapsed() - began).Seconds()
			began = b.Elapsed()
			all.join(records, cols, nil)
			system += (b.Elapsed() - began).Seconds()
			began = b.Elapsed()
			written += len(encode(b, summarize(simCluster, 0, tick, job, records, cols, sketch)))
			jobs += (b.Elapsed() - began).Seconds()
		}
		began = b.Elapsed()
		encode(b, all.partial(simCluster, 0, 64, k))
		system += (b.Elapsed() - began).Seconds()
	}
	each := 1e9 / float64(b.N) / (nodes * cpus * metrics)
	b.ReportMetric(read*each, "read-ns/value")
	b.ReportMetric(jobs*each, "jobs-ns/value")
	b.ReportMetric(system*each, "system-ns/value")
	b.ReportMetric(100*system/(read+jobs), "system-%")
	b.ReportMetric(float64(written)/float64(b.N*len(tick.Jobs)*metrics), "B/metric")
}

// BenchmarkFinder folds an interval of 185 jobs with 40 metrics each, by the shipped rules.
func BenchmarkFinder(b *testing.B) {
	const jobs, metrics = 185, 40
	names := []string{
		"cpu_user", "cpu_system", "cpu_idle", "cpu_iowait", "clock", "mem_bw", "flops_any", "vectorization_ratio",
		"swap_pages", "mem_used", "job_mem_peak", "acc_utilization", "cpu_load", "disk_bytes", "lustre_read_bw",
		"lustre_write_bw", "nfs_read_bw", "nfs_write_bw",
	}
	var known []rules.Known
	for _, n := range names {
		known = append(known, rules.Known{Name: n, Scope: schemas.ScopeCore})
	}
	set, err := rules.Compile(known, nil)
	if err != nil {
		b.Fatal(err)
	}
	for n := len(names); n < metrics; n++ {
		names = append(names, fmt.Sprintf("metric%d", n))
	}
	slices.Sort(names)
	types, _ := rules.NewTypes(nil)
	nobody := func(schemas.JobKey) *schemas.Job { return nil }
	f, err := NewFinder(simCluster, set, types, false, nobody, nil, slices.Values[[]*schemas.FindState](nil))
	if err != nil {
		b.Fatal(err)
	}
	var values [][]byte
	offset := int64(0)
	for at := int64(0); b.Loop(); at++ {
		b.StopTimer()
		values = values[:0]
		for job := range jobs {
			s := loadOf(fmt.Sprint(job), findEpoch+at*10_000, 10_000, 0.5)
			one := s.Metrics[0]
			s.Metrics = s.Metrics[:0]
			for _, n := range names {
				one.Name = n
				s.Metrics = append(s.Metrics, one)
			}
			values = append(values, encode(b, s))
		}
		b.StartTimer()
		for _, v := range values {
			f.Apply(Entry{Offset: offset, AppendedMs: findEpoch + (at+1)*10_000, Value: v})
			offset++
		}
	}
}
