package rules

import (
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// markMs is how far marks are apart. At a mark findings open, close and are written again. What happens between two
// marks counts as a set, so that the order of intervals does not matter.
const markMs = 600_000

// Watch is the fold of one life of a job. It is for one goroutine.
type Watch struct {
	set      *Set
	job      Job
	variants int // 1: certain findings, 2: possible ones too
	over     bool

	states  []state
	life    life
	there   []bool // inputs that some interval had
	pending verdict
	waiting bool // pending holds the last interval

	came, counted   int64   // intervals
	firstMs, lastMs int64   // starts of the first that came, and of the last that counted
	lengthMs, mark  int64   // of the last that came; of the last that counted
	cores           float64 // as metrics tell
	nodes           int32   // as summaries tell

	due []dueFinding
}

// state is what a Watch knows of a rule.
type state struct {
	tallies [2]tally // certain, possible
	came    int64    // intervals that came since the guard after
	usable  int64    // of those, the complete ones with all metrics
	written written
}

// written is what the last record of a finding was, as far as it decides about the next.
type written struct {
	state     string // empty: there is no record
	class     string
	certainty string
}

type dueFinding struct {
	rule    int
	as      written
	finding schemas.Finding
}

// NewWatch returns the fold of a life of a job that has no interval yet.
func (s *Set) NewWatch(j Job, possible bool) *Watch {
	w := &Watch{
		set: s, job: j, variants: 1, states: make([]state, len(s.Rules)), there: make([]bool, len(s.layout.inputs)),
		pending: s.newVerdict(),
	}
	if possible {
		w.variants = 2
	}
	w.life = life{layout: &s.layout, wholes: make([]whole, len(s.layout.wholes))}
	return w
}

// Know tells what the scheduler knows now.
func (w *Watch) Know(j Job) { w.job = j }

// Add folds an interval. They may come out of order. It reports whether Due has something.
func (w *Watch) Add(iv *Interval) (changed bool) {
	if w.over || iv.LengthMs <= 0 {
		return len(w.due) > 0
	}
	if w.came == 0 {
		w.firstMs = iv.StartMs
	}
	w.came++
	w.firstMs, w.lengthMs = min(w.firstMs, iv.StartMs), iv.LengthMs
	w.cores, w.nodes = max(w.cores, iv.cores()), max(w.nodes, iv.Expected)
	f := w.frame()
	w.facts(f, iv.StartMs+iv.LengthMs)
	f.judgeAll(w.set, iv, w.variants == 2)
	for i, there := range f.there {
		w.there[i] = w.there[i] || there
	}
	count := true
	switch {
	case !w.set.Guards.Last:
	case !w.waiting:
		w.pending, f.verdict, w.waiting, count = f.verdict, w.pending, true, false
	case iv.StartMs > w.pending.startMs: // the one before it is not the last
		w.pending, f.verdict = f.verdict, w.pending
	}
	if count {
		w.count(&f.verdict)
	}
	w.set.frames.Put(f)
	return len(w.due) > 0
}

func (w *Watch) frame() *frame {
	f, is := w.set.frames.Get().(*frame)
	if !is {
		f = w.set.newFrame()
	}
	f.life, f.variant = &w.life, 0
	return f
}

// startMs is when the job began, as far as anybody knows.
func (w *Watch) startMs() int64 {
	if w.job.StartMs > 0 {
		return w.job.StartMs
	}
	return w.firstMs
}

// facts fills in what is known of the job at a time.
func (w *Watch) facts(f *frame, nowMs int64) {
	nodes, cores := float64(len(w.job.Nodes)), known(w.job.Cores, 1)
	if nodes == 0 {
		nodes = known(float64(w.nodes), 1)
	}
	if w.job.Cores < 1 {
		cores = known(w.cores, 1)
	}
	f.facts(&w.job, nodes, cores, nowMs-w.startMs())
}

// count folds the verdict of an interval. An interval beyond a mark settles what came before it.
func (w *Watch) count(v *verdict) {
	mark := floorDiv(v.startMs, markMs)
	if w.counted > 0 && mark > w.mark {
		w.settle(false)
	}
	if w.counted == 0 {
		w.mark, w.lastMs, w.life.fromMs, w.life.toMs = mark, v.startMs, v.startMs, v.startMs+v.lengthMs
	}
	w.counted++
	w.mark, w.lastMs = max(w.mark, mark), max(w.lastMs, v.startMs)
	w.life.fromMs, w.life.toMs = min(w.life.fromMs, v.startMs), max(w.life.toMs, v.startMs+v.lengthMs)
	if g := &w.set.Guards; v.startMs >= w.startMs()+g.AfterMs && v.complete(g) {
		for i := range w.life.wholes {
			w.life.wholes[i].add(v.wholes[i*wholeNumbers:][:wholeNumbers])
		}
		for variant := range w.variants {
			w.life.bins[variant].add(v.startMs, v.lengthMs, v.cells[variant])
		}
	}
	first := false
	for i := range w.set.Rules {
		w.tally(i, v)
		first = w.guard(i) || first
	}
	if first {
		w.refresh(false, false)
	}
}

// complete reports whether enough nodes reported.
func (v *verdict) complete(g *Guards) bool {
	return v.expected > 0 && float64(v.reported) >= g.Complete*float64(v.expected)
}

// tally counts an interval for a rule.
func (w *Watch) tally(i int, v *verdict) {
	r, st := &w.set.Rules[i], &w.states[i]
	if v.startMs < w.startMs()+r.guards.AfterMs {
		return
	}
	if st.came++; !v.complete(&r.guards) {
		return
	}
	if r.Job {
		if v.slots[0][r.slot] == 1 {
			st.usable++
		}
		return
	}
	for variant := range w.variants {
		n := v.slots[variant][r.slot:][:verdictHead+len(r.evidence)]
		t := &st.tallies[variant]
		switch n[verdictResult] {
		case 1:
			t.evaluate(v.startMs, true, n[verdictSeverity], n[verdictValue], n[verdictHead:])
			if r.nodes >= 0 {
				t.at(v.nodes[r.nodes])
			}
		case 0:
			t.evaluate(v.startMs, false, 0, 0, nil)
		default:
			t.badSeverity = t.badSeverity || n[verdictSeverity] != n[verdictSeverity]
		}
	}
}

// ready is how many intervals a tally rests on.
func (st *state) ready(r *Rule, variant int) int64 {
	if r.Job {
		return st.usable
	}
	return st.tallies[variant].evaluated
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
	case !guarded || r.waits && !final || t.judged == w.counted: // as it was
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
		if applies {
			t.evaluate(w.lastMs, result == 1, severity, value, f.shown(r, result == 1))
		}
		t.mark(applies, result == 1)
	}
}

