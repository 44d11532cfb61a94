package quantile

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random columns")

func random(t *testing.T) *rand.Rand {
	t.Helper()
	t.Logf("seed %d (repeat with -seed)", *seed)
	return rand.New(rand.NewPCG(*seed, 1))
}

// shapes are the columns that monitoring really sees.
func shapes(r *rand.Rand, n int) map[string][]float64 {
	make1 := func(f func(i int) float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = f(i)
		}
		return v
	}
	return map[string][]float64{
		"normal":        make1(func(int) float64 { return r.NormFloat64() }),
		"lognormal":     make1(func(int) float64 { return math.Exp(2 * r.NormFloat64()) }),
		"mostly zero":   make1(func(int) float64 { return max(0, r.NormFloat64()-1) }),
		"integers":      make1(func(int) float64 { return float64(r.IntN(7)) }),
		"constant":      make1(func(int) float64 { return 0.1 }),
		"idle and busy": make1(func(i int) float64 { return float64(i%2) + 1e-3*r.Float64() }),
		"ascending":     make1(func(i int) float64 { return float64(i) }),
		"huge":          make1(func(i int) float64 { return math.Copysign(math.MaxFloat64, float64(i%2)-0.5) }),
		"denormal":      make1(func(i int) float64 { return float64(i%3) * 5e-324 }),
		"signed zeros":  make1(func(i int) float64 { return math.Copysign(0, float64(i%2)-0.5) }),
	}
}

// definition is type 4 computed another way: in rationals, from the text of the definition.
func definition(sorted []float64, k int) (low, high float64, g *big.Rat) {
	n := len(sorted)
	position := big.NewRat(int64(n*k), 10)
	j := new(big.Int).Quo(position.Num(), position.Denom()).Int64()
	g = new(big.Rat).Sub(position, new(big.Rat).SetInt64(j))
	if j < 1 {
		return sorted[0], sorted[0], g
	}
	if j >= int64(n) {
		return sorted[n-1], sorted[n-1], g
	}
	return sorted[j-1], sorted[j], g
}

