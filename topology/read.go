package topology

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/weirhpc/weir/naming"
)

// maxFileBytes bounds the part of a tree's file that is read. A million nodes fit.
const maxFileBytes = 64 << 20

// errTooLong is returned when a file is longer than any machine's tree.
var errTooLong = errors.New("longer than 64 MiB")

// yamlTree is the form of weir's own file of a tree. Names keep their lines for the errors.
type yamlTree struct {
	Root    yaml.Node    `yaml:"root"`
	Racks   []yaml.Node  `yaml:"racks"`
	Islands []yamlIsland `yaml:"islands"`
}

// yamlIsland is a vertex of weir's own file, at any depth. It contains nodes, or further islands, or both.
type yamlIsland struct {
	Name    yaml.Node    `yaml:"name"`
	Nodes   []yaml.Node  `yaml:"nodes"`
	Racks   []yaml.Node  `yaml:"racks"`
	Islands []yamlIsland `yaml:"islands"`
}

// ReadFile returns the tree that a file describes. A path that ends in .conf is Slurm's topology.conf, and one in .tgf
// is Trivial Graph Format. Any other file is YAML: a mapping is weir's own, a list is Slurm's topology.yaml. Errors
// name the file and the line. See ReadYAML, readTopologyConf, readTopologyYAML and readTGF.
func ReadFile(path string) (*Tree, error) {
	text, err := readRegular(path)
	if err != nil {
		return nil, fmt.Errorf("reading the tree %s: %w", path, err)
	}
	t, err := Read(path, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading the tree %s: %w", path, err)
	}
	return t, nil
}

// readRegular reads a regular file only: a pipe would block until another process writes.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, naming.Pathless(err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, naming.Pathless(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	text, err := readAll(f)
	return text, naming.Pathless(err)
}

// readAll reads a text, without the byte order mark that some editors put at its beginning.
func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = errTooLong
	}
	return bytes.TrimPrefix(text, []byte("\ufeff")), err
}

// isList reports whether a YAML text is a list, in block or flow style.
func isList(text []byte) bool {
	var doc yaml.Node
	err := yaml.Unmarshal(text, &doc)
	return err == nil && len(doc.Content) == 1 && doc.Content[0].Kind == yaml.SequenceNode
}

// ReadYAML returns the tree that r describes:
//
//	root: machine
//	islands:
//	  - name: i01
//	    nodes: [n001, n002]
//	  - name: i02
//	    racks: [dc1-a]       # brokers with this broker.rack stand here, as those with i02 do
//	    islands:             # any depth
//	      - {name: i02-r1, nodes: [n003]}
//
// Errors are an unknown key, an invalid name, an island without nodes, and an island, node or rack that occurs twice.
// Each names its line, and wraps errName, errTwice, errEmpty, errDeep or errTooLong if one of these is the reason.
func ReadYAML(r io.Reader) (*Tree, error) {
	var y yamlTree
	if err := decodeYAML(r, &y); err != nil {
		return nil, err
	}
	root, err := (&yamlIsland{Name: y.Root, Racks: y.Racks, Islands: y.Islands}).branch("root", 0)
	if err != nil {
		return nil, err
	}
	return newTree(root)
}

// decodeYAML refuses unknown keys: a misspelt one would silently leave a part of the machine out.
func decodeYAML(r io.Reader, into any) error {
	text, err := readAll(r)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); errors.Is(err, io.EOF) {
		return fmt.Errorf("the tree %w", errEmpty)
	} else if err != nil {
		return inWords(err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("more than one YAML document")
	}
	return nil
}

// The messages of the YAML package about a wrong value.
var (
	wrongKind  = regexp.MustCompile(`(?s)^(line \d+): cannot unmarshal (\S*).* into (.+)$`)
	unknownKey = regexp.MustCompile(`(?s)^(line \d+): field (.*) not found in type .+$`)
	keyTwice   = regexp.MustCompile(`(?s)^(line \d+): mapping key (".*") already defined at (line \d+)$`)
)

// yamlWords replaces the names of our types in the YAML package's messages about what it expected.
var yamlWords = map[string]string{
	"topology.yamlTree":     "the keys root and islands",
	"[]topology.yamlIsland": "a list of islands",
	"topology.yamlIsland":   "an island such as {name: i01, nodes: [n001]}",
	"[]yaml.Node":           "a list of names such as [n001, n002]",
	"[]topology.yamlEntry":  "a list of topologies", "topology.yamlTopology": "a topology with tree or block",
	"topology.yamlSwitches": "the key switches", "topology.yamlBlocks": "the key blocks",
	"[]topology.yamlSwitch": "a list of switches or blocks",
	"topology.yamlSwitch":   "a switch or block such as {switch: s1, nodes: 'n[1-2]'}",
	"topology.yamlRings":    "the key rings", "[]topology.yamlRing": "a list of rings",
	"topology.yamlRing":    "a ring such as {ring: r1, nodes: 'n[1-2]'}",
	"topology.yamlToruses": "the key toruses", "[]topology.yamlTorus": "a list of toruses",
	"topology.yamlTorus":    "a torus such as {name: t1, nodes: 'n[1-2]'}",
	"[]topology.yamlRegion": "a list of regions", "topology.yamlRegion": "a region such as {nodes: 'n[1-2]'}",
	"string": "a text", "bool": "true or false", "int": "a whole number", "[]int": "a list of whole numbers",
}

// inWords puts the first error of the YAML package into words for the file's author, who does not know our types.
func inWords(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) && len(wrong.Errors) > 0 {
		text = wrong.Errors[0]
	}
	if m := wrongKind.FindStringSubmatch(text); m != nil {
		found, ok := map[string]string{"!!seq": "a list", "!!map": "keys"}[m[2]]
		if !ok {
			found = "a single value"
		}
		return fmt.Errorf("%s: expected %s, found %s", m[1], cmp.Or(yamlWords[m[3]], "something else"), found)
	}
	if m := unknownKey.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s: unknown key %.80q", m[1], m[2])
	}
	if m := keyTwice.FindStringSubmatch(text); m != nil {
		return fmt.Errorf("%s: key %.80s is there already at %s", m[1], m[2], m[3])
	}
	return errors.New(text)
}

// branch turns an island into a branch for newTree.
func (y *yamlIsland) branch(what string, depth int) (*branch, error) {
	name, err := nameOf(&y.Name, what)
	if err != nil {
		return nil, err
	}
	p := &branch{named: name}
	if depth > maxDepth {
		return nil, fmt.Errorf("%s: %w", name.at(what), errDeep)
	}
	for i := range y.Nodes {
		n, err := nameOf(&y.Nodes[i], "node")
		if err != nil {
			return nil, err
		}
		p.nodes = append(p.nodes, n)
	}
	for i := range y.Racks {
		// A broker.rack may be any text, so it need not be a valid name.
		p.racks = append(p.racks, named{y.Racks[i].Value, y.Racks[i].Line})
	}
	for i := range y.Islands {
		child, err := y.Islands[i].branch("island", depth+1)
		if err != nil {
			return nil, err
		}
		p.branches = append(p.branches, child)
	}
	return p, nil
}

// nameOf returns the text of a scalar as it is written: a node called 017 is not the number 15.
func nameOf(n *yaml.Node, what string) (named, error) {
	if n.Kind == 0 {
		return named{}, fmt.Errorf("a name of the %s is missing: %w", what, errName)
	}
	line := n.Line
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || !naming.Valid(n.Value) {
		return named{}, fmt.Errorf("line %d: %s %.80q: %w", line, what, n.Value, errName)
	}
	return named{n.Value, line}, nil
}
