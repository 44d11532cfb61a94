package network

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// westmere is a node of two sockets with six cores each, and a way out if it has a name.
func westmere(external string) *Network {
	n := New(Numbered(12))
	if external != "" {
		n.Names, n.Nodes = append(n.Names, external), 13
	}
	top := n.AddSwitch("")
	for s := range 2 {
		socket := n.AddSwitch("")
		n.AddLink(socket, top, .2)
		for c := range 6 {
			n.AddLink(6*s+c, socket, .1)
		}
	}
	if external != "" {
		n.AddLink(12, top, 7)
	}
	return n
}

// TestJoinWestmere: ten nodes of one switch with twelve cores each are one tree of 120 cores. The way from the core
// that measured to the edge of its node is part of the latencies between nodes, and counts once.
func TestJoinWestmere(t *testing.T) {
	star := New(nil)
	for name := range strings.FieldsSeq("w0 w1 w2 w3 w4 w5 w6 w7 w8 w9") {
		star.Names = append(star.Names, name)
	}
	star.Nodes = 10
	s := star.AddSwitch("leaf")
	inside := map[string]Inside{}
	for v := range 10 {
		star.AddLink(v, s, 26.5) // of them .3 within the node
		cores := westmere([]string{"", "external"}[v%2])
		inside[star.Names[v]] = Inside{Network: cores, External: "external", Measured: "n3"}
	}
	n, clamped, err := Join(star, inside)
	if err != nil || clamped != 0 || n.Nodes != 120 || !n.IsTree() {
		t.Fatalf("%v, %d, %+v", err, clamped, n)
	}
	at := func(name string) int { return slices.Index(n.Names, name) }
	for _, tt := range []struct {
		a, b string
		us   float64
	}{
		{"w0:n0", "w0:n5", .2},
		{"w0:n0", "w0:n6", .6},
		{"w1:n0", "w1:n6", .6},
		{"w0:n3", "w9:n3", 53},
		{"w1:n7", "w2:n0", 53},
	} {
		if got := n.PathUs(at(tt.a), at(tt.b)); math.Abs(got-tt.us) > 1e-9 {
			t.Errorf("%s to %s: %v, want %v", tt.a, tt.b, got, tt.us)
		}
	}
	leaf := slices.Index(n.Names, "leaf")
	for _, l := range n.Links { // what is left between a node and the switch
		if (l.A == leaf || l.B == leaf) && math.Abs(l.LatencyUs-26.2) > 1e-9 {
			t.Errorf("%s - %s: %v us", n.Names[l.A], n.Names[l.B], l.LatencyUs)
		}
	}
	if len(n.Splits()) != 30 { // a node and its two sockets, ten times
		t.Errorf("%d splits", len(n.Splits()))
	}
}

// TestJoinSome: nodes without a network within stay nodes, and links between nodes too.
func TestJoinSome(t *testing.T) {
	ring := read(t, "a b\nb c\nc d\nd a")
	for i := range ring.Links {
		ring.Links[i].LatencyUs = .1
	}
	n, clamped, err := Join(ring, map[string]Inside{"b": {Network: westmere(""), Measured: "n0"}})
	if err != nil || clamped != 2 || n.Nodes != 15 {
		t.Fatalf("%v, %d, %+v", err, clamped, n)
	}
	if _, _, err := Join(ring, map[string]Inside{"b": {Network: ring, External: "x"}}); err == nil ||
		!strings.Contains(err.Error(), "node b: ") {
		t.Errorf("a ring without a way out: %v", err)
	}
	long := westmere("")
	long.Names[0] = strings.Repeat("x", 63)
	_, _, err = Join(ring, map[string]Inside{"b": {Network: long}})
	if err == nil || !strings.Contains(err.Error(), "64") {
		t.Errorf("a long name: %v", err)
	}
}
