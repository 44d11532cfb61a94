package rules

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
)

// Bounds on an expression. There are no loops, so its length bounds its cost.
const (
	maxBytes = 4096
	maxNodes = 300
)

// jobSays, nodeSays, wholeSays and quarterSays are the types of what an expression may name beside metrics.
type (
	jobSays struct {
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
	nodeSays struct {
		CPUs           float64 `expr:"cpus"`
		ThreadsPerCore float64 `expr:"threads_per_core"`
		Memory         float64 `expr:"memory"`
		PeakFlops      float64 `expr:"peak_flops"`
		PeakFlopsCore  float64 `expr:"peak_flops_core"`
		PeakMemBW      float64 `expr:"peak_mem_bw"`
		Gpus           float64 `expr:"gpus"`
	}
	wholeSays struct {
		Mean    float64 `expr:"mean"`
		D0      float64 `expr:"d0"`
		D10     float64 `expr:"d10"`
		Count   float64 `expr:"count"`
		PerNode float64 `expr:"per_node"`
	}
	quarterSays struct {
		Mean float64 `expr:"mean"`
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

// names returns the names of a type's fields for expressions, in their order.
func names[T any]() (all []string) {
	for f := range reflect.TypeFor[T]().Fields() {
		if name, ok := f.Tag.Lookup("expr"); ok {
			all = append(all, name)
		}
	}
	return all
}

var (
	metricNames  = names[Metric]()
	jobNames     = names[jobSays]()
	nodeNames    = names[nodeSays]()
	wholeNames   = names[wholeSays]()
	quarterNames = names[quarterSays]()
)

// jobNumbers is how many of the job's fields are numbers. They come first.
const jobNumbers = 7

// reserved may not be the names of metrics.
var reserved = []string{
	"job", "node", "p", "above", "sum_means", "min", "max", "abs", "quarter", "spread", "spread_most", "rising",
}

// term computes a number, or a truth: 1, 0, or NaN where it is not known. So no comparison with what is not known
// holds, and none fails.
type term func(f *frame) float64

// wording is a text that is compared. Empty is not known.
type wording func(f *frame) string

// part is a compiled node of an expression: a number, a truth or a text.
type part struct {
	of    term
	truth bool
	text  wording // nil unless it is a text
}

// compiler turns an expression of a rule into terms.
type compiler struct {
	rule    *Rule
	layout  *layout
	source  file.Source
	metrics bool // it may name metrics
	life    bool // over the whole life
	guess   bool // an estimate will do, as for what is only shown
}

// truth compiles a condition.
func (c *compiler) truth(text string) (term, error) {
	p, err := c.compile(text, expr.AsBool())
	return p.of, err
}

// number compiles a number.
func (c *compiler) number(text string) (term, error) {
	p, err := c.compile(text, expr.AsFloat64())
	return p.of, err
}

// compile lets the library parse the text and check its types, and compiles what it found.
func (c *compiler) compile(text string, as expr.Option) (p part, err error) {
	defer func() {
		if fault := recover(); fault != nil { // of the library
			err = fmt.Errorf("%w: %v", errExpression, fault)
		}
	}()
	if len(text) > maxBytes {
		return part{}, fmt.Errorf("%w: it has %d bytes: at most %d", errExpression, len(text), maxBytes)
	}
	settings := conf.CreateNew()
	for _, set := range append(c.functions(), as, expr.Env(c.environment()), expr.MaxNodes(maxNodes)) {
		set(settings)
	}
	for name := range settings.Disabled {
		delete(settings.Builtins, name)
	}
	tree, err := checker.ParseCheck(text, settings)
	var wrong *file.Error
	if errors.As(err, &wrong) {
		wrong.Message = inWords.Replace(wrong.Message)
	}
	if err != nil {
		return part{}, fmt.Errorf("%w: %w", errExpression, err)
	}
	c.source = tree.Source
	return c.part(tree.Node)
}

// inWords replaces the names of our types in the library's messages.
var inWords = strings.NewReplacer("type rules.Metric", "a metric", "rules.Metric", "metric", "type rules.jobSays", "job",
	"rules.jobSays", "job", "type rules.nodeSays", "node", "rules.nodeSays", "node", "type rules.wholeSays",
	"a metric over a life", "rules.wholeSays", "metric", "type rules.quarterSays", "a quarter", "rules.quarterSays",
	"quarter", "type map[string]interface {}", "p")

// environment has the types of all that an expression may name.
func (c *compiler) environment() map[string]any {
	parameters := types.Map{}
	for name := range c.rule.parameters {
		parameters[name] = types.Float64
	}
	env := map[string]any{"job": jobSays{}, "node": nodeSays{}, "p": parameters}
	if !c.metrics {
		return env
	}
	for name := range c.layout.known {
		if env[name] = (Metric{}); c.life {
			env[name] = wholeSays{}
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
		all = append(all, of("quarter", new(func(wholeSays, int) quarterSays)),
			of("spread", new(func(wholeSays, int) float64)), of("spread_most", new(func(wholeSays, int) float64)),
			of("rising", new(func(wholeSays) bool)))
	case c.metrics:
		all = append(all, of("above", new(func(Metric, float64) float64)),
			of("sum_means", new(func(string, ...string) float64)))
	}
	return all
}

// fault is an error with a caret below the place.
func (c *compiler) fault(n ast.Node, format string, args ...any) error {
	e := &file.Error{Location: n.Location(), Message: fmt.Sprintf(format, args...)}
	return fmt.Errorf("%w: %w", errExpression, e.Bind(c.source))
}

func (c *compiler) part(n ast.Node) (part, error) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return constant(float64(n.Value)), nil
	case *ast.FloatNode:
		return constant(n.Value), nil
	case *ast.StringNode:
		return part{text: func(*frame) string { return n.Value }}, nil
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.CallNode:
		if callee, is := n.Callee.(*ast.IdentifierNode); is {
			return c.call(n, callee.Value, n.Arguments)
		}
	case *ast.BuiltinNode:
		return c.call(n, n.Name, n.Arguments)
	case *ast.IdentifierNode:
		return part{}, c.fault(n, "write a field of it, such as %s.mean", n.Value)
	}
	kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", n), "*ast."), "Node")
	return part{}, c.fault(n, "%s is not for rules: there are numbers, fields, + - * /, comparisons, && || and ?:",
		strings.ToLower(kind))
}

func constant(v float64) part { return part{of: func(*frame) float64 { return v }} }

// finite makes NaN of what is infinite, so that a division by zero is not taken for a large value.
func finite(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

func (c *compiler) unary(n *ast.UnaryNode) (part, error) {
	switch n.Operator {
	case "-", "+":
		p, err := c.part(n.Node)
		if of := p.of; n.Operator == "-" {
			p.of = func(f *frame) float64 { return -of(f) }
		}
		return p, err
	case "!", "not":
		return part{}, c.fault(n, "write the opposite comparison: with a value that is not known, !(x >= t) is neither")
	}
	return part{}, c.fault(n, "there is no operator %s for rules", n.Operator)
}

func (c *compiler) binary(n *ast.BinaryNode) (part, error) {
	left, err := c.part(n.Left)
	if err != nil {
		return part{}, err
	}
	right, err := c.part(n.Right)
	if err != nil {
		return part{}, err
	}
	if left.text != nil || right.text != nil {
		return c.words(n, left.text, right.text)
	}
	a, b := left.of, right.of
	if do := arithmetic[n.Operator]; do != nil {
		return part{of: func(f *frame) float64 { return finite(do(a(f), b(f))) }}, nil
	}
	if holds := comparisons[n.Operator]; holds != nil && !left.truth && !right.truth {
		return part{truth: true, of: func(f *frame) float64 {
			x, y := a(f), b(f)
			switch {
			case math.IsNaN(x) || math.IsNaN(y):
				return math.NaN()
			case holds(x, y):
				return 1
			}
			return 0
		}}, nil
	}
	switch n.Operator {
	case "&&", "and":
		return part{truth: true, of: func(f *frame) float64 { return both(a(f), b, f, 0) }}, nil
	case "||", "or":
		return part{truth: true, of: func(f *frame) float64 { return both(a(f), b, f, 1) }}, nil
	}
	return part{}, c.fault(n, "there is no operator %s for rules", n.Operator)
}

// both combines two truths, of which one that is decisive decides alone: false for &&, true for ||. The other may be
// unknown then.
func both(x float64, b term, f *frame, decisive float64) float64 {
	if x == decisive {
		return x
	}
	if y := b(f); y == decisive || !math.IsNaN(x) {
		return y
	}
	return x
}

// words compiles a comparison of two texts. One that is empty is not known.
func (c *compiler) words(n *ast.BinaryNode, a, b wording) (part, error) {
	if a == nil || b == nil || n.Operator != "==" && n.Operator != "!=" {
		return part{}, c.fault(n, "texts are for == and != alone")
	}
	same := n.Operator == "=="
	return part{truth: true, of: func(f *frame) float64 {
		x, y := a(f), b(f)
		switch {
		case x == "" || y == "":
			return math.NaN()
		case (x == y) == same:
			return 1
		}
		return 0
	}}, nil
}

func (c *compiler) conditional(n *ast.ConditionalNode) (part, error) {
	cond, err := c.part(n.Cond)
	if err != nil {
		return part{}, err
	}
	yes, err := c.part(n.Exp1)
	if err != nil {
		return part{}, err
	}
	no, err := c.part(n.Exp2)
	if err != nil {
		return part{}, err
	}
	if yes.text != nil || no.text != nil || yes.truth != no.truth {
		return part{}, c.fault(n, "both sides of ?: must be numbers, or both true or false")
	}
	when, a, b := cond.of, yes.of, no.of
	return part{truth: yes.truth, of: func(f *frame) float64 {
		switch is := when(f); {
		case math.IsNaN(is):
			return is
		case is != 0:
			return a(f)
		}
		return b(f)
	}}, nil
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

// reads notes what the rule must know. why is the reason where that is not known.
func (c *compiler) reads(why string, of term) {
	if !slices.ContainsFunc(c.rule.reads, func(r read) bool { return r.why == why }) {
		c.rule.reads = append(c.rule.reads, read{why, of})
	}
}

func (c *compiler) jobField(name string) part {
	i := slices.Index(jobNames, name)
	why := "job." + name + " is not known"
	if name == "smt_idle" {
		why = "machine.threads_per_core is not set"
	}
	if i < jobNumbers {
		p := part{of: func(f *frame) float64 { return f.job[i] }}
		c.reads(why, p.of)
		return p
	}
	if name == "state" {
		c.rule.waits = true
	}
	i -= jobNumbers
	p := part{text: func(f *frame) string { return f.words[i] }}
	c.reads(why, func(f *frame) float64 {
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
	c.reads(why, p.of)
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

var (
	arithmetic = map[string]func(a, b float64) float64{
		"+": func(a, b float64) float64 { return a + b },
		"-": func(a, b float64) float64 { return a - b },
		"*": func(a, b float64) float64 { return a * b },
		"/": func(a, b float64) float64 { return a / b },
	}
	comparisons = map[string]func(a, b float64) bool{
		"<":  func(a, b float64) bool { return a < b },
		"<=": func(a, b float64) bool { return a <= b },
		">":  func(a, b float64) bool { return a > b },
		">=": func(a, b float64) bool { return a >= b },
		"==": func(a, b float64) bool { return a == b },
		"!=": func(a, b float64) bool { return a != b },
	}
)
