package selection

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

// machineLike is a table as machines make it: hidden factors in regimes, metrics that follow them closely or poorly,
// and constants. The response follows nine factors.
func machineLike(seed uint64, metrics, rows int) *Table {
	r := rand.New(rand.NewPCG(seed, 1))
	factors := make([][]float64, max(12, metrics/10))
	for f := range factors {
		factors[f] = autoregressive(r, rows, .6+.35*r.Float64())
	}
	t := &Table{Start: make([]int64, rows)}
	for i := range t.Start {
		t.Start[i] = int64(i) * 5000
	}
	for m := range metrics {
		values := make([]float64, rows)
		of, noise := factors[m%len(factors)], r.Float64()
		if m%3 == 0 {
			noise = .02
		}
		scale, offset := math.Exp(4*r.NormFloat64()), 1000*r.Float64()
		for i := range values {
			if m%5 != 4 || m < len(factors) {
				values[i] = offset + scale*(of[i]+noise*r.NormFloat64())
			}
		}
		t.Metrics = append(t.Metrics, Metric{
			Name: fmt.Sprintf("m%05d", m), Source: fmt.Sprintf("s%d", m%7), Columns: []Column{{Values: values}},
		})
	}
	y := make([]float64, rows)
	noise := autoregressive(r, rows, .5)
	for i := range y {
		for f := range 9 {
			y[i] += factors[f][i] * (1 - .1*float64(f))
		}
		y[i] += .5 * noise[i]
	}
	t.Responses = []Response{{Name: "y", Values: y}}
	return t
}

// autoregressive is an AR(1) series of variance 1 whose level and gain change four times.
func autoregressive(r *rand.Rand, n int, phi float64) []float64 {
	x := make([]float64, n)
	last, level, gain := r.NormFloat64(), 0., 1.
	for i := range x {
		if i%((n+4)/5) == 0 {
			level, gain = .5*r.NormFloat64(), math.Exp(.3*r.NormFloat64())
		}
		last = phi*last + math.Sqrt(1-phi*phi)*r.NormFloat64()
		x[i] = level + gain*last
	}
	return x
}

func BenchmarkSelect(b *testing.B) {
	short := Defaults()
	short.Shifts, short.Halves = 0, 0
	covered := Defaults() // as the command asks for it
	covered.Coverage = .9
	for _, c := range []struct {
		metrics int
		name    string
		o       Options
	}{
		{628, "short", short},
		{628, "report", Defaults()},
		{5000, "report", Defaults()},
		{628, "covered", covered},
		{5000, "covered", covered},
	} {
		b.Run(fmt.Sprintf("%dx3000/%s", c.metrics, c.name), func(b *testing.B) {
			t := machineLike(1, c.metrics, 3000)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Select(t, c.o); err != nil {
					b.Fatal(err)
				}
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapSys)/(1<<20), "MiB-heap")
		})
	}
}
