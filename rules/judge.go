package rules

import (
	"math"
	"slices"
)

// Indices of a rule's numbers in a verdict, followed by its evidence. A rule over the whole life uses only the first.
const (
	verdictResult = iota // 1: the rule holds, 0: it does not, NaN: not evaluated
	verdictSeverity
	verdictValue
	verdictHead
)

// verdict is the result of all rules for an interval. A Watch keeps the verdict of the last interval until a later
// interval comes.
type verdict struct {
	startMs, lengthMs  int64
	expected, reported int32
	slots              [2][]float64 // certain, possible: of the rules
	nodes              []string     // of the rules that count nodes
	wholes             []float64
	cells              [2][]float64 // certain, possible: of the bins
}

// frame holds the inputs of terms while an interval or a life is judged.
type frame struct {
	in        []values // by input
	there     []bool
	reported  float64 // number of nodes
	low, high []string
	job       [jobNumbers]float64
	words     [5]string // id, user, account, queue, state
	node      [7]float64
	life      *life
	variant   int // 0: certain, 1: possible
	verdict   verdict
}

func (s *Set) newVerdict() verdict {
	l := &s.layout
	v := verdict{nodes: make([]string, l.nodes), wholes: make([]float64, wholeNumbers*len(l.wholes))}
	for variant := range v.slots {
		v.slots[variant], v.cells[variant] = make([]float64, l.slots), make([]float64, l.stride)
	}
	return v
}

func (s *Set) newFrame() *frame {
	n := len(s.layout.inputs)
	return &frame{
		in: make([]values, n), there: make([]bool, n), low: make([]string, n), high: make([]string, n),
		verdict: s.newVerdict(),
	}
}

// known returns v, or NaN if v is below least and so stands for unknown.
func known[T int | int64 | float64](v, least T) float64 {
	if v < least {
		return math.NaN()
	}
	return float64(v)
}

// facts fills in the facts about the job at a time, and about its nodes.
func (f *frame) facts(j *Job, nodes, cores float64, durationMs int64) {
	n := &j.Node
	threads := known(n.ThreadsPerCore, 1)
	f.job = [jobNumbers]float64{
		nodes, cores, known(j.Gpus, 0), float64(durationMs) / 1000, known(j.LimitS, 1), known(j.MemRequested, 1),
		1 - 1/threads,
	}
	f.words = [5]string{j.Key.JobID, j.User, j.Account, j.Queue, j.State}
	gpus := math.NaN()
	if n.GPUs != nil {
		gpus = float64(*n.GPUs)
	}
	peak, cpus := n.PeakFlops, known(n.CPUs, 1)
	if !(peak > 0) {
		peak = math.NaN()
	}
	bandwidth := n.PeakMemBW
	if !(bandwidth > 0) {
		bandwidth = math.NaN()
	}
	f.node = [7]float64{cpus, threads, known(n.Memory, 1), peak, peak / cpus, bandwidth, gpus}
}

// load takes the metrics that rules name from an interval. Both lists are sorted by name, so one pass suffices.
func (f *frame) load(l *layout, iv *Interval) {
	k := 0
	f.reported = float64(iv.Reported)
	for i, name := range l.inputs {
		for k < len(iv.Metrics) && iv.Metrics[k].Name < name {
			k++
		}
		if f.there[i] = k < len(iv.Metrics) && iv.Metrics[k].Name == name; !f.there[i] {
			f.in[i], f.low[i], f.high[i] = absent, "", ""
			continue
		}
		m := &iv.Metrics[k]
		f.in[i], f.low[i], f.high[i] = m.values(), m.Low, m.High
		if m.bounded {
			copy(f.in[i][atLo0:atHi0], m.lo[:])
			copy(f.in[i][atHi0:atMean], m.hi[:])
		}
		if !f.in[i].sound() {
			f.there[i], f.in[i], f.low[i], f.high[i] = false, absent, "", ""
		}
	}
}

// mostValue is the largest number that rules accept. Sums of such numbers are finite over any life.
const mostValue = 1e150

// bounded returns v, or NaN if v is too large to be summed up.
func bounded(v float64) float64 {
	if math.Abs(v) > mostValue {
		return math.NaN()
	}
	return v
}

