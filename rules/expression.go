package rules

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
)

// Bounds on an expression. There are no loops, so its length bounds its cost.
const (
	maxBytes = 4096
	maxNodes = 300
)

// term computes a number or a truth value: 1, 0, or NaN for unknown. Comparisons with an unknown number are unknown
// themselves, neither true nor false.
type term func(f *frame) float64

// wording computes a text. Empty means unknown.
type wording func(f *frame) string

// part is a compiled node of an expression: a number, a truth or a text.
type part struct {
	of    term
	truth bool
	text  wording // nil unless the part is a text
}

// compiler turns an expression of a rule into terms.
type compiler struct {
	rule    *Rule
	layout  *layout
	source  file.Source
	metrics bool // the expression may name metrics
	life    bool // the expression is over the whole life
	guess   bool // estimates are allowed, since the number is only displayed
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

// compile parses a text and checks its types by the library, and then compiles the syntax tree itself.
func (c *compiler) compile(text string, as expr.Option) (p part, err error) {
	defer func() {
		if fault := recover(); fault != nil { // a fault in the library
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

// fault returns an error with a caret below the place in the text.
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

// finite turns infinity into NaN, so that a division by zero is not taken for a large value.
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
		return part{}, c.fault(n,
			"write the opposite comparison: with a value that is not known, !(x >= t) is neither")
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

// both combines two truth values. The decisive value, false for && and true for ||, settles the result even if the
// other value is unknown.
func both(x float64, b term, f *frame, decisive float64) float64 {
	if x == decisive {
		return x
	}
	if y := b(f); y == decisive || !math.IsNaN(x) {
		return y
	}
	return x
}

// words compiles a comparison of two texts. If one is empty, the result is unknown.
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
