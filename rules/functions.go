package rules

import (
	"math"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// call compiles a call of a function.
func (c *compiler) call(n ast.Node, name string, args []ast.Node) (part, error) {
	switch name {
	case "above":
		return c.above(n, args)
	case "sum_means":
		return c.sumMeans(n, args)
	case "quarter":
		return part{}, c.fault(n, "write a field of it, such as quarter(cpu_user, 4).d5")
	case "spread", "spread_most":
		return c.quarter(n, args, column{kind: name})
	case "rising":
		return c.rising(n, args)
	}
	var of []term
	for _, a := range args {
		p, err := c.part(a)
		if err != nil {
			return part{}, err
		}
		of = append(of, p.of)
	}
	switch name {
	case "abs":
		return part{of: func(f *frame) float64 { return math.Abs(of[0](f)) }}, nil
	case "min":
		return part{of: folded(of, math.Min)}, nil
	case "max":
		return part{of: folded(of, math.Max)}, nil
	}
	return part{}, c.fault(n, "there is no function %s for rules", name)
}

// folded returns the smallest or the largest of numbers. It is unknown if any of them is.
func folded(of []term, do func(a, b float64) float64) term {
	return func(f *frame) float64 {
		v := of[0](f)
		for _, t := range of[1:] {
			v = do(v, t(f))
		}
		return v
	}
}

// metric returns the metric that an argument names.
func (c *compiler) metric(n ast.Node, args []ast.Node) (int, error) {
	if len(args) > 0 {
		if name, is := args[0].(*ast.IdentifierNode); is {
			return c.input(n, name.Value, c.rule.Needs, "needs")
		}
	}
	return 0, c.fault(n, "the first argument is the name of a metric")
}

// above compiles the share of values that are proven to lie above a threshold.
func (c *compiler) above(n ast.Node, args []ast.Node) (part, error) {
	i, err := c.metric(n, args)
	if err != nil {
		return part{}, err
	}
	limit, err := c.part(args[1])
	if err != nil {
		return part{}, err
	}
	return part{of: func(f *frame) float64 { return above(&f.in[i], limit.of(f)) }}, nil
}

// above returns (10-k)/10 for the smallest k with lo_k > t: at least that share of the values lies above t.
func above(v *values, t float64) float64 {
	if math.IsNaN(t) || math.IsNaN(v[atLo0]) {
		return math.NaN()
	}
	for k := range 10 {
		if v[atLo0+k] > t {
			return float64(10-k) / 10
		}
	}
	return 0
}

// sumMeans compiles the sum of the means of the given metrics, as far as an interval has them.
func (c *compiler) sumMeans(n ast.Node, args []ast.Node) (part, error) {
	var of []int
	for _, a := range args {
		name, is := a.(*ast.StringNode)
		if !is {
			return part{}, c.fault(n, `the arguments are names of metrics, such as "disk_bytes"`)
		}
		i, err := c.input(a, name.Value, slices.Concat(c.rule.Needs, c.rule.Uses), "needs or uses")
		if err != nil {
			return part{}, err
		}
		of = append(of, i)
	}
	complete := c.rule.guards.Complete
	return part{of: func(f *frame) float64 {
		sum, some := 0.0, false
		for _, i := range of {
			if f.there[i] {
				if f.few(i, complete) { // the values on the other nodes are unknown
					return math.NaN()
				}
				sum, some = sum+f.in[i][atMean], true
			}
		}
		if !some {
			return math.NaN()
		}
		return finite(sum)
	}}, nil
}

// quarter compiles a mean over the intervals of a quarter of the job.
func (c *compiler) quarter(n ast.Node, args []ast.Node, of column) (part, error) {
	i, err := c.metric(n, args)
	if err != nil {
		return part{}, err
	}
	q, is := args[1].(*ast.IntegerNode)
	if !is || q.Value < 1 || q.Value > 4 {
		return part{}, c.fault(args[1], "a quarter is 1, 2, 3 or 4")
	}
	of.input = i
	col, number := c.layout.column(of), q.Value
	return part{of: func(f *frame) float64 { return f.life.quarter(f.variant, col, number) }}, nil
}

// rising compiles the question whether the spread has grown from quarter to quarter. It compares an upper bound before
// with a lower bound after, so that estimates never prove growth.
func (c *compiler) rising(n ast.Node, args []ast.Node) (part, error) {
	i, err := c.metric(n, args)
	if err != nil {
		return part{}, err
	}
	least := c.layout.column(column{input: i, kind: "spread"})
	most := c.layout.column(column{input: i, kind: "spread_most"})
	return part{truth: true, of: func(f *frame) float64 {
		for q := 1; q < 4; q++ {
			before, after := f.life.quarter(f.variant, most, q), f.life.quarter(f.variant, least, q+1)
			switch {
			case math.IsNaN(before) || math.IsNaN(after):
				return math.NaN()
			case after <= before:
				return 0
			}
		}
		return 1
	}}, nil
}
