package quantile

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var (
	seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random columns")
	full = flag.Bool("full", false, "run every property on its full number of cases, and rewrite docs/accuracy.md")
)

func random(t *testing.T) *rand.Rand {
	t.Helper()
	t.Logf("seed %d (repeat with -seed)", *seed)
	return rand.New(rand.NewPCG(*seed, 1))
}

// cases is how many cases a property runs on: few in an ordinary test, and fewer under the race detector.
func cases(few, all int) int {
	if *full {
		return all
	}
	return few / slower
}

// shape makes one value of a column of n, in order.
type shape struct {
	name  string
	value func(r *rand.Rand, i, n int) float64
}

// shapes are the columns that monitoring really sees, and those that have hurt a select or a sum before.
var shapes = []shape{
	{"lognormal", func(r *rand.Rand, _, _ int) float64 { return math.Exp(2 * r.NormFloat64()) }},
	{"normal", func(r *rand.Rand, _, _ int) float64 { return r.NormFloat64() }},
	{"bimodal", func(r *rand.Rand, _, _ int) float64 { return 10*float64(r.IntN(2)) + r.NormFloat64() }},
	{"half zero", func(r *rand.Rand, _, _ int) float64 { return max(0, r.NormFloat64()) }},
	{"sorted", func(_ *rand.Rand, i, _ int) float64 { return float64(i) }},
	{"reversed", func(_ *rand.Rand, i, _ int) float64 { return -float64(i) }},
	{"organ pipe", func(_ *rand.Rand, i, n int) float64 { return float64(min(i, n-i)) }},
	{"sawtooth", func(_ *rand.Rand, i, _ int) float64 { return float64(i % 97) }},
	{"ten values", func(r *rand.Rand, _, _ int) float64 { return float64(r.IntN(10)) }},
	{"two values", func(r *rand.Rand, _, _ int) float64 { return float64(r.IntN(2)) }},
	{"rare values", func(r *rand.Rand, _, _ int) float64 {
		if r.IntN(3000) == 0 {
			return float64(1 + r.IntN(30))
		}
		return 40 * float64(r.IntN(2))
	}},
	{"constant", func(*rand.Rand, int, int) float64 { return 0.1 }},
	{"pareto", func(r *rand.Rand, _, _ int) float64 { return math.Pow(1-r.Float64(), -2) }},
	{"idle and busy", func(r *rand.Rand, i, _ int) float64 { return float64(i%2) + 1e-3*r.Float64() }},
	{"huge", func(_ *rand.Rand, i, _ int) float64 { return math.Copysign(math.MaxFloat64, float64(i%2)-0.5) }},
	{"near 1e308", func(r *rand.Rand, _, _ int) float64 { return 1e308 * (1 + 0.7*r.Float64()) }},
	{"denormal", func(r *rand.Rand, _, _ int) float64 { return float64(r.IntN(40)) * 5e-324 }},
	{"tiny and one", func(_ *rand.Rand, i, _ int) float64 { return []float64{5e-324, 1, -1e-300}[i%3] }},
	{"signed zeros", func(_ *rand.Rand, i, _ int) float64 { return math.Copysign(0, float64(i%2)-0.5) }},
	{"near ties", func(r *rand.Rand, _, _ int) float64 { return 1 + float64(r.IntN(5))*0x1p-52 }},
}

func (s shape) column(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = s.value(r, i, n)
	}
	return v
}

// size is most often small, at times a few thousand.
func size(r *rand.Rand, most float64) int { return int(math.Exp(r.Float64() * math.Log(most))) }

func TestReduceEqualsASort(t *testing.T) {
	r := random(t)
	for range cases(2000, 120_000) {
		s := shapes[r.IntN(len(shapes))]
		column := s.column(r, size(r, 3000))
		d := Reduce(slices.Clone(column))
		c, _ := Certify(slices.Clone(column), Small)
		if d != c {
			t.Fatalf("%s: Reduce says %+v, Certify %+v", s.name, d, c)
		}
		slices.Sort(column)
		for k := range N {
			if want := decileOf(column, k) + 0; math.Float64bits(d.Deciles[k]) != math.Float64bits(want) {
				t.Fatalf("%s, n=%d: D%d = %v, a sort says %v", s.name, len(column), k, d.Deciles[k], want)
			}
		}
		if !slices.IsSorted(d.Deciles[:]) || d.Mean < d.Deciles[0] || d.Mean > d.Deciles[10] || !finite(d.M2) ||
			d.M2 < 0 {
			t.Fatalf("%s, n=%d: %+v", s.name, len(column), d)
		}
	}
}

