package rules

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestBins: no interval is lost when bins widen, their order does not matter, and a quarter is one to half a bin.
func TestBins(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	col := &column{n: 0, at: 1}
	for n := range 300 {
		count, step := 12+r.IntN(2000), int64(1+r.IntN(100_000))
		start := r.Int64N(1e12) - 2e11
		if n%2 == 0 {
			start = start / step * step // as intervals begin
		}
		var b, shuffled bins
		sum := 0.0
		for i := range count {
			b.add(start+int64(i)*step, step, []float64{1, float64(i)})
			sum += float64(i)
		}
		shuffled.add(start, step, []float64{1, 0}) // the first one sets the width
		for _, i := range r.Perm(count - 1) {
			shuffled.add(start+int64(i+1)*step, step, []float64{1, float64(i + 1)})
		}
		var got, total float64
		for i := range b.len() {
			got, total = got+b.row(i)[0], total+b.row(i)[1]
		}
		if got != float64(count) || total != sum || b.len() > maxBins || count > maxBins && b.len() < maxBins/2 {
			t.Fatalf("seed %d, case %d: %v of %d intervals in %d bins", seed, n, got, count, b.len())
		}
		if b.width != shuffled.width || b.first != shuffled.first || b.len() != shuffled.len() {
			t.Fatalf("seed %d, case %d: another order gives other bins", seed, n)
		}
		end := start + int64(count)*step
		for q := 1; q <= 4; q++ {
			want := (float64(q) - 0.5) / 4 * float64(count)
			mean, other := b.quarter(col, start, end, q), shuffled.quarter(col, start, end, q)
			if off := float64(b.width/step) + 1.5; mean != other || !(math.Abs(mean-want) <= off) {
				t.Fatalf("seed %d, case %d: quarter %d of %d is %v or %v, not %v within %v", seed, n, q, count, mean,
					other, want, off)
			}
		}
	}
}

// TestWholes: mean, least and largest value of a life weigh intervals by their values. Intervals without the metric do
// not count.
func TestWholes(t *testing.T) {
	var w whole
	if !math.IsNaN(w.field(0)) || !math.IsNaN(w.field(2)) {
		t.Error("a metric that never came has a mean")
	}
	for _, n := range [][]float64{
		{2 * 10, 10, 2, 1, 3},
		{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()},
		{6 * 30, 30, 2, 5, 9},
		{0, 0, 0, 0, 0},
	} {
		w.add(n)
	}
	for k, want := range []float64{5, 1, 9, 40, 10} {
		if got := w.field(k); got != want {
			t.Errorf("%s is %v, not %v", wholeNames[k], got, want)
		}
	}
}
