package totals

import (
	"fmt"
	"iter"
	"slices"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"
)

// jobRow has the columns of a total that identify the job, and decide whether the total can be copied.
type jobRow struct {
	JobID   string `parquet:"job_id,dict"`
	Restart int32  `parquet:"restart"`
	Start   int64  `parquet:"start,timestamp(millisecond)"`
	End     int64  `parquet:"end,timestamp(millisecond)"`
	Final   bool   `parquet:"final"`
}

// unchanged returns the jobs with totals that can be copied from the existing file. They were final, they began on the
// same date, and they have no namesakes. No newer file contains rows of them. On a date that goes on, these are nearly
// all jobs.
func (m *maker) unchanged(there *recipe, p plan, path string) (map[schemas.JobKey]bool, error) {
	if there == nil || there.topic != p.recipe.topic {
		return nil, nil
	}
	changed := map[schemas.JobKey]bool{}
	for i := range p.inputs {
		in := &p.inputs[i]
		files, ok := in.Since(there.lineage(in.Date), there.next[in.Date])
		if !ok {
			return nil, nil
		}
		for _, f := range files {
			err := read(f.Path, nil, func(r *recentRow) error {
				changed[schemas.JobKey{JobID: r.JobID, Restart: r.Restart}] = true
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("reading jobs of %s: %w", f.Path, err)
			}
		}
	}
	began, ended, interim := map[schemas.JobKey]int64{}, map[schemas.JobKey]int64{}, map[schemas.JobKey]bool{}
	err := read(path, nil, func(r *jobRow) error {
		k := schemas.JobKey{JobID: r.JobID, Restart: r.Restart}
		if at, is := began[k]; !is || r.Start < at {
			began[k] = r.Start
		}
		ended[k] = max(ended[k], r.End)
		interim[k] = interim[k] || !r.Final
		return nil
	})
	if err != nil {
		return nil, damaged(path, err)
	}
	same := map[schemas.JobKey]bool{}
	for _, j := range p.jobs {
		at, is := began[j.JobKey]
		if is && j.final && !interim[j.JobKey] && !changed[j.JobKey] && dateOf(at) == dateOf(*j.StartMs) &&
			j.from <= at && ended[j.JobKey] <= j.to && len(m.namesakes[j.JobKey]) == 0 {
			same[j.JobKey] = true
		}
	}
	return same, nil
}

// without returns the inputs without the given jobs.
func without(inputs []compact.Inputs, jobs map[schemas.JobKey]bool) (rest []compact.Inputs) {
	for _, in := range inputs {
		in.Jobs = slices.DeleteFunc(slices.Clone(in.Jobs), func(k schemas.JobKey) bool { return jobs[k] })
		if len(in.Jobs) > 0 {
			rest = append(rest, in)
		}
	}
	return rest
}

// copier adds totals of an old file to a new one, in order between the new totals.
type copier struct {
	path string
	add  func(*Total) error
	next func() (*Total, error, bool)
	stop func()
	old  *Total // the next one; nil behind the last
}

// newCopier copies the totals of some jobs. The caller calls stop.
func newCopier(path string, of map[schemas.JobKey]bool, add func(*Total) error) (*copier, error) {
	c := &copier{path: path, add: add}
	c.next, c.stop = iter.Pull2(func(yield func(*Total, error) bool) {
		if len(of) == 0 {
			return
		}
		for t, err := range rowsOf(path) {
			if err == nil && !of[schemas.JobKey{JobID: t.JobID, Restart: t.Restart}] {
				continue
			}
			if !yield(t, err) {
				return
			}
		}
	})
	return c, c.step()
}

func (c *copier) step() (err error) {
	if c.old, err, _ = c.next(); err != nil {
		return damaged(c.path, err)
	}
	return nil
}

// before adds the old totals that come before a new one; all that are left if that is nil.
func (c *copier) before(t *Total) error {
	for c.old != nil && (t == nil || compareTotals(*c.old, *t) < 0) {
		if err := c.add(c.old); err != nil {
			return err
		}
		if err := c.step(); err != nil {
			return err
		}
	}
	return nil
}
