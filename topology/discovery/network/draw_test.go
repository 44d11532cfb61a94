package network

import (
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestDraw: a tree in text has each switch with its nodes, and another network the links of each node.
func TestDraw(t *testing.T) {
	n := read(t, "((0,1,2),(3,4,5),6)")
	for i := range n.Links {
		n.Links[i].LatencyUs = .25 * float64(1+i%2)
	}
	n.Links[0].Throughput = 1200
	var line, ascii, ring strings.Builder
	err := errors.Join(n.Draw(&line, false), n.Draw(&ascii, true), read(t, "0 1\n1 2\n2 0").Draw(&ring, true))
	if err != nil {
		t.Fatal(err)
	}
	want := "s0: n6 (0.25 us each)\n├── s1 (0.5 us): n[0-2] (0.25 us each)\n" +
		"└── s2 (0.25 us): n[3-5] (0.5 us each)\n"
	if line.String() != want {
		t.Errorf("%s, want %s", line.String(), want)
	}
	text := ascii.String()
	if !strings.HasPrefix(text, "s0: n6 (0.25 us each)\n|-- s1 ") || strings.ContainsAny(text, "├└│") {
		t.Error(ascii.String())
	}
	if ring.String() != "n0: n1, n2\nn1: n0, n2\nn2: n0, n1\n" {
		t.Error(ring.String())
	}
}

var rectangle = regexp.MustCompile(`<rect class="node" x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)"`)

// TestSVG: the picture of a tree is XML with each node and switch once, and no two nodes at one place.
func TestSVG(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for name, n := range map[string]*Network{
		"tree": pods(r, 4, 8, 8), "star": pods(r, 1, 1, 500), "one": read(t, "(0)"),
		"ring":      read(t, "0 1\n1 2\n2 3\n3 0"),
		"two parts": read(t, "0 1\n1 2\n2 0\n3"), "mixed": read(t, "switch:a switch:b\nswitch:b switch:c\n"+
			"switch:c switch:a\n0 switch:a\n1 switch:b\n2 switch:c"),
	} {
		var out strings.Builder
		if err := n.WriteSVG(&out); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := out.String()
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for v := range n.Nodes {
			if strings.Count(text, ">"+n.Names[v]+"</text>") != 1 {
				t.Errorf("%s: node %s is not drawn once", name, n.Names[v])
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: %s", name, text)
		}
		seen := map[string]bool{}
		for _, m := range rectangle.FindAllStringSubmatch(text, -1) {
			if w, _ := strconv.ParseFloat(m[3], 64); seen[m[1]+m[2]] || w < 20 {
				t.Errorf("%s: a node at %v", name, m)
			}
			seen[m[1]+m[2]] = true
		}
	}
	err := errors.Join(New(nil).WriteSVG(io.Discard), New(nil).Write(io.Discard, Edges))
	if !errors.Is(err, errNothing) {
		t.Errorf("a network without nodes: %v", err)
	}
	large := New(Numbered(maxSVGGraph + 1))
	for v := range large.Nodes {
		large.AddLink(v, (v+1)%large.Nodes, 1)
	}
	if err = large.WriteSVG(io.Discard); err == nil || !strings.Contains(err.Error(), "tgf") {
		t.Errorf("a large ring: %v", err)
	}
}