func TestReduceOfALargeColumn(t *testing.T) {
	r := random(t)
	for _, s := range shapes {
		column := s.column(r, 150_001/slower)
		d := Reduce(slices.Clone(column))
		_, summary := Certify(slices.Clone(column), Large)
		slices.Sort(column)
		distinct := 1
		for i, v := range column[1:] {
			if v != column[i] {
				distinct++
			}
		}
		if (len(summary.Atoms) > 0) != (distinct <= 40) || distinct <= 40 && len(summary.Atoms) != distinct ||
			summary.Check() != nil {
			t.Errorf("%s: %d atoms of %d distinct values: %v", s.name, len(summary.Atoms), distinct, summary.Check())
		}
		for k := range N {
			if want := decileOf(column, k) + 0; d.Deciles[k] != want {
				t.Errorf("%s: D%d = %v, a sort says %v", s.name, k, d.Deciles[k], want)
			}
		}
	}
}

func TestDecileIsTheDefinition(t *testing.T) {
	r := random(t)
	for range 20_000 {
		n, k := 1+r.Int64N(1<<40), r.IntN(N)
		at := new(big.Rat).Mul(big.NewRat(n, 1), big.NewRat(int64(k), 10))
		floor := new(big.Int).Quo(at.Num(), at.Denom())
		rest, _ := new(big.Rat).Sub(at, new(big.Rat).SetInt(floor)).Float64()
		if j, g := position(n, k); j != floor.Int64() || g != rest {
			t.Fatalf("n=%d, k=%d: j=%d g=%v, want %v and %v", n, k, j, g, floor, rest)
		}
	}
}

func TestNumpyAgrees(t *testing.T) {
	// numpy.quantile([15, 20, 35, 40, 50, 7], k/10, method="interpolated_inverted_cdf"), numpy 2.4.6.
	want := [N]float64{7, 7, 8.600000000000001, 13.399999999999999, 17, 20, 28.999999999999993, 36, 39, 44, 50}
	d := Reduce([]float64{15, 20, 35, 40, 50, 7})
	for k, w := range want {
		if math.Abs(d.Deciles[k]-w) > 1e-14*w { // numpy finds k/10 in floating point
			t.Errorf("D%d = %v, numpy says %v", k, d.Deciles[k], w)
		}
	}
}

func TestFewValues(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   [N]float64
	}{
		{[]float64{3}, [N]float64{3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}},
		{[]float64{1, 0}, [N]float64{0, 0, 0, 0, 0, 0, 0.2, 0.4, 0.6, 0.8, 1}}, // the median of {0, 1} is 0
	} {
		d := Reduce(slices.Clone(c.values))
		for k, w := range c.want {
			if math.Abs(d.Deciles[k]-w) > 1e-15 {
				t.Errorf("%v: D%d = %v, want %v", c.values, k, d.Deciles[k], w)
			}
		}
	}
}

func TestReduceIsOrderFree(t *testing.T) {
	r := random(t)
	for _, s := range shapes {
		for _, n := range []int{3, 1000, 5000} {
			column := s.column(r, n)
			column[0] = math.NaN()
			want, wantSummary := Certify(slices.Clone(column), Large)
			wantMean, _ := Mean(column)
			for range 10 {
				r.Shuffle(n, func(i, j int) { column[i], column[j] = column[j], column[i] })
				if mean, _ := Mean(column); mean != wantMean || mean != want.Mean {
					t.Fatalf("%s: mean %v after a shuffle, %v before, %v of Reduce", s.name, mean, wantMean, want.Mean)
				}
				got, gotSummary := Certify(slices.Clone(column), Large)
				if got != want || Reduce(slices.Clone(column)) != want || !sameBits(gotSummary, wantSummary) {
					t.Fatalf("%s: %+v after a shuffle, %+v before", s.name, got, want)
				}
			}
		}
	}
}

func TestInvalidValuesAreCountedAndDropped(t *testing.T) {
	d := Reduce([]float64{math.NaN(), 3, math.Inf(1), 1, math.Inf(-1), 2})
	if d.Count != 3 || d.Invalid != 3 || d.Deciles[0] != 1 || d.Deciles[10] != 3 || d.Mean != 2 || d.M2 != 2 {
		t.Errorf("%+v", d)
	}
	negative := math.Float64frombits(0xfff8000000000001) // a NaN that, as bits, comes before all numbers
	if d := Reduce([]float64{negative}); d != (Distribution{Invalid: 1}) {
		t.Errorf("%+v", d)
	}
	for _, empty := range [][]float64{nil, {math.NaN()}} {
		d, s := Certify(slices.Clone(empty), Large)
		if d.Count != 0 || d.Invalid != int64(len(empty)) || s.Count != 0 || s.Check() != nil {
			t.Errorf("%+v %+v", d, s)
		}
		if _, ok := Mean(empty); ok {
			t.Error("nothing has a mean")
		}
	}
	d, s := Certify([]float64{math.Copysign(0, -1)}, Large)
	if math.Signbit(d.Deciles[5]) || math.Signbit(d.Mean) || math.Signbit(s.Atoms[0].Value) {
		t.Errorf("-0 survives: %+v %+v", d, s)
	}
}

