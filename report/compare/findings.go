package compare

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// Kinds of findings of two jobs.
const (
	Appeared = "appeared" // only the second job has it
	Gone     = "gone"     // only the first job has it
	Stays    = "stays"    // both have it
	Unknown  = "unknown"  // one job has it, and the rule was not evaluated for the other
)

// Found is a rule that holds for one of the jobs or both.
type Found struct {
	Kind string
	Of   [2]*schemas.Finding // nil: it does not hold, or is not known to
}

// Finding returns the finding of the second job, or that of the first if the second has none.
func (f *Found) Finding() *schemas.Finding { return cmp.Or(f.Of[1], f.Of[0]) }

// findings lists the rules that hold for a job, those first that changed.
func (c *Comparison) findings(set *rules.Set) {
	at := map[string]int{}
	for i, j := range c.Jobs {
		for k := range j.Findings {
			f := &j.Findings[k]
			if f.State != schemas.FindingOpen {
				continue
			}
			n, is := at[f.Rule]
			if !is {
				n = len(c.Found)
				at[f.Rule] = n
				c.Found = append(c.Found, Found{})
			}
			c.Found[n].Of[i] = f
		}
	}
	for i := range c.Found {
		f := &c.Found[i]
		rule := f.Finding().Rule
		switch {
		case f.Of[0] != nil && f.Of[1] != nil:
			f.Kind = Stays
		case f.Of[0] == nil && !evaluated(c.Jobs[0], rule, set), f.Of[1] == nil && !evaluated(c.Jobs[1], rule, set):
			f.Kind = Unknown
		case f.Of[0] == nil:
			f.Kind = Appeared
		default:
			f.Kind = Gone
		}
	}
	order := []string{Appeared, Gone, Unknown, Stays}
	slices.SortStableFunc(c.Found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			cmp.Compare(worst(&b), worst(&a)), strings.Compare(a.Finding().Rule, b.Finding().Rule))
	})
}

func worst(f *Found) (severity float64) {
	for _, of := range f.Of {
		if of != nil {
			severity = max(severity, of.Severity)
		}
	}
	return severity
}

// evaluated reports whether the silence of a rule about a job means that it does not hold: the rule was evaluated, and
// no finding of the job silences it.
func evaluated(j *view.Job, rule string, set *rules.Set) bool {
	if slices.ContainsFunc(j.NotEvaluated, func(r rules.Reason) bool { return r.Rule == rule }) {
		return false
	}
	if set == nil {
		return true
	}
	for i := range set.Rules {
		if slices.Contains(set.Rules[i].Silences, rule) && slices.ContainsFunc(j.Findings, func(f schemas.Finding) bool {
			return f.Rule == set.Rules[i].ID && f.State == schemas.FindingOpen
		}) {
			return false
		}
	}
	return true
}
