package audit

import (
	"math"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// TestAgentRuns: a number without a record or a Gap is a difference, once the agent can no longer send its record.
func TestAgentRuns(t *testing.T) {
	for name, c := range map[string]struct {
		lost    []int64 // numbers without a record
		copies  []int64 // numbers whose record is there again at the end
		strange []int64 // numbers of further records, in the middle
		gaps    int64
		swap    bool // records of odd numbers come 10 records later
		missing int64
		text    string
	}{
		"all there":                {},
		"two partitions":           {swap: true},
		"one lost":                 {lost: []int64{70}, missing: 1, text: "first among numbers 64 to 127"},
		"a whole word lost":        {lost: span(128, 192), missing: 64, text: "first among numbers 128 to"},
		"lost and in a Gap":        {lost: span(100, 120), gaps: 20},
		"more lost than in a Gap":  {lost: span(100, 120), gaps: 19, missing: 1},
		"lost, and another copied": {lost: []int64{70}, copies: []int64{71, 72}, missing: 1},
		"of the last 64 intervals": {lost: span(450, 490)},
		"numbers of a stranger":    {strange: []int64{math.MaxInt64, 1 << 40}},
	} {
		t.Run(name, func(t *testing.T) {
			lost := map[int64]bool{}
			for _, seq := range c.lost {
				lost[seq] = true
			}
			r := &AgentRun{Node: "n1", RunID: "r1", Gaps: c.gaps, Fates: Fates{Summarized: 1}}
			put := func(seq int64) {
				if seq >= 1 && seq <= 500 && !lost[seq] {
					r.add(3, &schemas.NodeHeader{Seq: seq, IntervalStart: seq * 1000, IntervalMs: 1000})
				}
			}
			for seq := int64(1); seq <= 520; seq++ {
				for _, strange := range c.strange {
					if seq == 250 {
						r.add(3, &schemas.NodeHeader{Seq: strange, IntervalStart: seq * 1000, IntervalMs: 1000})
					}
				}
				switch {
				case !c.swap:
					put(seq)
				case seq%2 == 0:
					put(seq)
					put(seq - 9)
				}
			}
			for _, seq := range c.copies {
				put(seq)
			}
			var report Report
			r.close(&report, "weir.counters")
			if r.Missing != c.missing || report.Found != min(c.missing, 1) {
				t.Fatalf("%d missing, want %d: %v", r.Missing, c.missing, report.Differences)
			}
			for _, d := range report.Differences {
				at, text, _ := strings.Cut(d.String(), ": run r1 of node n1: ")
				if at != "weir.counters-3" || !strings.Contains(text, c.text) {
					t.Error(d)
				}
			}
			if len(r.words) > 3 {
				t.Errorf("%d words of numbers are held at the end", len(r.words))
			}
		})
	}
}

func span(from, to int64) (all []int64) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}
