// Package usage adds up the jobs of a user or an account: hours of cores and GPUs, the wasted part, energy, findings,
// and the months before. It reads nothing. Package overview hands in the jobs.
package usage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// Kinds of a report.
const (
	User    = "user"
	Account = "account"
)

// MonthsBefore is the number of months before the reported one that a trend shows.
const MonthsBefore = 3

// Job is a job that ended, with the hours that it held and wasted.
type Job struct {
	view.JobLine
	CoresMeasuredH float64 // core-hours with a known use
	GPUsMeasuredH  float64
	Energy         view.Energy
	Findings       []schemas.Finding // that hold and are certain
}

// Input is the whole input of a report.
type Input struct {
	Kind, Name string
	Month      time.Time // the first moment of the reported month
	Until      time.Time // zero, or the present if the month is not over
	Newest     time.Time // the newest date with a job in the archive; zero: none
	Jobs       []Job     // that ended in this month or the MonthsBefore before
	Judged     bool      // the archive has findings; otherwise no rule was evaluated
}

// Report is the answer. Energy is in joules.
type Report struct {
	Kind, Name string
	Month      time.Time
	Until      time.Time
	Newest     time.Time
	Sum        Sum
	Before     []Sum // the months before, the oldest first
	Judged     bool
	Rules      []Rule // most core-hours first
	Worst      []Worst
	Found      int64 // jobs with a finding
}

// Sum is the sum over the jobs that ended in a month.
type Sum struct {
	Month time.Time
	Jobs  int64
	Cores Hours
	GPUs  Hours
	// Energy is that of the jobs with power, which Powered counts.
	Energy  float64
	Powered int64
}

// Hours are core-hours or GPU-hours.
type Hours struct {
	Held     float64
	Measured float64 // the part with a known use
	Wasted   float64 // of the measured
}

// Share returns the wasted share of the measured hours; ok is false if none were measured.
func (h *Hours) Share() (share float64, ok bool) {
	if h.Measured <= 0 {
		return 0, false
	}
	return min(1, h.Wasted/h.Measured), true
}

// Rule is a rule that holds for some of the jobs.
type Rule struct {
	ID, Title string
	Class     string // of its worst finding
	Jobs      int64
	CoreHours float64 // that these jobs held
	GPUHours  float64
}

// Worst is a job that wastes much, with its worst finding.
type Worst struct {
	Job
	Finding schemas.Finding
	Cost    float64 // core-hours: a GPU-hour counts as the cores beside the GPU
}

// worstJobs is the number of jobs that are named.
const worstJobs = 5

// Compute makes the report. It does not keep its input.
func Compute(in *Input) *Report {
	r := &Report{
		Kind: in.Kind, Name: in.Name, Month: in.Month, Until: in.Until, Newest: in.Newest, Judged: in.Judged,
	}
	for k := MonthsBefore; k >= 0; k-- {
		from := in.Month.AddDate(0, -k, 0)
		s := Sum{Month: from}
		for i := range in.Jobs {
			if j := &in.Jobs[i]; ended(j, from) {
				s.add(j)
			}
		}
		if k > 0 {
			r.Before = append(r.Before, s)
		} else {
			r.Sum = s
		}
	}
	rules := map[string]*Rule{}
	for i := range in.Jobs {
		if j := &in.Jobs[i]; ended(j, in.Month) && len(j.Findings) > 0 {
			r.Found++
			r.find(rules, j)
		}
	}
	for _, rule := range rules {
		r.Rules = append(r.Rules, *rule)
	}
	slices.SortFunc(r.Rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.CoreHours, a.CoreHours), strings.Compare(a.ID, b.ID))
	})
	slices.SortFunc(r.Worst, func(a, b Worst) int {
		return cmp.Or(cmp.Compare(b.Cost, a.Cost), strings.Compare(a.JobID, b.JobID), cmp.Compare(*a.End, *b.End))
	})
	r.Worst = r.Worst[:min(worstJobs, len(r.Worst))]
	return r
}

