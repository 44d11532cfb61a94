package network

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/topology"
)

// Equal reports whether two networks are the same but for latencies, throughput and the names of switches. Trees are
// the same if their splits are, so their roots do not count.
func Equal(a, b *Network) bool {
	a, b = a.bare(), b.bare()
	x, y := slices.Sorted(slices.Values(a.Names[:a.Nodes])), slices.Sorted(slices.Values(b.Names[:b.Nodes]))
	if !slices.Equal(x, y) || a.IsTree() != b.IsTree() {
		return false
	}
	if a.IsTree() {
		return slices.Equal(a.Splits(), b.Splits())
	}
	return slices.Equal(a.linkKeys(), b.linkKeys())
}

// bare returns the network without its root, and without switches that part nothing.
func (n *Network) bare() *Network {
	rootless := *n
	rootless.Root = 0
	return rootless.withoutIdle()
}

// Side lists the parts that only one of two networks contains.
type Side struct {
	Nodes    []string    `json:"nodes"`    // sorted
	Switches []Group     `json:"switches"` // of trees
	Links    [][2]string `json:"links"`    // of other networks: two nodes, or the neighbours of a switch
}

// Group is a switch of a tree, and the nodes that it parts from the others.
type Group struct {
	Switch  string   `json:"switch"`
	Nodes   []string `json:"nodes"`             // sorted
	Nearest []string `json:"nearest,omitempty"` // the nodes of the switch of the other tree that is most alike
}

// Differences lists the differences between two networks. Latencies, throughput and the names of switches do not count.
type Differences struct {
	OnlyA Side `json:"only_a"`
	OnlyB Side `json:"only_b"`
	Other bool `json:"other"` // they differ in the links between switches, which no name identifies
}

// None reports whether there is no difference.
func (d *Differences) None() bool {
	return !d.Other && len(d.OnlyA.Nodes)+len(d.OnlyB.Nodes)+len(d.OnlyA.Switches)+len(d.OnlyB.Switches)+
		len(d.OnlyA.Links)+len(d.OnlyB.Links) == 0
}

// Compare returns the differences between two networks. Switches of trees are compared by the nodes that both networks
// contain.
func Compare(a, b *Network) *Differences {
	d := &Differences{}
	for _, side := range []*Side{&d.OnlyA, &d.OnlyB} {
		side.Switches, side.Links = []Group{}, [][2]string{}
	}
	x, y := slices.Sorted(slices.Values(a.Names[:a.Nodes])), slices.Sorted(slices.Values(b.Names[:b.Nodes]))
	d.OnlyA.Nodes, d.OnlyB.Nodes = missing(x, y), missing(y, x)
	both := missing(x, d.OnlyA.Nodes)
	if a.bare().IsTree() && b.bare().IsTree() {
		if !slices.Equal(a.splitsOf(both), b.splitsOf(both)) {
			p, q := a.groups(both), b.groups(both)
			d.OnlyA.Switches, d.OnlyB.Switches = onlyIn(p, q), onlyIn(q, p)
		}
		return d
	}
	p, q := a.linkNames(), b.linkNames()
	d.OnlyA.Links, d.OnlyB.Links = missing(p, q), missing(q, p)
	d.Other = d.None() && !Equal(a, b)
	return d
}

// missing returns the elements of a that b lacks. Both are sorted.
func missing[T comparable](a, b []T) []T {
	in := make(map[T]bool, len(b))
	for _, x := range b {
		in[x] = true
	}
	return slices.DeleteFunc(append([]T{}, a...), func(x T) bool { return in[x] })
}

// groups returns the switches of a tree by their splits, with the side that is below them.
func (n *Network) groups(names []string) map[string]Group {
	groups := map[string]Group{}
	t, err := n.rootedTree()
	if err != nil || len(names) == 0 {
		return groups
	}
	counted, first := make(map[string]bool, len(names)), slices.Min(names)
	for _, name := range names {
		counted[name] = true
	}
	below := make([][]string, len(t.parent))
	for _, v := range slices.Backward(t.order[1:]) {
		if !t.net.IsSwitch(v) && counted[t.net.Names[v]] {
			below[v] = []string{t.net.Names[v]}
		}
		side := below[v]
		slices.Sort(side)
		below[t.parent[v]] = append(below[t.parent[v]], side...)
		if len(side) < 2 || len(side) > len(names)-2 {
			continue
		}
		split := side
		if slices.Contains(side, first) {
			split = missing(slices.Sorted(maps.Keys(counted)), side)
		}
		groups[strings.Join(split, ",")] = Group{Switch: t.net.Names[v], Nodes: side}
	}
	return groups
}

// onlyIn returns the groups that another network lacks, with the nearest groups there.
func onlyIn(p, q map[string]Group) []Group {
	only := []Group{}
	for _, split := range slices.Sorted(maps.Keys(p)) {
		if _, both := q[split]; !both {
			g := p[split]
			g.Nearest = nearest(g.Nodes, q)
			only = append(only, g)
		}
	}
	slices.SortStableFunc(only, func(a, b Group) int { return slices.Compare(a.Nodes, b.Nodes) })
	return only
}

// nearest returns the nodes of the group that shares the largest part of its nodes with others.
func nearest(nodes []string, groups map[string]Group) (best []string) {
	in, most := make(map[string]bool, len(nodes)), .5 // less is not alike
	for _, name := range nodes {
		in[name] = true
	}
	for _, split := range slices.Sorted(maps.Keys(groups)) {
		shared, other := 0, groups[split].Nodes
		for _, name := range other {
			if in[name] {
				shared++
			}
		}
		if share := float64(shared) / float64(len(nodes)+len(other)-shared); share > most {
			best, most = other, share
		}
	}
	return best
}

// linkNames returns the links by the names of their ends, sorted. A switch is named by the nodes at it, since its own
// name may differ between networks.
func (n *Network) linkNames() [][2]string {
	net := n.bare()
	net.nameSwitches()
	words := slices.Clone(net.Names)
	for v, ends := range net.neighbours() {
		var nodes []string
		for _, e := range ends {
			if !net.IsSwitch(e.vertex) {
				nodes = append(nodes, net.Names[e.vertex])
			}
		}
		if net.IsSwitch(v) && len(nodes) > 0 {
			words[v] = "the switch of " + topology.FoldHosts(nodes)
		} else if net.IsSwitch(v) {
			words[v] = "a switch without nodes"
		}
	}
	names := make([][2]string, 0, len(net.Links))
	for _, l := range net.Links {
		a, b := words[l.A], words[l.B]
		names = append(names, [2]string{min(a, b), max(a, b)})
	}
	slices.SortFunc(names, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(names)
}
