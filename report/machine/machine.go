// Package machine answers questions about the machine as a whole. How busy were its cores? How well did jobs of each
// size, user and account use them? It reads nothing. Package analysis hands in jobs, totals, hours and findings.
package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Options select the span and the jobs that count. NWPerf's authors chose alike: small and short jobs are tests.
type Options struct {
	FromMs, ToMs  int64 // jobs that ended in [FromMs, ToMs)
	MinCores      int64 // jobs with fewer cores are left out
	MinTime       time.Duration
	WithoutQueues []string
}

// Job is a job that ended in the span, with its measurements over its whole life.
type Job struct {
	schemas.JobKey
	User, Account, Queue string
	Cores                int64           // 0: not known to the scheduler
	GPUs                 int64           // 0: none, or not known
	StartMs, EndMs       int64           // StartMs is -1 if the scheduler does not know it
	Type                 config.NodeType // type of its nodes; zero if they have none, or several
	Means                map[string]Mean // by metric
}

// Mean is the mean of a metric over the life of a job.
type Mean struct {
	Mean    float64
	PerNode float64 // number of values from a node in an interval, such as its cores
}

// Hour is the use of cores in an hour or another span. The cores are all of the machine, or those outside of jobs.
type Hour struct {
	StartMs       int64
	Rest          bool    // of _rest, otherwise of _system
	Hours         float64 // measured core-hours
	IdleCoreHours float64
}

// Held is the use of a job's cores in an hour or another span.
type Held struct {
	StartMs       int64
	Threads       int // per core of its nodes; 0: not known
	Hours         float64
	IdleCoreHours float64
}

// Energy is the measured energy of the whole machine.
type Energy struct {
	Joules float64
	Of     string // the parts of the nodes whose power was measured; empty: none
}

// Rule is a property that jobs may have.
type Rule struct {
	ID, Title string
	Needs     []string // metrics; a job without one of them was not judged
}

// Found is a finding of a job.
type Found struct {
	schemas.JobKey
	StartMs  int64 // of the job
	Rule     string
	Severity float64
}

// Input is the whole input of a report.
type Input struct {
	Options
	Jobs        []Job
	Hours       []Hour
	Held        []Held // needed if cores have several threads
	GPUHours    []Hour // of GPUs, as Hours are of cores
	Energy      Energy
	Rules       []Rule
	Found       []Found
	Judged      bool    // the archive has findings; otherwise no rule was evaluated
	MachineHour float64 // cores of the machine, as configured; 0: not configured
	MachineGPUs float64 // GPUs of the machine, likewise
}

// Report is the answer. Numbers are in base units: shares are 0 to 1.
type Report struct {
	Options
	Jobs      int64 // counted
	CoreHours float64
	GPUHours  float64
	Left      LeftOut
	Cores     Cores
	Days      []Day
	GPUs      Cores
	GPUDays   []Day
	Energy    Energy
	Figures   []Figure
	Sizes     []MonthSize
	Kernel    []KernelJob
	Judged    bool
	Rules     []Rule
	Accounts  []Line // worst first
	Worst     []Line // jobs, worst first
}

// LeftOut counts the jobs that do not count. A job may be left out for several reasons.
type LeftOut struct {
	Jobs    int64
	Reasons []Reason
}

// Reason is a reason for leaving jobs out.
type Reason struct {
	Text string
	Jobs int64
}

// Compute makes the report. It neither reorders nor keeps its input.
func Compute(in *Input) *Report {
	r := &Report{Options: in.Options, Judged: in.Judged, Energy: in.Energy}
	counted, left := choose(in.Jobs, in.Options)
	r.Left, r.Jobs = left, int64(len(counted))
	for _, j := range counted {
		r.CoreHours += j.coreHours()
		r.GPUHours += float64(j.GPUs) * max(0, j.durationS()) / 3600
	}
	r.Cores, r.Days = cores(in.Hours, in.Held, in.MachineHour, in.Options)
	r.GPUs, r.GPUDays = cores(in.GPUHours, nil, in.MachineGPUs, in.Options)
	for _, m := range measures {
		if f := m.figure(counted); len(f.Points) > 0 {
			r.Figures = append(r.Figures, f)
		}
	}
	r.Sizes = sizesByMonth(counted)
	r.Kernel = kernel(counted)
	if in.Judged {
		r.Rules = in.Rules
	}
	r.Accounts, r.Worst = properties(counted, r.Rules, in.Found)
	return r
}

// durationS returns the job's duration in seconds, or -1 if it is unknown.
func (j *Job) durationS() float64 {
	if j.StartMs < 0 || j.EndMs < j.StartMs {
		return -1
	}
	return float64(j.EndMs-j.StartMs) / 1000
}

// coreHours returns the core-hours that the job held.
func (j *Job) coreHours() float64 { return float64(j.Cores) * max(0, j.durationS()) / 3600 }

// choose returns the jobs that count, by id, and the reasons for the others.
func choose(all []Job, o Options) (counted []*Job, left LeftOut) {
	few := Reason{Text: "< " + number(o.MinCores) + " cores"}
	short := Reason{Text: "<= " + shortest(o.MinTime)}
	unknown, unmeasured := Reason{Text: "cores unknown"}, Reason{Text: "without totals"}
	queues := make([]Reason, len(o.WithoutQueues))
	for i := range all {
		j, out := &all[i], false
		note := func(r *Reason, is bool) {
			if is {
				r.Jobs++
				out = true
			}
		}
		note(&unknown, j.Cores <= 0)
		note(&few, j.Cores > 0 && j.Cores < o.MinCores)
		note(&short, j.durationS() <= o.MinTime.Seconds())
		for k, q := range o.WithoutQueues {
			queues[k].Text = "queue " + q
			note(&queues[k], j.Queue == q)
		}
		note(&unmeasured, len(j.Means) == 0)
		if out {
			left.Jobs++
		} else {
			counted = append(counted, j)
		}
	}
	for _, r := range slices.Concat([]Reason{few, short}, queues, []Reason{unknown, unmeasured}) {
		if r.Jobs > 0 {
			left.Reasons = append(left.Reasons, r)
		}
	}
	slices.SortFunc(counted, func(a, b *Job) int {
		return cmp.Or(compareJobs(a.JobKey, b.JobKey), cmp.Compare(a.StartMs, b.StartMs))
	})
	return counted, left
}

func compareJobs(a, b schemas.JobKey) int {
	return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
}
