package rules

import (
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// markMs is the distance between marks. At a mark findings open and close, and open ones are written again. Between two
// marks the order of intervals has no effect.
const markMs = 600_000

// written is the last record of a finding, as far as the next record depends on it.
type written struct {
	state     string // empty: no record
	class     string
	certainty string
}

type dueFinding struct {
	rule    int
	as      written
	finding schemas.Finding
}

// guarded reports whether the guards let a rule count.
func (w *Watch) guarded(i, variant int) bool {
	r, st := &w.set.Rules[i], &w.states[i]
	n := st.ready(r, variant)
	return w.life.toMs-w.startMs() >= r.guards.DurationMs && n >= r.guards.Intervals &&
		float64(n) >= r.guards.Seen*float64(st.came)
}

// guard settles a rule when its guards hold for the first time. It reports whether it did.
func (w *Watch) guard(i int) (first bool) {
	for variant := range w.variants {
		if t := &w.states[i].tallies[variant]; !t.guarded && w.guarded(i, variant) {
			t.guarded, first = true, true
			w.settleRule(i, variant, false)
		}
	}
	return first
}

// settle opens and closes findings.
func (w *Watch) settle(final bool) {
	for i := range w.set.Rules {
		for variant := range w.variants {
			w.settleRule(i, variant, final)
		}
	}
	w.refresh(true, final)
}

// settleRule opens or closes the finding of one rule.
func (w *Watch) settleRule(i, variant int, final bool) {
	r, st := &w.set.Rules[i], &w.states[i]
	t := &st.tallies[variant]
	f := w.frame()
	defer w.set.frames.Put(f)
	f.variant = variant
	w.facts(f, w.nowMs(final))
	applies := r.require(f) == 1
	switch guarded := w.guarded(i, variant); {
	case !r.Job:
		t.settle(r, applies, guarded)
	case !guarded || r.waits && !final || t.judged == w.counted && !final: // as it was
	default:
		t.judged = w.counted
		result, severity, value := 0.0, 0.0, 0.0
		if applies {
			result, severity, value = f.apply(r)
		}
		if result != result {
			t.badSeverity = t.badSeverity || severity != severity
			return
		}
		if result == 1 { // each mark judges the whole life so far: its numbers replace the previous ones
			t.value, t.evidence = exact{}, t.evidence[:0]
		}
		if applies {
			t.evaluate(w.lastMs, result == 1, severity, value, f.shown(r, result == 1))
		}
		t.mark(applies, result == 1, final)
	}
}

// shown returns the numbers of the evidence for a match.
func (f *frame) shown(r *Rule, matched bool) (all []float64) {
	for i := range r.evidence {
		if matched {
			all = append(all, r.evidence[i].of(f))
		}
	}
	return all
}

// nowMs returns the time up to which the job is known.
func (w *Watch) nowMs(final bool) int64 {
	if final && w.job.EndMs > 0 {
		return w.job.EndMs
	}
	return w.life.toMs
}

// Due appends the findings that opened, closed, changed class, or are written again at a mark.
func (w *Watch) Due(out []schemas.Finding) []schemas.Finding {
	for i := range w.due {
		d := &w.due[i]
		w.states[d.rule].written = d.as
		out = append(out, d.finding)
	}
	w.due = w.due[:0]
	return out
}

// End appends the final findings. The Watch accepts no more intervals.
func (w *Watch) End(out []schemas.Finding) []schemas.Finding {
	if w.over {
		return out
	}
	switch {
	case w.waiting && w.job.EndMs > 0 && w.pending.startMs+w.pending.lengthMs <= w.job.EndMs:
		w.count(&w.pending) // after the end, the last interval is known to be whole
	case w.waiting:
		w.life.peaks(w.pending.wholes)
	}
	w.waiting, w.over = false, true
	w.settle(true)
	return w.Due(out)
}

// refresh makes the findings to be written: all changed ones, and at a mark all open ones.
func (w *Watch) refresh(mark, final bool) {
	for i := range w.set.Rules {
		now, was := w.now(i, final), w.last(i)
		if now.state == "" || now == was && !final && (!mark || now.state == schemas.FindingClosed) {
			continue
		}
		w.due = slices.DeleteFunc(w.due, func(d dueFinding) bool { return d.rule == i })
		w.due = append(w.due, dueFinding{i, now, w.finding(i, now, final)})
	}
}

// last returns the last record of a rule, even if the caller of Due has not fetched it yet.
func (w *Watch) last(i int) written {
	for k := range w.due {
		if w.due[k].rule == i {
			return w.due[k].as
		}
	}
	return w.states[i].written
}

// now returns the record that a rule should have now. Certain takes precedence over possible.
func (w *Watch) now(i int, final bool) written {
	st := &w.states[i]
	for variant, certainty := range []string{schemas.Certain, schemas.Possible}[:w.variants] {
		if t := &st.tallies[variant]; t.open && !w.shadowed(i, variant) {
			return written{schemas.FindingOpen, t.class(), certainty}
		}
	}
	was := w.last(i)
	if was.state == schemas.FindingOpen || was.state != "" && final {
		return written{schemas.FindingClosed, st.tallies[variantOf(was.certainty)].class(), was.certainty}
	}
	return was
}

func variantOf(certainty string) int {
	if certainty == schemas.Possible {
		return 1
	}
	return 0
}

// shadowed reports whether the open finding of another rule silences a rule. Possible findings do not silence certain
// ones.
func (w *Watch) shadowed(i, variant int) bool {
	return slices.ContainsFunc(w.set.Rules[i].shadows, func(k int) bool {
		t := &w.states[k].tallies
		return t[0].open || variant == 1 && t[1].open
	})
}