// shown returns the numbers of the evidence.
func (f *frame) shown(r *Rule, matched bool) (all []float64) {
	for i := range r.evidence {
		if matched {
			all = append(all, r.evidence[i].of(f))
		}
	}
	return all
}

// nowMs is until when the job is known.
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

// End appends the final findings. The Watch is over.
func (w *Watch) End(out []schemas.Finding) []schemas.Finding {
	if w.over {
		return out
	}
	if w.waiting && w.job.EndMs > 0 && w.pending.startMs+w.pending.lengthMs <= w.job.EndMs {
		w.count(&w.pending) // it was a whole one
	}
	w.waiting, w.over = false, true
	w.settle(true)
	return w.Due(out)
}

// refresh makes the findings that are to be written: at a mark those that are open, and always those that changed.
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

// last is the last record of a rule, also one that nobody has taken yet.
func (w *Watch) last(i int) written {
	for k := range w.due {
		if w.due[k].rule == i {
			return w.due[k].as
		}
	}
	return w.states[i].written
}

// now is what a record of a rule would tell. Certain wins over possible.
func (w *Watch) now(i int, final bool) written {
	st := &w.states[i]
	for variant, certainty := range []string{schemas.Certain, schemas.Possible} {
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

// shadowed reports whether an open finding silences a rule. What is merely possible silences nothing that is certain.
func (w *Watch) shadowed(i, variant int) bool {
	return slices.ContainsFunc(w.set.Rules[i].shadows, func(k int) bool {
		t := &w.states[k].tallies
		return t[0].open || variant == 1 && t[1].open
	})
}
