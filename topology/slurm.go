package topology

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/naming"
)

// graph gathers vertices and links until they turn out to be a tree. What a file calls a vertex by, a name or an id, is its
// key.
type graph struct {
	order  []*part // as they are defined
	index  map[string]*part
	links  []link
	parent map[*part]*part // the first of each
	passed []link          // from a further parent
}

type link struct {
	parent, child *part
	line          int
}

func newGraph() *graph { return &graph{index: map[string]*part{}, parent: map[*part]*part{}} }

func (g *graph) define(key, name string, line int) (*part, error) {
	if g.index[key] != nil {
		return nil, fmt.Errorf("%s %w", named{key, line}.at("vertex"), errTwice)
	}
	p := &part{named: named{name, line}}
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
	l.parent.parts = append(l.parent.parts, l.child)
	return nil
}

// twoParents says of a link that was passed over which two parents the vertex has.
func (g *graph) twoParents(l link) string {
	child := named{l.child.name, l.line}.at("vertex")
	return fmt.Sprintf("%s is below %s and below %s", child, g.parent[l.child].quoted(), l.parent.quoted())
}

// drop takes a vertex out of the tree that is without nodes, and those above that then have nothing below them.
func (g *graph) drop(p *part) {
	for p != nil && !p.dropped && len(p.nodes) == 0 && p.gone == len(p.parts) {
		p.dropped = true
		if p = g.parent[p]; p != nil {
			p.gone++
		}
	}
}

// acyclic returns an error that names a cycle of links, those that were passed over among them, if there is one.
func (g *graph) acyclic() error {
	parents, below := map[*part]int{}, map[*part][]*part{}
	for _, l := range g.links {
		parents[l.child]++
		below[l.parent] = append(below[l.parent], l.child)
	}
	var tops []*part // without parents, beside those that were taken away already
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
	above := map[*part]*part{} // of each that is left, its first parent that is left: all are in a cycle or below one
	for _, l := range g.links {
		if parents[l.child] > 0 && parents[l.parent] > 0 && above[l.child] == nil {
			above[l.child] = l.parent
		}
	}
	for _, p := range g.order {
		if above[p] == nil {
			continue
		}
		for seen := map[*part]bool{}; !seen[p]; p = above[p] {
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

// tree returns the one tree that the graph is. Slurm's may have several vertices at the top, which are put below a vertex
// "root", and several parents of one vertex.
func (g *graph) tree(slurm bool) (*Tree, error) {
	if err := g.acyclic(); err != nil {
		return nil, err
	}
	if len(g.passed) > 0 && !slurm {
		return nil, fmt.Errorf("%s: %w", g.twoParents(g.passed[0]), errShape)
	}
	var tops []*part
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
	return newTree(&part{named: named{name: "root"}, parts: tops})
}

// slurmSwitch is one switch, block, ring or torus, of either of Slurm's files.
type slurmSwitch struct {
	named
	nodes, children string // hostlists
	shape           string // ring or torus; empty: a switch or a block
}

// ours returns the name that the switch has here. Slurm's may have any character.
func (s *slurmSwitch) ours() string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) || naming.Valid("x"+string(r)) {
			return r // the first two are refused
		}
		return '_'
	}, s.name)
}

// placed is the nodes of the switches so far. A node may be below several switches: the first one counts.
type placed struct {
	first   map[string]*part // the switch of each node; nil: not looked for
	passed  int              // entries passed over
	example string
}

func (d *placed) add(p *part, nodes []string) {
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

// slurmWarnings returns what the tree of the switches does not show.
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
		warnings = append(warnings, fmt.Sprintf("%s: the first switch counts (entries passed over: %d)", d.example, d.passed))
	}
	if n := len(g.passed); n > 0 {
		const text = "%s: the first parent counts (entries passed over: %d)"
		warnings = append(warnings, fmt.Sprintf(text, g.twoParents(g.passed[0]), n))
	}
	dropped := slices.DeleteFunc(slices.Clone(g.order), func(p *part) bool { return !p.dropped })
	if len(dropped) > 0 {
		const text = "%s is left out, since no nodes are below it (switches left out: %d)"
		warnings = append(warnings, fmt.Sprintf(text, dropped[0].at("switch"), len(dropped)))
	}
	return warnings
}

