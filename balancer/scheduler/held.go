package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// HoldOf returns the job's hold of one of its nodes. It returns false if the job holds nothing there, for example while
// it is suspended.
func HoldOf(j *Job, node string) (Hold, bool) {
	if j.Held == nil {
		return Hold{Cpus: j.Cpus}, true
	}
	h, ok := j.Held[node]
	return h, ok
}

// heldSince returns the job, reduced to the nodes that it has held since a time or before.
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

// lifeOn returns the span in which a job holds one node.
func lifeOn(j *Job, h Hold) Span {
	l := Life(j)
	if j.Held != nil {
		l.Start = max(l.Start, h.Since)
	}
	return l
}

// carryHeld sets since when the jobs of a list hold their nodes. Nodes kept from the previous list keep their start
// time. New nodes start at nowMs, when the list was read. Held stays nil if the job holds all nodes since its start.
func carryHeld(before, jobs []Job, nowMs int64) {
	known := make(map[schemas.JobKey]*Job, len(before))
	for i := range before {
		if key := before[i].Identity(); known[key] == nil { // the first of two jobs with one key counts
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

// overlaps ends jobs that overlap, and remembers which.
type overlaps struct {
	jobs []Job
	cuts []cut
}

// cut is the index of a job that was ended, and why.
type cut struct {
	job int
	why string
}

// endOverlaps ends jobs so that no two hold a CPU at one time. A life ends when the next restart of its job begins, and
// a job ends when a later one starts on one of its CPUs. It returns the jobs that it ended, once or twice each. The
// last reason counts. Apart from sorting, its time grows with the nodes of all jobs.
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

// end ends a job at a time, or at its start if that is later. A job that ended before stays as it is.
func (s *overlaps) end(i int, at int64, format string, args ...any) {
	if l := Life(&s.jobs[i]); l.End > at {
		end := max(at, l.Start)
		s.jobs[i].End = &end
		s.cuts = append(s.cuts, cut{i, fmt.Sprintf(format, args...) + " at " + Stamp(at)})
	}
}

// byRestart ends a life of a job when its next one begins. A list may still show the previous life.
func (s *overlaps) byRestart(started []int) {
	slices.SortFunc(started, func(a, b int) int { // the last life first
		return cmp.Or(cmp.Compare(s.jobs[a].JobID, s.jobs[b].JobID), cmp.Compare(s.jobs[b].Restart, s.jobs[a].Restart))
	})
	var next *Job // of the higher restarts, the one that started first
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

// byNode ends a job when another takes its CPUs. A job with a lost end would otherwise hold its nodes for ever.
func (s *overlaps) byNode(started []int) {
	slices.SortFunc(started, func(a, b int) int {
		x, y := &s.jobs[a], &s.jobs[b]
		return cmp.Or(cmp.Compare(*x.Start, *y.Start),
			cmp.Compare(len(x.JobID), len(y.JobID)), cmp.Compare(x.JobID, y.JobID), cmp.Compare(x.Restart, y.Restart))
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

// holder lists the jobs, by index, that last received the CPUs of a node.
type holder struct {
	whole []int // all CPUs: one or none
	cpus  map[int32]int
}

// give gives a job CPUs of the node, or all if it names none. It returns the jobs that had them.
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
