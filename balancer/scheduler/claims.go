package scheduler

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// maxSwept bounds the CPUs of a node for which contended keeps an end each. A file may give a job any number.
const maxSwept = 1 << 12

// heldUntil holds the times until which jobs hold a node: any part of it, all of it, and each CPU. CPUs without a known
// end are bits.
type heldUntil struct {
	any, whole int64
	cpus       []int64
	forever    []uint64
}

// surveyed is the result of looking at each job of a list once.
type surveyed struct {
	reasons []string                // why a job cannot be followed, regardless of other jobs; empty: it can
	twice   map[schemas.JobKey]bool // at least the keys that several jobs share
	shared  map[string]bool         // at least the nodes on which jobs conflict
}

// survey finds the few jobs that may disturb each other. Claims then decides about these alone, because it must
// remember each CPU of each job. Two jobs conflict only if one ends after the other starts. So the latest end of each
// CPU is enough, and an order by starts makes it exact for nearly all jobs.
func survey(tree *topology.Tree, jobs []Job) surveyed {
	found := surveyed{reasons: make([]string, len(jobs)), twice: map[schemas.JobKey]bool{}}
	// Hashes instead of keys stay in the processor's cache.
	seed, seen := maphash.MakeSeed(), make(map[uint64]struct{}, len(jobs))
	s := newSweep(tree)
	for i := range jobs {
		j := &jobs[i]
		if found.reasons[i] = checkJob(j); found.reasons[i] == "" {
			found.reasons[i] = s.add(j)
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

// sweep goes over jobs and knows until when they hold the nodes of a tree.
type sweep struct {
	tree   *topology.Tree
	held   []heldUntil // by the tree's index
	shared map[string]bool
}

func newSweep(tree *topology.Tree) *sweep {
	held := slices.Repeat([]heldUntil{{any: math.MinInt64, whole: math.MinInt64}}, tree.Size())
	return &sweep{tree, held, map[string]bool{}}
}

// sweptByStart takes the jobs in the order of their start. In the order of a list, a later job may seem to conflict
// with one that had ended.
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
		s.add(j)
	}
	return s
}

// add notes the nodes and CPUs that the job holds. It returns a reason if one of the job's nodes is not in the tree.
func (s *sweep) add(j *Job) (reason string) {
	for _, n := range j.Nodes {
		i, known := s.tree.Index(n)
		if !known {
			return fmt.Sprintf("unknown node %s", n)
		}
		hold, holds := HoldOf(j, n)
		l := lifeOn(j, hold)
		if holds && l.Start < l.End && !s.held[i].add(l, hold.Cpus) {
			s.shared[n] = true
		}
	}
	return ""
}

// add notes a life, and reports whether it begins after all earlier holders of the CPUs have ended. Without CPUs the
// job holds all of them.
func (h *heldUntil) add(l Span, cpus []int32) bool {
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
			free = h.addEach(l, cpus[:n]) && free
		}
		cpus = cpus[n:]
	}
	return free
}

// addEach is add for CPUs that have a known end or get one.
func (h *heldUntil) addEach(l Span, cpus []int32) (free bool) {
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

// wholeNode is the CPU number that stands for all CPUs of a node.
const wholeNode int32 = -1

// Claims records when each CPU of each node is held, and by which job. The spans of one CPU are disjoint and ascend.
type Claims map[string]map[int32][]claim

// claim is a time during which a job holds a CPU or a node.
type claim struct {
	Span
	by schemas.JobKey
}

// Conflict names a node or CPU of the job that another job holds at the same time, and that job. It is empty if
// there is none.
func (c Claims) Conflict(j *Job) string {
	for _, n := range j.Nodes {
		hold, holds := HoldOf(j, n)
		if !holds {
			continue
		}
		l := lifeOn(j, hold)
		var first int32 // the lowest CPU: a map is unordered, but the message must not vary
		var by schemas.JobKey
		found := false
		look := func(cpu int32) {
			if holder, held := holderOf(c[n][cpu], l); held && (!found || cpu < first) {
				first, by, found = cpu, holder, true
			}
		}
		look(wholeNode)
		for _, cpu := range hold.Cpus { // the job holds fewer CPUs than all the jobs on the node
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

// Add notes the nodes and CPUs that a job holds, and when.
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