func slurmTree(switches []slurmSwitch) (*Tree, error) {
	t, err := slurmTreeOf(switches, &placed{})
	if errors.Is(err, errTwice) { // to look for first switches takes half as long again, and is seldom needed
		t, err = slurmTreeOf(switches, &placed{first: map[string]*part{}})
	}
	return t, err
}

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
			return nil, fmt.Errorf("%s: ALL is no node: write the hostlist of its nodes: %w", s.at("switch"), errHostlist)
		}
		if total += len(nodes); total > maxHosts { // a line is bounded by ExpandHosts, and a file has any number of lines
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

// readTopologyConf returns the tree of Slurm's topology.conf: switches with nodes or switches below them, or blocks or
// rings of nodes. Of several parents the first one counts, and switches without nodes are left out: Warnings has both.
// Where several switches are at the top, they are put below a vertex "root". Link speeds and block sizes say nothing about
// the tree and are passed over; any other key is an error. Errors name line and switch.
func readTopologyConf(r io.Reader) (*Tree, error) {
	text, err := readAll(r)
	if err != nil {
		return nil, err
	}
	var switches []slurmSwitch
	number, whole, begun := 0, "", 0
	for line := range strings.Lines(string(text)) {
		number++
		if whole == "" {
			begun = number
		}
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if rest, goesOn := strings.CutSuffix(line, `\`); goesOn {
			whole += rest + " "
			continue
		}
		whole += line
		if strings.TrimSpace(whole) != "" {
			s, err := confLine(whole, begun)
			if err != nil {
				return nil, err
			}
			if s.name != "" {
				switches = append(switches, s)
			}
		}
		whole = ""
	}
	if strings.TrimSpace(whole) != "" {
		return nil, fmt.Errorf("line %d: the file ends where a line goes on", begun)
	}
	return slurmTree(switches)
}

// confField is one key=value as Slurm reads it: there may be blanks around the = and in a value in quotes.
var confField = regexp.MustCompile(`^\s*(\w+)\s*=\s*("[^"]+"|[^\s"=]+)(?:\s+|$)`)

func confLine(text string, number int) (slurmSwitch, error) {
	s := slurmSwitch{named: named{line: number}}
	if words := strings.Fields(text); strings.EqualFold(words[0], "include") {
		return s, fmt.Errorf("line %d: Include is not supported: put what %.80q says into this file", number, strings.Join(words[1:], " "))
	}
	seen := map[string]bool{}
	for text != "" {
		field := confField.FindStringSubmatch(text)
		if field == nil {
			return s, fmt.Errorf("line %d: %.80q is not key=value", number, text)
		}
		text = text[len(field[0]):]
		key, value := strings.ToLower(field[1]), strings.Trim(field[2], `"`)
		switch key {
		case "switchname", "blockname":
			s.name, key = value, "name"
		case "ringname":
			s.name, key, s.shape = value, "name", "ring"
		case "nodes":
			s.nodes = value
		case "switches":
			s.children = value
		case "linkspeed", "blocksizes":
		default:
			return s, fmt.Errorf("line %d: unknown key %.80q", number, field[1])
		}
		if seen[key] {
			return s, fmt.Errorf("line %d: key %s is there twice", number, field[1])
		}
		seen[key] = true
	}
	if s.name == "" && s.nodes+s.children != "" {
		return s, fmt.Errorf("line %d: no SwitchName", number)
	}
	return s, nil
}

type yamlTopology struct {
	Topology       string        `yaml:"topology"`
	ClusterDefault bool          `yaml:"cluster_default"`
	Flat           yaml.Node     `yaml:"flat"` // true, or options
	Tree           *yamlSwitches `yaml:"tree"`
	Block          *yamlBlocks   `yaml:"block"`
	Ring           *yamlRings    `yaml:"ring"`
	Torus3D        *yamlToruses  `yaml:"torus3d"`
}

type yamlSwitches struct {
	Switches []yamlSwitch `yaml:"switches"`
}

type yamlBlocks struct {
	BlockSizes []int        `yaml:"block_sizes"`
	Blocks     []yamlSwitch `yaml:"blocks"`
}

type yamlSwitch struct {
	Switch   yamlText `yaml:"switch"`
	Block    yamlText `yaml:"block"`
	Children yamlText `yaml:"children"`
	Nodes    yamlText `yaml:"nodes"`
}

type yamlRings struct {
	Rings []yamlRing `yaml:"rings"`
}

type yamlRing struct {
	Ring  yamlText `yaml:"ring"`
	Nodes yamlText `yaml:"nodes"`
}

type yamlToruses struct {
	Toruses []yamlTorus `yaml:"toruses"`
}

type yamlTorus struct {
	Name       yamlText     `yaml:"name"`
	Dims       yaml.Node    `yaml:"dims"`
	Nodes      yamlText     `yaml:"nodes"`
	Regions    []yamlRegion `yaml:"regions"`
	Placements yaml.Node    `yaml:"placements"`
}

type yamlRegion struct {
	Anchor yaml.Node `yaml:"anchor"`
	Dims   yaml.Node `yaml:"dims"`
	Nodes  yamlText  `yaml:"nodes"`
}

