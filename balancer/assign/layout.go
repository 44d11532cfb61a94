package assign

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/topology"
)

// Layout is PerSyst's tree over the machine, as deep as the machine's own tree. Every node is an agent with a parent
// collector, its home. Every collector belongs to a SyncAgent, and there may be further vertices between the two. Nodes
// and collectors go by number here. A collector's number is its partition of counters.
type Layout struct {
	Nodes []string         // in tree order
	Index map[string]int32 // of a node in nodes
	Home  []int32          // of a node: its parent collector
	Sync  []int32          // of a collector: its SyncAgent

	// Deeper are the levels between SyncAgents and collectors, from the top. A level contains the vertex of each
	// collector. Collectors that share a vertex share the vertex above. The paper has no such levels.
	Deeper [][]int32
}

// levels returns the levels above the collectors, from the top.
func (l *Layout) levels() [][]int32 { return append([][]int32{l.Sync}, l.Deeper...) }

// vertices returns the size of a level's numbering: one more than the highest number in use.
func vertices(level []int32) int32 {
	count := int32(0)
	for _, v := range level {
		count = max(count, v+1)
	}
	return count
}

// NewLayout lays collectors over a tree. places lists the vertex of each collector's leader, None if unknown, and may
// be nil. If all places are unknown, neighbours in the tree share a home, and homes are as equal as the islands allow:
//
//   - With at least as many collectors as islands, every island gets one. Each further collector goes to the island
//     with the most nodes per collector. No home crosses an island, and an island is a SyncAgent.
//   - With fewer, a collector is home to one or more whole islands, and is its own SyncAgent.
//
// If places are known, an island is the SyncAgent of the collectors that stand in it. These are the homes of its nodes;
// see homesByPlace.
//
// Below the islands, a collector is at its place. If that is unknown, it is at the lowest vertex above all nodes that
// it is home to.
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
		islands[i], _ = tree.Island(n) // the nodes come from the tree
		sizes[islands[i]]++
	}
	if slices.ContainsFunc(places, func(p int) bool { return p != None }) {
		l.homesByPlace(tree, islands, sizes, places)
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
	below := make([][]int, collectors)
	seen := make([]int, len(sizes)) // nodes of each island so far
	for i, island := range islands {
		l.Home[i] = int32(first[island] + seen[island]*count[island]/sizes[island])
		seen[island]++
		above := pathBelow(tree, l.Nodes[i])
		if c := l.Home[i]; below[c] == nil {
			below[c] = above
		} else {
			below[c] = common(below[c], above)
		}
	}
	if collectors >= len(sizes) {
		l.deepen(below)
	}
	return l
}

// pathBelow returns the vertices above a node, from below its island on. The result is not nil.
func pathBelow(tree *topology.Tree, node string) []int {
	v, _ := tree.Index(node) // the node comes from the tree
	path := tree.Path(v)
	return path[min(1, len(path)-1) : len(path)-1]
}

// common returns the common beginning of two paths.
func common(a, b []int) []int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// deepen adds levels below the SyncAgents, from the vertices above each collector. A collector that is higher in the
// tree gets a vertex of its own there. A level that groups collectors as the level above does, or that groups none, is
// left out, because it adds nothing.
func (l *Layout) deepen(below [][]int) {
	above := l.Sync
	for k := 0; slices.ContainsFunc(below, func(path []int) bool { return len(path) > k }); k++ {
		level, numbers := make([]int32, len(below)), map[int]int32{}
		for c, path := range below {
			v := -1 - c
			if len(path) > k {
				v = path[k]
			}
			number, known := numbers[v]
			if !known {
				number = int32(len(numbers))
				numbers[v] = number
			}
			level[c] = number
		}
		if len(numbers) == len(below) {
			return // and further down each is alone too
		}
		if !sameGroups(above, level) {
			l.Deeper = append(l.Deeper, level)
			above = level
		}
	}
}

// sameGroups reports whether two levels put the same collectors together. The second is below the first.
func sameGroups(upper, lower []int32) bool {
	of := map[int32]int32{} // the vertex below each upper one
	for c, v := range upper {
		if w, known := of[v]; known && w != lower[c] {
			return false
		}
		of[v] = lower[c]
	}
	return true
}

