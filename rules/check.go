package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

// choose leaves out the shipped rules named in off. It returns the ids of all rules, including those left out.
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
			faults = append(faults,
				t.fault(fmt.Errorf("%w: %s:%d has this id: choose another one, or name a shipped "+
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

// check checks everything that needs no compiler.
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
		case slices.ContainsFunc(other.silences, func(s string) bool { return !slices.Contains(t.silences, s) }):
			return wrong("it silences %s, which silences others: name them here too", id)
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
			err = fmt.Errorf("%w: severity: %.40q is neither a number nor a parameter such as p.limit", errRule,
				l.parameter)
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

// hash returns a hash of everything that decides about findings. Titles and hints are not part of it, so that a change
// of words does not make a rule begin anew.
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

// digest returns the first 16 hexadecimal digits of the SHA-256 of a text.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
