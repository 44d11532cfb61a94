package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// best is how many of a condition's runs count: the fastest, as in NWPerf. The others were slowed by something else.
const best = 3

// bestMean is the mean of the fastest runs.
func bestMean(runs []float64) float64 {
	sorted := slices.Sorted(slices.Values(runs))
	sorted = sorted[:min(best, len(sorted))]
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return sum / float64(len(sorted))
}

// percentile is the value at rank p (0 to 1) of the sorted values, interpolated between neighbours.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := p * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

func median(values []float64) float64 { return percentile(slices.Sorted(slices.Values(values)), 0.5) }

// effect is how much slower a condition is than none, as a fraction.
type effect struct {
	Slowdown float64 `json:"slowdown"`
	Low      float64 `json:"low"`  // of the 95 % interval of the slowdown
	High     float64 `json:"high"` // of it
	// Noise is the slowdown between runs without any daemon. It is the larger of two numbers: the value that 95 % of
	// such comparisons stay below, and the difference between the two conditions without any daemon.
	Noise float64 `json:"noise"`
	Below bool    `json:"below_noise"`
}

// resamples is how often the bootstrap draws.
const resamples = 2000

// compare judges a condition against the runs without any daemon, of which there are two conditions. Below means that
// the slowdown may be none: it is within the noise, or its interval reaches 0.
func compare(none, again, runs []float64, rng *rand.Rand) effect {
	e := effect{Slowdown: bestMean(runs)/bestMean(none) - 1}
	slowdowns, noise := make([]float64, resamples), make([]float64, resamples)
	for i := range resamples {
		base := bestMean(resample(none, len(none), rng))
		slowdowns[i] = bestMean(resample(runs, len(runs), rng))/base - 1
		noise[i] = math.Abs(bestMean(resample(none, len(runs), rng))/base - 1)
	}
	slices.Sort(slowdowns)
	slices.Sort(noise)
	e.Low, e.High = percentile(slowdowns, 0.025), percentile(slowdowns, 0.975)
	e.Noise = max(percentile(noise, 0.95), math.Abs(bestMean(again)/bestMean(none)-1))
	e.Below = e.Slowdown <= e.Noise || e.Low <= 0
	return e
}

// resample draws n of the values, with replacement.
func resample(values []float64, n int, rng *rand.Rand) []float64 {
	drawn := make([]float64, n)
	for i := range drawn {
		drawn[i] = values[rng.IntN(len(values))]
	}
	return drawn
}

// order is the order of the runs: in each round every condition once, at random. So a drift of the machine hits all of
// them alike.
func order(conditions, rounds int, rng *rand.Rand) [][]int {
	all := make([][]int, rounds)
	for i := range all {
		all[i] = rng.Perm(conditions)
	}
	return all
}