// ended reports whether a job ended in the month that begins at a time.
func ended(j *Job, month time.Time) bool {
	return j.End != nil && *j.End >= month.UnixMilli() && *j.End < month.AddDate(0, 1, 0).UnixMilli()
}

// find counts the findings of a job.
func (r *Report) find(rules map[string]*Rule, j *Job) {
	cores, gpus := j.hours()
	worst := &j.Findings[0]
	for i := range j.Findings {
		f := &j.Findings[i]
		rule := rules[f.Rule]
		if rule == nil {
			rule = &Rule{ID: f.Rule, Title: f.Title}
			rules[f.Rule] = rule
		}
		rule.Jobs++
		rule.CoreHours += cores.Held
		rule.GPUHours += gpus.Held
		if rank(f.Class) > rank(rule.Class) {
			rule.Class = f.Class
		}
		if rank(f.Class) > rank(worst.Class) || f.Class == worst.Class && f.Severity > worst.Severity {
			worst = f
		}
	}
	r.Worst = append(r.Worst, Worst{Job: *j, Finding: *worst, Cost: j.cost()})
}

// rank orders classes of findings.
func rank(class string) int {
	return slices.Index([]string{schemas.ClassLow, schemas.ClassMed, schemas.ClassHigh}, class)
}

// hours returns the core-hours and the GPU-hours of a job. Held hours follow from the scheduler's numbers; GPU-hours
// without them from the measurements.
func (j *Job) hours() (cores, gpus Hours) {
	if j.Cores != nil {
		cores.Held = float64(*j.Cores) * j.TimeS / 3600
	}
	if j.WastedH != nil {
		cores.Wasted, cores.Measured = *j.WastedH, j.CoresMeasuredH
	}
	if j.GPUWastedH != nil {
		gpus.Wasted, gpus.Measured = *j.GPUWastedH, j.GPUsMeasuredH
	}
	if gpus.Held = gpus.Measured; j.Gpus != nil && *j.Gpus > 0 {
		gpus.Held = float64(*j.Gpus) * j.TimeS / 3600
	}
	return cores, gpus
}

// cost returns the wasted core-hours of a job. A wasted GPU-hour counts as the cores that the job held beside the GPU,
// since nobody else could use these.
func (j *Job) cost() float64 {
	cores, gpus := j.hours()
	cost := cores.Wasted
	if gpus.Held > 0 {
		cost = max(cost, gpus.Wasted*cores.Held/gpus.Held)
	}
	return cost
}

func (s *Sum) add(j *Job) {
	s.Jobs++
	cores, gpus := j.hours()
	s.Cores.add(cores)
	s.GPUs.add(gpus)
	if joules, _, ok := j.Energy.Joules(); ok {
		s.Energy += joules
		s.Powered++
	}
}

func (h *Hours) add(o Hours) {
	h.Held += o.Held
	h.Measured += o.Measured
	h.Wasted += o.Wasted
}

// Trend returns the wasted shares of the core-hours and of the GPU-hours in the months before together; nil: none were
// measured.
func (r *Report) Trend() (cores, gpus *float64) {
	var all Sum
	for i := range r.Before {
		all.Cores.add(r.Before[i].Cores)
		all.GPUs.add(r.Before[i].GPUs)
	}
	if share, ok := all.Cores.Share(); ok {
		cores = &share
	}
	if share, ok := all.GPUs.Share(); ok {
		gpus = &share
	}
	return cores, gpus
}

// Total is the sum over the month and the months before.
func (r *Report) Total() (all Sum) {
	for _, s := range append(slices.Clone(r.Before), r.Sum) {
		all.Jobs += s.Jobs
		all.Cores.add(s.Cores)
		all.GPUs.add(s.GPUs)
		all.Energy += s.Energy
		all.Powered += s.Powered
	}
	return all
}
