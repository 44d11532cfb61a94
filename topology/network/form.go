package network

import (
	"fmt"
	"io"
	"strings"
)

// Forms of a network.
const (
	Parens = "parens" // a tree as nested parentheses
	Edges  = "edges"  // a line for each link
)

// Write writes a network in one of its forms.
func (n *Network) Write(w io.Writer, form string) error {
	switch form {
	case Parens:
		text, err := n.parens()
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		return err
	case Edges:
		return n.writeEdges(w)
	}
	return fmt.Errorf("unknown form %q", form)
}

// Read reads a network in one of its forms. It tells parentheses from links by their first character.
func Read(r io.Reader) (*Network, error) {
	text, err := readAll(r)
	if err != nil {
		return nil, err
	}
	for _, line := range lines(text) {
		if line != "" && line[0] != '#' {
			if strings.HasPrefix(line, "(") {
				return readParens(text)
			}
			break
		}
	}
	return readEdges(text)
}
