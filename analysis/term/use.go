package term

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/schemas"
)

// use is how much of something a job used, and the word that a rule has for it.
type use struct {
	name, word string
	share      float64 // NaN: it is not known what there is
}

// uses are the bars of a report: of what was measured, as far as it is known what there is.
func uses(j *view.Job) (all []use) {
	if m := metric(j, "cpu_idle"); m != nil {
		all = append(all, use{name: "busy cores", share: view.Busy(m.Total.Mean, j.Type), word: word(j, "low",
			"idle-cores", "unused-node", "serial", "low-cpu", "stalled")})
	}
	if m := metric(j, "acc_utilization"); m != nil {
		all = append(all, use{name: "GPUs", share: m.Total.Mean, word: word(j, "low", "unused-gpu")})
	}
	if m := metric(j, "flops_any"); m != nil {
		all = append(all, ofPeak(j, m, use{name: "FLOPs", word: word(j, "low", "low-use")}, j.Type.PeakFlops))
	}
	if m := metric(j, "mem_bw"); m != nil {
		bound := word(j, "bound", "memory-bound")
		if bound != "bound" {
			if low := word(j, "low", "low-use"); low == "low" {
				bound = low
			}
		}
		all = append(all, ofPeak(j, m, use{name: "memory bw", word: bound}, j.Type.PeakMemBW))
	}
	if m := metric(j, "mem_used"); m != nil {
		u := use{name: "memory", share: m.Total.D[10] / float64(j.Type.Memory)}
		if u.word = word(j, "full", "memory-full"); u.word != "full" {
			if low := word(j, "low", "memory-over"); low == "low" {
				u.word = low
			}
		}
		all = append(all, known(u, float64(j.Type.Memory)))
	}
	return all
}

// ofPeak completes the use of what all of a node's cores or sockets have together.
func ofPeak(j *view.Job, m *view.Metric, u use, peak float64) use {
	u.share = m.Total.Mean * j.PerNode(m) / peak
	if u.word == "" || u.word == "ok" && u.name == "FLOPs" {
		u.word = "of peak"
	}
	return known(u, peak)
}

// known makes sure that a share of what nobody knows is not shown.
func known(u use, all float64) use {
	if all <= 0 || math.IsInf(u.share, 0) {
		u.share, u.word = math.NaN(), ""
	}
	return u
}

// spread is the difference of the cores that work most and least, as shares of their time.
func spread(m *view.Metric) float64 { return m.Total.D[9] - m.Total.D[1] }

// metric returns a metric that has values, or nil.
func metric(j *view.Job, name string) *view.Metric {
	if m := j.Find(name); m != nil && m.Total.Count > 0 {
		return m
	}
	return nil
}

// word is bad if one of the rules holds, "ok" if one of them was evaluated, and empty if nobody judged.
func word(j *view.Job, bad string, ids ...string) string {
	for _, id := range ids {
		if f := finding(j, id); f != nil {
			return bad
		}
	}
	for _, id := range ids {
		if evaluated(j, id) {
			return "ok"
		}
	}
	return ""
}

// finding is the open finding of a rule, or nil.
func finding(j *view.Job, rule string) *schemas.Finding {
	for i := range j.Findings {
		if f := &j.Findings[i]; f.Rule == rule && f.State == schemas.FindingOpen {
			return f
		}
	}
	return nil
}

// evaluated reports whether a rule was judged, and so whether silence about it means something.
func evaluated(j *view.Job, rule string) bool {
	if len(j.Map)+len(j.Findings)+len(j.NotEvaluated) == 0 {
		return false // no rule was
	}
	return !slices.ContainsFunc(j.NotEvaluated, func(r rules.Reason) bool { return r.Rule == rule })
}
