package schedule

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// hiddenLinks looks for direct links between nodes with the same latency as the path over other nodes (figure 2.4). It
// measures the pair alone, and again while the nodes on the path send to each other and so block it (section 2.2.1). If
// the rate stays, data does not take the path. Two nodes on the path are needed for that, and it must be the only
// shortest one.
func (p *throughputProber) hiddenLinks() error {
	for a := range p.net.Nodes {
		for b := a + 1; b < p.net.Nodes; b++ {
			way := p.onlyWay(a, b)
			if len(way) < 4 {
				continue
			}
			pair := []latency.Pair{{A: a, B: b}}
			alone, err := p.measure([][]latency.Pair{pair})
			if err != nil {
				return err
			}
			blocked, err := p.measure([][]latency.Pair{pair, neighbourPairs(way[1 : len(way)-1])})
			if err != nil {
				return err
			}
			if blocked[0] >= alone[0]*(1-tolerance) {
				p.report.Hidden = append(p.report.Hidden, pair[0])
			}
		}
	}
	return nil
}

// onlyWay returns the shortest path between two nodes over nodes only. It is empty if there is none or several.
func (p *throughputProber) onlyWay(a, b int) []int {
	lengths := p.net.Distances(b)
	way := []int{a}
	for at := a; at != b; {
		var next []int
		for _, e := range p.ends[at] {
			length := lengths[e.vertex] + p.net.Links[e.link].LatencyUs
			if e.vertex == b {
				length = p.net.Links[e.link].LatencyUs + p.net.BaseUs
			}
			if math.Abs(length-lengths[at]) < tolerance*p.net.Links[e.link].LatencyUs {
				next = append(next, e.vertex)
			}
		}
		if len(next) != 1 || p.net.IsSwitch(next[0]) || slices.Contains(way, next[0]) {
			return nil
		}
		at = next[0]
		way = append(way, at)
	}
	return way
}
