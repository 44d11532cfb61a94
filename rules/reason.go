package rules

import (
	"fmt"
	"math"
)

// Reasons that need no numbers.
const (
	whyWhole      = "it is judged over the whole life of the job"
	whyEnd        = "it waits for the end of the job"
	whyEarly      = "the job had just begun"
	whyIncomplete = "nodes are missing in the interval"
	whyCondition  = "its condition is not known"
	whySeverity   = "its severity is not a number"
)

// whys are the texts of a rule's reasons, made once.
type whys struct {
	requires string
	missing  []string // by need
}

func (r *Rule) reasons() whys {
	y := whys{requires: "it requires " + r.Require}
	for _, name := range r.Needs {
		y.missing = append(y.missing, "no metric "+name)
	}
	return y
}

// nodesKnown counts the nodes with a metric, and the nodes that reported. It serves reasons only, and no state keeps
// it.
type nodesKnown struct{ nodes, of int }

func (k nodesKnown) why(metric string) string {
	return fmt.Sprintf("metric %s is known on %d of %d nodes", metric, k.nodes, k.of)
}

// unread returns the reason that a fact about the job or the node is unknown, or an empty text.
func (f *frame) unread(r *Rule) string {
	for i := range r.reads {
		if math.IsNaN(r.reads[i].of(f)) {
			return r.reads[i].why
		}
	}
	return ""
}

// inapplicable returns the reason that a rule does not apply to the job, or an empty text.
func (f *frame) inapplicable(r *Rule) string {
	switch r.require(f) {
	case 0:
		return r.why.requires
	case 1:
		return ""
	}
	return f.unread(r)
}

// Severities appends the severity of an interval by each rule, in the order of the rules. It does not change the fold.
func (w *Watch) Severities(iv *Interval, out []Severity) []Severity {
	f := w.frame()
	cores, nodes, first := w.cores, w.nodes, w.firstMs
	w.cores, w.nodes = max(w.cores, iv.cores()), max(w.nodes, iv.Expected)
	if w.came == 0 {
		w.firstMs = iv.StartMs
	}
	w.facts(f, iv.StartMs+iv.LengthMs)
	f.load(&w.set.layout, iv)
	if w.variants == 2 {
		f.believe()
	}
	for i := range w.set.Rules {
		out = append(out, w.severity(f, i, iv))
	}
	w.cores, w.nodes, w.firstMs = cores, nodes, first
	w.set.frames.Put(f)
	return out
}

func (w *Watch) severity(f *frame, i int, iv *Interval) Severity {
	r := &w.set.Rules[i]
	s := Severity{Rule: i}
	v := verdict{expected: iv.Expected, reported: iv.Reported}
	missing := f.missing(r)
	switch {
	case r.Job:
		s.Why = whyWhole
	case f.inapplicable(r) != "":
		s.Why = f.inapplicable(r)
	case missing >= 0 && f.there[r.needs[missing]]:
		s.Why = f.known(r.needs[missing]).why(r.Needs[missing])
	case missing >= 0:
		s.Why = r.why.missing[missing]
	case iv.StartMs < w.startMs()+r.guards.AfterMs:
		s.Why = whyEarly
	case !v.complete(&r.guards):
		s.Why = whyIncomplete
	}
	if s.Why != "" {
		return s
	}
	result, severity, _ := f.apply(r)
	switch {
	case !math.IsNaN(result):
		s.Evaluated, s.Value = true, severity
	case math.IsNaN(severity):
		s.Why = whySeverity
	default:
		s.Why = f.notKnown(r)
	}
	return s
}

// notKnown returns the reason that a condition is neither true nor false.
func (f *frame) notKnown(r *Rule) string {
	if why := f.unread(r); why != "" {
		return why
	}
	if r.unknown != "" {
		return r.unknown
	}
	return whyCondition
}

// NotEvaluated returns the rules that were not evaluated, with the reasons.
func (w *Watch) NotEvaluated() (all []Reason) {
	f := w.frame()
	defer w.set.frames.Put(f)
	w.facts(f, w.nowMs(w.over))
	for i := range w.set.Rules {
		if why := w.why(f, i); why != "" {
			all = append(all, Reason{w.set.Rules[i].ID, why})
		}
	}
	return all
}

// why returns the reason that a rule was not evaluated, or an empty text.
func (w *Watch) why(f *frame, i int) string {
	r, st := &w.set.Rules[i], &w.states[i]
	variant := w.variants - 1
	t, n := &st.tallies[variant], st.ready(r, variant)
	if r.waits && !w.over && r.Job {
		return whyEnd
	}
	if why := f.inapplicable(r); why != "" {
		return why
	}
	for k, input := range r.needs {
		if !w.there[input] {
			return r.why.missing[k]
		}
	}
	if w.guarded(i, variant) && t.evaluated > 0 {
		return ""
	}
	if why := f.unread(r); why != "" {
		return why
	}
	for k, input := range r.needs {
		if w.few[input].of > 0 && float64(n) < r.guards.Seen*float64(st.came) {
			return w.few[input].why(r.Needs[k])
		}
	}
	switch ranMs := w.life.toMs - w.startMs(); {
	case t.evaluated == 0 && st.came > 0 && t.badSeverity:
		return whySeverity
	case n < r.guards.Intervals && float64(n) >= r.guards.Seen*float64(st.came):
		return fmt.Sprintf("guard: %d of %d intervals", n, r.guards.Intervals)
	case n == 0 && !r.Job:
		return f.notKnown(r)
	case float64(n) < r.guards.Seen*float64(st.came):
		return fmt.Sprintf("guard: %d of %d intervals are known, %.0f %% must be", n, st.came, 100*r.guards.Seen)
	case ranMs < r.guards.DurationMs:
		return fmt.Sprintf("guard: %d of %d s", max(0, ranMs)/1000, r.guards.DurationMs/1000)
	}
	return f.notKnown(r)
}
