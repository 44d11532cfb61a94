package derive

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
)

// Bounds on an expression.
const (
	maxBytes = 4096
	maxNodes = 500
)

// compile parses the expression, and makes a term of it.
func (m *metric) compile() (err error) {
	defer func() {
		if fault := recover(); fault != nil { // of the lexer
			err = m.fault("it cannot be read: %v", fault)
		}
	}()
	if len(m.Expr) > maxBytes {
		return m.fault("its expression has %d bytes: at most %d", len(m.Expr), maxBytes)
	}
	k := compiler{metric: m, source: file.NewSource(m.Expr), lexer: lexer.New()}
	k.lexer.Reset(k.source)
	err = k.next()
	var all value
	if err == nil {
		all, err = k.sequence()
	}
	if err == nil && k.token.Kind != lexer.EOF {
		err = k.unexpected()
	}
	switch {
	case err != nil:
		return err
	case all.isBool:
		return m.fault("it gives true or false, and not a number: write (%s) ? 1 : 0", m.Expr)
	case len(m.uses) == 0 && !all.isText:
		return m.fault("it uses no metric")
	}
	if m.eval, err = k.number(all); err != nil {
		return err
	}
	return nil
}

// compiler turns the tokens of an expression into terms. The lexer is that of expr-lang/expr. The library's parser is
// not used, because it brings the whole language into the agent: 5 MB of the program, and 1.5 MB of memory. Names,
// operators and their precedence are the same (TestParserAgrees).
type compiler struct {
	metric *metric
	source file.Source
	lexer  *lexer.Lexer
	token  lexer.Token // the next one
	nodes  int         // of the expression so far
}

// value is a part of an expression: a number, a truth, or the name of a metric as text. True is 1 and false is 0.
type value struct {
	of     term
	text   string
	isBool bool
	isText bool
	at     int // of its first token, or of its operator; from 0, in characters
}

func (k *compiler) fault(at int, format string, args ...any) error {
	return k.metric.fault("%s, at character %d", fmt.Sprintf(format, args...), at+1)
}

// foreign is the fault for a part of the library's language that has no meaning for metrics.
func (k *compiler) foreign(at int, kind string) error {
	return k.fault(at, "%s is not for metrics: there are numbers, + - * / **, comparisons, and, or, not, "+
		"?: and the functions %s", kind, functionNames())
}

// unexpected is the fault for a token that no expression has in this place. It shows the place in the text.
func (k *compiler) unexpected() error {
	e := &file.Error{Location: k.token.Location, Message: fmt.Sprintf("unexpected token %v", k.token)}
	return k.metric.fault("%w", e.Bind(k.source))
}

// next reads a token.
func (k *compiler) next() (err error) {
	if k.token, err = k.lexer.Next(); err != nil {
		return k.metric.fault("%w", err)
	}
	return nil
}

// is reports whether the next token is this operator or bracket.
func (k *compiler) is(text string) bool {
	return k.token.Value == text && (k.token.Kind == lexer.Operator || k.token.Kind == lexer.Bracket)
}

// expect reads an operator or a bracket that must follow.
func (k *compiler) expect(text string) error {
	if !k.is(text) {
		return k.unexpected()
	}
	return k.next()
}

// count counts the nodes of the expression.
func (k *compiler) count() error {
	if k.nodes++; k.nodes > maxNodes {
		return k.metric.fault("it has more than %d nodes", maxNodes)
	}
	return nil
}

// number requires a number.
func (k *compiler) number(v value) (term, error) {
	switch {
	case v.isText:
		return nil, k.foreign(v.at, "string")
	case v.isBool:
		return nil, k.fault(v.at, "a number is wanted, not true or false")
	}
	return v.of, nil
}

// truth requires true or false.
func (k *compiler) truth(v value) (term, error) {
	switch {
	case v.isText:
		return nil, k.foreign(v.at, "string")
	case !v.isBool:
		return nil, k.fault(v.at, "true or false is wanted, not a number")
	}
	return v.of, nil
}

// input returns the term of a metric.
func (k *compiler) input(name string) term {
	i := slices.Index(k.metric.uses, name)
	if i < 0 {
		i = len(k.metric.uses)
		k.metric.uses = append(k.metric.uses, name)
	}
	return input(i)
}

// unary compiles -, + or not in front of a value.
func (k *compiler) unary(operator string, at int, v value) (value, error) {
	if operator == "-" || operator == "+" {
		t, err := k.number(v)
		if err == nil && operator == "-" {
			t = one(t, func(v float64) float64 { return -v })
		}
		return value{of: t, at: at}, err
	}
	t, err := k.truth(v)
	if err != nil {
		return value{}, err
	}
	return value{of: one(t, func(v float64) float64 { return 1 - v }), isBool: true, at: at}, nil
}

// binary compiles an operator between two values.
func (k *compiler) binary(operator string, at int, left, right value) (value, error) {
	of, isBool := arithmetic[operator], false
	side := k.number
	if of == nil {
		of, isBool = comparisons[operator], true
	}
	if of == nil {
		of, side = logic[operator], k.truth
	}
	a, err := side(left)
	if err != nil {
		return value{}, err
	}
	b, err := side(right)
	if err != nil {
		return value{}, err
	}
	return value{of: two(a, b, of), isBool: isBool, at: at}, nil
}

func (k *compiler) conditional(at int, cond, yes, no value) (value, error) {
	of, err := k.truth(cond)
	switch {
	case err != nil:
		return value{}, err
	case yes.isText:
		return value{}, k.foreign(yes.at, "string")
	case no.isText:
		return value{}, k.foreign(no.at, "string")
	case yes.isBool != no.isBool:
		return value{}, k.fault(at, "both sides of ?: must be numbers, or both true or false")
	}
	return value{of: choice(of, yes.of, no.of), isBool: yes.isBool, at: at}, nil
}

// call compiles a call of a function.
func (k *compiler) call(at int, name string, args []value) (value, error) {
	if name == "metric" {
		if len(args) == 1 && args[0].isText {
			return value{of: k.input(args[0].text), at: at}, nil
		}
		return value{}, k.fault(at, `the name of a metric is written metric("a.name")`)
	}
	single, folds := functions[name], foldings[name]
	if single != nil && len(args) != 1 || folds != nil && len(args) == 0 {
		return value{}, k.fault(at, "%s has %d arguments", name, len(args))
	}
	var t term
	for i, a := range args {
		of, err := k.number(a)
		switch {
		case err != nil:
			return value{}, err
		case single != nil:
			t = one(of, single)
		case i == 0:
			t = of
		default:
			t = two(t, of, folds)
		}
	}
	return value{of: t, at: at}, nil
}

// known returns an error unless there is a function of this name.
func (k *compiler) known(at int, name string) error {
	if functions[name] == nil && foldings[name] == nil && name != "metric" {
		return k.fault(at, "there is no function %q for metrics: there are %s", name, functionNames())
	}
	return nil
}

func functionNames() string {
	names := append(slices.Collect(maps.Keys(functions)), "min", "max", "metric")
	slices.Sort(names)
	return strings.Join(names, ", ")
}
