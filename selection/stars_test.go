package selection

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// chained is neighbours that depend on each other, and ends that do not.
func chained(n, count int) map[string][]float64 {
	columns := make(map[string][]float64)
	last := normal(10, n)
	for k := range count {
		columns[fmt.Sprintf("m%02d", k)] = slices.Clone(last)
		for i, e := range normal(uint64(20+k), n) {
			last[i] = .98*last[i] + .2*e
		}
	}
	return columns
}

// Single link makes one cluster of a chain. Each member of a star is close to its own representative.
func TestStarsDoNotChain(t *testing.T) {
	n := 1000
	columns := chained(n, 20)
	d, err := Prepare(table(columns["m10"], columns), Options{})
	if err != nil {
		t.Fatal(err)
	}
	stars := Stars(d, .8, nil)
	if len(stars) < 2 || d.Metrics[stars[0].Metric].Name != "m10" {
		t.Fatalf("%d stars, the first is %s", len(stars), d.Metrics[stars[0].Metric].Name)
	}
	seen := 0
	for _, s := range stars {
		seen += 1 + len(s.Members)
		for i, m := range s.Members {
			r := pearson(d.Terms[s.Metric].X, d.Terms[m].X)
			if math.Abs(r) <= .8 || math.Abs(r-s.R[i]) > 1e-9 {
				t.Errorf("%s stands for %s: r %g, reported as %g", d.Metrics[s.Metric].Name, d.Metrics[m].Name, r,
					s.R[i])
			}
		}
	}
	if seen != len(columns) {
		t.Errorf("%d of %d metrics are in stars", seen, len(columns))
	}
}

func TestStarsFirstLead(t *testing.T) {
	x := normal(1, 300)
	twin := slices.Clone(x)
	for i, e := range normal(2, 300) {
		twin[i] += .01 * e
	}
	d, err := Prepare(table(x, map[string][]float64{"a": x, "b": twin}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := Stars(d, .95, nil); len(s) != 1 || s[0].Metric != 0 {
		t.Errorf("stars %+v, want a with b", s)
	}
	if s := Stars(d, .95, []int{1}); len(s) != 1 || s[0].Metric != 1 || !slices.Equal(s[0].Members, []int{0}) {
		t.Errorf("stars %+v, want b with a", s)
	}
	if s := Stars(d, .95, []int{0, 1}); len(s) != 2 {
		t.Errorf("stars %+v: metrics that lead join none", s)
	}
}

// A metric joins only by all of its statistics: its slowest node may tell what its mean does not.
func TestStarsCompareEveryStatistic(t *testing.T) {
	n := 300
	x, other := normal(1, n), normal(2, n)
	tb := table(x, map[string][]float64{"a": x})
	tb.Metrics = []Metric{
		{Name: "a", Columns: []Column{{"mean", x}, {"d0", x}}},
		{Name: "b", Columns: []Column{{"mean", x}, {"d0", other}}},
		{Name: "c", Columns: []Column{{"mean", x}, {"d0", x}}},
	}
	d, err := Prepare(tb, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := Stars(d, .95, nil)
	if len(s) != 2 || !slices.Equal(s[0].Members, []int{2}) || s[1].Metric != 1 {
		t.Errorf("stars %+v, want a with c, and b", s)
	}
}

// Slow series have few independent rows: a correlation by chance is not significant.
func TestEffectiveRowsAreFewerInSlowSeries(t *testing.T) {
	n := 1000
	slow := func(seed uint64) []float64 {
		x := normal(seed, n)
		for i := 1; i < n; i++ {
			x[i] += .95 * x[i-1]
		}
		return x
	}
	d, err := Prepare(table(normal(9, n), map[string][]float64{
		"fast1": normal(1, n), "fast2": normal(2, n), "slow1": slow(3), "slow2": slow(4),
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := newLeaders(d, .5)
	fast, slowRows := l.effective(0, 1), l.effective(2, 3)
	// For AR(1) of .95 in both, n (1 − φ²) / (1 + φ²) = 51; the estimate varies by a factor.
	if fast < 800 || slowRows > 150 || slowRows < 20 {
		t.Errorf("%.0f and %.0f effective rows of %d", fast, slowRows, n)
	}
}

// The early end of a comparison changes no result.
func TestCorrelatedIsExact(t *testing.T) {
	d, err := Prepare(machineLike(3, 120, 500), Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := newLeaders(d, .7)
	for a := range d.Terms {
		for b := range a {
			r := pearson(d.Terms[a].X, d.Terms[b].X)
			want := math.Abs(r) > .7 && significant(r, l.effective(a, b), .7)
			if _, got := l.correlated(a, b); got != want {
				t.Fatalf("terms %d and %d, r %g: dependent %v, want %v", a, b, r, got, want)
			}
		}
	}
}

func TestSignificant(t *testing.T) {
	for _, c := range []struct {
		r, n, threshold float64
		want            bool
	}{
		{.96, 12, .95, false},
		{.99, 30, .95, true},
		{-.99, 30, .95, true},
		{1, 10, .95, true},
		{1 + 2e-16, 10, .95, true},
		{1, 10, 1, false},
		{1, 3, .5, false},
		{.9, 1000, .95, false},
	} {
		if got := significant(c.r, c.n, c.threshold); got != c.want {
			t.Errorf("r %g, n %g, threshold %g: %v", c.r, c.n, c.threshold, got)
		}
	}
}
