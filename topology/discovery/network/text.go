package network

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/topology"
)

// branches are the characters of a tree in text: before a child, before the last child, and below them.
type branches struct{ child, last, below, blank string }

var (
	lineBranches  = branches{"├── ", "└── ", "│   ", "    "}
	asciiBranches = branches{"|-- ", "`-- ", "|   ", "    "}
)

// Draw writes the network for a person: a tree of switches with the nodes of each, or the links of each node.
func (n *Network) Draw(w io.Writer, ascii bool) error {
	out := bufio.NewWriter(w)
	t, err := n.rootedTree()
	if err != nil {
		n.drawLinks(out)
		return out.Flush()
	}
	b := lineBranches
	if ascii {
		b = asciiBranches
	}
	nodes, switches := t.below()
	var draw func(v int, before string)
	draw = func(v int, before string) {
		for i, s := range switches[v] {
			mark, below := b.child, b.below
			if i == len(switches[v])-1 {
				mark, below = b.last, b.blank
			}
			fmt.Fprintf(out, "%s%s%s%s\n", before, mark, t.net.Names[s], t.about(s, nodes[s]))
			draw(s, before+below)
		}
	}
	top := t.order[0]
	fmt.Fprintf(out, "%s%s\n", t.net.Names[top], t.about(top, nodes[top]))
	draw(top, "")
	return out.Flush()
}

// about returns a description of a switch: the link above it, and its nodes with the median of their links.
func (t *rootedTree) about(v int, nodes []int) string {
	text := ""
	if up := t.up[v]; up >= 0 {
		text += linkText(t.net.Links[up], " (", ")")
	}
	if len(nodes) == 0 {
		return text
	}
	var us []float64
	for _, node := range nodes {
		us = append(us, t.net.Links[t.up[node]].LatencyUs)
	}
	slices.Sort(us)
	middle := Link{LatencyUs: us[len(us)/2], Throughput: math.NaN()}
	return text + ": " + topology.FoldHosts(t.net.names(nodes)) + linkText(middle, " (", " each)")
}

// linkText returns the known properties of a link between two texts, and nothing if none is known.
func linkText(l Link, before, after string) string {
	var known []string
	if !math.IsNaN(l.LatencyUs) {
		known = append(known, short(l.LatencyUs)+" us")
	}
	if !math.IsNaN(l.Throughput) {
		known = append(known, short(l.Throughput)+" MB/s")
	}
	if len(known) == 0 {
		return ""
	}
	return before + strings.Join(known, ", ") + after
}

// short returns a number with three digits.
func short(x float64) string {
	text := strconv.FormatFloat(x, 'g', 3, 64)
	if strings.Contains(text, "e") && math.Abs(x) < 1e9 && math.Abs(x) >= 1 {
		text = strconv.FormatFloat(x, 'f', 0, 64)
	}
	return text
}

// drawLinks writes a line for each vertex, with the vertices that it is linked to.
func (n *Network) drawLinks(w io.Writer) {
	net := n.withoutEmpty()
	net.nameSwitches()
	for v, ends := range net.neighbours() {
		var others []string
		for _, e := range ends {
			others = append(others, net.Names[e.vertex]+linkText(net.Links[e.link], " (", ")"))
		}
		fmt.Fprintf(w, "%s: %s\n", net.Names[v], strings.Join(others, ", "))
	}
}
