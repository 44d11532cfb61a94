package rules

import (
	"math"
	"slices"
	"strings"

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
			text, isFact := strings.CutPrefix(r.why, "machine.")
			if !isFact || !math.IsNaN(r.of(f)) {
				continue
			}
			fact := strings.TrimSuffix(text, " is not set")
			if first, second, either := strings.Cut(fact, " or machine."); either { // peak_flops_core is made of both
				if fact = first; t.PeakFlops > 0 {
					fact = second
				}
			}
			if b := (Blind{s.Rules[i].ID, fact}); !slices.Contains(all, b) {
				all = append(all, b)
			}
		}
	}
	return all
}
