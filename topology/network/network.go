// Package network holds the model of a network: nodes, switches, and links with their latency and throughput. It reads
// and writes the forms of a model, compares two models, joins them and corrects their latencies. It is pure.
package network

import "math"

// Network is nodes and switches, and the links between them.
type Network struct {
	Names []string // of the vertices: the nodes first, in the order of the matrix, then the switches
	Nodes int      // how many vertices are nodes
	Links []Link
}

// Link joins two vertices. A is below B.
type Link struct {
	A, B int

	LatencyUs  float64 // one way, in microseconds; NaN: not known
	Throughput float64 // in MB/s, 10^6 bytes a second; NaN: not known
}

// New returns a network of nodes without links.
func New(nodes []string) *Network {
	return &Network{Names: append([]string(nil), nodes...), Nodes: len(nodes)}
}

// AddSwitch adds a switch and returns its number.
func (n *Network) AddSwitch(name string) int {
	n.Names = append(n.Names, name)
	return len(n.Names) - 1
}

// AddLink adds a link whose throughput is not known.
func (n *Network) AddLink(a, b int, latencyUs float64) {
	n.Links = append(n.Links, Link{A: min(a, b), B: max(a, b), LatencyUs: latencyUs, Throughput: math.NaN()})
}

// IsSwitch reports whether a vertex is a switch.
func (n *Network) IsSwitch(v int) bool { return v >= n.Nodes }
