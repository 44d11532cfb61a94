// Package discover finds the network behind latencies: its switches, or the links between its nodes. It is pure. Build
// wants no parameter, and its result says how sure it is.
package discover

import (
	"errors"

	"github.com/weirhpc/weir/topology/latency"
	"github.com/weirhpc/weir/topology/network"
)

// Kinds of networks.
const (
	KindTree      = "tree"      // switches below switches; one switch is a star
	KindDirect    = "direct"    // links between nodes, of any shape
	KindRing      = "ring"      // direct
	KindTorus     = "torus"     // direct
	KindHypercube = "hypercube" // direct
	KindDragonfly = "dragonfly" // routers in groups, and links between groups
	KindMixed     = "mixed"     // switches, and direct links between them
)

// Levels of confidence.
const (
	High = "high" // every switch and link is shown by the latencies
	Low  = "low"  // Reasons say what is doubtful
)

// Confidence says how sure a result is.
type Confidence struct {
	Level    string   `json:"level"`
	Margin   float64  `json:"margin_nats"` // of the weakest switch: what it saves in the description
	Residual float64  `json:"residual"`    // relative RMS between the latencies and the model's
	Noise    float64  `json:"noise"`       // what residual the noise alone makes, from repeats or from the fit
	Reasons  []string `json:"reasons"`     // why the level is low; empty if it is high
}

// Result is a network with what is known of it.
type Result struct {
	Network    *network.Network
	Kind       string
	Offsets    bool // nodes differ by an offset of their own, as with different hardware
	Confidence Confidence
	Suspects   []latency.Pair // whose latency does not fit the rest: worth measuring again, worst first
}

// errFew is returned when there are too few nodes to build from.
var errFew = errors.New("at least two nodes are needed")

// Build returns the network that explains a matrix best. It wants a latency for most pairs.
func Build(m *latency.Matrix) (Result, error) {
	if m.Len() < 2 {
		return Result{}, errFew
	}
	return Result{}, errors.New("not built yet")
}
