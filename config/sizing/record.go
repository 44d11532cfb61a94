package sizing

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// Metric is the name and the unit of a metric, as they travel in each record.
type Metric struct{ Name, Unit string }

// Lengths of names and a time that records have. Numbers of these sizes take as many bytes as real ones.
const (
	clusterName = "cluster01"
	nodeName    = "rack012n0345"
	bootID      = "0c7d8a52-3a3e-4c57-9a55-0a1b2c3d4e5f"
	runID       = "0123456789abcdef"
	jobName     = "12345678"
	atMs        = int64(1_800_000_000_000)
)

// metrics returns n metrics with names as long as the given ones, which it takes in turn.
func metrics(names []Metric, n int) []Metric {
	all := make([]Metric, n)
	for i := range all {
		all[i] = Metric{"cpu_metric01", "1/s"}
		if len(names) > 0 {
			all[i] = names[i%len(names)]
		}
	}
	return all
}

// record returns the record of a node with one job in an interval.
func record(names []Metric, cores int, intervalMs int64) *schemas.CounterBatch {
	r := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: clusterName, Node: nodeName, BootID: bootID, RunID: runID, Seq: 1_000_000, IntervalStart: atMs,
		IntervalMs: intervalMs, SampledAt: 1000 * atMs, SentAt: atMs, JobID: jobName, Epoch: 100_000,
		Cpus: make([]int32, cores),
	}}
	for c := range r.Cpus {
		r.Cpus[c] = int32(c)
	}
	for _, m := range names {
		r.Metrics = append(r.Metrics, schemas.CounterBatchMetric{
			Name: m.Name, Unit: m.Unit, Scope: schemas.ScopeCore, Values: make([]float64, cores),
		})
	}
	return r
}

// certified returns a certified summary of many values that differ, which is the largest kind. It is nil with 0 bytes.
func certified(bytes, ranks int) *schemas.Certified {
	if bytes == 0 {
		return nil
	}
	column, random := make([]float64, 10_000), rand.New(rand.NewPCG(1, 1))
	for i := range column {
		column[i] = random.ExpFloat64()
	}
	_, s := quantile.Certify(column, quantile.Budget{Bytes: bytes, Ranks: ranks})
	c := schemas.NewCertified(s.Eps, s.Order, s.Knots, s.Atoms)
	return &c
}

// summary returns the JobSummary of a job in an interval.
func summary(names []Metric, nodes, cores, sketch int, intervalMs int64) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: clusterName, JobID: jobName, IntervalStart: atMs, IntervalMs: intervalMs, Method: schemas.MethodExact,
		Parts: 1, PartsReported: 1, NodesExpected: int32(nodes), NodesReported: int32(nodes),
	}
	c, number, name, deciles := certified(sketch, quantile.Large.Ranks), math.Pi, nodeName, make([]float64, 11)
	for _, m := range names {
		s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
			Name: m.Name, Unit: m.Unit, Scope: schemas.ScopeCore, Count: int64(nodes) * int64(cores),
			Nodes: int32(nodes),
			Mean:  &number, Stddev: &number, NodeStddev: &number, LowNode: &name, HighNode: &name, Deciles: &deciles,
			RankError: &number, Certified: c, LowNodeMean: &number, HighNodeMean: &number,
		})
	}
	return s
}

// partial returns a share that a partition with these nodes writes of _system.
func partial(names []Metric, nodes, cores int, intervalMs int64) *schemas.JobPartial {
	p := &schemas.JobPartial{
		Cluster: clusterName, JobID: schemas.JobSystem, IntervalStart: atMs, IntervalMs: intervalMs, Collector: 100,
		Parts: 100, JobNodes: int32(nodes), NodesExpected: int32(nodes), NodesReported: int32(nodes),
	}
	c, number, name := certified(quantile.Quick.Bytes, quantile.Quick.Ranks), math.Pi, nodeName
	for _, m := range names {
		p.Metrics = append(p.Metrics, schemas.JobPartialMetric{
			Name: m.Name, Unit: m.Unit, Scope: schemas.ScopeCore, Count: int64(nodes) * int64(cores),
			Nodes: int32(nodes),
			Mean:  &number, M2: &number, NodeMean: &number, NodeM2: &number, LowNode: &name, LowNodeMean: &number,
			HighNode: &name, HighNodeMean: &number, Certified: *c, NodeMeans: int64(nodes),
		})
	}
	return p
}

// size returns the bytes of a record as it travels, before compression.
func size(r schemas.Record) (int64, error) {
	value, err := schemas.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("encoding a %T: %w", r, err)
	}
	return int64(len(value)), nil
}
