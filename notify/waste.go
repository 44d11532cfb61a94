package notify

import (
	"strconv"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/schemas"
)

// Machine holds the facts that findings do not carry.
type Machine struct {
	// Threads returns how many hardware threads each core of some nodes has; 0 or 1 if that is unknown.
	Threads func(nodes []string) int
	// Life reports whether a rule is judged over the whole life of a job, not interval by interval.
	Life func(rule string) bool
}

// job is a job of topic jobs: the part that messages need, since the topic spans days.
type job struct {
	user, name     string
	array, task    string // ARRAY and ARRAY_TASK; empty: the job is not a task of an array
	cores          int64
	gpus           int32
	threads        int // of a core
	startMs, endMs int64
}

func (m Machine) jobOf(j *schemas.Job) *job {
	known := &job{user: j.User, name: j.Name, threads: m.Threads(j.Nodes)}
	if j.ArrayJob != nil && j.ArrayTask != nil {
		known.array, known.task = *j.ArrayJob, *j.ArrayJob+"_"+strconv.Itoa(int(*j.ArrayTask))
		if !schemas.ValidJobID(known.array) || !schemas.ValidJobID(known.task) {
			known.array, known.task = "", ""
		}
	}
	for _, of := range []struct{ from, to *int64 }{
		{j.Cores, &known.cores}, {j.Start, &known.startMs}, {j.End, &known.endMs},
	} {
		if of.from != nil {
			*of.to = *of.from
		}
	}
	if j.Gpus != nil {
		known.gpus = *j.Gpus
	}
	return known
}

// loss is the cost of a finding.
type loss struct{ cores, gpus, heldCores, heldGPUs float64 } // in hours

const hourMs = 3_600_000

// waste returns the cost of a finding. It follows from the numbers that the rule gives as evidence: core-hours without
// work from cpu_idle, those that the kernel or files took from cpu_system and cpu_iowait, and GPU-hours from
// acc_utilization. Only intervals in which the rule matched count. A rule without such evidence costs nothing.
func (m Machine) waste(f *schemas.Finding, j *job) loss {
	intervals := f.Matched
	if m.Life(f.Rule) { // it is judged at a few marks, and what it found is of the whole life
		intervals = f.Intervals
	}
	hours := float64(intervals) * float64(f.IntervalMs) / hourMs
	held := max(hours, float64(max(0, j.endMs-j.startMs))/hourMs)
	l := loss{heldCores: float64(j.cores) * held, heldGPUs: float64(j.gpus) * held}
	for i := range f.Evidence {
		e := &f.Evidence[i]
		metric, of, _ := strings.Cut(e.Name, ".")
		cores, gpus := 0.0, 0.0
		switch {
		case metric == "cpu_idle" && of == "mean":
			cores = 1 - view.Busy(e.Mean, config.NodeType{ThreadsPerCore: j.threads})
		case (metric == "cpu_system" || metric == "cpu_iowait") && of == "mean":
			cores = e.Mean
		case metric == "acc_utilization" && of == "mean":
			gpus = 1 - e.Mean
		case metric == "acc_utilization" && of == "hi10" && e.High == 0: // no GPU worked at any time
			gpus = 1
		}
		l.cores = max(l.cores, float64(j.cores)*hours*min(1, max(0, cores)))
		l.gpus = max(l.gpus, float64(j.gpus)*hours*min(1, max(0, gpus)))
	}
	return l
}
