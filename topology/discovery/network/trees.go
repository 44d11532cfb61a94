package network

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/weirhpc/weir/topology"
)

// ownNodes is the suffix for a further switch, which takes the nodes of a switch. Some forms allow either nodes or
// switches below a switch.
const ownNodes = "-nodes"

// fromTree returns the network of a tree. Latencies are unknown. A root with one island below it is left out, since
// such a root joins nothing.
func fromTree(t *topology.Tree) *Network {
	all := t.Vertices()
	children := make([]int, len(all))
	for _, v := range all[1:] {
		children[v.Parent]++
	}
	top := 0
	for children[top] == 1 && !all[top+1].Node { // in tree order the only child comes next
		top++
	}
	n := &Network{}
	at := make([]int, len(all))
	for i, v := range all {
		if v.Node {
			at[i] = len(n.Names)
			n.Names = append(n.Names, v.Name)
		}
	}
	n.Nodes = len(n.Names)
	for i, v := range all[top:] {
		i += top
		switch {
		case !v.Node && i > top && v.Name == all[v.Parent].Name+ownNodes:
			at[i] = at[v.Parent]
			continue
		case !v.Node:
			at[i] = n.AddSwitch(v.Name)
		}
		if i > top {
			n.AddLink(at[i], at[v.Parent], math.NaN())
		}
	}
	n.Root = at[top]
	return n
}

// tree returns the tree of machines that the balancer uses. It is an error if the network is no tree of switches.
func (n *Network) tree() (*topology.Tree, error) {
	var text strings.Builder
	if err := n.writeYAML(&text); err != nil {
		return nil, err
	}
	return topology.ReadYAML(strings.NewReader(text.String()))
}

// below returns the nodes and the switches right below each switch, in order.
func (t *rootedTree) below() (nodes, switches [][]int) {
	nodes, switches = make([][]int, len(t.parent)), make([][]int, len(t.parent))
	for v, p := range t.parent {
		switch {
		case p < 0:
		case t.net.IsSwitch(v):
			switches[p] = append(switches[p], v)
		default:
			nodes[p] = append(nodes[p], v)
		}
	}
	// The switch with the first nodes comes first.
	first := make([]int, len(t.parent))
	for _, v := range slices.Backward(t.order) {
		if first[v] = v; t.net.IsSwitch(v) {
			first[v] = math.MaxInt
			for _, c := range append(nodes[v], switches[v]...) {
				first[v] = min(first[v], first[c])
			}
		}
		slices.SortFunc(switches[v], func(a, b int) int { return first[a] - first[b] })
	}
	return nodes, switches
}

// names returns the names of vertices.
func (n *Network) names(vertices []int) []string {
	names := make([]string, len(vertices))
	for i, v := range vertices {
		names[i] = n.Names[v]
	}
	return names
}

// writeYAML writes the tree in the form of balance.tree_file. A root with nodes becomes the only island of a further
// root, since the form allows only islands below a root.
func (n *Network) writeYAML(w io.Writer) error {
	t, err := n.files()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	nodes, switches := t.below()
	top := t.order[0]
	var write func(v int, indent string)
	write = func(v int, indent string) {
		fmt.Fprintf(out, "%s- name: %s\n", indent, yamlName(t.net.Names[v]))
		if len(nodes[v]) > 0 {
			names := t.net.names(nodes[v])
			for i := range names {
				names[i] = yamlName(names[i])
			}
			fmt.Fprintf(out, "%s  nodes: [%s]\n", indent, strings.Join(names, ", "))
		}
		if len(switches[v]) > 0 {
			fmt.Fprintf(out, "%s  islands:\n", indent)
			for _, s := range switches[v] {
				write(s, indent+"    ")
			}
		}
	}
	if len(nodes[top]) > 0 {
		fmt.Fprintf(out, "root: %s\nislands:\n", t.freeName("network"))
		write(top, "  ")
		return out.Flush()
	}
	fmt.Fprintf(out, "root: %s\nislands:\n", yamlName(t.net.Names[top]))
	for _, s := range switches[top] {
		write(s, "  ")
	}
	return out.Flush()
}

// files returns the tree for the files that the balancer and Slurm read.
func (n *Network) files() (*rootedTree, error) {
	t, err := n.rootedTree()
	if err != nil {
		return nil, fmt.Errorf("%w: tgf, edges and json are forms of any network", err)
	}
	return t, t.checkLevels()
}

// freeName returns a name that no vertex bears.
func (t *rootedTree) freeName(name string) string {
	if t.taken == nil {
		t.taken = make(map[string]bool, len(t.net.Names))
		for _, other := range t.net.Names {
			t.taken[other] = true
		}
	}
	for t.taken[name] {
		name += "-"
	}
	return name
}

var plainYAML = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9._-]*$`)

// yamlWords are texts that YAML may take for a value other than text.
var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// yamlName returns a name as YAML, in quotes if YAML could take it for anything else.
func yamlName(name string) string {
	if plainYAML.MatchString(name) && !slices.Contains(yamlWords, strings.ToLower(name)) {
		return name
	}
	return "'" + name + "'"
}

// writeConf writes the tree as Slurm's topology.conf, a line for each switch. Slurm allows nodes or switches below a
// switch, not both, so the nodes of a switch with both go to a switch of their own. The form cannot express latencies
// of links.
func (n *Network) writeConf(w io.Writer) error {
	t, err := n.files()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	nodes, switches := t.below()
	for _, v := range t.order {
		if !t.net.IsSwitch(v) {
			continue
		}
		name, hosts := t.net.Names[v], topology.FoldHosts(t.net.names(nodes[v]))
		below := t.net.names(switches[v])
		switch {
		case len(below) == 0:
			fmt.Fprintf(out, "SwitchName=%s Nodes=%s\n", name, hosts)
			continue
		case len(nodes[v]) > 0:
			own := t.freeName(name + ownNodes)
			fmt.Fprintf(out, "SwitchName=%s Nodes=%s\n", own, hosts)
			below = append([]string{own}, below...)
		}
		fmt.Fprintf(out, "SwitchName=%s Switches=%s\n", name, topology.FoldHosts(below))
	}
	return out.Flush()
}
