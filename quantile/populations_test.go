package quantile

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// population is a column dealt to shares as a machine does it. Independent, identically distributed shares alone would
// flatter every method: their knots lie at the deciles that are asked for.
type population struct {
	family, name string
	shares       func(r *rand.Rand, n, shares int) [][]float64
}

// The families of populations. The last is harder than the goals demand. It has staircases, where a curve of some fifty
// knots cannot follow hundreds of steps of up to 2 % each. It also has shares that each mix two kinds of cores.
const (
	smooth    = "smooth"
	atomic    = "atoms"
	mixed     = "shares differ"
	hpc       = "jobs"
	constants = "constant"
	harder    = "harder"
)

// alike deals n values of one distribution.
func alike(value func(r *rand.Rand) float64) func(*rand.Rand, int, int) [][]float64 {
	return differing(func(*rand.Rand, int, int) func(*rand.Rand) float64 { return value })
}

// differing deals n values of a distribution that each share has for itself.
func differing(
	of func(r *rand.Rand, share, shares int) func(*rand.Rand) float64,
) func(*rand.Rand, int, int) [][]float64 {
	return func(r *rand.Rand, n, shares int) [][]float64 {
		all := make([][]float64, shares)
		for p := range all {
			value := of(r, p, shares)
			all[p] = make([]float64, (p+1)*n/shares-p*n/shares)
			for i := range all[p] {
				all[p][i] = value(r)
			}
		}
		return all
	}
}

func pareto(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -1/1.5) }

func poisson(r *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64()))
	}
	k, limit := 0, math.Exp(-mean)
	for p := r.Float64(); p > limit; p *= r.Float64() {
		k++
	}
	return float64(k)
}

// quantised is v as a counter with a resolution of 1e-3 has it.
func quantised(v float64) float64 { return math.Round(v*1000) / 1000 }

var populations = []population{
	{smooth, "normal", alike(func(r *rand.Rand) float64 { return 100 + 2*r.NormFloat64() })},
	{smooth, "lognormal", alike(func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64()) })},
	{smooth, "uniform", alike(func(r *rand.Rand) float64 { return r.Float64() })},
	{smooth, "exponential", alike(func(r *rand.Rand) float64 { return r.ExpFloat64() })},
	{smooth, "pareto", alike(pareto)},

	{atomic, "bimodal", alike(func(r *rand.Rand) float64 {
		if r.IntN(2) == 0 {
			return 1 + 0.01*r.NormFloat64()
		}
		return 10 + 0.1*r.NormFloat64()
	})},
	{atomic, "poisson", alike(func(r *rand.Rand) float64 { return poisson(r, 3) })},
	{atomic, "mostly zero", alike(func(r *rand.Rand) float64 {
		if r.Float64() < 0.85 {
			return 0
		}
		return r.ExpFloat64()
	})},

	{mixed, "normal", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		at, width := 100+10*r.NormFloat64(), 1+4*r.Float64()
		return func(r *rand.Rand) float64 { return at + width*r.NormFloat64() }
	})},
	{mixed, "lognormal", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		at, width := r.NormFloat64(), 0.3+r.Float64()
		return func(r *rand.Rand) float64 { return math.Exp(at + width*r.NormFloat64()) }
	})},
	{mixed, "pareto", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		unit := math.Exp(r.NormFloat64())
		return func(r *rand.Rand) float64 { return unit * pareto(r) }
	})},
	{mixed, "gradient", differing(func(_ *rand.Rand, share, shares int) func(*rand.Rand) float64 {
		at := 50 + 30*float64(share)/float64(shares)
		return func(r *rand.Rand) float64 { return at + r.NormFloat64() }
	})},
	{mixed, "sizes", func(r *rand.Rand, n, shares int) [][]float64 {
		all, weights, sum := make([][]float64, shares), make([]float64, shares), 0.0
		for p := range weights {
			weights[p] = pareto(r)
			sum += weights[p]
		}
		left := n
		for p := range all {
			size := min(left, max(1, int(float64(n)*weights[p]/sum)))
			if p == shares-1 {
				size = left
			}
			left -= size
			at := 20 * r.Float64()
			for range size {
				all[p] = append(all[p], at+3*r.NormFloat64())
			}
		}
		return all
	}},

	{hpc, "slow node", func(r *rand.Rand, n, shares int) [][]float64 {
		all := alike(func(r *rand.Rand) float64 { return 2.5 + 0.05*r.NormFloat64() })(r, n, shares)
		for i := range min(n/50, len(all[0])) {
			all[0][i] = 0.8 + 0.05*r.NormFloat64()
		}
		return all
	}},
	{hpc, "idle and busy", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		if r.IntN(2) == 0 {
			return func(r *rand.Rand) float64 { return 0.5 * r.ExpFloat64() }
		}
		at := 80 + 15*r.Float64()
		return func(r *rand.Rand) float64 { return at + 2*r.NormFloat64() }
	})},
	{hpc, "job mix", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		memoryBound, at := r.Float64(), 0.2*r.NormFloat64()
		return func(r *rand.Rand) float64 {
			switch u := r.Float64(); {
			case u < 1.0/48:
				return quantised(math.Abs(0.02 * r.NormFloat64())) // the master's core
			case u > 0.995:
				return quantised(20 * r.Float64()) // stragglers
			case r.Float64() < memoryBound:
				return quantised(3 + at + 0.3*r.NormFloat64())
			}
			return quantised(0.7 + 0.05*r.NormFloat64())
		}
	})},
	{hpc, "counters", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		mean := math.Exp(1 + 1.5*r.NormFloat64())
		return func(r *rand.Rand) float64 { return poisson(r, mean) }
	})},
	{hpc, "zero inflated", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		zero, at := r.Float64(), r.NormFloat64()
		return func(r *rand.Rand) float64 {
			if r.Float64() < zero {
				return 0
			}
			return math.Exp(at + 0.8*r.NormFloat64())
		}
	})},
	{hpc, "idle at zero", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		idle, at := 0.1+0.3*r.Float64(), 80+15*r.Float64()
		return func(r *rand.Rand) float64 {
			switch u := r.Float64(); {
			case u < 0.002:
				return -0.01 * r.ExpFloat64() // the error of a difference of two counters
			case u < idle:
				return 0
			}
			return at + 2*r.NormFloat64()
		}
	})},

	{constants, "one", alike(func(*rand.Rand) float64 { return 42 })},
	{constants, "one a share", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		v := float64(r.IntN(5))
		return func(*rand.Rand) float64 { return v }
	})},
}

