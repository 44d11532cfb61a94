package machine

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// Frame is the machine in one interval, as `weir top` shows it.
type Frame struct {
	Cluster             string
	StartMs, IntervalMs int64
	Seen, Expected      int64 // nodes; 0: the summary of the whole machine is missing
	Cores               Cores // in this interval
	GPUs                Cores // likewise; nothing is seen without GPUs
	Part                bool  // the reader may not see all jobs, and so no sums of the machine
	Metrics             []string
	Jobs                []FrameJob // by id
}

// FrameJob is a job with a summary of the interval.
type FrameJob struct {
	schemas.JobKey
	Name, User, Account, Queue string
	Nodes                      int64
	Reported, Expected         int64
	Method                     string
	Busy, GPUBusy              *float64
	Metrics                    []FrameMetric // by name
	Findings                   []schemas.Finding
}

// FrameMetric is a metric of a job in the interval.
type FrameMetric struct {
	Name, Unit, Scope string
	Deciles           *[11]float64 // nil: too few values
	Mean              *float64
	LowNode, HighNode string
	Past              []float64 // medians of the last intervals, the newest one last
}

// Metric returns a metric of the job, or nil.
func (j *FrameJob) Metric(name string) *FrameMetric {
	at, found := slices.BinarySearchFunc(j.Metrics, name, func(m FrameMetric, name string) int {
		return cmp.Compare(m.Name, name)
	})
	if !found {
		return nil
	}
	return &j.Metrics[at]
}

// Spread is d9 - d1 of a metric, and whether both are known.
func (m *FrameMetric) Spread() (float64, bool) {
	if m == nil || m.Deciles == nil {
		return 0, false
	}
	return m.Deciles[9] - m.Deciles[1], true
}

// Known is the knowledge beside the summaries that a frame shows.
type Known struct {
	Jobs        map[schemas.JobKey]*schemas.Job
	Findings    map[schemas.JobKey][]schemas.Finding // open ones
	Type        func(nodes []string) config.NodeType
	Threads     func(nodes []string) int // of a core; 0: not known
	MachineHour float64                  // cores of the machine; 0: not configured
	MachineGPUs float64                  // GPUs of the machine, likewise
	// May reports whether the reader of the frame may see a measurement of a job, by its record, which is nil if there
	// is none, and the last millisecond of its interval. Nil: every one.
	May func(j *schemas.Job, ms int64) bool
}

// may reports whether the reader of the frame may see an interval under a number.
func (k *Known) may(key schemas.JobKey, startMs, lengthMs int64) bool {
	return k.May == nil || k.May(k.Jobs[key], startMs+lengthMs-1)
}

// pastIntervals is the number of medians that a frame remembers.
const pastIntervals = 40

// Live turns summaries into frames, interval by interval. It does not read the clock.
type Live struct{ past map[pastKey][]float64 }

type pastKey struct {
	schemas.JobKey
	metric string
}

// Fold takes the summaries of one interval, which must be later than all before, and returns its frame. Without
// summaries it returns nil. A reader who may not see all jobs gets no numbers of the whole machine.
func (l *Live) Fold(summaries []*schemas.JobSummary, k *Known) *Frame {
	if len(summaries) == 0 {
		return nil
	}
	first := summaries[0]
	f := &Frame{Cluster: first.Cluster, StartMs: first.IntervalStart, IntervalMs: first.IntervalMs}
	f.Part = k.May != nil && !k.May(nil, f.StartMs)
	past, metrics := map[pastKey][]float64{}, map[string]bool{}
	var cores, gpus hours
	for _, s := range summaries {
		if !k.may(schemas.JobKey{JobID: s.JobID, Restart: s.Restart}, s.IntervalStart, s.IntervalMs) {
			continue
		}
		if s.JobID == schemas.JobSystem || s.JobID == schemas.JobRest {
			if h, ok := hourOf(s); ok {
				cores.add(h)
			}
			if h, ok := gpuHourOf(s); ok {
				gpus.add(h)
			}
			if s.JobID == schemas.JobSystem {
				f.Seen, f.Expected = int64(s.NodesReported), int64(s.NodesExpected)
			}
			continue
		}
		cores.hold(heldOf(s, k))
		j := frameJob(s, k)
		for i := range j.Metrics {
			m := &j.Metrics[i]
			metrics[m.Name] = true
			key := pastKey{j.JobKey, m.Name}
			past[key] = l.past[key]
			if m.Deciles != nil {
				past[key] = append(past[key], m.Deciles[5])
			}
			past[key] = past[key][max(0, len(past[key])-pastIntervals):]
			m.Past = slices.Clone(past[key])
		}
		f.Jobs = append(f.Jobs, j)
	}
	l.past = past // forgets jobs that are gone
	if !f.Part {
		f.Cores, f.GPUs = cores.cores(), gpus.cores()
		f.Cores.of(k.MachineHour * float64(f.IntervalMs) / 3.6e6)
		f.GPUs.of(k.MachineGPUs * float64(f.IntervalMs) / 3.6e6)
	}
	for name := range metrics {
		f.Metrics = append(f.Metrics, name)
	}
	slices.Sort(f.Metrics)
	slices.SortFunc(f.Jobs, func(a, b FrameJob) int { return compareJobs(a.JobKey, b.JobKey) })
	return f
}

