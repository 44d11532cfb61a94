package topology

import (
	"fmt"
	"io"
	"regexp"
	"strings"
)

// readTopologyConf returns the tree of Slurm's topology.conf: switches with nodes or switches below them, or blocks or
// rings of nodes. The first of several parents counts, and switches without nodes are left out: Warnings lists both.
// Several switches at the top go below a vertex "root". Link speeds and block sizes do not belong to the tree and are
// ignored. Any other key is an error. Errors name line and switch.
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

// confField is one key=value as Slurm reads it. Blanks may stand around the = and in a value in quotes.
var confField = regexp.MustCompile(`^\s*(\w+)\s*=\s*("[^"]+"|[^\s"=]+)(?:\s+|$)`)

// confLine reads one line, after its continuation lines were joined. Keys are case-insensitive, as in Slurm. An unknown
// key is an error, because it may move nodes.
func confLine(text string, number int) (slurmSwitch, error) {
	s := slurmSwitch{named: named{line: number}}
	if words := strings.Fields(text); strings.EqualFold(words[0], "include") {
		return s, fmt.Errorf("line %d: Include is not supported: put what %.80q says into this file",
			number, strings.Join(words[1:], " "))
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

// writeTopologyConf writes the tree as Slurm's topology.conf, a line for each vertex. Slurm allows nodes or switches
// below a switch, never both. So the nodes of a vertex with both go to a switch of their own, named after it.
func (t *Tree) writeTopologyConf(w io.Writer) error {
	if v := t.inner[t.top()]; v != 0 {
		return fmt.Errorf("switch %s %w: root and island", t.top(), errTwice)
	}
	nodes, branches := t.below()
	var b strings.Builder
	for v := range t.vertices {
		name := t.vertices[v].name
		switch {
		case t.vertices[v].leaf:
		case len(branches[v]) == 0:
			fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\n", name, strings.Join(nodes[v], ","))
		case len(nodes[v]) == 0:
			fmt.Fprintf(&b, "SwitchName=%s Switches=%s\n", name, strings.Join(branches[v], ","))
		default:
			own := name + "-nodes"
			if _, taken := t.inner[own]; taken {
				return fmt.Errorf("switch %s %w: it would hold the nodes of %s", own, errTwice, name)
			}
			fmt.Fprintf(&b, "SwitchName=%s Nodes=%s\n", own, strings.Join(nodes[v], ","))
			fmt.Fprintf(&b, "SwitchName=%s Switches=%s,%s\n", name, own, strings.Join(branches[v], ","))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// below returns the names of the nodes and of the vertices right below each vertex.
func (t *Tree) below() (nodes, branches [][]string) {
	nodes, branches = make([][]string, len(t.vertices)), make([][]string, len(t.vertices))
	for _, v := range t.vertices[1:] {
		if v.leaf {
			nodes[v.parent] = append(nodes[v.parent], v.name)
		} else {
			branches[v.parent] = append(branches[v.parent], v.name)
		}
	}
	return nodes, branches
}
