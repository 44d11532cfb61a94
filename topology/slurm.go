package topology

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/weirhpc/weir/naming"
)

// slurmSwitch is one switch, block, ring or torus, of either of Slurm's files.
type slurmSwitch struct {
	named
	nodes, children string // hostlists
	shape           string // ring or torus; empty: a switch or a block
}

// ours returns the switch's name in our tree. Slurm allows any character in it.
func (s *slurmSwitch) ours() string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) || naming.Valid("x"+string(r)) {
			return r // newTree refuses the first two
		}
		return '_'
	}, s.name)
}

// placed is the nodes of the switches so far. A node may be below several switches: the first one counts.
type placed struct {
	first   map[string]*branch // the switch of each node; nil if it is not needed
	passed  int                // entries passed over
	example string
}

// add puts nodes below a switch, except nodes that an earlier switch claims. Slurm allows that, but a tree does not.
// One example is kept for the warning.
func (d *placed) add(p *branch, nodes []string) {
	for _, n := range nodes {
		node := named{n, p.line}
		if other := d.first[n]; other == nil {
			if d.first != nil {
				d.first[n] = p
			}
			p.nodes = append(p.nodes, node)
		} else if d.passed++; d.passed == 1 {
			d.example = fmt.Sprintf("%s is below %s and below %s", node.at("node"), other.quoted(), p.quoted())
		}
	}
}

// slurmWarnings lists the properties of the switches that the tree does not show.
func slurmWarnings(switches []slurmSwitch, g *graph, d *placed) []string {
	var warnings []string
	if i := slices.IndexFunc(switches, func(s slurmSwitch) bool { return s.shape != "" }); i >= 0 {
		const text = "a %s is read as one switch: its nodes keep their order, and all are at the same distance"
		warnings = append(warnings, fmt.Sprintf(text, switches[i].shape))
	}
	renamed := slices.DeleteFunc(slices.Clone(switches), func(s slurmSwitch) bool { return s.name == s.ours() })
	if n := len(renamed); n > 0 {
		const text = "%s is called %s here (switches with another name: %d)"
		warnings = append(warnings, fmt.Sprintf(text, renamed[0].at("switch"), renamed[0].ours(), n))
	}
	if d.passed > 0 {
		const text = "%s: the first switch counts (entries passed over: %d)"
		warnings = append(warnings, fmt.Sprintf(text, d.example, d.passed))
	}
	if n := len(g.passed); n > 0 {
		const text = "%s: the first parent counts (entries passed over: %d)"
		warnings = append(warnings, fmt.Sprintf(text, g.twoParents(g.passed[0]), n))
	}
	dropped := slices.DeleteFunc(slices.Clone(g.order), func(p *branch) bool { return !p.dropped })
	if len(dropped) > 0 {
		const text = "%s is left out, since no nodes are below it (switches left out: %d)"
		warnings = append(warnings, fmt.Sprintf(text, dropped[0].at("switch"), len(dropped)))
	}
	return warnings
}

// slurmTree tries the cheap way first: nodes that are below two switches show up as an error.
func slurmTree(switches []slurmSwitch) (*Tree, error) {
	t, err := slurmTreeOf(switches, &placed{})
	if errors.Is(err, errTwice) { // finding first switches takes half as long again, and is seldom needed
		t, err = slurmTreeOf(switches, &placed{first: map[string]*branch{}})
	}
	return t, err
}

// slurmTreeOf makes the tree in two passes over the switches, because one may be named before it is defined. Bounds are
// checked while hostlists grow, since a line of a few bytes can name a million nodes.
func slurmTreeOf(switches []slurmSwitch, nodesSoFar *placed) (*Tree, error) {
	g := newGraph()
	total := 0
	for _, s := range switches {
		p, err := g.define(s.name, s.ours(), s.line)
		if err != nil {
			return nil, err
		}
		nodes, err := ExpandHosts(s.nodes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.at("switch"), err)
		}
		if slices.Contains(nodes, "ALL") {
			return nil, fmt.Errorf("%s: ALL is no node: write the hostlist of its nodes: %w",
				s.at("switch"), errHostlist)
		}
		if total += len(nodes); total > maxHosts { // ExpandHosts bounds a line, not the number of lines
			return nil, fmt.Errorf("%s: %w: more than %d nodes up to here", s.at("switch"), errHostlist, maxHosts)
		}
		nodesSoFar.add(p, nodes)
	}
	for _, s := range switches { // a switch may be named before it is defined
		children, err := ExpandHosts(s.children)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.at("switch"), err)
		}
		for _, c := range children {
			if err := g.link(s.name, c, s.line); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range g.order {
		g.drop(p)
	}
	t, err := g.tree(true)
	if err != nil {
		return nil, err
	}
	t.warnings = slurmWarnings(switches, g, nodesSoFar)
	return t, nil
}
