package like

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// generated returns the numbers that the program in Python made with which the constants below were computed.
func generated(n int) []float64 {
	s, all := 12345, make([]float64, n)
	for i := range all {
		s = (1103515245*s + 12345) % (1 << 31)
		all[i] = float64(s) / (1 << 31)
	}
	return all
}

// TestCorrelationAgreesWithNumpy: numpy 2.4.6 computed the constants, by corrcoef, and by the formulas of Bartlett and
// Fisher.
func TestCorrelationAgreesWithNumpy(t *testing.T) {
	u := generated(400)
	x, y := u[:200], make([]float64, 200)
	for i := range y {
		y[i] = math.RoundToEven((0.5*x[i]+0.5*u[200+i])*100) / 100
	}
	a, b := make([]float64, 200), make([]float64, 200)
	for i := range a {
		a[i], b[i] = x[i]-0.5, y[i]-0.5
		if i > 0 {
			a[i], b[i] = a[i]+a[i-1], b[i]+b[i-1]
		}
	}
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %.12f, want %.12f", name, got, want)
		}
	}
	c := correlated(x, y)
	near("pearson", c.Pearson.Value, 0.7154237170182159)
	near("low", c.Pearson.Low, 0.6402311578207028)
	near("high", c.Pearson.High, 0.7770371073373177)
	near("spearman", c.Spearman.Value, 0.702382784808964)
	c = correlated(a, b)
	near("walk", c.Pearson.Value, 0.6169704939419525)
	near("independent", c.Pearson.Independent, 8.65918362489029)
	near("low of the walk", c.Pearson.Low, -0.1034238019993411)
	near("high of the walk", c.Pearson.High, 0.9127888219232103)
	if c.Spearman.High-c.Spearman.Low <= 0 || c.Pairs != 200 {
		t.Errorf("%+v", c)
	}
}

// TestConstantsHaveNoCorrelation: neither have two pairs, nor none. Huge numbers have one.
func TestConstantsHaveNoCorrelation(t *testing.T) {
	for name, c := range map[string][2][]float64{
		"constant": {{1, 2, 3, 4}, {0.1, 0.1, 0.1, 0.1}}, "both": {{7, 7, 7}, {1, 1, 1}}, "two": {{1, 2}, {3, 4}},
		"none": {},
	} {
		if got := correlated(c[0], c[1]); got.Pearson.Known || got.Spearman.Known || got.Pearson.Value != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	huge := []float64{-math.MaxFloat64, 0, math.MaxFloat64, 1}
	if got := correlated(huge, huge); !got.Pearson.Known || math.Abs(got.Pearson.Value-1) > 1e-12 {
		t.Errorf("huge: %+v", got)
	}
	if got := correlated(huge, []float64{4, 3, 2, 3}).Spearman; !got.Known || got.Value > -0.9 {
		t.Errorf("falling: %+v", got)
	}
}

// TestIntervalOfSlowSeries: two series that have nothing to do with each other, and resemble themselves for long, look
// correlated. The interval holds 0 nevertheless, in about 19 of 20 cases.
func TestIntervalOfSlowSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	outside, naive := 0, 0
	const cases = 400
	for range cases {
		x, y := make([]float64, 400), make([]float64, 400)
		for i := range x {
			x[i], y[i] = r.NormFloat64(), r.NormFloat64()
			if i > 0 {
				x[i], y[i] = x[i]+0.9*x[i-1], y[i]+0.9*y[i-1]
			}
		}
		c := correlated(x, y).Pearson
		if c.Low > 0 || c.High < 0 {
			outside++
		}
		if math.Abs(math.Atanh(c.Value)) > sure/math.Sqrt(float64(len(x)-3)) {
			naive++
		}
	}
	if outside > cases/10 || naive < cases/3 {
		t.Errorf("%d of %d intervals miss 0, and %d would without the correction", outside, cases, naive)
	}
}

func TestRanksOfEqualValues(t *testing.T) {
	if got := ranks([]float64{3, 1, 3, 2, 3}); !slices.Equal(got, []float64{4, 1, 4, 2, 4}) {
		t.Error(got)
	}
}

func correlated(x, y []float64) Correlation {
	c, _ := Correlate(context.Background(), x, y)
	return c
}

// TestLongTrends: two lines of many intervals end soon, or at once if nobody waits any longer. The lags that stand for
// their neighbours are worth as much as all.
func TestLongTrends(t *testing.T) {
	line := make([]float64, 200_000)
	for i := range line {
		line[i] = float64(i)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Correlate(ended, line, line); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
	short := line[:8000]
	d, s := deviations(short)
	sum := 1.0
	for lag := 1; lag <= len(d)/4; lag++ {
		r := 0.0
		for i := lag; i < len(d); i++ {
			r += d[i] * d[i-lag]
		}
		if r /= s * s; r <= 0 {
			break
		}
		sum += 2 * (1 - float64(lag)/float64(len(d))) * r * r
	}
	want := float64(len(d)) / sum
	if got := correlated(short, short).Pearson.Independent; math.Abs(got/want-1) > 0.01 {
		t.Errorf("%v independent pairs, all lags say %v", got, want)
	}
}
