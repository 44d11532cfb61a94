package network

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// rootedTree is a tree of switches as its writers see it: below a root, and without switches that lead nowhere.
type rootedTree struct {
	rooted
	net   *Network        // all switches have distinct names
	taken map[string]bool // of freeName: all names
}

// rootedTree returns the tree below its root. If the network names none, the root is the middle of the longest way
// between switches: the switch there, or a new one if the middle is inside a link.
func (n *Network) rootedTree() (*rootedTree, error) {
	net := n.withoutEmpty()
	if err := net.whyNoTree(); err != nil {
		return nil, err
	}
	if !net.IsSwitch(net.Root) && len(net.Names) > 0 {
		net.addRoot()
	}
	t := &rootedTree{net: net, rooted: walk(net.neighbours(), net.Root)}
	_, switches := t.below()
	names := []int{} // from the top, the switch with the first nodes first
	if net.IsSwitch(net.Root) {
		names = append(names, net.Root)
	}
	for i := 0; i < len(names); i++ {
		names = append(names, switches[names[i]]...)
	}
	net.name(names)
	return t, nil
}

// withoutEmpty returns a copy without switches that lead nowhere, which have one neighbour or none. The root stays.
func (n *Network) withoutEmpty() *Network {
	gone := n.empty()
	links := slices.DeleteFunc(slices.Clone(n.Links), func(l Link) bool { return gone[l.A] || gone[l.B] })
	return (&Network{Names: n.Names, Nodes: n.Nodes, Links: links, Root: n.Root, BaseUs: n.BaseUs}).without(gone)
}

// withoutIdle returns a copy without switches that lead nowhere, and with a single link in the place of a switch that
// only joins two. The root stays.
func (n *Network) withoutIdle() *Network {
	net := n.withoutEmpty()
	gone := make([]bool, len(net.Names))
	net.bridge(gone)
	return net.without(gone)
}

// empty marks the switches that lead nowhere.
func (n *Network) empty() (gone []bool) {
	ends, degree := n.neighbours(), make([]int, len(n.Names))
	gone = make([]bool, len(n.Names))
	var idle []int
	for v, e := range ends {
		if degree[v] = len(e); n.IsSwitch(v) && v != n.Root && len(e) < 2 {
			idle = append(idle, v)
		}
	}
	for len(idle) > 0 {
		v := idle[len(idle)-1]
		idle = idle[:len(idle)-1]
		gone[v] = true
		for _, e := range ends[v] {
			if o := e.vertex; !gone[o] {
				if degree[o]--; degree[o] == 1 && n.IsSwitch(o) && o != n.Root {
					idle = append(idle, o)
				}
			}
		}
	}
	return gone
}

// bridge puts one link in the place of each chain of switches with two neighbours. It marks the switches as gone. A
// chain stays if its ends are the same, or have a link already.
func (n *Network) bridge(gone []bool) {
	ends := n.neighbours()
	linked := make(map[[2]int]bool, len(n.Links))
	for _, l := range n.Links {
		linked[[2]int{l.A, l.B}] = true
	}
	dropped := make([]bool, len(n.Links))
	for v := n.Nodes; v < len(n.Names); v++ {
		if gone[v] || !n.passed(ends, v) {
			continue
		}
		one, way := n.follow(ends, v, ends[v][0])
		other, rest := n.follow(ends, v, ends[v][1])
		key := [2]int{min(one, other), max(one, other)}
		if key[0] == key[1] || linked[key] {
			continue
		}
		linked[key] = true
		whole := Link{A: key[0], B: key[1], Throughput: math.Inf(1)}
		for _, w := range append(way, rest...) {
			l := n.Links[w]
			whole.LatencyUs += l.LatencyUs
			whole.Throughput = min(whole.Throughput, l.Throughput) // NaN stays NaN
			dropped[w] = true
			gone[l.A] = gone[l.A] || l.A != one && l.A != other
			gone[l.B] = gone[l.B] || l.B != one && l.B != other
		}
		n.Links = append(n.Links, whole)
	}
	kept := n.Links[:0:0]
	for i, l := range n.Links {
		if i >= len(dropped) || !dropped[i] {
			kept = append(kept, l)
		}
	}
	n.Links = kept
}

// passed reports whether a vertex is a switch that only joins two links.
func (n *Network) passed(ends [][]end, v int) bool {
	return n.IsSwitch(v) && v != n.Root && len(ends[v]) == 2
}

// follow goes from a switch along a chain, to the first vertex with a number of neighbours other than two. It returns
// the links.
func (n *Network) follow(ends [][]end, from int, at end) (last int, way []int) {
	for way = append(way, at.link); n.passed(ends, at.vertex) && at.vertex != from; way = append(way, at.link) {
		next := ends[at.vertex][0]
		if next.link == at.link {
			next = ends[at.vertex][1]
		}
		at = next
	}
	return at.vertex, way
}

// without returns the network without some switches, which have no links.
func (n *Network) without(gone []bool) *Network {
	less := &Network{Nodes: n.Nodes, BaseUs: n.BaseUs}
	number := make([]int, len(n.Names))
	for v, name := range n.Names {
		if !gone[v] {
			number[v] = len(less.Names)
			less.Names = append(less.Names, name)
		}
	}
	for _, l := range n.Links {
		l.A, l.B = number[l.A], number[l.B]
		less.Links = append(less.Links, l)
	}
	if n.IsSwitch(n.Root) && n.Nodes > 0 {
		less.Root = number[n.Root]
	}
	return less
}

