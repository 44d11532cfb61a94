// Package latency holds measured latencies: the matrix of all pairs of nodes, its files, and its statistics. It is
// pure. It knows neither the measurement nor the network behind the latencies.
package latency

import (
	"context"
	"fmt"
	"math"
)

// Matrix contains the one-way latency of each pair of nodes, in microseconds. A pair that was not measured is NaN.
// Latencies are the same in both directions.
type Matrix struct {
	names []string
	us    []float64 // the upper triangle, row by row

	TickUs float64 // step of the clock over the round trips of a batch; 0: unknown
	Noise  float64 // standard deviation of ln(latency) between repeats of a pair; 0: unknown

	warnings []string
}

// New returns a matrix of nodes between which nothing is measured. Names are valid and different.
func New(names []string) *Matrix {
	m := &Matrix{names: names, us: make([]float64, len(names)*(len(names)-1)/2)}
	for i := range m.us {
		m.us[i] = math.NaN()
	}
	return m
}

// Len returns the number of nodes.
func (m *Matrix) Len() int { return len(m.names) }

// Names returns the names of the nodes. The matrix owns the slice.
func (m *Matrix) Names() []string { return m.names }

// Warnings returns a reader's changes and doubts, each as one sentence.
func (m *Matrix) Warnings() []string { return m.warnings }

func (m *Matrix) warn(format string, args ...any) {
	m.warnings = append(m.warnings, fmt.Sprintf(format, args...))
}

// At returns the latency between two different nodes in microseconds, NaN if it was not measured.
func (m *Matrix) At(a, b int) float64 { return m.us[m.index(a, b)] }

// Set sets the latency between two different nodes in microseconds.
func (m *Matrix) Set(a, b int, us float64) { m.us[m.index(a, b)] = us }

func (m *Matrix) index(a, b int) int {
	if a > b {
		a, b = b, a
	}
	return a*(2*len(m.names)-a-1)/2 + b - a - 1
}

// Pair is two nodes by number, A below B.
type Pair struct{ A, B int }

// Measurer measures latencies.
type Measurer interface {
	// Names returns the names of the nodes. Pairs number them.
	Names() []string

	// Measure measures the pairs of one round at the same time. It returns their latencies in microseconds. No node
	// is in two pairs. A pair that could not be measured is NaN, which is no error.
	Measure(ctx context.Context, round []Pair) ([]float64, error)
}
