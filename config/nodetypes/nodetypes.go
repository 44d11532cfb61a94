// Package nodetypes finds the type of a node, by the hostlists of the configuration.
package nodetypes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/topology"
)

// Types maps nodes to their types.
type Types struct {
	all    []config.NodeType
	of     map[string]int // by node: index in all
	others int            // index of the type of all other nodes; -1: none
}

// New expands the hostlists of the types. The error joins all faults: unreadable hostlists, and nodes in two
// types.
func New(all []config.NodeType) (*Types, error) {
	t := &Types{all: all, of: map[string]int{}, others: -1}
	var faults []error
	for i := range all {
		if all[i].Nodes == "" {
			t.others = i
			continue
		}
		nodes, err := topology.ExpandHosts(all[i].Nodes)
		if err != nil {
			faults = append(faults, fmt.Errorf("machine[%d].nodes: %w", i, err))
			continue
		}
		for _, n := range nodes {
			if first, twice := t.of[n]; twice && first != i {
				faults = append(faults, fmt.Errorf("machine[%d].nodes: node %s is in %s already: name it once",
					i, n, all[first].Name))
				break // one of an overlap is enough to find it
			}
			t.of[n] = i
		}
	}
	return t, errors.Join(faults...)
}

// Of returns the type that all of the nodes share. If they have several types, it returns the facts in which these
// agree, without a name. A node without a type leaves nothing in common.
func (t *Types) Of(nodes []string) config.NodeType {
	if t == nil || len(nodes) == 0 {
		return config.NodeType{}
	}
	first := t.index(nodes[0])
	if first < 0 {
		return config.NodeType{}
	}
	common, last := t.all[first], first
	for _, n := range nodes[1:] {
		i := t.index(n)
		if i < 0 {
			return config.NodeType{}
		}
		if i != last {
			common, last = shared(common, t.all[i]), i
		}
	}
	return common
}

// shared returns the facts in which two types agree.
func shared(a, b config.NodeType) (c config.NodeType) {
	if a.CPUs == b.CPUs {
		c.CPUs = a.CPUs
	}
	if a.ThreadsPerCore == b.ThreadsPerCore {
		c.ThreadsPerCore = a.ThreadsPerCore
	}
	if a.GPUs != nil && b.GPUs != nil && *a.GPUs == *b.GPUs {
		c.GPUs = a.GPUs
	}
	if a.Memory == b.Memory {
		c.Memory = a.Memory
	}
	if a.PeakFlops == b.PeakFlops {
		c.PeakFlops = a.PeakFlops
	}
	if a.PeakMemBW == b.PeakMemBW {
		c.PeakMemBW = a.PeakMemBW
	}
	return c
}

// Threads returns how many threads a core of these nodes has. Without nodes it is the number that all types have in
// common, and 0 if there is none.
func (t *Types) Threads(nodes []string) int {
	if len(nodes) > 0 {
		return max(1, t.Of(nodes).ThreadsPerCore)
	}
	if len(t.all) == 0 {
		return 0
	}
	same := max(1, t.all[0].ThreadsPerCore)
	if slices.ContainsFunc(t.all, func(o config.NodeType) bool { return max(1, o.ThreadsPerCore) != same }) {
		return 0
	}
	return same
}

// index returns the type of a node, or -1.
func (t *Types) index(node string) int {
	if i, named := t.of[node]; named {
		return i
	}
	return t.others
}
