package assign

import (
	"cmp"
	"container/heap"
	"iter"
	"math/bits"
	"slices"
)

// field is the state of the near-linear algorithms while they place jobs: the load of each collector, and the homes of
// the current job's nodes. Among the collectors that are no home of these nodes, only the least loaded can be the best,
// under each vertex and in all. A tree over the loads finds it in logarithmic time.
type field struct {
	*Layout
	load  []int64 // of each collector
	order []int32 // collectors, sorted so that collectors under a vertex are neighbours
	place []int32 // of each collector in order
	least []int32 // a binary tree over order: the collector below with the least load, then the lowest number

	own    []int   // of each collector: nodes of the current job that are at home there
	owners []int32 // collectors with own > 0
	above  []level // SyncAgents first
}

// level is the vertices of one level above the collectors.
type level struct {
	of      []int32 // of each collector: its vertex
	first   []int32 // of each vertex: the first place of its collectors in order
	end     []int32 // of each vertex: the place after the last
	near    []int   // of each vertex: nodes of the current job that are at home below it
	touched []int32 // vertices with near > 0
}

// newField puts the collectors of each vertex side by side, so that each is a range of the tree that finds the
// lightest.
func newField(l *Layout) *field {
	f := &field{
		Layout: l, load: make([]int64, len(l.Sync)), own: make([]int, len(l.Sync)),
		order: make([]int32, len(l.Sync)), place: make([]int32, len(l.Sync)),
	}
	levels := l.levels()
	for c := range f.order {
		f.order[c] = int32(c)
	}
	slices.SortStableFunc(f.order, func(a, b int32) int {
		for _, of := range levels {
			if of[a] != of[b] {
				return cmp.Compare(of[a], of[b])
			}
		}
		return 0
	})
	for i, c := range f.order {
		f.place[c] = int32(i)
	}
	for _, of := range levels {
		count := vertices(of)
		v := level{of: of, first: make([]int32, count), end: make([]int32, count), near: make([]int, count)}
		for i, c := range f.order {
			if v.end[of[c]] == 0 {
				v.first[of[c]] = int32(i)
			}
			v.end[of[c]] = int32(i + 1)
		}
		f.above = append(f.above, v)
	}
	f.build()
	return f
}

// build rebuilds the tree from the loads.
func (f *field) build() {
	size := 1 << bits.Len(uint(max(1, len(f.order))-1))
	f.least = make([]int32, 2*size)
	for i := range f.least {
		f.least[i] = None
	}
	copy(f.least[size:], f.order)
	for i := size - 1; i > 0; i-- {
		f.least[i] = f.lighter(f.least[2*i], f.least[2*i+1])
	}
}

// lighter decides ties by the number, so that the same jobs always have the same plan. A negative number is no
// collector.
func (f *field) lighter(a, b int32) int32 {
	switch {
	case b < 0:
		return a
	case a < 0:
		return b
	case f.load[b] < f.load[a] || f.load[b] == f.load[a] && b < a:
		return b
	}
	return a
}

// add changes the load of a collector.
func (f *field) add(c int32, load int64) {
	f.load[c] += load
	for i := (len(f.least)/2 + int(f.place[c])) / 2; i > 0; i /= 2 {
		f.least[i] = f.lighter(f.least[2*i], f.least[2*i+1])
	}
}

// leastOf returns the collector with the least load under a vertex of a level, then the lowest number. It returns None
// for a vertex without collectors.
func (f *field) leastOf(at *level, vertex int32) int32 {
	best := int32(None)
	for v := range f.below(at, vertex) {
		best = f.lighter(best, f.least[v])
	}
	return best
}

// below goes through places of the tree over the loads. They are the fewest that cover the collectors under a vertex of
// a level, and no other collector.
func (f *field) below(at *level, vertex int32) iter.Seq[int32] {
	return func(yield func(place int32) bool) {
		low, high := len(f.least)/2+int(at.first[vertex]), len(f.least)/2+int(at.end[vertex])
		for ; low < high; low, high = low/2, high/2 {
			if low&1 == 1 {
				if !yield(int32(low)) {
					return
				}
				low++
			}
			if high&1 == 1 {
				high--
				if !yield(int32(high)) {
					return
				}
			}
		}
	}
}

// begin makes a job the current one.
func (f *field) begin(nodes []int32) {
	for _, n := range nodes {
		c := f.Home[n]
		if f.own[c]++; f.own[c] == 1 {
			f.owners = append(f.owners, c)
		}
	}
	for k := range f.above {
		at := &f.above[k]
		for _, c := range f.owners {
			v := at.of[c]
			if at.near[v] == 0 {
				at.touched = append(at.touched, v)
			}
			at.near[v] += f.own[c]
		}
	}
}

// end resets the current job.
func (f *field) end() {
	for _, c := range f.owners {
		f.own[c] = 0
	}
	for k := range f.above {
		at := &f.above[k]
		for _, v := range at.touched {
			at.near[v] = 0
		}
		at.touched = at.touched[:0]
	}
	f.owners = f.owners[:0]
}

// distance is the total topological distance of a collector from the nodes of the current job. Each node counts one
// less for each vertex that it shares with the collector; see hops.
func (f *field) distance(c int32, nodes int) int {
	distance := (2+len(f.above))*nodes - f.own[c]
	for k := range f.above {
		distance -= f.above[k].near[f.above[k].of[c]]
	}
	return distance
}

// candidates calls try with every collector that can be the best for the current job. It may repeat a collector.
func (f *field) candidates(try func(c int32)) {
	for _, c := range f.owners {
		try(c)
	}
	for k := range f.above {
		for _, v := range f.above[k].touched {
			if c := f.leastOf(&f.above[k], v); c >= 0 {
				try(c)
			}
		}
	}
	try(f.least[1])
}

// byLoad goes through collectors by ascending load, then by number. Loads must not change meanwhile.
type byLoad struct {
	f     *field
	roots queue[int32] // of the subtrees still to visit, the one with the least load first
}

// byLoad goes through the collectors below some vertices of the tree over the loads. No vertex may be below another.
func (f *field) byLoad(roots ...int32) *byLoad {
	it := &byLoad{f: f, roots: queue[int32]{of: roots, less: func(x, y int32) bool {
		a, b := f.least[x], f.least[y]
		return a >= 0 && (b < 0 || f.lighter(a, b) == a)
	}}}
	heap.Init(&it.roots)
	return it
}

// next returns None after the last collector.
func (it *byLoad) next() int32 {
	if len(it.roots.of) == 0 {
		return None
	}
	i := heap.Pop(&it.roots).(int32)
	c := it.f.least[i]
	if c < 0 {
		return None
	}
	for int(i) < len(it.f.least)/2 { // down to the collector; the other subtrees on the way are visited later
		i *= 2
		if it.f.least[i] != c {
			i++
		}
		if it.f.least[i^1] >= 0 {
			heap.Push(&it.roots, i^1)
		}
	}
	return c
}

// queue is a container/heap of anything.
type queue[T any] struct {
	of   []T
	less func(x, y T) bool
}

func (q *queue[T]) Len() int           { return len(q.of) }
func (q *queue[T]) Less(i, k int) bool { return q.less(q.of[i], q.of[k]) }
func (q *queue[T]) Swap(i, k int)      { q.of[i], q.of[k] = q.of[k], q.of[i] }
func (q *queue[T]) Push(x any)         { q.of = append(q.of, x.(T)) }
func (q *queue[T]) Pop() any {
	last := q.of[len(q.of)-1]
	q.of = q.of[:len(q.of)-1]
	return last
}
