package topology

import "fmt"

// graph gathers vertices and links until they turn out to be a tree. The key of a vertex is its name or its id, as in
// the file.
type graph struct {
	order  []*branch // in the order of their definitions
	index  map[string]*branch
	links  []link
	parent map[*branch]*branch // the first parent of each
	passed []link              // from a further parent
}

// link states that child is below parent, and in which line.
type link struct {
	parent, child *branch
	line          int
}

func newGraph() *graph { return &graph{index: map[string]*branch{}, parent: map[*branch]*branch{}} }

// define adds a vertex. Key is how links name it, which in TGF is another text than its name.
func (g *graph) define(key, name string, line int) (*branch, error) {
	if g.index[key] != nil {
		return nil, fmt.Errorf("%s %w", named{key, line}.at("vertex"), errTwice)
	}
	p := &branch{named: named{name, line}}
	g.index[key] = p
	g.order = append(g.order, p)
	return p, nil
}

// link puts one vertex below another. A vertex may be below several: the first one counts.
func (g *graph) link(parentKey, key string, line int) error {
	for _, k := range []string{parentKey, key} {
		if g.index[k] == nil {
			return fmt.Errorf("%s is not defined: %w", named{k, line}.at("vertex"), errShape)
		}
	}
	l := link{g.index[parentKey], g.index[key], line}
	g.links = append(g.links, l)
	if g.parent[l.child] != nil {
		g.passed = append(g.passed, l)
		return nil
	}
	g.parent[l.child] = l.parent
	l.parent.branches = append(l.parent.branches, l.child)
	return nil
}

// twoParents names the two parents of the child of a link that was passed over.
func (g *graph) twoParents(l link) string {
	child := named{l.child.name, l.line}.at("vertex")
	return fmt.Sprintf("%s is below %s and below %s", child, g.parent[l.child].quoted(), l.parent.quoted())
}

// drop takes a vertex without nodes out of the tree, and every vertex above it that becomes empty by that.
func (g *graph) drop(p *branch) {
	for p != nil && !p.dropped && len(p.nodes) == 0 && p.gone == len(p.branches) {
		p.dropped = true
		if p = g.parent[p]; p != nil {
			p.gone++
		}
	}
}

// acyclic returns an error that names a cycle of links, if there is one. Links that were passed over count too.
func (g *graph) acyclic() error {
	parents, below := map[*branch]int{}, map[*branch][]*branch{}
	for _, l := range g.links {
		parents[l.child]++
		below[l.parent] = append(below[l.parent], l.child)
	}
	var tops []*branch // all their parents are taken away already
	for _, p := range g.order {
		if parents[p] == 0 {
			tops = append(tops, p)
		}
	}
	for len(tops) > 0 {
		p := tops[len(tops)-1]
		tops = tops[:len(tops)-1]
		for _, child := range below[p] {
			if parents[child]--; parents[child] == 0 {
				tops = append(tops, child)
			}
		}
	}
	// The remaining vertices are in a cycle or below one, so each has a remaining parent. above holds the first.
	above := map[*branch]*branch{}
	for _, l := range g.links {
		if parents[l.child] > 0 && parents[l.parent] > 0 && above[l.child] == nil {
			above[l.child] = l.parent
		}
	}
	for _, p := range g.order {
		if above[p] == nil {
			continue
		}
		for seen := map[*branch]bool{}; !seen[p]; p = above[p] {
			seen[p] = true
		}
		cycle := p.quoted()
		for q := above[p]; q != p && len(cycle) < 200; q = above[q] {
			cycle += " below " + q.quoted()
		}
		return fmt.Errorf("%s is in a cycle, %s below %s: %w", p.at("vertex"), cycle, p.quoted(), errShape)
	}
	return nil
}

// tree returns the one tree that the graph is. A graph of Slurm's may have several parents of one vertex, and several
// vertices at the top, which go below a vertex "root".
func (g *graph) tree(slurm bool) (*Tree, error) {
	if err := g.acyclic(); err != nil {
		return nil, err
	}
	if len(g.passed) > 0 && !slurm {
		return nil, fmt.Errorf("%s: %w", g.twoParents(g.passed[0]), errShape)
	}
	var tops []*branch
	for _, p := range g.order {
		if g.parent[p] == nil && !p.dropped {
			tops = append(tops, p)
		}
	}
	switch {
	case len(tops) == 0:
		return nil, fmt.Errorf("the tree %w", errEmpty)
	case len(tops) == 1:
		return newTree(tops[0])
	case !slurm:
		return nil, fmt.Errorf("%s and %s are both at the top: %w", tops[0].at("vertex"), tops[1].quoted(), errShape)
	}
	return newTree(&branch{named: named{name: "root"}, branches: tops})
}
