package selection

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Star is a metric with the metrics that it represents.
type Star struct {
	Metric  int       // of Design.Metrics
	Members []int     // of Design.Metrics, without Metric itself
	R       []float64 // correlation of each member with Metric, by its weakest column
}

// Stars groups metrics. The metric with the strongest correlation with the responses takes all metrics that depend on
// it, then the next one does, and so on. Metrics of first lead before all others. So each member is close to its own
// representative, not to a chain.
//
// Dependence is the Z-test of the literal method, with the effective number of rows.
func Stars(d *Design, threshold float64, first []int) []Star {
	return stars(d, threshold, first, preference{})
}

func stars(d *Design, threshold float64, first []int, prefer preference) []Star {
	l := newLeaders(d, threshold)
	led := make([]bool, len(d.Metrics))
	order := slices.Clone(first)
	for _, m := range first {
		led[m] = true
	}
	for _, m := range strongest(d, prefer) {
		if !led[m] {
			order = append(order, m)
		}
	}
	var out []Star
	for i, m := range order {
		joined := false
		for s := range out {
			if i < len(first) {
				break // a leading metric joins no other star
			}
			if r, ok := l.dependent(out[s].Metric, m); ok {
				out[s].Members = append(out[s].Members, m)
				out[s].R = append(out[s].R, r)
				joined = true
				break
			}
		}
		if !joined {
			out = append(out, Star{Metric: m})
		}
	}
	return out
}

// strongest returns the metrics by their correlation with the responses, strongest first. Metrics within the width of a
// tie are equal, and the preferred one leads. So a metric that exists in two units does not win by its last digit.
func strongest(d *Design, prefer preference) []int {
	order := make([]int, len(d.Metrics))
	bin := make([]int, len(d.Metrics))
	for m := range order {
		order[m] = m
		if s := d.strength(m); s > 1e-12 {
			bin[m] = int(math.Floor((math.Log(s) + 30) / tie))
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case bin[a] != bin[b]:
			return bin[b] - bin[a]
		case prefer.before(d, a, b, nil):
			return -1
		}
		return 1
	})
	return order
}

// strength returns the largest r² of a column of the metric, summed over responses and over units with own
// coefficients.
func (d *Design) strength(metric int) float64 {
	units := []int{0, len(d.Rows)}
	if d.Joint {
		units = d.units
	}
	sum := 0.
	for _, y := range d.Y {
		for u := range len(units) - 1 {
			best := 0.
			for _, t := range d.Metrics[metric].Terms {
				r := pearson(d.Terms[t].X[units[u]:units[u+1]], y[units[u]:units[u+1]])
				best = max(best, r*r)
			}
			sum += best
		}
	}
	return sum
}

// pearson returns the correlation of two columns without missing values; 0 if one is constant.
func pearson(x, y []float64) float64 {
	n := float64(len(x))
	mx, my := floats.Sum(x)/n, floats.Sum(y)/n
	xx, yy := floats.Dot(x, x)-n*mx*mx, floats.Dot(y, y)-n*my*my
	if !(xx > 1e-12*n) || !(yy > 0) {
		return 0
	}
	return min(1, max(-1, (floats.Dot(x, y)-n*mx*my)/math.Sqrt(xx*yy)))
}

// leaders compares metrics with few products of rows: for uncorrelated columns a part of the rows is enough.
type leaders struct {
	d         *Design
	threshold float64
	rest      [][]float64 // of each term: its norm in the rows from the start of each part on
	cuts      []int
	auto      [][]float64 // autocorrelations of each term, computed on first use
	lags      int
}

