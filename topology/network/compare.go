package network

import "slices"

// Equal reports whether two networks are the same but for latencies, throughput and the names of switches. Trees are
// the same if their splits are, so their roots do not count.
func Equal(a, b *Network) bool {
	x, y := slices.Sorted(slices.Values(a.Names[:a.Nodes])), slices.Sorted(slices.Values(b.Names[:b.Nodes]))
	if !slices.Equal(x, y) || a.IsTree() != b.IsTree() {
		return false
	}
	if a.IsTree() {
		return slices.Equal(a.Splits(), b.Splits())
	}
	return slices.Equal(a.linkKeys(), b.linkKeys())
}
