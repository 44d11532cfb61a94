package network

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/naming"
)

// maxFileBytes bounds the part of a file that is read.
const maxFileBytes = 64 << 20

// readAll reads a text, without the byte order mark that some editors put at its beginning.
func readAll(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = errors.New("longer than 64 MiB")
	}
	return string(bytes.TrimPrefix(text, []byte("\ufeff"))), err
}

// lines yields the lines of a text with their numbers from 1.
func lines(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.Lines(text) {
			number++
			if !yield(number, strings.TrimSpace(line)) {
				return
			}
		}
	}
}

// number returns the number that a name is, and whether it is one: digits without a leading zero.
func number(name string) (int, bool) {
	n, err := strconv.Atoi(name)
	return n, err == nil && n >= 0 && n < maxVertices && strconv.Itoa(n) == name
}

// assembly is a network as a file describes it: vertices by their names in the file, nodes and switches mixed.
type assembly struct {
	names    []string
	switches []bool // whether a vertex is a switch
	links    []Link // between vertices of the assembly
	root     int    // -1: none
	baseUs   float64
}

// network puts the nodes before the switches. If all nodes have numbers as names, they are in that order, and are
// called n0, n1 and so on. A repeated link, as for both directions, counts once, with its lower values.
func (a *assembly) network() (*Network, error) {
	if len(a.names) > maxVertices {
		return nil, fmt.Errorf("more than %d nodes and switches", maxVertices)
	}
	var nodes, switches []int
	numbered := true
	for v := range a.names {
		if a.switches[v] {
			switches = append(switches, v)
			continue
		}
		nodes = append(nodes, v)
		_, is := number(a.names[v])
		numbered = numbered && is
	}
	if len(nodes) == 0 {
		return nil, errors.New("no nodes")
	}
	if numbered {
		slices.SortFunc(nodes, func(x, y int) int {
			i, _ := number(a.names[x])
			j, _ := number(a.names[y])
			return i - j
		})
	}
	n := &Network{Nodes: len(nodes), BaseUs: a.baseUs}
	at, taken := make([]int, len(a.names)), make(map[string]bool, len(nodes))
	for _, v := range append(nodes, switches...) {
		name := a.names[v]
		if numbered && !a.switches[v] {
			name = "n" + name
		}
		if !a.switches[v] || name != "" {
			if !naming.Valid(name) {
				return nil, fmt.Errorf("%.80q is not a name: must match [A-Za-z0-9._:-]{1,64}", name)
			}
		}
		if !a.switches[v] && taken[name] {
			return nil, fmt.Errorf("node %s is there twice", name)
		}
		taken[name], at[v] = true, len(n.Names)
		n.Names = append(n.Names, name)
	}
	if a.root >= 0 && a.switches[a.root] {
		n.Root = at[a.root]
	}
	seen := make(map[[2]int]int, len(a.links))
	for _, l := range a.links {
		l.A, l.B = min(at[l.A], at[l.B]), max(at[l.A], at[l.B])
		i, twice := seen[[2]int{l.A, l.B}]
		if !twice {
			seen[[2]int{l.A, l.B}] = len(n.Links)
			n.Links = append(n.Links, l)
			continue
		}
		n.Links[i].LatencyUs = lower(n.Links[i].LatencyUs, l.LatencyUs)
		n.Links[i].Throughput = lower(n.Links[i].Throughput, l.Throughput)
	}
	return n, nil
}

// lower returns the lower of two values. NaN is no value.
func lower(a, b float64) float64 {
	if math.IsNaN(a) || b < a {
		return b
	}
	return a
}

// network returns the tree that was read.
func (p *parensReader) network() (*Network, error) {
	a := &assembly{names: p.nodes, switches: make([]bool, len(p.nodes)+len(p.parent)), root: len(p.nodes)}
	a.names = append(a.names, make([]string, len(p.parent))...)
	unknown := Link{LatencyUs: math.NaN(), Throughput: math.NaN()}
	join := func(x, y int) {
		l := unknown
		l.A, l.B = x, y
		a.links = append(a.links, l)
	}
	for v, s := range p.in {
		join(v, len(p.nodes)+s)
	}
	for s, up := range p.parent {
		a.switches[len(p.nodes)+s] = true
		if up >= 0 {
			join(len(p.nodes)+s, len(p.nodes)+up)
		}
	}
	return a.network()
}
