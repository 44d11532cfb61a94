package assign

import (
	"cmp"
	"slices"
)

// placeLiteral places jobs by the three algorithms of PerSyst, read literally. A job is given by the numbers of its
// nodes.
//
// Algorithm 1 takes jobs in descending load, ties in their order. Up to LocalMax jobs of one node are reduced there, as
// many as the storage takes. The text above the algorithm sends all others through the tree. Algorithm 2 picks the
// collector with the least load, then the least total distance from the job's nodes, then the lowest number. If the job
// would lift it above l_max, algorithm 3 spreads the job.
//
// Three readings make the paper's text executable:
//
//   - A collector's load grows by a node's load; the text overwrites it (line 16 of algorithm 3).
//   - The set of n_c collectors may turn out smaller, since one without children of the job can be found again.
//   - A load may exceed l_max under pressure, since line 8 of algorithm 3 does not look at it.
func placeLiteral(l *Layout, jobs [][]int32, lim Limits) []Placement {
	order := make([]int, len(jobs))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(jobs[b]), len(jobs[a])) })

	a := &persyst{
		Layout: l, Limits: lim,
		load: make([]int, len(l.Sync)), own: make([]int, len(l.Sync)), above: l.levels(),
	}
	for _, of := range a.above {
		a.near = append(a.near, make([]int, vertices(of)))
	}
	placed := make([]Placement, len(jobs))
	for _, j := range order {
		placed[j] = a.place(jobs[j])
	}
	return placed
}

// persyst is the state while jobs are placed. own and near count the agents of the current job.
type persyst struct {
	*Layout
	Limits
	locals int   // jobs that are reduced on their node
	load   []int // of each collector
	own    []int // of each collector: agents that are its children
	above  [][]int32
	near   [][]int // of each level above the collectors, of each of its vertices: agents below it
}

// place puts one job as PerSyst's paper does. A job of one node stays on its node while LocalMax allows it. Any other
// job is whole at the collector that best chooses, or spread if that collector lacks room.
func (a *persyst) place(nodes []int32) Placement {
	p := Placement{At: make([]int32, len(nodes))}
	if len(nodes) == 1 && (a.LocalMax == 0 || a.locals < a.LocalMax) {
		a.locals++
		p.Local, p.At[0] = true, a.Home[nodes[0]]
		return p
	}
	a.count(nodes, 1)
	defer a.count(nodes, -1)
	c := a.best(nil, len(nodes))
	if a.load[c]+len(nodes) > a.LMax {
		a.distribute(nodes, p.At)
		return p
	}
	a.load[c] += len(nodes)
	for i := range p.At {
		p.At[i] = c
	}
	return p
}

func (a *persyst) count(nodes []int32, by int) {
	for _, n := range nodes {
		a.add(a.Home[n], by)
	}
}

// add changes the number of the job's agents that are children of a collector.
func (a *persyst) add(c int32, by int) {
	a.own[c] += by
	for k, of := range a.above {
		a.near[k][of[c]] += by
	}
}

// best is algorithm 2 over the candidates, which ascend; nil means all collectors. In the paper a node is at distance 1
// from its parent, 2 from a collector under the same SyncAgent, and 3 from others.
func (a *persyst) best(candidates []int32, agents int) int32 {
	best, bestDistance := int32(None), 0
	try := func(c int32) {
		distance := (2+len(a.above))*agents - a.own[c]
		for k, of := range a.above {
			distance -= a.near[k][of[c]]
		}
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

// distribute is algorithm 3. It writes the collector of each node to at.
func (a *persyst) distribute(nodes, at []int32) {
	children := make(map[int32][]int) // of a collector: positions in nodes
	for i, n := range nodes {
		at[i] = None
		children[a.Home[n]] = append(children[a.Home[n]], i)
	}
	var chosen []int32
	left := len(nodes)
	for range (len(nodes) + a.LDist - 1) / a.LDist {
		c := a.best(nil, left)
		if slices.Contains(chosen, c) {
			break // it has no children left: nothing would change, and the search would find it again and again
		}
		chosen = append(chosen, c)
		mine := children[c]
		for _, i := range mine {
			at[i] = c
		}
		left -= len(mine)
		a.load[c] += len(mine)
		a.add(c, -len(mine))
		if left == 0 {
			break
		}
	}
	for _, c := range chosen { // from here on the whole job counts again
		a.add(c, len(children[c]))
	}
	slices.Sort(chosen)
	for i := range nodes {
		if at[i] < 0 {
			at[i] = a.best(chosen, len(nodes))
			a.load[at[i]]++
		}
	}
}
