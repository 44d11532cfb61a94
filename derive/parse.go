package derive

import (
	"math"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/parser/lexer"
)

// Precedences of operators, as in expr-lang/expr. A higher one binds its sides first.
const (
	precedenceOr      = 10
	precedenceAnd     = 15
	precedenceCompare = 20
	precedenceSum     = 30
	precedenceNot     = 50
	precedenceProduct = 60
	precedenceSign    = 90
	precedencePower   = 100
)

var precedences = map[string]int{
	"or": precedenceOr, "||": precedenceOr, "and": precedenceAnd, "&&": precedenceAnd,
	"==": precedenceCompare, "!=": precedenceCompare, "<": precedenceCompare, ">": precedenceCompare,
	"<=": precedenceCompare, ">=": precedenceCompare, "+": precedenceSum, "-": precedenceSum,
	"*": precedenceProduct, "/": precedenceProduct, "**": precedencePower, "^": precedencePower,
}

var signs = map[string]int{"-": precedenceSign, "+": precedenceSign, "!": precedenceNot, "not": precedenceNot}

// ends are operators that end an expression, which is then a part of another one.
var ends = map[string]bool{"?": true, ":": true, ",": true, ";": true, "else": true}

// sequence parses what stands alone or in brackets. A semicolon may end the text, as in the library.
func (k *compiler) sequence() (value, error) {
	v, err := k.expression(0)
	if err != nil || !k.is(";") {
		return v, err
	}
	at := k.token.From
	if err := k.next(); err != nil || k.token.Kind == lexer.EOF {
		return v, err
	}
	return value{}, k.foreign(at, "sequence")
}

// expression parses a part that only operators of at least this precedence join.
func (k *compiler) expression(least int) (value, error) {
	if least == 0 && k.is("if") {
		return k.ifElse()
	}
	left, err := k.primary()
	for err == nil && k.token.Kind == lexer.Operator && !ends[k.token.Value] {
		operator := k.token
		precedence, known := precedences[operator.Value]
		switch {
		case operator.Value == "|" && least == 0:
			left, err = k.pipe(left)
			continue
		case operator.Value == "|", known && precedence < least:
			return left, nil
		case !known:
			return value{}, k.fault(operator.From, "there is no operator %s for metrics", operator.Value)
		}
		if err = k.next(); err != nil {
			break
		}
		switch operator.Value {
		case "<", ">", "<=", ">=":
			left, err = k.comparison(left, operator)
		case "**", "^": // 2 ** 3 ** 2 is 2 ** (3 ** 2)
			left, err = k.right(left, operator, precedence)
		default:
			left, err = k.right(left, operator, precedence+1)
		}
	}
	for err == nil && least == 0 && k.is("?") {
		left, err = k.choice(left)
	}
	return left, err
}

// right parses the right side of an operator.
func (k *compiler) right(left value, operator lexer.Token, least int) (value, error) {
	right, err := k.expression(least)
	if err == nil {
		err = k.count()
	}
	if err != nil {
		return value{}, err
	}
	return k.binary(operator.Value, operator.From, left, right)
}

// comparison parses the rest of a < b, or of a < b < c, which is a < b and b < c.
func (k *compiler) comparison(left value, operator lexer.Token) (all value, err error) {
	for first := true; ; first = false {
		right, err := k.expression(precedenceCompare + 1)
		if err == nil {
			err = k.count()
		}
		if err != nil {
			return value{}, err
		}
		holds, err := k.binary(operator.Value, operator.From, left, right)
		if err == nil && !first {
			holds, err = k.binary("and", operator.From, all, holds)
		}
		if err != nil {
			return value{}, err
		}
		all, left, operator = holds, right, k.token
		if !k.is("<") && !k.is(">") && !k.is("<=") && !k.is(">=") {
			return all, nil
		}
		if err := k.next(); err != nil {
			return value{}, err
		}
	}
}

// choice parses the rest of cond ? yes : no, or of cond ?: no.
func (k *compiler) choice(cond value) (value, error) {
	at := k.token.From
	err := k.next()
	yes := cond
	if err == nil && !k.is(":") {
		yes, err = k.expression(0)
	}
	if err == nil {
		err = k.expect(":")
	}
	if err != nil {
		return value{}, err
	}
	no, err := k.expression(0)
	if err == nil {
		err = k.count()
	}
	if err != nil {
		return value{}, err
	}
	return k.conditional(at, cond, yes, no)
}

// ifElse parses if cond { yes } else { no }.
func (k *compiler) ifElse() (value, error) {
	at := k.token.From
	if err := k.next(); err != nil {
		return value{}, err
	}
	cond, err := k.expression(0)
	if err != nil {
		return value{}, err
	}
	yes, err := k.block()
	if err == nil {
		err = k.expect("else")
	}
	if err != nil {
		return value{}, err
	}
	var no value
	if k.is("if") {
		no, err = k.ifElse()
	} else {
		no, err = k.block()
	}
	if err != nil {
		return value{}, err
	}
	return k.conditional(at, cond, yes, no)
}

