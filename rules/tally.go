package rules

import (
	"cmp"
	"math"
	"slices"
)

// Bounds on the nodes that a tally counts by name. Further ones count together.
const (
	maxNodesOfRule     = 64
	maxNodeBytesOfRule = 1024
	maxHosts           = 5 // that stand for many
)

// tally counts what a rule has said of a life. What it says of a life is a function of the set of intervals.
type tally struct {
	evaluated, matched int64
	sum, worst         int64 // severities, in grains
	firstMs, lastMs    int64 // starts of the first and the last match
	asOfMs             int64 // start of the last interval that was evaluated
	value              exact // of the severity's number, over the matches; of a rule over the life that of the last
	evidence           []proof
	nodes              []nodeCount
	others             int64 // matches at nodes beyond the bound
	open, guarded      bool  // guarded: the guards have held
	falses             int64 // marks in a row without a match, of a rule over the whole life
	judged             int64 // intervals that were counted at the last mark
	badSeverity        bool  // a severity was not a number
	nodeBytes          int
}

// proof is a number of the evidence over the matches, or of the last match of a rule over the whole life.
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

// top returns the node with most matches: of several the first by name.
func (t *tally) top() nodeCount {
	if len(t.nodes) == 0 {
		return nodeCount{}
	}
	return slices.MinFunc(t.nodes, byMatches)
}

// byMatches orders nodes: those with most matches come first, and of several the first by name.
func byMatches(a, b nodeCount) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) }

// hosts returns the nodes that matter, ascending: the one that is the same, or all that had a twentieth of the matches.
// Where many nodes share the matches none has a twentieth, and the first few stand for all.
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

// share is the share of matches among the evaluated, at one and the same node where the rule wants that.
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

// mark opens or closes the finding of a rule over the whole life, by what it says now. Two marks close it, or the end.
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

// class is that of the matches alone, so that a rare event is not mild by dilution.
func (t *tally) class() string { return Class(float64(t.sum) / grains / float64(max(1, t.matched))) }
