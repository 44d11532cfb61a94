package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// errHint is wrapped by the errors of a hint or of a scheduler's line.
var errHint = errors.New("wrong text")

// hintFunctions are the functions of hints, in addition to the comparisons of text/template.
var hintFunctions = template.FuncMap{
	"pct": pct, "bytes": siBytes, "si": si, "duration": duration, "hostlist": topology.FoldHosts,
	"times": func(factor, v float64) float64 { return factor * v }, "mib": mib,
}

// hintWords are all functions that a hint may call. The printing functions of text/template are left out, because they
// could produce a text of any length.
var hintWords = []string{
	"pct", "bytes", "si", "duration", "hostlist", "times", "mib",
	"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not",
}

// newHint compiles a hint. There are no loops and no templates within, so that its length bounds its cost.
func newHint(name, text string) (*template.Template, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes: at most %d", errHint, name, len(text), maxBytes)
	}
	t, err := template.New(name).Option("missingkey=error").Funcs(hintFunctions).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errHint, err)
	}
	if len(t.Templates()) > 1 {
		return nil, fmt.Errorf("%w: %s defines a template: write its text here", errHint, name)
	}
	if t.Tree == nil {
		return t, nil
	}
	return t, allowed(t.Root)
}

// allowed returns an error for the parts of text/template that hints may not use.
func allowed(n parse.Node) error {
	var all []parse.Node
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			all = n.Nodes
		}
	case *parse.ActionNode:
		all = []parse.Node{n.Pipe}
	case *parse.IfNode:
		all = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			return fmt.Errorf("%w: %s: there are no variables", errHint, n)
		}
		for _, c := range n.Cmds {
			all = append(all, c)
		}
	case *parse.CommandNode:
		all = n.Args
	case *parse.IdentifierNode:
		if !slices.Contains(hintWords, n.Ident) {
			return fmt.Errorf("%w: %s is not for hints: there are %s", errHint, n.Ident, strings.Join(hintWords,
				", "))
		}
	case *parse.TextNode, *parse.FieldNode, *parse.NumberNode, *parse.StringNode, *parse.CommentNode:
	default:
		return fmt.Errorf("%w: %.60s is not for hints: there are fields, functions and if", errHint, n)
	}
	for _, child := range all {
		if err := allowed(child); err != nil {
			return err
		}
	}
	return nil
}

// filled returns the text of a hint, made safe for a record.
func filled(t *template.Template, data map[string]any) (string, error) {
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", fmt.Errorf("%w: %w", errHint, err)
	}
	return schemas.CleanText(strings.Join(strings.Fields(b.String()), " "), schemas.MaxFindingText), nil
}

func pct(v float64) string {
	digits := 0
	if math.Abs(v) < 0.0995 && v != 0 {
		digits = 1
	}
	return strconv.FormatFloat(100*v, 'f', digits, 64) + " %"
}

// si writes three digits and the prefix of thousands.
func si(v float64, unit string) string {
	prefixes, k := []string{"", "k", "M", "G", "T", "P", "E"}, 0
	for math.Abs(v) >= 999.5 && k < len(prefixes)-1 {
		v, k = v/1000, k+1
	}
	return strings.TrimSpace(strconv.FormatFloat(v, 'g', 3, 64) + " " + prefixes[k] + unit)
}

func siBytes(v float64) string { return si(v, "B") }

// mib returns the number of MiB for a number of bytes, rounded up, as Slurm counts memory.
func mib(v float64) string { return strconv.FormatFloat(math.Ceil(v/(1<<20)), 'f', 0, 64) }

// duration writes seconds as hours, minutes and seconds, as Slurm does.
func duration(seconds float64) string {
	s := int64(math.Round(max(0, min(seconds, 1e12))))
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}
