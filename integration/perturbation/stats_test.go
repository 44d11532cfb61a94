package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-12 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestStatisticsByHand(t *testing.T) {
	runs := []float64{9, 4, 1, 16, 25, 3, 36}
	near(t, "best three of 9 4 1 16 25 3 36: (1+3+4)/3", bestMean(runs), 8.0/3)
	near(t, "best of fewer than three: (5+7)/2", bestMean([]float64{7, 5}), 6)
	near(t, "median of 1 3 4 9 16 25 36", median(runs), 9)
	near(t, "median of four: (2+3)/2", median([]float64{4, 1, 3, 2}), 2.5)
	sorted := []float64{10, 20, 30, 40, 50}
	near(t, "p99 of five: rank 3.96, 40+0.96*10", percentile(sorted, 0.99), 49.6)
	near(t, "p100", percentile(sorted, 1), 50)
	if !math.IsNaN(percentile(nil, 0.5)) {
		t.Error("nothing has a percentile")
	}
	if runs[0] != 9 {
		t.Error("the runs were reordered")
	}
}

// TestCompare: a slowdown is told from none where it is larger than what equal runs show against each other.
func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	quiet := []float64{1.00, 1.01, 1.00, 1.02, 1.01, 1.00, 1.03}
	slow := make([]float64, len(quiet))
	for i, v := range quiet {
		slow[i] = v * 1.5
	}
	e := compare(quiet, quiet, slow, rng)
	near(t, "1.5 times as long", e.Slowdown, 0.5)
	if e.Below || e.Low <= 0 || e.High < 0.5 || e.Noise > 0.03 {
		t.Errorf("a half more is not told from the noise: %+v", e)
	}
	if e = compare(quiet, quiet, quiet, rng); e.Slowdown != 0 || !e.Below {
		t.Errorf("the same runs differ: %+v", e)
	}
	noisy := []float64{1, 2, 3, 1.5, 2.5, 4, 1.2}
	if e = compare(noisy, noisy, []float64{1.1, 2, 3, 1.6, 2.5, 4, 1.3}, rng); !e.Below || e.Noise < 0.05 {
		t.Errorf("a difference within the noise counts: %+v", e)
	}
	// Two conditions without any daemon that differ by a quarter: a fifth more is within that.
	e = compare([]float64{4}, []float64{5}, []float64{4.8}, rng)
	near(t, "5/4 - 1", e.Noise, 0.25)
	if !e.Below {
		t.Errorf("what is less than nothing differs by counts: %+v", e)
	}
	near(t, "one run each", compare([]float64{2}, []float64{2}, []float64{3}, rng).Slowdown, 0.5)
}

func TestOrder(t *testing.T) {
	rounds := order(5, 7, rand.New(rand.NewPCG(1, 2)))
	if len(rounds) != 7 {
		t.Fatalf("%d rounds", len(rounds))
	}
	same := 0
	for _, r := range rounds {
		if slices.Equal(r, rounds[0]) {
			same++
		}
		if !slices.Equal(slices.Sorted(slices.Values(r)), []int{0, 1, 2, 3, 4}) {
			t.Errorf("a round does not have every condition once: %v", r)
		}
	}
	if same == 7 {
		t.Error("all rounds have the same order")
	}
}

// TestModelByHand: the loss is the time in which any node is interrupted.
func TestModelByHand(t *testing.T) {
	const ms = time.Millisecond
	for what, c := range map[string]struct {
		stalls []stall
		want   time.Duration
	}{
		"none":                             {nil, 0},
		"at once: the longest":             {[]stall{{0, 2 * ms}, {0, 5 * ms}, {0, 1 * ms}}, 5 * ms},
		"apart: the sum":                   {[]stall{{10 * ms, 12 * ms}, {0, 3 * ms}}, 5 * ms},
		"overlapping: 0 to 4 and 6 to 7":   {[]stall{{6 * ms, 7 * ms}, {0, 3 * ms}, {2 * ms, 4 * ms}}, 5 * ms},
		"one inside another, then another": {[]stall{{0, 9 * ms}, {1 * ms, 2 * ms}, {8 * ms, 10 * ms}}, 10 * ms},
	} {
		if got := lost(c.stalls); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	// 64 nodes that each lose 1 ms a second: 1 ms together, 64 ms one after another. Sends of 2 ms in 0.6 s begin
	// every 9.375 ms, so that none overlap: 128 ms. With 600 nodes they begin every 1 ms and overlap: 601 ms.
	rng := rand.New(rand.NewPCG(1, 2))
	p := predict(64, ms, 2*ms, nil, rng)
	near(t, "aligned", p.Aligned, 0.001)
	near(t, "staggered", p.Staggered, 0.064)
	near(t, "sent together", p.Together, 0.002)
	near(t, "sent in 0.6 s", p.Window, 0.128)
	near(t, "sent in the period", p.Period, 0.128)
	near(t, "600 nodes in 0.6 s", predict(600, ms, 2*ms, nil, rng).Window, 0.601)
	near(t, "never more than all", predict(5000, ms, 2*ms, nil, rng).Staggered, 1)
	// With a skew of 0 or 3 ms, samples of 1 ms lie at 0 to 1 and at 3 to 4. That is 2 ms as soon as both occur.
	skewed := predict(64, ms, ms, []time.Duration{0, 3 * ms}, rng)
	near(t, "aligned with skew", skewed.Aligned, 0.002)
}