// homesByPlace gives the nodes of an island to the collectors that stand in it. A collector of unknown place goes to
// the island with the most nodes per collector. An island without a collector goes as a whole to the collector that
// is home to the fewest nodes. Of such islands, the one with the most nodes comes first. Within an island the same
// holds for the vertices below it; see homes.
func (l *Layout) homesByPlace(tree *topology.Tree, islands, sizes, places []int) {
	in := make([][]int32, len(sizes)) // collectors of each island
	below := make([][]int, len(places))
	for c, place := range places {
		if place != None {
			island := tree.VertexIsland(place)
			in[island] = append(in[island], int32(c))
			below[c] = tree.Path(place)[1:]
		}
	}
	for c, place := range places {
		if place != None {
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
	size := make([]int, len(places)) // nodes that each collector is home to
	for island, cs := range in {
		for _, c := range cs {
			l.Sync[c] = int32(island)
			size[c] = sizes[island] / len(cs)
		}
	}
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	for _, island := range order {
		if len(in[island]) == 0 {
			c := slices.Index(size, slices.Min(size))
			in[island] = []int32{int32(c)}
			size[c] += sizes[island]
		}
	}
	nodes := make([][]int32, len(sizes)) // of each island
	for i, island := range islands {
		nodes[island] = append(nodes[island], int32(i))
	}
	paths := make([][]int, len(islands)) // of each node
	for i := range paths {
		paths[i] = pathBelow(tree, l.Nodes[i])
	}
	h := homes{Layout: l, node: paths, collector: below}
	for island, cs := range in {
		h.spread(nodes[island], cs, 0)
	}
	l.deepen(below)
}

// homes assigns homes to nodes below the islands. It holds the vertices above each node and each collector.
type homes struct {
	*Layout
	node, collector [][]int
}

// spread gives the nodes below a vertex to the collectors that stand there or deeper. A vertex below keeps its nodes if
// collectors stand in it. The others' nodes go to the collectors that stand at the vertex itself, in equal parts. If
// there are none, each vertex goes as a whole, the largest first, to the collector that is home to the fewest nodes.
func (h homes) spread(nodes, collectors []int32, depth int) {
	var here []int32
	var order []int // vertices below, in tree order; None stands for the nodes directly here
	below, in := map[int][]int32{}, map[int][]int32{}
	for _, c := range collectors {
		if len(h.collector[c]) <= depth || len(collectors) == 1 {
			here = append(here, c)
			continue
		}
		v := h.collector[c][depth]
		in[v] = append(in[v], c)
	}
	if len(in) == 0 {
		h.share(nodes, here)
		return
	}
	for _, n := range nodes {
		v := None
		if len(h.node[n]) > depth {
			v = h.node[n][depth]
		}
		if below[v] == nil {
			order = append(order, v)
		}
		below[v] = append(below[v], n)
	}
	var rest []int32
	for _, v := range order {
		if len(in[v]) > 0 {
			h.spread(below[v], in[v], depth+1)
		} else if len(here) > 0 {
			rest = append(rest, below[v]...)
		}
	}
	if len(here) > 0 {
		h.share(rest, here)
		return
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(below[b]), len(below[a])) })
	count := map[int32]int{}
	for v := range in {
		for _, n := range below[v] {
			count[h.Home[n]]++
		}
	}
	for _, v := range order {
		if len(in[v]) > 0 {
			continue
		}
		c := slices.MinFunc(collectors, func(a, b int32) int { return cmp.Compare(count[a], count[b]) })
		count[c] += len(below[v])
		h.share(below[v], []int32{c})
	}
}

// share gives nodes to collectors in equal parts, in their order.
func (h homes) share(nodes, collectors []int32) {
	for i, n := range nodes {
		h.Home[n] = collectors[i*len(collectors)/len(nodes)]
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

// wholeIslands gives whole islands to fewer collectors. All nodes are divided into equal parts, one per collector, and
// an island goes to the part that contains its middle. No collector is passed over, so each one gets an island.
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
