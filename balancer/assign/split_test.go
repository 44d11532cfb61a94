package assign

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// chooseLiterally is choose, collector by collector: with each it looks at all others again.
func chooseLiterally(a *placer, room func(int32) int, has map[int32]int, left int) (chosen []int32) {
	var free []int32
	for c := range int32(len(a.load)) {
		if _, known := has[c]; !known && room(c) > 0 {
			free = append(free, c)
		}
	}
	slices.SortFunc(free, func(x, y int32) int { return cmp.Or(cmp.Compare(a.load[x], a.load[y]), cmp.Compare(x, y)) })
	for left > 0 && len(free) > 0 {
		count, sum := 0, 0 // the fewest, and what they hold without the smallest of them
		for ; count < len(free) && sum+room(free[count]) < left; count++ {
			sum += room(free[count])
		}
		best := 0
		for i, x := range free {
			if i > count && sum+room(x) < left {
				break // one more would be needed with it
			}
			y := free[best]
			order := cmp.Compare(min(a.own[x], room(x)), min(a.own[y], room(y)))
			for _, at := range slices.Backward(a.above) {
				order = cmp.Or(order, cmp.Compare(min(at.near[at.of[x]], room(x)), min(at.near[at.of[y]], room(y))))
			}
			if cmp.Or(order, cmp.Compare(a.load[y], a.load[x]), cmp.Compare(y, x)) > 0 {
				best = i
			}
		}
		chosen = append(chosen, free[best])
		left -= room(free[best])
		free = slices.Delete(free, best, best+1)
	}
	return chosen
}

func TestChooseEqualsLiteral(t *testing.T) {
	split := 0
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 12))
		nodes, collectors := 1+r.IntN(120), 1+r.IntN(30)
		a := &placer{field: newField(randomLayout(r, nodes, collectors)), bound: int64(1 + r.IntN(40))}
		for c := range a.load {
			a.load[c] = int64(r.IntN(int(a.bound) + 2))
		}
		a.build()
		has := map[int32]int{}
		for range r.IntN(3) {
			has[int32(r.IntN(collectors))] = 1
		}
		perNode := int64(1 + r.IntN(3)*r.IntN(3))
		room := func(c int32) int { return int(max(0, a.bound-a.load[c]) / perNode) }
		var job []int32
		for n := range int32(nodes) {
			if r.IntN(3) > 0 {
				job = append(job, n)
			}
		}
		a.begin(job)
		left := len(job) - r.IntN(5)
		want, got := chooseLiterally(a, room, has, left), a.choose(room, has, left)
		if !slices.Equal(want, got) {
			t.Fatalf("seed %d: %d of %d nodes left, want %v, got %v", seed, left, nodes, want, got)
		}
		if len(got) > 1 {
			split++
		}
	}
	if split < 5000 {
		t.Errorf("several collectors in %d cases", split)
	}
}

// TestSplitStaysBelowItsSyncAgent: of the nodes that find no room at home those have another collector of their
// SyncAgent that can.
func TestSplitStaysBelowItsSyncAgent(t *testing.T) {
	l := regular(16, 4, 2, 4) // collectors 0 and 1, 2 and 3 below one SyncAgent
	l.Home = []int32{0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 1, 1, 3, 3}
	all := Task{PerNode: 1}
	for n := range int32(16) {
		all.Nodes = append(all.Nodes, n)
	}
	b := placeBounded(l, []Task{all}, Limits{LMax: 4})
	for i, c := range b.Placed[0].At {
		if l.Sync[c] != l.Sync[l.Home[i]] {
			t.Errorf("node %d, at home at collector %d, is at %d", i, l.Home[i], c)
		}
	}
}

// TestReliefIsNoMoreThanNeeded: a collector that is beyond the bound gives away as many nodes of a split job as
// it takes.
func TestReliefIsNoMoreThanNeeded(t *testing.T) {
	l := regular(20, 10, 1, 2)
	split := Task{PerNode: 1}
	for n := range int32(12) {
		split.Nodes, split.Last = append(split.Nodes, n), append(split.Last, n/11) // eleven and one
	}
	last := slices.Clone(split.Last)
	b := placeBounded(l, []Task{split}, Limits{LMax: 9})
	moved := 0
	for i, c := range b.Placed[0].At {
		if c != last[i] {
			moved++
		}
	}
	if moved != 2 || !slices.Equal(split.Last, last) {
		t.Errorf("%d nodes moved: %v", moved, b.Placed[0].At)
	}
}
