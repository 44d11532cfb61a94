package network

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/topology"
)

// randomTree is a tree of switches with up to three levels, where switches have nodes, switches or both.
func randomTree(r *rand.Rand) *Network {
	nodes := 2 + r.IntN(30)
	n := New(Numbered(nodes))
	switches := 1 + r.IntN(8)
	var depth []int
	for s := range switches {
		v := n.AddSwitch("")
		depth = append(depth, 0)
		if s > 0 {
			up := r.IntN(s)
			depth[s] = depth[up] + 1
			n.AddLink(v, nodes+up, math.Round(1000*(.1+r.Float64()))/1000)
		}
	}
	for v := range nodes {
		n.AddLink(v, nodes+r.IntN(switches), math.Round(1000*(.1+r.Float64()))/1000)
	}
	return n
}

// TestFormsKeepTheNetwork: what is written in a form and read again is the same network. Forms with latencies keep
// them.
func TestFormsKeepTheNetwork(t *testing.T) {
	for seed := range uint64(200 / slower) {
		r := rand.New(rand.NewPCG(seed, 18))
		n := randomTree(r)
		if seed%2 == 0 { // nodes with names
			for v := range n.Nodes {
				n.Names[v] = "r" + string(rune('a'+v%7)) + "-" + n.Names[v]
			}
		}
		for _, form := range Forms() {
			var text strings.Builder
			if err := n.Write(&text, form); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, form, err)
			}
			again, err := readNamed("x."+form, strings.NewReader(text.String()))
			if err != nil {
				t.Fatalf("seed %d, %s: %v\n%s", seed, form, err, text.String())
			}
			if known, err := Read(strings.NewReader(text.String())); err != nil || !Equal(n, known) {
				t.Fatalf("seed %d: the form %s is not recognised: %v\n%s", seed, form, err, text.String())
			}
			if !Equal(n, again) {
				t.Fatalf("seed %d, %s: %v, want %v\n%s", seed, form, again.Splits(), n.Splits(), text.String())
			}
			if d := Compare(n, again); !d.None() {
				t.Fatalf("seed %d, %s: %+v", seed, form, d)
			}
			if form != TGF && form != JSON {
				continue
			}
			for a := range n.Nodes {
				b := slices.Index(again.Names, n.Names[0])
				x, y := n.PathUs(a, 0), again.PathUs(slices.Index(again.Names, n.Names[a]), b)
				if math.Abs(x-y) > 1e-5 {
					t.Fatalf("seed %d, %s: a path of %v is %v", seed, form, x, y)
				}
			}
		}
		if tree, err := n.tree(); err != nil || len(tree.Nodes()) != n.Nodes || !Equal(fromTree(tree), n) {
			t.Fatalf("seed %d: the balancer's tree: %v", seed, err)
		}
	}
}

// TestFormsOfOtherNetworks: TGF, edges and JSON keep networks that are no trees. The others refuse them.
func TestFormsOfOtherNetworks(t *testing.T) {
	for _, text := range []string{
		"0 1\n1 2\n2 3\n3 0", // a ring
		"0 1\n1 2\n2 3",      // a line is no tree of switches
		"0 1\n0 2\n0 3",      // nor are nodes around a node
		"a switch:x\nb switch:y\nswitch:x c\nc switch:y\nswitch:x switch:y\nd switch:y\n",
		"0 1\n2", // a node without links
	} {
		n := read(t, text)
		n.BaseUs = 1.5
		for _, form := range Forms() {
			var out strings.Builder
			err := n.Write(&out, form)
			if form == Parens || form == YAML || form == Conf {
				if err == nil || !strings.Contains(err.Error(), "forms of any network") {
					t.Errorf("%q as %s: %v", text, form, err)
				}
				continue
			}
			again, err := Read(strings.NewReader(out.String()))
			if err != nil || !Equal(n, again) {
				t.Errorf("%q as %s: %v\n%s", text, form, err, out.String())
			}
			if form == JSON && again.BaseUs != n.BaseUs {
				t.Errorf("%q: the base is %v", text, again.BaseUs)
			}
		}
	}
}

