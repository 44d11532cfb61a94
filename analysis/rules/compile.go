package rules

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

// ShippedName is the name of the shipped file, in messages and as Rule.SourceName.
const ShippedName = "shipped.yaml"

//go:embed shipped.yaml
var shipped []byte

// Shipped returns the rules that weir ships.
func Shipped() []byte { return slices.Clone(shipped) }

// program is the compiled form of a rule.
type program struct {
	Uses                  []string // metrics that it takes where they are there
	Require, Condition    string   // as written
	SourceName            string   // of the file
	line                  int
	parameters            map[string]float64
	require, holds, value term
	scale                 scale
	evidence              []shown
	guards                Guards
	reads                 []read // what must be known of job and node
	waits                 bool   // for the end of the job, which its state tells
	unknown               string // why the condition is not known where no read is missing
	needs                 []int  // inputs
	nodes                 int    // the place among rules that count nodes; -1: none
	slot                  int    // its numbers in a verdict
	hint, slurm           *template.Template
	shadows               []int // rules that silence it
	why                   whys
}

// shown is a number of the evidence.
type shown struct {
	name string
	of   term
}

// read is something that a rule must know of the job or of the node.
type read struct {
	why string // it is not known
	of  term
}

// Default guards.
var standard = Guards{AfterMs: 60_000, Last: true, DurationMs: 600_000, Intervals: 30, Seen: 0.9, Complete: 1}

