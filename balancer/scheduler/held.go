package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// HoldOf returns what the job holds of one of its nodes; false where it is nothing, as while it is suspended.
func HoldOf(j *Job, node string) (Hold, bool) {
	if j.Held == nil {
		return Hold{Cpus: j.Cpus}, true
	}
	h, ok := j.Held[node]
	return h, ok
}

// heldSince returns the job with those nodes alone that it holds from a time on or longer.
func heldSince(j Job, start int64) Job {
	if j.Held == nil {
		return j
	}
	var nodes []string
	for _, n := range j.Nodes {
		if h, ok := j.Held[n]; ok && h.Since <= start {
			nodes = append(nodes, n)
		}
	}
	j.Nodes = nodes
	return j
}

// lifeOn returns when the job holds what it holds of one of its nodes.
func lifeOn(j *Job, h Hold) Span {
	l := Life(j)
	if j.Held != nil {
		l.Start = max(l.Start, h.Since)
	}
	return l
}

// carryHeld tells the jobs of a list that was read anew at nowMs since when they hold their nodes: what they held
// by the list of before they hold as long as before, what is new to them from now on. Held stays nil where this
// is no other than their life.
func carryHeld(before, jobs []Job, nowMs int64) {
	known := make(map[schemas.JobKey]*Job, len(before))
	for i := range before {
		if key := before[i].Identity(); known[key] == nil { // of two of one key the first counts
			known[key] = &before[i]
		}
	}
	for i := range jobs {
		j := &jobs[i]
		old := known[j.Identity()]
		if old == nil {
			continue
		}
		since := nowMs
		if sameCPUs(old.Cpus, j.Cpus) {
			since = Life(old).Start
		}
		had := make(map[string]int64, len(old.Nodes))
		for _, n := range old.Nodes {
			had[n] = since
			if h, changed := old.Held[n]; changed {
				had[n] = max(since, h.Since)
			}
		}
		held, differs := make(map[string]Hold, len(j.Nodes)), false
		for _, n := range j.Nodes {
			s, kept := had[n]
			if !kept {
				s = nowMs
			}
			held[n] = Hold{Cpus: j.Cpus, Since: s}
			differs = differs || s > Life(j).Start
		}
		if differs {
			j.Held = held
		}
	}
}

func sameCPUs(a, b []int32) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// overlaps are jobs of which some end earlier than they say.
type overlaps struct {
	jobs []Job
	cuts []cut
}

// cut is the index of a job that was ended, and why.
type cut struct {
	job int
	why string
}

// endOverlaps ends jobs so that no two hold a CPU at one time. A life ends where the next restart of its job
// begins, and a job where a later one starts on a CPU of it. It returns the jobs that it ended, once or twice
// each: the last reason counts. Apart from sorting, its time grows with the nodes of all jobs.
func endOverlaps(jobs []Job) []cut {
	s := overlaps{jobs: jobs}
	var started []int
	for i := range jobs {
		if jobs[i].Start != nil {
			started = append(started, i)
		}
	}
	s.byRestart(started)
	s.byNode(started)
	return s.cuts
}

// end ends a job at a time, or at its start where that is later, unless it has ended by then.
func (s *overlaps) end(i int, at int64, format string, args ...any) {
	if l := Life(&s.jobs[i]); l.End > at {
		end := max(at, l.Start)
		s.jobs[i].End = &end
		s.cuts = append(s.cuts, cut{i, fmt.Sprintf(format, args...) + " at " + Stamp(at)})
	}
}

func (s *overlaps) byRestart(started []int) {
	slices.SortFunc(started, func(a, b int) int { // the last life first
		return cmp.Or(cmp.Compare(s.jobs[a].JobID, s.jobs[b].JobID), cmp.Compare(s.jobs[b].Restart, s.jobs[a].Restart))
	})
	var next *Job // of the higher restarts that which started first
	for _, i := range started {
		j := &s.jobs[i]
		if next != nil && next.JobID == j.JobID {
			s.end(i, *next.Start, "its restart %d began", next.Restart)
		}
		if next == nil || next.JobID != j.JobID || *j.Start < *next.Start {
			next = j
		}
	}
}

func (s *overlaps) byNode(started []int) {
	slices.SortFunc(started, func(a, b int) int {
		x, y := &s.jobs[a], &s.jobs[b]
		return cmp.Or(cmp.Compare(*x.Start, *y.Start), cmp.Compare(len(x.JobID), len(y.JobID)), cmp.Compare(x.JobID, y.JobID), cmp.Compare(x.Restart, y.Restart))
	})
	holders := map[string]*holder{}
	for _, i := range started {
		l := Life(&s.jobs[i])
		if l.Start >= l.End {
			continue
		}
		for _, n := range s.jobs[i].Nodes {
			if holders[n] == nil {
				holders[n] = &holder{}
			}
			for _, earlier := range holders[n].give(i, s.jobs[i].Cpus) {
				s.end(earlier, l.Start, "job %s took node %s", s.jobs[i].Identity(), n)
			}
		}
	}
}

// holder says which jobs, by index, were given a node's CPUs last.
type holder struct {
	whole []int // all CPUs: one or none
	cpus  map[int32]int
}

// give gives a job CPUs of the node, or all where there are none, and returns those that had them.
func (h *holder) give(job int, cpus []int32) (had []int) {
	for _, w := range h.whole {
		if w != job {
			had = append(had, w)
		}
	}
	if len(cpus) == 0 {
		for _, other := range h.cpus {
			if other != job {
				had = append(had, other)
			}
		}
		h.whole, h.cpus = []int{job}, nil
		return had
	}
	if h.whole = nil; h.cpus == nil {
		h.cpus = make(map[int32]int, len(cpus))
	}
	for _, c := range cpus {
		if other, taken := h.cpus[c]; taken && other != job {
			had = append(had, other)
		}
		h.cpus[c] = job
	}
	return had
}
