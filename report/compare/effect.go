package compare

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/report/view"
)

// Metric is a metric that both jobs have. Effect is its certain difference at the decile where it is largest,
// or at the median if it is hardly smaller there.
//
// A difference is certain if the bounds of a decile do not overlap: no value that the bounds allow makes it vanish. It
// is a statement about the measured values of these two runs. Two runs of one program differ by chance too, and no
// bound shows by how much.
type Metric struct {
	Name, Unit, Scope string
	Totals            [2]*view.Total
	At                int     // the decile of the effect, from 1 to 9; Mean: the mean
	Effect            float64 // above 0 if the second job has more; 0: no certain difference
	OtherLength       bool    // the intervals differ in length, so only means are compared
}

// Mean stands for the mean in place of a decile.
const Mean = -1

// LeastEffect is the effect from which a difference is shown as a change: 2 points of a share, or 2 % of a value.
const LeastEffect = 0.02

// nearMost is the part of the largest effect from which the median's effect is taken, since people know medians best.
const nearMost = 0.9

// rounding is the relative error of a mean, which is a sum of all values.
const rounding = 1e-9

// Value returns the number of each job that the effect is about.
func (m *Metric) Value() (v [2]float64) {
	for i, t := range m.Totals {
		if v[i] = t.Mean; m.At != Mean {
			v[i] = t.D[m.At]
		}
	}
	return v
}

// Share reports whether the values are shares, so that they are compared in points.
func (m *Metric) Share() bool { return m.Unit == "s/s" || view.TextOf(m.Name).Percent }

// metrics finds the common metrics, and the certain difference of each.
func (c *Comparison) metrics() {
	a, b := c.Jobs[0], c.Jobs[1]
	for i := range a.Metrics {
		if of := &a.Metrics[i]; of.Total.Count > 0 {
			if other := same(b, of); other != nil {
				c.Metrics = append(c.Metrics, differ(of, other))
			} else {
				c.Only[0] = append(c.Only[0], of.Name)
			}
		}
	}
	for i := range b.Metrics {
		if of := &b.Metrics[i]; of.Total.Count > 0 && same(a, of) == nil {
			c.Only[1] = append(c.Only[1], of.Name)
		}
	}
	slices.SortStableFunc(c.Metrics, func(a, b Metric) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Effect), math.Abs(a.Effect)), strings.Compare(a.Name, b.Name),
			strings.Compare(a.Scope, b.Scope), strings.Compare(a.Unit, b.Unit))
	})
}

// same returns the metric of a job with the name, unit and scope of another, if it has values.
func same(j *view.Job, of *view.Metric) *view.Metric {
	for i := range j.Metrics {
		m := &j.Metrics[i]
		if m.Name == of.Name && m.Unit == of.Unit && m.Scope == of.Scope && m.Total.Count > 0 {
			return m
		}
	}
	return nil
}

// differ finds where two jobs differ most in a metric. The smallest and the largest value are left out, since one value
// alone moves them.
func differ(a, b *view.Metric) Metric {
	m := Metric{Name: a.Name, Unit: a.Unit, Scope: a.Scope, Totals: [2]*view.Total{&a.Total, &b.Total}, At: 5}
	m.OtherLength = otherLength(&a.Total, &b.Total)
	var median Metric
	if a.Total.Known && b.Total.Known && !m.OtherLength {
		for _, k := range []int{5, 1, 9, 2, 8, 3, 7, 4, 6} { // of equal effects, the first counts
			m.consider(k, bounds{a.Total.Lo[k], a.Total.Hi[k]}, bounds{b.Total.Lo[k], b.Total.Hi[k]})
			if k == 5 {
				median = m
			}
		}
	}
	m.consider(Mean, around(a.Total.Mean), around(b.Total.Mean))
	if median.At == 5 && math.Abs(median.Effect) >= nearMost*math.Abs(m.Effect) {
		m.At, m.Effect = median.At, median.Effect
	}
	return m
}

// bounds hold a number for certain.
type bounds struct{ lo, hi float64 }

func around(mean float64) bounds {
	e := math.Abs(mean) * rounding
	return bounds{mean - e, mean + e}
}

// consider takes the difference at a decile, if it is the largest yet.
func (m *Metric) consider(at int, a, b bounds) {
	if e := m.effect(a, b); math.Abs(e) > math.Abs(m.Effect) {
		m.At, m.Effect = at, e
	}
}

// effect is the gap between bounds: in points for a share, otherwise as a part of the larger value. Values that are
// small for their unit count as if they were larger, so that a few bytes in place of none are no change.
func (m *Metric) effect(a, b bounds) float64 {
	gap := 0.0
	switch {
	case a.hi < b.lo:
		gap = b.lo - a.hi
	case b.hi < a.lo:
		gap = b.hi - a.lo
	}
	if gap == 0 {
		return 0
	}
	size := 1.0
	if !m.Share() {
		size = max(math.Abs(a.lo), math.Abs(a.hi), math.Abs(b.lo), math.Abs(b.hi), least(m.Unit))
	}
	if e := gap / size; !math.IsNaN(e) && !math.IsInf(e, 0) {
		return e
	}
	return 0
}

// least is the value of a unit below which nobody looks for a change.
func least(unit string) float64 {
	switch unit {
	case "B/s":
		return 1e6
	case "B":
		return 1e8
	case "1/s":
		return 10
	case "FLOP/s":
		return 1e7
	case "W":
		return 1
	case "degC":
		return 10
	}
	return 0
}

// otherLength reports whether the intervals of two totals differ in length. A longer interval averages more, so its
// deciles are closer together.
func otherLength(a, b *view.Total) bool {
	if a.Of.Measured == 0 || b.Of.Measured == 0 {
		return false
	}
	x, y := a.Of.MeasuredS/float64(a.Of.Measured), b.Of.MeasuredS/float64(b.Of.Measured)
	return math.Abs(x-y) > 0.01*max(x, y)
}
