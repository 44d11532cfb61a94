package view

import "slices"

// Energy is the measured energy of a job. The power of whole nodes counts. Without it, the power of their parts does.
type Energy struct {
	nodes, parts       float64 // joules
	ofNodes, ofSockets bool
	ofGPUs             bool
}

// PowerMetrics returns the metrics that Energy adds up, in watts.
func PowerMetrics() []string { return []string{"node_power", "cpu_power", "mem_power", "acc_power"} }

// Add takes a metric of a job, if it is one of PowerMetrics: the mean of count values, each from one interval. On a
// node that several jobs share, a job has no power of the node.
func (e *Energy) Add(metric string, mean float64, count int64, intervalS float64) {
	joules := mean * float64(count) * intervalS
	if !slices.Contains(PowerMetrics(), metric) || !(joules >= 0) { // NaN
		return
	}
	switch metric {
	case "node_power":
		e.nodes, e.ofNodes = e.nodes+joules, true
		return
	case "acc_power":
		e.ofGPUs = true
	default:
		e.ofSockets = true
	}
	e.parts += joules
}

// Joules returns the energy, and the parts of the nodes that it covers; ok is false if no power was measured.
func (e *Energy) Joules() (joules float64, of string, ok bool) {
	switch {
	case e.ofNodes:
		return e.nodes, "nodes", true
	case e.ofSockets && e.ofGPUs:
		return e.parts, "CPUs and GPUs", true
	case e.ofSockets:
		return e.parts, "CPUs", true
	case e.ofGPUs:
		return e.parts, "GPUs", true
	}
	return 0, "", false
}
