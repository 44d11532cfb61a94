package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// Span is the life of a job in Unix milliseconds, [start, end).
type Span struct{ Start, End int64 }

// Life returns the span in which the job runs, as far as known. An unknown start or end is unbounded. A job that waits
// without a start has no life.
func Life(j *Job) Span {
	s := Span{math.MinInt64, math.MaxInt64}
	switch {
	case j.Start != nil:
		s.Start = *j.Start
	case j.State == schemas.StatePending:
		return Span{math.MaxInt64, math.MaxInt64}
	}
	if j.End != nil {
		s.End = *j.End
	}
	return s
}

// Covers reports whether the interval lies whole within the life.
func (s Span) Covers(start, ms int64) bool { return s.Start <= start && s.End >= start+ms }

// stateAt derives a job's state from its start and end. The source may know how it ended.
func stateAt(j *Job, now time.Time) string {
	switch l, ms := Life(j), now.UnixMilli(); {
	case l.End <= ms && schemas.Over(j.State):
		return j.State
	case l.End <= ms:
		return schemas.StateCompleted
	case l.Start > ms:
		return schemas.StatePending
	}
	return schemas.StateRunning
}

// checkJob returns the reason why a job cannot be followed, regardless of other jobs; empty if it can.
func checkJob(j *Job) string {
	switch {
	case j.JobID == "":
		return "it has no id"
	case !schemas.ValidJobID(j.JobID):
		return fmt.Sprintf("id %.80q is not a job's name: [A-Za-z0-9._:-]{1,64}, not beginning with _", j.JobID)
	case j.Restart < 0:
		return fmt.Sprintf("restart %d is negative", j.Restart)
	case len(j.Nodes) == 0:
		return "has no nodes"
	case j.Start != nil && j.End != nil && *j.End < *j.Start:
		return "ends before it starts"
	}
	for _, n := range j.Nodes {
		if !naming.Valid(n) {
			return fmt.Sprintf("node %.80q is not a host's name", n)
		}
	}
	if n, twice := repeated(j.Nodes); twice {
		return fmt.Sprintf("node %s is there twice", n)
	}
	c, twice := repeated(j.Cpus)
	if i := slices.IndexFunc(j.Cpus, func(c int32) bool { return c < 0 }); i >= 0 {
		c, twice = j.Cpus[i], true
	}
	if twice {
		return fmt.Sprintf("cpu %d is negative or there twice", c)
	}
	if j.Cgroup != "" && !naming.Valid(j.Cgroup) {
		return fmt.Sprintf("cgroup %.80q is not the name of a directory: [A-Za-z0-9._:-]{1,64}", j.Cgroup)
	}
	return checkGPUs(j)
}

// checkGPUs returns why the GPUs of a job cannot be as they are given; empty if they can.
func checkGPUs(j *Job) string {
	if len(j.GPUs) == 0 {
		return ""
	}
	has := make(map[string]bool, len(j.Nodes))
	for _, n := range j.Nodes {
		has[n] = true
	}
	for _, n := range slices.Sorted(maps.Keys(j.GPUs)) {
		gpus := j.GPUs[n]
		if n != "" && !has[n] {
			return fmt.Sprintf("gpu_ids: the job has no node %.80q", n)
		}
		g, wrong := repeated(gpus)
		if i := slices.IndexFunc(gpus, func(g int32) bool { return g < 0 || g >= maxGPUs }); i >= 0 {
			g, wrong = gpus[i], true
		}
		if wrong {
			return fmt.Sprintf("gpu %d is there twice, or not in 0 to %d", g, maxGPUs-1)
		}
	}
	return ""
}

// repeated returns a value that occurs twice in the list. Nearly all lists ascend, and these need no set.
func repeated[T cmp.Ordered](list []T) (value T, twice bool) {
	for i := 1; i < len(list); i++ {
		if list[i-1] < list[i] {
			continue
		}
		seen := make(map[T]bool, len(list))
		for _, v := range list {
			if seen[v] {
				return v, true
			}
			seen[v] = true
		}
		break
	}
	return value, false
}

// admit returns the jobs that can be followed, in their order and with their state at now. Each other job is a fault:
//
//   - It is wrong in itself, or on a node outside the tree.
//   - An earlier job of the list has its id and restart.
//   - An earlier job of the list holds one of its CPUs at a time of its life.
//
// If nothing changes, admit returns the list itself.
func admit(tree *topology.Tree, jobs []Job, now time.Time) (good []Job, faults []Fault) {
	found := survey(tree, jobs)
	seen := make(map[schemas.JobKey]bool, len(found.twice))
	taken := Claims{}
	good = jobs
	followed, copied := 0, false
	for i := range jobs {
		j, reason := &jobs[i], found.reasons[i]
		claims, key := onNodes(j, found.shared), j.Identity()
		if reason == "" && seen[key] {
			reason = fmt.Sprintf("the same id %s and restart %d as an earlier job", j.JobID, j.Restart)
		}
		if reason == "" && claims != nil {
			reason = taken.Conflict(claims)
		}
		if reason != "" {
			faults = append(faults, Fault{JobID: j.JobID, Restart: j.Restart, Reason: reason})
			continue
		}
		if claims != nil {
			taken.Add(claims)
		}
		if found.twice[key] {
			seen[key] = true
		}
		if state := stateAt(j, now); followed < i || state != j.State {
			if !copied { // the list is the source's; a copy takes as long as everything else here
				good, copied = slices.Clone(jobs), true
			}
			good[followed] = *j
			good[followed].State = state
		}
		followed++
	}
	return slices.Clip(good[:followed]), faults
}

// onNodes returns the job, reduced to its nodes in the set; nil if there are none.
func onNodes(j *Job, set map[string]bool) *Job {
	if len(set) == 0 || !slices.ContainsFunc(j.Nodes, func(n string) bool { return set[n] }) {
		return nil
	}
	some := *j
	some.Nodes = slices.DeleteFunc(slices.Clone(j.Nodes), func(n string) bool { return !set[n] })
	return &some
}

// Planned returns the jobs that run throughout the interval, as known now. They keep the nodes that they hold from its
// start.
func Planned(jobs []Job, start, ms int64) []Job {
	var has []Job
	for i := range jobs {
		if !Life(&jobs[i]).Covers(start, ms) {
			continue
		}
		if j := heldSince(jobs[i], start); len(j.Nodes) > 0 {
			has = append(has, j)
		}
	}
	return has
}