// TestTGFOfTheThesis: both directions of a link count once, and labels have latency and throughput.
func TestTGFOfTheThesis(t *testing.T) {
	n := read(t, "1 v1\n2 v2\n3 middle\n#\n1 3 l: 3 t: 10\n3 1 l: 3 t: 12\n2 3 l:4 t:11 other text\n")
	if n.Nodes != 2 || len(n.Links) != 2 {
		t.Fatalf("%+v", n)
	}
	want := []Link{{0, 2, 3, 10}, {1, 2, 4, 11}}
	if diff := cmp.Diff(want, n.Links); diff != "" {
		t.Error(diff)
	}
	var out strings.Builder
	if err := n.Write(&out, TGF); err != nil || !strings.Contains(out.String(), "\n3 1 l: 3 t: 10\n3 2 l: 4 t: 11\n") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestRoots: a tree without a root has it in the middle, which may be inside a link.
func TestRoots(t *testing.T) {
	two := New(Numbered(4))
	a, b := two.AddSwitch(""), two.AddSwitch("")
	for v := range 4 {
		two.AddLink(v, []int{a, a, b, b}[v], 1)
	}
	two.AddLink(a, b, 3)
	chain := read(t, "(0,1,(2,3,(4,5,(6,7,(8,9)))))")
	chain.Root = 0
	for _, tt := range []struct {
		n    *Network
		want string
	}{
		{two, "((0,1),(2,3))\n"},
		{chain, "(((0,1),2,3),((8,9),6,7),4,5)\n"},
		{read(t, "((((a,b),c,d),e,f),g,h)"), "((((a,b),c,d),e,f),g,h)\n"},
		{read(t, "0 1"), "(0,1)\n"},
		{read(t, "0"), "(0)\n"},
	} {
		var out strings.Builder
		if err := tt.n.Write(&out, Parens); err != nil || out.String() != tt.want {
			t.Errorf("%v: %s, want %s", err, out.String(), tt.want)
		}
	}
}

// TestReadRefuses: errors name the line and what is wrong there.
func TestReadRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                            "no nodes",
		"(0,1":                        "before 1 parentheses",
		"(0,1))":                      "after the tree",
		"(0,,1)":                      "line 1: a comma",
		"(0 1)":                       "a comma is missing",
		"((0,1)(2,3))":                "a comma is missing",
		"(0,)":                        "closing parenthesis",
		"()":                          "closing parenthesis",
		"# x\n(0,0)":                  "node n0 is there twice",
		"(a,a)":                       "node a is there twice",
		"(a\x1b,b)":                   `"a\x1b"`,
		strings.Repeat("(", 70) + "0": "more than 64 levels",
		"0 1 2":                       "line 1",
		"0 0":                         "link to itself",
		"0 1\n\x1b 2":                 `line 2: "\x1b"`,
		"switch:a switch:b":           "no nodes",
		"1 a\n2 b\n#\n1 3\n":          `line 4: vertex "3"`,
		"1 a\n1 b\n#\n":               `line 2: vertex "1" is there twice`,
		"1 a\n2 b\n#\n1 2 l: -1":      `line 4: l: "-1"`,
		"1 a\n2 b\n#\n1 2 t:nan":      `line 4: t: "nan"`,
		"1 a\n2 b\n#\n1 1":            "link to itself",
		"1 a\n2 b\n#\n1":              "not a link",
		"{}":                          "no nodes",
		`{"nodes":["a"],"links":[{"a":"a","b":"c"}]}`:                     `"c"`,
		`{"nodes":["a","b"],"links":[{"a":"a","b":"b","latency_us":-1}]}`: "at least 0",
		`{"nodes":["a","a"]}`:            "twice",
		`{"nodes":["a","b"],"root":"b"}`: "none of the switches",
		"SwitchName=a Nodes=n[1-":        "line 1",
		"root: a\nislands: 3":            "line 2",
	} {
		n, err := Read(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), says) || strings.ContainsAny(err.Error(), "\x1b") {
			t.Errorf("%q: %v, %v; want %q", text, n, err, says)
		}
	}
}

