package network

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/naming"
)

// Inside is the network within a node.
type Inside struct {
	Network *Network

	// External is the node of Network that stands for the way out. If it is empty, the way out is at the top of the
	// tree.
	External string

	// Measured is the processor that measured the latencies to other nodes. Its way out is part of them, so it is taken
	// off. Empty: nothing is.
	Measured string
}

// Join returns one network, composed of the network between nodes and the networks within them. A node with a network
// inside becomes a switch, with its processors below it. A processor is called NODE:PROCESSOR. Latencies that would be
// negative become zero: clamped counts them.
func Join(between *Network, inside map[string]Inside) (joined *Network, clamped int, err error) {
	j := &joining{a: &assembly{root: -1, baseUs: between.BaseUs}}
	for v, name := range between.Names {
		_, has := inside[name]
		j.a.names = append(j.a.names, name)
		j.a.switches = append(j.a.switches, between.IsSwitch(v) || has)
	}
	if between.IsSwitch(between.Root) {
		j.a.root = between.Root
	}
	off := make([]float64, len(between.Names))
	for v, name := range between.Names[:between.Nodes] {
		in, has := inside[name]
		if !has {
			continue
		}
		if off[v], err = j.put(v, name, in); err != nil {
			return nil, 0, fmt.Errorf("node %s: %w", name, err)
		}
	}
	for _, l := range between.Links {
		l.LatencyUs = j.atLeastZero(l.LatencyUs - off[l.A] - off[l.B])
		j.a.links = append(j.a.links, l)
	}
	joined, err = j.a.network()
	return joined, j.clamped, err
}

// joining is a joined network that grows.
type joining struct {
	a       *assembly
	clamped int
}

func (j *joining) atLeastZero(us float64) float64 {
	if us < 0 {
		j.clamped++
		return 0
	}
	return us
}

// put adds the network inside a node. It returns the latency between the processor that measured and the node's own
// vertex.
func (j *joining) put(at int, name string, in Inside) (offUs float64, err error) {
	n, out, err := in.open()
	if err != nil {
		return 0, err
	}
	number := make([]int, len(n.Names))
	for v, own := range n.Names {
		if number[v] = at; v == out {
			continue
		}
		number[v] = len(j.a.names)
		full := name + ":" + own
		if !n.IsSwitch(v) && !naming.Valid(full) {
			return 0, fmt.Errorf("its processor would be called %.100q, and a name has 64 characters at most", full)
		}
		if n.IsSwitch(v) {
			full = "" // any free name
		}
		j.a.names, j.a.switches = append(j.a.names, full), append(j.a.switches, n.IsSwitch(v))
	}
	least := math.Inf(1) // the way out begins at the nearest vertex
	if !n.IsSwitch(out) {
		for _, l := range n.Links {
			if l.A == out || l.B == out {
				least = min(least, l.LatencyUs)
			}
		}
	}
	for i := range n.Links {
		l := &n.Links[i]
		if (l.A == out || l.B == out) && !math.IsInf(least, 1) {
			l.LatencyUs -= least // NaN stays
		}
		j.a.links = append(j.a.links, Link{number[l.A], number[l.B], l.LatencyUs, l.Throughput})
	}
	if in.Measured == "" {
		return 0, nil
	}
	measured := slices.Index(n.Names[:n.Nodes], in.Measured)
	if measured < 0 {
		return 0, fmt.Errorf("the network within has no processor %s", in.Measured)
	}
	return n.Distances(measured)[out], nil
}

// open returns a copy of the network, and the vertex of its way out.
func (in *Inside) open() (n *Network, out int, err error) {
	if out = slices.Index(in.Network.Names[:in.Network.Nodes], in.External); out >= 0 {
		return in.Network.copy(), out, nil
	}
	t, err := in.Network.rootedTree()
	if err != nil {
		return nil, 0, fmt.Errorf("the network within has no node %.40q for the way out, and no top: %w",
			in.External, err)
	}
	return t.net, t.net.Root, nil
}
