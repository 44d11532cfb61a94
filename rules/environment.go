package rules

import (
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
)

// jobFields, nodeFields, wholeFields and quarterFields are the types of the names in an expression, except for metrics.
type (
	jobFields struct {
		Nodes        float64 `expr:"nodes"`
		Cores        float64 `expr:"cores"`
		Gpus         float64 `expr:"gpus"`
		DurationS    float64 `expr:"duration_s"`
		TimeLimitS   float64 `expr:"time_limit_s"`
		MemRequested float64 `expr:"mem_requested"`
		SmtIdle      float64 `expr:"smt_idle"`
		ID           string  `expr:"id"`
		User         string  `expr:"user"`
		Account      string  `expr:"account"`
		Queue        string  `expr:"queue"`
		State        string  `expr:"state"`
	}
	nodeFields struct {
		CPUs           float64 `expr:"cpus"`
		ThreadsPerCore float64 `expr:"threads_per_core"`
		Memory         float64 `expr:"memory"`
		PeakFlops      float64 `expr:"peak_flops"`
		PeakFlopsCore  float64 `expr:"peak_flops_core"`
		PeakMemBW      float64 `expr:"peak_mem_bw"`
		Gpus           float64 `expr:"gpus"`
	}
	wholeFields struct {
		Mean    float64 `expr:"mean"`
		D0      float64 `expr:"d0"`
		D10     float64 `expr:"d10"`
		Count   float64 `expr:"count"`
		PerNode float64 `expr:"per_node"`
	}
	quarterFields struct {
		Mean float64 `expr:"mean"`
		D0   float64 `expr:"d0"`
		D10  float64 `expr:"d10"`
		D1   float64 `expr:"d1"`
		D5   float64 `expr:"d5"`
		D9   float64 `expr:"d9"`
		Lo1  float64 `expr:"lo1"`
		Lo5  float64 `expr:"lo5"`
		Lo9  float64 `expr:"lo9"`
		Hi1  float64 `expr:"hi1"`
		Hi5  float64 `expr:"hi5"`
		Hi9  float64 `expr:"hi9"`
	}
)

var (
	metricNames = names[Metric]()
	jobNames    = names[jobFields]()
	nodeNames   = names[nodeFields]()
	wholeNames  = names[wholeFields]()
)

// inWords replaces the names of our types in the library's messages.
var inWords = strings.NewReplacer(
	"type rules.Metric", "a metric",
	"rules.Metric", "metric",
	"type rules.jobFields", "job",
	"rules.jobFields", "job",
	"type rules.nodeFields", "node",
	"rules.nodeFields", "node",
	"type rules.wholeFields", "a metric over a life",
	"rules.wholeFields", "metric",
	"type rules.quarterFields", "a quarter",
	"rules.quarterFields", "quarter",
	"type map[string]interface {}", "p",
)

// environment returns the types of all names that an expression may use.
func (c *compiler) environment() map[string]any {
	parameters := types.Map{}
	for name := range c.rule.parameters {
		parameters[name] = types.Float64
	}
	env := map[string]any{"job": jobFields{}, "node": nodeFields{}, "p": parameters}
	if !c.metrics {
		return env
	}
	for name := range c.layout.known {
		if env[name] = (Metric{}); c.life {
			env[name] = wholeFields{}
		}
	}
	return env
}

// functions declares the functions. The library only checks their types: it never runs an expression.
func (c *compiler) functions() []expr.Option {
	never := func(...any) (any, error) { return nil, errExpression }
	of := func(name string, as any) expr.Option { return expr.Function(name, never, as) }
	all := []expr.Option{
		expr.DisableAllBuiltins(), of("min", new(func(float64, float64, ...float64) float64)),
		of("max", new(func(float64, float64, ...float64) float64)), of("abs", new(func(float64) float64)),
	}
	switch {
	case c.life:
		all = append(all, of("quarter", new(func(wholeFields, int) quarterFields)),
			of("spread", new(func(wholeFields, int) float64)), of("spread_most", new(func(wholeFields, int) float64)),
			of("rising", new(func(wholeFields) bool)))
	case c.metrics:
		all = append(all, of("above", new(func(Metric, float64) float64)),
			of("sum_means", new(func(string, ...string) float64)))
	}
	return all
}
