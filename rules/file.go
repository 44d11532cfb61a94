package rules

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds on rule files.
const (
	maxFileBytes = 1 << 20
	maxRules     = 256
)

var (
	// errFile is wrapped by the errors of a file's form.
	errFile = errors.New("not a rule file")
	// errRule is wrapped by the errors of a rule.
	errRule = errors.New("wrong rule")
	// errExpression is wrapped by the errors of an expression.
	errExpression = errors.New("wrong expression")
)

// ruleText is a rule as written in its file.
type ruleText struct {
	source string
	line   int

	id, title, from, require, each, job, by, hint, slurm string
	needs, uses, evidence, silences                      []string
	share                                                float64
	same                                                 bool
	severity                                             severityText
	parameters                                           map[string]float64
	guards                                               guardsText
	fires, silent                                        []string
}

type severityText struct {
	of                  string
	from, to, high, low *threshold
	exponent            *float64
}

// threshold is a number, or the name of a parameter.
type threshold struct {
	number    float64
	parameter string
}

type guardsText struct {
	after, duration *time.Duration
	last            *bool
	intervals       *int64
	seen, complete  *float64
}

// fileText is the contents of a rule file.
type fileText struct {
	rules  []ruleText
	known  []Known
	guards guardsText
}

// reader reads a file, and collects all faults instead of stopping at the first.
type reader struct {
	source string
	faults []lineFault
}

type lineFault struct {
	line int
	rule string // empty outside of rules, and in a rule without an id
	err  error
}

func (r *reader) fault(n *yaml.Node, err error) {
	r.faults = append(r.faults, lineFault{line: n.Line, err: err})
}

// errors returns the faults with the file, the line and the rule.
func (r *reader) errors() (all []error) {
	for _, f := range r.faults {
		where := fmt.Sprintf("%s:%d: ", r.source, f.line)
		if f.rule != "" {
			where += "rule " + f.rule + ": "
		}
		all = append(all, fmt.Errorf("%s%w", where, f.err))
	}
	return all
}

// readFile reads a file: a list of rules, or a mapping with guards, metrics and rules.
func readFile(src Source) (f fileText, faults []error) {
	r := &reader{source: src.Name}
	if len(src.Text) > maxFileBytes {
		return f, []error{fmt.Errorf("%s: %w: %d bytes are more than %d", src.Name, errFile, len(src.Text),
			maxFileBytes)}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(src.Text, &doc); err != nil {
		return f, []error{fmt.Errorf("%s: %w: %w", src.Name, errFile, err)}
	}
	if len(doc.Content) == 0 {
		return f, nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.MappingNode {
		r.mapping(root, map[string]any{
			"guards":  func(n *yaml.Node) { r.guards(n, &f.guards) },
			"metrics": func(n *yaml.Node) { r.metrics(n, &f.known) },
			"rules":   func(n *yaml.Node) { r.rules(n, &f.rules) },
		})
		return f, r.errors()
	}
	r.rules(root, &f.rules)
	return f, r.errors()
}

// mapping reads the keys of a mapping into variables, or calls their functions.
func (r *reader) mapping(n *yaml.Node, keys map[string]any) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, fmt.Errorf("%w: a mapping of keys is wanted here", errFile))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		into, known := keys[key.Value]
		switch {
		case !known:
			r.fault(key, fmt.Errorf("%w: unknown key %.40q", errFile, key.Value))
		case seen[key.Value]:
			r.fault(key, fmt.Errorf("%w: key %s is given twice", errFile, key.Value))
		case value.Kind == yaml.AliasNode:
			r.fault(value, fmt.Errorf("%w: %s is an alias: write it out", errFile, key.Value))
		default:
			r.value(key.Value, value, into)
		}
		seen[key.Value] = true
	}
}

func (r *reader) value(key string, n *yaml.Node, into any) {
	if do, is := into.(func(*yaml.Node)); is {
		do(n)
		return
	}
	if err := n.Decode(into); err != nil {
		r.fault(n, fmt.Errorf("%w: %s: it has %s", errFile, key, kindOf(n)))
	}
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("the value %.40q", n.Value)
}

