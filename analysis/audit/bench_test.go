package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// BenchmarkInterval folds an interval of one partition: 256 nodes with 48 CPUs and 40 metrics, in one job and _system.
// No record, one in a hundred, and every record is decoded twice.
func BenchmarkInterval(b *testing.B) {
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
	for _, oneIn := range []int64{0, DecodedOneIn, 1} {
		b.Run(fmt.Sprintf("twice=%d", oneIn), func(b *testing.B) {
			for b.Loop() {
				books := NewBooks(Terms{
					Cluster: "c", Collectors: 1, From: Beginning, Only: -1, DecodedOneIn: oneIn,
					Counters: map[int32]Span{0: {Position: int64(len(log))}},
				})
				books.decided[jobInterval{schemas.JobKey{JobID: schemas.JobSystem}, 10_000}] = []int32{0}
				at := Source{schemas.TopicCounters, 0}
				for o, value := range log {
					books.Add(at, Entry{Offset: int64(o), AppendedMs: 20_000, Value: value})
				}
				books.End(at)
				if len(books.expected) != 2 {
					b.Fatal(books.expected)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(nodes*cpus*metrics), "ns/value")
		})
	}
}

// BenchmarkCertified compares the certified summary of one metric with its sorted values.
func BenchmarkCertified(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{48, 800, 12288} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			values := make([]float64, n)
			for i := range values {
				values[i] = r.NormFloat64()
			}
			_, s := quantile.Certify(slices.Clone(values), quantile.Large)
			c, sorted := certifiedOf(s), sortedOf(values)
			for b.Loop() {
				if err := (truth{sorted, sorted}).compare(c); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/value")
		})
	}
}
