package quantile

import (
	"cmp"
	"slices"
)

// Estimate is the result of a merge: the deciles of the union of shares, as far as the shares determine them.
type Estimate struct {
	Count   int64
	Deciles [N]float64

	// Lo and Hi hold the true deciles, always: Lo[k] <= type-4 decile k of all values <= Hi[k].
	Lo, Hi [N]float64

	// RankError bounds, as a fraction of Count, the distance in rank of any estimate from its decile. A value q stands
	// between the ranks #{x < q} and #{x <= q} + 1, and decile k at n·k/10. The bound is the larger distance of the
	// decile from the proven bounds of either rank. It is 0 if Exact, and only then.
	RankError float64

	// Exact is true if Lo, Hi and Deciles are equal: they are the result of Reduce on all values, bit for bit.
	Exact bool

	// Complete is true if the shares hold all their values. Deciles may be exact without it.
	Complete bool
}

// Merge estimates the deciles of the union of shares that passed Check. It is not ok if there is no value, or more than
// MaxCount. Any order of the shares gives the same bits.
//
// The estimate is the value at which the sum of the shares' mid-ranks reaches n·k/10 - 1/2. The sum is linear between
// two neighbouring knots of the union, so its inversion is exact. Shares that are all atoms are merged value by value
// instead, and the result is exact. Pinned by TestMergeOfOneShare, TestMergeIsOrderFree, TestMergeOfAtomsIsExact and
// TestBracketsHoldTheTruth.
func Merge(shares []Summary) (Estimate, bool) {
	m, ok := newMerger(shares, &Joiner{})
	if !ok {
		return Estimate{}, false
	}
	if m.atoms {
		return m.exact(joinAtoms(shares)), true
	}
	e := Estimate{Count: m.count}
	for k := 1; k < N-1; k++ {
		e.Deciles[k] = m.invert(m.count/10*int64(k)*unit + m.count%10*int64(k)*unit/10 - unit/2)
		e.Lo[k], e.Hi[k] = m.bracket(k)
	}
	lo, hi := m.union[0], m.union[len(m.union)-1]
	e.Deciles[0], e.Lo[0], e.Hi[0] = lo, lo, lo
	e.Deciles[N-1], e.Lo[N-1], e.Hi[N-1] = hi, hi, hi
	for k := 1; k < N; k++ { // deciles ascend, so a bound holds for its neighbours
		e.Lo[k] = max(e.Lo[k], e.Lo[k-1])
		e.Hi[N-1-k] = min(e.Hi[N-1-k], e.Hi[N-k])
	}
	for k := range N {
		e.Hi[k] = max(e.Lo[k], e.Hi[k]) // matters only for shares that contradict themselves
		e.Deciles[k] = min(max(e.Deciles[k], e.Lo[k]), e.Hi[k])
		e.RankError = max(e.RankError, m.rankError(k, &e))
	}
	e.Exact = e.Lo == e.Hi
	return e, true
}

// merger is a merge under way: the shares with values, and the standings of all their knots in the union.
type merger struct {
	room   *Joiner
	shares []share
	count  int64
	atoms  bool       // all shares are
	union  []float64  // the values of all knots, each once
	known  []standing // of the union's values, at indices for which asked is true; nil at first
	asked  []bool
}

// newMerger gathers the knots of all shares. Between two neighbours of their union every curve is straight, so their
// sum is too. It returns false if no share has a value, or all together have too many.
func newMerger(summaries []Summary, room *Joiner) (*merger, bool) {
	m := &merger{atoms: true, shares: grown(&room.shares, len(summaries))[:0], room: room}
	most := 0
	for i := range summaries {
		most += len(summaries[i].Order) + len(summaries[i].Knots) + len(summaries[i].Atoms)
	}
	points := grown(&room.points, most)[:0]
	for i := range summaries {
		s := &summaries[i]
		if s.Count == 0 {
			continue
		}
		if m.count += s.Count; m.count > MaxCount {
			return nil, false
		}
		m.shares = append(m.shares, newShare(s, &points))
		m.atoms = m.atoms && len(s.Atoms) > 0
	}
	if m.count == 0 {
		return nil, false
	}
	m.union = grown(&room.union, len(points))
	for i, p := range points {
		m.union[i] = p.Value
	}
	ranks := grown(&room.ranks, len(m.union))
	for i := range ranks {
		ranks[i] = i
	}
	selectRanks(m.union, ranks) // several times as fast as slices.Sort
	m.union = slices.Compact(m.union)
	return m, true
}

// at is the standing of v in the union.
func (m *merger) at(v float64) standing {
	var sum standing
	for i := range m.shares {
		sum.add(m.shares[i].at(v))
	}
	return sum
}

// knot is the standing of the union's i-th value.
func (m *merger) knot(i int) *standing {
	if m.known == nil {
		m.known, m.asked = make([]standing, len(m.union)), make([]bool, len(m.union))
	}
	if !m.asked[i] {
		m.known[i], m.asked[i] = m.at(m.union[i]), true
	}
	return &m.known[i]
}

// first is the index of the first value of the union for which enough is true, or of the last value. enough must be
// monotonic: once true, it stays true.
func (m *merger) first(enough func(*standing) bool) int {
	lo, hi := 0, len(m.union)-1
	for lo < hi {
		if mid := (lo + hi) / 2; enough(m.knot(mid)) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// invert finds the value at which the summed mid-rank reaches target: a knot at which the sum jumps across target,
// otherwise a point between two knots.
func (m *merger) invert(target int64) float64 {
	i := m.first(func(s *standing) bool { return s.above >= target })
	if i == 0 || m.knot(i).below <= target {
		return m.union[i]
	}
	low, high := m.knot(i-1).above, m.knot(i).below
	return lerp(m.union[i-1], m.union[i], float64(target-low)/float64(high-low))
}

// joinAtoms are the atoms of all shares, each value once.
func joinAtoms(shares []Summary) []Atom {
	var all []Atom
	for i := range shares {
		all = append(all, shares[i].Atoms...)
	}
	slices.SortFunc(all, func(a, b Atom) int { return cmp.Compare(a.Value, b.Value) })
	joined := all[:0]
	for _, a := range all {
		if n := len(joined); n > 0 && joined[n-1].Value == a.Value {
			joined[n-1].Count += a.Count
		} else {
			joined = append(joined, Atom{a.Value + 0, a.Count})
		}
	}
	return joined
}

// exact is the merge of shares that consist of atoms, so that all values are known.
func (m *merger) exact(atoms []Atom) Estimate {
	upTo := make([]int64, len(atoms))
	var sum int64
	for i, a := range atoms {
		sum += a.Count
		upTo[i] = sum
	}
	at := func(rank int64) float64 {
		i, _ := slices.BinarySearch(upTo, rank)
		return atoms[i].Value
	}
	e := Estimate{Count: m.count, Exact: true, Complete: true}
	for k := range N {
		j, g := position(m.count, k)
		e.Deciles[k] = lerp(at(max(j, 1)), at(min(j+1, m.count)), g)
		if j < 1 {
			e.Deciles[k] = at(1)
		}
	}
	e.Lo, e.Hi = e.Deciles, e.Deciles
	return e
}
