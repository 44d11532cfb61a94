package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// timed gives the jobs of one source the times of another.
type timed struct{ jobs, times Source }

// Timed returns the jobs of one source with the starts and ends that another knows to the millisecond. A job that only
// the other knows is left out: the first will list it soon, and knows more about it. Prolog and epilog of two jobs may
// run in any order. If two jobs follow each other on a CPU by the first source, the earlier ends when the later starts.
// If the first source does not know a job's GPUs or cgroup, Timed takes them from the other.
func Timed(jobs, times Source) Source { return timed{jobs, times} }

// Jobs keeps the first source's list, with the second's times if it has them. A pair of times that runs backwards is
// ignored: each source has a clock of its own.
func (t timed) Jobs(now time.Time) ([]Job, []Fault) {
	listed, faults := t.jobs.Jobs(now)
	exact, more := t.times.Jobs(now)
	by := make(map[schemas.JobKey]*Job, len(exact))
	for i := range exact {
		by[exact[i].Identity()] = &exact[i]
	}
	jobs := slices.Clone(listed)
	for i := range jobs {
		j := &jobs[i]
		e := by[j.Identity()]
		if e == nil {
			continue
		}
		start, end := j.Start, j.End
		if e.Start != nil {
			start = e.Start
		}
		if e.End != nil {
			end = e.End
		}
		if start == nil || end == nil || *start <= *end {
			j.Start, j.End = start, end
		}
		j.Cgroup = cmp.Or(j.Cgroup, e.Cgroup)
		if len(j.GPUs) == 0 {
			j.GPUs = e.GPUs
		}
	}
	for i := range more { // the first source knows the jobs without these times
		more[i].Unread, more[i].Followed = false, more[i].Followed || more[i].JobID != ""
	}
	inTurn(listed, jobs)
	return jobs, slices.Concat(faults, more)
}

// inTurn ends jobs when later ones start, if only their exact times overlap. By the listed times, the earlier job was
// over when the later started. Apart from sorting, its time grows with the CPUs of all jobs.
func inTurn(listed, jobs []Job) {
	var started []int
	for i := range jobs {
		if jobs[i].Start != nil && listed[i].Start != nil {
			started = append(started, i)
		}
	}
	slices.SortStableFunc(started, func(a, b int) int {
		return cmp.Or(cmp.Compare(*listed[a].Start, *listed[b].Start), cmp.Compare(*jobs[a].Start, *jobs[b].Start))
	})
	holders := map[string]*holder{}
	for _, i := range started {
		for _, n := range jobs[i].Nodes {
			hold, holds := HoldOf(&jobs[i], n)
			if !holds {
				continue
			}
			if holders[n] == nil {
				holders[n] = &holder{}
			}
			for _, earlier := range holders[n].give(i, hold.Cpus) {
				end, start := listed[earlier].End, *jobs[i].Start
				if end != nil && *end <= *listed[i].Start && *jobs[earlier].End > start {
					at := max(start, *jobs[earlier].Start)
					jobs[earlier].End = &at
				}
			}
		}
	}
}
