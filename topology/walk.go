package topology

import (
	"bytes"
	"io"
	"path/filepath"
)

// Read returns the tree of a text. The ending of name determines its form, as the ending of a path does for ReadFile.
// Errors name the line.
func Read(name string, r io.Reader) (*Tree, error) {
	text, err := readAll(r)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(name) {
	case ".conf":
		return readTopologyConf(bytes.NewReader(text))
	case ".tgf":
		return readTGF(bytes.NewReader(text))
	}
	if isList(text) {
		return readTopologyYAML(bytes.NewReader(text))
	}
	return ReadYAML(bytes.NewReader(text))
}

// Vertex is one vertex of a tree, or one node below it.
type Vertex struct {
	Name   string
	Parent int // index into Vertices; -1: the root
	Node   bool
}

// Vertices returns the vertices and nodes of the tree, parents before their children.
func (t *Tree) Vertices() []Vertex {
	all := make([]Vertex, len(t.vertices))
	for i, v := range t.vertices {
		all[i] = Vertex{Name: v.name, Parent: int(v.parent), Node: v.leaf}
	}
	return all
}
