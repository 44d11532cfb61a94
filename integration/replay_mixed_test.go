package integration

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// mixedLog returns a log of nodes that disagree on units, scopes, and on the set of metrics. Values are missing or
// infinite, and some records have nearly the largest allowed number of metrics.
func mixedLog(t *testing.T, seed uint64, intervals int64) *foldLog {
	t.Helper()
	l := &foldLog{t: t, r: rand.New(rand.NewPCG(seed, 2))}
	for i := range intervals {
		l.mixed(foldStart + i*foldT)
	}
	return l
}

func (l *foldLog) mixed(start int64) {
	r := l.r
	var ticks [foldCollectors]schemas.Tick
	listed := map[string]map[int32]bool{}
	for j := range 6 {
		job, parts := fmt.Sprint("job", j), int32(1+r.IntN(foldCollectors))
		if j == 0 {
			job = schemas.JobRest
		}
		first := int32(r.IntN(foldCollectors))
		shares := map[int32][]string{}
		for n := range foldNodes {
			if p := first + int32(r.IntN(int(parts))); r.IntN(2) == 0 || len(shares[first]) == 0 {
				shares[p%foldCollectors] = append(shares[p%foldCollectors], fmt.Sprintf("n%02d", n))
			}
		}
		nodes := int32(0)
		for _, of := range shares {
			nodes += int32(len(of))
		}
		for p, of := range shares {
			tj := schemas.TickJob{JobID: job, Parts: int32(len(shares)), JobNodes: nodes, Nodes: of}
			if job == "job5" {
				tj.Parts = 0
			}
			ticks[p].Jobs = append(ticks[p].Jobs, tj)
			for _, node := range of {
				if listed[node] == nil {
					listed[node] = map[int32]bool{}
				}
				if listed[node][p] = true; r.IntN(8) > 0 {
					l.put(p, start, l.mixedBatch(node, job, start))
				}
			}
		}
	}
	for p := range ticks {
		t := &ticks[p]
		t.IntervalStart, t.IntervalMs = start, foldT
		slices.SortFunc(t.Jobs, func(a, b schemas.TickJob) int { return int(a.JobNodes - b.JobNodes) })
		for node, partitions := range listed {
			if len(partitions) > 1 && partitions[int32(p)] {
				t.Shared = append(t.Shared, node)
			}
		}
		slices.Sort(t.Shared)
		l.put(int32(p), start, t)
	}
}

func (l *foldLog) mixedBatch(node, job string, start int64) *schemas.CounterBatch {
	r := l.r
	b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: foldCluster, Node: node, IntervalStart: start, IntervalMs: foldT, JobID: job,
	}}
	for c := range int32(r.IntN(5)) {
		b.Cpus = append(b.Cpus, c)
	}
	names := []string{"a", "b", "c", "d", "e"}
	if r.IntN(20) == 0 {
		for i := range schemas.MaxMetrics - 10 {
			names = append(names, fmt.Sprintf("x%04d", i*(1+r.IntN(2))))
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	for _, name := range names {
		if r.IntN(4) == 0 {
			continue
		}
		m := schemas.CounterBatchMetric{Name: name, Unit: "1", Scope: schemas.ScopeCore}
		if r.IntN(8) == 0 {
			m.Unit = "2"
		}
		n := len(b.Cpus)
		switch {
		case name == "e" || r.IntN(8) == 0:
			m.Scope, n = []string{schemas.ScopeNode, schemas.ScopeJob}[r.IntN(2)], 1
		case name == "d" || r.IntN(8) == 0:
			m.Scope, n = []string{schemas.ScopeGPU, schemas.ScopeSocket}[r.IntN(2)], 1+r.IntN(8)
		}
		for range n {
			v := float64(r.IntN(9)) / 4
			switch r.IntN(12) {
			case 0:
				v = math.NaN()
			case 1:
				v = math.Inf(1)
			case 2:
				v = r.NormFloat64() * 1e9
			}
			m.Values = append(m.Values, v)
		}
		b.Metrics = append(b.Metrics, m)
	}
	return b
}

// TestReplayOfMixedRecords: if the nodes of a job disagree, a replay and an audit decide in the same way as collect and
// merge.
func TestReplayOfMixedRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	for seed := range uint64(kafkatest.Cases(5, 1)) {
		b := bookkeep(t, mixedLog(t, seed, 4), nil)
		terms := replayTerms()
		terms.AsCollected = true
		_, all, _ := b.replayed(terms)
		topic := b.collected()
		report, _ := b.audited()
		for _, d := range report.Differences {
			t.Errorf("seed %d: audit: %v", seed, d)
		}
		if len(all) != len(topic) {
			t.Errorf("seed %d: %d summaries, the topic has %d", seed, len(all), len(topic))
		}
		for _, s := range all {
			if compareReplay(t, s, topic[keyOf(s)]); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}
