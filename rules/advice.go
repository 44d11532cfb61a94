package rules

import (
	"math"

	"github.com/weirhpc/weir/schemas"
)

// decile is the width of the steps in which bounds on the cores of a job are known: a share that is proven to be at
// least s is below s and a decile, unless the deciles themselves are estimates.
const decile = 0.1

// idleNodes returns how many of a job's nodes have no work. share is the share of cores that is proven to have none.
// named are the nodes that were seen without work. They all count if the share leaves room for them: if one node after
// the other had rested, more would be named than rest at a time.
func idleNodes(nodes int, share float64, named int) int {
	proven := int(math.Floor(share*float64(nodes) + 1e-9))
	if float64(named)/float64(nodes) <= share+decile+1e-9 {
		proven = max(proven, named)
	}
	return min(max(proven, 1), nodes-1)
}

// packing is the fewest nodes that have a core for each core that works now.
type packing struct{ nodes, busy, busyPerNode, coresPerNode int }

// pack returns a packing without idle cores. share is the share of cores that is proven to be idle, in steps of a
// decile. idle is the mean share of time in which cores are idle, and busyIdle the same of a core that works:
// idle = s + (1 - s) busyIdle for the share s of cores without work. smtIdle is the share of hardware threads that have
// no work by design. TestPackingHoldsTheWork tries all layouts.
func pack(nodes, cores, share, idle, busyIdle, smtIdle float64) (l packing, ok bool) {
	perNode := math.Round(cores * (1 - smtIdle) / nodes)
	if !(nodes >= 1 && perNode >= 1 && busyIdle < 1 && idle <= 1) { // NaN fails
		return packing{}, false
	}
	without := (idle - busyIdle) / (1 - busyIdle)
	without = max(share+smtIdle, min(without, share+smtIdle+decile))
	busyPerNode := min(max(math.Round(cores/nodes*(1-without)), 1), perNode)
	l = packing{busy: int(busyPerNode * nodes), busyPerNode: int(busyPerNode), coresPerNode: int(perNode)}
	l.nodes = (l.busy + l.coresPerNode - 1) / l.coresPerNode
	return l, true
}

// tasks returns the options of sbatch for a packing: as many tasks on each node, if they can be divided.
func (l packing) tasks() map[string]any {
	of := map[string]any{
		"nodes": l.nodes, "tasks": l.busy, "busy_per_node": l.busyPerNode, "cores_per_node": l.coresPerNode,
		"tasks_per_node": 0,
	}
	if l.busy%l.nodes == 0 {
		of["tasks_per_node"] = l.busy / l.nodes
	}
	return of
}

// meanOf returns the mean of a number of the evidence, or NaN.
func meanOf(evidence []schemas.FindingEvidence, name string) float64 {
	for i := range evidence {
		if evidence[i].Name == name {
			return evidence[i].Mean
		}
	}
	return math.NaN()
}

// advise adds the layouts that a hint may propose.
func advise(data map[string]any, f *frame, value float64, hosts []string, evidence []schemas.FindingEvidence) {
	nodes, cores, smtIdle := f.job[atNodes], f.job[atCores], f.job[atSMTIdle]
	if !(nodes >= 1) {
		return
	}
	data["nodes_needed"] = int(max(1, math.Ceil(nodes*(1-min(1, max(0, value)))-1e-9)))
	if nodes > 1 {
		idle := idleNodes(int(nodes), min(1, max(0, value)), len(hosts))
		data["idle_nodes"], data["working_nodes"], data["in_turn"] = idle, int(nodes)-idle, len(hosts) > idle
	}
	if math.IsNaN(smtIdle) {
		smtIdle = 0
	}
	busyIdle := meanOf(evidence, "cpu_idle.d3") // a core in the middle of the cores that work
	if value > 0.6 {
		busyIdle = meanOf(evidence, "cpu_idle.hi1")
	}
	if l, ok := pack(nodes, cores, min(1, max(0, value)), meanOf(evidence, "cpu_idle.mean"), busyIdle, smtIdle); ok {
		data["layout"] = l.tasks()
	}
}
