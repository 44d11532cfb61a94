package compare

import (
	"math"

	"github.com/weirhpc/weir/report/view"
)

// Units of facts.
const (
	UnitText    = ""
	UnitNumber  = "1"
	UnitShare   = "%"
	UnitSeconds = "s"
	UnitBytes   = "B"
	UnitJoules  = "J"
	UnitHours   = "h" // of a core or a GPU
)

// facts collects lines, and leaves out those without any value.
type facts struct {
	jobs [2]*view.Job
	all  []Fact
}

func (f *facts) text(name string, of func(*view.Job) string) {
	one := Fact{Name: name}
	for i, j := range f.jobs {
		one.Text[i] = of(j)
	}
	if one.Text != [2]string{} {
		f.all = append(f.all, one)
	}
}

func (f *facts) number(name, unit string, of func(*view.Job) *float64) {
	one := Fact{Name: name, Unit: unit}
	for i, j := range f.jobs {
		if v := of(j); v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) {
			one.Value[i] = v
		}
	}
	if one.Value != [2]*float64{} {
		f.all = append(f.all, one)
	}
}

// of returns a number of the scheduler, or nil.
func of[T int32 | int64](v *T) *float64 {
	if v == nil {
		return nil
	}
	return new(float64(*v))
}

// asked lists the requests of both jobs.
func asked(jobs [2]*view.Job) []Fact {
	f := facts{jobs: jobs}
	f.text("name", func(j *view.Job) string { return j.Name })
	f.text("user", func(j *view.Job) string { return j.User })
	f.text("account", func(j *view.Job) string { return j.Account })
	f.text("queue", func(j *view.Job) string { return j.Queue })
	f.number("nodes", UnitNumber, func(j *view.Job) *float64 { return nonzero(float64(len(j.Nodes))) })
	f.text("node type", func(j *view.Job) string { return j.Type.Name })
	f.number("cores", UnitNumber, func(j *view.Job) *float64 { return of(j.Cores) })
	f.number("GPUs", UnitNumber, func(j *view.Job) *float64 { return of(j.Gpus) })
	f.number("time limit", UnitSeconds, func(j *view.Job) *float64 { return of(j.TimeLimitS) })
	f.number("memory of a node", UnitBytes, func(j *view.Job) *float64 { return of(j.MemRequestedBytes) })
	f.text("whole nodes", func(j *view.Job) string {
		switch {
		case j.Exclusive == nil:
			return ""
		case *j.Exclusive:
			return "yes"
		}
		return "no"
	})
	return f.all
}

// used lists the time, the hours and the energy of both jobs.
func used(jobs [2]*view.Job) []Fact {
	lines := map[*view.Job]view.JobLine{}
	for _, j := range jobs {
		lines[j] = j.Line()
	}
	f := facts{jobs: jobs}
	f.text("state", func(j *view.Job) string { return j.State })
	f.number("time", UnitSeconds, func(j *view.Job) *float64 { return nonzero(j.ElapsedS()) })
	f.number("core-hours", UnitHours, func(j *view.Job) *float64 { return hours(of(j.Cores), j) })
	f.number("core-hours wasted", UnitHours, func(j *view.Job) *float64 { return lines[j].WastedH })
	f.number("cores busy", UnitShare, func(j *view.Job) *float64 { return lines[j].Busy })
	f.number("GPU-hours", UnitHours, func(j *view.Job) *float64 {
		if n := of(j.Gpus); n != nil && *n > 0 {
			return hours(n, j)
		}
		return nil
	})
	f.number("GPU-hours wasted", UnitHours, func(j *view.Job) *float64 { return lines[j].GPUWastedH })
	f.number("GPUs busy", UnitShare, func(j *view.Job) *float64 { return lines[j].GPUBusy })
	for _, covered := range []string{"nodes", "CPUs and GPUs", "CPUs", "GPUs"} {
		f.number("energy of "+covered, UnitJoules, func(j *view.Job) *float64 {
			if joules, parts := energyOf(j); parts == covered {
				return joules
			}
			return nil
		})
	}
	f.number("seen", UnitShare, func(j *view.Job) *float64 { return lines[j].Seen })
	return f.all
}

// energyOf returns the measured energy of a job, and the parts of the nodes that it covers.
func energyOf(j *view.Job) (joules *float64, parts string) {
	var e view.Energy
	for i := range j.Metrics {
		if t := &j.Metrics[i].Total; t.Of.Measured > 0 {
			e.Add(j.Metrics[i].Name, t.Mean, t.Count, t.Of.MeasuredS/float64(t.Of.Measured))
		}
	}
	v, parts, ok := e.Joules()
	if !ok {
		return nil, ""
	}
	return &v, parts
}

func hours(n *float64, j *view.Job) *float64 {
	if n == nil {
		return nil
	}
	return nonzero(*n * j.ElapsedS() / 3600)
}

func nonzero(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}
