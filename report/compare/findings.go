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
	Why  string              // of Unknown: the reason that it is not known for the other job
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
		case f.Of[0] == nil:
			f.Kind = Appeared
		default:
			f.Kind = Gone
		}
		for k, j := range c.Jobs {
			if f.Of[k] != nil {
				continue
			}
			if f.Why = blind(j, rule, set); f.Why != "" {
				f.Kind = Unknown
			}
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

// blind returns why the silence of a rule about a job does not mean that it does not hold: it was not evaluated, or
// another finding of the job silences it. It is empty if the silence means that.
func blind(j *view.Job, rule string, set *rules.Set) string {
	for _, r := range j.NotEvaluated {
		if r.Rule == rule {
			return "not evaluated for " + j.JobID + ": " + r.Why
		}
	}
	if set == nil {
		return ""
	}
	for i := range set.Rules {
		r := &set.Rules[i]
		if slices.Contains(r.Silences, rule) && slices.ContainsFunc(j.Findings, func(f schemas.Finding) bool {
			return f.Rule == r.ID && f.State == schemas.FindingOpen
		}) {
			return r.ID + " of " + j.JobID + " covers it"
		}
	}
	return ""
}
