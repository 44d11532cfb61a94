package fold

import (
	"math"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// shownMean is the mean of a node as a summary has it.
func shownMean(node *string, mean *float64) (string, float64) {
	if node == nil || mean == nil {
		return "", math.NaN()
	}
	return *node, *mean
}

// checkNodeMeans compares the extremes of the only metric of a summary.
func checkNodeMeans(t *testing.T, s *schemas.JobSummary, method, low string, lowMean float64, high string,
	highMean float64,
) {
	t.Helper()
	m := &s.Metrics[0]
	node, mean := shownMean(m.LowNode, m.LowNodeMean)
	top, topMean := shownMean(m.HighNode, m.HighNodeMean)
	if s.Method != method || node != low || mean != lowMean || top != high || topMean != highMean {
		t.Errorf("%s: %s has %v, %s has %v; want %s: %s %v, %s %v", s.Method, node, mean, top, topMean,
			method, low, lowMean, high, highMean)
	}
	if _, err := schemas.MarshalChecked(s); err != nil {
		t.Error(err)
	}
}

// TestNodeMeansAreThoseOfTheNodes: what low_node and high_node measured in the mean stands beside their names. The
// sums are by hand. A value that is missing does not count.
func TestNodeMeansAreThoseOfTheNodes(t *testing.T) {
	values := map[string][]float64{
		"n1": {4, 5, 9},                         // 6
		"n2": {-1, 2, -7},                       // -2
		"n3": {10, -1 / zero, 30},               // 20: of two values
		"n4": {math.NaN(), -1 / zero, 1 / zero}, // none
	}
	batchOf := func(node string) *schemas.CounterBatch {
		b := batch(node, "j", simEpochMs, simT, 0)
		b.Cpus, b.Metrics[0].Values = []int32{0, 1, 2}, values[node]
		return b
	}
	one := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	for node := range values {
		one.put(batchOf(node))
	}
	whole := summariesOf(one.put(tickOf(simEpochMs, false, tickJob("j", 1, "n1", "n2", "n3", "n4"))).Outputs)
	if len(whole) != 1 {
		t.Fatalf("%d summaries", len(whole))
	}
	checkNodeMeans(t, whole[0], schemas.MethodExact, "n2", -2, "n3", 20)

	// Each node of a split job has a collector of its own. Merge knows the means alone.
	merger := newFeed(t, NewMerger(simCluster, 4, nil))
	split := tickJob("j", 4)
	split.JobNodes = 4
	var merged []*schemas.JobSummary
	for p, node := range []string{"n1", "n2", "n3", "n4"} {
		f := newFeed(t, NewCollector(simCluster, int32(p), 4, nil))
		f.put(batchOf(node))
		part := split
		part.Nodes = []string{node}
		for _, o := range f.put(tickOf(simEpochMs, false, part)).Outputs {
			for _, s := range summariesOf(merger.put(o).Outputs) {
				if s.JobID == "j" {
					merged = append(merged, s)
				}
			}
		}
	}
	if len(merged) != 1 {
		t.Fatalf("%d summaries", len(merged))
	}
	checkNodeMeans(t, merged[0], schemas.MethodExact, "n2", -2, "n3", 20)

	// A job of one node is the lowest and the highest.
	local := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	local.put(reducedBatch(batchOf("n1")))
	reduced := summariesOf(local.put(tickOf(simEpochMs, false, tickJob("j", 1, "n1"))).Outputs)
	if len(reduced) != 1 {
		t.Fatalf("%d summaries", len(reduced))
	}
	checkNodeMeans(t, reduced[0], schemas.MethodNode, "n1", 6, "n1", 6)

	// Without a value there is no node. A node that an agent does not name has no mean.
	silent := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	silent.put(batchOf("n4"))
	none := summariesOf(silent.put(tickOf(simEpochMs, false, tickJob("j", 1, "n4"))).Outputs)
	if m := none[0].Metrics[0]; m.LowNodeMean != nil || m.HighNodeMean != nil || m.Count != 0 {
		t.Errorf("%+v", m)
	}
	nameless := reducedBatch(batchOf("n1"))
	nameless.Metrics[0].LowNode = nil
	unnamed := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	unnamed.put(nameless)
	odd := summariesOf(unnamed.put(tickOf(simEpochMs, false, tickJob("j", 1, "n1"))).Outputs)
	if m := odd[0].Metrics[0]; m.LowNodeMean != nil || *m.HighNodeMean != 6 {
		t.Errorf("%+v", m)
	}
	if _, err := schemas.MarshalChecked(odd[0]); err != nil {
		t.Error(err)
	}
}
