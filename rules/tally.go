package rules

import (
	"cmp"
	"math"
	"slices"
)

// Bounds on the nodes that a tally counts by name. Other nodes are counted together.
const (
	maxNodesOfRule     = 64
	maxNodeBytesOfRule = 1024
	maxHosts           = 5 // nodes that are named in place of many
)

// tally counts the results of a rule over a life. All of its numbers depend only on the set of intervals, not on their
// order.
type tally struct {
	evaluated, matched int64
	sum, worst         int64 // severities, in grains
	firstMs, lastMs    int64 // starts of the first and the last match
	asOfMs             int64 // start of the last interval that was evaluated
	value              exact // severity's number: sum over the matches, or last value for a rule over the life
	evidence           []proof
	nodes              []nodeCount
	others             int64 // matches at nodes beyond the bound
	open, guarded      bool  // guarded: the guards have held
	falses             int64 // marks in a row without a match, of a rule over the whole life
	judged             int64 // intervals that were counted at the last mark
	badSeverity        bool  // a severity was not a number
	nodeBytes          int
}

// proof sums a number of the evidence over the matches. For a rule over the whole life it holds the last match only.
type proof struct {
	low, high float64
	sum       exact
	n         int64
}

type nodeCount struct {
	name string
	n    int64
}

// evaluate counts an evaluated interval.
func (t *tally) evaluate(startMs int64, matched bool, severity, value float64, evidence []float64) {
	t.evaluated++
	t.asOfMs = max(t.asOfMs, startMs)
	if !matched {
		return
	}
	if t.matched == 0 {
		t.firstMs, t.lastMs = startMs, startMs
	}
	t.matched++
	t.firstMs, t.lastMs = min(t.firstMs, startMs), max(t.lastMs, startMs)
	t.sum += grain(severity)
	t.worst = max(t.worst, grain(severity))
	t.value.add(value)
	for len(t.evidence) < len(evidence) {
		t.evidence = append(t.evidence, proof{})
	}
	for i, v := range evidence {
		t.evidence[i].add(v)
	}
}

func (p *proof) add(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if p.n == 0 {
		p.low, p.high = v, v
	}
	p.low, p.high = min(p.low, v), max(p.high, v)
	p.sum.add(v)
	p.n++
}

// at counts a match at a node.
func (t *tally) at(node string) {
	if node == "" {
		return
	}
	for i := range t.nodes {
		if t.nodes[i].name == node {
			t.nodes[i].n++
			return
		}
	}
	if len(t.nodes) == maxNodesOfRule || t.nodeBytes+len(node) > maxNodeBytesOfRule {
		t.others++
		return
	}
	t.nodeBytes += len(node)
	t.nodes = append(t.nodes, nodeCount{node, 1})
}

// top returns the node with the most matches, the first by name among several.
func (t *tally) top() nodeCount {
	if len(t.nodes) == 0 {
		return nodeCount{}
	}
	return slices.MinFunc(t.nodes, byMatches)
}

// byMatches orders nodes by matches, most first, and then by name.
func byMatches(a, b nodeCount) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) }

// hosts returns the nodes to name in a finding, in ascending order. With same set it is the node with most matches,
// otherwise all nodes with a twentieth of the matches. If many nodes share the matches and none reaches a twentieth,
// the first few stand for all.
func (t *tally) hosts(same bool) (all []string) {
	if same {
		if top := t.top(); top.n > 0 {
			all = append(all, top.name)
		}
		return all
	}
	for _, n := range t.nodes {
		if 20*n.n >= t.matched {
			all = append(all, n.name)
		}
	}
	if len(all) == 0 {
		first := slices.SortedFunc(slices.Values(t.nodes), byMatches)
		for _, n := range first[:min(len(first), maxHosts)] {
			all = append(all, n.name)
		}
	}
	slices.Sort(all)
	return all
}

// share returns the share of matches among the evaluated intervals. With same set, only matches of the top node count.
func (t *tally) share(same bool) float64 {
	n := t.matched
	if same {
		n = t.top().n
	}
	if t.evaluated == 0 {
		return 0
	}
	return float64(n) / float64(t.evaluated)
}

// settle opens or closes the finding of a rule that is judged in every interval.
func (t *tally) settle(r *Rule, applies, guarded bool) {
	share := t.share(r.Same)
	switch {
	case !applies:
		t.open = false
	case !t.open:
		t.open = guarded && t.matched > 0 && share >= r.Share
	default:
		t.open = share >= r.Share/2
	}
}

// mark opens or closes the finding of a rule over the whole life by its result at a mark. Two marks in a row without a
// match close it, or one at the end.
func (t *tally) mark(applies, matched, final bool) {
	switch {
	case !applies:
		t.open = false
	case matched:
		t.open, t.falses = true, 0
	default:
		if t.falses++; t.falses >= 2 || final {
			t.open = false
		}
	}
}

// class returns the class of the mean severity over the matches only, so that a rare event is not mild by dilution.
func (t *tally) class() string { return Class(float64(t.sum) / grains / float64(max(1, t.matched))) }
