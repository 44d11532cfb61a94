package view

import (
	"math"

	"github.com/weirhpc/weir/schemas"
)

// Line returns the job as a line of a list of jobs.
func (j *Job) Line() JobLine {
	l := JobLine{Job: j.Job, Cluster: j.Cluster, Judged: j.AnyEvaluated() && !j.Part, TimeS: j.ElapsedS()}
	for _, name := range []string{"cpu_idle", "cpu_user", "acc_utilization", "mem_used", "job_mem_used"} {
		m := j.measured(name)
		if m == nil {
			continue
		}
		var d [11]*float64
		for k := range d {
			d[k] = known(m.Total.D[k])
		}
		l.Take(name, known(m.Total.Mean), d, j.Type)
		l.Waste(name, m.Total.Count, float64(j.IntervalMs)/1000)
	}
	if j.Expected > 0 {
		l.Seen = known(float64(j.Reported) / float64(j.Expected))
	}
	for i := range j.Findings {
		if j.Findings[i].State == schemas.FindingOpen {
			l.Finding = &j.Findings[i]
			break
		}
	}
	return l
}

// ElapsedS returns the seconds that the job ran: by the scheduler, and where it does not know, by the measurements.
func (j *Job) ElapsedS() float64 {
	start, until := j.FirstMs, j.UntilMs
	if j.Start != nil && *j.Start > 0 {
		start = *j.Start
	}
	if j.End != nil && *j.End > start && !j.Running {
		until = *j.End
	}
	return float64(until-start) / 1000
}

// known returns a pointer to a number, or nil if it is not finite.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