// block parses an expression in braces.
func (k *compiler) block() (value, error) {
	if err := k.expect("{"); err != nil {
		return value{}, err
	}
	v, err := k.sequence()
	if err == nil {
		err = k.expect("}")
	}
	return v, err
}

// primary parses an operand, with the signs in front of it.
func (k *compiler) primary() (v value, err error) {
	at, text := k.token.From, k.token.Value
	if err := k.count(); err != nil {
		return v, err
	}
	switch sign, is := signs[text]; {
	case k.token.Kind == lexer.Operator && is:
		if err = k.next(); err == nil {
			v, err = k.expression(sign)
		}
		if err == nil {
			v, err = k.unary(text, at, v)
		}
	case k.is("("):
		if err = k.next(); err == nil {
			v, err = k.sequence()
		}
		if err == nil {
			err = k.expect(")")
		}
	case k.is("::"): // a function in any case
		if err = k.next(); err == nil {
			v, err = k.function(nil)
		}
	case k.token.Kind == lexer.Number:
		if v, err = k.literal(); err == nil {
			err = k.next()
		}
		return v, err
	case k.token.Kind == lexer.String:
		v, err = value{text: text, isText: true, at: at}, k.next()
	case k.token.Kind == lexer.Identifier:
		v, err = k.name()
	default:
		return v, k.refuse()
	}
	if err == nil && (k.is(".") || k.is("?.") || k.is("[")) {
		err = k.fault(k.token.From, `a name with dots, colons or hyphens is written metric("a.name")`)
	}
	return v, err
}

// refuse returns the error for a token that begins no operand.
func (k *compiler) refuse() error {
	switch {
	case k.is("["):
		return k.foreign(k.token.From, "array")
	case k.is("{"):
		return k.foreign(k.token.From, "map")
	case k.is("let"):
		return k.foreign(k.token.From, "let")
	case k.token.Kind == lexer.Bytes:
		return k.foreign(k.token.From, "bytes")
	}
	return k.unexpected()
}

// name parses true, false, a function or a metric.
func (k *compiler) name() (value, error) {
	token := k.token
	if err := k.next(); err != nil {
		return value{}, err
	}
	switch {
	case token.Value == "true":
		return value{of: constant(1), isBool: true, at: token.From}, nil
	case token.Value == "false":
		return value{of: constant(0), isBool: true, at: token.From}, nil
	case token.Value == "nil":
		return value{}, k.foreign(token.From, "nil")
	case k.is("("):
		return k.arguments(token, nil)
	}
	return value{of: k.input(token.Value), at: token.From}, nil
}

// pipe parses the rest of left | function(...), which is function(left, ...).
func (k *compiler) pipe(left value) (value, error) {
	if err := k.next(); err != nil {
		return value{}, err
	}
	return k.function([]value{left})
}

// function parses a function with its arguments, after those that are known.
func (k *compiler) function(args []value) (value, error) {
	token := k.token
	if token.Kind != lexer.Identifier {
		return value{}, k.unexpected()
	}
	if err := k.next(); err != nil {
		return value{}, err
	}
	return k.arguments(token, args)
}

// arguments parses the arguments of a function in brackets. A comma may follow the last one, as in the library.
func (k *compiler) arguments(function lexer.Token, args []value) (value, error) {
	if err := k.known(function.From, function.Value); err != nil {
		return value{}, err
	}
	err := k.expect("(")
	for before := len(args); err == nil && !k.is(")"); {
		if len(args) > before {
			if err = k.expect(","); err != nil || k.is(")") {
				break
			}
		}
		var v value
		if v, err = k.expression(0); err == nil {
			args = append(args, v)
		}
	}
	if err == nil {
		err = k.expect(")")
	}
	if err != nil {
		return value{}, err
	}
	return k.call(function.From, function.Value, args)
}

// literal returns the number that the token is.
func (k *compiler) literal() (value, error) {
	text := strings.ToLower(strings.ReplaceAll(k.token.Value, "_", ""))
	base := 10
	switch {
	case strings.HasPrefix(text, "0x"), strings.HasPrefix(text, "0b"), strings.HasPrefix(text, "0o"):
		base = 0
	case strings.ContainsAny(text, ".e"):
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) {
			return value{}, k.fault(k.token.From, "%s is no number of 64 bits", k.token.Value)
		}
		return value{of: constant(f), at: k.token.From}, nil
	}
	n, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		return value{}, k.fault(k.token.From, "%s is no number of 64 bits", k.token.Value)
	}
	return value{of: constant(float64(n)), at: k.token.From}, nil
}
