package view

import (
	"fmt"
	"slices"
)

// ExactWords describes the accuracy of the deciles, for intervals and for the whole job. It is empty if nothing was
// measured.
func (j *Job) ExactWords() string {
	if !slices.ContainsFunc(j.Metrics, func(m Metric) bool { return m.Total.Count > 0 }) {
		return ""
	}
	whole := 0.0
	for i := range j.Metrics {
		if t := &j.Metrics[i].Total; t.Known && !t.Exact {
			whole = max(whole, t.RankError)
		}
	}
	all := "in the whole job"
	if j.Several() {
		all = "in all jobs together"
	}
	switch exact := j.ExactShare >= 1; {
	case exact && whole == 0:
		return "All deciles are exact."
	case exact:
		return "Deciles of intervals are exact; " + all + " their rank is off by at most " + Bound(whole) + "."
	case whole == 0:
		return fmt.Sprintf("Deciles are exact %s, and in %s of intervals; elsewhere their rank is off by at most %s.",
			all, Floor(j.ExactShare), Bound(j.WorstRankError))
	}
	return fmt.Sprintf("Deciles are exact in %s of intervals; elsewhere their rank is off by at most %s, %s by %s.",
		Floor(j.ExactShare), Bound(j.WorstRankError), all, Bound(whole))
}
