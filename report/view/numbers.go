package view

import (
	"math"
	"math/bits"

	"github.com/weirhpc/weir/config"
)

// Busy returns the share of busy cores, given the mean of cpu_idle. Hardware threads that idle beside a busy one are no
// waste, so a core counts as busy if one of its threads is.
func Busy(idle float64, t config.NodeType) float64 {
	return min(1, max(0, (1-idle)*float64(max(1, t.ThreadsPerCore))))
}

// WastedHours returns the idle core-hours, in logical CPUs like all core-hours, or the idle GPU-hours. Only measured
// time counts: count values, each from one interval.
func WastedHours(busy float64, count int64, intervalS float64) float64 {
	return (1 - busy) * float64(count) * intervalS / 3600
}

// SizeClass returns the smallest power of two that is not below a number of cores; 0 if the number is unknown.
func SizeClass(cores int64) int64 {
	if cores <= 0 {
		return 0
	}
	return 1 << min(62, bits.Len64(uint64(cores-1)))
}

// Find returns the metric with a name, or nil.
func (j *Job) Find(name string) *Metric {
	for i := range j.Metrics {
		if j.Metrics[i].Name == name {
			return &j.Metrics[i]
		}
	}
	return nil
}

// PerNode returns the number of values that a metric has on a node in an interval. Nodes without the metric do not
// count. It is NaN if unknown.
func (j *Job) PerNode(m *Metric) float64 {
	if m == nil || !(m.Total.PerNode > 0) {
		return math.NaN()
	}
	return m.Total.PerNode
}

// perNode returns the number of values of a node that several jobs share; 0 if it is unknown for one of them.
func perNode(of []*Total) float64 {
	count, nodes := 0.0, 0.0
	for _, t := range of {
		if t.Count > 0 {
			count, nodes = count+float64(t.Count), nodes+float64(t.Count)/t.PerNode
		}
	}
	if count == 0 || math.IsInf(nodes, 0) || math.IsNaN(nodes) {
		return 0
	}
	return count / nodes
}
