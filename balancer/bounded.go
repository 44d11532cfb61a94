package balancer

import (
	"cmp"
	"math"
	"slices"
)

// task is a job for assignBounded.
type task struct {
	nodes   []int32
	perNode int64   // load of each of its nodes in an interval, in the unit of lMax, at least 1
	last    []int32 // collector of each node until now, elsewhere for a node that is new; nil: the job is new
	local   bool    // it has been reduced on its node
}

// elsewhere stands for no collector.
const elsewhere int32 = -1

func (t *task) load() int64 { return t.perNode * int64(len(t.nodes)) }

// bounded is what assignBounded decided.
type bounded struct {
	placed     []placement // of each task
	load       []int64     // of each collector
	overloaded bool
	needed     int // collectors that would hold all within lMax
}

// assignBounded places jobs on collectors so that none takes more than lMax, and each job near its nodes. It is a pure
// function of its arguments, and holds:
//
//   - Every node of every job has one collector. A job of one node is reduced there, as long as there are no more than
//     localMax of these (0: any number); those that are local already come first.
//   - Nothing moves: a job that has its collectors keeps them, whatever others come, go or grow, while these exist and hold it. Nodes
//     that it gains join it if there is room; else it moves as one if any collector holds it whole.
//   - No collector exceeds lMax while all jobs together fit (sum of loads <= collectors * lMax, where every node weighs the same;
//     else a node may be heavier than the room that is left everywhere). A collector that others have filled up beyond
//     lMax, because loads grew, gives away the fewest jobs that bring it below.
//   - A job is whole at one collector if any has room for it when its turn comes, heaviest first: at the one with the least total
//     distance, among these with the least load, then the lowest number. So where loads do not press, the total distance
//     is the least possible.
//   - Another is split over as few collectors as have the room, those first that are home to most of its nodes, and
//     as many of these as fit stay at home.
//   - Where the jobs do not fit, overloaded is set, needed says how many collectors of lMax it takes at the least, and the bound is
//     the mean load in place of lMax: they are spread evenly. Once jobs have their collectors, it is an eighth more, or every
//     change of a load would tear jobs apart.
//
// Collectors that are lost take nothing, and what they had is placed anew. At least one is left.
func assignBounded(l *layout, tasks []task, lim limits) bounded {
	a := &bounds{field: newField(l), tasks: tasks, lost: lim.lost, still: lim.still, b: bounded{placed: make([]placement, len(tasks))}}
	a.limit(a.locals(lim.localMax), int64(lim.lMax))
	waiting := a.keep()
	slices.SortFunc(waiting, func(x, y int32) int {
		return cmp.Or(cmp.Compare(tasks[y].load(), tasks[x].load()), cmp.Compare(x, y))
	})
	for _, j := range slices.Compact(waiting) {
		a.place(&tasks[j], &a.b.placed[j])
	}
	for c, lost := range lim.lost {
		if lost {
			a.load[c] = 0
		}
	}
	a.b.load = a.load
	return a.b
}

// bounds is the state of assignBounded.
type bounds struct {
	*field
	tasks []task
	lost  []bool // of each collector; nil: none
	still bool   // no job leaves a collector because of its load
	bound int64
	b     bounded
}

func (a *bounds) isLost(c int32) bool {
	return c < 0 || int(c) >= len(a.load) || a.lost != nil && a.lost[c]
}

// locals decides which jobs of one node are reduced there, and returns the load of all others.
func (a *bounds) locals(most int) (total int64) {
	count := 0
	reduce := func(j int) {
		count++
		n := a.tasks[j].nodes[0]
		a.b.placed[j] = placement{local: true, at: a.home[n : n+1 : n+1]}
	}
	for j := range a.tasks {
		if t := &a.tasks[j]; len(t.nodes) == 1 && (most == 0 || t.local && count < most) {
			reduce(j)
		} else {
			total += t.load()
		}
	}
	for j := range a.tasks {
		if count >= most { // also where all are
			break
		}
		if t := &a.tasks[j]; len(t.nodes) == 1 && !a.b.placed[j].local {
			reduce(j)
			total -= t.load()
		}
	}
	return total
}

// limit sets the bound for a total load.
func (a *bounds) limit(total, lMax int64) {
	collectors := int64(len(a.load))
	for _, lost := range a.lost {
		if lost {
			collectors--
		}
	}
	a.b.needed = int((total + lMax - 1) / lMax)
	a.b.overloaded = int64(a.b.needed) > collectors
	a.bound = lMax
	if a.b.overloaded {
		a.bound = (total + collectors - 1) / collectors
		if slices.ContainsFunc(a.tasks, func(t task) bool { return t.last != nil }) {
			a.bound += a.bound / 8
		}
	}
}

