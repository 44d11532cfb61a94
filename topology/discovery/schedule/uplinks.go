package schedule

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// switchLinks measures the links between switches.
func (p *throughputProber) switchLinks() error {
	if p.net.IsTree() && len(p.net.Names) > p.net.Nodes {
		if err := p.treeLinks(); err != nil {
			return err
		}
	}
	return p.otherLinks()
}

// branch is a switch of a tree, with its subtree.
type branch struct {
	vertex, up int   // up is the link to the parent, -1 at the root
	nodes      []int // below, in turn from each branch, so that the first few use them all
	branches   []*branch
	depth      int
	capacity   float64 // joint rate of the nodes below through the links below, in MB/s
}

// treeLinks measures the links of a tree level by level, from the lowest. At each switch, the branches below are
// treated as ports, like nodes. As many pairs of nodes as possible load two of them.
func (p *throughputProber) treeLinks() error {
	levels := map[int][]*branch{}
	deepest := 0
	p.grow(p.middle(), -1, 0, func(b *branch) {
		levels[b.depth] = append(levels[b.depth], b)
		deepest = max(deepest, b.depth)
	})
	for depth := deepest; depth >= 0; depth-- {
		var hubs []*hub
		for _, b := range levels[depth] {
			if h := p.branchHub(b); h != nil {
				hubs = append(hubs, h)
			}
		}
		if err := p.runHubs(hubs); err != nil {
			return err
		}
		for _, b := range levels[depth] {
			b.capacity = p.capacity(b)
		}
	}
	return nil
}

// capacity returns the rate that reaches a switch from below, in MB/s, once all links below are measured.
func (p *throughputProber) capacity(b *branch) float64 {
	sum := 0.
	own, _ := p.nodesOf(b.vertex)
	for _, v := range own {
		sum += p.portRate(v)
	}
	for _, child := range b.branches {
		if rate := p.net.Links[child.up].Throughput; rate < child.capacity {
			sum += rate
		} else {
			sum += child.capacity
		}
	}
	return sum
}

// grow returns the branch of a vertex and visits the branches in it.
func (p *throughputProber) grow(v, up, depth int, visit func(*branch)) *branch {
	b := &branch{vertex: v, up: up, depth: depth}
	own, _ := p.nodesOf(v)
	below := [][]int{own}
	for _, e := range p.ends[v] {
		if e.link != up && p.net.IsSwitch(e.vertex) {
			child := p.grow(e.vertex, e.link, depth+1, visit)
			b.branches = append(b.branches, child)
			below = append(below, child.nodes)
		}
	}
	b.nodes = inTurn(below)
	visit(b)
	return b
}

// inTurn returns the first of each list, then the second of each, and so on.
func inTurn(lists [][]int) []int {
	var all []int
	for i := 0; ; i++ {
		before := len(all)
		for _, list := range lists {
			if i < len(list) {
				all = append(all, list[i])
			}
		}
		if len(all) == before {
			return all
		}
	}
}

// middle returns a switch in the middle of a tree: half way between two vertices that are farthest apart.
func (p *throughputProber) middle() int {
	_, far := p.wayFrom(p.net.Nodes)
	parents, far := p.wayFrom(far)
	way := []int{far}
	for parents[far] != far {
		far = parents[far]
		way = append(way, far)
	}
	if v := way[len(way)/2]; p.net.IsSwitch(v) {
		return v
	}
	return p.net.Nodes // a switch between two nodes
}

// wayFrom returns the parent of each vertex on the way from one, and the farthest vertex. The start is its own parent.
func (p *throughputProber) wayFrom(start int) (parents []int, far int) {
	parents = slices.Repeat([]int{-1}, len(p.ends))
	parents[start] = start
	queue := []int{start}
	for i := 0; i < len(queue); i++ {
		far = queue[i]
		for _, e := range p.ends[far] {
			if parents[e.vertex] < 0 {
				parents[e.vertex] = far
				queue = append(queue, e.vertex)
			}
		}
	}
	return parents, far
}

