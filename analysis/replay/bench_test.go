package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/derive"
)

// BenchmarkFold replays an interval of one partition: a job of 256 nodes with 48 CPUs and 40 metrics.
func BenchmarkFold(b *testing.B) {
	const nodes, cpus, metrics = 256, 48, 40
	r := rand.New(rand.NewPCG(1, 1))
	var names []string
	var log [][]byte
	put := func(rec schemas.Record) {
		value, err := schemas.Marshal(rec)
		if err != nil {
			b.Fatal(err)
		}
		log = append(log, value)
	}
	for n := range nodes {
		batch := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: "c", Node: fmt.Sprintf("n%04d", n), JobID: "1", IntervalStart: 10_000, IntervalMs: 10_000,
		}}
		names = append(names, batch.Node)
		for c := range int32(cpus) {
			batch.Cpus = append(batch.Cpus, c)
		}
		for m := range metrics {
			values := make([]float64, cpus)
			for i := range values {
				values[i] = r.NormFloat64()
			}
			batch.Metrics = append(batch.Metrics, schemas.CounterBatchMetric{
				Name: fmt.Sprintf("m%02d", m), Unit: "1", Scope: schemas.ScopeCore, Values: values,
			})
		}
		put(batch)
	}
	put(&schemas.Tick{IntervalStart: 10_000, IntervalMs: 10_000, Jobs: []schemas.TickJob{
		{JobID: "1", Parts: 1, JobNodes: nodes, Nodes: names},
	}})
	set, err := derive.Compile([]derive.Definition{{Name: "ratio", Expr: "m00 / m01"}})
	if err == nil {
		err = set.Resolve(map[string]string{"m00": schemas.ScopeCore, "m01": schemas.ScopeCore})
	}
	if err != nil {
		b.Fatal(err)
	}
	all := Terms{Cluster: "c", Collectors: 1, From: recount.Never, To: math.MaxInt64}
	job, collected, computed, archived := all, all, all, all
	job.Jobs = []Choice{{JobID: "1", Restart: EveryRestart}}
	collected.AsCollected, computed.Set, archived.Sketch = true, set, 512
	one := job
	one.Metrics = []string{"m00"}
	for _, c := range []struct {
		name  string
		terms Terms
	}{
		{"all", all},
		{"job", job},
		{"one metric", one},
		{"as collected", collected},
		{"computed", computed},
		{"archive", archived},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				f := New(c.terms)
				read := map[Source]int{}
				for s, ok := f.Next(); ok; s, ok = f.Next() {
					if o := read[s]; o < len(log) {
						f.Add(s, recount.Entry{Offset: int64(o), AppendedMs: 20_000, Value: log[o]})
						read[s]++
					} else {
						f.End(s)
					}
				}
				if f.Tally.Summarized != nodes {
					b.Fatalf("%+v", f.Tally)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(nodes*cpus*metrics), "ns/value")
		})
	}
}
