package assign

import (
	"cmp"
	"math"
	"slices"
)

// placeBounded places jobs so that no collector takes more than LMax and each job is near its nodes. It holds:
//
//   - Every node of every job has one collector. A job of one node is reduced there, for at most LocalMax jobs (0:
//     all). Jobs that are local already come first.
//   - Nothing moves without need. A job keeps its collectors while these exist and hold it, whatever other jobs do.
//     Nodes that it gains join it if there is room. Otherwise the whole job moves if any collector has room for it.
//   - No collector exceeds LMax while all jobs together fit: the sum of the loads is at most collectors * LMax. If
//     nodes differ in weight, one may be heavier than the room of every collector. A collector that is beyond LMax
//     because loads grew gives away the fewest jobs that bring it below.
//   - The heaviest job comes first. It goes whole to one collector if any has room for it: the collector with the
//     least total distance, then the least load, then the lowest number. So the total distance is the least possible
//     if loads are low.
//   - A job that fits no collector is split over as few as possible. Collectors that are home to most of its nodes
//     come first, and as many nodes as fit stay at home.
//   - If the jobs do not fit, Overloaded is set, and Needed is the number of collectors of LMax that would do. The
//     bound is then the mean load, so that the jobs are spread evenly. An eighth is added once jobs have collectors:
//     without it every change of a load would split jobs.
//
// Lost collectors take nothing, and their load is placed anew. At least one collector is left.
func placeBounded(l *Layout, tasks []Task, lim Limits) Assignment {
	a := &placer{field: newField(l), tasks: tasks, lost: lim.lost, still: lim.Still}
	a.b.Placed = make([]Placement, len(tasks))
	a.limit(a.locals(lim.LocalMax), int64(lim.LMax))
	waiting := a.keep()
	slices.SortFunc(waiting, func(x, y int32) int {
		return cmp.Or(cmp.Compare(tasks[y].load(), tasks[x].load()), cmp.Compare(x, y))
	})
	for _, j := range slices.Compact(waiting) {
		a.place(&tasks[j], &a.b.Placed[j])
	}
	for c, lost := range lim.lost {
		if lost {
			a.load[c] = 0
		}
	}
	a.b.Load = a.load
	return a.b
}

// placer is the state of placeBounded.
type placer struct {
	*field
	tasks []Task
	lost  []bool // of each collector; nil: none
	still bool   // no job leaves a collector because of its load
	bound int64
	b     Assignment
}

func (a *placer) isLost(c int32) bool {
	return c < 0 || int(c) >= len(a.load) || a.lost != nil && a.lost[c]
}

// locals decides which jobs of one node are reduced there, and returns the load of all others.
func (a *placer) locals(most int) (total int64) {
	count := 0
	reduce := func(j int) {
		count++
		n := a.tasks[j].Nodes[0]
		a.b.Placed[j] = Placement{Local: true, At: a.Home[n : n+1 : n+1]}
	}
	for j := range a.tasks {
		if t := &a.tasks[j]; len(t.Nodes) == 1 && (most == 0 || t.Local && count < most) {
			reduce(j)
		} else {
			total += t.load()
		}
	}
	for j := range a.tasks {
		if count >= most { // or all of them
			break
		}
		if t := &a.tasks[j]; len(t.Nodes) == 1 && !a.b.Placed[j].Local {
			reduce(j)
			total -= t.load()
		}
	}
	return total
}

// limit sets the bound for a total load.
func (a *placer) limit(total, lMax int64) {
	collectors := int64(len(a.load))
	for _, lost := range a.lost {
		if lost {
			collectors--
		}
	}
	a.b.Needed = int((total + lMax - 1) / lMax)
	a.b.Overloaded = int64(a.b.Needed) > collectors
	a.bound = lMax
	if a.b.Overloaded {
		a.bound = (total + collectors - 1) / collectors
		if slices.ContainsFunc(a.tasks, func(t Task) bool { return t.Last != nil }) {
			a.bound += a.bound / 8
		}
	}
}

