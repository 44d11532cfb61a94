package view

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// FewNodes is the most nodes of a job for which the rows of the archive have the numbers of each node.
const FewNodes = 3

// Metrics of the table by node.
const (
	nodeIdle      = "cpu_idle"
	nodeMemory    = "mem_used"
	nodeJobMemory = "job_mem_used" // if the memory of the node is not measured
	nodeGPU       = "acc_utilization"
	nodeGPUMemory = "acc_mem_used"
)

// nodeNetwork are the rates that add up to a node's traffic.
var nodeNetwork = []string{"ic_read_bw", "ic_write_bw", "eth_read_bw", "eth_write_bw"}

// NodeMetrics returns the metrics that the table by node is made of.
func NodeMetrics() []string {
	return append([]string{nodeIdle, nodeMemory, nodeJobMemory, nodeGPU, nodeGPUMemory}, nodeNetwork...)
}

// NodeTable has a line for each node of a job.
type NodeTable struct {
	Lines  []NodeLine // worst first: least GPU use, then the fewest busy cores
	Source string     // where the numbers are from, and how complete they are
	Why    string     // not empty: why there is no line, and how to get the numbers
}

// NodeLine is one node of a job. Numbers that are not known are NaN.
type NodeLine struct {
	Node      string
	Busy      float64 // share of cores with work
	Memory    float64 // bytes, the largest value
	GPU       float64 // share of time in which its GPUs worked
	GPUMemory float64 // bytes of one of its GPUs, the mean
	Network   float64 // bytes a second, received and sent
	Intervals int64   // that the numbers are made of
	Nodes     int     // the number of nodes, if the line stands for several
}

// NodeColumn is a column of the table by node.
type NodeColumn struct {
	Head, Unit string
	Of         func(*NodeLine) float64
	Drop       int // order in which a narrow terminal drops columns, the largest first; 0: never
}

// NodeColumns are the columns of the table by node. A report leaves out columns without any number.
var NodeColumns = []NodeColumn{
	{"busy", "1", func(l *NodeLine) float64 { return l.Busy }, 0},
	{"memory (max)", "B", func(l *NodeLine) float64 { return l.Memory }, 0},
	{"GPU", "1", func(l *NodeLine) float64 { return l.GPU }, 0},
	{"GPU memory", "B", func(l *NodeLine) float64 { return l.GPUMemory }, 1},
	{"network", "B/s", func(l *NodeLine) float64 { return l.Network }, 2},
}

// NodeSum is one metric of one node over some time.
type NodeSum struct {
	Count, Intervals int64   // of values, and of intervals with a value
	Mean             float64 // of all values
	Most             float64 // largest value; NaN: not known
}

// add takes the sum of another time.
func (s *NodeSum) add(o NodeSum) {
	if o.Count <= 0 || math.IsNaN(o.Mean) || math.IsInf(o.Mean, 0) {
		return
	}
	if s.Count == 0 {
		*s = o
		return
	}
	s.Count += o.Count
	s.Intervals += o.Intervals
	s.Mean += (o.Mean - s.Mean) * float64(o.Count) / float64(s.Count)
	s.Most = most(s.Most, o.Most)
}

// NodeSums are the sums of the nodes of a job, by node and metric.
type NodeSums struct {
	nodes    []string // of the job; may be unknown
	of       map[string]map[string]*NodeSum
	expected map[string]int64 // node intervals, by metric
}

// NewNodeSums returns the empty sums of a job with these nodes.
func NewNodeSums(nodes []string) *NodeSums {
	return &NodeSums{nodes: nodes, of: map[string]map[string]*NodeSum{}, expected: map[string]int64{}}
}

// Expect adds node intervals that the job should have.
func (s *NodeSums) Expect(metric string, intervals int64) { s.expected[metric] += intervals }

// Add adds values of a node.
func (s *NodeSums) Add(node, metric string, v NodeSum) {
	if node == "" {
		return
	}
	of := s.of[node]
	if of == nil {
		of = map[string]*NodeSum{}
		s.of[node] = of
	}
	if of[metric] == nil {
		of[metric] = &NodeSum{Most: math.NaN()}
	}
	of[metric].add(v)
}

