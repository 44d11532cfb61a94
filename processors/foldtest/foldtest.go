// Package foldtest makes up records for tests of folds. It needs no broker.
package foldtest

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
)

var seed = flag.Uint64("seed", 0, "of the first simulated log; 0: by the clock")

// Cluster, IntervalMs and EpochMs are of every made-up record: its cluster, its interval in milliseconds, and the start
// of the first interval.
const (
	Cluster    = "c"
	IntervalMs = int64(1000)
	EpochMs    = int64(1_700_000_000_000)
)

// Encode encodes a record, or fails the test.
func Encode(t testing.TB, r schemas.Record) []byte {
	t.Helper()
	b, err := schemas.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// NewSeed is another one in every run, unless the command line has one.
func NewSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	return uint64(time.Now().UnixNano())
}

// Header is of a record of a node with two CPUs.
func Header(node, job string, start, length int64) schemas.NodeHeader {
	return schemas.NodeHeader{
		Cluster: Cluster, Node: node, IntervalStart: start, IntervalMs: length, JobID: job, Cpus: []int32{0, 1},
	}
}

// Batch is a CounterBatch with one metric, of the values v and v + 1.
func Batch(node, job string, start, length int64, v float64) *schemas.CounterBatch {
	return &schemas.CounterBatch{
		NodeHeader: Header(node, job, start, length),
		Metrics: []schemas.CounterBatchMetric{
			{Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore, Values: []float64{v, v + 1}},
		},
	}
}

// Partial is a collector's share of a job on one node. parts is how many collectors have a share of the job.
func Partial(job string, collector int32, start int64, parts int32) *schemas.JobPartial {
	mean, zero, node := float64(collector), 0.0, fmt.Sprintf("n%d", collector)
	order := slices.Repeat([]float64{mean}, 11)
	return &schemas.JobPartial{
		Cluster: Cluster, JobID: job, IntervalStart: start, IntervalMs: IntervalMs, Collector: collector, Parts: parts,
		JobNodes: 3, NodesExpected: 1, NodesReported: 1,
		Metrics: []schemas.JobPartialMetric{{
			Name: "m", Unit: "1", Scope: schemas.ScopeNode, Count: 1, Nodes: 1,
			Mean: &mean, M2: &zero, NodeMean: &mean, NodeM2: &zero,
			LowNode: &node, LowNodeMean: &mean, HighNode: &node, HighNodeMean: &mean,
			Certified: schemas.Certified{OrderStatistics: order},
		}},
	}
}

// Tick is a Tick of some jobs. more: another one of its interval follows.
func Tick(start int64, more bool, jobs ...schemas.TickJob) *schemas.Tick {
	return &schemas.Tick{IntervalStart: start, IntervalMs: IntervalMs, Jobs: jobs, More: more}
}

// TickJob is a job of a Tick, with its nodes.
func TickJob(job string, parts int32, nodes ...string) schemas.TickJob {
	return schemas.TickJob{JobID: job, Parts: parts, JobNodes: int32(len(nodes)), Nodes: nodes}
}

// Fates counts the records that were read and have a fate.
func Fates(c schemas.ProgressCounts) int64 {
	return c.Summarized + c.Rejected + c.Late + c.Dropped + c.Duplicate + c.Misrouted + c.Ended + c.Gaps + c.Ticks
}
