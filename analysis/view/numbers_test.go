package view

import (
	"math"
	"testing"
)

// TestValuesOfANode: nodes without the metric do not count, nor intervals that lack it. Of hours alone nobody knows.
func TestValuesOfANode(t *testing.T) {
	made := func(perf ...int32) *Job {
		b := NewBuilder(0, 1000, 0)
		for i, nodes := range perf {
			r := rowOf("flops_any", int64(i)*1000, 1000, make([]float64, max(1, 4*nodes)))
			if r.Nodes = &nodes; nodes == 0 {
				r.Metric = nil
			}
			b.Row(&r, true)
		}
		j := &Job{}
		b.Into(j)
		return j
	}
	half, few := made(2, 0, 1, 1), made(1)
	if got := half.PerNode(half.Find("flops_any")); got != 4 {
		t.Errorf("%g values of a node, not 4", got)
	}
	if both, err := Merge([]*Job{half, few}); err != nil || both.PerNode(both.Find("flops_any")) != 4 {
		t.Errorf("%v: of two jobs %+v", err, both.Find("flops_any").Total)
	}
	b, r, j := NewBuilder(0, 3_600_000, 0), rowOf("flops_any", 0, 1000, make([]float64, 8)), &Job{}
	b.Hour(&r, Sums{EndMs: 2000, Intervals: 3, Measured: 1, Expected: 6, Reported: 6}, true)
	if b.Into(j); !math.IsNaN(j.PerNode(j.Find("flops_any"))) {
		t.Errorf("of an hour: %g", j.PerNode(j.Find("flops_any")))
	}
	nodes := int32(2)
	r.Nodes = &nodes
	b.Places(&r)
	if b.Into(j); j.PerNode(j.Find("flops_any")) != 4 {
		t.Errorf("of an hour whose intervals are read: %g", j.PerNode(j.Find("flops_any")))
	}
}
