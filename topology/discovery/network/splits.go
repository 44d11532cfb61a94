package network

import (
	"maps"
	"slices"
	"strings"
)

// Splits returns the splits of a tree's nodes by its links between switches, sorted. A split lists the names of the
// nodes on one side, sorted and joined by commas. It is the side that lacks the first name. A side of one node is no
// split, and two links with the same split count once. So the same splits mean the same tree, regardless of its root.
func (n *Network) Splits() []string { return n.splitsOf(n.Names[:n.Nodes]) }

// splitsOf returns the splits among some of the nodes.
func (n *Network) splitsOf(names []string) []string {
	if n.Nodes == 0 || len(names) == 0 {
		return nil
	}
	first := slices.Min(names)
	counted := make(map[string]bool, len(names))
	for _, name := range names {
		counted[name] = true
	}
	// Seen from the first node, the subtree of a vertex is the side that lacks that node.
	root := slices.Index(n.Names[:n.Nodes], first)
	t := walk(n.neighbours(), root)
	below := make([][]string, len(n.Names))
	splits := map[string]bool{}
	for _, v := range slices.Backward(t.order) {
		if v == root {
			continue
		}
		if v < n.Nodes && counted[n.Names[v]] {
			below[v] = append(below[v], n.Names[v])
		}
		side := below[v]
		below[v] = nil
		slices.Sort(side)
		if len(side) > 1 && len(side) < len(names)-1 {
			splits[strings.Join(side, ",")] = true
		}
		below[t.parent[v]] = append(below[t.parent[v]], side...)
	}
	return slices.Sorted(maps.Keys(splits))
}