// Hour adds an hour of a job of one node.
func (s *NodeSums) Hour(metric string, v NodeSum, expected int64) {
	s.Expect(metric, expected)
	if len(s.nodes) == 1 {
		s.Add(s.nodes[0], metric, v)
	}
}

// Row adds a row of a job of at most FewNodes nodes. The row has the means of the lowest and the highest node. A third
// node has the rest, if each node has as many values. Rows that do not determine the means of all their nodes are left
// out.
func (s *NodeSums) Row(r *schemas.Row) {
	if r.Metric == nil {
		return
	}
	s.Expect(*r.Metric, int64(r.NodesExpected))
	if r.Count == nil || r.Mean == nil || r.Nodes == nil || *r.Count <= 0 {
		return
	}
	n, count := int64(*r.Nodes), *r.Count
	add := func(node string, values int64, mean, largest float64) {
		s.Add(node, *r.Metric, NodeSum{Count: values, Intervals: 1, Mean: mean, Most: largest})
	}
	low, high := text(r.LowNode), text(r.HighNode)
	if n == 1 {
		node := low
		if node == "" && len(s.nodes) == 1 {
			node = s.nodes[0]
		}
		largest := math.NaN()
		if r.D10 != nil {
			largest = *r.D10
		}
		add(node, count, *r.Mean, largest)
		return
	}
	if low == "" || high == "" || r.LowNodeMean == nil || r.HighNodeMean == nil {
		return
	}
	lowest, highest := *r.LowNodeMean, *r.HighNodeMean
	largest := func(mean float64) float64 { // a node's only value is its mean
		if count == n {
			return mean
		}
		return math.NaN()
	}
	switch {
	case low == high && int(n) == len(s.nodes) && count%n == 0: // all means are equal
		for _, node := range s.nodes {
			add(node, count/n, lowest, largest(lowest))
		}
	case low == high:
	case n == 2:
		ofLow := valuesOfLow(count, *r.Mean, lowest, highest)
		add(low, ofLow, lowest, largest(lowest))
		add(high, count-ofLow, highest, largest(highest))
	case n == 3:
		if node, mean, ok := s.third(r, low, high); ok {
			add(low, count/3, lowest, largest(lowest))
			add(node, count/3, mean, largest(mean))
			add(high, count/3, highest, largest(highest))
		}
	}
}

// valuesOfLow returns how many values of two nodes are those of the lower one, by the mean of all.
func valuesOfLow(count int64, mean, low, high float64) int64 {
	of := float64(count) / 2
	if high-low > 1e-9*max(math.Abs(low), math.Abs(high)) {
		of = float64(count) * ((high - mean) / (high - low))
	}
	return min(max(int64(math.Round(of)), 1), count-1)
}

