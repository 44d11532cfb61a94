package view

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"
)

// Use is the used share of a resource, with the word that rules give it.
type Use struct {
	Name        string
	Share       float64 // NaN: the size of the resource is not known
	Word, Class string  // Class: of the worst finding that the word is for
}

// verdict is the word for a rule that holds. A rule that only applies to some jobs or nodes does not vouch for the
// share.
type verdict struct {
	rule, word string
	vouches    bool
}

// OfPeak reports whether a report shows a metric as a share of a node's peak.
func OfPeak(metric string) bool { return metric == "flops_any" || metric == "mem_bw" }

// Uses returns the bars of a report: the measured resources, with a share if their size is known.
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

// BusyCores returns the share of cores with work; NaN if cpu_idle was not measured.
func (j *Job) BusyCores() float64 {
	if j.Several() {
		return j.busy
	}
	if m := j.measured("cpu_idle"); m != nil {
		return Busy(m.Total.Mean, j.Type)
	}
	return math.NaN()
}

// measured returns a metric with values, or nil.
func (j *Job) measured(name string) *Metric {
	if m := j.Find(name); m != nil && m.Total.Count > 0 {
		return m
	}
	return nil
}

// ofPeak returns the share of the peak of all cores or sockets of a node; NaN if unknown.
func (j *Job) ofPeak(m *Metric, peak float64) float64 {
	if !(peak > 0) {
		return math.NaN()
	}
	return m.Total.Mean * j.PerNode(m) / peak
}

// ofPeak replaces the word by "of peak" if it is among the words in less, which carry less information.
func (u *Use) ofPeak(less ...string) {
	if !math.IsNaN(u.Share) && slices.Contains(less, u.Word) {
		u.Word = "of peak"
	}
}

// word returns the word for the first rule that holds. If none holds, it is "ok" if a rule that vouches was evaluated,
// and otherwise empty. For several jobs it includes the number of jobs.
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
	case slices.ContainsFunc(words, func(w verdict) bool { return w.vouches && j.evaluated(w.rule) }):
		return "ok", ""
	}
	return "", ""
}

// judged reports whether there were rules at all.
func (j *Job) judged() bool { return len(j.Map)+len(j.Findings)+len(j.NotEvaluated) > 0 }

// evaluated reports whether a rule was judged, and so whether silence about it means something.
func (j *Job) evaluated(rule string) bool {
	if j.silent || j.Part || !j.judged() {
		return false
	}
	return !slices.ContainsFunc(j.NotEvaluated, func(r rules.Reason) bool { return r.Rule == rule })
}

// AnyEvaluated reports whether a rule was judged at all.
func (j *Job) AnyEvaluated() bool {
	return len(j.Findings) > 0 || slices.ContainsFunc(j.Map, func(p Property) bool { return p.Why == "" })
}
