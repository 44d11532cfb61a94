package view

import (
	"fmt"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// TestEvidence: each form of a number that shipped rules show is in words, and an unknown one is as its rule has it.
func TestEvidence(t *testing.T) {
	j := &Job{Metrics: []Metric{{Name: "cpu_user", Unit: "1"}}}
	value := func(m *Metric, v float64) string { return fmt.Sprintf("%v%s", v, m.Unit) }
	for name, want := range map[string]string{
		"cpu_user.mean":            "mean of cpu_user: 0.51",
		"cpu_user.lo9":             "decile 9 of cpu_user: at least 0.51",
		"cpu_user.hi10":            "largest cpu_user: at most 0.51",
		"cpu_user.d0":              "smallest cpu_user: 0.51",
		"cpu_user.low_node_mean":   "cpu_user on the node with the lowest mean: 0.51",
		"cpu_user.high_node_mean":  "cpu_user on the node with the highest mean: 0.51",
		"cpu_user.per_node":        "values of cpu_user on a node: 0.5",
		"quarter(cpu_user, 1).lo5": "median of cpu_user in the first quarter: at least 0.51",
		"quarter(cpu_idle, 4).d0":  "smallest cpu_idle in the last quarter: 0.5",
		"spread(cpu_user, 4)":      "difference between deciles 9 and 1 of cpu_user in the last quarter: at least 0.51",
		"spread_most(cpu_user, 1)": "difference between deciles 9 and 1 of cpu_user in the first quarter: at most 0.51",
		"mem_bw.mean / 2":          "mem_bw.mean / 2: 0.5",
		"cpu_user.colour":          "cpu_user.colour: 0.51",
	} {
		if got := Evidence(j, &schemas.FindingEvidence{Name: name, Low: 0.5, Mean: 0.5, High: 0.5}, value); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := Evidence(j, &schemas.FindingEvidence{Name: "cpu_user.mean", Low: 0.4, Mean: 0.5, High: 0.6}, value); got !=
		"mean of cpu_user: 0.51 (0.41 to 0.61)" {
		t.Error(got)
	}
}
