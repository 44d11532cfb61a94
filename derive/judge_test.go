package derive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
)

// judged is compile, by the parser of expr-lang/expr.
func (m *metric) judged() (err error) {
	defer func() {
		if fault := recover(); fault != nil { // of the parser
			err = m.fault("it cannot be read: %v", fault)
		}
	}()
	if len(m.Expr) > maxBytes {
		return m.fault("its expression has %d bytes: at most %d", len(m.Expr), maxBytes)
	}
	c := conf.CreateNew()
	c.MaxNodes = maxNodes
	tree, err := parser.ParseWithConfig(m.Expr, c)
	if err != nil {
		return m.fault("%w", err)
	}
	k := judge{metric: m}
	t, isBool, err := k.term(tree.Node)
	if err != nil {
		return err
	}
	switch {
	case isBool:
		return m.fault("it gives true or false, and not a number: write (%s) ? 1 : 0", m.Expr)
	case len(m.uses) == 0:
		return m.fault("it uses no metric")
	}
	m.eval = t
	return nil
}

// judge turns the nodes of an expression into terms. True is 1 and false is 0.
type judge struct{ metric *metric }

func (k *judge) fault(n ast.Node, format string, args ...any) error {
	return k.metric.fault("%s, at character %d", fmt.Sprintf(format, args...), n.Location().From+1)
}

func (k *judge) term(n ast.Node) (t term, isBool bool, err error) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return constant(float64(n.Value)), false, nil
	case *ast.FloatNode:
		return constant(n.Value), false, nil
	case *ast.BoolNode:
		if n.Value {
			return constant(1), true, nil
		}
		return constant(0), true, nil
	case *ast.IdentifierNode:
		return k.input(n.Value), false, nil
	case *ast.UnaryNode:
		return k.unary(n)
	case *ast.BinaryNode:
		return k.binary(n)
	case *ast.ConditionalNode:
		return k.conditional(n)
	case *ast.BuiltinNode:
		t, err = k.call(n, n.Name, n.Arguments)
		return t, false, err
	case *ast.CallNode:
		t, err = k.named(n)
		return t, false, err
	case *ast.MemberNode:
		return nil, false, k.fault(n, `a name with dots, colons or hyphens is written metric("a.name")`)
	}
	kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", n), "*ast."), "Node")
	return nil, false, k.fault(n, "%s is not for metrics: there are numbers, + - * / **, comparisons, and, or, not, "+
		"?: and the functions %s", strings.ToLower(kind), functionNames())
}

// number is term, and requires a number.
func (k *judge) number(n ast.Node) (term, error) {
	t, isBool, err := k.term(n)
	if err == nil && isBool {
		err = k.fault(n, "a number is wanted, not true or false")
	}
	return t, err
}

// truth is term, and requires true or false.
func (k *judge) truth(n ast.Node) (term, error) {
	t, isBool, err := k.term(n)
	if err == nil && !isBool {
		err = k.fault(n, "true or false is wanted, not a number")
	}
	return t, err
}

// input returns the term of a metric.
func (k *judge) input(name string) term {
	i := slices.Index(k.metric.uses, name)
	if i < 0 {
		i = len(k.metric.uses)
		k.metric.uses = append(k.metric.uses, name)
	}
	return input(i)
}

func (k *judge) unary(n *ast.UnaryNode) (t term, isBool bool, err error) {
	switch n.Operator {
	case "-", "+":
		if t, err = k.number(n.Node); err == nil && n.Operator == "-" {
			t = one(t, func(v float64) float64 { return -v })
		}
		return t, false, err
	case "!", "not":
		if t, err = k.truth(n.Node); err == nil {
			t = one(t, func(v float64) float64 { return 1 - v })
		}
		return t, true, err
	}
	return nil, false, k.fault(n, "there is no operator %s for metrics", n.Operator)
}

func (k *judge) binary(n *ast.BinaryNode) (t term, isBool bool, err error) {
	of, isBool := arithmetic[n.Operator], false
	side := k.number
	if of == nil {
		of, isBool = comparisons[n.Operator], true
	}
	if of == nil {
		of, side = logic[n.Operator], k.truth
	}
	if of == nil {
		return nil, false, k.fault(n, "there is no operator %s for metrics", n.Operator)
	}
	left, err := side(n.Left)
	if err != nil {
		return nil, false, err
	}
	right, err := side(n.Right)
	return two(left, right, of), isBool, err
}

func (k *judge) conditional(n *ast.ConditionalNode) (t term, isBool bool, err error) {
	cond, err := k.truth(n.Cond)
	if err != nil {
		return nil, false, err
	}
	yes, isBool, err := k.term(n.Exp1)
	if err != nil {
		return nil, false, err
	}
	no, otherBool, err := k.term(n.Exp2)
	if err == nil && isBool != otherBool {
		err = k.fault(n, "both sides of ?: must be numbers, or both true or false")
	}
	return choice(cond, yes, no), isBool, err
}

// named compiles a call that is no part of the language: a metric's name as text, or a function of ours.
func (k *judge) named(n *ast.CallNode) (term, error) {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return nil, k.fault(n, "there are only the functions %s", functionNames())
	}
	if callee.Value != "metric" {
		return k.call(n, callee.Value, n.Arguments)
	}
	if len(n.Arguments) == 1 {
		if name, is := n.Arguments[0].(*ast.StringNode); is {
			return k.input(name.Value), nil
		}
	}
	return nil, k.fault(n, `the name of a metric is written metric("a.name")`)
}

// call compiles a call of a function.
func (k *judge) call(n ast.Node, name string, args []ast.Node) (t term, err error) {
	single, folds := functions[name], foldings[name]
	switch {
	case single == nil && folds == nil:
		return nil, k.fault(n, "there is no function %q for metrics: there are %s", name, functionNames())
	case single != nil && len(args) != 1, folds != nil && len(args) == 0:
		return nil, k.fault(n, "%s has %d arguments", name, len(args))
	}
	for i, a := range args {
		of, err := k.number(a)
		if err != nil {
			return nil, err
		}
		switch {
		case single != nil:
			t = one(of, single)
		case i == 0:
			t = of
		default:
			t = two(t, of, folds)
		}
	}
	return t, nil
}
