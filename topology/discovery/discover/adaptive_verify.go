package discover

import (
	"math"
	"slices"
)

// recheck measures anew whether small groups are part of others. A wrong member may have parted them, and it is gone.
func (g *grouping) recheck(ask asking) bool {
	var sizes []int
	for _, m := range g.groups {
		if len(m) > 0 {
			sizes = append(sizes, len(m))
		}
	}
	slices.Sort(sizes)
	few := max(3, sizes[len(sizes)/2]*3/4)
	for len(sizes) > 100 && sizes[len(sizes)/8] < few {
		few /= 2 // each group of many is too much to measure
	}
	for i, m := range g.groups {
		for j := range g.groups {
			if len(m) > 0 && len(m) < few && j != i {
				g.cross[keyOf(i, j)] = 0
			}
		}
	}
	return g.separate(ask)
}

// verify measures random pairs inside all groups that have new members. They are new, so the choice of the groups did
// not select them. If few members are new, few others are measured with them.
func (g *grouping) verify(ask asking) bool {
	fresh := make([][]int, len(g.groups))
	for _, v := range g.joined {
		at := g.a.group[v]
		fresh[at] = append(fresh[at], v)
	}
	g.joined = nil
	var sets [][]int
	before := map[int]int{}
	for i, m := range g.groups {
		if len(fresh[i]) == 0 || len(m) < 2 {
			continue
		}
		set := m
		if most := max(smallSet, 2*len(fresh[i])); most < len(m) {
			set = slices.Clone(fresh[i])
			for len(set) < most {
				if v := m[g.a.rng.IntN(len(m))]; !slices.Contains(set, v) {
					set = append(set, v)
				}
			}
		}
		sets = append(sets, set)
		for _, v := range fresh[i] {
			before[v] = len(g.a.samples[v])
			g.fresh[v] = 0
		}
	}
	if !g.a.sampleInside(sets, ask) {
		return false
	}
	for v, from := range before {
		for _, s := range g.a.samples[v][from:] {
			g.fresh[v] += g.levels.ratio(s.ln, g.first)
		}
	}
	return true
}

// misfits returns nodes with a place that the random pairs contradict, and the nodes of tiny groups if they are rare.
func (g *grouping) misfits(tiny bool) []int {
	var out, small []int
	for _, m := range g.groups {
		if len(m) <= 2 {
			small = append(small, m...)
			continue
		}
		for _, v := range m {
			if g.fresh[v] < 0 {
				out = append(out, v)
			}
		}
	}
	if tiny && len(small)*10 <= g.size {
		out = append(out, small...)
	}
	slices.Sort(out)
	return out
}

// remove makes a node of a group a seeker. Its earlier measurements do not count.
func (g *grouping) remove(v int) {
	i := g.a.group[v]
	at := slices.Index(g.groups[i], v)
	g.groups[i] = slices.Delete(g.groups[i], at, at+1)
	g.placed--
	g.seek(v)
}

// margin returns the evidence of the latencies inside a group for it, in nats, less the cost of choosing its members.
func (g *grouping) margin(group []int) float64 {
	sum := 0.0
	for _, v := range group {
		for _, s := range g.a.samples[v] {
			if v < s.with && g.a.set[s.with] == g.a.set[v] && g.a.group[s.with] == g.a.group[v] {
				sum += g.levels.ratio(s.ln, g.first)
			}
		}
	}
	return sum - math.Log(float64(g.size))
}
