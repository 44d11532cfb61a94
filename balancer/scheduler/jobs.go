package scheduler

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/naming"
)

// Span is the life of a job in Unix milliseconds, [start, end).
type Span struct{ Start, End int64 }

// Life returns when the job runs as far as is known: what is not known reaches for ever. A job that waits and has no start
// has no life.
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

// stateAt derives a job's state from its start and end.
func stateAt(j *Job, now time.Time) string {
	switch l, ms := Life(j), now.UnixMilli(); {
	case l.End <= ms:
		return schemas.StateCompleted
	case l.Start > ms:
		return schemas.StatePending
	}
	return schemas.StateRunning
}

// checkJob says what is wrong with a job by itself; empty if nothing.
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
	return ""
}

// repeated returns a value that is there twice. Values that ascend, as nearly all lists do, need no set.
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

// admit returns the jobs that can be followed, in their order and with their state at now, and a fault for each other
// one: wrong in itself, on a node that the tree does not have, the second of its id and restart, or on a core that an
// earlier job of the list holds at a time of its life. The list itself is returned where it is all that.
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
			if !copied { // the source keeps its own; a copy of all takes as long as all else here
				good, copied = slices.Clone(jobs), true
			}
			good[followed] = *j
			good[followed].State = state
		}
		followed++
	}
	return slices.Clip(good[:followed]), faults
}

// onNodes returns the job with those of its nodes alone that are in the set; nil where none is.
func onNodes(j *Job, set map[string]bool) *Job {
	if len(set) == 0 || !slices.ContainsFunc(j.Nodes, func(n string) bool { return set[n] }) {
		return nil
	}
	some := *j
	some.Nodes = slices.DeleteFunc(slices.Clone(j.Nodes), func(n string) bool { return !set[n] })
	return &some
}

// maxSwept bounds the CPUs of a node for which contended keeps an end each. A file may give a job any number.
const maxSwept = 1 << 12

// heldUntil says until when jobs hold a node: any part of it, all of it, and each CPU. CPUs without a known end are bits.
type heldUntil struct {
	any, whole int64
	cpus       []int64
	forever    []uint64
}

// surveyed is what one look at each job of a list finds.
type surveyed struct {
	reasons []string                // why a job cannot be followed, whatever the others are; empty: it can
	twice   map[schemas.JobKey]bool // the keys that more than one job has, and perhaps others
	shared  map[string]bool         // the nodes on which jobs may conflict, and perhaps others
}

// survey finds the few jobs that may disturb each other. Claims then decides about these alone, since it has to remember
// each CPU of each job. Two jobs conflict only if one ends after the other starts. So the latest end of each CPU is
// enough, and an order by starts makes it exact for nearly all.
func survey(tree *topology.Tree, jobs []Job) surveyed {
	found := surveyed{reasons: make([]string, len(jobs)), twice: map[schemas.JobKey]bool{}}
	// Keys in few bytes stay in the processor's cache.
	seed, seen := maphash.MakeSeed(), make(map[uint64]struct{}, len(jobs))
	s := newSweep(tree)
	for i := range jobs {
		j := &jobs[i]
		if found.reasons[i] = checkJob(j); found.reasons[i] == "" {
			found.reasons[i] = s.take(j)
		}
		key, before := j.Identity(), len(seen)
		if seen[maphash.Comparable(seed, key)] = struct{}{}; len(seen) == before {
			found.twice[key] = true
		}
	}
	byStart := func(a, b Job) int { return cmp.Compare(Life(&a).Start, Life(&b).Start) }
	if len(s.shared) > 0 && !slices.IsSortedFunc(jobs, byStart) {
		s = sweptByStart(tree, jobs, found.reasons)
	}
	found.shared = s.shared
	return found
}

// sweep is until when the jobs so far hold the nodes of a tree.
type sweep struct {
	tree   *topology.Tree
	held   []heldUntil // by the tree's index
	shared map[string]bool
}

