package simulate

import (
	"fmt"
	"slices"
)

// Classes of nodes. A job asks for slots of one class.
const (
	whole  = iota // a job gets the whole node
	packed        // a node is divided into four slots
	gpu           // a job gets the whole node with its GPUs
	smt           // a job gets the whole node, with two hardware threads a core
	classes
)

// slot is the unit of allocation on a node: the whole node, or some of its CPUs.
type slot struct{ class, node, first, cpus int }

// layout describes the nodes of a machine.
type layout struct {
	names []string // of the nodes
	slots []slot   // by node
	smt   int      // nodes with two hardware threads a core, before the last ones
	gpus  int      // the last nodes, which have GPUs
}

// habitsLayout is a machine of one kind of nodes, with 16 CPUs each.
func habitsLayout(nodes int) (l layout) {
	for n := range nodes {
		l.names = append(l.names, nodeName(n))
		l.slots = append(l.slots, slot{whole, n, 0, nodeCPUs})
	}
	return l
}

// Numbers of the mixes' nodes that are not whole nodes of the common kind.
const (
	sharedShare = 16 // one in sixteen nodes is shared
	gpuNodes    = 4
	smtNodes    = 2
	nodeSlots   = 4 // of a shared node
)

// bigLayout is a machine of nodes with 64 CPUs each. The last few are shared, so that one collector is the home of all
// of them. Some more have two hardware threads a core, and four more have GPUs.
func bigLayout(nodes, threaded int) (l layout) {
	l.gpus, l.smt = gpuNodes, threaded
	for n := range nodes + threaded + gpuNodes {
		switch {
		case n >= nodes+threaded:
			l.names = append(l.names, fmt.Sprintf("g%04d", n-nodes-threaded+1))
			l.slots = append(l.slots, slot{gpu, n, 0, bigCPUs})
		case n >= nodes:
			l.names = append(l.names, fmt.Sprintf("s%04d", n-nodes+1))
			l.slots = append(l.slots, slot{smt, n, 0, bigCPUs})
		case n >= nodes-nodes/sharedShare:
			l.names = append(l.names, nodeName(n))
			for s := range nodeSlots {
				l.slots = append(l.slots, slot{packed, n, s * bigCPUs / nodeSlots, bigCPUs / nodeSlots})
			}
		default:
			l.names = append(l.names, nodeName(n))
			l.slots = append(l.slots, slot{whole, n, 0, bigCPUs})
		}
	}
	return l
}

// ofClass returns the slots of a class.
func (l *layout) ofClass(class int) (all []int) {
	for i, s := range l.slots {
		if s.class == class {
			all = append(all, i)
		}
	}
	return all
}

func (l *layout) hasGPUs(node int) bool { return node >= len(l.names)-l.gpus }

// pieces returns the division of a node among jobs, given the jobs in the slots. The part outside of jobs comes last.
// It is left out if one job holds the whole node.
func (l *layout) pieces(node int, held []*job) (pieces []piece) {
	first, _ := slices.BinarySearchFunc(l.slots, node, func(s slot, node int) int { return s.node - node })
	rest := piece{}
	for i := first; i < len(l.slots) && l.slots[i].node == node; i++ {
		s, j := l.slots[i], held[i]
		used := 0
		if j != nil {
			k := slices.IndexFunc(pieces, func(p piece) bool { return p.job == j })
			if k < 0 {
				k = len(pieces)
				pieces = append(pieces, piece{job: j, k: slices.Index(j.nodes, node)})
			}
			if used = s.cpus; j.habit.cpus > 0 {
				used = j.habit.cpus
			}
			pieces[k].cpus = numbers(pieces[k].cpus, s.first, s.first+used)
		}
		rest.cpus = numbers(rest.cpus, s.first+used, s.first+s.cpus)
	}
	if len(pieces) == 1 && len(rest.cpus) == 0 {
		return pieces
	}
	return append(pieces, rest)
}

func numbers(all []int32, from, to int) []int32 {
	for c := from; c < to; c++ {
		all = append(all, int32(c))
	}
	return all
}
