package selection

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

const (
	stretches = 6  // of the rows: the largest number of regimes that can be told apart
	mostRatio = 16 // bounds the contribution of one metric, so that a single one never makes a regime
	// otherRatio is the limit for the mean squared difference between the levels of two stretches, in squared standard
	// errors. On the generated tables of the study it is 1.1 to 2.7 within a regime, and 4.2 to 6.7 between regimes.
	otherRatio = 3.3
)

// regimes counts the operating conditions among the rows. The rows are cut into stretches, and a stretch that differs
// from all earlier regimes begins a new one. It differs if the levels of the representatives are further apart than
// chance and autocorrelation explain. With several jobs, each job counts as a regime, since their levels are
// subtracted.
func regimes(d *Design, stars []Star) int {
	if d.centred() {
		return len(d.units) - 1
	}
	bounds := make([]int, stretches+1)
	for i := range bounds {
		bounds[i] = i * len(d.Rows) / stretches
	}
	var levels, errors [][]float64 // of each stretch, by representative
	for range stretches {
		levels = append(levels, make([]float64, len(stars)))
		errors = append(errors, make([]float64, len(stars)))
	}
	for i, star := range stars {
		x := d.Terms[d.Metrics[star.Metric].Terms[0]].X
		for s := range stretches {
			levels[s][i], errors[s][i] = level(x[bounds[s]:bounds[s+1]])
		}
	}
	var first []int // stretch of each regime
	for s := range stretches {
		known := false
		for _, r := range first {
			known = known || !apart(levels[s], errors[s], levels[r], errors[r])
		}
		if !known {
			first = append(first, s)
		}
	}
	return len(first)
}

// level returns the mean of x and its squared standard error. x is modelled as an AR(1) series, and its coefficient is
// corrected for the bias in short series (Kendall 1954).
func level(x []float64) (mean, squared float64) {
	n := float64(len(x))
	mean, sd := meanSD(x)
	if !(sd > 0) {
		return mean, 0
	}
	phi := 0.
	for i := 1; i < len(x); i++ {
		phi += (x[i] - mean) * (x[i-1] - mean)
	}
	phi /= n * sd * sd
	phi = min(.98, max(0, (n*phi+1)/(n-4)))
	return mean, sd * sd / n * (1 + phi) / (1 - phi)
}

func apart(a, ea, b, eb []float64) bool {
	var ratios []float64
	for i := range a {
		if e := ea[i] + eb[i]; e > 0 {
			ratios = append(ratios, min(mostRatio, (a[i]-b[i])*(a[i]-b[i])/e))
		}
	}
	return len(ratios) > 0 && floats.Sum(ratios)/math.Max(1, float64(len(ratios))) > otherRatio
}