// sound reports whether a metric can be summed up. Other metrics count as absent, because a state must be finite.
func (v *values) sound() bool {
	for _, one := range v {
		if math.Abs(one) > mostValue {
			return false
		}
	}
	return v[atMean] == v[atMean] && v[atPerNode] == v[atPerNode]
}

// absent are the values of a metric that an interval lacks.
var absent = func() (v values) {
	for i := range v {
		v[i] = math.NaN()
	}
	return v
}()

// believe takes estimates for exact, in order to find possible findings.
func (f *frame) believe() {
	f.variant = 1
	for i := range f.in {
		if v := &f.in[i]; f.there[i] {
			copy(v[atLo0:atHi0], v[atD0:atLo0])
			copy(v[atHi0:atMean], v[atD0:atLo0])
		}
	}
}

// missing returns the index of the first needed metric that the interval lacks, or -1. A metric on only a few of the
// nodes counts as lacking, since it describes only a part of the job.
func (f *frame) missing(r *Rule) int {
	return slices.IndexFunc(r.needs, func(i int) bool { return !f.there[i] || f.few(i, r.guards.Complete) })
}

// few reports whether too few of the reporting nodes have the metric. The number of nodes with the metric is count /
// per_node; the comparison avoids the division.
func (f *frame) few(i int, complete float64) bool {
	return f.in[i][atCount] < (complete*f.reported-1e-6)*f.in[i][atPerNode]
}

// known returns the number of nodes with the metric.
func (f *frame) known(i int) nodesKnown {
	return nodesKnown{int(math.Round(f.in[i][atCount] / f.in[i][atPerNode])), int(f.reported)}
}

// apply evaluates a rule. A result of NaN means that it was not evaluated. If the severity is NaN as well, that is the
// reason.
func (f *frame) apply(r *Rule) (result, severity, value float64) {
	if result = r.holds(f); result != 1 {
		return result, 0, 0
	}
	value = bounded(r.value(f))
	if severity = r.scale.of(value); math.IsNaN(severity) {
		return severity, severity, value
	}
	return result, severity, value
}

// judge fills in the verdict for one variant.
func (f *frame) judge(s *Set, variant int) {
	v := &f.verdict
	for i := range s.Rules {
		r := &s.Rules[i]
		slots := v.slots[variant][r.slot:][:verdictHead+len(r.evidence)]
		clear(slots)
		if r.nodes >= 0 {
			v.nodes[r.nodes] = ""
		}
		switch {
		case f.missing(r) >= 0:
			slots[verdictResult] = math.NaN()
			continue
		case r.Job:
			slots[verdictResult] = 1
			continue
		}
		if slots[0], slots[1], slots[2] = f.apply(r); slots[verdictResult] != 1 {
			continue
		}
		for k := range r.evidence {
			slots[verdictHead+k] = bounded(r.evidence[k].of(f))
		}
		if r.nodes >= 0 {
			v.nodes[r.nodes] = f.high[r.needs[0]]
			if r.By == "low_node" {
				v.nodes[r.nodes] = f.low[r.needs[0]]
			}
		}
	}
	l := &s.layout
	for k := range l.columns {
		c := &l.columns[k]
		v.cells[variant][c.n], v.cells[variant][c.at] = 0, 0
		if f.there[c.input] {
			v.cells[variant][c.n], v.cells[variant][c.at] = 1, c.value(&f.in[c.input])
		}
	}
}

// judgeAll fills in the whole verdict of an interval.
func (f *frame) judgeAll(s *Set, iv *Interval, possible bool) {
	v := &f.verdict
	v.startMs, v.lengthMs, v.expected, v.reported = iv.StartMs, iv.LengthMs, iv.Expected, iv.Reported
	f.load(&s.layout, iv)
	for k, i := range s.layout.wholes {
		m, n := &f.in[i], v.wholes[k*wholeNumbers:][:wholeNumbers]
		n[wholeSum], n[wholeCount] = m[atMean]*m[atCount], m[atCount]
		n[wholeNodes], n[wholeLeast], n[wholeMost] = m[atCount]/m[atPerNode], m[atD0], m[atD0+10]
	}
	f.variant = 0
	f.judge(s, 0)
	if possible {
		f.believe()
		f.judge(s, 1)
	}
}
