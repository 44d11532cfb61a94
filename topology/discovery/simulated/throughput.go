package simulated

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// Traffic measures the throughput of a made-up network. Pairs that send at the same time share links fairly: no pair
// can get more without taking it from a pair with less (max-min fairness). Links carry both directions at full speed.
type Traffic struct {
	network    *network.Network
	ends       [][]hop
	switchRate map[int]float64 // largest total rate of a switch, in MB/s; none: without a limit
}

// hop is a link and the vertex at its other end.
type hop struct{ vertex, link int }

// NewTraffic returns a measurer of a network. Every link must have a throughput. A pair sends along the path of lowest
// latency.
func NewTraffic(n *network.Network) (*Traffic, error) {
	t := &Traffic{network: n, ends: make([][]hop, len(n.Names)), switchRate: map[int]float64{}}
	for i, l := range n.Links {
		if !(l.Throughput > 0) {
			return nil, fmt.Errorf("%s and %s: the throughput of the link is %v MB/s: want one above 0",
				n.Names[l.A], n.Names[l.B], l.Throughput)
		}
		t.ends[l.A] = append(t.ends[l.A], hop{l.B, i})
		t.ends[l.B] = append(t.ends[l.B], hop{l.A, i})
	}
	return t, nil
}

// LimitSwitch bounds the total rate through a switch, in MB/s.
func (t *Traffic) LimitSwitch(s int, rate float64) { t.switchRate[s] = rate }

// Names returns the names of the nodes.
func (t *Traffic) Names() []string { return t.network.Names[:t.network.Nodes] }

// MeasureThroughput returns the fair rates of a round. It sends from the first node of a pair to the second.
func (t *Traffic) MeasureThroughput(
	ctx context.Context, round []latency.Pair, transfer latency.Transfer,
) ([]float64, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var flows [][]resource
	for _, p := range round {
		flows = append(flows, t.path(p.A, p.B))
		if transfer.Both {
			flows = append(flows, t.path(p.B, p.A))
		}
	}
	rates := t.share(flows)
	if !transfer.Both {
		return rates, nil
	}
	slower := make([]float64, len(round))
	for i := range slower {
		slower[i] = min(rates[2*i], rates[2*i+1])
	}
	return slower, nil
}

// resource is a link in one direction, or a switch.
type resource struct {
	kind  string
	index int
}

// path returns the resources that data uses on its way. It is nil if there is no way.
func (t *Traffic) path(from, to int) []resource {
	lengths := t.network.Distances(to)
	lengths[to] = t.network.BaseUs
	var used []resource
	for at := from; at != to; {
		if math.IsNaN(lengths[at]) {
			return nil
		}
		best := hop{vertex: -1}
		least := math.Inf(1)
		for _, h := range t.ends[at] {
			if length := lengths[h.vertex] + t.network.Links[h.link].LatencyUs; length < least {
				best, least = h, length
			}
		}
		kind := "up"
		if at > best.vertex {
			kind = "down"
		}
		used = append(used, resource{kind, best.link})
		if _, ok := t.switchRate[best.vertex]; ok {
			used = append(used, resource{"switch", best.vertex})
		}
		at = best.vertex
	}
	return used
}

func (t *Traffic) rate(r resource) float64 {
	if r.kind == "switch" {
		return t.switchRate[r.index]
	}
	return t.network.Links[r.index].Throughput
}

// share returns the max-min fair rates: the resource that leaves its flows the least settles them, again and again.
func (t *Traffic) share(flows [][]resource) []float64 {
	rates := make([]float64, len(flows))
	left, users := map[resource]float64{}, map[resource]int{}
	for i, flow := range flows {
		if flow == nil {
			rates[i] = math.NaN()
		}
		for _, r := range flow {
			left[r] = t.rate(r)
			users[r]++
		}
	}
	for {
		tight, least := tightest(left, users)
		if math.IsInf(least, 1) {
			return rates
		}
		for i, flow := range flows {
			if rates[i] != 0 || !slices.Contains(flow, tight) {
				continue
			}
			rates[i] = least
			for _, r := range flow {
				left[r] -= least
				users[r]--
			}
		}
	}
}

// tightest returns the resource that leaves its flows the least rate, and that rate. It is infinite if no resource has
// flows left.
func tightest(left map[resource]float64, users map[resource]int) (tight resource, least float64) {
	least = math.Inf(1)
	for r, n := range users {
		if n > 0 && left[r]/float64(n) < least {
			tight, least = r, left[r]/float64(n)
		}
	}
	return tight, least
}
