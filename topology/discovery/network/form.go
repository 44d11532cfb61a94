package network

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/topology"
)

// Forms of a network.
const (
	Parens = "parens" // a tree as nested parentheses
	Edges  = "edges"  // a line for each link
	TGF    = "tgf"    // Trivial Graph Format, with latencies and throughput
	YAML   = "yaml"   // a tree in the form of balance.tree_file
	Conf   = "conf"   // a tree in the form of Slurm's topology.conf
	JSON   = "json"   // an object with everything
)

// Forms are all forms that can be written and read.
func Forms() []string { return []string{Parens, Edges, TGF, YAML, Conf, JSON} }

// Write writes a network in one of its forms. Parens, YAML and Conf are for trees of switches.
func (n *Network) Write(w io.Writer, form string) error {
	if n.Nodes == 0 {
		return errNothing
	}
	switch form {
	case Parens:
		text, err := n.parens()
		if err != nil {
			return fmt.Errorf("%w: tgf, edges and json are forms of any network", err)
		}
		_, err = io.WriteString(w, text)
		return err
	case Edges:
		return n.writeEdges(w)
	case TGF:
		return n.writeTGF(w)
	case YAML:
		return n.writeYAML(w)
	case Conf:
		return n.writeConf(w)
	case JSON:
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(n)
	}
	return fmt.Errorf("form %.40q must be one of %s", form, strings.Join(Forms(), ", "))
}

// ReadFile reads the network of a file, in any form. If the ending of the path is none of .tree, .edges, .tgf, .yaml,
// .yml, .conf and .json, the text determines the form. Errors name the file and the line.
func ReadFile(path string) (*Network, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // a pipe could wait forever
		return nil, fmt.Errorf("reading the network %s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the network %s: %w", path, naming.Pathless(err))
	}
	defer func() { _ = f.Close() }() // nothing was written
	n, err := readNamed(path, f)
	if err != nil {
		return nil, fmt.Errorf("reading the network %s: %w", path, err)
	}
	return n, nil
}

// Read reads a network, and determines its form from the text.
func Read(r io.Reader) (*Network, error) { return readNamed("", r) }

// readNamed reads a network as ReadFile does, with the ending of a name.
func readNamed(name string, r io.Reader) (*Network, error) {
	text, err := readAll(r)
	if err != nil {
		return nil, err
	}
	ending := filepath.Ext(name)
	form := strings.TrimPrefix(ending, ".")
	switch {
	case form == "tree":
		form = Parens
	case form == "yml":
		form = YAML
	case !slices.Contains(Forms(), form) || form == Parens:
		form = formOf(text)
	}
	switch form {
	case Parens:
		return readParens(text)
	case Edges:
		return readEdges(text)
	case TGF:
		return readTGF(text)
	case JSON:
		n := &Network{}
		if err := json.Unmarshal([]byte(text), n); err != nil {
			return nil, err
		}
		return n, nil
	}
	t, err := topology.Read("."+form, strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return fromTree(t), nil
}

var (
	confLine = regexp.MustCompile(`(?i)^(switch|block|ring)name\s*=`)
	yamlLine = regexp.MustCompile(`^(---|- |%YAML|(root|racks|islands):( |$))`)
)

// formOf determines the form of a text by its first line that is no comment. A line of # alone marks Trivial Graph
// Format.
func formOf(text string) string {
	first, form := true, Edges
	for _, line := range lines(text) {
		switch {
		case line == "#" && !first:
			return TGF
		case line == "" || line[0] == '#' || !first:
			continue
		case line[0] == '(':
			return Parens
		case line[0] == '{':
			return JSON
		case confLine.MatchString(line):
			return Conf
		case yamlLine.MatchString(line):
			return YAML
		}
		first = false
	}
	return form
}