// keep leaves jobs at their collectors, and returns the jobs to be placed, in whole or in part.
func (a *placer) keep() (waiting []int32) {
	for j := range a.tasks {
		if a.b.Placed[j].Local {
			continue
		}
		at, whole := a.stay(&a.tasks[j])
		a.b.Placed[j].At = at
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

// stay adds the load of a task to its previous collectors. It returns them, nil for a new task, and whether they cover
// every node.
func (a *placer) stay(t *Task) (at []int32, whole bool) {
	at, whole = t.Last, t.Last != nil
	// Neighbours mostly have one collector. Adding a run of them at once halves the time of a plan at 2 % churn.
	run, load := int32(None), int64(0)
	for i, c := range t.Last {
		if c == run && c != None {
			load += t.PerNode
			continue
		}
		if run != None {
			a.load[run] += load
		}
		run, load = c, t.PerNode
		if a.isLost(c) {
			if whole {
				at, whole = slices.Clone(at), false
			}
			at[i], run = None, None
		}
	}
	if run != None {
		a.load[run] += load
	}
	return at, whole
}

// relieve takes jobs, or nodes of split jobs, from collectors beyond the bound. Each time it takes the lightest share
// that is enough, or the heaviest if none is.
func (a *placer) relieve() (moved []int32) {
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
		for i, c := range a.b.Placed[j].At {
			if a.b.Placed[j].Local || c < 0 || a.load[c] <= a.bound {
				continue
			}
			if n := len(shares[c]); n == 0 || shares[c][n-1].j != int32(j) {
				shares[c] = append(shares[c], share{j: int32(j)})
			}
			s := &shares[c][len(shares[c])-1]
			s.load += a.tasks[j].PerNode
			s.at = append(s.at, int32(i))
		}
	}
	for c, of := range shares {
		slices.SortStableFunc(of, func(x, y share) int { return cmp.Compare(x.load, y.load) })
		for a.load[c] > a.bound && len(of) > 0 {
			excess := a.load[c] - a.bound
			enough, _ := slices.BinarySearchFunc(of, excess, func(s share, excess int64) int {
				return cmp.Compare(s.load, excess)
			})
			i := min(enough, len(of)-1)
			a.release(of[i].j, of[i].at, excess)
			moved = append(moved, of[i].j)
			of = slices.Delete(of, i, i+1)
		}
	}
	slices.Sort(moved)
	return slices.DeleteFunc(slices.Compact(moved), func(j int32) bool {
		return !slices.Contains(a.b.Placed[j].At, None)
	})
}

// release takes nodes of a task from their collector: the whole task if it is entirely there, otherwise just
// enough nodes to remove the excess.
func (a *placer) release(j int32, at []int32, excess int64) {
	t, p := &a.tasks[j], &a.b.Placed[j]
	if len(t.Last) > 0 && &p.At[0] == &t.Last[0] {
		p.At = slices.Clone(p.At) // not the caller's
	}
	whole := len(at) == len(t.Nodes)
	for _, i := range at {
		if whole || excess > 0 {
			a.load[p.At[i]] -= t.PerNode
			p.At[i] = None
			excess -= t.PerNode
		}
	}
}

// place gives a collector to each node of a task that lacks one.
func (a *placer) place(t *Task, p *Placement) {
	if p.At == nil {
		p.At = make([]int32, len(t.Nodes))
		for i := range p.At {
			p.At[i] = None
		}
	}
	missing, only, parts := 0, int32(None), 0
	for _, c := range p.At {
		switch {
		case c == None:
			missing++
		case c != only:
			only = c
			parts++
		}
	}
	c := only
	if parts > 1 {
		c = None
	} else if parts == 0 || a.load[c]+int64(missing)*t.PerNode > a.bound {
		a.begin(t.Nodes)
		c = a.nearest(len(t.Nodes), t.load())
		a.end()
	}
	if c == None {
		a.split(t, p.At)
		return
	}
	for i, old := range p.At {
		if old != c {
			if old != None {
				a.add(old, -t.PerNode)
			}
			a.load[c] += t.PerNode
			p.At[i] = c
		}
	}
	a.add(c, 0)
}

// nearest returns the best collector with room for a whole job: the least distance counts first, then the least load,
// then the lowest number. It returns None if no collector has room.
func (a *placer) nearest(nodes int, load int64) int32 {
	best := int32(None)
	a.candidates(func(c int32) {
		if a.load[c]+load > a.bound {
			return
		}
		if best == None || cmp.Or(cmp.Compare(a.distance(c, nodes), a.distance(best, nodes)),
			cmp.Compare(a.load[c], a.load[best]), cmp.Compare(c, best)) < 0 {
			best = c
		}
	})
	return best
}