// list calls each for the elements of a list.
func (r *reader) list(n *yaml.Node, each func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		r.fault(n, fmt.Errorf("%w: a list is wanted here", errFile))
		return
	}
	for _, e := range n.Content {
		each(e)
	}
}

func (r *reader) rules(n *yaml.Node, into *[]ruleText) {
	r.list(n, func(e *yaml.Node) {
		t := ruleText{source: r.source, line: e.Line, share: 0.5, same: true}
		faults := len(r.faults)
		r.mapping(e, map[string]any{
			"id": &t.id, "title": &t.title, "from": &t.from, "needs": &t.needs, "uses": &t.uses,
			"require": &t.require, "each": &t.each, "job": &t.job, "share": &t.share, "by": &t.by, "same": &t.same,
			"hint": &t.hint, "slurm": &t.slurm, "evidence": &t.evidence, "parameters": &t.parameters,
			"silences": &t.silences,
			"severity": func(n *yaml.Node) { r.severity(n, &t.severity) },
			"guards":   func(n *yaml.Node) { r.guards(n, &t.guards) },
			"examples": func(n *yaml.Node) { r.mapping(n, map[string]any{"fires": &t.fires, "silent": &t.silent}) },
		})
		for i := faults; i < len(r.faults); i++ {
			r.faults[i].rule = fmt.Sprintf("%.40s", t.id)
		}
		*into = append(*into, t)
	})
}

func (r *reader) severity(n *yaml.Node, into *severityText) {
	limit := func(into **threshold) func(*yaml.Node) {
		return func(n *yaml.Node) {
			t := &threshold{}
			if n.Decode(&t.number) != nil && n.Decode(&t.parameter) != nil {
				r.fault(n, fmt.Errorf("%w: a number is wanted, or a parameter such as p.limit", errFile))
			}
			*into = t
		}
	}
	r.mapping(n, map[string]any{
		"of": &into.of, "exponent": &into.exponent,
		"from": limit(&into.from), "to": limit(&into.to), "high": limit(&into.high), "low": limit(&into.low),
	})
}

func (r *reader) guards(n *yaml.Node, into *guardsText) {
	r.mapping(n, map[string]any{
		"after": &into.after, "duration": &into.duration, "last": &into.last, "intervals": &into.intervals,
		"seen": &into.seen, "complete": &into.complete,
	})
	for _, d := range []*time.Duration{into.after, into.duration} {
		if d != nil && (*d < 0 || *d > 366*24*time.Hour) {
			r.fault(n, fmt.Errorf("%w: a duration is from 0s to 8784h", errFile))
		}
	}
	for _, share := range []*float64{into.seen, into.complete} {
		if share != nil && !(*share >= 0 && *share <= 1) {
			r.fault(n, fmt.Errorf("%w: seen and complete are from 0 to 1", errFile))
		}
	}
	if into.intervals != nil && *into.intervals < 1 {
		r.fault(n, fmt.Errorf("%w: intervals is at least 1", errFile))
	}
}

func (r *reader) metrics(n *yaml.Node, into *[]Known) {
	r.list(n, func(e *yaml.Node) {
		var k Known
		r.mapping(e, map[string]any{"name": &k.Name, "unit": &k.Unit, "scope": &k.Scope})
		switch {
		case !identifier(k.Name) || slices.Contains(reserved, k.Name):
			r.fault(e, fmt.Errorf("%w: metric %.40q: a rule cannot name it", errFile, k.Name))
		default:
			*into = append(*into, k)
		}
	})
}

// override replaces the guards that the text sets.
func (t *guardsText) override(g *Guards) {
	if t.after != nil {
		g.AfterMs = t.after.Milliseconds()
	}
	if t.duration != nil {
		g.DurationMs = t.duration.Milliseconds()
	}
	if t.last != nil {
		g.Last = *t.last
	}
	if t.intervals != nil {
		g.Intervals = *t.intervals
	}
	if t.seen != nil {
		g.Seen = *t.seen
	}
	if t.complete != nil {
		g.Complete = *t.complete
	}
}

// identifier reports whether an expression can use s as a name.
func identifier(s string) bool {
	return validName.MatchString(s)
}

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
