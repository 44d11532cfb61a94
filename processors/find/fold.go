package find

import (
	"fmt"
	"iter"
	"time"

	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
)

// finder folds one partition of job-summary: it watches every job by the rules.
//
// It learns one thing beside its log: the records of topic jobs. All it knows of a job is in the job's FindState. A
// FindState is committed with whatever follows from news, so a replay decides alike.
//
// A job lives for days. Its FindState spares a successor its life. The successor reads all FindStates, and folds from
// hold, the first summary of any job that its FindState lacks. A FindState is written when a job is met, with every
// Finding, with news of the job, and every ten minutes.
//
// Each summary meets exactly one fate:
//
//	rejected    it cannot be decoded, is of another cluster or from the future
//	late        its job is over, or a namesake had its id then
//	duplicate   a summary of the job and interval came before
//	summarized  its job's rules have it; the pseudo-jobs have no rules
type finder struct {
	fold.Ledger
	cluster  string
	set      *rules.Set
	types    func() *nodetypes.Types // as they are known now
	possible bool
	known    func(schemas.JobKey) *schemas.Job // of topic jobs, as far as it was read; nil: it does not have the job

	jobs      map[schemas.JobKey]*watched // that run
	ended     map[schemas.JobKey]past
	ruleSets  map[string]*[]string // of past
	awake     []*watched           // jobs with a Watch, and some that ended; the first to wake is first
	mostAwake int
	keptMs    int64 // how long findings of an ended job stay on their topic
	packing   packing
	leaving   []fold.Tombstone // records that no longer hold, to be deleted with the next entry
	open      map[string]int   // open findings by class
	nowMs     int64            // log time: the end of the newest interval, or never
	sweptMs   int64            // when jobs were last looked through
	interval  rules.Interval   // of the summary in hand
	found     []schemas.Finding
	faults    int // states that could not be read
	fault     error
	learned   time.Time // the last time of learns
	horizon   horizon
}

const (
	// manyStates is ManyOutputs of find. A FindState is large.
	manyStates = processors.ManyOutputs / 10
	// stateEveryMs is how much of a job's life a successor reads again at most.
	stateEveryMs = 600_000
	// sweepEveryMs is how often jobs without summaries are looked through.
	sweepEveryMs = 60_000
	// endPatienceMs is how long after a job's end, and after the summary before, its next ones may come.
	endPatienceMs = 120_000
	// aheadMs is how much the clock of whoever commits may be behind. Collect compared records with the brokers' clock.
	aheadMs = goneMs
	// goneMs is how long a job may be silent after topic jobs forgot it.
	goneMs = 24 * 3600_000
	// leaveIntervals is how long a job is remembered after its end, so that its summaries are late.
	leaveIntervals = 64
)

// newFinder continues from p and the states that were committed with it. It keeps none of the states. Together with
// the jobs that it makes of them they would take twice the memory.
func newFinder(
	cluster string, set *rules.Set, types func() *nodetypes.Types, possible bool,
	known func(schemas.JobKey) *schemas.Job, p *schemas.Progress, states iter.Seq[*schemas.FindState],
) (*finder, error) {
	f := &finder{
		Ledger: fold.NewLedger(p), cluster: cluster, set: set, types: types, possible: possible, known: known,
		jobs: map[schemas.JobKey]*watched{}, ended: map[schemas.JobKey]past{}, ruleSets: map[string]*[]string{},
		open: map[string]int{}, mostAwake: mostAwake, nowMs: fold.Never, horizon: newHorizon(),
	}
	for s := range states {
		w, err := f.restore(s)
		if err != nil {
			return nil, fmt.Errorf("state of job %s at offset %d: %w", s.Identity(), s.Offset, err)
		}
		if !w.ended {
			f.jobs[w.key] = w
		}
		if p == nil || s.Offset >= p.Position {
			f.ofAnotherLog(w)
		}
		if w.ended {
			f.rest(w)
		}
	}
	return f, nil
}

// Progress implements Fold.
func (f *finder) Progress(position int64) *schemas.Progress {
	f.Begun = f.unsaved()
	return f.Ledger.Progress(position)
}

// unsaved returns the first offset of any job that its FindState lacks, or none.
func (f *finder) unsaved() int64 {
	first := int64(fold.None)
	for _, w := range f.jobs {
		first = min(first, w.unsaved)
	}
	return first
}

