package discover

import (
	"math"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// grouping divides a set of nodes into groups. The latency of two nodes is below the highest level if and only if they
// are in one group.
type grouping struct {
	a      *adaptive
	levels levels
	first  int // levels below this one are inside groups
	size   int

	groups  [][]int // members; empty if it was merged into another
	seekers []*seeker
	cross   map[[2]int]float64 // nats for that two groups are one; the lower number first
	fresh   map[int]float64    // nats for the place of each node from the random pairs
	joined  []int              // nodes that were placed since the last verification
	placed  int
	failed  bool
}

// seeker is a node that looks for its group.
type seeker struct {
	node  int
	score []float64 // by group: nats for that it is in it
	tries int
}

// Odds, as ln, from which a node belongs to a group and two groups are one. Verification finds the few nodes that are
// in a wrong group, but it does not divide groups.
const (
	acceptNats = 6.5
	mergeNats  = 9
)

// fewMembers is the size below which a group is new. Seekers do not wait until they have tested each new group. They
// start another one, and measurements between the two show whether they are one.
const fewMembers = 3

func newGrouping(a *adaptive, p *part, first int) *grouping {
	g := &grouping{
		a: a, levels: p.top, first: first, size: len(p.nodes), cross: map[[2]int]float64{}, fresh: map[int]float64{},
	}
	for _, i := range a.rng.Perm(len(p.nodes)) {
		g.seek(p.nodes[i])
	}
	return g
}

// seek makes a node a seeker.
func (g *grouping) seek(v int) {
	g.a.group[v] = -1
	s := &seeker{node: v, score: make([]float64, len(g.groups))}
	g.seekers = append(g.seekers, s)
	g.a.seeking[v] = s
}

// rejectNats is the ln of the odds from which a node does not belong to a group. A new group becomes less probable the
// more nodes have a place.
func (g *grouping) rejectNats() float64 { return -7 - math.Log(1+float64(g.placed)) }

// run finds the groups, and verifies them. It returns false if it must end.
func (g *grouping) run(ask asking) bool {
	if !g.place(ask) {
		return false
	}
	for sweep := range 3 {
		if !g.verify(ask) {
			return false
		}
		out := g.misfits(sweep == 0)
		if len(out) > 3 && len(out)*8 > g.size {
			g.failed = true
			return true
		}
		if len(out) == 0 || sweep == 2 {
			g.a.doubtful += len(out)
			return g.recheck(ask)
		}
		for _, v := range out {
			g.remove(v)
		}
		if !g.place(ask) {
			return false
		}
	}
	return true
}

// found reports whether there are groups: more than one, and not of single nodes alone.
func (g *grouping) found() bool {
	groups, nodes := 0, 0
	for _, m := range g.groups {
		if len(m) > 0 {
			groups++
			nodes = max(nodes, len(m))
		}
	}
	return !g.failed && groups > 1 && nodes > 1
}

// place asks until every seeker is in a group.
func (g *grouping) place(ask asking) bool {
	for len(g.seekers) > 0 {
		g.decide()
		round, tests := g.round()
		if len(round) == 0 {
			continue
		}
		us, more := ask(round)
		if !more {
			return false
		}
		for i, t := range tests {
			g.learn(t, round[i], us[i])
		}
	}
	return g.separate(ask)
}

// test is why a pair is measured: for a seeker, or to know whether two groups are one.
type test struct {
	seeker *seeker // nil if it is for groups
	groups [2]int
}

// learn uses ln of the latency of a pair.
func (g *grouping) learn(t test, p latency.Pair, ln float64) {
	if t.seeker != nil {
		t.seeker.tries++
	}
	switch {
	case math.IsNaN(ln):
	case t.seeker != nil:
		other := p.A + p.B - t.seeker.node
		t.seeker.score[g.a.group[other]] += g.levels.ratio(ln, g.first)
	default:
		g.cross[t.groups] += g.levels.ratio(ln, g.first)
		if g.cross[t.groups] > mergeNats {
			g.merge(t.groups[0], t.groups[1])
		}
	}
}

// separate measures between groups until all are known to be different, or one.
func (g *grouping) separate(ask asking) bool {
	const tries = 30
	for range tries {
		round, tests := g.between(len(g.a.samples), g.a.rounds+1)
		if len(round) == 0 {
			return true
		}
		us, more := ask(round)
		if !more {
			return false
		}
		for i, t := range tests {
			g.learn(t, round[i], us[i])
		}
	}
	return true
}

// between returns pairs between groups that may or may not be one. One of the two groups has fewer members than most.
func (g *grouping) between(most, stamp int) (round []latency.Pair, tests []test) {
	for i, m := range g.groups {
		if len(m) == 0 || len(m) >= most {
			continue
		}
		for j, other := range g.groups {
			key := keyOf(i, j)
			if i == j || len(other) == 0 || j < i && len(other) < most || g.cross[key] < differentNats {
				continue
			}
			x, y := g.free(i, stamp), g.free(j, stamp)
			if x >= 0 && y >= 0 {
				g.a.busy[x], g.a.busy[y] = stamp, stamp
				round, tests = append(round, pairOf(x, y)), append(tests, test{groups: key})
			}
		}
	}
	return round, tests
}

// differentNats is the ln of the odds from which two groups are different. One outlier does not decide it.
const differentNats = -9

// free returns a random member of a group that is not measured in a round, -1 if three are.
func (g *grouping) free(group, stamp int) int {
	m := g.groups[group]
	for range 3 {
		if v := m[g.a.rng.IntN(len(m))]; g.a.busy[v] != stamp {
			return v
		}
	}
	return -1
}

// merge makes two groups one.
func (g *grouping) merge(to, from int) {
	to, from = min(to, from), max(to, from)
	if len(g.groups[to]) == 0 || len(g.groups[from]) == 0 {
		return
	}
	for _, v := range g.groups[from] {
		g.a.group[v] = to
	}
	g.groups[to] = append(g.groups[to], g.groups[from]...)
	g.groups[from] = nil
	for _, s := range g.seekers {
		s.score[to] += s.score[from]
	}
	for k := range g.groups {
		if k != to && k != from {
			g.cross[keyOf(k, to)] += g.cross[keyOf(k, from)]
		}
	}
}

func keyOf(i, j int) [2]int { return [2]int{min(i, j), max(i, j)} }

// decide places seekers with clear odds. Few nodes start new groups at a time, because two nodes that belong together
// would start two groups.
func (g *grouping) decide() {
	founders := 1 + g.placed/16
	active := g.active()
	left := make([]*seeker, 0, len(active))
	for _, s := range active {
		best, odds := g.best(s)
		rejected := g.rejectsAll(s)
		switch {
		case best >= 0 && odds >= acceptNats:
			g.join(s, best)
		case rejected && founders > 0:
			founders--
			g.start(s)
		case best >= 0 && s.score[best] >= mergeNats && g.mergeFor(s, best):
			left = append(left, s)
		case s.tries > 60+6*len(g.groups):
			g.a.doubtful++
			if best >= 0 && s.score[best] > 0 {
				g.join(s, best)
			} else {
				g.start(s)
			}
		default:
			left = append(left, s)
		}
	}
	g.seekers = append(left, g.seekers[len(active):]...)
}

// active returns the seekers that may be measured: about twice as many as there are placed nodes to measure them with.
// With more, the others would only test small groups, and wait for the members of these.
func (g *grouping) active() []*seeker { return g.seekers[:min(len(g.seekers), 8+2*g.placed)] }

// rejectsAll reports whether a seeker is in no group that is not new.
func (g *grouping) rejectsAll(s *seeker) bool {
	reject := g.rejectNats()
	for i, m := range g.groups {
		if s.score[i] > 0 && len(m) > 0 || s.score[i] > reject && len(m) >= fewMembers {
			return false
		}
	}
	return true
}

// mergeFor merges the two most probable groups of a seeker if no measurement shows that they differ.
func (g *grouping) mergeFor(s *seeker, best int) bool {
	for i, m := range g.groups {
		if i != best && len(m) > 0 && s.score[i] >= mergeNats && g.cross[keyOf(i, best)] > differentNats {
			g.merge(i, best)
			return true
		}
	}
	return false
}

// best returns the most probable group of a seeker, and ln of its odds against all others and a new one.
func (g *grouping) best(s *seeker) (best int, odds float64) {
	best = -1
	for i, m := range g.groups {
		if len(m) > 0 && (best < 0 || s.score[i] > s.score[best]) {
			best = i
		}
	}
	if best < 0 || s.score[best] < acceptNats {
		return best, 0
	}
	others := 1.0
	for i, m := range g.groups {
		if i != best && len(m) > 0 {
			others += math.Exp(min(s.score[i], 300)) * float64(len(m)) / float64(len(g.groups[best]))
		}
	}
	return best, s.score[best] - math.Log(others)
}

// start makes a seeker the first member of a group.
func (g *grouping) start(s *seeker) {
	g.groups = append(g.groups, nil)
	for _, other := range g.seekers {
		other.score = append(other.score, 0)
	}
	if len(s.score) < len(g.groups) {
		s.score = append(s.score, 0)
	}
	g.join(s, len(g.groups)-1)
}

// join places a seeker in a group, and updates all seekers that were measured with it.
func (g *grouping) join(s *seeker, group int) {
	v := s.node
	g.a.seeking[v] = nil
	g.a.group[v] = group
	g.groups[group] = append(g.groups[group], v)
	g.joined = append(g.joined, v)
	g.placed++
	for _, m := range g.a.samples[v] {
		if g.a.set[m.with] != g.a.set[v] {
			continue // its groups are others
		}
		ratio := g.levels.ratio(m.ln, g.first)
		if other := g.a.seeking[m.with]; other != nil {
			other.score[group] += ratio
		} else if at := g.a.group[m.with]; at >= 0 && at != group {
			g.cross[keyOf(at, group)] += ratio
		}
	}
}

// round returns who is measured with whom: each seeker with a random member of its most probable group, and new groups
// with others.
func (g *grouping) round() (round []latency.Pair, tests []test) {
	a := g.a
	stamp := a.rounds + 1
	round, tests = g.between(fewMembers, stamp)
	active := g.active()
	a.rng.Shuffle(len(active), func(i, j int) { active[i], active[j] = active[j], active[i] })
	reject := g.rejectNats()
	prior := make([]float64, len(g.groups))
	for i, m := range g.groups {
		prior[i] = math.Log(float64(len(m))) / 2
	}
	for _, s := range active {
		if len(round) >= g.placed {
			break
		}
		other := g.partner(s, prior, reject, stamp)
		if other < 0 {
			continue
		}
		a.busy[other], a.busy[s.node] = stamp, stamp
		round, tests = append(round, pairOf(s.node, other)), append(tests, test{seeker: s})
	}
	return round, tests
}

// partner returns a random member of the most probable group, -1 if the seeker must wait. Chance decides between groups
// of about the same probability, so that seekers do not all want the same one.
func (g *grouping) partner(s *seeker, prior []float64, reject float64, stamp int) int {
	best, most := -1, math.Inf(-1)
	for i, score := range s.score {
		if len(g.groups[i]) == 0 || score <= reject {
			continue
		}
		if score += prior[i] + 2*g.a.rng.Float64(); score > most {
			best, most = i, score
		}
	}
	if best < 0 {
		return -1
	}
	return g.free(best, stamp)
}
