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

// WastedHours returns the core-hours in which cores idled, of logical CPUs as all core-hours are. It has those alone
// that were measured: count values of cpu_idle, each of an interval.
func WastedHours(busy float64, count int64, intervalS float64) float64 {
	return (1 - busy) * float64(count) * intervalS / 3600
}

// SizeClass returns the smallest power of two that is not below a number of cores; 0 where that is not known.
func SizeClass(cores int64) int64 {
	if cores <= 0 {
		return 0
	}
	return 1 << min(62, bits.Len64(uint64(cores-1)))
}

// Find returns a metric of the job; nil if it has none of this name.
func (j *Job) Find(name string) *Metric {
	for i := range j.Metrics {
		if j.Metrics[i].Name == name {
			return &j.Metrics[i]
		}
	}
	return nil
}

// PerNode returns how many values a metric has on a node in an interval. Nodes without the metric do not count. It is
// NaN where that is not known.
func (j *Job) PerNode(m *Metric) float64 {
	if m == nil || !(m.Total.PerNode > 0) {
		return math.NaN()
	}
	return m.Total.PerNode
}

// perNode returns the values of a node of several jobs; 0 if one of them does not know it.
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