// keep leaves jobs where they are, and returns those that want a place, in whole or in part.
func (a *bounds) keep() (waiting []int32) {
	for j := range a.tasks {
		if a.b.placed[j].local {
			continue
		}
		at, whole := a.stay(&a.tasks[j])
		a.b.placed[j].at = at
		if !whole {
			waiting = append(waiting, int32(j))
		}
	}
	waiting = append(waiting, a.relieve()...)
	for c, lost := range a.lost {
		if lost {
			a.load[c] = math.MaxInt64 / 2 // no room
		}
	}
	a.build()
	return waiting
}

// stay adds the load of a task to the collectors that it has. It returns these, nil for a new task, and whether no node lacks one.
func (a *bounds) stay(t *task) (at []int32, whole bool) {
	at, whole = t.last, t.last != nil
	// Neighbours mostly have one collector. Summing up a run of them before it is added halves the time of a plan at 2 % churn.
	run, load := elsewhere, int64(0)
	for i, c := range t.last {
		if c == run && c != elsewhere {
			load += t.perNode
			continue
		}
		if run != elsewhere {
			a.load[run] += load
		}
		run, load = c, t.perNode
		if a.isLost(c) {
			if whole {
				at, whole = slices.Clone(at), false
			}
			at[i], run = elsewhere, elsewhere
		}
	}
	if run != elsewhere {
		a.load[run] += load
	}
	return at, whole
}

// relieve takes jobs, or nodes of jobs that are split anyway, from collectors that are beyond the bound: of the jobs each time the
// lightest that is enough, else the heaviest.
func (a *bounds) relieve() (moved []int32) {
	if a.still || slices.Max(a.load) <= a.bound {
		return nil
	}
	type share struct {
		j    int32
		load int64
		at   []int32 // which of the task's nodes
	}
	shares := make([][]share, len(a.load)) // of each collector that is beyond
	for j := range a.tasks {
		for i, c := range a.b.placed[j].at {
			if a.b.placed[j].local || c < 0 || a.load[c] <= a.bound {
				continue
			}
			if n := len(shares[c]); n == 0 || shares[c][n-1].j != int32(j) {
				shares[c] = append(shares[c], share{j: int32(j)})
			}
			s := &shares[c][len(shares[c])-1]
			s.load += a.tasks[j].perNode
			s.at = append(s.at, int32(i))
		}
	}
	for c, of := range shares {
		slices.SortStableFunc(of, func(x, y share) int { return cmp.Compare(x.load, y.load) })
		for a.load[c] > a.bound && len(of) > 0 {
			excess := a.load[c] - a.bound
			i, _ := slices.BinarySearchFunc(of, excess, func(s share, excess int64) int { return cmp.Compare(s.load, excess) })
			i = min(i, len(of)-1)
			a.release(of[i].j, of[i].at, excess)
			moved = append(moved, of[i].j)
			of = slices.Delete(of, i, i+1)
		}
	}
	slices.Sort(moved)
	return slices.DeleteFunc(slices.Compact(moved), func(j int32) bool { return !slices.Contains(a.b.placed[j].at, elsewhere) })
}

// release takes nodes of a task from the collector that they have: all where these are all of it, or only those in excess of one that
// is split.
func (a *bounds) release(j int32, at []int32, excess int64) {
	t, p := &a.tasks[j], &a.b.placed[j]
	if len(t.last) > 0 && &p.at[0] == &t.last[0] {
		p.at = slices.Clone(p.at) // not the caller's
	}
	whole := len(at) == len(t.nodes)
	for _, i := range at {
		if whole || excess > 0 {
			a.load[p.at[i]] -= t.perNode
			p.at[i] = elsewhere
			excess -= t.perNode
		}
	}
}

// place gives a collector to each node of a task that has none.
func (a *bounds) place(t *task, p *placement) {
	if p.at == nil {
		p.at = make([]int32, len(t.nodes))
		for i := range p.at {
			p.at[i] = elsewhere
		}
	}
	missing, only, parts := 0, elsewhere, 0
	for _, c := range p.at {
		switch {
		case c == elsewhere:
			missing++
		case c != only:
			only = c
			parts++
		}
	}
	c := only
	if parts > 1 {
		c = elsewhere
	} else if parts == 0 || a.load[c]+int64(missing)*t.perNode > a.bound {
		a.take(t.nodes)
		c = a.nearest(len(t.nodes), t.load())
		a.drop()
	}
	if c == elsewhere {
		a.split(t, p.at)
		return
	}
	for i, old := range p.at {
		if old != c {
			if old != elsewhere {
				a.add(old, -t.perNode)
			}
			a.load[c] += t.perNode
			p.at[i] = c
		}
	}
	a.add(c, 0)
}

// nearest returns the collector with room for a whole job that is at the least distance, then the least load, then the
// lowest number; elsewhere if none has room.
func (a *bounds) nearest(nodes int, load int64) int32 {
	best := elsewhere
	a.candidates(func(c int32) {
		if a.load[c]+load > a.bound {
			return
		}
		if best < 0 || cmp.Or(cmp.Compare(a.distance(c, nodes), a.distance(best, nodes)), cmp.Compare(a.load[c], a.load[best]), cmp.Compare(c, best)) < 0 {
			best = c
		}
	})
	return best
}