// TestLerp pins the form: (1-g)a + gb leaves [a, b] in one of a thousand near ties, and a + g(b-a) overflows.
func TestLerp(t *testing.T) {
	r := random(t)
	for range 100_000 {
		a := r.NormFloat64()
		b := math.Nextafter(a, math.Inf(1))
		if r.IntN(2) == 0 {
			a, b = -math.MaxFloat64*r.Float64(), math.MaxFloat64*r.Float64()
		}
		for tenths := range 10 {
			if v := lerp(a, b, float64(tenths)/10); !(a <= v && v <= b) {
				t.Fatalf("lerp(%v, %v, %d/10) = %v", a, b, tenths, v)
			}
		}
	}
	if v := lerp(-math.MaxFloat64, math.MaxFloat64, 0.5); v != 0 {
		t.Errorf("%v", v)
	}
}

func TestMomentsAreExact(t *testing.T) {
	r := random(t)
	for range cases(300, 3000) {
		s := shapes[r.IntN(len(shapes))]
		column := s.column(r, size(r, 2000))
		d := Reduce(slices.Clone(column))
		sum, most := big.NewFloat(0).SetPrec(4000), 0.0
		for _, v := range column {
			sum.Add(sum, big.NewFloat(v))
			most = max(most, math.Abs(v))
		}
		n := float64(len(column))
		mean := new(big.Float).SetPrec(4000).Quo(sum, big.NewFloat(n))
		squares := big.NewFloat(0).SetPrec(4000)
		for _, v := range column {
			e := new(big.Float).SetPrec(4000).Sub(big.NewFloat(v), mean)
			squares.Add(squares, e.Mul(e, e))
		}
		wantMean, _ := mean.Float64()
		wantM2, _ := squares.Float64()
		if math.Abs(d.Mean-wantMean) > 0x1p-51*math.Abs(wantMean)+0x1p-62*n*most+5e-324 {
			t.Fatalf("%s, n=%v: mean %v, want %v", s.name, n, d.Mean, wantMean)
		}
		// A rounded mean adds n times its error squared.
		rounding := 0x1p-52 * most
		bound := 1e-12*wantM2 + n*rounding*rounding + 5e-324
		if wantM2 = min(wantM2, math.MaxFloat64); math.Abs(d.M2-wantM2) > bound {
			t.Fatalf("%s, n=%v: m2 %v, want %v", s.name, n, d.M2, wantM2)
		}
	}
}

func TestMomentsAddByChan(t *testing.T) {
	r := random(t)
	for _, s := range shapes[:14] { // the squares of the others overflow or underflow
		column := s.column(r, 300)
		want := Reduce(slices.Clone(column))
		var got Moments
		for _, part := range deal(r, column, 4) {
			d := Reduce(part)
			got = got.Add(Moments{d.Count, d.Mean, d.M2})
		}
		if got.Count != want.Count || math.Abs(got.Mean-want.Mean) > 1e-12*math.Abs(want.Mean)+1e-15 ||
			math.Abs(got.M2-want.M2) > 1e-9*want.M2+1e-20 {
			t.Errorf("%s: %+v, want mean %g m2 %g", s.name, got, want.Mean, want.M2)
		}
	}
	huge := Moments{1, math.MaxFloat64, 0}.Add(Moments{1, -math.MaxFloat64, 0})
	if huge.Mean != 0 || math.IsInf(huge.M2, 0) || math.IsNaN(huge.M2) {
		t.Errorf("%+v", huge)
	}
}

// deal gives a column to n shares, unevenly and not at random, as a job's nodes go to its collectors.
func deal(r *rand.Rand, column []float64, n int) [][]float64 {
	shares := make([][]float64, n)
	for i, v := range column {
		p := i * n / len(column)
		if r.IntN(4) == 0 {
			p = r.IntN(n)
		}
		shares[p] = append(shares[p], v)
	}
	return shares
}
