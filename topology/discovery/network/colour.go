package network

import (
	"hash/maphash"
	"slices"
)

// colourSeed is the same for all networks of a process, since colours are compared between networks.
var colourSeed = maphash.MakeSeed()

// colours returns a number for each vertex that identifies it by its surroundings. A node is identified by its name. A
// switch is identified by the colours of its neighbours, again and again until far nodes count too. So networks can be
// compared even if their switches have different names.
func (n *Network) colours() []uint64 {
	ends := n.neighbours()
	colour, next := make([]uint64, len(n.Names)), make([]uint64, len(n.Names))
	for v := range colour {
		if !n.IsSwitch(v) {
			colour[v] = maphash.String(colourSeed, n.Names[v])
		}
	}
	copy(next, colour)
	for distinct := 0; ; {
		for v := n.Nodes; v < len(n.Names); v++ {
			around := []uint64{colour[v]}
			for _, e := range ends[v] {
				around = append(around, colour[e.vertex])
			}
			slices.Sort(around[1:])
			var h maphash.Hash
			h.SetSeed(colourSeed)
			for _, c := range around {
				maphash.WriteComparable(&h, c)
			}
			next[v] = h.Sum64()
		}
		colour, next = next, colour
		copy(next[:n.Nodes], colour[:n.Nodes])
		sorted := slices.Compact(slices.Sorted(slices.Values(colour[n.Nodes:])))
		if len(sorted) <= distinct || len(sorted) == len(n.Names)-n.Nodes {
			return colour
		}
		distinct = len(sorted)
	}
}

// linkKeys returns the links by the colours of their ends, sorted.
func (n *Network) linkKeys() [][2]uint64 {
	colour := n.colours()
	keys := make([][2]uint64, 0, len(n.Links))
	for _, l := range n.Links {
		a, b := colour[l.A], colour[l.B]
		keys = append(keys, [2]uint64{min(a, b), max(a, b)})
	}
	slices.SortFunc(keys, func(a, b [2]uint64) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(keys)
}