var validID = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// Compile returns the rules of the shipped file, of which those in off are left out, and of the given files. Later
// files override the guards of earlier ones. The error joins all faults, each with its file, its line and its rule.
func Compile(known []Known, off []string, files ...Source) (*Set, error) {
	s := &Set{Guards: standard}
	s.layout.known = map[string]Known{}
	for _, k := range known {
		if identifier(k.Name) && !slices.Contains(reserved, k.Name) {
			s.layout.known[k.Name] = k
		}
	}
	var all []ruleText
	var faults []error
	files = append([]Source{{Name: ShippedName, Text: shipped}}, files...)
	for _, src := range files {
		f, wrong := readFile(src)
		faults = append(faults, wrong...)
		for _, k := range f.known {
			if have, there := s.layout.known[k.Name]; !there || have.Scope == "" {
				s.layout.known[k.Name] = k
			}
		}
		f.guards.override(&s.Guards)
		all = append(all, f.rules...)
	}
	if len(all) > maxRules {
		return nil, fmt.Errorf("%w: %d rules are more than %d", errFile, len(all), maxRules)
	}
	all, ids, wrong := choose(all, off)
	faults = append(faults, wrong...)
	s.layout.declare(all)
	s.Rules = make([]Rule, 0, len(all))
	for i := range all {
		r, err := s.compile(&all[i], ids)
		if err != nil {
			faults = append(faults, all[i].fault(err))
		}
		s.Rules = append(s.Rules, r)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	s.link()
	return s, nil
}

func (t *ruleText) fault(err error) error {
	return fmt.Errorf("%s:%d: rule %s: %w", t.source, t.line, cmp.Or(t.id, "?"), err)
}

// choose leaves out what is off. It returns all ids, those that are off among them.
func choose(all []ruleText, off []string) (on []ruleText, ids map[string]*ruleText, faults []error) {
	ids = map[string]*ruleText{}
	for i := range all {
		t := &all[i]
		isOff := t.source == ShippedName && slices.Contains(off, t.id)
		first := ids[t.id]
		switch {
		case !validID.MatchString(t.id):
			faults = append(faults, t.fault(fmt.Errorf("%w: id %.60q must match [a-z0-9-]{1,40}", errRule, t.id)))
			continue
		case first != nil && first.source == ShippedName && slices.Contains(off, t.id): // the site has its own
		case first != nil:
			faults = append(faults, t.fault(fmt.Errorf("%w: %s:%d has this id: choose another one, or name a shipped "+
				"rule in find.off", errRule, first.source, first.line)))
			continue
		}
		if ids[t.id] = t; !isOff {
			on = append(on, *t)
		}
	}
	for _, id := range off {
		if ids[id] == nil {
			faults = append(faults, fmt.Errorf("find.off: %w: weir ships no rule %.60q", errRule, id))
		}
	}
	return on, ids, faults
}

// declare collects the metrics that rules name.
func (l *layout) declare(all []ruleText) {
	for i := range all {
		for _, name := range slices.Concat(all[i].needs, all[i].uses) {
			l.inputs = append(l.inputs, name)
		}
	}
	slices.Sort(l.inputs)
	l.inputs = slices.Compact(l.inputs)
}

// compile makes a rule of its text.
func (s *Set) compile(t *ruleText, ids map[string]*ruleText) (r Rule, err error) {
	r = Rule{
		ID: t.id, Title: t.title, Hint: t.hint, Slurm: t.slurm, From: t.from, Needs: t.needs, Share: t.share,
		Job: t.job != "", By: t.by, Same: t.same && t.by != "", Silences: t.silences, Fires: t.fires, Silent: t.silent,
		program: program{
			Uses: t.uses, Require: t.require, Condition: cmp.Or(t.each, t.job), SourceName: t.source, line: t.line,
			parameters: t.parameters, guards: s.Guards, nodes: -1,
		},
	}
	t.guards.override(&r.guards)
	if err := t.check(ids); err != nil {
		return r, err
	}
	for _, name := range slices.Concat(t.needs, t.uses) {
		if _, known := s.layout.known[name]; !known {
			return r, fmt.Errorf("%w: unknown metric %.60q: `weir metrics` lists those of the agent; a file declares "+
				"others under metrics", errRule, name)
		}
	}
	for _, name := range t.needs {
		i, _ := slices.BinarySearch(s.layout.inputs, name)
		r.needs = append(r.needs, i)
	}
	if err := s.expressions(t, &r); err != nil {
		return r, err
	}
	if err := r.words(); err != nil {
		return r, err
	}
	if r.By != "" {
		r.nodes = s.layout.nodes
		s.layout.nodes++
	}
	r.why = r.reasons()
	r.slot = s.layout.slots
	s.layout.slots += verdictHead + len(r.evidence)
	r.Hash, err = t.hash(&r)
	return r, err
}

// check returns an error for what needs no compiler.
func (t *ruleText) check(ids map[string]*ruleText) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", errRule, fmt.Sprintf(format, args...))
	}
	switch {
	case t.title == "" || len(t.title) > 200:
		return wrong("title must have 1 to 200 bytes")
	case (t.each == "") == (t.job == ""):
		return wrong("write either each (for every interval) or job (for the whole life)")
	case !(t.share >= 0 && t.share <= 1):
		return wrong("share %g must be from 0 to 1", t.share)
	case t.by != "" && t.by != "low_node" && t.by != "high_node":
		return wrong("by %.40q must be low_node or high_node", t.by)
	case t.by != "" && (len(t.needs) == 0 || t.job != ""):
		return wrong("by is of the first metric of needs, in each interval")
	case t.guards.last != nil:
		return wrong("the guard last is one for all rules: write it at the head of the file")
	case len(t.evidence) > schemas.MaxEvidence:
		return wrong("evidence has %d numbers: at most %d", len(t.evidence), schemas.MaxEvidence)
	case len(t.needs)+len(t.uses) > 64:
		return wrong("needs and uses have more than 64 metrics")
	}
	for _, id := range t.silences {
		switch other := ids[id]; {
		case other == nil:
			return wrong("it silences %.60q, which is no rule", id)
		case len(other.silences) > 0:
			return wrong("it silences %s, which silences others: one level is enough", id)
		}
	}
	for name, v := range t.parameters {
		if !identifier(name) || math.IsNaN(v) || math.IsInf(v, 0) {
			return wrong("parameter %.40q must be a name and a finite number", name)
		}
	}
	for _, name := range slices.Concat(t.fires, t.silent) {
		if !naming.Valid(name) {
			return wrong("example %.60q must be the name of a file in examples/", name)
		}
	}
	return nil
}

// expressions compiles the expressions of a rule.
func (s *Set) expressions(t *ruleText, r *Rule) (err error) {
	c := compiler{rule: r, layout: &s.layout}
	r.require = func(*frame) float64 { return 1 }
	if t.require != "" {
		if r.require, err = c.truth(t.require); err != nil {
			return fmt.Errorf("require: %w", err)
		}
	}
	c.metrics, c.life = true, r.Job
	if r.holds, err = c.truth(r.Condition); err != nil {
		return fmt.Errorf("%s: %w", map[bool]string{true: "job", false: "each"}[r.Job], err)
	}
	c.guess = true
	if r.value, err = c.number(t.severity.of); err != nil {
		return fmt.Errorf("severity.of: %w", err)
	}
	if r.scale, err = t.severity.scale(t.parameters); err != nil {
		return err
	}
	for _, name := range t.evidence {
		of, err := c.number(name)
		if err != nil {
			return fmt.Errorf("evidence: %w", err)
		}
		r.evidence = append(r.evidence, shown{name, of})
	}
	return nil
}

