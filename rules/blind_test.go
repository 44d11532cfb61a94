package rules

import (
	"slices"
	"testing"

	"github.com/weirhpc/weir/config"
)

// TestBlind: the facts that a node type lacks are named by the rules that need them, and no rule lacks a fact of a
// type that has all.
func TestBlind(t *testing.T) {
	set := shippedSet(t)
	whole := config.NodeType{
		CPUs: 64, ThreadsPerCore: 1, GPUs: new(0), Memory: 1 << 38, PeakFlops: 2e12, PeakMemBW: 2e11,
	}
	if all := set.Blind(whole); len(all) > 0 {
		t.Errorf("a whole type: %v", all)
	}
	for fact, change := range map[string]func(*config.NodeType){
		"peak_mem_bw":      func(n *config.NodeType) { n.PeakMemBW = 0 },
		"peak_flops":       func(n *config.NodeType) { n.PeakFlops = 0 },
		"memory":           func(n *config.NodeType) { n.Memory = 0 },
		"cpus":             func(n *config.NodeType) { n.CPUs = 0 },
		"threads_per_core": func(n *config.NodeType) { n.ThreadsPerCore = 0 },
	} {
		n := whole
		change(&n)
		all := set.Blind(n)
		if len(all) == 0 || slices.ContainsFunc(all, func(b Blind) bool { return b.Fact != fact }) {
			t.Errorf("without %s: %v", fact, all)
		}
	}
	lacking := set.Blind(config.NodeType{})
	for _, want := range []Blind{{"memory-bound", "peak_mem_bw"}, {"memory-full", "memory"}, {"overload", "cpus"}} {
		if !slices.Contains(lacking, want) {
			t.Errorf("%v is not among %v", want, lacking)
		}
	}
}
