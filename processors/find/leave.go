package find

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// sweep looks through all jobs: it saves jobs without summaries, and forgets jobs that ended long ago. Until a job
// is saved, hold stays behind it. A job leaves once no replay meets its summaries.
func (f *finder) sweep(fx *fold.Effects) {
	if f.nowMs-f.sweptMs < sweepEveryMs {
		return
	}
	f.sweptMs = f.nowMs
	waits := func(w *watched) bool { return w.unsaved != fold.None && f.nowMs-w.unsavedMs >= stateEveryMs }
	for _, w := range sorted(f.jobs, waits) {
		f.save(w, fx)
	}
	hold := f.unsaved()
	left := map[schemas.JobKey]*watched{}
	for key, p := range f.ended {
		kept := leaveIntervals*p.lengthMs + endPatienceMs
		if len(*p.rules) > 0 {
			kept = max(kept, f.keptMs)
		}
		if p.last < hold && f.nowMs-p.asOf > kept {
			left[key] = p.watched(key)
		}
	}
	for _, w := range sorted(left, func(*watched) bool { return true }) {
		fx.Delete(f.forget(w)...)
	}
}

// forget forgets a job, and returns the keys that the topics have of it.
func (f *finder) forget(w *watched) (all []fold.Tombstone) {
	for _, rule := range slices.Sorted(maps.Keys(w.Rules)) {
		f.note(w, rule, writtenRule{}) // it is not open any more
		finding := schemas.Finding{JobID: w.key.JobID, Restart: w.key.Restart, Rule: rule}
		all = append(all, fold.Tombstone{Topic: schemas.TopicFindings, Key: finding.Key()})
	}
	delete(f.jobs, w.key)
	delete(f.ended, w.key)
	return append(all, fold.Tombstone{Topic: schemas.TopicFindState, Key: w.key.Key()})
}

// sorted returns some jobs by key: outputs have one order.
func sorted(of map[schemas.JobKey]*watched, which func(w *watched) bool) []*watched {
	var some []*watched
	for _, w := range of {
		if which(w) {
			some = append(some, w)
		}
	}
	slices.SortFunc(some, func(a, b *watched) int {
		return cmp.Or(strings.Compare(a.key.JobID, b.key.JobID), cmp.Compare(a.key.Restart, b.key.Restart))
	})
	return some
}
