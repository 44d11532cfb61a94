package like

import (
	"context"
	"math"
	"slices"
)

// Coefficient is a correlation with an interval that holds the true one in 19 of 20 cases.
type Coefficient struct {
	Value, Low, High float64
	// Known is false if one of the two metrics never changes, or if there are fewer than three pairs.
	Known bool
	// Independent is the equivalent number of independent pairs, since neighbours in time resemble each other.
	Independent float64
}

// Correlation measures how two metrics move together over time. It does not compare the cores at one instant.
type Correlation struct {
	Pairs             int
	Pearson, Spearman Coefficient
}

// Correlate returns the correlation of pairs in time order. Millions of pairs take seconds.
func Correlate(ctx context.Context, x, y []float64) (Correlation, error) {
	n := min(len(x), len(y))
	x, y = x[:n], y[:n]
	c := Correlation{Pairs: n, Pearson: coefficient(ctx, x, y, 1)}
	c.Spearman = coefficient(ctx, ranks(x), ranks(y), spearman)
	return c, ctx.Err()
}

const (
	// sure is the number of standard deviations that cover 19 of 20 cases.
	sure = 1.959964
	// spearman is the factor by which a coefficient of ranks varies more (Fieller, Hartley and Pearson 1957).
	spearman = 1.0296 // the root of 1.06
	// eachLag thins out long lags. All lags below twice eachLag are counted; beyond, the step to the next lag is
	// lag/eachLag.
	eachLag = 256
)

// coefficient returns Pearson's coefficient. Its interval comes from Fisher's z for the number of independent pairs.
func coefficient(ctx context.Context, x, y []float64, wider float64) Coefficient {
	dx, sx := deviations(x)
	dy, sy := deviations(y)
	if len(x) < 3 || !(sx > 0) || !(sy > 0) {
		return Coefficient{}
	}
	r := 0.0
	for i := range dx {
		r += dx[i] / sx * (dy[i] / sy)
	}
	c := Coefficient{Value: min(1, max(-1, r)), Low: -1, High: 1, Known: true}
	c.Independent = independent(ctx, dx, dy, sx, sy)
	if c.Independent > 3 && math.Abs(c.Value) < 1 {
		z, width := math.Atanh(c.Value), wider*sure/math.Sqrt(c.Independent-3)
		c.Low, c.High = math.Tanh(z-width), math.Tanh(z+width)
	} else if c.Independent > 3 {
		c.Low, c.High = c.Value, c.Value
	}
	return c
}

// deviations returns the distances from the mean, and the root of the sum of their squares. The root of a constant is
// 0, however its mean was rounded.
func deviations(x []float64) (d []float64, root float64) {
	if len(x) == 0 || slices.Min(x) == slices.Max(x) {
		return make([]float64, len(x)), 0
	}
	largest := max(math.Abs(slices.Min(x)), math.Abs(slices.Max(x))) // squares must not overflow
	mean := 0.0
	for i, v := range x {
		mean += (v/largest - mean) / float64(i+1)
	}
	d = make([]float64, len(x))
	sum := 0.0
	for i, v := range x {
		d[i] = v/largest - mean
		sum += d[i] * d[i]
	}
	return d, math.Sqrt(sum)
}

// independent returns the equivalent number of independent pairs, by the autocorrelations of both (Bartlett 1935).
// Lags are counted while the product of the two is positive, and up to a quarter of the pairs. Beyond the first lags,
// one lag stands for its neighbours: two long trends would take hours otherwise.
func independent(ctx context.Context, dx, dy []float64, sx, sy float64) float64 {
	n := len(dx)
	sum := 1.0
	for lag := 1; lag <= n/4 && ctx.Err() == nil; {
		step := max(1, lag/eachLag)
		rx, ry := 0.0, 0.0
		for i := lag; i < n; i++ {
			rx += dx[i] * dx[i-lag]
			ry += dy[i] * dy[i-lag]
		}
		product := rx / (sx * sx) * (ry / (sy * sy))
		if product <= 0 {
			break
		}
		sum += 2 * float64(min(step, n/4+1-lag)) * (1 - float64(lag)/float64(n)) * product
		lag += step
	}
	return min(float64(n), float64(n)/sum)
}

// ranks returns the rank of each value. Equal values have the mean of their ranks.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	all := make([]float64, len(x))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && x[order[to]] == x[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			all[i] = float64(from+to-1)/2 + 1
		}
		from = to
	}
	return all
}
