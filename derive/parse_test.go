package derive

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// applied returns the values of an expression for the record of batch, or none where the expression is refused.
func applied(t *testing.T, text string, compile func(*metric) error) (values []float64, uses []string, err error) {
	t.Helper()
	m := metric{Definition: Definition{Name: "x", Expr: text, Scope: schemas.ScopeCore}}
	if err := compile(&m); err != nil {
		return nil, nil, err
	}
	s := &Set{metrics: []metric{m}}
	b := batch()
	s.Apply(b)
	if n := len(b.Metrics); n > 9 {
		values = b.Metrics[n-1].Values
	}
	return values, m.uses, nil
}

// agree holds the parser to that of expr-lang/expr.
func agree(t *testing.T, text string) (taken bool) {
	t.Helper()
	got, uses, err := applied(t, text, (*metric).compile)
	want, wantUses, wrong := applied(t, text, (*metric).judged)
	// The library counts more nodes.
	if wrong != nil && err == nil && strings.Contains(wrong.Error(), "exceeds maximum allowed nodes") {
		return false
	}
	if (err == nil) != (wrong == nil) {
		t.Fatalf("%q: %v, and the library has %v", text, err, wrong)
	}
	if !slices.EqualFunc(got, want, same) || !slices.Equal(uses, wantUses) {
		t.Fatalf("%q: %v of %v, and the library has %v of %v", text, got, uses, want, wantUses)
	}
	return err == nil
}

// words are the tokens of random texts: those of expressions, and those that are refused.
var words = strings.Fields(`cycles instructions mem_bw cycles instructions 1 2 0.5 1_000 0x1f 0b11 0o17 1e3 .5 true false
	+ - * / ** ^ + - * / < > <= >= == != < > and or && || not ! ? : ? : ( ) ( ) ( ) ( ) , abs( sqrt( min( max( round(
	metric("cpu.idle") metric( "cpu.idle" 'peak' | |abs() |max(1) :: ; ?: // /*c*/ if else { } % .. ?? . ?. [ ] in nil
	let = contains # b"x" $env "cycles" 99999999999999999999 1e999 é`)

// TestParserAgrees: random texts are refused or mean the same, as by the parser of expr-lang/expr.
func TestParserAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 30_000 {
		var text strings.Builder
		for range 1 + r.IntN(9) {
			text.WriteString(words[r.IntN(len(words))])
			if r.IntN(4) > 0 {
				text.WriteByte(' ')
			}
		}
		if agree(t, text.String()) {
			taken++
		}
	}
	if taken < 300 {
		t.Errorf("only %d texts are expressions", taken)
	}
	taken = 0
	for range 5_000 { // an expression with one token more, less or another
		text := strings.NewReplacer("u", "cycles ", "v", "instructions ", "w", "mem_bw ").Replace(randomNumber(r, 3))
		parts := strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ", ",", " , ").Replace(text))
		at := r.IntN(len(parts))
		word := words[r.IntN(len(words))]
		switch r.IntN(4) {
		case 0:
			parts = slices.Insert(parts, at, word)
		case 1:
			parts = slices.Delete(parts, at, at+1)
		case 2:
			parts[at] = word
		}
		if agree(t, strings.Join(parts, " ")) {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("only %d changed texts are expressions", taken)
	}
}

// TestParserAgreesOn: parts of the library's language that random texts seldom have.
func TestParserAgreesOn(t *testing.T) {
	for _, text := range []string{
		"1 < cycles < 4 <= 8 ? 1 : 0", "1 < cycles == true ? 1 : 0", "-cycles ** 2 ** 0.5", "not (cycles > 1) ? 1 : 2",
		"if cycles > 1 { 1 } else if cycles > 0 { 2 } else { 3 }", "(if cycles > 1 { 1 } else { 2 }) + 1", "cycles;",
		"cycles | max(1, instructions,)", "cycles + 1 | abs() | min(3)", "::abs(cycles)", `"cpu.idle" | metric()`,
		"metric('cpu.idle') // idle", "(cycles > 1 ?: false) ? 1 : 2", "cycles > 1 ? cycles > 2 ? 1 : 2 : 3", "--cycles",
		"!(cycles > 1) and not (cycles > 2) ? 1 : 0", "cycles - 1 - 1", "cycles / 2 / 2", "1_0.5e1 * cycles", "abs",
		"true ? cycles : 1", "(cycles)", "((cycles) + (1))", "+cycles", "cycles > 0 or 1 / cycles > 2 ? 1 : 0",
	} {
		if !agree(t, text) && text != "1 < cycles == true ? 1 : 0" {
			t.Errorf("%q is refused", text)
		}
	}
}

// FuzzParser: as TestParserAgrees, for any text.
func FuzzParser(f *testing.F) {
	for _, text := range []string{"1 < cycles < 4 ? 1 : 0", "cycles | abs()", "if cycles > 1 { 1 } else { 2 }", "((", "a;b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { agree(t, text) })
}
