package assign

import "cmp"

// hops is the topological distance of a node from a collector in the tree of nodes, collectors and SyncAgents.
func (l *Layout) hops(node, collector int32) int {
	switch home := l.Home[node]; {
	case home == collector:
		return 1
	case l.Sync[home] == l.Sync[collector]:
		return 2
	}
	return 3
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

// Below counts the nodes that have a collector as their home, and those that only share its SyncAgent.
func (l *Layout) Below(collector int32, nodes []int32) (own, near int) {
	for _, n := range nodes {
		switch l.hops(n, collector) {
		case 1:
			own++
		case 2:
			near++
		}
	}
	return own, near
}

// Measures are what assignments are compared by. Jobs that are reduced on their node do not count.
type Measures struct {
	Distance  int // of all nodes from their collectors
	TreeNodes int // collectors, SyncAgents and frontends that jobs pass

	// LowerBound is the least distance that an assignment could have. It has a job within LMax at the nearest
	// collector, or where the job is if it is split and nearer so. It has every node of other jobs at home.
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

// treeNodes counts the collectors of a job. If there are several, the SyncAgents above them count too, and the
// frontend if there are several of those.
func treeNodes(l *Layout, at []int32) int {
	collectors, syncs := map[int32]bool{}, map[int32]bool{}
	for _, c := range at {
		collectors[c], syncs[l.Sync[c]] = true, true
	}
	switch {
	case len(collectors) == 1:
		return 1
	case len(syncs) == 1:
		return len(collectors) + 1
	}
	return len(collectors) + len(syncs) + 1
}
