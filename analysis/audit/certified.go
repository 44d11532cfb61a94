package audit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/schemas"
)

// truth bounds a metric's values by the log of counters. The value of each rank lies between low and high, which are
// the same list if all values are known.
type truth struct{ low, high []float64 }

// newTruth takes two sorted lists.
func newTruth(low, high []float64) truth {
	if slices.Equal(low, high) {
		high = low
	}
	return truth{low, high}
}

func (t truth) known() bool { return len(t.low) > 0 && &t.low[0] == &t.high[0] }

// size returns the number of values in memory.
func (t truth) size() int64 {
	if t.known() {
		return int64(len(t.low))
	}
	return int64(len(t.low) + len(t.high))
}

// compareCertified compares the certified summary of a metric with the metric's values.
func (e *expectation) compareCertified(t *Terms, s *schemas.JobSummaryMetric, m *metric, tally *Summaries) error {
	c := s.Certified
	switch {
	case c == nil:
		return missingCertified(t.Sketch)
	case !e.merged && len(c.Atoms)+len(c.OrderStatistics) == 0:
		return errNoOrder
	case m.truth.low == nil:
		tally.unheld++
		return consistent(s.Count, c)
	}
	tally.Certified++
	return m.truth.compare(c)
}

// missingCertified returns an error for a metric with values but no certified summary, unless collect.sketch is 0.
func missingCertified(sketch int) error {
	if sketch == 0 {
		return nil
	}
	return fmt.Errorf("it has no certified summary, and collect.sketch is %d", sketch)
}

// compareCoarser compares a certified summary with the node's, of which it may be a copy or a coarser version.
func compareCoarser(t *Terms, s *schemas.JobSummaryMetric, node *schemas.NodeSummaryMetric, tally *Summaries) error {
	c, n := s.Certified, &node.Certified
	if c == nil {
		return missingCertified(t.Sketch)
	}
	tally.Certified++
	switch {
	case c.Eps == n.Eps && slices.Equal(c.OrderStatistics, n.OrderStatistics) && slices.Equal(c.Knots, n.Knots) &&
		slices.Equal(c.Atoms, n.Atoms):
		return nil
	case c.Eps < n.Eps:
		return fmt.Errorf("eps %v of its certified summary: its node sent %v", c.Eps, n.Eps)
	}
	return newTruth(known(nil, nil, node)).compare(c)
}

// consistent returns an error for a certified summary that contradicts itself or the count.
func consistent(count int64, c *schemas.Certified) error {
	if err := recount.CheckCertified(count, c); err != nil {
		return fmt.Errorf("its certified summary: %w", err)
	}
	return nil
}

// compare checks a certified summary against the values.
func (t truth) compare(c *schemas.Certified) error {
	n := int64(len(t.low))
	if err := consistent(n, c); err != nil {
		return err
	}
	first := int64(1)
	for _, a := range c.Atoms {
		last := first + a.Count - 1
		if a.Value < t.low[last-1] || a.Value > t.high[first-1] {
			return fmt.Errorf("atom %v of %d values, of which the ranks begin at %d: recomputed %s",
				a.Value, a.Count, first, between(t.low[first-1], t.high[last-1]))
		}
		first = last + 1
	}
	if len(c.Atoms) > 0 {
		return nil
	}
	curve := curveOf(n, c)
	for i, k := range curve {
		exact := len(c.OrderStatistics) > 0 || i == 0 || i == len(curve)-1
		if exact && (k.Value < t.low[k.Rank-1] || k.Value > t.high[k.Rank-1]) {
			return fmt.Errorf("%v at rank %d of its certified summary: recomputed %s",
				k.Value, k.Rank, between(t.low[k.Rank-1], t.high[k.Rank-1]))
		}
	}
	if off := t.missed(curve); off > c.Eps+1e-6 {
		return fmt.Errorf("its certified summary misses a value by %v ranks, which is more than eps %v", off, c.Eps)
	}
	return nil
}

// curveOf returns the order statistics and knots of a certified summary that passed its check, by rank.
func curveOf(n int64, c *schemas.Certified) []schemas.Knot {
	curve := make([]schemas.Knot, 0, len(c.Knots)+len(c.OrderStatistics))
	curve = append(curve, c.Knots...)
	for k, v := range c.OrderStatistics {
		curve = append(curve, schemas.Knot{Value: v, Rank: min(max(n*int64(k)/10, 1), n)})
	}
	slices.SortFunc(curve, func(a, b schemas.Knot) int { return cmp.Compare(a.Rank, b.Rank) })
	return slices.CompactFunc(curve, func(a, b schemas.Knot) bool { return a.Rank == b.Rank })
}

// missed returns the greatest distance in ranks between a curve and the values. Equal values span a first and a last
// rank, and a vertical piece of the curve spans ranks too. For values known only by bounds, the distance is the proven
// one: at a lower bound the curve may not lie above the ranks, at an upper bound not below them.
func (t truth) missed(curve []schemas.Knot) (worst float64) {
	known := t.known()
	note := func(off float64) { // max also minds NaN, which takes longer
		if off > worst {
			worst = off
		}
	}
	along(curve, t.low, func(first, last, below, above float64) {
		if note(below - first); known {
			note(first - below)
			note(last - above)
			note(above - last)
		}
	})
	if !known {
		along(curve, t.high, func(_, last, _, above float64) { note(last - above) })
	}
	return worst
}

// along calls at for each distinct value of a sorted list, with the value's first and last rank and the curve's lowest
// and highest rank at that value.
func along(curve []schemas.Knot, sorted []float64, at func(first, last, below, above float64)) {
	next := 0 // the first point at or above the value
	for i := 0; i < len(sorted); {
		v, first := sorted[i], i+1
		for i < len(sorted) && sorted[i] == v {
			i++
		}
		for next < len(curve)-1 && curve[next].Value < v {
			next++
		}
		b := curve[next]
		below := float64(b.Rank)
		above := below
		switch {
		case b.Value == v:
			for j := next; j < len(curve) && curve[j].Value == v; j++ {
				above = float64(curve[j].Rank)
			}
		case next > 0 && b.Value > v:
			a := curve[next-1]
			below = float64(a.Rank) + part(a.Value, b.Value, v)*float64(b.Rank-a.Rank)
			above = below
		}
		at(float64(first), float64(i), below, above)
	}
}

// part returns the fraction of the way from a to b at which v lies.
func part(a, b, v float64) float64 {
	if math.IsInf(b-a, 0) {
		a, b, v = a/2, b/2, v/2
	}
	return (v - a) / (b - a)
}
