package producers

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

func TestSimulatedNodes(t *testing.T) {
	if diff := cmp.Diff([]string{"sim0001", "sim0002"}, SimulatedNodes(2)); diff != "" {
		t.Error(diff)
	}
}

// The sampler and SimulatedValue agree, and the metrics have their intended shapes.
func TestSimulatedValues(t *testing.T) {
	pooled := map[string][]float64{}
	scopes := map[string]string{}
	for _, node := range SimulatedNodes(40) {
		for start := int64(0); start < 10_000; start += 1000 {
			sampler := &simulated{node: node}
			sampler.Read(source.Vitals{BoundaryMs: start})
			sampler.Read(source.Vitals{BoundaryMs: start + 1000})
			_, columns := sampler.Interval(time.Second)
			if !slices.IsSortedFunc(columns, func(a, b source.Column) int { return strings.Compare(a.Name, b.Name) }) {
				t.Fatal("columns are not ascending by name")
			}
			for _, c := range columns {
				var want []float64
				for i := range c.Values {
					want = append(want, SimulatedValue(node, c.Name, i, start))
				}
				if diff := cmp.Diff(want, c.Values, cmpopts.EquateNaNs()); diff != "" {
					t.Fatalf("%s of %s (-want +got):\n%s", c.Name, node, diff)
				}
				pooled[c.Name] = append(pooled[c.Name], c.Values...)
				scopes[c.Name] = c.Scope
			}
		}
	}
	fraction := func(name string, f func(float64) bool) float64 {
		n := 0
		for _, v := range pooled[name] {
			if f(v) {
				n++
			}
		}
		return float64(n) / float64(len(pooled[name]))
	}
	if zero := fraction("sim_sparse", func(v float64) bool { return v == 0 }); zero < 0.85 || zero > 0.95 {
		t.Errorf("%g of sim_sparse are zero", zero)
	}
	if missing := fraction("sim_gaps", math.IsNaN); missing < 0.02 || missing > 0.07 {
		t.Errorf("%g of sim_gaps are missing", missing)
	}
	if whole := fraction("sim_count", func(v float64) bool { return v == math.Trunc(v) }); whole != 1 {
		t.Errorf("%g of sim_count are whole numbers", whole)
	}
	if huge := fraction("sim_tail", func(v float64) bool { return v > 100 }); huge == 0 || huge > 0.03 {
		t.Errorf("%g of sim_tail are above 100", huge)
	}
	if len(pooled["sim_load"]) != 400 || scopes["sim_load"] != schemas.ScopeNode ||
		len(pooled["sim_normal"]) != 400*SimulatedCPUs {
		t.Error("a scope is not what it should be")
	}
	if !math.IsNaN(SimulatedValue("sim0001", "cpu_user", 0, 0)) {
		t.Error("a metric that is not simulated has a value")
	}
}
