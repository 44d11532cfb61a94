package discover

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// answered returns the nodes with a measured latency.
func answered(m *latency.Matrix) []int {
	var alive []int
	for a := range m.Len() {
		for b := range m.Len() {
			if a != b && m.At(a, b) > 0 {
				alive = append(alive, a)
				break
			}
		}
	}
	return alive
}

// buildAnswered builds from the nodes that answered. It hangs the others at the top, by links of no known latency.
func buildAnswered(m *latency.Matrix, alive []int) (Result, error) {
	if len(alive) < 2 {
		return Result{}, errFew
	}
	names := make([]string, len(alive))
	for i, a := range alive {
		names[i] = m.Names()[a]
	}
	part := latency.New(names)
	part.TickUs, part.Noise = m.TickUs, m.Noise
	for i, a := range alive {
		for j := i + 1; j < len(alive); j++ {
			part.Set(i, j, m.At(a, alive[j]))
		}
	}
	r, err := Build(part)
	if err != nil {
		return Result{}, err
	}
	for i, p := range r.Suspects {
		r.Suspects[i] = latency.Pair{A: alive[p.A], B: alive[p.B]}
	}
	var first string
	r.Network, first = extend(r.Network, m.Names(), alive)
	r.Confidence.Level = Low
	r.Confidence.Reasons = append(r.Confidence.Reasons, fmt.Sprintf(
		"%d nodes never answered, %s first: their switch is unknown", m.Len()-len(alive), first))
	return r, nil
}

// extend returns the network of all nodes, given the network of some, and the first node that is added.
func extend(part *network.Network, names []string, alive []int) (*network.Network, string) {
	net := network.New(names)
	net.BaseUs = part.BaseUs
	to := make([]int, len(part.Names))
	top := -1
	for v := range part.Names {
		if v < len(alive) {
			to[v] = alive[v]
			continue
		}
		to[v] = net.AddSwitch(part.Names[v])
		if top < 0 {
			top = to[v]
		}
	}
	if part.Root >= len(alive) {
		net.Root = to[part.Root]
		top = net.Root
	}
	for _, l := range part.Links {
		net.AddLink(to[l.A], to[l.B], l.LatencyUs)
	}
	first := ""
	for a := range names {
		if _, known := slices.BinarySearch(alive, a); known {
			continue
		}
		if first == "" {
			first = names[a]
		}
		if top >= 0 {
			net.AddLink(a, top, math.NaN())
		}
	}
	return net, first
}
