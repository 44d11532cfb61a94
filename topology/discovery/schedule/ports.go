package schedule

import (
	"cmp"
	"math"
	"slices"
)

// tolerance is the relative difference below which two rates are equal.
const tolerance = .05

// meetings is how many ports of the fastest rate each of them meets. Pairs of a fast and a slow port look like pairs of
// slow ones. After three meetings, at most one in four ports can be faster than its rate.
const meetings = 3

// ports finds the throughput of each port of a switch from the rates between two ports. A rate is the throughput of the
// slower port. It certainly belongs to one port if the other port has been seen faster. So the first round pairs all
// ports, and later rounds put the other ports against the fastest ones. It is a state machine: next returns the pairs
// to measure, and report takes the rates. All pairs of 32 ports would take 31 rounds; it takes three to five.
type ports struct {
	order      []int // ports, by their probable throughput, the fastest first
	sequential bool  // one pair in a round, for a switch that cannot carry more

	measured []portRate
	tried    map[[2]int]bool
	met      []int     // how many other ports each was measured with
	least    []float64 // each port is at least this fast, in MB/s
	own      []float64 // proven, in MB/s; NaN: not proven
}

// portRate is the rate between two ports.
type portRate struct {
	ports [2]int
	rate  float64
}

func newPorts(order []int, sequential bool) *ports {
	p := &ports{order: order, sequential: sequential, tried: map[[2]int]bool{}}
	p.met = make([]int, len(order))
	p.least = make([]float64, len(order))
	p.own = slices.Repeat([]float64{math.NaN()}, len(order))
	return p
}

// next returns the pairs of ports to measure at the same time. There are none when all is known that can be.
func (p *ports) next() [][2]int {
	var pairs [][2]int
	if first := p.firstRound(); len(first) > 0 {
		pairs = first
	} else {
		pairs = p.certify()
	}
	if p.sequential && len(pairs) > 1 {
		pairs = pairs[:1]
	}
	return pairs
}

// firstRound returns neighbours in the order that were not measured yet.
func (p *ports) firstRound() [][2]int {
	var pairs [][2]int
	for i := 0; i+1 < len(p.order); i += 2 {
		pair := portPair(p.order[i], p.order[i+1])
		if !p.tried[pair] {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

func portPair(i, j int) [2]int { return [2]int{min(i, j), max(i, j)} }

// certify pairs open ports with fast ones. If fast ports are few, one port of each slow pair comes first, because it
// may explain the other.
func (p *ports) certify() [][2]int {
	fast, open := p.classes()
	var pairs [][2]int
	busy, explained := map[int]bool{}, map[int]bool{}
	for _, again := range []bool{false, true} {
		for _, i := range open {
			if busy[i] || explained[i] != again {
				continue
			}
			for _, j := range fast {
				if !busy[j] && !p.tried[portPair(i, j)] {
					busy[i], busy[j] = true, true
					pairs = append(pairs, portPair(i, j))
					p.explain(i, explained)
					break
				}
			}
		}
	}
	return append(pairs, p.meet(fast, busy)...)
}

// meet returns pairs of idle ports of the fastest rate that met too few.
func (p *ports) meet(fast []int, busy map[int]bool) [][2]int {
	var pairs [][2]int
	fast = slices.DeleteFunc(fast, func(i int) bool { return busy[i] })
	for n, i := range fast {
		if busy[i] {
			continue
		}
		next := slices.IndexFunc(fast[n+1:], func(j int) bool {
			return !busy[j] && !p.tried[portPair(i, j)] && min(p.met[i], p.met[j]) < meetings
		})
		if next >= 0 {
			j := fast[n+1+next]
			busy[i], busy[j] = true, true
			pairs = append(pairs, portPair(i, j))
		}
	}
	return pairs
}

// explain marks the ports that a port was measured with.
func (p *ports) explain(i int, explained map[int]bool) {
	for _, m := range p.measured {
		if m.ports[0] == i {
			explained[m.ports[1]] = true
		}
		if m.ports[1] == i {
			explained[m.ports[0]] = true
		}
	}
}

// classes returns the ports that were seen fastest, and the slower ones without a proof.
func (p *ports) classes() (fast, open []int) {
	top := slices.Max(p.least)
	for _, i := range p.order {
		switch {
		case top > 0 && p.least[i] >= top*(1-tolerance):
			fast = append(fast, i)
		case math.IsNaN(p.own[i]):
			open = append(open, i)
		}
	}
	return fast, open
}

// report takes the rates in MB/s of the pairs that next returned. NaN is a failed measurement.
func (p *ports) report(pairs [][2]int, rates []float64) {
	for i, pair := range pairs {
		p.tried[pair] = true
		p.met[pair[0]]++
		p.met[pair[1]]++
		if !math.IsNaN(rates[i]) {
			p.measured = append(p.measured, portRate{pair, rates[i]})
			p.least[pair[0]] = max(p.least[pair[0]], rates[i])
			p.least[pair[1]] = max(p.least[pair[1]], rates[i])
		}
	}
	for _, m := range p.measured {
		a, b := m.ports[0], m.ports[1]
		if m.rate < p.least[b]*(1-tolerance) {
			p.own[a] = m.rate
		}
		if m.rate < p.least[a]*(1-tolerance) {
			p.own[b] = m.rate
		}
	}
}

// throughput returns the throughput of a port in MB/s. Without proof it is the highest rate that was seen on the port.
// In section 2.3.2 of the thesis, the text exchanges minimum and maximum. NaN: never measured.
func (p *ports) throughput(i int) float64 {
	switch {
	case !math.IsNaN(p.own[i]):
		return p.own[i]
	case p.least[i] > 0:
		return p.least[i]
	}
	return math.NaN()
}

// unproven reports whether a port may be faster than its throughput. The lower of two rates does not show which port
// limits it. So the two fastest ports prove each other only if a third is as fast. If there are more ports, one may
// still be faster than all others: no measurement on the switch can show that.
func (p *ports) unproven(i int) bool {
	fast, _ := p.classes()
	return len(fast) < 3 && math.IsNaN(p.own[i])
}

// byLatency returns the numbers of links, ascending by latency.
func byLatency(us []float64) []int {
	order := make([]int, len(us))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(us[i], us[j]) })
	return order
}