// heldOf returns the use of the cores that a job holds. It is zero without cpu_idle.
func heldOf(s *schemas.JobSummary, k *Known) (held Held) {
	h, ok := hourOf(s)
	if !ok || k.Threads == nil {
		return held
	}
	var nodes []string
	if of := k.Jobs[schemas.JobKey{JobID: s.JobID, Restart: s.Restart}]; of != nil {
		nodes = of.Nodes
	}
	return Held{h.StartMs, k.Threads(nodes), h.Hours, h.IdleCoreHours}
}

// hourOf returns the use of the cores in an interval, by the metric cpu_idle.
func hourOf(s *schemas.JobSummary) (Hour, bool) { return spanOf(s, "cpu_idle") }

// gpuHourOf returns the use of the GPUs in an interval, by the metric acc_utilization.
func gpuHourOf(s *schemas.JobSummary) (Hour, bool) {
	h, ok := spanOf(s, "acc_utilization")
	h.IdleCoreHours = max(0, h.Hours-h.IdleCoreHours) // the metric is the busy share
	return h, ok
}

// spanOf returns the hours of a metric in an interval, and the part that its mean is of them.
func spanOf(s *schemas.JobSummary, metric string) (Hour, bool) {
	for i := range s.Metrics {
		if m := &s.Metrics[i]; m.Name == metric && m.Mean != nil {
			hours := float64(m.Count) * float64(s.IntervalMs) / 3.6e6
			return Hour{s.IntervalStart, s.JobID == schemas.JobRest, hours, hours * *m.Mean}, true
		}
	}
	return Hour{}, false
}

func frameJob(s *schemas.JobSummary, k *Known) FrameJob {
	j := FrameJob{
		JobKey: schemas.JobKey{JobID: s.JobID, Restart: s.Restart}, Nodes: int64(s.NodesExpected), Method: s.Method,
		Reported: int64(s.NodesReported), Expected: int64(s.NodesExpected),
	}
	var node config.NodeType
	if of := k.Jobs[j.JobKey]; of != nil {
		j.Name, j.User, j.Account, j.Queue = of.Name, of.User, of.Account, of.Queue
		if k.Type != nil {
			node = k.Type(of.Nodes)
		}
	}
	for _, found := range k.Findings[j.JobKey] {
		if k.may(j.JobKey, found.AsOf, found.IntervalMs) {
			j.Findings = append(j.Findings, found)
		}
	}
	for i := range s.Metrics {
		from := &s.Metrics[i]
		m := FrameMetric{Name: from.Name, Unit: from.Unit, Scope: from.Scope, Mean: from.Mean}
		if from.LowNode != nil && from.HighNode != nil {
			m.LowNode, m.HighNode = *from.LowNode, *from.HighNode
		}
		if from.Deciles != nil && len(*from.Deciles) == 11 {
			m.Deciles = (*[11]float64)(slices.Clone(*from.Deciles))
		}
		if m.Name == "cpu_idle" && m.Mean != nil {
			busy := view.Busy(*m.Mean, node)
			j.Busy = &busy
		}
		if m.Name == "acc_utilization" && m.Mean != nil {
			j.GPUBusy = new(min(1, max(0, *m.Mean)))
		}
		j.Metrics = append(j.Metrics, m)
	}
	slices.SortFunc(j.Metrics, func(a, b FrameMetric) int { return cmp.Compare(a.Name, b.Name) })
	return j
}
