package schedule

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// ThroughputOptions selects the measurements.
type ThroughputOptions struct {
	Transfer   latency.Transfer
	Sequential bool // one pair at a time on a switch, as if no switch could carry more
	Switches   bool // also the throughput of each switch with all its links in use
	Hidden     bool // also whether pairs of nodes have a direct link that latencies do not show
}

// ThroughputReport contains the results of the measurements.
type ThroughputReport struct {
	Network  *network.Network // links with their throughput
	AtLeast  []int            // links that may be faster: the nodes could not fill them
	Blocking []int            // switches that cannot carry all their nodes at the same time
	Switches []SwitchRate     // with ThroughputOptions.Switches
	Hidden   []latency.Pair   // with ThroughputOptions.Hidden: pairs at a rate that does not depend on their path
	Rounds   int              // how many rounds were measured
}

// SwitchRate is the rate through a switch while the nodes around it are paired across it, one half with the other.
type SwitchRate struct {
	Switch     int
	Throughput float64 // in MB/s
}

// Throughput measures the throughput of a network's links. Links between nodes take rounds of disjoint pairs. Links of
// a switch are measured in pairs, and certified by a faster one. Links between switches are measured from the leaves of
// a tree up, with as many nodes as can take part. In other networks, only the nodes next to such a link take part, for
// the way of the data is unknown. A link that could not be measured stays NaN. If one link of a switch is faster than
// all others, it gets the rate of the second. TestThroughput pins it.
func Throughput(
	ctx context.Context, net *network.Network, m latency.ThroughputMeasurer, options ThroughputOptions,
) (*ThroughputReport, error) {
	measured := *net
	measured.Links = slices.Clone(net.Links)
	for i := range measured.Links {
		measured.Links[i].Throughput = math.NaN()
	}
	p := newThroughputProber(ctx, &measured, m, options)
	steps := []func() error{p.nodeLinks, p.blockingTests, p.portLinks, p.switchLinks}
	if options.Switches {
		steps = append(steps, p.switchRates)
	}
	if options.Hidden {
		steps = append(steps, p.hiddenLinks)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.report.Network = &measured
	slices.Sort(p.report.AtLeast)
	return &p.report, nil
}

// throughputProber measures a network step by step.
type throughputProber struct {
	ctx     context.Context //nolint:containedctx // one prober serves one call
	net     *network.Network
	m       latency.ThroughputMeasurer
	options ThroughputOptions
	ends    [][]linkEnd // of each vertex
	report  ThroughputReport
}

// linkEnd is a link as one of its vertices sees it.
type linkEnd struct{ vertex, link int }

func newThroughputProber(
	ctx context.Context, net *network.Network, m latency.ThroughputMeasurer, options ThroughputOptions,
) *throughputProber {
	return &throughputProber{ctx: ctx, net: net, m: m, options: options, ends: endsOf(net)}
}

func endsOf(net *network.Network) [][]linkEnd {
	ends := make([][]linkEnd, len(net.Names))
	for i, l := range net.Links {
		ends[l.A] = append(ends[l.A], linkEnd{l.B, i})
		ends[l.B] = append(ends[l.B], linkEnd{l.A, i})
	}
	return ends
}

// measure measures flows at the same time. A flow is pairs of nodes, and its rate is their sum in MB/s. No node is in
// two pairs.
func (p *throughputProber) measure(flows [][]latency.Pair) ([]float64, error) {
	round := slices.Concat(flows...)
	if len(round) == 0 {
		return make([]float64, len(flows)), nil
	}
	p.report.Rounds++
	rates, err := p.m.MeasureThroughput(p.ctx, round, p.options.Transfer)
	if err != nil {
		return nil, err
	}
	if len(rates) != len(round) {
		return nil, fmt.Errorf("a round of %d pairs has %d rates", len(round), len(rates))
	}
	sums := make([]float64, len(flows))
	for i, flow := range flows {
		for range flow {
			sums[i] += rates[0]
			rates = rates[1:]
		}
	}
	return sums, nil
}

// nodeLinks measures the links between two nodes.
func (p *throughputProber) nodeLinks() error {
	links := map[latency.Pair]int{}
	var pairs []latency.Pair
	for i, l := range p.net.Links {
		if !p.net.IsSwitch(l.B) {
			pair := latency.Pair{A: l.A, B: l.B}
			links[pair] = i
			pairs = append(pairs, pair)
		}
	}
	for _, round := range Disjoint(pairs) {
		flows := make([][]latency.Pair, len(round))
		for i, pair := range round {
			flows[i] = []latency.Pair{pair}
		}
		rates, err := p.measure(flows)
		if err != nil {
			return err
		}
		for i, pair := range round {
			p.net.Links[links[pair]].Throughput = rates[i]
		}
	}
	return nil
}

// nodesOf returns the nodes that are linked with this switch only, and their links, ascending by latency. Data of a
// node with several links may take another way.
func (p *throughputProber) nodesOf(s int) (nodes, links []int) {
	var us []float64
	var all []linkEnd
	for _, e := range p.ends[s] {
		if !p.net.IsSwitch(e.vertex) && len(p.ends[e.vertex]) == 1 {
			all = append(all, e)
			us = append(us, p.net.Links[e.link].LatencyUs)
		}
	}
	for _, i := range byLatency(us) {
		nodes, links = append(nodes, all[i].vertex), append(links, all[i].link)
	}
	return nodes, links
}

func (p *throughputProber) switches() []int {
	var switches []int
	for v := p.net.Nodes; v < len(p.net.Names); v++ {
		switches = append(switches, v)
	}
	return switches
}

// blockingTests finds the switches that cannot carry all their nodes at the same time. It takes three rounds for all
// switches: the first pair alone, the others, and all (section 2.3.2).
func (p *throughputProber) blockingTests() error {
	if p.options.Sequential {
		return nil
	}
	var tested []int
	var first, others, all [][]latency.Pair
	for _, s := range p.switches() {
		nodes, _ := p.nodesOf(s)
		if pairs := neighbourPairs(nodes); len(pairs) > 1 {
			tested = append(tested, s)
			first, others, all = append(first, pairs[:1]), append(others, pairs[1:]), append(all, pairs)
		}
	}
	var rates [3][]float64
	for i, flows := range [][][]latency.Pair{first, others, all} {
		var err error
		if rates[i], err = p.measure(flows); err != nil {
			return err
		}
	}
	for i, s := range tested {
		if rates[2][i] < (rates[0][i]+rates[1][i])*(1-tolerance) {
			p.report.Blocking = append(p.report.Blocking, s)
		}
	}
	return nil
}

// neighbourPairs pairs the first node with the second, the third with the fourth and so on.
func neighbourPairs(nodes []int) []latency.Pair {
	var pairs []latency.Pair
	for i := 0; i+1 < len(nodes); i += 2 {
		pairs = append(pairs, latency.Pair{A: min(nodes[i], nodes[i+1]), B: max(nodes[i], nodes[i+1])})
	}
	return pairs
}

// hub is a switch with links that are measured against each other.
type hub struct {
	ports *ports
	links []int // of each port; -1: a port that only helps to measure the others
	flow  func(i, j int) []latency.Pair
	limit func(i, j int) float64 // largest rate between the nodes of two ports, in MB/s; nil: nodes are the ports
}

// portLinks measures the links between nodes and switches, at all switches at the same time.
func (p *throughputProber) portLinks() error {
	var hubs []*hub
	for _, s := range p.switches() {
		nodes, links := p.nodesOf(s)
		if len(nodes) < 2 {
			continue
		}
		order := make([]int, len(nodes))
		for i := range order {
			order[i] = i
		}
		hubs = append(hubs, &hub{
			ports: newPorts(order, p.options.Sequential || slices.Contains(p.report.Blocking, s)),
			links: links,
			flow: func(i, j int) []latency.Pair {
				return []latency.Pair{{A: min(nodes[i], nodes[j]), B: max(nodes[i], nodes[j])}}
			},
		})
	}
	return p.runHubs(hubs)
}

// runHubs measures hubs at the same time until each is done.
func (p *throughputProber) runHubs(hubs []*hub) error {
	for {
		var flows [][]latency.Pair
		asked := make([][][2]int, len(hubs))
		for i, h := range hubs {
			asked[i] = h.ports.next()
			for _, pair := range asked[i] {
				flows = append(flows, h.flow(pair[0], pair[1]))
			}
		}
		if len(flows) == 0 {
			break
		}
		rates, err := p.measure(flows)
		if err != nil {
			return err
		}
		for i, h := range hubs {
			h.ports.report(asked[i], rates[:len(asked[i])])
			rates = rates[len(asked[i]):]
		}
	}
	for _, h := range hubs {
		p.take(h)
	}
	return nil
}

// take gives the links of a hub their throughput.
func (p *throughputProber) take(h *hub) {
	for i, link := range h.links {
		if link < 0 {
			continue
		}
		p.net.Links[link].Throughput = h.ports.throughput(i)
		if h.ports.unproven(i) || h.unfilled(i) {
			p.report.AtLeast = append(p.report.AtLeast, link)
		}
	}
}

// unfilled reports whether the nodes behind a port and its partner, and not the port, limited its rate.
func (h *hub) unfilled(i int) bool {
	if h.limit == nil {
		return false
	}
	return slices.ContainsFunc(h.ports.measured, func(m portRate) bool {
		return slices.Contains(m.ports[:], i) && m.rate == h.ports.throughput(i) &&
			m.rate >= h.limit(m.ports[0], m.ports[1])*(1-tolerance)
	})
}
