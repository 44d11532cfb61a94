package assign

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/topology"
)

// Layout is PerSyst's tree over the machine. Every node is an agent with a parent collector, its home. Every collector
// has a SyncAgent above it. Nodes and collectors go by number here. A collector's number is its partition of counters.
type Layout struct {
	Nodes []string         // in tree order
	Index map[string]int32 // of a node in nodes
	Home  []int32          // of a node: its parent collector
	Sync  []int32          // of a collector: its SyncAgent
}

// countSyncAgents returns how many numbers of SyncAgents there are: one more than the highest in use.
func (l *Layout) countSyncAgents() int32 {
	count := int32(0)
	for _, s := range l.Sync {
		count = max(count, s+1)
	}
	return count
}

// NewLayout lays collectors over a tree. places has the island where each collector's leader stands, None where it is
// not known, and may be nil. If all places are unknown, neighbours in the tree share a home, and homes are as equal as
// the islands let them be:
//
//   - With at least as many collectors as islands, every island gets one. Each further collector goes to the island
//     with the most nodes per collector. No home crosses an island, and an island is a SyncAgent.
//   - With fewer, a collector is home to one or more whole islands, and is its own SyncAgent.
//
// If places are known, an island is the SyncAgent of the collectors that stand in it. These are the homes of its
// nodes; see homesByPlace.
func NewLayout(tree *topology.Tree, collectors int, places []int) *Layout {
	nodes := tree.Nodes()
	l := &Layout{
		Nodes: nodes, Index: make(map[string]int32, len(nodes)),
		Home: make([]int32, len(nodes)), Sync: make([]int32, collectors),
	}
	sizes := make([]int, len(tree.Islands()))
	islands := make([]int, len(nodes))
	for i, n := range nodes {
		l.Index[n] = int32(i)
		islands[i], _ = tree.Island(n) // the tree has its own nodes
		sizes[islands[i]]++
	}
	if slices.ContainsFunc(places, func(p int) bool { return p != None }) {
		l.homesByPlace(islands, sizes, places)
		return l
	}
	first, count := homesOfIslands(sizes, collectors)
	for island, at := range first {
		for c := at; c < at+count[island]; c++ {
			l.Sync[c] = int32(island)
		}
	}
	if collectors < len(sizes) {
		for c := range l.Sync {
			l.Sync[c] = int32(c)
		}
	}
	seen := make([]int, len(sizes)) // nodes of each island so far
	for i, island := range islands {
		l.Home[i] = int32(first[island] + seen[island]*count[island]/sizes[island])
		seen[island]++
	}
	return l
}

// homesByPlace gives the nodes of an island to the collectors that stand in it. A collector of unknown place goes to
// the island with the most nodes per collector. An island without a collector goes as a whole to the collector that
// is home to the fewest nodes. Of such islands, the one with the most nodes comes first.
func (l *Layout) homesByPlace(islands, sizes, places []int) {
	in := make([][]int32, len(sizes)) // collectors of each island
	for c, island := range places {
		if island != None {
			in[island] = append(in[island], int32(c))
		}
	}
	for c, island := range places {
		if island != None {
			continue
		}
		fullest := 0
		for i := range sizes {
			if sizes[i]*(len(in[fullest])+1) > sizes[fullest]*(len(in[i])+1) {
				fullest = i
			}
		}
		in[fullest] = append(in[fullest], int32(c))
	}
	homes := make([]int, len(places)) // nodes of each collector
	for island, cs := range in {
		for _, c := range cs {
			l.Sync[c] = int32(island)
			homes[c] = sizes[island] / len(cs)
		}
	}
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	for _, island := range order {
		if len(in[island]) == 0 {
			c := slices.Index(homes, slices.Min(homes))
			in[island] = []int32{int32(c)}
			homes[c] += sizes[island]
		}
	}
	seen := make([]int, len(sizes)) // nodes of each island so far
	for i, island := range islands {
		l.Home[i] = in[island][seen[island]*len(in[island])/sizes[island]]
		seen[island]++
	}
}

// homesOfIslands returns the collectors that are homes of each island: count of them, from first on.
func homesOfIslands(sizes []int, collectors int) (first, count []int) {
	first, count = make([]int, len(sizes)), make([]int, len(sizes))
	if collectors < len(sizes) {
		return wholeIslands(sizes, collectors), ones(count)
	}
	ones(count)
	for range collectors - len(sizes) {
		fullest := 0
		for i := range sizes {
			if sizes[i]*count[fullest] > sizes[fullest]*count[i] {
				fullest = i
			}
		}
		if len(sizes) > 0 {
			count[fullest]++
		}
	}
	for i := 1; i < len(sizes); i++ {
		first[i] = first[i-1] + count[i-1]
	}
	return first, count
}

// wholeIslands gives whole islands to fewer collectors. An island goes to the collector in whose equal part of all
// nodes its middle lies. No collector is passed over, so that each one has an island.
func wholeIslands(sizes []int, collectors int) []int {
	total, before, last := 0, 0, -1
	for _, n := range sizes {
		total += n
	}
	first := make([]int, len(sizes))
	for i, n := range sizes {
		middle := (2*before + n) * collectors / max(1, 2*total)
		c := min(max(middle, last), last+1, collectors-1)
		last = max(c, 0, collectors-len(sizes)+i)
		first[i] = last
		before += n
	}
	return first
}

func ones(v []int) []int {
	for i := range v {
		v[i] = 1
	}
	return v
}
