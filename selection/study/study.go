// Package study makes tables whose truth is known, from a seed, and measures the methods of package selection on them.
// `make selection-study` runs all of it and writes its table into docs/selection.md.
//
//	factors ──proxies, twins, mixtures, noise──▶ metrics ──▶ a Case ──▶ methods ──▶ goals
//	   └──weights──▶ response
//
// A factor is a hidden process, such as the load of a disk. A metric sees one factor or more, or none.
package study

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirhpc/weir/selection"
)

// Case is a table with the truth behind it.
type Case struct {
	Table  *selection.Table
	Chunks [][]int  // rows of each chunk, a stretch of time that is a regime of its own
	Loads  [][]int  // factors that each metric observes
	Active []int    // factors that the response depends on
	Oracle []int    // the low-noise metric of each active factor
	Main   []string // an administrator's list: one metric for some factors of each machine
}

// False returns the share of metrics that observe no active factor.
func (c *Case) False(metrics []int) float64 {
	if len(metrics) == 0 {
		return 0
	}
	unrelated := 0
	for _, m := range metrics {
		if !slices.ContainsFunc(c.Loads[m], c.active) {
			unrelated++
		}
	}
	return float64(unrelated) / float64(len(metrics))
}

// Recall returns the share of active factors that one of the metrics observes.
func (c *Case) Recall(metrics []int) float64 {
	seen := 0
	for _, f := range c.Active {
		if slices.ContainsFunc(metrics, func(m int) bool { return slices.Contains(c.Loads[m], f) }) {
			seen++
		}
	}
	return float64(seen) / float64(len(c.Active))
}

func (c *Case) active(factor int) bool { return slices.Contains(c.Active, factor) }

// source returns the random numbers of one case. Each kind of case has a stream of its own, so that a noise response
// shares no draw with the metrics.
func source(seed uint64, stream string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(stream) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

func between(r *rand.Rand, low, high float64) float64 { return low + (high-low)*r.Float64() }

func sign(r *rand.Rand) float64 { return float64(2*r.IntN(2) - 1) }

// autoregressive returns n values of an AR(1) process with variance 1.
func autoregressive(r *rand.Rand, n int, phi float64) []float64 {
	x := make([]float64, n)
	x[0] = r.NormFloat64()
	for i := 1; i < n; i++ {
		x[i] = phi*x[i-1] + math.Sqrt(1-phi*phi)*r.NormFloat64()
	}
	return x
}

// standardise gives x mean 0 and variance 1, in place.
func standardise(x []float64) []float64 {
	m, sd := mean(x), deviation(x)
	for i := range x {
		x[i] = (x[i] - m) / sd
	}
	return x
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func deviation(x []float64) float64 {
	m, squares := mean(x), 0.0
	for _, v := range x {
		squares += (v - m) * (v - m)
	}
	return math.Sqrt(squares / float64(len(x)))
}

// stretches cuts rows 0 to n-1 into equal chunks.
func stretches(n, chunks int) [][]int {
	out := make([][]int, chunks)
	for c := range out {
		for i := n * c / chunks; i < n*(c+1)/chunks; i++ {
			out[c] = append(out[c], i)
		}
	}
	return out
}

// Rows returns a table of the given rows, in this order.
func Rows(t *selection.Table, rows []int) *selection.Table {
	out := &selection.Table{Units: t.Units, Start: pick(t.Start, rows)}
	if t.Unit != nil {
		out.Unit = pick(t.Unit, rows)
	}
	for _, m := range t.Metrics {
		columns := make([]selection.Column, len(m.Columns))
		for i, c := range m.Columns {
			columns[i] = selection.Column{Statistic: c.Statistic, Values: pick(c.Values, rows)}
		}
		m.Columns = columns
		out.Metrics = append(out.Metrics, m)
	}
	for _, y := range t.Responses {
		out.Responses = append(out.Responses, selection.Response{Name: y.Name, Values: pick(y.Values, rows)})
	}
	return out
}

func pick[T any](all []T, rows []int) []T {
	out := make([]T, len(rows))
	for i, r := range rows {
		out[i] = all[r]
	}
	return out
}
