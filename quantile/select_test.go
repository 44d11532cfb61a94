package quantile

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// A network that sorts every input of zeros and ones sorts every input (the 0-1 principle).
func TestNetworkSortsAllZeroOneInputs(t *testing.T) {
	for bits := range 1 << 16 {
		var x [16]int64
		for i := range x {
			x[i] = int64(bits >> i & 1)
		}
		network(&x)
		if !slices.IsSorted(x[:]) {
			t.Fatalf("%016b comes out as %v", bits, x)
		}
	}
}

func TestSort16(t *testing.T) {
	r := random(t)
	for n := range 17 {
		for range 200 {
			v := make([]float64, n)
			for i := range v {
				v[i] = []float64{r.NormFloat64(), 0, -1e308, 5e-324, float64(r.IntN(3))}[r.IntN(5)]
			}
			want := slices.Sorted(slices.Values(v))
			if sort16(v); !slices.Equal(v, want) {
				t.Fatalf("%v, want %v", v, want)
			}
		}
	}
}

// Depth 0 is what a column made to defeat the pivots ends in.
func TestSelectAtEveryDepth(t *testing.T) {
	r := random(t)
	for range cases(1000, 10_000) {
		s := shapes[r.IntN(len(shapes))]
		v := s.column(r, size(r, 2000))
		want := slices.Sorted(slices.Values(v))
		var ranks []int
		for range 1 + r.IntN(30) {
			ranks = append(ranks, r.IntN(len(v)))
		}
		slices.Sort(ranks)
		selectFrom(v, ranks, 0, r.IntN(12))
		for _, k := range ranks {
			if v[k] != want[k] {
				t.Fatalf("%s, n=%d: rank %d is %v, want %v", s.name, len(v), k, v[k], want[k])
			}
		}
	}
}

func TestReduceAllocatesNothing(t *testing.T) {
	column := shapes[0].column(rand.New(rand.NewPCG(1, 1)), 5000)
	scratch := make([]float64, len(column))
	if n := testing.AllocsPerRun(10, func() { copy(scratch, column); Reduce(scratch) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// fresh calls f on copies of column, one after the other, so that none is sorted yet. It returns the least time of a
// value in nanoseconds.
func fresh(column []float64, f func([]float64)) float64 {
	n := len(column)
	copies := make([]float64, n*max(1, 300_000/n))
	best := math.Inf(1)
	for range 5 {
		for i := 0; i < len(copies); i += n {
			copy(copies[i:], column)
		}
		start := time.Now()
		for i := 0; i < len(copies); i += n {
			f(copies[i : i+n])
		}
		best = min(best, float64(time.Since(start).Nanoseconds())/float64(len(copies)))
	}
	return best
}

// selectAgainstSort is what slices.Sort and the kernel take for a value of columns of n, in one run.
func selectAgainstSort(r *rand.Rand, n int) (sorting, selecting float64) {
	columns := make([][]float64, max(1, 300_000/n)) // many, lest the branches of a short sort are learned by heart
	for i := range columns {
		columns[i] = shapes[0].column(r, n)
	}
	all := slices.Concat(columns...)
	var buffer [2 * N]int
	ranks := decileRanks(buffer[:0], n)
	sorting = fresh(all, func(v []float64) {
		for ; len(v) > 0; v = v[n:] {
			slices.Sort(v[:n])
		}
	})
	selecting = fresh(all, func(v []float64) {
		for ; len(v) > 0; v = v[n:] {
			selectRanks(v[:n], ranks)
		}
	})
	return sorting, selecting
}

func selectTime(column []float64) float64 {
	var buffer [2 * N]int
	ranks := decileRanks(buffer[:0], len(column))
	return fresh(column, func(v []float64) { selectRanks(v, ranks) })
}

// BenchmarkSelect guards that the kernel has no branch that depends on a value. It compares with slices.Sort in one run
// on the same columns. The ratio is above 12 at 150,000 values, 5 at 1,000 and 4 at 16.
func BenchmarkSelect(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{16, 48, 112, 256, 1000, 4096, 16_384, 65_536, 150_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var sorting, selecting float64
			for b.Loop() {
				sorting, selecting = selectAgainstSort(r, n)
			}
			b.ReportMetric(selecting, "ns/value")
			b.ReportMetric(sorting/selecting, "x_sort")
		})
	}
}

// BenchmarkShapes shows that no shape is far worse than the smooth one, the first.
func BenchmarkShapes(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const n = 150_000
	smooth := selectTime(shapes[0].column(r, n))
	for _, s := range shapes {
		column := s.column(r, n)
		b.Run(s.name, func(b *testing.B) {
			var ns float64
			for b.Loop() {
				ns = selectTime(column)
			}
			b.ReportMetric(ns, "ns/value")
			b.ReportMetric(ns/smooth, "x_smooth")
		})
	}
}

// BenchmarkMachine is the whole of SuperMUC, 148,608 cores with 40 metrics, moments included: as one job, as jobs of
// 1,000 values, and certified. Only the reduction is timed.
func BenchmarkMachine(b *testing.B) {
	const cores, metrics = 148_608, 40
	column := shapes[0].column(rand.New(rand.NewPCG(1, 1)), cores)
	scratch := make([]float64, cores)
	for _, c := range []struct {
		name   string
		job    int
		reduce func([]float64)
	}{
		{"one job", cores, func(v []float64) { Reduce(v) }},
		{"jobs of 1000", 1000, func(v []float64) { Reduce(v) }},
		{"certified", cores, func(v []float64) { Certify(v, Large) }},
		{"certified in 8 shares", cores / 8, func(v []float64) { Certify(v, Large) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var spent time.Duration
			for b.Loop() {
				for range metrics {
					copy(scratch, column)
					start := time.Now()
					for v := scratch; len(v) > 0; v = v[min(c.job, len(v)):] {
						c.reduce(v[:min(c.job, len(v))])
					}
					spent += time.Since(start)
				}
			}
			b.ReportMetric(spent.Seconds()*1000/float64(b.N), "ms_reducing")
		})
	}
}
