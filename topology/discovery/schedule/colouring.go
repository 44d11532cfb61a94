package schedule

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// colouring gives each edge a colour, so that all edges of a node have different colours. A colour is a round. A table
// of all colours at each node would fill the memory for a star of 100,000 leaves, so the colours are in a map.
type colouring struct {
	colours int
	ends    map[end]int // the other node of the edge
	lowest  []int       // of each node: no lower colour is free there
}

// end is a node's end of an edge with a colour.
type end struct{ node, colour int }

// none stands for no node.
const none = -1

// colour colours the edges of a graph. It calls recolour for an edge whose nodes share no free colour.
func colour(g *graph, colours int, recolour func(c *colouring, u, v int)) [][]latency.Pair {
	c := &colouring{colours: colours, ends: make(map[end]int, 2*len(g.edges)), lowest: make([]int, len(g.nodes))}
	for _, e := range g.edges {
		if shared := c.shared(e.A, e.B); shared < colours {
			c.set(e.A, e.B, shared)
		} else {
			recolour(c, e.A, e.B)
		}
	}
	return c.rounds(g)
}

// rounds returns the pairs of each colour.
func (c *colouring) rounds(g *graph) [][]latency.Pair {
	rounds := make([][]latency.Pair, c.colours)
	for e, other := range c.ends {
		if e.node < other {
			rounds[e.colour] = append(rounds[e.colour], latency.Pair{A: e.node, B: other})
		}
	}
	for i, round := range rounds {
		slices.SortFunc(round, func(p, q latency.Pair) int { return cmp.Compare(p.A, q.A) })
		rounds[i] = g.named(round)
	}
	return slices.DeleteFunc(rounds, func(round []latency.Pair) bool { return len(round) == 0 })
}

// other returns the other node of a node's edge with a colour, or none.
func (c *colouring) other(v, colour int) int {
	if w, ok := c.ends[end{v, colour}]; ok {
		return w
	}
	return none
}

func (c *colouring) set(u, v, colour int) {
	c.ends[end{u, colour}] = v
	c.ends[end{v, colour}] = u
}

func (c *colouring) clear(u, v, colour int) {
	delete(c.ends, end{u, colour})
	delete(c.ends, end{v, colour})
	c.lowest[u] = min(c.lowest[u], colour)
	c.lowest[v] = min(c.lowest[v], colour)
}

// free returns the lowest colour without an edge at the node.
func (c *colouring) free(v int) int {
	for c.other(v, c.lowest[v]) != none {
		c.lowest[v]++
	}
	return c.lowest[v]
}

// shared returns the lowest colour that is free at both nodes. It may be beyond the last colour.
func (c *colouring) shared(u, v int) int {
	shared := max(c.free(u), c.free(v))
	for shared < c.colours && (c.other(u, shared) != none || c.other(v, shared) != none) {
		shared++
	}
	return shared
}

// path returns the nodes of the path from v along edges of the two colours in turn. It begins with the first colour.
// The second is free at v, so the path does not return to it.
func (c *colouring) path(v, first, second int) []int {
	nodes := []int{v}
	for {
		w := c.other(nodes[len(nodes)-1], first)
		if w == none {
			return nodes
		}
		nodes = append(nodes, w)
		first, second = second, first
	}
}

// flip exchanges the two colours along the path from v. The first colour is free at v afterwards.
func (c *colouring) flip(v, first, second int) {
	nodes := c.path(v, first, second)
	colours := [2]int{first, second}
	for i := range nodes[1:] {
		c.clear(nodes[i], nodes[i+1], colours[i%2])
	}
	for i := range nodes[1:] {
		c.set(nodes[i], nodes[i+1], colours[(i+1)%2])
	}
}

// swap colours an edge of a bipartite graph, in which the path from v cannot end at u.
func (c *colouring) swap(u, v int) {
	colour := c.free(u)
	c.flip(v, colour, c.free(v))
	c.set(u, v, colour)
}

// fan colours an edge by Vizing's argument. A fan is a list of neighbours of u, v first. The edge from u to each of
// them has the colour that is missing at the previous one. So the colours can move up to any of them, which leaves the
// edge to that neighbour bare.
func (c *colouring) fan(u, v int) {
	var neighbours, missing []int
	for w := v; w != none; w = c.other(u, missing[len(missing)-1]) {
		if first := slices.Index(missing, c.free(w)); first >= 0 {
			c.closeFan(u, append(neighbours, w), append(missing, c.free(w)), first)
			return
		}
		neighbours, missing = append(neighbours, w), append(missing, c.free(w))
	}
	last := len(neighbours) - 1
	c.moveUp(u, neighbours[:last+1], missing)
	c.set(u, neighbours[last], missing[last])
}

// closeFan colours the edge if the last of a fan misses the same colour as an earlier one. Take the path from u in that
// colour and a colour that is free at u. It ends at one of the two at most, so the other can free the colour that is
// free at u.
func (c *colouring) closeFan(u int, neighbours, missing []int, first int) {
	free, twice := c.free(u), missing[first]
	path := c.path(u, twice, free)
	bare := first
	if path[len(path)-1] == neighbours[first] {
		bare = len(neighbours) - 1
	}
	c.moveUp(u, neighbours[:bare+1], missing)
	c.flip(neighbours[bare], free, twice)
	c.set(u, neighbours[bare], free)
}

// moveUp gives each edge of a fan but the last the colour of the next.
func (c *colouring) moveUp(u int, neighbours, missing []int) {
	for i := range neighbours[:len(neighbours)-1] {
		c.clear(u, neighbours[i+1], missing[i])
		c.set(u, neighbours[i], missing[i])
	}
}
