// Package topology holds the tree of the machine: a root, islands of nodes that are close to each other, and the
// nodes. It knows nothing of jobs and nothing of Kafka.
package topology

import (
	"errors"
	"slices"
)

var (
	// ErrName is returned when a root, an island or a node is not named [A-Za-z0-9._:-]{1,64}.
	ErrName = errors.New("not a name: must match [A-Za-z0-9._:-]{1,64}")
	// ErrTwice is returned when an island or a node is there a second time.
	ErrTwice = errors.New("is there twice")
	// ErrEmpty is returned when a tree has no nodes, or an island of it has none.
	ErrEmpty = errors.New("has no nodes")
)

// Tree is the machine: nodes in islands below one root. It does not change once it is made, and may be shared.
type Tree struct {
	root    string
	islands []string
	nodes   []string
	island  map[string]int // of each node, an index into islands
}

// Flat returns a tree with one island that holds all nodes, in their order; a node that is named twice counts once.
// It is the tree of a machine of which nothing is known.
func Flat(nodes []string) *Tree {
	t := &Tree{root: "root", islands: []string{"all"}, island: make(map[string]int, len(nodes))}
	for _, n := range nodes {
		if !t.Has(n) {
			t.island[n] = 0
			t.nodes = append(t.nodes, n)
		}
	}
	return t
}

// Root returns the name of the whole machine.
func (t *Tree) Root() string { return t.root }

// Islands returns the names of the islands in tree order. The caller owns the slice.
func (t *Tree) Islands() []string { return slices.Clone(t.islands) }

// Nodes returns the names of all nodes in tree order, so that the nodes of an island are neighbours. The caller owns
// the slice.
func (t *Tree) Nodes() []string { return slices.Clone(t.nodes) }

// Has reports whether the tree has the node.
func (t *Tree) Has(node string) bool {
	_, ok := t.island[node]
	return ok
}

// Island returns the index into Islands of the island that holds the node; ok is false where the tree does not have it.
func (t *Tree) Island(node string) (index int, ok bool) {
	index, ok = t.island[node]
	return index, ok
}
