// Package topology holds the tree of the machine: named vertices of any depth, and the nodes below them. It reads and
// writes the tree's files, and Slurm's hostlists. It knows nothing of jobs and nothing of Kafka.
package topology

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirhpc/weir/naming"
)

var (
	// errName is returned when a root, an island or a node is not named [A-Za-z0-9._:-]{1,64}.
	errName = errors.New("not a name: must match [A-Za-z0-9._:-]{1,64}")
	// errTwice is returned when an island, a node or a rack occurs a second time.
	errTwice = errors.New("is there twice")
	// errEmpty is returned if a tree or one of its islands contains no nodes.
	errEmpty = errors.New("has no nodes")
	// errShape is returned when links do not make one tree, as with a cycle, two parents or an undefined vertex.
	errShape = errors.New("not a tree")
	// errDeep is returned if a tree has more levels than any machine.
	errDeep = errors.New("more than 64 levels")
)

const maxDepth = 64

// none stands for the vertex above the root, and for the island of a root that is no island.
const none int32 = -1

// Tree is the machine: nodes below vertices below one root. The children of the root are its islands. A root with nodes
// of its own is an island too. A tree does not change once it is made, so goroutines may share it.
type Tree struct {
	vertices []vertex         // parents before their children; the root is 0
	inner    map[string]int32 // vertices by name
	leaf     map[string]int32 // nodes by name
	rack     map[string]int32 // vertices by the broker.rack that the file gives them
	nodes    []string         // in tree order
	islands  []string
	warnings []string
}

// vertex is a node, or an inner vertex above nodes. Indices in place of pointers keep a tree of a million nodes small.
type vertex struct {
	name   string
	parent int32 // none: the root
	depth  int32
	island int32 // index into islands, or none
	leaf   bool
}

// branch is a vertex as a file describes it. Errors name its line; 0 is no line.
type branch struct {
	named
	branches []*branch
	nodes    []named
	racks    []named // broker.rack of the brokers here, beside the vertex's own name

	gone    int  // number of dropped branches
	dropped bool // not in the tree, since earlier branches have all of its nodes
}

// named is a name with its line in the file. Line 0: the name does not come from a file.
type named struct {
	name string
	line int
}

// at begins an error about the name.
func (n named) at(what string) string {
	if n.line == 0 {
		return what + " " + n.quoted()
	}
	return fmt.Sprintf("line %d: %s %s", n.line, what, n.quoted())
}

// quoted returns a valid name as it is, and any other text in quotes.
func (n named) quoted() string {
	if naming.Valid(n.name) {
		return n.name
	}
	return fmt.Sprintf("%.80q", n.name)
}

// newTree checks a description and numbers it.
func newTree(root *branch) (*Tree, error) {
	if !naming.Valid(root.name) {
		return nil, fmt.Errorf("%s: %w", root.at("root"), errName)
	}
	t := &Tree{inner: map[string]int32{}, leaf: map[string]int32{}, rack: map[string]int32{}}
	t.vertices = append(t.vertices, vertex{name: root.name, parent: none, island: none})
	if err := t.fill(root, 0); err != nil {
		return nil, err
	}
	if len(t.nodes) == 0 {
		return nil, fmt.Errorf("the tree %w", errEmpty)
	}
	if _, taken := t.inner[root.name]; !taken { // an island that bears the root's name keeps it
		t.inner[root.name] = 0
	}
	return t, nil
}