// third returns the node between the lowest and the highest of three. Its mean is right if all nodes have as many
// values. The deviation of the means shows whether they do.
func (s *NodeSums) third(r *schemas.Row, low, high string) (node string, mean float64, ok bool) {
	if len(s.nodes) != 3 || *r.Count%3 != 0 || r.NodeStddev == nil {
		return "", 0, false
	}
	for _, n := range s.nodes {
		if n != low && n != high {
			if node != "" {
				return "", 0, false // the lowest or the highest is not of the job
			}
			node = n
		}
	}
	a, b := *r.LowNodeMean, *r.HighNodeMean
	mean = *r.Mean + ((*r.Mean - a) - (b - *r.Mean))
	slack := 1e-6*(b-a) + 1e-12*max(math.Abs(a), math.Abs(b))
	if !(mean >= a-slack && mean <= b+slack) {
		return "", 0, false
	}
	mean = min(max(mean, a), b)
	center := a + ((mean-a)+(b-a))/3
	deviation := math.Sqrt(((a-center)*(a-center) + (mean-center)*(mean-center) + (b-center)*(b-center)) / 3)
	return node, mean, math.Abs(deviation-*r.NodeStddev) <= slack
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// Intervals returns the sum over the nodes of the intervals that are known.
func (s *NodeSums) Intervals() (n int64) {
	for _, of := range s.of {
		n += intervalsOf(of)
	}
	return n
}

// intervalsOf returns the intervals of a node: those of the metric with the most.
func intervalsOf(of map[string]*NodeSum) (n int64) {
	for _, v := range of {
		n = max(n, v.Intervals)
	}
	return n
}

// Table returns the table of these sums. from names their source.
func (s *NodeSums) Table(t config.NodeType, from string) *NodeTable {
	expected := int64(0)
	for _, n := range s.expected {
		expected = max(expected, n)
	}
	table := &NodeTable{Lines: s.lines(t), Source: from}
	if known := s.Intervals(); expected > 0 {
		table.Source += ": " + Floor(min(1, float64(known)/float64(expected))) + " of the intervals of its nodes"
	}
	return table
}

// lines returns a line for each node of the job, and for each other node with values. A node without values has a line
// of unknown numbers, at the end.
func (s *NodeSums) lines(t config.NodeType) []NodeLine {
	names := slices.Clone(s.nodes)
	for node := range s.of {
		if !slices.Contains(s.nodes, node) {
			names = append(names, node)
		}
	}
	slices.Sort(names)
	var lines []NodeLine
	for _, node := range slices.Compact(names) {
		lines = append(lines, lineOf(node, s.of[node], t))
	}
	slices.SortStableFunc(lines, func(a, b NodeLine) int {
		return cmp.Or(unknownLast(a.GPU, b.GPU), unknownLast(a.Busy, b.Busy))
	})
	return lines
}

func lineOf(node string, of map[string]*NodeSum, t config.NodeType) NodeLine {
	nan := math.NaN()
	l := NodeLine{Node: node, Busy: nan, Memory: nan, GPU: nan, GPUMemory: nan, Network: nan, Nodes: 1}
	l.Intervals = intervalsOf(of)
	if v := of[nodeIdle]; v != nil && v.Count > 0 {
		l.Busy = Busy(v.Mean, t)
	}
	for _, metric := range []string{nodeJobMemory, nodeMemory} {
		if v := of[metric]; v != nil && v.Count > 0 && !math.IsNaN(v.Most) {
			l.Memory = v.Most
		}
	}
	if v := of[nodeGPU]; v != nil && v.Count > 0 {
		l.GPU = v.Mean
	}
	if v := of[nodeGPUMemory]; v != nil && v.Count > 0 {
		l.GPUMemory = v.Mean
	}
	for _, metric := range nodeNetwork {
		if v := of[metric]; v != nil && v.Count > 0 {
			if math.IsNaN(l.Network) {
				l.Network = 0
			}
			l.Network += v.Mean
		}
	}
	return l
}

// unknownLast orders numbers ascending, with NaN at the end.
func unknownLast(a, b float64) int {
	switch {
	case math.IsNaN(a) && math.IsNaN(b):
		return 0
	case math.IsNaN(a):
		return 1
	case math.IsNaN(b):
		return -1
	}
	return cmp.Compare(a, b)
}

// WorstNodes is the number of nodes that a report of a job shows.
const WorstNodes = 10

// Worst returns the first lines, and one line for all others if there are several: the mean of their numbers, and the
// largest memory.
func (t *NodeTable) Worst() []NodeLine {
	if len(t.Lines) <= WorstNodes+1 {
		return t.Lines
	}
	rest := t.Lines[WorstNodes:]
	all := NodeLine{Memory: math.NaN(), Nodes: len(rest)}
	mean := func(of func(*NodeLine) float64) float64 {
		sum, n := 0.0, 0.0
		for i := range rest {
			if v := of(&rest[i]); !math.IsNaN(v) {
				sum, n = sum+v, n+1
			}
		}
		return sum / n // NaN if none is known
	}
	all.Busy = mean(func(l *NodeLine) float64 { return l.Busy })
	all.GPU = mean(func(l *NodeLine) float64 { return l.GPU })
	all.GPUMemory = mean(func(l *NodeLine) float64 { return l.GPUMemory })
	all.Network = mean(func(l *NodeLine) float64 { return l.Network })
	for i := range rest {
		all.Memory = most(all.Memory, rest[i].Memory)
		all.Intervals += rest[i].Intervals
	}
	return append(slices.Clone(t.Lines[:WorstNodes]), all)
}
