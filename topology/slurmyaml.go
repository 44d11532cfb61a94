package topology

import (
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// yamlTopology is one topology of Slurm's file. Keys of options that shape no tree are read and ignored, so that a
// working file of a cluster is no error.
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

// yamlSwitch is a switch of topology/tree or a block of topology/block. Both have nodes, and only one of the names.
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

// yamlTorus is a torus that lists its nodes as a whole or by region. Their positions in it are not used, because the
// tree has no such distances.
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

// yamlEntry is a topology of the list, with its fault.
type yamlEntry struct {
	yamlTopology
	fault error
}

// UnmarshalYAML keeps the fault, because only the fault of the chosen topology counts. A later release may know more
// keys.
func (y *yamlEntry) UnmarshalYAML(decode func(any) error) error {
	y.fault = decode(&y.yamlTopology)
	return nil
}

// readTopologyYAML returns the tree of Slurm's topology.yaml. It takes the first topology with cluster_default,
// otherwise the first one. The other topologies may hold anything. Errors name line and switch.
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

// switches returns the topology's vertices with their nodes, as switches.
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
		const text = "topology %.80q has neither tree nor block nor ring nor torus3d, and so names no nodes: " +
			"set balance.nodes in place of balance.tree_file: %w"
		return nil, fmt.Errorf(text, y.Topology, errShape)
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

// yamlText is a scalar as it stands in the file, with its line.
type yamlText struct {
	text string
	line int
}

// UnmarshalYAML accepts any scalar: a switch called 017 is not the number 15.
func (y *yamlText) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		// An error of another type would end the decoding, and with it the search for the chosen topology.
		fault := fmt.Sprintf("line %d: expected a name or a hostlist, found a list or keys", n.Line)
		return &yaml.TypeError{Errors: []string{fault}}
	}
	*y = yamlText{n.Value, n.Line}
	return nil
}
