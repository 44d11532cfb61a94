package network

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/naming"
)

// nodeMark stands before the name of a node that would be taken for a switch.
const nodeMark = "node:"

// writeTGF writes the network in Trivial Graph Format. A line "id name" for each vertex comes first, then a line "#". A
// line "id id l: 3 t: 10" for each link follows: its latency in microseconds, and its throughput in MB/s, if known. In
// a tree the upper end comes first, as balance.tree_file wants it.
//
// The format does not distinguish nodes and switches. A reader takes the leaves of a tree for nodes and other vertices
// for switches, and without a tree all vertices for nodes. A mark before the name overrides this.
func (n *Network) writeTGF(w io.Writer) error {
	net, t := n.withoutEmpty(), (*rootedTree)(nil)
	if tree, err := n.rootedTree(); err == nil {
		net, t = tree.net, tree
	} else {
		net.nameSwitches()
	}
	out := bufio.NewWriter(w)
	ends := net.neighbours()
	tree := net.isForest()
	order := make([]int, 0, len(net.Names)) // the switches from the top, then the nodes
	if t != nil {
		order = slices.DeleteFunc(append(order, t.order...), func(v int) bool { return !net.IsSwitch(v) })
	}
	for v := range net.Names {
		if t == nil || !net.IsSwitch(v) {
			order = append(order, v)
		}
	}
	for _, v := range order {
		mark := ""
		if isSwitch := net.IsSwitch(v); isSwitch != (tree && len(ends[v]) > 1) {
			mark = nodeMark
			if isSwitch {
				mark = switchMark
			}
		}
		fmt.Fprintf(out, "%d %s%s\n", v+1, mark, net.Names[v])
	}
	fmt.Fprintln(out, "#")
	for _, l := range net.sortedLinks() {
		a, b := l.A, l.B
		if t != nil && t.parent[a] == b {
			a, b = b, a
		}
		fmt.Fprintf(out, "%d %d%s\n", a+1, b+1, tgfLabel(l))
	}
	return out.Flush()
}

// tgfLabel returns the known properties of a link, with a blank before each.
func tgfLabel(l Link) string {
	text := ""
	if !math.IsNaN(l.LatencyUs) {
		text = " l: " + strconv.FormatFloat(l.LatencyUs, 'g', 6, 64)
	}
	if !math.IsNaN(l.Throughput) {
		text += " t: " + strconv.FormatFloat(l.Throughput, 'g', 6, 64)
	}
	return text
}

// isForest reports whether the network has no cycle.
func (n *Network) isForest() bool {
	up := make([]int, len(n.Names))
	for v := range up {
		up[v] = v
	}
	top := func(v int) int {
		for up[v] != v {
			up[v] = up[up[v]]
			v = up[v]
		}
		return v
	}
	for _, l := range n.Links {
		a, b := top(l.A), top(l.B)
		if a == b {
			return false
		}
		up[a] = b
	}
	return true
}

// readTGF returns the network of a text in Trivial Graph Format. See writeTGF. A link that is there in both directions
// counts once.
func readTGF(text string) (*Network, error) {
	a, at := &assembly{root: -1}, map[string]int{}
	links := false
	for number, line := range lines(text) {
		fields := strings.Fields(line)
		var err error
		switch {
		case len(fields) == 0:
		case links:
			err = a.tgfLink(at, fields)
		case fields[0] == "#":
			links = true
		default:
			if _, twice := at[fields[0]]; twice {
				err = fmt.Errorf("vertex %.80q is there twice", fields[0])
			}
			at[fields[0]] = len(a.names)
			a.names = append(a.names, strings.Join(fields[min(1, len(fields)-1):], " "))
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if !links {
		return nil, errors.New("no line # between the vertices and the links of a text in Trivial Graph Format")
	}
	a.kinds()
	return a.network()
}

// tgfLink adds a link.
func (a *assembly) tgfLink(at map[string]int, fields []string) error {
	if len(fields) < 2 {
		return fmt.Errorf("%.80q is not a link of two ids", fields[0])
	}
	var ends [2]int
	for i, id := range fields[:2] {
		v, known := at[id]
		if !known {
			return fmt.Errorf("vertex %.80q is not defined", id)
		}
		ends[i] = v
	}
	if ends[0] == ends[1] {
		return fmt.Errorf("vertex %.80q has a link to itself", fields[0])
	}
	l := Link{A: ends[0], B: ends[1], LatencyUs: math.NaN(), Throughput: math.NaN()}
	label := fields[2:]
	for i := range label {
		var to *float64
		value, short := strings.CutPrefix(label[i], "l:")
		if to = &l.LatencyUs; !short {
			value, short = strings.CutPrefix(label[i], "t:")
			to = &l.Throughput
		}
		if short && value == "" && i+1 < len(label) {
			value = label[i+1]
		}
		if !short {
			continue
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%s %.40q must be a number of at least 0", label[i][:2], value)
		}
		*to = x
	}
	a.links = append(a.links, l)
	return nil
}

// kinds distinguishes switches and nodes, and finds the root.
func (a *assembly) kinds() {
	seen, links := map[[2]int]bool{}, make([]Link, 0, len(a.links))
	degree, above := make([]int, len(a.names)), make([]int, len(a.names))
	for _, l := range a.links {
		key := [2]int{min(l.A, l.B), max(l.A, l.B)}
		if !seen[key] {
			seen[key] = true
			links = append(links, Link{A: key[0], B: key[1]})
			degree[l.A]++
			degree[l.B]++
			above[l.B]++
		}
	}
	tree := (&Network{Names: a.names, Links: links}).isForest()
	a.switches = make([]bool, len(a.names))
	tops := 0
	for v, name := range a.names {
		a.switches[v] = tree && degree[v] > 1
		if bare, marked := strings.CutPrefix(name, switchMark); marked && naming.Valid(bare) {
			a.names[v], a.switches[v] = bare, true
		} else if bare, marked := strings.CutPrefix(name, nodeMark); marked && naming.Valid(bare) {
			a.names[v], a.switches[v] = bare, false
		}
		if above[v] == 0 && degree[v] > 0 {
			tops++
			a.root = v
		}
	}
	if !tree || tops != 1 {
		a.root = -1
	}
}
