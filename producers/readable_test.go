package producers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// TestRecordsAreReadable: no collector refuses a record, for any values that a source reads.
func TestRecordsAreReadable(t *testing.T) {
	extremes := []float64{
		math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 1e308, math.SmallestNonzeroFloat64,
		math.Copysign(0, -1), 0, 1, 1e-300,
	}
	route := &schemas.Route{Node: "n1", Entries: []schemas.RouteEntry{{JobID: "1", Mode: schemas.ModeLocal}}}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 5))
		n := 1 + r.IntN([]int{4, 20, 300}[seed%3])
		s := &sample{start: 1_700_000_010_000, sampledAt: 1_700_000_020_000_123}
		values := make([]float64, n)
		for i := range values {
			s.cpus = append(s.cpus, int32(i))
			switch r.IntN(3) {
			case 0:
				values[i] = extremes[r.IntN(len(extremes))]
			case 1:
				values[i] = float64(r.IntN(5))
			default:
				values[i] = r.NormFloat64() * math.Pow(10, float64(r.IntN(40)-20))
			}
		}
		s.columns = []source.Column{
			{Name: "a", Unit: "µs", Scope: schemas.ScopeCore, Values: values},
			{Name: "b", Scope: schemas.ScopeNode, Values: values[:1]},
		}
		items, _ := form(route, s, schemas.NodeHeader{Cluster: "c", Node: "n1", IntervalMs: 10_000})
		for _, it := range items {
			if _, err := schemas.MarshalChecked(it.record(1_700_000_020_001)); err != nil {
				t.Fatalf("seed %d: %v: %s", seed, err, fmt.Sprint(values))
			}
		}
	}
}
