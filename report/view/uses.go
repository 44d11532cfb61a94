package view

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"
)

// Use is how much of something a job used, and the word that rules have for it.
type Use struct {
	Name        string
	Share       float64 // NaN: it is not known what there is
	Word, Class string  // Class: of the worst finding that the word is for
}

// verdict is the word for a rule that holds. One that looks at some jobs or nodes alone does not vouch for the share.
type verdict struct {
	rule, word string
	vouches    bool
}

// OfPeak reports whether a report shows a metric as a share of a node's peak.
func OfPeak(metric string) bool { return metric == "flops_any" || metric == "mem_bw" }

// Uses are the bars of a report: of what was measured, as far as it is known what there is.
func (j *Job) Uses() (all []Use) {
	put := func(name string, share float64, words ...verdict) *Use {
		u := Use{Name: name, Share: share}
		u.Word, u.Class = j.word(words)
		if math.IsNaN(share) || math.IsInf(share, 0) {
			u = Use{Name: name, Share: math.NaN()}
		}
		all = append(all, u)
		return &all[len(all)-1]
	}
	if busy := j.BusyCores(); !math.IsNaN(busy) {
		put("busy cores", busy, verdict{"idle-cores", "low", true}, verdict{"unused-node", "low", false},
			verdict{"serial", "low", false}, verdict{"low-cpu", "low", true}, verdict{"stalled", "low", false})
	}
	if m := j.measured("acc_utilization"); m != nil {
		put("GPUs", m.Total.Mean, verdict{"unused-gpu", "low", true})
	}
	if m := j.measured("flops_any"); m != nil {
		put("FLOPs", j.ofPeak(m, j.Type.PeakFlops), verdict{"low-use", "low", true}).ofPeak("", "ok")
	}
	if m := j.measured("mem_bw"); m != nil {
		put("memory bandwidth", j.ofPeak(m, j.Type.PeakMemBW), verdict{"memory-bound", "bound", true},
			verdict{"low-use", "low", true}).ofPeak("")
	}
	if m := j.measured("mem_used"); m != nil {
		share := math.NaN()
		if j.Type.Memory > 0 {
			share = m.Total.D[10] / float64(j.Type.Memory)
		}
		put("memory", share, verdict{"memory-full", "full", true}, verdict{"memory-over", "low", true})
	}
	return all
}

// BusyCores is the share of cores that had work; NaN where cpu_idle was not measured.
func (j *Job) BusyCores() float64 {
	if j.Several() {
		return j.busy
	}
	if m := j.measured("cpu_idle"); m != nil {
		return Busy(m.Total.Mean, j.Type)
	}
	return math.NaN()
}

// measured returns a metric that has values, or nil.
func (j *Job) measured(name string) *Metric {
	if m := j.Find(name); m != nil && m.Total.Count > 0 {
		return m
	}
	return nil
}

// ofPeak is the share of what all of a node's cores or sockets can do together; NaN where that is not known.
func (j *Job) ofPeak(m *Metric, peak float64) float64 {
	if !(peak > 0) {
		return math.NaN()
	}
	return m.Total.Mean * j.PerNode(m) / peak
}

// ofPeak says what the bar is a share of, where the word says less.
func (u *Use) ofPeak(less ...string) {
	if !math.IsNaN(u.Share) && slices.Contains(less, u.Word) {
		u.Word = "of peak"
	}
}

// word is that of the first rule that holds. It is ok if none holds and one that vouches was evaluated, and else empty.
// Of several jobs it says in how many.
func (j *Job) word(words []verdict) (text, class string) {
	hold := map[schemas.JobKey]bool{}
	for _, w := range words {
		for i := range j.Findings {
			f := &j.Findings[i]
			if f.Rule != w.rule || f.State != schemas.FindingOpen || text != "" && text != w.word {
				continue
			}
			if text == "" {
				text, class = w.word, f.Class
			}
			hold[f.Job()] = true
		}
	}
	switch {
	case text != "" && j.Several():
		return fmt.Sprintf("%s in %d of %d", text, len(hold), len(j.Jobs)), class
	case text != "":
		return text, class
	case slices.ContainsFunc(words, func(w verdict) bool { return w.vouches && j.Evaluated(w.rule) }):
		return "ok", ""
	}
	return "", ""
}

// Judged reports whether there were rules at all.
func (j *Job) Judged() bool { return len(j.Map)+len(j.Findings)+len(j.NotEvaluated) > 0 }

// Evaluated reports whether a rule was judged, and so whether silence about it means something.
func (j *Job) Evaluated(rule string) bool {
	if j.silent || j.Part || !j.Judged() {
		return false
	}
	return !slices.ContainsFunc(j.NotEvaluated, func(r rules.Reason) bool { return r.Rule == rule })
}

// AnyEvaluated reports whether a rule was judged at all.
func (j *Job) AnyEvaluated() bool {
	return len(j.Findings) > 0 || slices.ContainsFunc(j.Map, func(p Property) bool { return p.Why == "" })
}