// branchHub returns a switch with the branches below it as ports, nil if it lacks two sides to measure. If there is a
// single branch, the switch's own nodes help as a second port.
func (p *throughputProber) branchHub(b *branch) *hub {
	var links []int
	var nodes [][]int
	var capacity []float64
	for _, child := range b.branches {
		if len(child.nodes) > 0 {
			links, nodes = append(links, child.up), append(nodes, child.nodes)
			capacity = append(capacity, child.capacity)
		}
	}
	if own, _ := p.nodesOf(b.vertex); len(links) == 1 && len(own) > 0 {
		links, nodes, capacity = append(links, -1), append(nodes, own), append(capacity, math.Inf(1))
	}
	if len(links) < 2 {
		return nil
	}
	order := make([]int, len(links))
	for i := range order {
		order[i] = i
	}
	// Branches with many nodes can prove the most.
	slices.SortStableFunc(order, func(i, j int) int { return len(nodes[j]) - len(nodes[i]) })
	flow := func(i, j int) []latency.Pair { return across(nodes[i], nodes[j]) }
	return &hub{
		ports: newPorts(order, p.options.Sequential),
		links: links,
		flow:  flow,
		limit: func(i, j int) float64 { return min(p.limit(flow(i, j)), capacity[i], capacity[j]) },
	}
}

// across pairs the nodes of two sides, as many as the smaller side contains.
func across(left, right []int) []latency.Pair {
	var pairs []latency.Pair
	for i := range min(len(left), len(right)) {
		pairs = append(pairs, latency.Pair{A: min(left[i], right[i]), B: max(left[i], right[i])})
	}
	return pairs
}

// limit returns the total rate that the links of the nodes allow the pairs, in MB/s.
func (p *throughputProber) limit(pairs []latency.Pair) float64 {
	sum := 0.
	for _, pair := range pairs {
		sum += min(p.portRate(pair.A), p.portRate(pair.B))
	}
	return sum
}

// portRate returns the throughput of a node's link, without a limit if it is unknown.
func (p *throughputProber) portRate(v int) float64 {
	if rate := p.net.Links[p.ends[v][0].link].Throughput; !math.IsNaN(rate) {
		return rate
	}
	return math.Inf(1)
}

// otherLinks measures the links at switches that are still open, one after another. They are between switches of a
// network with cycles, or at the only node of a switch. Nodes at one end send to nodes at the other. If the link is a
// bridge, these are all nodes behind it. Otherwise only the nodes next to it are safe (section 2.3.3).
func (p *throughputProber) otherLinks() error {
	for i, l := range p.net.Links {
		if !p.net.IsSwitch(l.B) || !math.IsNaN(l.Throughput) {
			continue
		}
		pairs := across(p.sides(i))
		if len(pairs) == 0 {
			continue
		}
		rates, err := p.measure([][]latency.Pair{pairs})
		if err != nil {
			return err
		}
		limit := p.limit(pairs)
		p.net.Links[i].Throughput = rates[0]
		if rates[0] >= limit*(1-tolerance) || !p.net.IsSwitch(l.A) {
			p.report.AtLeast = append(p.report.AtLeast, i)
		}
	}
	return nil
}

// sides returns the nodes that can load a link from both ends.
func (p *throughputProber) sides(link int) (left, right []int) {
	l := p.net.Links[link]
	left, right = p.behind(l.A, link), p.behind(l.B, link)
	if p.reaches(l.A, link, l.B) {
		left, _ = p.nodesOf(l.A)
		right, _ = p.nodesOf(l.B)
	}
	return left, right
}

// behind returns the nodes that a vertex reaches without a link, the nearest first.
func (p *throughputProber) behind(start, link int) []int {
	var nodes []int
	seen := map[int]bool{start: true}
	queue := []int{start}
	for i := 0; i < len(queue); i++ {
		if !p.net.IsSwitch(queue[i]) {
			nodes = append(nodes, queue[i])
		}
		for _, e := range p.ends[queue[i]] {
			if e.link != link && !seen[e.vertex] {
				seen[e.vertex] = true
				queue = append(queue, e.vertex)
			}
		}
	}
	return nodes
}