func TestDecilesEqualTheDefinition(t *testing.T) {
	r := random(t)
	for n := 1; n <= 230; n++ {
		for shape, column := range shapes(r, n) {
			d := Reduce(slices.Clone(column))
			sorted := slices.Clone(column)
			sort.Float64s(sorted)
			for k := range N {
				low, high, g := definition(sorted, k)
				exact := new(big.Rat).SetFloat64(low)
				step := new(big.Rat).Sub(new(big.Rat).SetFloat64(high), exact)
				want, _ := exact.Add(exact, step.Mul(step, g)).Float64()
				got := d.Deciles[k]
				if got < low || got > high || math.Abs(got-want) > 1e-15*max(math.Abs(low), math.Abs(high))+math.SmallestNonzeroFloat64 {
					t.Fatalf("%s, n=%d, D%d = %g, want %g in [%g, %g]", shape, n, k, got, want, low, high)
				}
				if k > 0 && got < d.Deciles[k-1] {
					t.Fatalf("%s, n=%d: D%d < D%d", shape, n, k, k-1)
				}
			}
			if d.Mean < d.Deciles[0] || d.Mean > d.Deciles[10] || d.M2 < 0 || math.IsNaN(d.M2) || math.IsInf(d.M2, 0) {
				t.Fatalf("%s, n=%d: mean %g, m2 %g", shape, n, d.Mean, d.M2)
			}
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

func TestReduceIsOrderFree(t *testing.T) {
	r := random(t)
	for shape, column := range shapes(r, 1000) {
		want := Reduce(slices.Clone(column))
		for range 10 {
			r.Shuffle(len(column), func(i, j int) { column[i], column[j] = column[j], column[i] })
			if got := Reduce(slices.Clone(column)); got != want {
				t.Fatalf("%s: %+v after a shuffle, %+v before", shape, got, want)
			}
		}
	}
}

func TestInvalidValuesAreCountedAndDropped(t *testing.T) {
	d := Reduce([]float64{math.NaN(), 3, math.Inf(1), 1, math.Inf(-1), 2})
	if d.Count != 3 || d.Invalid != 3 || d.Deciles[0] != 1 || d.Deciles[10] != 3 || d.Mean != 2 || d.M2 != 2 {
		t.Errorf("%+v", d)
	}
	if d := Reduce([]float64{math.NaN()}); d != (Distribution{Invalid: 1}) {
		t.Errorf("%+v", d)
	}
	if d := Reduce(nil); d != (Distribution{}) {
		t.Errorf("%+v", d)
	}
	if d := Reduce([]float64{math.Copysign(0, -1)}); math.Signbit(d.Deciles[0]) || math.Signbit(d.Mean) {
		t.Errorf("-0 survives: %+v", d)
	}
}

// split deals a column to n shares, unevenly and not at random, as a job's nodes go to its collectors.
func split(r *rand.Rand, column []float64, n int) [][]float64 {
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

func shareOf(d Distribution) Share {
	if d.Count == 0 {
		return Share{}
	}
	return NewShare(d.Count, d.Order[:], nil)
}

// rankDistance is how far q is, in ranks, from where the decile's position n·k/10 lies.
func rankDistance(sorted []float64, q float64, k int) float64 {
	below := sort.SearchFloat64s(sorted, q)
	atOrBelow := sort.Search(len(sorted), func(i int) bool { return sorted[i] > q })
	position := float64(len(sorted)*k) / 10
	return max(0, float64(below)-position, position-float64(atOrBelow)-1)
}

func TestMergeIsNearTheTruth(t *testing.T) {
	r := random(t)
	for _, n := range []int{1, 2, 9, 11, 40, 1000} {
		for _, p := range []int{1, 2, 5} {
			for shape, column := range shapes(r, n) {
				var shares []Share
				var bound float64
				for _, part := range split(r, column, p) {
					d := Reduce(part)
					shares = append(shares, shareOf(d))
					bound += d.Eps + 1
				}
				got, ok := Merge(shares)
				if !ok {
					t.Fatalf("%s, n=%d, %d shares: no result", shape, n, p)
				}
				sorted := slices.Clone(column)
				sort.Float64s(sorted)
				if got[0] != sorted[0]+0 || got[10] != sorted[n-1]+0 {
					t.Fatalf("%s, n=%d: D0 %g, D10 %g, want %g and %g", shape, n, got[0], got[10], sorted[0], sorted[n-1])
				}
				for k := range N {
					if e := rankDistance(sorted, got[k], k); e > bound {
						t.Fatalf("%s, n=%d, %d shares: D%d = %g is %g ranks off, more than the certified %g", shape, n, p, k, got[k], e, bound)
					}
				}
			}
		}
	}
}

func TestMergeIsOrderFree(t *testing.T) {
	r := random(t)
	for shape, column := range shapes(r, 777) {
		var shares []Share
		for _, part := range split(r, column, 7) {
			shares = append(shares, shareOf(Reduce(part)))
		}
		want, _ := Merge(shares)
		for range 20 {
			r.Shuffle(len(shares), func(i, j int) { shares[i], shares[j] = shares[j], shares[i] })
			if got, _ := Merge(shares); got != want {
				t.Fatalf("%s: %v after a shuffle, %v before", shape, got, want)
			}
		}
	}
}

func TestMergeOfOneShare(t *testing.T) {
	r := random(t)
	for shape, column := range shapes(r, 500) {
		d := Reduce(column)
		got, ok := Merge([]Share{shareOf(d), {}})
		for k := range N {
			if want := d.Order[k]; !ok || math.Abs(got[k]-want) > 1e-9*math.Abs(want) {
				t.Errorf("%s: D%d = %g, want %g", shape, k, got[k], want)
			}
		}
	}
	if _, ok := Merge(nil); ok {
		t.Error("a merge of nothing has a result")
	}
}

func TestMergeOfAtomsIsWithinARank(t *testing.T) {
	r := random(t)
	for n := 1; n < 300; n += 7 {
		column := shapes(r, n)["integers"]
		var shares []Share
		for _, part := range split(r, column, 3) {
			count := map[float64]int64{}
			for _, v := range part {
				count[v]++
			}
			var atoms []Atom
			for v := range 7 {
				if c := count[float64(v)]; c > 0 {
					atoms = append(atoms, Atom{float64(v), c})
				}
			}
			if s := FromAtoms(atoms); s.Count != int64(len(part)) {
				t.Fatalf("%d of %d values", s.Count, len(part))
			} else {
				shares = append(shares, s)
			}
		}
		got, _ := Merge(shares)
		sorted := slices.Clone(column)
		sort.Float64s(sorted)
		for k := range N {
			if e := rankDistance(sorted, got[k], k); e > 1 {
				t.Fatalf("n=%d: D%d = %g is %g ranks off", n, k, got[k], e)
			}
		}
	}
}

func TestContradictoryKnotsDoNotPanic(t *testing.T) {
	r := random(t)
	for range 2000 {
		count := 1 + r.Int64N(40)
		order := make([]float64, N)
		for i := range order {
			order[i] = r.NormFloat64()
		}
		var knots []Knot
		for range r.IntN(5) {
			knots = append(knots, Knot{r.NormFloat64(), 1 + r.Int64N(count)})
		}
		d, _ := Merge([]Share{NewShare(count, order, knots), NewShare(3, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, nil)})
		if !slices.IsSorted(d[:]) {
			t.Fatalf("%v", d)
		}
	}
}

func TestMomentsAddByChan(t *testing.T) {
	r := random(t)
	for shape, column := range shapes(r, 300) {
		if shape == "huge" {
			continue // its squares overflow
		}
		want := Reduce(slices.Clone(column))
		var got Moments
		for _, part := range split(r, column, 4) {
			d := Reduce(part)
			got = got.Add(Moments{d.Count, d.Mean, d.M2})
		}
		if got.Count != want.Count || math.Abs(got.Mean-want.Mean) > 1e-12*math.Abs(want.Mean)+1e-300 || math.Abs(got.M2-want.M2) > 1e-9*want.M2+1e-300 {
			t.Errorf("%s: %+v, want mean %g m2 %g", shape, got, want.Mean, want.M2)
		}
	}
	huge := Moments{1, math.MaxFloat64, 0}.Add(Moments{1, -math.MaxFloat64, 0})
	if huge.Mean != 0 || math.IsInf(huge.M2, 0) || math.IsNaN(huge.M2) {
		t.Errorf("%+v", huge)
	}
}

func BenchmarkReduce(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{16, 1000, 150_000} {
		column := shapes(r, n)["lognormal"]
		scratch := make([]float64, n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(8 * n))
			for b.Loop() {
				copy(scratch, column)
				Reduce(scratch)
			}
		})
	}
}