// scale returns the scale of a severity.
func (t *severityText) scale(parameters map[string]float64) (s scale, err error) {
	wrong := fmt.Errorf("%w: severity is {of, from, to}, {of, high, exponent} or {of, low, exponent}", errRule)
	number := func(l *threshold) float64 {
		if l == nil {
			return 0
		}
		if l.parameter == "" {
			return l.number
		}
		name, is := strings.CutPrefix(l.parameter, "p.")
		v, known := parameters[name]
		if !is || !known {
			err = fmt.Errorf("%w: severity: %.40q is neither a number nor a parameter such as p.limit", errRule, l.parameter)
		}
		return v
	}
	s = scale{from: number(t.from), to: number(t.to), exponent: 1}
	if err != nil {
		return s, err
	}
	span, high, low := t.from != nil && t.to != nil, t.high != nil, t.low != nil
	switch {
	case span && !high && !low && t.exponent == nil:
		if width := s.to - s.from; math.IsNaN(width) || math.IsInf(width, 0) || width == 0 {
			return s, fmt.Errorf("%w: severity: from and to must be two finite numbers", errRule)
		}
		return s, nil
	case high == low || t.from != nil || t.to != nil:
		return s, wrong
	case high:
		s.kind, s.limit = scaleHigh, number(t.high)
	default:
		s.kind, s.limit = scaleLow, number(t.low)
	}
	if t.exponent != nil {
		s.exponent = *t.exponent
	}
	switch {
	case err != nil:
		return s, err
	case s.limit == 0 || math.IsNaN(s.limit) || math.IsInf(s.limit, 0):
		return s, fmt.Errorf("%w: severity: the limit must be finite and not 0", errRule)
	case !(s.exponent > 0 && s.exponent <= 100):
		return s, fmt.Errorf("%w: severity: the exponent must be above 0, at most 100", errRule)
	}
	return s, nil
}

// words compiles the hint and the scheduler's line, and tries them.
func (r *Rule) words() (err error) {
	if r.hint, err = newHint("hint", r.Hint); err != nil {
		return err
	}
	if r.slurm, err = newHint("slurm", r.Slurm); err != nil {
		return err
	}
	sample := r.sample()
	for _, t := range []*template.Template{r.hint, r.slurm} {
		if _, err := filled(t, sample); err != nil {
			return err
		}
	}
	return nil
}

// hash is that of all that decides. The words of a rule may change without beginning anew.
func (t *ruleText) hash(r *Rule) (string, error) {
	text, err := json.Marshal([]any{
		2, t.id, t.needs, t.uses, t.require, t.each, t.job, t.share, t.by, t.same, t.silences, t.evidence,
		t.severity.of, r.scale.kind, r.scale.from, r.scale.to, r.scale.limit, r.scale.exponent, t.parameters, r.guards,
	})
	if err != nil {
		return "", fmt.Errorf("%w: %w", errRule, err)
	}
	return digest(text), nil
}

// digest is the first 16 hexadecimal digits of the SHA-256 of a text.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// link resolves which rules silence which.
func (s *Set) link() {
	at := map[string]int{}
	for i := range s.Rules {
		at[s.Rules[i].ID] = i
	}
	for i := range s.Rules {
		for _, id := range s.Rules[i].Silences {
			if k, on := at[id]; on {
				s.Rules[k].shadows = append(s.Rules[k].shadows, i)
			}
		}
	}
}

// Reads returns the metrics that a reader must fetch for the rule: those that it needs, and those that it may use.
func (r *Rule) Reads() (metrics []string) { return slices.Concat(r.Needs, r.Uses) }

// Parameters returns the names of the rule's parameters, ascending, and their values.
func (r *Rule) Parameters() (names []string, values []float64) {
	names = slices.Sorted(maps.Keys(r.parameters))
	for _, n := range names {
		values = append(values, r.parameters[n])
	}
	return names, values
}
