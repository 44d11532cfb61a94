package rules

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"text/template"
)

// ShippedName is the name of the shipped file, in messages and as Rule.SourceName.
const ShippedName = "shipped.yaml"

//go:embed shipped.yaml
var shipped []byte

// Shipped returns the rules that weir ships.
func Shipped() []byte { return slices.Clone(shipped) }

// program is the compiled form of a rule.
type program struct {
	Uses                  []string // metrics that it uses if they are measured
	Require, Condition    string   // as written
	SourceName            string   // of the file
	line                  int
	parameters            map[string]float64
	require, holds, value term
	scale                 scale
	evidence              []shown
	guards                Guards
	reads                 []read // facts about job and node that must be known
	waits                 bool   // for the end of the job, because it depends on the job's state
	unknown               string // reason for an unknown condition when no read is missing
	needs                 []int  // inputs
	nodes                 int    // index among the rules that count nodes; -1: none
	slot                  int    // index of its numbers in a verdict
	hint, slurm           *template.Template
	shadows               []int // rules that silence it
	why                   whys
}

// shown is a number of the evidence.
type shown struct {
	name string
	of   term
}

// read is a fact about the job or the node that a rule depends on.
type read struct {
	why  string // reason if it is unknown
	fact string // about the node, as hints and expressions name it; empty: about the job
	of   term
}

// Default guards.
var standard = Guards{AfterMs: 60_000, Last: true, DurationMs: 600_000, Intervals: 30, Seen: 0.9, Complete: 1}

var validID = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// Compile returns the rules of the shipped file, without those in off, and the rules of the given files. Guards of
// later files override those of earlier ones. The error joins all faults, each with its file, line and rule.
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

// declare collects the metrics that rules name.
func (l *layout) declare(all []ruleText) {
	for i := range all {
		l.inputs = append(l.inputs, slices.Concat(all[i].needs, all[i].uses)...)
	}
	slices.Sort(l.inputs)
	l.inputs = slices.Compact(l.inputs)
}

// compile makes a rule from its text.
func (s *Set) compile(t *ruleText, ids map[string]*ruleText) (r Rule, err error) {
	r = Rule{
		ID: t.id, Title: t.title, Hint: t.hint, Slurm: t.slurm, From: t.from, Needs: t.needs, Share: t.share,
		Job: t.job != "", By: t.by, Same: t.same &&
			t.by != "", Silences: t.silences, Fires: t.fires, Silent: t.silent,
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

// link resolves the ids in the silences of rules to indices.
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

// Reads returns the metrics that a reader must fetch for the rule: the needed ones and the optional ones.
func (r *Rule) Reads() (metrics []string) { return slices.Concat(r.Needs, r.Uses) }

// Reads returns the metrics that a reader must fetch for the rules.
func (s *Set) Reads() map[string]bool {
	reads := map[string]bool{}
	for i := range s.Rules {
		for _, metric := range s.Rules[i].Reads() {
			reads[metric] = true
		}
	}
	return reads
}

// Parameters returns the names of the rule's parameters, ascending, and their values.
func (r *Rule) Parameters() (names []string, values []float64) {
	names = slices.Sorted(maps.Keys(r.parameters))
	for _, n := range names {
		values = append(values, r.parameters[n])
	}
	return names, values
}
