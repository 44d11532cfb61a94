package discover

import (
	"fmt"
	"math"

	"github.com/weirhpc/weir/topology/latency"
	"github.com/weirhpc/weir/topology/network"
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
	dead := m.Len() - len(alive)
	net := network.New(m.Names())
	net.BaseUs = r.Network.BaseUs
	top := -1
	to := make([]int, len(r.Network.Names))
	for v := range r.Network.Names {
		if v < len(alive) {
			to[v] = alive[v]
			continue
		}
		to[v] = net.AddSwitch(r.Network.Names[v])
		if top < 0 {
			top = to[v]
		}
	}
	if r.Network.Root >= len(alive) {
		net.Root = to[r.Network.Root]
		top = net.Root
	}
	for _, l := range r.Network.Links {
		net.AddLink(to[l.A], to[l.B], l.LatencyUs)
	}
	first := ""
	for a, i := 0, 0; a < m.Len(); a++ {
		if i < len(alive) && alive[i] == a {
			i++
			continue
		}
		if first == "" {
			first = m.Names()[a]
		}
		if top >= 0 {
			net.AddLink(a, top, math.NaN())
		}
	}
	for i, p := range r.Suspects {
		r.Suspects[i] = latency.Pair{A: alive[p.A], B: alive[p.B]}
	}
	r.Network = net
	r.Confidence.Level = Low
	r.Confidence.Reasons = append(r.Confidence.Reasons,
		fmt.Sprintf("%d nodes never answered, %s first: where they hang is not known", dead, first))
	return r, nil
}
