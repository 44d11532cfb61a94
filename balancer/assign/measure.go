package assign

import (
	"cmp"
	"slices"
)

// hops is the topological distance of a node from a collector: the number of levels up to their lowest common vertex.
// It is 1 from a node to its home. With SyncAgents alone, it is 2 below one SyncAgent, and 3 otherwise.
func (l *Layout) hops(node, collector int32) int {
	home := l.Home[node]
	if home == collector {
		return 1
	}
	hops := 2
	for k := len(l.Deeper) - 1; k >= 0; k-- {
		if l.Deeper[k][home] == l.Deeper[k][collector] {
			return hops
		}
		hops++
	}
	if l.Sync[home] == l.Sync[collector] {
		return hops
	}
	return hops + 1
}

// Distance is the total topological distance of nodes from their collectors.
func (l *Layout) Distance(nodes, at []int32) int {
	distance := 0
	for i, n := range nodes {
		distance += l.hops(n, at[i])
	}
	return distance
}

// Nearest is the total distance of nodes from the collector that is nearest to all of them. Its load does not count.
func (l *Layout) Nearest(nodes []int32) int {
	f := newField(l)
	f.begin(nodes)
	return f.distance(f.closest(len(nodes)), len(nodes))
}

// Below counts the nodes with a given collector as their home, and the nodes that only share its SyncAgent.
func (l *Layout) Below(collector int32, nodes []int32) (own, near int) {
	for _, n := range nodes {
		switch home := l.Home[n]; {
		case home == collector:
			own++
		case l.Sync[home] == l.Sync[collector]:
			near++
		}
	}
	return own, near
}

// Measures are the criteria for comparing assignments. Jobs that are reduced on their node do not count.
type Measures struct {
	Distance  int // of all nodes from their collectors
	TreeNodes int // collectors, vertices above them and frontends that jobs pass

	// LowerBound is a lower bound of the distance of any assignment. It assumes the nearest collector for a job within
	// LMax, or its present collectors if the job is split and they are nearer. For other jobs it assumes that every
	// node is at home.
	LowerBound int
}

// Measure compares an assignment of tasks with the least distance that one could have.
func Measure(l *Layout, tasks []Task, placed []Placement, lMax int) Measures {
	var m Measures
	f := newField(l)
	for j := range tasks {
		if placed[j].Local {
			continue
		}
		nodes := tasks[j].Nodes
		distance := l.Distance(nodes, placed[j].At)
		m.Distance += distance
		m.TreeNodes += treeNodes(l, placed[j].At)
		if tasks[j].load() > int64(lMax) {
			m.LowerBound += len(nodes)
			continue
		}
		f.begin(nodes)
		m.LowerBound += min(distance, f.distance(f.closest(len(nodes)), len(nodes)))
		f.end()
	}
	return m
}

// closest returns the collector at the least distance, then the lowest number. Loads do not count.
func (f *field) closest(nodes int) int32 {
	best := f.least[1]
	f.candidates(func(c int32) {
		if cmp.Or(cmp.Compare(f.distance(c, nodes), f.distance(best, nodes)), cmp.Compare(c, best)) < 0 {
			best = c
		}
	})
	return best
}

// treeNodes counts the collectors of a job, and the vertices of each level above them up to the first level with a
// single one. The frontend is above all.
func treeNodes(l *Layout, at []int32) int {
	count := distinct(at)
	parts := count
	for _, of := range slices.Backward(l.levels()) {
		if parts == 1 {
			return count
		}
		vertices := make([]int32, len(at))
		for i, c := range at {
			vertices[i] = of[c]
		}
		parts = distinct(vertices)
		count += parts
	}
	if parts > 1 {
		count++
	}
	return count
}