// TestCompareNamesDifferences: a moved node, a missing node, a missing link.
func TestCompareNamesDifferences(t *testing.T) {
	d := Compare(read(t, "((a,b,c),(d,e,f),(g,h,i))"), read(t, "((a,b),(c,d,e,f),(g,h,i,j))"))
	for _, tt := range []struct{ got, want any }{
		{d.OnlyA.Nodes, []string{}},
		{d.OnlyB.Nodes, []string{"j"}},
		{len(d.OnlyA.Switches), 2},
		{len(d.OnlyB.Switches), 2},
		{d.OnlyA.Switches[1].Nodes, []string{"d", "e", "f"}},
		{d.OnlyA.Switches[1].Nearest, []string{"c", "d", "e", "f"}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Error(diff)
		}
	}
	d = Compare(read(t, "0 1\n1 2\n2 3\n3 0"), read(t, "0 1\n1 2\n2 3\n3 1"))
	if !cmp.Equal(d.OnlyA.Links, [][2]string{{"n0", "n3"}}) || !cmp.Equal(d.OnlyB.Links, [][2]string{{"n1", "n3"}}) {
		t.Errorf("%+v", d)
	}
	ring := "A switch:1\nD switch:4\na switch:1\nb switch:2\nc switch:3\nd switch:4\n" +
		"switch:1 switch:2\nswitch:2 switch:3\nswitch:3 switch:4\n"
	d = Compare(read(t, ring+"switch:4 switch:1"), read(t, ring+"switch:4 switch:2"))
	if len(d.OnlyA.Links) != 1 || d.OnlyA.Links[0] != [2]string{"the switch of A,a", "the switch of D,d"} {
		t.Errorf("%+v", d)
	}
	far := "a switch:1\nswitch:1 switch:2\nswitch:2 switch:3\nswitch:3 switch:1\n" +
		"b switch:4\nswitch:4 switch:2\nc switch:1\n"
	if d := Compare(read(t, far+"d switch:4\nswitch:4 switch:3"), read(t, far+"d switch:4")); d.None() {
		t.Error("a link between switches is missing, and there is no difference")
	}
}

// TestFromTreeOfFiles: a root with one island joins nothing, and a file's root is the top.
func TestFromTreeOfFiles(t *testing.T) {
	tree, err := topology.ReadYAML(strings.NewReader("root: m\nislands:\n  - name: all\n    nodes: [x]\n" +
		"    islands:\n      - {name: i, nodes: [a, b]}\n      - {name: all-nodes, nodes: [y]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	n := fromTree(tree)
	if n.Names[n.Root] != "all" || n.Nodes != 4 || !Equal(n, read(t, "(x,y,(a,b))")) {
		t.Errorf("%+v", n)
	}
	flat := fromTree(topology.Flat([]string{"a", "b", "c"}))
	if !Equal(flat, read(t, "(a,b,c)")) || len(flat.Names) != 4 {
		t.Errorf("%+v", flat)
	}
}

// FuzzRead: no text makes the reader fail otherwise than by an error, and what it reads can be written and read again.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"((0,1),(2,3))", "# c\n(a,(b,c))", "0 1\n1 2\n2 0", "0 switch:a\n1 switch:a",
		"1 a\n2 b\n3 c\n#\n3 1 l: 3 t: 10\n3 2\n",
		`{"nodes":["a","b"],"switches":["s"],"root":"s","links":[{"a":"a","b":"s","latency_us":1},{"a":"b","b":"s"}]}`,
		"root: m\nislands: [{name: i, nodes: [a, b]}]", "SwitchName=s Nodes=n[1-3]", "- topology: t\n  flat: true\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		numbers := slices.ContainsFunc(n.Names[:n.Nodes], func(name string) bool { _, is := number(name); return is })
		if numbers || len(n.Names) > 2000 { // parentheses call a node 7 n7; a hostlist may have many nodes
			return
		}
		for _, form := range Forms() {
			var out strings.Builder
			if err := n.Write(&out, form); err != nil {
				continue
			}
			again, err := readNamed("x."+form, strings.NewReader(out.String()))
			if err != nil {
				t.Fatalf("%q as %s: %v\n%s", text, form, err, out.String())
			}
			if d := Compare(n, again); !d.None() {
				t.Fatalf("%q as %s: %+v\n%s", text, form, d, out.String())
			}
		}
	})
}
