package view

import (
	"fmt"
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
	for want, n := range map[string]Nodes{
		"1 of 2":  half.Find("flops_any").Total.Nodes, // 2, 1 and 1 of 2 are 4/3 in the mean
		"":        {},
		"2 of 96": {Intervals: 10, With: 20, Reported: 960}, "1 of 96": {Intervals: 10, With: 1, Reported: 960},
	} {
		with, of, few := n.Few()
		if got := fmt.Sprintf("%d of %d", with, of); few != (want != "") || few && got != want {
			t.Errorf("%+v are %s, %v, want %q", n, got, few, want)
		}
	}
	if _, _, few := (Nodes{Intervals: 1000, With: 95_999, Reported: 96_000}).Few(); few {
		t.Error("a node that lacks the metric once in a thousand intervals makes it sampled")
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