func newLeaders(d *Design, threshold float64) *leaders {
	n := len(d.Rows)
	l := &leaders{d: d, threshold: threshold, auto: make([][]float64, len(d.Terms)), lags: min(n/5, 50)}
	parts := max(1, min(16, n/64))
	for p := range parts + 1 {
		l.cuts = append(l.cuts, p*n/parts)
	}
	flat := make([]float64, len(d.Terms)*(parts+1))
	for i, t := range d.Terms {
		rest := flat[i*(parts+1) : (i+1)*(parts+1)]
		for p := parts - 1; p >= 0; p-- {
			x := t.X[l.cuts[p]:l.cuts[p+1]]
			rest[p] = rest[p+1] + floats.Dot(x, x)
		}
		for p := range rest {
			rest[p] = math.Sqrt(rest[p])
		}
		l.rest = append(l.rest, rest)
	}
	return l
}

// dependent reports whether every column of a member depends on the leader's closest column. r is the weakest
// correlation.
func (l *leaders) dependent(leader, member int) (r float64, ok bool) {
	r = 2
	for _, m := range l.d.Metrics[member].Terms {
		if l.d.Terms[m].Scaling.Square {
			continue
		}
		best, found := l.closest(leader, m)
		if !found {
			return 0, false
		}
		if math.Abs(best) < math.Abs(r) {
			r = best
		}
	}
	return r, r <= 1
}

// closest returns the correlation of a term with the leader's column of the same statistic. If the leader lacks that
// statistic, its closest column counts.
func (l *leaders) closest(leader, term int) (best float64, found bool) {
	terms := l.d.Metrics[leader].Terms
	for _, t := range terms {
		if l.d.Terms[t].Statistic == l.d.Terms[term].Statistic && !l.d.Terms[t].Scaling.Square {
			return l.correlated(t, term)
		}
	}
	for _, t := range terms {
		if l.d.Terms[t].Scaling.Square {
			continue
		}
		if v, ok := l.correlated(t, term); ok && (!found || math.Abs(v) > math.Abs(best)) {
			best, found = v, true
		}
	}
	return best, found
}

// correlated returns r of two terms, and reports whether it is above the threshold with 95 % confidence. By Cauchy and
// Schwarz the remaining rows cannot add more than the product of their norms, so most pairs end early.
func (l *leaders) correlated(a, b int) (float64, bool) {
	x, y := l.d.Terms[a].X, l.d.Terms[b].X
	n := float64(len(x))
	sum := 0.
	for p := range len(l.cuts) - 1 {
		if math.Abs(sum)+l.rest[a][p]*l.rest[b][p] < l.threshold*n {
			return 0, false
		}
		sum += floats.Dot(x[l.cuts[p]:l.cuts[p+1]], y[l.cuts[p]:l.cuts[p+1]])
	}
	r := min(1, max(-1, sum/n))
	if math.Abs(r) <= l.threshold {
		return r, false
	}
	return r, significant(r, l.effective(a, b), l.threshold)
}

// zOf95 is the 95 % quantile of the normal distribution.
const zOf95 = 1.6448536269514722

// significant is the Z-test of abs(r) above threshold.
func significant(r, n, threshold float64) bool {
	if n <= 3 || threshold >= 1 {
		return false
	}
	if math.Abs(r) > 1-1e-12 {
		return true
	}
	return (math.Atanh(math.Abs(r))-math.Atanh(threshold))*math.Sqrt(n-3) > zOf95
}

// effective returns Bartlett's number of independent rows: n / (1 + 2 Σ ρa(k)ρb(k)), at most n.
func (l *leaders) effective(a, b int) float64 {
	n := float64(len(l.d.Rows))
	return min(n, n/max(1, 1+2*floats.Dot(l.autocorrelations(a), l.autocorrelations(b))))
}

func (l *leaders) autocorrelations(term int) []float64 {
	if l.auto[term] != nil {
		return l.auto[term]
	}
	auto := make([]float64, l.lags)
	x := l.d.Terms[term].X
	for u := range len(l.d.units) - 1 {
		here := x[l.d.units[u]:l.d.units[u+1]]
		for k := 1; k <= l.lags && k < len(here); k++ {
			auto[k-1] += floats.Dot(here[k:], here[:len(here)-k])
		}
	}
	floats.Scale(1/float64(len(x)), auto)
	l.auto[term] = auto
	return auto
}
