package machine

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// Line is an account or a job, with its properties.
type Line struct {
	Account   string
	Job, User string // empty for an account
	Cores     int64  // of a job
	Jobs      int64
	CoreHours float64
	Cost      float64 // core-hours times severity, summed over all properties: the largest is worth tuning first
	Cells     []Cell  // one for each rule
}

// Cell is a property of an account or a job.
type Cell struct {
	Measured bool    // a job had the metrics that the rule needs
	Jobs     int64   // with a finding
	Severity float64 // mean over them
	Cost     float64 // core-hours times severity
}

// worstJobs is the number of jobs that are named with their properties.
const worstJobs = 20

// properties returns a line for each account, and a line for each of the jobs that cost most.
func properties(jobs []*Job, rules []Rule, found []Found) (accounts, worst []Line) {
	at := map[string]int{}
	for i, r := range rules {
		at[r.ID] = i
	}
	type named struct {
		schemas.JobKey
		startMs int64 // tells jobs with the same id apart
	}
	severities := map[named]map[int]float64{}
	for _, f := range found {
		if i, known := at[f.Rule]; known {
			k := named{f.JobKey, f.StartMs}
			if severities[k] == nil {
				severities[k] = map[int]float64{}
			}
			severities[k][i] = f.Severity
		}
	}
	byAccount := map[string]*Line{}
	for _, j := range jobs {
		account := byAccount[j.Account]
		if account == nil {
			account = &Line{Account: j.Account, Cells: make([]Cell, len(rules))}
			byAccount[j.Account] = account
		}
		line := Line{Account: j.Account, Job: j.JobID, User: j.User, Cores: j.Cores, Cells: make([]Cell, len(rules))}
		of := severities[named{j.JobKey, j.StartMs}]
		line.add(j, rules, of)
		account.add(j, rules, of)
		if len(of) > 0 {
			line.done()
			worst = append(worst, line)
		}
	}
	for _, a := range byAccount {
		a.done()
		accounts = append(accounts, *a)
	}
	order := func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Job, b.Job))
	}
	slices.SortStableFunc(accounts, order)
	slices.SortStableFunc(worst, order)
	return accounts, worst[:min(worstJobs, len(worst))]
}

// add counts a job with the severities of its findings, by rule.
func (l *Line) add(j *Job, rules []Rule, severities map[int]float64) {
	l.Jobs++
	l.CoreHours += j.coreHours()
	for i, r := range rules {
		c := &l.Cells[i]
		c.Measured = c.Measured || !slices.ContainsFunc(r.Needs, func(m string) bool {
			_, there := j.Means[m]
			return !there
		})
		if s, ok := severities[i]; ok {
			c.Measured = true
			c.Jobs++
			c.Severity += s
			c.Cost += s * j.coreHours()
			l.Cost += s * j.coreHours()
		}
	}
}

// done turns sums into means.
func (l *Line) done() {
	for i := range l.Cells {
		if c := &l.Cells[i]; c.Jobs > 0 {
			c.Severity /= float64(c.Jobs)
		}
	}
}
