package derive

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// term computes a part of an expression, for as many values as out holds. A result that is not finite becomes NaN.
type term func(f *frame, out []float64)

// frame holds the inputs of an expression during its evaluation. An input has a value for each place, or one for all.
type frame struct {
	inputs [][]float64
	spare  [][]float64
}

// take returns memory for n values.
func (f *frame) take(n int) []float64 {
	if last := len(f.spare) - 1; last >= 0 {
		v := f.spare[last]
		f.spare = f.spare[:last]
		return slices.Grow(v[:0], n)[:n]
	}
	return make([]float64, n)
}

func (f *frame) give(v []float64) { f.spare = append(f.spare, v) }

// finite turns infinity into NaN, so that a division by zero is not taken for a value later.
func finite(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

func constant(c float64) term {
	c = finite(c)
	return func(_ *frame, out []float64) {
		for i := range out {
			out[i] = c
		}
	}
}

func input(n int) term {
	return func(f *frame, out []float64) {
		in := f.inputs[n]
		if len(in) == len(out) {
			copy(out, in)
			return
		}
		for i := range out {
			out[i] = in[0]
		}
	}
}

func one(of term, do func(float64) float64) term {
	return func(f *frame, out []float64) {
		of(f, out)
		for i, v := range out {
			out[i] = finite(do(v))
		}
	}
}

func two(a, b term, do func(a, b float64) float64) term {
	return func(f *frame, out []float64) {
		a(f, out)
		right := f.take(len(out))
		b(f, right)
		for i, v := range out {
			out[i] = finite(do(v, right[i]))
		}
		f.give(right)
	}
}

// choice takes a value of yes or no. The other one does not matter, even if it is NaN.
func choice(cond, yes, no term) term {
	return func(f *frame, out []float64) {
		c, other := f.take(len(out)), f.take(len(out))
		cond(f, c)
		yes(f, out)
		no(f, other)
		for i, v := range c {
			switch {
			case math.IsNaN(v):
				out[i] = v
			case v == 0:
				out[i] = other[i]
			}
		}
		f.give(c)
		f.give(other)
	}
}

// compared makes a comparison that is neither true nor false if a side has no value.
func compared(holds func(a, b float64) bool) func(a, b float64) float64 {
	return func(a, b float64) float64 {
		switch {
		case math.IsNaN(a) || math.IsNaN(b):
			return math.NaN()
		case holds(a, b):
			return 1
		}
		return 0
	}
}

// and is false if one side is, even if the other is NaN, so that a condition can guard against a missing value.
func and(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a * b
}

// or is true if a side is.
func or(a, b float64) float64 {
	if a == 1 || b == 1 {
		return 1
	}
	return math.Max(a, b)
}

var (
	arithmetic = map[string]func(a, b float64) float64{
		"+":  func(a, b float64) float64 { return a + b },
		"-":  func(a, b float64) float64 { return a - b },
		"*":  func(a, b float64) float64 { return a * b },
		"/":  func(a, b float64) float64 { return a / b },
		"**": math.Pow,
		"^":  math.Pow,
	}
	comparisons = map[string]func(a, b float64) float64{
		"<":  compared(func(a, b float64) bool { return a < b }),
		"<=": compared(func(a, b float64) bool { return a <= b }),
		">":  compared(func(a, b float64) bool { return a > b }),
		">=": compared(func(a, b float64) bool { return a >= b }),
		"==": compared(func(a, b float64) bool { return a == b }),
		"!=": compared(func(a, b float64) bool { return a != b }),
	}
	logic = map[string]func(a, b float64) float64{
		"and": and,
		"&&":  and,
		"or":  or,
		"||":  or,
	}
	functions = map[string]func(float64) float64{
		"abs": math.Abs, "ceil": math.Ceil, "floor": math.Floor, "round": math.Round,
		"sqrt": math.Sqrt, "log": math.Log, "log10": math.Log10, "exp": math.Exp,
	}
	foldings = map[string]func(a, b float64) float64{"min": math.Min, "max": math.Max}
)

// Apply adds the metrics of the set to a record. A metric without any input in the record is left out. If only some
// inputs have a value, the result is NaN. A recorded metric with the name of a definition is replaced.
func (s *Set) Apply(b *schemas.CounterBatch) {
	for i := range s.metrics {
		m := &s.metrics[i]
		if j := find(b, m.Name); j >= 0 {
			b.Metrics = slices.Delete(b.Metrics, j, j+1)
		}
		n, known := m.places(b)
		if !known {
			continue
		}
		if values := m.values(b, n, &s.frame); values != nil {
			b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
				Name: m.Name, Unit: m.Unit, Scope: m.Scope, Values: values,
			})
		}
	}
}

// places returns the number of values of the metric in a record. It is unknown for a metric of sockets or GPUs without
// any input in the record.
func (m *metric) places(b *schemas.CounterBatch) (n int, known bool) {
	switch m.Scope {
	case schemas.ScopeCore:
		return len(b.Cpus), true
	case schemas.ScopeSocket, schemas.ScopeGPU:
		for _, name := range m.uses {
			if j := find(b, name); j >= 0 && b.Metrics[j].Scope == m.Scope {
				return len(b.Metrics[j].Values), true
			}
		}
		return 0, false
	}
	return 1, true
}

// find returns the index of a metric in a record, or -1.
func find(b *schemas.CounterBatch, name string) int {
	return slices.IndexFunc(b.Metrics, func(m schemas.CounterBatchMetric) bool { return m.Name == name })
}

// absent is the input of a metric that a record lacks.
var absent = []float64{math.NaN()}

// values computes n values of the metric, or none if the record contains no input of it.
func (m *metric) values(b *schemas.CounterBatch, n int, f *frame) []float64 {
	f.inputs = f.inputs[:0]
	there := false
	for _, name := range m.uses {
		in := absent
		if j := find(b, name); j >= 0 {
			there = true
			of := &b.Metrics[j]
			switch k := len(of.Values); {
			case of.Scope == schemas.ScopeNode && k == 1, of.Scope == m.Scope && k == n && k > 0:
				in = of.Values
			}
		}
		f.inputs = append(f.inputs, in)
	}
	if !there {
		return nil
	}
	out := make([]float64, n)
	m.eval(f, out)
	for _, in := range f.inputs {
		for i := range out {
			v := in[min(i, len(in)-1)]
			if math.IsNaN(v) || math.IsInf(v, 0) {
				out[i] = math.NaN()
			}
		}
	}
	return out
}
