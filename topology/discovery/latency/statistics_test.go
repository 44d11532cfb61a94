package latency

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestDescribe: the quartiles are values of the sample, by the definition of section 1.5.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Summary
	}{
		{[]float64{4, 1, 3, 2}, Summary{4, 1, 1, 2, 3, 4, 2.5}},
		{[]float64{5, 1, 4, 2, 3}, Summary{5, 1, 2, 3, 4, 5, 3}},
		{[]float64{7}, Summary{1, 7, 7, 7, 7, 7, 7}},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 88}, Summary{8, 1, 2, 4, 6, 88, 14.5}},
	} {
		if got := Describe(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
	if s := Describe(nil); s.Count != 0 || !math.IsNaN(s.Median) {
		t.Errorf("nothing is described as %+v", s)
	}
}

func read(t *testing.T, text string) *Matrix {
	t.Helper()
	m, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestDeviate: equations 3.1 to 3.4 by hand, over the pairs that both matrices have, by name.
func TestDeviate(t *testing.T) {
	first := read(t, "a,b,c\n0,1,2\n1,0,3\n2,3,0\n")
	second := read(t, "c,a,b\n0,3,3\n3,0,1\n3,1,0\n") // a-c is 3 here and 2 there
	got, err := Deviate(first, second)
	third := 1. / 3
	if err != nil || got.Pairs != 3 || math.Abs(got.Mean+third) > 1e-12 || math.Abs(got.MeanAbsolute-third) > 1e-12 ||
		math.Abs(got.QuadraticMean-math.Sqrt(third)) > 1e-12 || got.Max != -1 || got.A+got.B != "ac" {
		t.Errorf("%+v, %v", got, err)
	}
	partial := read(t, "a,b,c\n0,,4\n,0,\n4,,0\n")
	if got, err := Deviate(first, partial); err != nil || got.Pairs != 1 || got.Mean != -2 {
		t.Errorf("of one common pair: %+v, %v", got, err)
	}
	other := read(t, "a,b,x\n0,1,2\n1,0,3\n2,3,0\n")
	if _, err := Deviate(first, other); err == nil || !strings.Contains(err.Error(), "node c") {
		t.Errorf("other nodes: %v", err)
	}
	if _, err := Deviate(read(t, "a,b\n0,1\n1,0\n"), first); err == nil {
		t.Error("fewer nodes are no error")
	}
}

func TestHistogram(t *testing.T) {
	h := Histogram([]float64{1, 1.4, 2, 2.9, 3}, 2)
	if len(h) != 2 || h[0].Count != 2 || h[1].Count != 3 || h[0].FromUs != 1 || h[1].ToUs != 3 || h[0].ToUs != 2 {
		t.Errorf("%+v", h)
	}
	if h := Histogram([]float64{2, 2, 2}, 10); len(h) != 1 || h[0].Count != 3 {
		t.Errorf("of one value: %+v", h)
	}
	if Histogram(nil, 10) != nil {
		t.Error("of nothing there are bins")
	}
}

// TestSuccess: table 3.10 of the thesis in percent, with its two slips corrected (60.1 and 3.4 there).
func TestSuccess(t *testing.T) {
	nodes := []int{12, 32, 128, 256}
	for _, c := range []struct {
		p    float64
		want string
	}{
		{.99, "51.5 0.7 0.00 0.00"},
		{.999, "93.6 60.9 0.03 0.00"},
		{.9999, "99.3 95.2 44.4 3.8"},
	} {
		var cells []string
		for _, n := range nodes {
			percent := 100 * Success(c.p, n)
			cell := fmt.Sprintf("%.1f", percent)
			if percent < .1 {
				cell = fmt.Sprintf("%.2f", percent)
			}
			cells = append(cells, cell)
		}
		if got := strings.Join(cells, " "); got != c.want {
			t.Errorf("p = %g: %s, want %s", c.p, got, c.want)
		}
	}
}

// TestFitLine: two sizes are equations 1.5 and 1.6; more are a regression.
func TestFitLine(t *testing.T) {
	l, err := fitLine([]float64{1, 1001}, []float64{2.001, 3.001})
	if err != nil || math.Abs(l.Throughput-1000) > 1e-6 || math.Abs(l.LatencyUs-2) > 1e-9 || l.R2 != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	// By hand: slope .0008, intercept 1.3, R² .64.
	l, err = fitLine([]float64{0, 1000, 2000, 3000}, []float64{1, 3, 2, 4})
	if err != nil || math.Abs(l.Throughput-1250) > 1e-6 || math.Abs(l.LatencyUs-1.3) > 1e-9 ||
		math.Abs(l.R2-.64) > 1e-9 {
		t.Errorf("%+v, %v", l, err)
	}
	l, err = fitLine([]float64{1, 100}, []float64{2, 2})
	if err != nil || !math.IsInf(l.Throughput, 1) || l.LatencyUs != 2 {
		t.Errorf("a delay that does not grow: %+v, %v", l, err)
	}
	for _, sizes := range [][]float64{{5, 5}, {5}} {
		if _, err := fitLine(sizes, make([]float64, len(sizes))); err == nil {
			t.Errorf("sizes %v are no error", sizes)
		}
	}
}

// TestTick: a quantised clock is seen, and values that are no multiples of a step are none.
func TestTick(t *testing.T) {
	matrix := func(value func(i int) float64) *Matrix {
		m := New(strings.Split("a,b,c,d,e,f,g,h,i,j", ","))
		for i := range m.us {
			m.us[i] = value(i)
		}
		return m
	}
	if got := matrix(func(i int) float64 { return .05 * float64(20+i%7) }).Tick(); math.Abs(got-.05) > 1e-9 {
		t.Errorf("a tick of .05 is seen as %g", got)
	}
	if got := matrix(func(i int) float64 { return 1 + .01*math.Sqrt(float64(i)) }).Tick(); got != 0 {
		t.Errorf("a tick of %g is seen where none is", got)
	}
	if got := matrix(func(i int) float64 { return []float64{1, 1.37, 1.9}[i%3] }).Tick(); got != 0 {
		t.Errorf("levels are seen as a tick of %g", got)
	}
	m := read(t, "# tick_us: .2\n1\n")
	if m.Tick() != .2 {
		t.Errorf("the file's tick is %g", m.Tick())
	}
}
