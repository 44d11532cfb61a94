package selection

import (
	"math"
	"testing"
)

func count(n int) []int {
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return rows
}

func TestHeldOutFindsALinearModel(t *testing.T) {
	n := 200
	a, b := normal(1, n), normal(2, n)
	y := make([]float64, n)
	for i := range y {
		y[i] = 1e6 + 3*a[i] - 5*b[i]
	}
	r2, fit := HeldOut([][]float64{a, b}, y, count(100), count(n)[100:])
	if r2 < 1-1e-9 || math.Abs(fit.Coefficients[0]-3) > 1e-3 || math.Abs(fit.Coefficients[1]+5) > 1e-3 {
		t.Errorf("R² %g, coefficients %v", r2, fit.Coefficients)
	}
	if math.Abs(fit.Intercept-1e6) > .1 {
		t.Errorf("intercept %g", fit.Intercept)
	}
}

// A metric that was asleep in training cannot make a prediction explode: it is clipped.
func TestHeldOutIsClipped(t *testing.T) {
	n := 200
	a, y := normal(1, n), make([]float64, n)
	for i := range a {
		y[i] = a[i]
		if i >= 100 {
			a[i] = 1e9
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range y[:100] {
		low, high = min(low, v), max(high, v)
	}
	_, fit := HeldOut([][]float64{a}, y, count(100), count(n)[100:])
	if got, want := fit.predict([][]float64{a}, 150), high+.25*(high-low); math.Abs(got-want) > 1e-9 {
		t.Errorf("prediction %g, want the limit %g", got, want)
	}
}

// Many columns of noise fit training rows and nothing else. Adjusted R² is about 0, and ridge keeps held-out R² near 0.
func TestScoresOfNoise(t *testing.T) {
	n, k := 240, 100
	y := normal(1, n)
	var x [][]float64
	for j := range k {
		x = append(x, normal(uint64(2+j), n))
	}
	r2, adjusted := InSample(x, y, count(n))
	if math.Abs(r2-float64(k)/float64(n-1)) > .1 || math.Abs(adjusted) > .2 {
		t.Errorf("in-sample R² %g, adjusted %g; expected %g and 0", r2, adjusted, float64(k)/float64(n-1))
	}
	if held, _ := HeldOut(x, y, count(120), count(n)[120:]); held < -.2 || held > .1 {
		t.Errorf("held-out R² %g", held)
	}
	if refit := Refit(x[:3], y, [][]int{count(120), count(n)[120:]}); refit < -.2 || refit > .05 {
		t.Errorf("refit R² %g", refit)
	}
}

// New coefficients for each chunk: the sign may turn.
func TestRefitRenewsCoefficients(t *testing.T) {
	n := 200
	a, y := normal(1, n), make([]float64, n)
	for i := range y {
		y[i] = a[i]
		if i >= 100 {
			y[i] = 7 - 2*a[i]
		}
	}
	if r2 := Refit([][]float64{a}, y, [][]int{count(100), count(n)[100:]}); r2 < 1-1e-6 {
		t.Errorf("refit R² %g", r2)
	}
	if r2, _ := HeldOut([][]float64{a}, y, count(100), count(n)[100:]); r2 > 0 {
		t.Errorf("held-out R² %g with the sign of another chunk", r2)
	}
}

// F is what is lost without the metric: (SSE without − SSE) / columns over SSE / (n − k − 1).
func TestFIsWhatIsLostWithout(t *testing.T) {
	n := 150
	x := [][]float64{normal(1, n), normal(2, n), normal(3, n), normal(4, n)}
	y := normal(5, n)
	for i := range y {
		y[i] += .5*x[0][i] + .3*x[2][i]
	}
	of := []int{0, 1, 1, 2}
	all := leastSquares(x, y, count(n), of)
	without, _ := InSample([][]float64{x[0], x[3]}, y, count(n))
	want := (all.r2 - without) / 2 / ((1 - all.r2) / float64(n-4-1))
	if math.Abs(all.f[1]-want) > 1e-5*want {
		t.Errorf("F %g, want %g", all.f[1], want)
	}
	r2, adjusted := InSample(x, y, count(n))
	if math.Abs(all.r2-r2) > 1e-7 || math.Abs(all.adjusted-adjusted) > 1e-7 {
		t.Errorf("R² %g and %g by Cholesky, %g and %g by singular values", all.r2, all.adjusted, r2, adjusted)
	}
}

func TestScoresWithoutColumnsOrRows(t *testing.T) {
	y := normal(1, 20)
	if r2, fit := HeldOut(nil, y, count(10), count(20)[10:]); r2 > 0 || math.IsNaN(r2) || len(fit.Coefficients) != 0 {
		t.Errorf("R² %g without columns", r2)
	}
	if r2, adjusted := InSample([][]float64{y}, make([]float64, 20), count(20)); r2 != 0 || adjusted != 0 {
		t.Errorf("R² %g of a constant", r2)
	}
	if r2, _ := HeldOut([][]float64{make([]float64, 20)}, y, count(10), count(20)[10:]); r2 > 0 || math.IsNaN(r2) {
		t.Errorf("R² %g of a constant column", r2)
	}
	if r2, adjusted := InSample([][]float64{y}, y, nil); r2 != 0 || adjusted != 0 {
		t.Errorf("R² %g of no rows", r2)
	}
}
