package producers

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// SimulatedCPUs are the logical CPUs of a simulated node of the test mix. They are so many that the shares of a split
// job do not list every value, so that their merge estimates.
const SimulatedCPUs = 32

// SimulatedNodes names n nodes: sim0001, sim0002 and so on.
func SimulatedNodes(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("sim%04d", i+1)
	}
	return names
}

// shape is a simulated metric. In the test mix a function yields its values, in the load a recording.
type shape struct {
	testShape
	recorded *recording
	hash     uint64 // of the name: once for all values
}

// testShape is a metric of the test mix. value makes a value of two draws: one for the node, metric, CPU and interval,
// and one for the node and metric.
type testShape struct {
	name, unit, scope string
	value             func(draw, node uint64) float64
}

// shapes returns every metric of the test mix, ascending by name. Their columns resemble those of real counters. The
// caller must not change the slice.
var shapes = sync.OnceValue(func() (all []shape) {
	for _, s := range testShapes() {
		all = append(all, shape{testShape: s, hash: hashOf(s.name)})
	}
	return all
})

func testShapes() []testShape {
	return []testShape{
		{"sim_count", "1", schemas.ScopeCore, func(draw, _ uint64) float64 { return float64(draw % 20) }},
		{"sim_gaps", "1", schemas.ScopeCore, func(draw, _ uint64) float64 { // some are missing
			if draw%23 == 0 {
				return math.NaN()
			}
			return unit(mix(draw))
		}},
		{"sim_load", "1", schemas.ScopeNode, func(draw, node uint64) float64 {
			return 4*unit(node) + unit(draw)
		}},
		{"sim_memory", "B", schemas.ScopeNode, func(draw, node uint64) float64 {
			return float64(node%(1<<38) + draw%(1<<30))
		}},
		{"sim_node", "1", schemas.ScopeCore, func(draw, node uint64) float64 {
			return 100*unit(node) + unit(draw)
		}},
		{"sim_normal", "1", schemas.ScopeCore, func(draw, _ uint64) float64 {
			sum := 50.0 // a sum of uniform draws is nearly normal
			for range 6 {
				draw = mix(draw)
				sum += 10 * (unit(draw) - 0.5)
			}
			return sum
		}},
		{"sim_signed", "1", schemas.ScopeCore, func(draw, _ uint64) float64 { return 2*unit(draw) - 1 }},
		{"sim_sparse", "1/s", schemas.ScopeCore, func(draw, _ uint64) float64 { // mostly zero
			if draw%10 != 0 {
				return 0
			}
			return 1000 * unit(mix(draw))
		}},
		{"sim_tail", "1/s", schemas.ScopeCore, func(draw, _ uint64) float64 { return 1 / (1 - unit(draw)) }},
		{"sim_tied", "1", schemas.ScopeCore, func(_, node uint64) float64 { return float64(node % 3) }},
	}
}

// measuredShapes returns the metrics that a simulated node measures.
func measuredShapes(all []shape, list *config.MetricList, node string) []shape {
	if list == nil {
		return all // shared by all nodes
	}
	return slices.DeleteFunc(slices.Clone(all), func(s shape) bool { return !list.Measures(node, s.name) })
}

// SimulatedValue returns the value that a simulated node measures, in either mix. It depends on its arguments alone, so
// that a test can compute the expected content of a record. It ignores cpu for node-scoped metrics. Some values of
// sim_gaps are NaN, as are all values of a metric that is not simulated.
func SimulatedValue(node, metric string, cpu int, intervalStartMs int64) float64 {
	all := shapes()
	if strings.HasPrefix(metric, loadPrefix) {
		all = loadShapes()
	}
	for i := range all {
		if s := &all[i]; s.name == metric {
			var value [1]float64
			s.fill(value[:], cpu, hashOf(node), intervalStartMs)
			return value[0]
		}
	}
	return math.NaN()
}

// fill makes the values of a node's CPUs from the first one on. node is the hash of its name.
func (s *shape) fill(values []float64, first int, node uint64, intervalStartMs int64) {
	if s.scope == schemas.ScopeNode {
		first = 0
	}
	start, own := mix(uint64(intervalStartMs)), mix(node^s.hash)
	if s.recorded != nil {
		s.recorded.fill(values, first, own, start)
		return
	}
	for i := range values {
		values[i] = s.value(mix(node^mix(s.hash+mix(uint64(first+i)+start))), own)
	}
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

// simulated is the sampler of a node that does not exist. As on a real node, readings bound its intervals. An interval
// is absent if the process did not keep time.
type simulated struct {
	node         string
	cores        int     // 0: SimulatedCPUs
	shapes       []shape // that the node measures; nil: all of the test mix
	fromMs, toMs int64   // boundaries of the last two readings
	tellsClock   bool
	clock        source.Clock // at the last reading
}

// Read implements sampler.
func (m *simulated) Read(v source.Vitals) {
	m.fromMs, m.toMs, m.clock = m.toMs, v.BoundaryMs, v.Clock
}

// Interval depends on node, CPU and time alone, so a test can compute the values that a node must have sent.
func (m *simulated) Interval(time.Duration) (cpus []int32, columns []source.Column) {
	cpus = make([]int32, cmp.Or(m.cores, SimulatedCPUs))
	for c := range cpus {
		cpus[c] = int32(c)
	}
	measured := m.shapes
	if measured == nil {
		measured = shapes()
	}
	node := hashOf(m.node)
	columns = make([]source.Column, 0, len(measured))
	room := make([]float64, len(measured)*len(cpus)) // of all columns: one allocation, and not one a metric
	for i := range measured {
		shape, n := &measured[i], 1
		if shape.scope == schemas.ScopeCore {
			n = len(cpus)
		}
		values := room[:n:n]
		room = room[n:]
		shape.fill(values, 0, node, m.fromMs)
		columns = append(columns, source.Column{Name: shape.name, Unit: shape.unit, Scope: shape.scope, Values: values})
	}
	if m.tellsClock {
		columns = append(columns, m.clock.Columns()...)
	}
	return cpus, columns
}

// Jobs implements sampler. Simulated jobs have no cgroups.
func (*simulated) Jobs(time.Duration) []source.JobColumns { return nil }
