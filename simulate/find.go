package simulate

import (
	"fmt"

	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"
)

// finder evaluates rules over the summaries of a machine, interval by interval, as find does on a topic.
type finder struct {
	machine  *machine
	set      *rules.Set
	types    *nodetypes.Types
	jobs     map[schemas.JobKey]*job
	watches  map[schemas.JobKey]*rules.Watch
	interval rules.Interval
	due      []schemas.Finding // of the last summary
	final    []schemas.Finding // of the jobs that have ended
}

func newFinder(m *machine, set *rules.Set) (*finder, error) {
	known, err := nodetypes.New(m.types())
	if err != nil {
		return nil, fmt.Errorf("the made-up machine's types: %w", err)
	}
	f := &finder{
		machine: m, set: set, types: known, jobs: map[schemas.JobKey]*job{}, watches: map[schemas.JobKey]*rules.Watch{},
	}
	for i := range m.jobs {
		f.jobs[m.jobs[i].Identity()] = &m.jobs[i]
	}
	return f, nil
}

// add folds a summary, and leaves the findings that are due in f.due. The summary of a job's last whole interval ends
// the job.
func (f *finder) add(s *schemas.JobSummary) {
	f.due = f.due[:0]
	key := schemas.JobKey{JobID: s.JobID, Restart: s.Restart}
	j := f.jobs[key]
	if j == nil {
		return // a pseudo-job
	}
	w := f.watches[key]
	if w == nil {
		w = f.set.NewWatch(rules.JobOf(f.machine.cluster, j.at(s.IntervalStart), f.types), false)
		f.watches[key] = w
	}
	rules.FromSummary(s, false, &f.interval)
	if w.Add(&f.interval) {
		f.due = w.Due(f.due)
	}
	if end := *j.End; s.IntervalStart+2*s.IntervalMs > end {
		w.Know(rules.JobOf(f.machine.cluster, j.at(end), f.types))
		n := len(f.due)
		f.due = w.End(f.due)
		f.final = append(f.final, f.due[n:]...)
		delete(f.watches, key)
	}
}