// Abandon implements Fold. Summaries that retention took before a replay have been counted. Their jobs lack intervals,
// which findings show.
func (f *finder) Abandon() {}

// Apply folds the next entry of the log.
func (f *finder) Apply(e fold.Entry) fold.Effects {
	r, err := f.Decode(e)
	if err != nil {
		return f.Refuse(e, err.Error())
	}
	s, is := r.(*schemas.JobSummary)
	switch {
	case !is:
		return f.Refuse(e, fmt.Sprintf("a %T does not belong here", r))
	case s.Cluster != f.cluster:
		return f.Refuse(e, "of cluster "+s.Cluster)
	case s.IntervalStart+s.IntervalMs > e.AppendedMs+aheadMs:
		return f.Refuse(e, "from the future")
	}
	// Append times are of the clock of whoever committed. One that is ahead must not make findings old.
	f.nowMs = max(f.nowMs, min(e.AppendedMs, s.IntervalStart+s.IntervalMs))
	fx := fold.Effects{}
	if !f.replays(e.Offset) {
		fx.Delete(f.leaving...)
		f.leaving = nil
	}
	if s.JobID == schemas.JobSystem || s.JobID == schemas.JobRest {
		fx.Counts.Summarized = 1
	} else {
		f.add(e, s, &fx)
	}
	if !f.replays(e.Offset) {
		f.sweep(&fx)
	}
	return fx
}

// replays reports whether the effects of an entry are committed.
func (f *finder) replays(offset int64) bool { return offset < f.Resumed }

// add gives a summary to the rules of its job. In a replay nothing is due: a predecessor wrote a FindState with all
// that was. Findings that a changed configuration makes due are written after the replay.
func (f *finder) add(e fold.Entry, s *schemas.JobSummary, fx *fold.Effects) {
	key := schemas.JobKey{JobID: s.JobID, Restart: s.Restart}
	w := f.jobs[key]
	if p, over := f.ended[key]; w == nil && over {
		w = p.watched(key)
	}
	if w == nil {
		w = f.meet(key)
	} else if !f.replays(e.Offset) {
		w = f.turn(w, s.IntervalStart, fx)
	}
	if e.Offset <= w.saved {
		return
	}
	w.last = e.Offset
	switch {
	case w.ended, s.IntervalStart < w.Since:
		fx.Counts.Late = 1
		if w.ended {
			f.rest(w)
		}
		return
	case !w.Seen.add(s.IntervalStart, s.IntervalMs):
		fx.Counts.Duplicate = 1
		return
	}
	fx.Counts.Summarized = 1
	if w.unsaved == fold.None {
		w.unsaved, w.unsavedMs = e.Offset, f.nowMs
	}
	w.asOf, w.LengthMs = max(w.asOf, s.IntervalStart), s.IntervalMs
	rules.FromSummary(s, f.possible, &f.interval)
	w.changed = f.wake(w).Add(&f.interval) || w.changed
	if f.replays(e.Offset) {
		return
	}
	reported := f.report(w, fx)
	switch {
	case w.isComplete():
		f.end(w, fx)
	case reported, w.saved == before, w.slot() > w.savedSlots:
		f.save(w, fx)
	}
}

// report adds the findings that are due.
func (f *finder) report(w *watched, fx *fold.Effects) bool {
	if !w.changed {
		return false
	}
	w.changed = false
	f.found = w.watch.Due(f.found[:0])
	f.write(w, fx)
	return len(f.found) > 0
}

// write adds the findings in hand.
func (f *finder) write(w *watched, fx *fold.Effects) {
	for i := range f.found {
		one := f.found[i]
		one.JobStart = w.startMs
		f.note(w, one.Rule, writtenRule{one.RuleHash, openClass(&one)})
		fx.Outputs = append(fx.Outputs, &one)
		fx.Counts.Outputs++
	}
}

// openClass returns the class of an open finding; empty: it is not open.
func openClass(f *schemas.Finding) string {
	if f.State != schemas.FindingOpen || f.Final {
		return ""
	}
	return f.Class
}

// note remembers the last record of a finding, and counts it where it is open.
func (f *finder) note(w *watched, rule string, now writtenRule) {
	if old := w.Rules[rule].Class; old != "" {
		f.open[old]--
	}
	if now.Class != "" {
		f.open[now.Class]++
	}
	if w.Rules == nil {
		w.Rules = map[string]writtenRule{}
	}
	w.Rules[rule] = now
}
