package producers

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// simulatedCPUs is so many that the shares of a spread job are not all said value by value: there are estimates to see.
const simulatedCPUs = 32

// SimulatedNodes names n nodes: sim0001, sim0002 and so on.
func SimulatedNodes(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("sim%04d", i+1)
	}
	return names
}

// shape is a simulated metric. value makes it of a draw for this node, metric, CPU and interval, and of one for the node.
type shape struct {
	metric
	scope string
	value func(draw, node uint64) float64
}

// shapes is every simulated metric, ascending by name: columns that real counters look like.
func shapes() []shape {
	return []shape{
		{metric{"sim_count", "1"}, schemas.ScopeCore, func(draw, _ uint64) float64 { return float64(draw % 20) }},
		{metric{"sim_gaps", "1"}, schemas.ScopeCore, func(draw, _ uint64) float64 { // some are missing
			if draw%23 == 0 {
				return math.NaN()
			}
			return unit(mix(draw))
		}},
		{metric{"sim_load", "1"}, schemas.ScopeNode, func(draw, node uint64) float64 { return 4*unit(node) + unit(draw) }},
		{metric{"sim_memory", "B"}, schemas.ScopeNode, func(draw, node uint64) float64 { return float64(node%(1<<38) + draw%(1<<30)) }},
		{metric{"sim_node", "1"}, schemas.ScopeCore, func(draw, node uint64) float64 { return 100*unit(node) + unit(draw) }},
		{metric{"sim_normal", "1"}, schemas.ScopeCore, func(draw, _ uint64) float64 { // a sum of uniform draws is nearly normal
			sum := 50.0
			for range 6 {
				draw = mix(draw)
				sum += 10 * (unit(draw) - 0.5)
			}
			return sum
		}},
		{metric{"sim_signed", "1"}, schemas.ScopeCore, func(draw, _ uint64) float64 { return 2*unit(draw) - 1 }},
		{metric{"sim_sparse", "1/s"}, schemas.ScopeCore, func(draw, _ uint64) float64 { // mostly zero
			if draw%10 != 0 {
				return 0
			}
			return 1000 * unit(mix(draw))
		}},
		{metric{"sim_tail", "1/s"}, schemas.ScopeCore, func(draw, _ uint64) float64 { return 1 / (1 - unit(draw)) }},
		{metric{"sim_tied", "1"}, schemas.ScopeCore, func(_, node uint64) float64 { return float64(node % 3) }},
	}
}

// SimulatedValue is what a simulated node measures: a function of its arguments alone, so that a test can know what a
// record should hold. cpu is ignored for node-scoped metrics. A metric that is not simulated is NaN, as are some values
// of sim_gaps.
func SimulatedValue(node, metric string, cpu int, intervalStartMs int64) float64 {
	for _, s := range shapes() {
		if s.name == metric {
			return s.of(hashOf(node), cpu, intervalStartMs)
		}
	}
	return math.NaN()
}

func (s *shape) of(node uint64, cpu int, intervalStartMs int64) float64 {
	if s.scope == schemas.ScopeNode {
		cpu = 0
	}
	draw := mix(node ^ mix(hashOf(s.name)+mix(uint64(cpu)+mix(uint64(intervalStartMs)))))
	return s.value(draw, mix(node^hashOf(s.name)))
}

// unit maps a draw to [0, 1).
func unit(draw uint64) float64 { return float64(draw>>11) / (1 << 53) }

// mix scatters the bits of x (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // a hash does not fail
	return h.Sum64()
}

// simulated is the sampler of a node that is not there. Its intervals are bounded by readings as a real node's are, and
// are absent when the process could not keep time.
type simulated struct{ node string }

func (*simulated) read(vitals) {}

func (m *simulated) interval(start int64, _ time.Duration) *sample {
	s := &sample{start: start, cpus: make([]int32, simulatedCPUs)}
	for c := range s.cpus {
		s.cpus[c] = int32(c)
	}
	node := hashOf(m.node)
	for _, shape := range shapes() {
		n := 1
		if shape.scope == schemas.ScopeCore {
			n = simulatedCPUs
		}
		values := make([]float64, n)
		for c := range values {
			values[c] = shape.of(node, c, start)
		}
		s.columns = append(s.columns, column{shape.name, shape.unit, shape.scope, values})
	}
	return s
}
