package view

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// rowOfNodes is the row that collect makes of the values of some nodes. Its lowest and highest node are the first of several
// with equal means.
func rowOfNodes(metric string, names []string, values [][]float64, expected int) *schemas.Row {
	var all, means []float64
	low, high := "", ""
	lowest, highest := math.Inf(1), math.Inf(-1)
	for i, of := range values {
		mean := quantile.Reduce(append([]float64(nil), of...)).Mean
		all, means = append(all, of...), append(means, mean)
		if mean < lowest {
			low, lowest = names[i], mean
		}
		if mean > highest {
			high, highest = names[i], mean
		}
	}
	d, spread := quantile.Reduce(all), quantile.Reduce(means).Stddev()
	return &schemas.Row{
		Metric: &metric, Count: &d.Count, Mean: &d.Mean, Nodes: new(int32(len(values))), NodesExpected: int32(expected),
		LowNode: &low, HighNode: &high, LowNodeMean: &lowest, HighNodeMean: &highest, NodeStddev: &spread,
		D10: &d.Deciles[10],
	}
}

// TestNodesOfRows: the rows of jobs of one to three nodes give the mean of each node as its values do.
func TestNodesOfRows(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 33))
		n := 1 + rnd.IntN(3)
		names := []string{"a", "b", "c"}[:n]
		s, sums, counts := NewNodeSums(names), map[string]float64{}, map[string]int64{}
		left := 0
		for range 40 {
			cores := 1 + rnd.IntN(5)
			values := make([][]float64, n)
			same := rnd.IntN(8) == 0
			for i := range values {
				values[i] = make([]float64, cores)
				for k := range values[i] {
					if values[i][k] = rnd.Float64() * 1e9; same {
						values[i][k] = 7
					}
				}
			}
			if rnd.IntN(5) == 0 && !same && n > 1 { // a value of a node is missing
				values[0] = append(values[0], rnd.Float64())
			}
			unequal := len(values[0]) != cores
			s.Row(rowOfNodes("m", names, values, n))
			if unequal && n == 3 {
				left++
				continue
			}
			for i, of := range values {
				for _, v := range of {
					sums[names[i]] += v
					counts[names[i]]++
				}
			}
		}
		for _, node := range names {
			got := s.of[node]["m"]
			if got == nil {
				if counts[node] > 0 {
					t.Fatalf("seed %d: nothing of %s", seed, node)
				}
				continue
			}
			want := sums[node] / float64(counts[node])
			if got.Count != counts[node] || got.Intervals != int64(40-left) || !(math.Abs(got.Mean-want) <= 1e-9*want) {
				t.Fatalf("seed %d: %d nodes, %s: %+v, want mean %v of %d values", seed, n, node, got, want, counts[node])
			}
		}
	}
}

// TestNodesOfRowsThatDoNotTell: rows of more nodes, of unknown nodes, and of an older collect leave no numbers.
func TestNodesOfRowsThatDoNotTell(t *testing.T) {
	t.Parallel()
	three := [][]float64{{1, 2}, {3, 4}, {5, 6}}
	for name, c := range map[string]struct {
		nodes  []string
		change func(r *schemas.Row)
	}{
		"four nodes":         {[]string{"a", "b", "c", "d"}, func(r *schemas.Row) { r.Nodes = new(int32(4)) }},
		"another node":       {[]string{"a", "b", "x"}, func(*schemas.Row) {}},
		"without means":      {[]string{"a", "b", "c"}, func(r *schemas.Row) { r.LowNodeMean, r.HighNodeMean = nil, nil }},
		"two without names":  {[]string{"a", "b"}, func(r *schemas.Row) { r.Nodes, r.LowNode = new(int32(2)), nil }},
		"no number of nodes": {[]string{"a", "b", "c"}, func(r *schemas.Row) { r.Nodes = nil }},
		"no value":           {[]string{"a", "b", "c"}, func(r *schemas.Row) { r.Count = new(int64(0)) }},
		"another deviation":  {[]string{"a", "b", "c"}, func(r *schemas.Row) { *r.NodeStddev *= 1.1 }},
	} {
		s := NewNodeSums(c.nodes)
		r := rowOfNodes("m", []string{"a", "b", "c"}, three, 3)
		c.change(r)
		s.Row(r)
		if n := s.Intervals(); n != 0 {
			t.Errorf("%s: %d intervals, %v", name, n, s.of)
		}
	}
}

// TestNodeTable: the numbers of a line, the order of the lines, and how much is known.
func TestNodeTable(t *testing.T) {
	t.Parallel()
	s := NewNodeSums([]string{"a", "b", "silent"})
	for _, node := range []string{"a", "b"} {
		idle := map[string]float64{"a": 0.2, "b": 0.9}[node]
		for metric, v := range map[string]float64{
			"cpu_idle": idle, "job_mem_used": 3, "mem_used": 5, "ic_read_bw": 10, "eth_write_bw": 4,
		} {
			s.Add(node, metric, NodeSum{Count: 2, Intervals: 2, Mean: v, Most: v + 1})
		}
	}
	s.Expect("cpu_idle", 6)
	table := s.Table(config.NodeType{}, "somewhere")
	var order string
	for _, l := range table.Lines {
		order += l.Node + " "
	}
	if order != "b a silent " || table.Source != "somewhere: 66.6 % of the intervals of its nodes" {
		t.Errorf("%s: %s", order, table.Source)
	}
	b := table.Lines[0]
	if math.Abs(b.Busy-0.1) > 1e-12 || b.Memory != 6 || !math.IsNaN(b.GPU) || b.Network != 14 || b.Intervals != 2 {
		t.Errorf("%+v", b)
	}
	s.Add("a", "acc_utilization", NodeSum{Count: 1, Intervals: 1, Mean: 0, Most: 0})
	s.Add("b", "acc_utilization", NodeSum{Count: 1, Intervals: 1, Mean: 0.5, Most: 1})
	if first := s.Table(config.NodeType{}, "").Lines[0].Node; first != "a" {
		t.Errorf("the first of the GPU nodes is %s", first)
	}
}

// TestWorstNodes: ten of many nodes have a line, and the others share one.
func TestWorstNodes(t *testing.T) {
	t.Parallel()
	table := &NodeTable{}
	for i := range 1000 {
		table.Lines = append(table.Lines, NodeLine{
			Node: fmt.Sprintf("n%03d", i), Busy: float64(i) / 1000, Memory: float64(i), GPU: math.NaN(), Nodes: 1, Intervals: 3,
		})
	}
	worst := table.Worst()
	rest := worst[len(worst)-1]
	if len(worst) != 11 || worst[9].Node != "n009" || rest.Nodes != 990 || math.Abs(rest.Busy-0.5045) > 1e-12 ||
		rest.Memory != 999 || !math.IsNaN(rest.GPU) || rest.Intervals != 2970 {
		t.Errorf("%d lines, the last is %+v", len(worst), rest)
	}
	table.Lines = table.Lines[:11]
	if n := len(table.Worst()); n != 11 {
		t.Errorf("%d lines of 11 nodes", n)
	}
}
