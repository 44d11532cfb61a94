package balancer

import (
	"cmp"
	"slices"
)

// limits bound what one collector takes. They and loads count nodes, or bytes in an interval where weir's algorithm weighs them.
type limits struct {
	lMax     int    // load; a job with more is spread over several collectors
	lDist    int    // nodes that each of these is meant to take, by PerSyst's algorithms
	localMax int    // jobs of one node that are reduced there, others send values; 0: all
	literal  bool   // PerSyst's algorithms in place of weir's
	lost     []bool // collectors that take nothing; nil: none. Not by PerSyst's
	still    bool   // loads are guessed: no job leaves a collector because of them. Not by PerSyst's
}

// placement says where one job is reduced.
type placement struct {
	local bool    // on its only node
	at    []int32 // collector of each node of the job, in the job's order; where local, the node's home
}

// assign places jobs on collectors by the three algorithms of PerSyst, read literally. A job is the numbers of its nodes.
//
// Algorithm 1 takes jobs in descending load, ties in their order. A job of one node is reduced there, until as many are as the
// storage takes (localMax): the text above the algorithm sends those beyond through the tree. Another job goes to the
// collector with the least load, among these the one at the least total distance from its nodes (algorithm 2), among
// these the lowest number; if that would then hold more than l_max, algorithm 3 spreads the job. Three readings make the paper's
// text executable: a collector's load grows by a node's load where the text overwrites it (line 16 of algorithm 3); the
// set of n_c collectors may turn out smaller, since one without children of the job can be found again; and l_max may
// be passed under pressure, since line 8 of algorithm 3 does not look at it.
func assign(l *layout, jobs [][]int32, lim limits) []placement {
	order := make([]int, len(jobs))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(jobs[b]), len(jobs[a])) })

	a := &assignment{
		layout: l, limits: lim,
		load: make([]int, len(l.sync)), own: make([]int, len(l.sync)), near: make([]int, l.syncAgents()),
	}
	placed := make([]placement, len(jobs))
	for _, j := range order {
		placed[j] = a.place(jobs[j])
	}
	return placed
}

// assignment is the state while jobs are placed. own and near count the agents of the job in hand.
type assignment struct {
	*layout
	limits
	locals int   // jobs that are reduced on their node
	load   []int // of each collector
	own    []int // of each collector: agents that are its children
	near   []int // of each SyncAgent: agents below it
}

func (a *assignment) place(nodes []int32) placement {
	p := placement{at: make([]int32, len(nodes))}
	if len(nodes) == 1 && (a.localMax == 0 || a.locals < a.localMax) {
		a.locals++
		p.local, p.at[0] = true, a.home[nodes[0]]
		return p
	}
	a.count(nodes, 1)
	defer a.count(nodes, -1)
	c := a.best(nil, len(nodes))
	if a.load[c]+len(nodes) > a.lMax {
		a.distribute(nodes, p.at)
		return p
	}
	a.load[c] += len(nodes)
	for i := range p.at {
		p.at[i] = c
	}
	return p
}

func (a *assignment) count(nodes []int32, by int) {
	for _, n := range nodes {
		a.own[a.home[n]] += by
		a.near[a.sync[a.home[n]]] += by
	}
}

// best is algorithm 2 over the candidates, in ascending order; nil: all collectors. A node is at distance 1 from its
// parent, 2 from a collector under the same SyncAgent, 3 from all others.
func (a *assignment) best(candidates []int32, agents int) int32 {
	best, bestDistance := int32(-1), 0
	try := func(c int32) {
		distance := 3*agents - a.near[a.sync[c]] - a.own[c]
		if best < 0 || a.load[c] < a.load[best] || a.load[c] == a.load[best] && distance < bestDistance {
			best, bestDistance = c, distance
		}
	}
	if candidates == nil {
		for c := range a.load {
			try(int32(c))
		}
		return best
	}
	for _, c := range candidates {
		try(c)
	}
	return best
}

// distribute is algorithm 3. It fills at.
func (a *assignment) distribute(nodes, at []int32) {
	children := make(map[int32][]int) // of a collector: positions in nodes
	for i, n := range nodes {
		at[i] = -1
		children[a.home[n]] = append(children[a.home[n]], i)
	}
	var chosen []int32
	left := len(nodes)
	for range (len(nodes) + a.lDist - 1) / a.lDist {
		c := a.best(nil, left)
		if slices.Contains(chosen, c) {
			break // it has no children left: nothing would change, and it would be found for ever
		}
		chosen = append(chosen, c)
		mine := children[c]
		for _, i := range mine {
			at[i] = c
		}
		left -= len(mine)
		a.load[c] += len(mine)
		a.own[c] -= len(mine)
		a.near[a.sync[c]] -= len(mine)
		if left == 0 {
			break
		}
	}
	for _, c := range chosen { // from here on the whole job counts again
		a.own[c] += len(children[c])
		a.near[a.sync[c]] += len(children[c])
	}
	slices.Sort(chosen)
	for i := range nodes {
		if at[i] < 0 {
			at[i] = a.best(chosen, len(nodes))
			a.load[at[i]]++
		}
	}
}
