package topology

import (
	"fmt"
	"io"
	"strings"
)

// readTGF returns the tree of a file in Trivial Graph Format. The file consists of a line "id name" for each vertex,
// then a line "#", then a line "parent child" for each link, by their ids. The id of a vertex without a name is its
// name. Text after a link is ignored. Vertices with nothing below them are nodes. Errors name line and vertex.
func readTGF(r io.Reader) (*Tree, error) {
	text, err := readAll(r)
	if err != nil {
		return nil, err
	}
	g := newGraph()
	links, number := false, 0
	for line := range strings.Lines(string(text)) {
		number++
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "#":
			if links {
				return nil, fmt.Errorf("line %d: a second #", number)
			}
			links = true
		case !links:
			if _, err := g.define(fields[0], strings.Join(fields[min(1, len(fields)-1):], " "), number); err != nil {
				return nil, err
			}
		case len(fields) < 2:
			return nil, fmt.Errorf("line %d: %.80q is not a link of two ids", number, fields[0])
		default:
			if err := g.link(fields[0], fields[1], number); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range g.order {
		g.leavesToNodes(p)
	}
	g.order = onlyInner(g.order, g.parent)
	return g.tree(false)
}

// leavesToNodes makes nodes of the vertices below p that have nothing below them.
func (g *graph) leavesToNodes(p *branch) {
	kept := p.branches[:0:0]
	for _, child := range p.branches {
		if len(child.branches)+len(child.nodes) == 0 {
			p.nodes = append(p.nodes, child.named)
		} else {
			kept = append(kept, child)
		}
	}
	p.branches = kept
}

// onlyInner drops the vertices that are nodes now.
func onlyInner(all []*branch, parent map[*branch]*branch) []*branch {
	kept := all[:0:0]
	for _, p := range all {
		if parent[p] == nil || len(p.branches)+len(p.nodes) > 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

// writeTGF writes the tree in Trivial Graph Format, as readTGF reads it. The nodes of a vertex come before its islands.
func (t *Tree) writeTGF(w io.Writer) error {
	var b strings.Builder
	for v := range t.vertices {
		if !t.vertices[v].leaf {
			fmt.Fprintf(&b, "%d %s\n", v+1, t.vertices[v].name)
		}
	}
	for v := range t.vertices {
		if t.vertices[v].leaf {
			fmt.Fprintf(&b, "%d %s\n", v+1, t.vertices[v].name)
		}
	}
	b.WriteString("#\n")
	for v := 1; v < len(t.vertices); v++ {
		fmt.Fprintf(&b, "%d %d\n", t.vertices[v].parent+1, v+1)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