// inLink is how far from the ends of a link, as a share of it, its inside begins. Nearer to an end, the switch there is
// the middle.
const inLink = .25

// addRoot gives a tree a root: the middle of the longest way between switches. It is a new switch if the middle is
// inside a link, or if there is no switch.
func (n *Network) addRoot() {
	if len(n.Names) == n.Nodes {
		n.rootBetween()
		return
	}
	ends := n.neighbours()
	from := n.farthest(ends, n.Nodes)
	way, far := n.wayUp(ends, from.vertex)
	half := far / 2
	for i := 1; i < len(way); i++ {
		if way[i].far < half {
			continue
		}
		length := way[i].far - way[i-1].far
		switch share := (half - way[i-1].far) / length; {
		case share < inLink:
			n.Root = way[i-1].vertex
		case share > 1-inLink:
			n.Root = way[i].vertex
		default:
			n.splitLink(way[i].link, way[i-1].vertex, share)
		}
		return
	}
	n.Root = from.vertex
}

// rootBetween makes a root of one node, or of two with a link between them.
func (n *Network) rootBetween() {
	half := Link{LatencyUs: math.NaN(), Throughput: math.NaN()}
	if len(n.Links) > 0 {
		half = Link{LatencyUs: n.Links[0].LatencyUs / 2, Throughput: n.Links[0].Throughput}
	}
	n.Root, n.Links = n.AddSwitch(""), nil
	for v := range n.Nodes {
		n.Links = append(n.Links, Link{v, n.Root, half.LatencyUs, half.Throughput})
	}
}

// splitLink puts the root into a link, at a share of it from one of its ends.
func (n *Network) splitLink(link, from int, share float64) {
	l := n.Links[link]
	n.Root = n.AddSwitch("")
	other := l.A + l.B - from
	n.Links[link] = Link{A: from, B: n.Root, LatencyUs: share * l.LatencyUs, Throughput: l.Throughput}
	n.Links = append(n.Links, Link{other, n.Root, (1 - share) * l.LatencyUs, l.Throughput})
}

// step is a switch on a way, how far from its beginning, and the link before it.
type step struct {
	vertex, link int
	far          float64
}

// length returns the weight of a link between switches: its latency, or one hop if that is unknown. It is above zero.
func (n *Network) length(link int, known bool) float64 {
	if !known {
		return 1
	}
	return max(n.Links[link].LatencyUs, 1e-12)
}

// distances returns how far each switch is from one of them. The links of nodes do not count.
func (n *Network) distances(ends [][]end, from int) (far []float64, t rooted) {
	known := !slices.ContainsFunc(n.Links, func(l Link) bool { return math.IsNaN(l.LatencyUs) })
	t = walk(ends, from)
	far = make([]float64, len(n.Names))
	for _, v := range t.order[1:] {
		far[v] = far[t.parent[v]]
		if n.IsSwitch(v) && n.IsSwitch(t.parent[v]) {
			far[v] += n.length(t.up[v], known)
		}
	}
	return far, t
}

// farthest returns the switch that is farthest from one of them.
func (n *Network) farthest(ends [][]end, from int) step {
	far, _ := n.distances(ends, from)
	best := step{vertex: n.Nodes}
	for v := n.Nodes; v < len(far); v++ {
		if far[v] > best.far*(1+1e-9) {
			best = step{vertex: v, far: far[v]}
		}
	}
	return best
}

// wayUp returns the way from a switch to the one that is farthest from it, and how long it is.
func (n *Network) wayUp(ends [][]end, from int) (way []step, long float64) {
	far, t := n.distances(ends, from)
	last := n.farthest(ends, from)
	for v := last.vertex; v >= 0; v = t.parent[v] {
		way = append(way, step{vertex: v, link: t.up[v], far: far[v]})
	}
	slices.Reverse(way)
	return way, last.far
}

// nameSwitches names switches as name does, in their own order.
func (n *Network) nameSwitches() {
	all := make([]int, len(n.Names)-n.Nodes)
	for i := range all {
		all[i] = n.Nodes + i
	}
	n.name(all)
}

// name names the switches without a unique name: s0, s1 and so on in this order.
func (n *Network) name(switches []int) {
	taken := make(map[string]bool, len(n.Names))
	for _, name := range n.Names[:n.Nodes] {
		taken[name] = true
	}
	var nameless []int
	for _, v := range switches {
		if name := n.Names[v]; name == "" || taken[name] {
			nameless = append(nameless, v)
		} else {
			taken[name] = true
		}
	}
	next := 0
	for _, v := range nameless {
		for n.Names[v] = ""; n.Names[v] == ""; next++ {
			if name := "s" + strconv.Itoa(next); !taken[name] {
				n.Names[v], taken[name] = name, true
			}
		}
	}
}

// checkLevels returns an error if the tree has more levels than the file of a machine's tree allows.
func (t *rootedTree) checkLevels() error {
	level := make([]int, len(t.parent))
	for _, v := range t.order[1:] {
		if level[v] = level[t.parent[v]] + 1; level[v] > maxLevels-2 {
			return fmt.Errorf("more than %d levels of switches: the form edges has no limit", maxLevels-2)
		}
	}
	return nil
}
