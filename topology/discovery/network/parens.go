package network

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/naming"
)

const (
	// maxVertices bounds a network of a file: a million nodes and their switches.
	maxVertices = 2 << 20
	// maxLevels bounds how deep parentheses and trees are.
	maxLevels = 64
)

// parens returns a tree as nested parentheses, each pair a switch: ((0,1),(2,3)). Nodes without names are numbers from
// 0. The contents of a pair are sorted as text.
func (n *Network) parens() (string, error) {
	r, err := n.withoutIdle().rootedTree()
	if err != nil {
		return "", err
	}
	numbered := n.isNumbered()
	text := make([]string, len(r.net.Names))
	inside := make([][]string, len(r.net.Names))
	for _, v := range slices.Backward(r.order) {
		switch {
		case r.net.IsSwitch(v):
			slices.Sort(inside[v])
			text[v] = "(" + strings.Join(inside[v], ",") + ")"
		case numbered:
			text[v] = strconv.Itoa(v)
		default:
			text[v] = r.net.Names[v]
		}
		inside[v] = nil
		if p := r.parent[v]; p >= 0 {
			inside[p] = append(inside[p], text[v])
			text[v] = ""
		}
	}
	return text[r.order[0]] + "\n", nil
}

// readParens returns the tree of nested parentheses. Lines that begin with # are comments.
func readParens(text string) (*Network, error) {
	p := &parensReader{}
	for number, line := range lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if len(p.open) > 0 {
		return nil, fmt.Errorf("the text ends before %d parentheses are closed", len(p.open))
	}
	if len(p.nodes) == 0 {
		return nil, errors.New("no nodes: write a tree such as ((0,1),(2,3))")
	}
	return p.network()
}

// parensReader gathers the nodes of a text, and the switch around each.
type parensReader struct {
	nodes  []string
	in     []int // the switch around each node
	parent []int // of each switch; -1: the root
	open   []int // switches with open parentheses
	closed bool  // the root is complete
	comma  bool  // a comma or a closing parenthesis must come next
}

// line reads one line.
func (p *parensReader) line(line string) error {
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		if p.closed {
			return fmt.Errorf("%.40q stands after the tree", rest)
		}
		end := strings.IndexAny(rest, "(), \t")
		switch {
		case end > 0 || end < 0:
			if end < 0 {
				end = len(rest)
			}
			if err := p.node(rest[:end]); err != nil {
				return err
			}
			rest = rest[end:]
			continue
		case rest[0] == '(':
			if err := p.begin(); err != nil {
				return err
			}
		case rest[0] == ')':
			if len(p.open) == 0 || !p.comma {
				return errors.New("a closing parenthesis stands where a node or a switch is wanted")
			}
			p.open = p.open[:len(p.open)-1]
			p.closed = len(p.open) == 0
		default:
			if !p.comma || len(p.open) == 0 {
				return errors.New("a comma stands where a node or a switch is wanted")
			}
			p.comma = false
		}
		rest = rest[1:]
	}
	return nil
}

func (p *parensReader) begin() error {
	switch {
	case p.comma:
		return errors.New("a comma is missing before a parenthesis")
	case len(p.open) == maxLevels:
		return fmt.Errorf("more than %d levels", maxLevels)
	case len(p.parent) == maxVertices:
		return fmt.Errorf("more than %d switches", maxVertices)
	}
	up := -1
	if len(p.open) > 0 {
		up = p.open[len(p.open)-1]
	}
	p.open = append(p.open, len(p.parent))
	p.parent = append(p.parent, up)
	return nil
}

func (p *parensReader) node(name string) error {
	switch {
	case len(p.open) == 0:
		return fmt.Errorf("%.40q stands outside of the parentheses", name)
	case p.comma:
		return fmt.Errorf("a comma is missing before %.40q", name)
	case !naming.Valid(name):
		return fmt.Errorf("node %.80q is not a name: must match [A-Za-z0-9._:-]{1,64}", name)
	case len(p.nodes) == maxVertices:
		return fmt.Errorf("more than %d nodes", maxVertices)
	}
	p.nodes = append(p.nodes, name)
	p.in = append(p.in, p.open[len(p.open)-1])
	p.comma = true
	return nil
}
