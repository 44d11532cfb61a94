package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes bounds what is read of a tree's file: a million nodes fit.
const maxFileBytes = 64 << 20

// ErrTooLong is returned when a file is longer than any machine's tree.
var ErrTooLong = errors.New("longer than 64 MiB")

// yamlTree is the form of a tree's file. Names are kept with their lines for the errors.
type yamlTree struct {
	Root    yaml.Node    `yaml:"root"`
	Islands []yamlIsland `yaml:"islands"`
}

type yamlIsland struct {
	Name  yaml.Node   `yaml:"name"`
	Nodes []yaml.Node `yaml:"nodes"`
}

// ReadFile returns the tree that a YAML file describes. Errors name the file and the line; see ReadYAML.
func ReadFile(path string) (*Tree, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the tree: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	t, err := ReadYAML(f)
	if err != nil {
		return nil, fmt.Errorf("reading the tree %s: %w", path, err)
	}
	return t, nil
}

// ReadYAML returns the tree that r describes:
//
//	root: machine
//	islands:
//	  - name: i01
//	    nodes: [n001, n002]
//
// Unknown keys, names that cannot be names, islands and nodes that are there twice or have no nodes are errors, each with
// its line; they wrap ErrName, ErrTwice, ErrEmpty or ErrTooLong where one of these is the reason.
func ReadYAML(r io.Reader) (*Tree, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileBytes {
		return nil, ErrTooLong
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	var y yamlTree
	if err := d.Decode(&y); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the tree %w", ErrEmpty)
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	return y.tree()
}

func (y *yamlTree) tree() (*Tree, error) {
	root, err := nameOf(&y.Root, "root")
	if err != nil {
		return nil, err
	}
	t := &Tree{root: root, island: map[string]int{}}
	seen := map[string]bool{}
	for i := range y.Islands {
		island := &y.Islands[i]
		name, err := nameOf(&island.Name, "island")
		if err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("line %d: island %s %w", island.Name.Line, name, ErrTwice)
		}
		if len(island.Nodes) == 0 {
			return nil, fmt.Errorf("line %d: island %s %w", island.Name.Line, name, ErrEmpty)
		}
		seen[name] = true
		t.islands = append(t.islands, name)
		for k := range island.Nodes {
			node, err := nameOf(&island.Nodes[k], "node")
			if err != nil {
				return nil, err
			}
			if t.Has(node) {
				return nil, fmt.Errorf("line %d: node %s %w", island.Nodes[k].Line, node, ErrTwice)
			}
			t.island[node] = i
			t.nodes = append(t.nodes, node)
		}
	}
	if len(t.nodes) == 0 {
		return nil, fmt.Errorf("the tree %w", ErrEmpty)
	}
	return t, nil
}

// nameOf returns the text of a scalar, as it is written: a node called 017 is not the number 15.
func nameOf(n *yaml.Node, what string) (string, error) {
	if n.Kind == 0 {
		return "", fmt.Errorf("a name of the %s is missing: %w", what, ErrName)
	}
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || !validName(n.Value) {
		return "", fmt.Errorf("line %d: %s %.80q: %w", n.Line, what, n.Value, ErrName)
	}
	return n.Value, nil
}

// validName holds names to what may become part of a path and of a Kafka key.
func validName(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	return s != "" && len(s) <= 64 && s != "." && s != ".." && strings.Trim(s, letters) == ""
}
