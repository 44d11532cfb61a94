package scheduler

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// Span is the life of a job in Unix milliseconds, [start, end).
type Span struct{ Start, End int64 }

// Life returns when the job runs as far as is known: what is not known reaches for ever. A job that waits and has no start
// has no life.
func Life(j *schemas.Job) Span {
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

// stateAt derives a job's state from its start and end.
func stateAt(j *schemas.Job, now time.Time) string {
	switch l, ms := Life(j), now.UnixMilli(); {
	case l.End <= ms:
		return schemas.StateCompleted
	case l.Start > ms:
		return schemas.StatePending
	}
	return schemas.StateRunning
}

// checkJob says what is wrong with a job by itself; empty if nothing.
func checkJob(j *schemas.Job) string {
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
	nodes := make(map[string]bool, len(j.Nodes))
	for _, n := range j.Nodes {
		if !schemas.ValidName(n) {
			return fmt.Sprintf("node %.80q is not a host's name", n)
		}
		if nodes[n] {
			return fmt.Sprintf("node %s is there twice", n)
		}
		nodes[n] = true
	}
	cpus := make(map[int32]bool, len(j.Cpus))
	for _, c := range j.Cpus {
		if c < 0 || cpus[c] {
			return fmt.Sprintf("cpu %d is negative or there twice", c)
		}
		cpus[c] = true
	}
	return ""
}

// admit returns the jobs that can be followed, in their order and with their state at now, and a fault for each other
// one: wrong in itself, on a node that the tree does not have, the second of its id and restart, or on a core that an
// earlier job of the list holds at a time of its life.
func admit(tree *topology.Tree, jobs []schemas.Job, now time.Time) (good []schemas.Job, faults []Fault) {
	seen := make(map[schemas.JobKey]bool, len(jobs))
	taken := Claims{}
	for i := range jobs {
		j := jobs[i]
		key := schemas.JobKey{JobID: j.JobID, Restart: j.Restart}
		reason := checkJob(&j)
		switch {
		case reason != "":
		case seen[key]:
			reason = fmt.Sprintf("the same id %s and restart %d as an earlier job", j.JobID, j.Restart)
		default:
			reason = placeable(tree, taken, &j)
		}
		if reason != "" {
			faults = append(faults, Fault{JobID: j.JobID, Restart: j.Restart, Reason: reason})
			continue
		}
		seen[key] = true
		taken.Add(&j)
		j.State = stateAt(&j, now)
		good = append(good, j)
	}
	return good, faults
}

func placeable(tree *topology.Tree, taken Claims, j *schemas.Job) string {
	for _, n := range j.Nodes {
		if !tree.Has(n) {
			return fmt.Sprintf("unknown node %s", n)
		}
	}
	return taken.Conflict(j)
}

// wholeNode stands among a node's CPUs for all of them.
const wholeNode int32 = -1

// Claims says when each CPU of each node is taken, and by whom. The spans of one CPU are disjoint and ascend.
type Claims map[string]map[int32][]claim

type claim struct {
	Span
	by schemas.JobKey
}

// Conflict names a node or CPU of the job that is taken while the job holds it, and by whom; empty if there is none.
func (c Claims) Conflict(j *schemas.Job) string {
	for _, n := range j.Nodes {
		hold, holds := HoldOf(j, n)
		if !holds {
			continue
		}
		l := lifeOn(j, hold)
		cpus := append([]int32{wholeNode}, hold.Cpus...) // not all of the node's: there may be many jobs on it
		if len(hold.Cpus) == 0 {
			cpus = slices.Collect(maps.Keys(c[n]))
		}
		slices.Sort(cpus) // the same conflict reads the same every time
		for _, cpu := range cpus {
			holder, held := holderOf(c[n][cpu], l)
			switch {
			case !held:
			case cpu == wholeNode:
				return fmt.Sprintf("node %s is held by job %s at an overlapping time", n, holder)
			default:
				return fmt.Sprintf("cpu %d of node %s is held by job %s at an overlapping time", cpu, n, holder)
			}
		}
	}
	return ""
}

// Add notes what a job holds, and when.
func (c Claims) Add(j *schemas.Job) {
	for _, n := range j.Nodes {
		hold, holds := HoldOf(j, n)
		l := lifeOn(j, hold)
		if !holds || l.Start >= l.End {
			continue
		}
		cpus := hold.Cpus
		if len(cpus) == 0 {
			cpus = []int32{wholeNode}
		}
		if c[n] == nil {
			c[n] = map[int32][]claim{}
		}
		for _, cpu := range cpus {
			c[n][cpu] = slices.Insert(c[n][cpu], after(c[n][cpu], l.Start), claim{l, j.Identity()})
		}
	}
}

// after returns the position of the first Span that ends after the time.
func after(spans []claim, t int64) int {
	i, _ := slices.BinarySearchFunc(spans, t, func(s claim, t int64) int {
		if s.End <= t {
			return -1
		}
		return 1
	})
	return i
}

// holderOf returns the first job that holds a CPU at a time of the life.
func holderOf(spans []claim, l Span) (schemas.JobKey, bool) {
	i := after(spans, l.Start)
	if l.Start >= l.End || i == len(spans) || spans[i].Start >= l.End {
		return schemas.JobKey{}, false
	}
	return spans[i].by, true
}

// Planned returns the jobs that have the interval: whose life, as known now, holds all of it. They have the nodes that they
// hold from its start.
func Planned(jobs []schemas.Job, start, ms int64) []schemas.Job {
	var has []schemas.Job
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