// fill adds the contents of a branch, which is vertex v already.
func (t *Tree) fill(p *branch, v int32) error {
	if len(p.branches) == 0 && len(p.nodes) == 0 && v > 0 {
		return fmt.Errorf("%s %w", p.at("island"), errEmpty)
	}
	if t.vertices[v].depth == maxDepth {
		return fmt.Errorf("%s: %w", p.at("island"), errDeep)
	}
	if v == 0 && len(p.nodes) > 0 {
		t.vertices[0].island = t.newIsland(p.name)
	}
	for _, r := range p.racks {
		if _, twice := t.rack[r.name]; twice {
			return fmt.Errorf("%s %w", r.at("rack"), errTwice)
		}
		t.rack[r.name] = v
	}
	for _, n := range p.nodes {
		if !naming.Valid(n.name) {
			return fmt.Errorf("%s: %w", n.at("node"), errName)
		}
		if t.has(n.name) {
			return fmt.Errorf("%s %w", n.at("node"), errTwice)
		}
		t.leaf[n.name] = t.add(n.name, v, true)
		t.nodes = append(t.nodes, n.name)
	}
	for _, child := range p.branches {
		if child.dropped {
			continue
		}
		if !naming.Valid(child.name) {
			return fmt.Errorf("%s: %w", child.at("island"), errName)
		}
		if _, twice := t.inner[child.name]; twice {
			return fmt.Errorf("%s %w", child.at("island"), errTwice)
		}
		c := t.add(child.name, v, false)
		t.inner[child.name] = c
		if v == 0 {
			t.vertices[c].island = t.newIsland(child.name)
		}
		if err := t.fill(child, c); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) newIsland(name string) int32 {
	t.islands = append(t.islands, name)
	return int32(len(t.islands) - 1)
}

func (t *Tree) add(name string, parent int32, leaf bool) int32 {
	up := t.vertices[parent]
	v := vertex{name: name, parent: parent, depth: up.depth + 1, island: up.island, leaf: leaf}
	t.vertices = append(t.vertices, v)
	return int32(len(t.vertices) - 1)
}

// Flat returns a tree with one island that holds all nodes, in their order. A node that is named twice counts once. It
// is the tree of an unknown machine.
func Flat(nodes []string) *Tree {
	t := &Tree{
		inner: map[string]int32{"root": 0, "all": 1}, leaf: make(map[string]int32, len(nodes)),
		rack: map[string]int32{}, islands: []string{"all"},
	}
	t.vertices = []vertex{{name: "root", parent: none, island: none}, {name: "all", depth: 1}}
	for _, n := range nodes {
		if !t.has(n) {
			t.leaf[n] = t.add(n, 1, true)
			t.nodes = append(t.nodes, n)
		}
	}
	return t
}

// Regular returns a tree with an island for each size, of at least one node each. The islands are i0, i1 and so on, and
// the nodes of i0 are n0-0, n0-1 and so on.
func Regular(sizes ...int) *Tree {
	root := &branch{named: named{name: "root"}}
	for i, size := range sizes {
		island := &branch{named: named{name: fmt.Sprintf("i%d", i)}}
		for k := range size {
			island.nodes = append(island.nodes, named{name: fmt.Sprintf("n%d-%d", i, k)})
		}
		root.branches = append(root.branches, island)
	}
	t, err := newTree(root)
	if err != nil {
		panic(err) // only an island without nodes is wrong
	}
	return t
}

// top returns the name of the whole machine.
func (t *Tree) top() string { return t.vertices[0].name }

// Islands returns the names of the islands in tree order. The caller owns the slice.
func (t *Tree) Islands() []string { return slices.Clone(t.islands) }

// Warnings returns the differences between the tree and the file, in words for the file's author.
func (t *Tree) Warnings() []string { return slices.Clone(t.warnings) }

// Nodes returns the names of all nodes in tree order, so that the nodes of an island are neighbours. The caller owns
// the slice.
func (t *Tree) Nodes() []string { return slices.Clone(t.nodes) }

// Size returns the number of vertices and nodes of the tree.
func (t *Tree) Size() int { return len(t.vertices) }

// Index returns a number below Size that is unique to this node. ok is false if the tree does not contain the node.
func (t *Tree) Index(node string) (index int, ok bool) {
	v, ok := t.leaf[node]
	return int(v), ok
}

// has reports whether the tree contains the node.
func (t *Tree) has(node string) bool {
	_, ok := t.leaf[node]
	return ok
}

// Island returns the index into Islands of the island that holds the node. ok is false if the tree does not contain the
// node.
func (t *Tree) Island(node string) (index int, ok bool) {
	v, ok := t.leaf[node]
	return int(t.vertices[v].island), ok
}

// Rack returns the number, as in Index, of the vertex at which a broker with this broker.rack stands. The file assigns
// the rack to a vertex, or a vertex bears the rack's name. ok is false if the rack is unknown, or belongs to a root
// that is no island.
func (t *Tree) Rack(rack string) (vertex int, ok bool) {
	v, ok := t.rack[rack]
	if !ok {
		v, ok = t.inner[rack]
	}
	if !ok || t.vertices[v].island == none {
		return 0, false
	}
	return int(v), true
}

// Path returns the vertices from an island down to a vertex or node, both included. Their numbers are as of Index. A
// root that is an island is on the path of its own nodes alone.
func (t *Tree) Path(vertex int) []int {
	island := t.vertices[vertex].island
	var path []int
	for v := int32(vertex); v != none && t.vertices[v].island == island; v = t.vertices[v].parent {
		path = append(path, int(v))
	}
	slices.Reverse(path)
	return path
}

// VertexIsland returns the index into Islands of the island that holds a vertex or is it. The vertex is not a root
// without nodes of its own.
func (t *Tree) VertexIsland(vertex int) int { return int(t.vertices[vertex].island) }
