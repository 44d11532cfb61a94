package view

import "testing"

// TestExactWordsAreBounds: a bound is never rounded down, and what is not all is never called all.
func TestExactWordsAreBounds(t *testing.T) {
	for _, tt := range []struct {
		share, worst, whole float64
		want                string
	}{
		{1, 0, 0, "All deciles are exact."},
		{1, 0, 0.0211, "Deciles of intervals are exact; in the whole job their rank is off by at most 2.2 %."},
		{
			0.9999, 0.0031, 0,
			"Deciles are exact in the whole job, and in 99.9 % of intervals; " +
				"elsewhere their rank is off by at most 0.4 %.",
		},
		{
			0.562, 0.015, 0.022,
			"Deciles are exact in 56.2 % of intervals; " +
				"elsewhere their rank is off by at most 1.5 %, in the whole job by 2.2 %.",
		},
	} {
		m := Metric{Total: Total{Count: 1, Known: true, Exact: tt.whole == 0, RankError: tt.whole}}
		j := &Job{ExactShare: tt.share, WorstRankError: tt.worst, Metrics: []Metric{m}}
		if got := j.ExactWords(); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
	if got := (&Job{}).ExactWords(); got != "" {
		t.Errorf("a job of which nothing was measured: %s", got)
	}
}
