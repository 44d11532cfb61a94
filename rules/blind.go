package rules

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/config"
)

// Blind is a rule that is not evaluated for a job on nodes of a type, since a fact about them is unknown.
type Blind struct {
	Rule string `json:"rule"`
	Fact string `json:"fact"` // as `machine` names it, such as peak_mem_bw
}

// Blind returns the rules that lack facts about nodes of a type, in the order of the rules.
func (s *Set) Blind(t config.NodeType) (all []Blind) {
	f := s.newFrame()
	f.facts(&Job{Node: t}, 1, 1, 0)
	for i := range s.Rules {
		for _, r := range s.Rules[i].reads {
			if r.fact == "" || !math.IsNaN(r.of(f)) {
				continue
			}
			b := Blind{s.Rules[i].ID, r.fact}
			if b.Fact == "peak_flops_core" { // peak_flops by cpus
				if b.Fact = "peak_flops"; t.PeakFlops > 0 {
					b.Fact = "cpus"
				}
			}
			if !slices.Contains(all, b) {
				all = append(all, b)
			}
		}
	}
	return all
}
