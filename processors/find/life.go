package find

import (
	"maps"
	"slices"
	"time"

	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
)

// watched is a life of a job.
type watched struct {
	key     schemas.JobKey
	watch   *rules.Watch // nil: it is asleep, or the job is over
	asleep  []byte       // its state, packed
	ended   bool
	job     []byte           // its record as the rules know it; empty: none
	told    *schemas.Job     // the record that job was made from
	types   *nodetypes.Types // by which watch knows the job's nodes
	over    bool             // the job is over by its record
	endMs   *int64           // nil: nobody knows it
	startMs *int64           // when it began, by its record
	asOf    int64            // the newest interval
	savedState

	changed    bool  // the rules may have findings due
	last       int64 // offset of its last summary
	saved      int64 // the last offset in its FindState, or before
	unsaved    int64 // the first offset that its FindState lacks, or none
	unsavedMs  int64 // log time of that
	savedSlots int64 // ten minutes of its life that its FindState has
	heard      int64 // last, as learn saw it
	heardMs    int64 // when learn saw that, by this host's clock
	toldMs     int64 // when learn took the job's record, by the same clock
}

// before is the offset below all others.
const before = -1

// meet begins to watch a job, with its record of topic jobs if there is one.
func (f *finder) meet(key schemas.JobKey) *watched {
	w := &watched{key: key, asOf: fold.Never, last: before, saved: before, unsaved: fold.None, heard: before}
	w.setJob(f.known(key))
	f.jobs[key] = w
	return w
}

// runs reports whether a job runs by topic jobs.
func (f *finder) runs(key schemas.JobKey) bool {
	j := f.known(key)
	return j != nil && j.State == schemas.StateRunning
}

// turn returns the job that a summary is for: the watched job, a job that had ended by mistake, or a namesake. A job is
// over once a namesake has summaries.
func (f *finder) turn(w *watched, intervalMs int64, fx *fold.Effects) *watched {
	j := f.known(w.key)
	switch {
	case w.endedBefore(j) && intervalMs < *j.Start: // it came late
		return w
	case w.endedBefore(j):
		if !w.ended {
			f.end(w, fx)
		}
		w = f.again(w, fx)
		w.Since = *j.Start
	case w.ended && f.runs(w.key):
		w = f.again(w, fx)
	}
	return w
}

// endedBefore reports whether a record of topic jobs belongs to a namesake: it began after all intervals of the job.
func (w *watched) endedBefore(j *schemas.Job) bool {
	return j != nil && j.Start != nil && w.asOf != fold.Never && *j.Start >= w.asOf+w.LengthMs
}

// again begins to watch a job anew. Its findings were final by mistake, or belong to a namesake. Its FindState is
// written with the summary in hand, so a replay does not ask topic jobs.
func (f *finder) again(w *watched, fx *fold.Effects) *watched {
	fx.Delete(f.forget(w)...)
	return f.meet(w.key)
}

// learns reports whether it is time to learn. A learn looks at all jobs that run, and polls come dozens of times a
// second.
func (f *finder) learns(now time.Time) bool {
	if now.Sub(f.learned) < processors.LearnEvery {
		return false
	}
	f.learned = now
	return true
}

// learn takes the news of topic jobs about the jobs that run, and the facts about their nodes, and ends the jobs that
// are over. through returns the interval up to which everything is folded, or never. A job whose summaries wait, or are
// not made yet, does not end by the clock.
func (f *finder) learn(nowMs int64, through func() int64) fold.Effects {
	var fx fold.Effects
	fx.Delete(f.leaving...) // before a new finding of the same key
	f.leaving = nil
	for _, w := range sorted(f.jobs, func(*watched) bool { return true }) {
		if len(fx.Outputs) >= manyStates { // the rest in the next transaction
			break
		}
		j := f.known(w.key)
		replaced := w.endedBefore(j) // then its own record stays, which perhaps nobody read to its end
		fresh := !replaced && w.setJob(j)
		if fresh || w.heard == before {
			w.toldMs = nowMs
		}
		if w.heard != w.last {
			w.heard, w.heardMs = w.last, nowMs
		}
		if types := f.types(); w.watch != nil && (fresh || w.types != types) {
			w.watch.Know(f.jobOf(w))
			w.types = types
		}
		atMs, closed := w.deadline(j, replaced)
		switch {
		case w.isComplete(), nowMs >= atMs && through() >= closed:
			f.end(w, &fx)
		case fresh:
			f.save(w, &fx)
		}
	}
	return fx
}

// deadline is when the clock ends a job, and the interval that must be closed by then. A job that runs has none. One
// that topic jobs does not have was never told to it, or was forgotten after its end. After an outage summaries come
// long after a job's end, and in several commits: while they come, or could, the end waits. A job that a namesake
// replaced is over.
func (w *watched) deadline(j *schemas.Job, replaced bool) (atMs, closed int64) {
	measured := w.asOf + w.LengthMs
	switch {
	case w.over && w.endMs != nil:
		return max(*w.endMs, w.heardMs) + endPatienceMs, *w.endMs
	case w.over, replaced:
		return max(measured, w.heardMs) + endPatienceMs, max(measured, w.toldMs)
	case j == nil:
		return max(measured+goneMs, w.heardMs+endPatienceMs), measured + goneMs
	}
	return fold.None, fold.None
}

// end writes the last findings of a job.
func (f *finder) end(w *watched, fx *fold.Effects) {
	f.found = f.wake(w).End(f.found[:0])
	f.write(w, fx)
	w.watch, w.job, w.told, w.changed, w.ended = nil, nil, nil, false, true
	delete(f.jobs, w.key)
	for _, rule := range slices.Sorted(maps.Keys(w.Rules)) { // of a rule that End does not know any more
		f.note(w, rule, writtenRule{Hash: w.Rules[rule].Hash})
	}
	f.save(w, fx)
	f.rest(w)
}

// isComplete reports whether a job is over, its last whole interval came, and none before that is missing. One that is
// may still come: another collector had the job before, or merge waits for a part.
func (w *watched) isComplete() bool {
	return w.over && w.endMs != nil && w.asOf+2*w.LengthMs > *w.endMs && w.Seen.isWhole()
}

// slot counts the ten minutes of a job's life. Each job has its own beginning of them, so that not all write at once.
func (w *watched) slot() int64 {
	phase := int64(0)
	for _, b := range w.key.Key() {
		phase = (phase*31 + int64(b)) % stateEveryMs
	}
	return (w.asOf + phase) / stateEveryMs
}

// ofAnotherLog deletes what the topics have of a job that ran: its findings would stay open for ever. A job that had
// ended stays so, and its final findings leave in time.
func (f *finder) ofAnotherLog(w *watched) {
	if !w.ended {
		f.leaving = append(f.leaving, f.forget(w)...)
		return
	}
	w.last, w.saved = before, before
}
