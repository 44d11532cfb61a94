package assign

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
)

// split spreads the nodes without a collector over the collectors of the job, then over as few more as hold the rest.
// Its time is near-linear in the nodes of the job.
func (a *placer) split(t *Task, at []int32) {
	room := func(c int32) int { return int(max(0, a.bound-a.load[c]) / t.PerNode) }
	var nodes, chosen []int32 // nodes without a collector; collectors
	rooms := map[int32]int{}  // of the chosen
	left := 0                 // nodes for which the chosen have no room
	for i, c := range at {
		if c == None {
			nodes = append(nodes, t.Nodes[i])
			left++
		} else if _, known := rooms[c]; !known {
			rooms[c] = room(c)
			chosen = append(chosen, c)
			left -= rooms[c]
		}
	}
	a.begin(nodes)
	for _, c := range a.choose(room, rooms, left) {
		rooms[c] = room(c)
		chosen = append(chosen, c)
	}
	a.end()
	a.fill(t, at, chosen, rooms)
}

// fill gives each node without a collector one of the chosen. As many nodes as fit stay at home, then as many as fit
// stay under each vertex above it, the nearest first. The rest goes anywhere.
func (a *placer) fill(t *Task, at, chosen []int32, rooms map[int32]int) {
	give := func(i int, c int32) {
		at[i] = c
		rooms[c]--
		a.add(c, t.PerNode)
	}
	next := func(queue []int32) []int32 { // from the first with room
		for len(queue) > 0 && rooms[queue[0]] <= 0 {
			queue = queue[1:]
		}
		return queue
	}
	for i, n := range t.Nodes {
		if home := a.Home[n]; at[i] == None && rooms[home] > 0 {
			give(i, home)
		}
	}
	for k := len(a.above) - 1; k >= 0; k-- {
		of, under := a.above[k].of, map[int32][]int32{} // the chosen, by vertex
		for _, c := range chosen {
			under[of[c]] = append(under[of[c]], c)
		}
		for i, n := range t.Nodes {
			if at[i] != None {
				continue
			}
			v := of[a.Home[n]]
			if under[v] = next(under[v]); len(under[v]) > 0 {
				give(i, under[v][0])
			}
		}
	}
	for i := range at {
		if at[i] != None {
			continue
		}
		if chosen = next(chosen); len(chosen) > 0 {
			give(i, chosen[0])
		} else { // the node is heavier than the room of any collector: the bound is exceeded by less than one node
			at[i] = a.least[1]
			a.add(at[i], t.PerNode)
		}
	}
}

// choose returns the smallest set of additional collectors whose room holds the rest of the job, or every collector
// with room if none suffices. Of equally small sets it builds the best one, collector by collector. The first criterion
// is the number of nodes that the collector is home to and has room for. Then follow the nodes under each vertex above
// it, counted in the same way, the nearest vertex first, the least load, and the lowest number.
func (a *placer) choose(room func(c int32) int, has map[int32]int, left int) []int32 {
	p := &pick{room: room, at: map[int32]int{}}
	for it := a.byLoad(1); p.sum < left; {
		c := it.next()
		if c == None || room(c) == 0 {
			break // not even all suffice
		}
		if _, known := has[c]; !known {
			p.at[c] = len(p.most)
			p.most = append(p.most, c)
			p.sum += room(c)
		}
	}
	p.fixed, p.places, p.spare = make([]bool, len(p.most)), len(p.most), p.sum-left

	own := func(c int32) int { return min(a.own[c], room(c)) }
	nearer := func(x, y int32, lowest int) int { // by the levels from the lowest up
		for k := lowest; k >= 0; k-- {
			at := &a.above[k]
			if order := cmp.Compare(min(at.near[at.of[y]], room(y)), min(at.near[at.of[x]], room(x))); order != 0 {
				return order
			}
		}
		return cmp.Or(cmp.Compare(a.load[x], a.load[y]), cmp.Compare(x, y))
	}
	homes := slices.DeleteFunc(slices.Clone(a.owners), func(c int32) bool {
		_, known := has[c]
		return known || room(c) == 0
	})
	slices.SortFunc(homes, func(x, y int32) int {
		return cmp.Or(cmp.Compare(own(y), own(x)), nearer(x, y, len(a.above)-1))
	})
	for _, c := range homes {
		p.try(c)
	}
	tried := maps.Clone(has)
	for k := len(a.above) - 1; k >= 0; k-- {
		a.chooseBelow(&a.above[k], p, tried, func(x, y int32) bool { return nearer(x, y, k) < 0 })
	}
	for i, c := range p.most[:p.places] {
		if !p.fixed[i] {
			p.chosen = append(p.chosen, c)
		}
	}
	return p.chosen
}

// chooseBelow tries the collectors under the vertices of a level that are above nodes of the job. Collectors that it
// chooses count as tried.
func (a *placer) chooseBelow(at *level, p *pick, tried map[int32]int, less func(x, y int32) bool) {
	// Under each vertex the collector with the most room comes first. Once a collector's room does not suffice, no
	// later one suffices.
	queues := queue[*candidate]{less: func(x, y *candidate) bool { return less(x.c, y.c) }}
	for _, v := range at.touched {
		b := &candidate{it: a.byLoad(slices.Collect(a.below(at, v))...)}
		if b.c = b.it.next(); b.c != None {
			heap.Push(&queues, b)
		}
	}
	for len(queues.of) > 0 && p.places > 0 {
		b := queues.of[0]
		_, known := tried[b.c]
		more := p.room(b.c) > 0
		if more && !known && a.own[b.c] == 0 {
			if more = p.try(b.c); more {
				tried[b.c] = 0
			}
		}
		if b.c = b.it.next(); more && b.c != None {
			heap.Fix(&queues, 0)
		} else {
			heap.Pop(&queues)
		}
	}
}

// pick takes collectors one by one. Invariant: the chosen ones together with the rest of most[:places] are the
// fewest possible and hold the rest of the job.
type pick struct {
	room   func(c int32) int
	most   []int32       // the fewest collectors that hold the rest, by descending room
	at     map[int32]int // of each, its index in most
	sum    int           // of their rooms
	chosen []int32
	fixed  []bool // which of most were chosen
	places int    // collectors of most from this index on were chosen, or gave their place to others
	spare  int    // room that is not needed
}

// try chooses a collector if the room suffices with it. A collector of most always does. Another one takes the place
// of the last in most if there is spare room for the difference.
func (p *pick) try(c int32) bool {
	if i, among := p.at[c]; among && i < p.places {
		p.fixed[i] = true
		p.chosen = append(p.chosen, c)
		p.shrink()
		return true
	}
	if p.places == 0 {
		return false
	}
	loss := p.room(p.most[p.places-1]) - p.room(c)
	if loss > p.spare {
		return false
	}
	p.spare -= loss
	p.chosen = append(p.chosen, c)
	p.places--
	p.shrink()
	return true
}

// shrink drops places from the end until the last one is not chosen.
func (p *pick) shrink() {
	for p.places > 0 && p.fixed[p.places-1] {
		p.places--
	}
}

// candidate is the next collector to try under a vertex, followed by the others.
type candidate struct {
	it *byLoad
	c  int32
}