// yamlEntry is a topology of the list, with what is wrong with it.
type yamlEntry struct {
	yamlTopology
	fault error
}

// UnmarshalYAML keeps the fault: only that of the chosen topology counts. A later release may know more keys.
func (y *yamlEntry) UnmarshalYAML(decode func(any) error) error {
	y.fault = decode(&y.yamlTopology)
	return nil
}

// readTopologyYAML returns the tree of Slurm's topology.yaml: that of the first topology with cluster_default, or of the
// first one. The others may hold anything. Errors name line and switch.
func readTopologyYAML(r io.Reader) (*Tree, error) {
	var list []yamlEntry
	if err := decodeYAML(r, &list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the tree %w", errEmpty)
	}
	chosen := list[0]
	for _, t := range list {
		if t.ClusterDefault {
			chosen = t
			break
		}
	}
	if chosen.fault != nil {
		return nil, inWords(chosen.fault)
	}
	switches, err := chosen.switches()
	if err != nil {
		return nil, err
	}
	return slurmTree(switches)
}

// switches returns what the topology says about nodes, as switches.
func (y *yamlTopology) switches() ([]slurmSwitch, error) {
	var switches []slurmSwitch
	add := func(name, nodes, children yamlText, shape string) {
		switches = append(switches, slurmSwitch{named{name.text, name.line}, nodes.text, children.text, shape})
	}
	var rows []yamlSwitch
	switch {
	case y.Tree != nil:
		rows = y.Tree.Switches
	case y.Block != nil:
		rows = y.Block.Blocks
	case y.Ring != nil:
		for _, ring := range y.Ring.Rings {
			add(ring.Ring, ring.Nodes, yamlText{}, "ring")
		}
	case y.Torus3D != nil:
		for _, torus := range y.Torus3D.Toruses {
			for _, region := range torus.Regions { // nodes and regions exclude each other
				torus.Nodes.text += "," + region.Nodes.text
			}
			add(torus.Name, torus.Nodes, yamlText{}, "torus")
		}
	default:
		return nil, fmt.Errorf("topology %.80q has neither tree nor block nor ring nor torus3d, and so names no nodes: "+
			"set balance.nodes in place of balance.tree_file: %w", y.Topology, errShape)
	}
	for _, row := range rows {
		name := row.Switch
		if name.text == "" {
			name = row.Block
		}
		add(name, row.Nodes, row.Children, "")
	}
	for _, s := range switches {
		if s.name == "" {
			return nil, errors.New("a switch without a name")
		}
	}
	return switches, nil
}

// yamlText is a scalar as it is written, with its line.
type yamlText struct {
	text string
	line int
}

// UnmarshalYAML takes any scalar: a switch called 017 is not the number 15.
func (y *yamlText) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		// An error of another type would end the decoding, and with it the search for the chosen topology.
		fault := fmt.Sprintf("line %d: expected a name or a hostlist, found a list or keys", n.Line)
		return &yaml.TypeError{Errors: []string{fault}}
	}
	*y = yamlText{n.Value, n.Line}
	return nil
}

// writeTopologyConf writes the tree as Slurm's topology.conf, a line for each vertex. Slurm's switches have nodes or switches
// below them, never both: the nodes of a vertex that has both go to a switch of their own, named after it.
func (t *Tree) writeTopologyConf(w io.Writer) error {
	if v := t.inner[t.Root()]; v != 0 {
		return fmt.Errorf("switch %s %w: root and island", t.Root(), errTwice)
	}
	nodes, parts := t.below()
	var b strings.Builder
	for v := range t.vertices {
		name := t.vertices[v].name
		switch {
		case t.vertices[v].leaf:
		case len(parts[v]) == 0:
			fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\n", name, strings.Join(nodes[v], ","))
		case len(nodes[v]) == 0:
			fmt.Fprintf(&b, "SwitchName=%s Switches=%s\n", name, strings.Join(parts[v], ","))
		default:
			own := name + "-nodes"
			if _, taken := t.inner[own]; taken {
				return fmt.Errorf("switch %s %w: it would hold the nodes of %s", own, errTwice, name)
			}
			fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\nSwitchName=%s Switches=%s,%s\n", own, strings.Join(nodes[v], ","), name, own, strings.Join(parts[v], ","))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// below returns the names of the nodes and of the vertices right below each vertex.
func (t *Tree) below() (nodes, parts [][]string) {
	nodes, parts = make([][]string, len(t.vertices)), make([][]string, len(t.vertices))
	for _, v := range t.vertices[1:] {
		if v.leaf {
			nodes[v.parent] = append(nodes[v.parent], v.name)
		} else {
			parts[v.parent] = append(parts[v.parent], v.name)
		}
	}
	return nodes, parts
}
