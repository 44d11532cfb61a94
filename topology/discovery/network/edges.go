package network

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/naming"
)

// switchMark stands before the name of a switch in forms that do not distinguish nodes and switches.
const switchMark = "switch:"

// writeEdges writes a line for each link, its two ends. Nodes without names are numbers from 0. A mark precedes the
// name of a switch. A node without links gets a line of its own.
func (n *Network) writeEdges(w io.Writer) error {
	net := n.withoutEmpty()
	net.nameSwitches()
	out, numbered := bufio.NewWriter(w), net.isNumbered()
	word := func(v int) string {
		switch {
		case net.IsSwitch(v):
			return switchMark + net.Names[v]
		case numbered:
			return strconv.Itoa(v)
		}
		return net.Names[v]
	}
	for v, ends := range net.neighbours() {
		if len(ends) == 0 {
			fmt.Fprintln(out, word(v))
		}
	}
	for _, l := range net.sortedLinks() {
		fmt.Fprintf(out, "%s %s\n", word(l.A), word(l.B))
	}
	return out.Flush()
}

// sortedLinks returns the links by their ends.
func (n *Network) sortedLinks() []Link {
	links := slices.Clone(n.Links)
	slices.SortFunc(links, func(a, b Link) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) })
	return links
}

// readEdges returns the network of a list of links. Lines that begin with # are comments.
func readEdges(text string) (*Network, error) {
	a, at := &assembly{root: -1}, map[string]int{}
	vertex := func(word string) (int, error) {
		v, known := at[word]
		if known {
			return v, nil
		}
		name, isSwitch := strings.CutPrefix(word, switchMark)
		if !naming.Valid(name) {
			return 0, fmt.Errorf("%.80q is not a name: must match [A-Za-z0-9._:-]{1,64}", name)
		}
		at[word] = len(a.names)
		a.names, a.switches = append(a.names, name), append(a.switches, isSwitch)
		return at[word], nil
	}
	for number, line := range lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0][0] == '#':
			continue
		case len(fields) > 2:
			return nil, fmt.Errorf("line %d: %.80q is not a link of two nodes such as 0 7", number, line)
		}
		u, err := vertex(fields[0])
		v := u
		if err == nil && len(fields) == 2 {
			if v, err = vertex(fields[1]); err == nil && u == v {
				err = fmt.Errorf("%s has a link to itself", fields[0])
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if u != v {
			a.links = append(a.links, Link{u, v, math.NaN(), math.NaN()})
		}
	}
	return a.network()
}
