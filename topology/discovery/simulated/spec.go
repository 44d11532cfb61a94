// Package simulated makes up networks and measures them with noise, to try discovery without a cluster.
package simulated

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/topology/discovery/network"
)

// Bounds of a network that is described.
const (
	maxNodes   = 100_000 // of a tree
	maxDirect  = 2_048   // of any other network, since all its distances are kept
	maxMeshed  = 256     // that all have links to each other
	maxNumbers = 8
)

// kinds of networks that Parse knows, with an example of each.
var specs = []struct {
	example string
	build   func(sizes []int) (*network.Network, error)
}{
	{"tree:4x8x8", func(s []int) (*network.Network, error) { return Tree(s), nil }},
	{"uneven:4x8x8", func(s []int) (*network.Network, error) { return UnevenTree(s, 1), nil }},
	{"star:512", one(Star)},
	{"kinds:3x3", two(kinds)},
	{"ring:32", one(Ring)},
	{"line:16", one(Line)},
	{"mesh:8x8", func(s []int) (*network.Network, error) { return Mesh(s...), nil }},
	{"torus:8x8", func(s []int) (*network.Network, error) { return Torus(s...), nil }},
	{"hypercube:5", hypercube},
	{"complete:8", one(Complete)},
	{"dragonfly:9x8x4", dragonfly},
	{"switchring:4x4", two(SwitchRing)},
	{"partition", none(Partition)},
	{"westmere", none(Westmere)},
	{"blizzard", none(Blizzard)},
}

// Examples returns a description of each kind of network that Parse knows.
func Examples() []string {
	var examples []string
	for _, s := range specs {
		examples = append(examples, s.example)
	}
	return examples
}

// Parse returns the network of a description, such as tree:4x8x8. Examples lists all kinds. The error names the
// description and the possible ones.
func Parse(spec string) (*network.Network, error) {
	kind, numbers, _ := strings.Cut(spec, ":")
	for _, s := range specs {
		if known, _, _ := strings.Cut(s.example, ":"); known != kind {
			continue
		}
		sizes, err := parseSizes(numbers)
		if err == nil {
			err = bounded(kind, sizes)
		}
		var n *network.Network
		if err == nil {
			n, err = s.build(sizes)
		}
		if err != nil {
			return nil, fmt.Errorf("network %.40q: %w, as in %s", spec, err, s.example)
		}
		return n, nil
	}
	return nil, fmt.Errorf("network %.40q is not known: use one as %s", spec, strings.Join(Examples(), ", "))
}

func parseSizes(numbers string) ([]int, error) {
	if numbers == "" {
		return nil, nil
	}
	parts := strings.Split(numbers, "x")
	if len(parts) > maxNumbers {
		return nil, fmt.Errorf("has more than %d numbers", maxNumbers)
	}
	sizes := make([]int, len(parts))
	for i, part := range parts {
		size, err := strconv.Atoi(part)
		if err != nil || size < 1 || size > maxNodes {
			return nil, fmt.Errorf("%.20q must be a number from 1 to %d", part, maxNodes)
		}
		sizes[i] = size
	}
	return sizes, nil
}

// bounded refuses networks that are larger than any that can be held.
func bounded(kind string, sizes []int) error {
	limit, nodes := maxDirect, 1
	switch kind {
	case "tree", "star", "uneven", "kinds":
		limit = maxNodes
	case "complete":
		limit = maxMeshed
	case "hypercube":
		return nil
	}
	for _, size := range sizes {
		if nodes *= size; nodes > limit {
			return fmt.Errorf("more than %d nodes", limit)
		}
	}
	if noSizes(kind) == (len(sizes) > 0) {
		return errNumbers
	}
	return nil
}

// noSizes reports whether a kind takes no numbers.
func noSizes(kind string) bool {
	return kind == "partition" || kind == "westmere" || kind == "blizzard"
}

var errNumbers = errors.New("the numbers do not fit")

func none(build func() *network.Network) func([]int) (*network.Network, error) {
	return func([]int) (*network.Network, error) { return build(), nil }
}

func one(build func(int) *network.Network) func([]int) (*network.Network, error) {
	return func(s []int) (*network.Network, error) {
		if len(s) != 1 {
			return nil, errNumbers
		}
		return build(s[0]), nil
	}
}

func two(build func(a, b int) *network.Network) func([]int) (*network.Network, error) {
	return func(s []int) (*network.Network, error) {
		if len(s) != 2 {
			return nil, errNumbers
		}
		return build(s[0], s[1]), nil
	}
}

func hypercube(s []int) (*network.Network, error) {
	if len(s) != 1 || s[0] > 11 {
		return nil, errors.New("one number up to 11 is needed")
	}
	return Hypercube(s[0]), nil
}

func dragonfly(s []int) (*network.Network, error) {
	if len(s) != 3 || s[0] < 2 || s[1] > maxMeshed {
		return nil, errors.New("groups, routers and nodes are needed, and at least two groups")
	}
	return Dragonfly(s[0], s[1], s[2]), nil
}

// Shuffled returns the network with its nodes in another order. The names stay in order, so that the number of a node
// reveals nothing about its place.
func Shuffled(n *network.Network, seed uint64) *network.Network {
	order := rand.New(rand.NewPCG(seed, 5)).Perm(n.Nodes)
	place := func(v int) int {
		if v < n.Nodes {
			return order[v]
		}
		return v
	}
	shuffled := *n
	shuffled.Links = make([]network.Link, len(n.Links))
	for i, l := range n.Links {
		a, b := place(l.A), place(l.B)
		l.A, l.B = min(a, b), max(a, b)
		shuffled.Links[i] = l
	}
	return &shuffled
}
