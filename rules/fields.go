package rules

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// names returns the names of a type's fields for expressions, in their order.
func names[T any]() (all []string) {
	for f := range reflect.TypeFor[T]().Fields() {
		if name, ok := f.Tag.Lookup("expr"); ok {
			all = append(all, name)
		}
	}
	return all
}

// Places of numbers in frame.job, in the order of jobFields. jobNumbers counts them: they come before the texts.
const (
	atNodes    = 0
	atCores    = 1
	atSMTIdle  = 6
	jobNumbers = 7
)

// reserved are names that metrics must not have.
var reserved = []string{
	"job", "node", "p", "above", "sum_means", "min", "max", "abs", "quarter", "spread", "spread_most", "rising",
}

// member compiles a field of the job, the node, a parameter, a metric or a quarter.
func (c *compiler) member(n *ast.MemberNode) (part, error) {
	property, is := n.Property.(*ast.StringNode)
	if !is {
		return part{}, c.fault(n, "a field is named as in cpu_user.mean")
	}
	name := property.Value
	if call, is := n.Node.(*ast.CallNode); is {
		callee, known := call.Callee.(*ast.IdentifierNode)
		if !known || callee.Value != "quarter" {
			return part{}, c.fault(n, "only quarter(metric, number) has fields")
		}
		return c.quarter(call, call.Arguments, columnOf(name))
	}
	of, is := n.Node.(*ast.IdentifierNode)
	if !is {
		return part{}, c.fault(n, "a field is named as in cpu_user.mean")
	}
	switch of.Value {
	case "job":
		return c.jobField(name), nil
	case "node":
		return c.nodeField(name), nil
	case "p":
		return constant(c.rule.parameters[name]), nil
	}
	return c.metricField(n, of.Value, name)
}

// reads adds a fact that the rule depends on. why is the reason in case it is unknown. fact is its name if it is about
// the node.
func (c *compiler) reads(why, fact string, of term) {
	if !slices.ContainsFunc(c.rule.reads, func(r read) bool { return r.why == why }) {
		c.rule.reads = append(c.rule.reads, read{why, fact, of})
	}
}

func (c *compiler) jobField(name string) part {
	i := slices.Index(jobNames, name)
	why, fact := "job."+name+" is not known", ""
	if name == "smt_idle" {
		why, fact = "machine.threads_per_core is not set", "threads_per_core"
	}
	if i < jobNumbers {
		p := part{of: func(f *frame) float64 { return f.job[i] }}
		c.reads(why, fact, p.of)
		return p
	}
	if name == "state" {
		c.rule.waits = true
	}
	i -= jobNumbers
	p := part{text: func(f *frame) string { return f.words[i] }}
	c.reads(why, fact, func(f *frame) float64 {
		if f.words[i] == "" {
			return math.NaN()
		}
		return 1
	})
	return p
}

func (c *compiler) nodeField(name string) part {
	i := slices.Index(nodeNames, name)
	why := "machine." + name + " is not set"
	if name == "peak_flops_core" {
		why = "machine.peak_flops or machine.cpus is not set"
	}
	p := part{of: func(f *frame) float64 { return f.node[i] }}
	c.reads(why, name, p.of)
	return p
}

func (c *compiler) metricField(n ast.Node, metric, field string) (part, error) {
	i, err := c.input(n, metric, c.rule.Needs, "needs")
	if err != nil {
		return part{}, err
	}
	if c.life {
		w, k := c.layout.whole(i), slices.Index(wholeNames, field)
		return part{of: func(f *frame) float64 { return f.life.wholes[w].field(k) }}, nil
	}
	k := slices.Index(metricNames, field)
	switch {
	case k == atLowNodeMean || k == atHighNodeMean:
		p := part{of: func(f *frame) float64 { return f.in[i][k] }}
		c.rule.unknown = fmt.Sprintf("%s.%s is not known: an older version wrote the summaries", metric, field)
		return p, nil
	case k > atD0 && k < atD0+10 && !c.guess: // an estimate of a decile proves nothing
		return part{of: func(f *frame) float64 {
			if v := &f.in[i]; v[atLo0+k] == v[atHi0+k] {
				return v[k]
			}
			return math.NaN()
		}}, nil
	}
	return part{of: func(f *frame) float64 { return f.in[i][k] }}, nil
}

// input returns the index of a metric that the rule declares.
func (c *compiler) input(n ast.Node, metric string, declared []string, key string) (int, error) {
	if !slices.Contains(declared, metric) {
		return 0, c.fault(n, "metric %s is not in %s of the rule", metric, key)
	}
	i, _ := slices.BinarySearch(c.layout.inputs, metric)
	return i, nil
}