var harderPopulations = []population{
	{harder, "two quantised modes", alike(func(r *rand.Rand) float64 {
		if r.IntN(2) == 0 {
			return quantised(1 + 0.01*r.NormFloat64())
		}
		return quantised(10 + 0.1*r.NormFloat64())
	})},
	{harder, "quantised, shares differ", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		at := 0.1 * r.NormFloat64()
		return func(r *rand.Rand) float64 { return quantised(1 + at + 0.02*r.NormFloat64()) }
	})},
	{harder, "idle and busy cores", differing(func(r *rand.Rand, _, _ int) func(*rand.Rand) float64 {
		busy := r.Float64()
		return func(r *rand.Rand) float64 {
			if r.Float64() < busy {
				return 95 + 2*r.NormFloat64()
			}
			return 0.5 * r.ExpFloat64()
		}
	})},
}

// truth is a column that errors are measured against.
type truth struct {
	sorted  []float64
	deciles [N]float64
	iqr     float64 // the range where that is 0, the value where that is 0
}

func newTruth(shares [][]float64) truth {
	t := truth{sorted: slices.Concat(shares...)}
	sortAll(t.sorted)
	for k := range N {
		t.deciles[k] = decileOf(t.sorted, k)
	}
	n := len(t.sorted)
	t.iqr = t.sorted[n*3/4] - t.sorted[n/4]
	if t.iqr == 0 {
		t.iqr = t.sorted[n-1] - t.sorted[0]
	}
	if t.iqr == 0 {
		t.iqr = max(math.Abs(t.sorted[0]), math.SmallestNonzeroFloat64)
	}
	return t
}

// decileOf is type 4 from its definition.
func decileOf(sorted []float64, k int) float64 { return quantileOf(sorted, k, 10) }

// quantileOf is the same of quantile k of so many parts.
func quantileOf(sorted []float64, k, parts int) float64 {
	n := len(sorted)
	j, g := n*k/parts, float64(n*k%parts)/float64(parts)
	switch {
	case j < 1:
		return sorted[0]
	case j >= n:
		return sorted[n-1]
	}
	return lerp(sorted[j-1], sorted[j], g)
}

// rankError is how far the position n·k/10 is from where q stands, as a fraction of n. q stands between the ranks of
// the values that equal it. In a gap it stands where the straight line across the gap has it. A q within 1e-4 of the
// interquartile range of an atom counts as on it. Otherwise every method that rounds would be charged a whole atom.
func (t *truth) rankError(q float64, k int) float64 {
	n := len(t.sorted)
	at := max(1, float64(n)*float64(k)/10)
	below, _ := slices.BinarySearch(t.sorted, q)
	upTo := t.upTo(q)
	if below == upTo {
		for _, i := range []int{below - 1, below} {
			if i < 0 || i >= n || math.Abs(t.sorted[i]-q) > 1e-4*t.iqr {
				continue
			}
			first, _ := slices.BinarySearch(t.sorted, t.sorted[i])
			if last := t.upTo(t.sorted[i]); last-first > max(1, n/1000) {
				below, upTo = first, last
				break
			}
		}
	}
	if below < upTo {
		return max(0, float64(below+1)-at, at-float64(upTo)) / float64(n)
	}
	position := float64(below)
	if below > 0 && below < n {
		position += fraction(t.sorted[below-1], t.sorted[below], q)
	}
	return math.Abs(position-at) / float64(n)
}

// upTo is how many values are not above q.
func (t *truth) upTo(q float64) int {
	i, _ := slices.BinarySearchFunc(t.sorted, q, func(v, q float64) int {
		if v <= q {
			return -1
		}
		return cmp.Compare(v, q)
	})
	return i
}

// valueError is the distance to the decile as a fraction of the interquartile range.
func (t *truth) valueError(q float64, k int) float64 {
	return math.Abs(q-t.deciles[k]) / t.iqr
}

// width is how many values a bracket leaves open, as a fraction of n, atoms at its ends counted whole.
func (t *truth) width(lo, hi float64) float64 {
	if lo == hi {
		return 0
	}
	first, _ := slices.BinarySearch(t.sorted, lo)
	return float64(t.upTo(hi)-first) / float64(len(t.sorted))
}

// sortAll sorts values, none of them NaN, several times as fast as slices.Sort.
func sortAll(v []float64) {
	ranks := make([]int, len(v))
	for i := range ranks {
		ranks[i] = i
	}
	selectRanks(v, ranks)
}
