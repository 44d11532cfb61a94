package rules

// Watch is the fold of one life of a job. It is for one goroutine.
type Watch struct {
	set      *Set
	job      Job
	variants int // 1: certain findings, 2: possible ones too
	over     bool

	states  []state
	life    life
	there   []bool // inputs that appeared in any interval
	few     []nodesKnown
	pending verdict
	waiting bool // pending holds the last interval

	came, counted   int64   // intervals
	firstMs, lastMs int64   // starts of the first that came, and of the last that counted
	lengthMs, mark  int64   // of the last that came; of the last that counted
	cores           float64 // largest number seen in metrics
	nodes           int32   // largest number seen in summaries

	due []dueFinding
}

// state is the state of a rule in a Watch.
type state struct {
	tallies [2]tally // certain, possible
	came    int64    // intervals that came after the guard AfterMs
	usable  int64    // the complete ones with all metrics among them
	written written
}

// NewWatch returns the fold of a life of a job, before its first interval.
func (s *Set) NewWatch(j Job, possible bool) *Watch {
	w := &Watch{
		set: s, job: j, variants: 1, states: make([]state, len(s.Rules)), pending: s.newVerdict(),
		there: make([]bool, len(s.layout.inputs)), few: make([]nodesKnown, len(s.layout.inputs)),
	}
	if possible {
		w.variants = 2
	}
	w.life = life{layout: &s.layout, wholes: make([]whole, len(s.layout.wholes))}
	return w
}

// Know updates the facts about the job.
func (w *Watch) Know(j Job) { w.job = j }

// Add folds an interval. Intervals may come out of order. It reports whether Due has findings.
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
		if there && f.few(i, 1) {
			w.few[i] = f.known(i)
		}
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

// startMs returns the start of the job: the scheduler's, otherwise the first interval.
func (w *Watch) startMs() int64 {
	if w.job.StartMs > 0 {
		return w.job.StartMs
	}
	return w.firstMs
}

// facts fills in the facts about the job at a time.
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

// count folds the verdict of an interval. The first interval beyond a mark settles the intervals before it.
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

// ready returns the number of intervals on which a tally rests.
func (st *state) ready(r *Rule, variant int) int64 {
	if r.Job {
		return st.usable
	}
	return st.tallies[variant].evaluated
}