func newSweep(tree *topology.Tree) *sweep {
	held := slices.Repeat([]heldUntil{{any: math.MinInt64, whole: math.MinInt64}}, tree.Size())
	return &sweep{tree, held, map[string]bool{}}
}

func sweptByStart(tree *topology.Tree, jobs []Job, reasons []string) *sweep {
	order := make([]*Job, 0, len(jobs))
	for i := range jobs {
		if reasons[i] == "" {
			order = append(order, &jobs[i])
		}
	}
	slices.SortFunc(order, func(a, b *Job) int { return cmp.Compare(Life(a).Start, Life(b).Start) })
	s := newSweep(tree)
	for _, j := range order {
		s.take(j)
	}
	return s
}

// take notes what the job holds, and returns why it cannot be followed: it is on a node that the tree does not have.
func (s *sweep) take(j *Job) (reason string) {
	for _, n := range j.Nodes {
		i, known := s.tree.Index(n)
		if !known {
			return fmt.Sprintf("unknown node %s", n)
		}
		hold, holds := HoldOf(j, n)
		l := lifeOn(j, hold)
		if holds && l.Start < l.End && !s.held[i].take(l, hold.Cpus) {
			s.shared[n] = true
		}
	}
	return ""
}

// take notes a life, and reports whether it begins after all others that hold the CPUs have ended. No CPUs are all.
func (h *heldUntil) take(l Span, cpus []int32) bool {
	free := h.whole <= l.Start
	if len(cpus) == 0 {
		free, h.whole = free && h.any <= l.Start, max(h.whole, l.End)
	}
	h.any = max(h.any, l.End)
	for len(cpus) > 0 {
		word, bits, n := int(cpus[0])/64, uint64(0), 0
		for n < len(cpus) && int(cpus[n])/64 == word {
			bits |= 1 << (cpus[n] % 64)
			n++
		}
		if word >= maxSwept/64 {
			return false
		}
		if h.forever == nil {
			h.forever = make([]uint64, 0, 4) // most nodes have 256 CPUs at most
		}
		for word >= len(h.forever) {
			h.forever = append(h.forever, 0)
		}
		free = free && h.forever[word]&bits == 0
		if l.End == math.MaxInt64 {
			h.forever[word] |= bits
		}
		if l.End < math.MaxInt64 || word*64 < len(h.cpus) {
			free = h.takeEach(l, cpus[:n]) && free
		}
		cpus = cpus[n:]
	}
	return free
}

// takeEach is take for CPUs that have a known end, or are to have one.
func (h *heldUntil) takeEach(l Span, cpus []int32) (free bool) {
	free = true
	for _, c := range cpus {
		for int(c) >= len(h.cpus) {
			h.cpus = append(slices.Grow(h.cpus, len(cpus)), math.MinInt64)
		}
		free = free && h.cpus[c] <= l.Start
		h.cpus[c] = max(h.cpus[c], l.End)
	}
	return free
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
func (c Claims) Conflict(j *Job) string {
	for _, n := range j.Nodes {
		hold, holds := HoldOf(j, n)
		if !holds {
			continue
		}
		l := lifeOn(j, hold)
		var first int32 // the same conflict reads the same every time
		var by schemas.JobKey
		found := false
		look := func(cpu int32) {
			if holder, held := holderOf(c[n][cpu], l); held && (!found || cpu < first) {
				first, by, found = cpu, holder, true
			}
		}
		look(wholeNode)
		for _, cpu := range hold.Cpus { // not all of the node's: there may be many jobs on it
			look(cpu)
		}
		if len(hold.Cpus) == 0 {
			for cpu := range c[n] {
				look(cpu)
			}
		}
		switch {
		case !found:
		case first == wholeNode:
			return fmt.Sprintf("node %s is held by job %s at an overlapping time", n, by)
		default:
			return fmt.Sprintf("cpu %d of node %s is held by job %s at an overlapping time", first, n, by)
		}
	}
	return ""
}

// Add notes what a job holds, and when.
func (c Claims) Add(j *Job) {
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
