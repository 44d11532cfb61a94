package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/naming"
)

const deepTree = `root: m
islands:
  - name: i1
    racks: [room-7]
    islands:
      - {name: s1, nodes: [a, b]}
      - {name: s2, nodes: [c]}
  - name: i2
    nodes: [d]
`

// shape writes a tree on one line: node names, and for a vertex its name and what is below it in parentheses.
func shape(t *Tree) string {
	nodes, branches := t.below()
	var write func(v int32) string
	write = func(v int32) string {
		all := nodes[v]
		for _, p := range branches[v] {
			for i := range t.vertices {
				if t.vertices[i].name == p && !t.vertices[i].leaf && t.vertices[i].parent == v && i > 0 {
					all = append(all, write(int32(i)))
				}
			}
		}
		return t.vertices[v].name + "(" + strings.Join(all, " ") + ")"
	}
	return write(0)
}

func TestFormats(t *testing.T) {
	tests := map[string]struct {
		read       func(io.Reader) (*Tree, error)
		text, want string
	}{
		"yaml": {ReadYAML, deepTree, "m(i1(s1(a b) s2(c)) i2(d))"},
		"conf": {
			readTopologyConf,
			"SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=spine Switches=leaf[1-2]\n",
			"spine(leaf1(n1 n2) leaf2(n3 n4))",
		},
		"conf, no top": {readTopologyConf, "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2", "root(a(n1) b(n2))"},
		"conf, details": {
			readTopologyConf,
			"# tree\nswitchname=top switches=s1 linkspeed=100 # up\n\nSwitchName=s1 \\\n  Nodes=r[01-02]n[8-10],x\n",
			"top(s1(r01n8 r01n9 r01n10 r02n8 r02n9 r02n10 x))",
		},
		"conf, blocks": {
			readTopologyConf, "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n3\nBlockSizes=2,4\n",
			"root(b1(n1 n2) b2(n3))",
		},
		"conf, commas": {readTopologyConf, "SwitchName=a Nodes=n1,,n[2-3],\n", "a(n1 n2 n3)"},
		"conf, quotes": {
			readTopologyConf,
			"SwitchName=\"a\" Nodes=\"n1, n[2-3]\"\nSwitchName = \"b\"\tNodes = n4 # \"x\n", "root(a(n1 n2 n3) b(n4))",
		},
		"conf, BOM": {readTopologyConf, "\xef\xbb\xbfSwitchName=a Nodes=n1\n", "a(n1)"},
		"conf, both": {
			readTopologyConf, "SwitchName=top Nodes=n0 Switches=s\nSwitchName=s Nodes=n1",
			"top(n0 s(n1))",
		},
		"slurm yaml": {
			readTopologyYAML,
			"- topology: other\n  flat: true\n- topology: t\n  cluster_default: true\n  tree:\n    switches:\n" +
				"      - {switch: top, children: 's[1-2]'}\n      - {switch: s1, nodes: 'n[1-2]'}\n" +
				"      - {switch: s2, nodes: 007}\n", "top(s1(n1 n2) s2(007))",
		},
		"slurm blanks": {
			readTopologyYAML,
			"- topology: t\n  tree: {switches: [{switch: s, nodes: 'n1, n[2-3] '}]}\n", "s(n1 n2 n3)",
		},
		"slurm blocks": {
			readTopologyYAML,
			"- topology: t\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1, nodes: 'n[1-2]'}\n",
			"b1(n1 n2)",
		},
		"tgf":            {readTGF, "1 top\n2 s1\n3 a\n4 b\n5\n#\n1 2 100 MB/s\n2 3\n2 4\n1 5\n", "top(5 s1(a b))"},
		"tgf, BOM":       {readTGF, "\xef\xbb\xbf1 top\n2 a\n#\n1 2\n", "top(a)"},
		"yaml, BOM":      {ReadYAML, "\xef\xbb\xbfroot: m\nislands: [{name: i, nodes: [a]}]\n", "m(i(a))"},
		"tgf, same name": {readTGF, "1 x\n2 x\n3 x\n#\n1 2\n2 3\n", "x(x(x))"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree, err := tt.read(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := shape(tree); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestFaultsOfOtherFormats(t *testing.T) {
	tests := map[string]struct {
		read        func(io.Reader) (*Tree, error)
		text, names string
		is          error
	}{
		"conf: cycle": {
			readTopologyConf, "SwitchName=a Switches=b\nSwitchName=b Switches=a\n",
			"line 1: vertex a is in a cycle", errShape,
		},
		"conf: own child": {
			readTopologyConf, "SwitchName=s Nodes=n\nSwitchName=a Switches=a\n",
			"line 2: vertex a is in a cycle", errShape,
		},
		"conf: cycle aside": {
			readTopologyConf,
			"SwitchName=s Nodes=n\nSwitchName=a Switches=b\nSwitchName=b Switches=a\n",
			"line 2: vertex a is in a cycle", errShape,
		},
		"conf: no such switch": {
			readTopologyConf, "SwitchName=a Switches=s[1-2]\nSwitchName=s1 Nodes=n\n",
			"line 1: vertex s2 is not defined", errShape,
		},
		"conf: switch twice": {
			readTopologyConf, "SwitchName=a Nodes=n\nSwitchName=a Nodes=m\n", "line 2: vertex a",
			errTwice,
		},
		"conf: both kinds": {
			readTopologyConf, "RingName=a Nodes=n SwitchName=b\n",
			"line 1: key SwitchName is there twice", nil,
		},
		"conf: hostlist":      {readTopologyConf, "SwitchName=a Nodes=n[1-\n", "line 1: switch a", errHostlist},
		"conf: hostlist swap": {readTopologyConf, "SwitchName=a Nodes=n[3-1]\n", `"3-1"`, errHostlist},
		"conf: huge": {
			readTopologyConf, "SwitchName=a Nodes=n[0-9][0-99999][0-99999]\n",
			"more than 1048576 hosts", errHostlist,
		},
		"conf: key":         {readTopologyConf, "SwitchName=a Node=n\n", `line 1: unknown key "Node"`, nil},
		"conf: no key":      {readTopologyConf, "\nfoo\n", `line 2: "foo"`, nil},
		"conf: no name":     {readTopologyConf, "Nodes=n\n", "line 1: no SwitchName", nil},
		"conf: node's name": {readTopologyConf, "SwitchName=a Nodes=../b\n", `line 1: node "../b"`, errName},
		"conf: goes on":     {readTopologyConf, "SwitchName=a \\\n", "line 1: the file ends", nil},
		"conf: nothing":     {readTopologyConf, "# nothing\n", "", errEmpty},
		"conf: nodes twice": {
			readTopologyConf, "\nSwitchName=a Nodes=n1 nodes=n2\n",
			"line 2: key nodes is there twice", nil,
		},
		"conf: two names": {
			readTopologyConf, "SwitchName=a Nodes=n1 SwitchName=b\n",
			"line 1: key SwitchName is there twice", nil,
		},
		"conf: two kinds": {
			readTopologyConf, "SwitchName=a Nodes=n1 BlockName=b\n",
			"line 1: key BlockName is there twice", nil,
		},
		"conf: include": {
			readTopologyConf, "# all\ninclude\tother.conf\n",
			`line 2: Include is not supported: put what "other.conf" says into this file`, nil,
		},
		"conf: no value": {
			readTopologyConf, "SwitchName=a Nodes= Switches=b\n",
			`line 1: "Nodes= Switches=b" is not key=value`, nil,
		},
		"conf: half a quote": {
			readTopologyConf, "SwitchName=a Nodes=\"n1\n",
			`line 1: "Nodes=\"n1" is not key=value`, nil,
		},
		"conf: empty quotes": {readTopologyConf, "SwitchName=a Nodes=\"\"\n", "is not key=value", nil},
		"conf: hostile child": {
			readTopologyConf,
			"SwitchName=a\x1b Switches=s\nSwitchName=b\x1b Switches=s\nSwitchName=s Nodes=n\n", `line 1: root "a\x1b"`,
			errName,
		},
		"conf: cycle below": {
			readTopologyConf,
			"SwitchName=top Switches=a,l\nSwitchName=l Nodes=n\nSwitchName=a Switches=b\nSwitchName=b Switches=a\n",
			"line 3: vertex a is in a cycle, a below b below a", errShape,
		},
		"conf: cycle of three": {
			readTopologyConf,
			"SwitchName=x Switches=y\nSwitchName=y Nodes=n\nSwitchName=a Switches=b,y\nSwitchName=b Switches=c\n" +
				"SwitchName=c Switches=a\n", "line 3: vertex a is in a cycle, a below c below b below a", errShape,
		},
		"conf: all nodes": {
			readTopologyConf, "SwitchName=a Nodes=ALL\n",
			"line 1: switch a: ALL is no node: write the hostlist", errHostlist,
		},
		"conf: all are empty": {
			readTopologyConf, "SwitchName=a Switches=b\nSwitchName=b\n", "the tree has no nodes",
			errEmpty,
		},
		"conf: no text": {readTopologyConf, "SwitchName=a Nodes=n1\x00\n", `line 1: node "n1\x00"`, errName},
		"slurm yaml: no list": {
			readTopologyYAML, "topology: t\n",
			"line 1: expected a list of topologies, found keys", nil,
		},
		"slurm yaml: switches": {
			readTopologyYAML, "- topology: t\n  tree:\n    switches: {switch: a}\n",
			"line 3: expected a list of switches or blocks, found keys", nil,
		},
		"slurm yaml: switch": {
			readTopologyYAML, "- topology: t\n  tree:\n    switches: [a]\n",
			"line 3: expected a switch or block such as {switch: s1, nodes: 'n[1-2]'}, found a single value", nil,
		},
		"slurm yaml: tree": {
			readTopologyYAML, "- topology: t\n  tree: [a]\n",
			"line 2: expected the key switches, found a list", nil,
		},
		"slurm yaml: block": {
			readTopologyYAML, "- topology: t\n  block: [a]\n",
			"line 2: expected the key blocks, found a list", nil,
		},
		"slurm yaml: sizes": {
			readTopologyYAML, "- topology: t\n  block:\n    block_sizes: 4\n",
			"line 3: expected a list of whole numbers, found a single value", nil,
		},
		"slurm yaml: size": {
			readTopologyYAML, "- topology: t\n  block:\n    block_sizes: [x]\n",
			"line 3: expected a whole number, found a single value", nil,
		},
		"slurm yaml: default": {
			readTopologyYAML, "- topology: t\n  cluster_default: \"a into b\"\n",
			"line 2: expected true or false, found a single value", nil,
		},
		"slurm yaml: name": {readTopologyYAML, "- topology: [t]\n", "line 1: expected a text, found a list", nil},
		"slurm yaml: text": {
			readTopologyYAML,
			"- topology: t\n  tree:\n    switches:\n      - {switch: a, nodes: [n1]}\n",
			"line 4: expected a name or a hostlist, found a list or keys", nil,
		},
		"slurm yaml: element": {
			readTopologyYAML, "- t\n",
			"line 1: expected a topology with tree or block, found a single value", nil,
		},
		"slurm yaml: hostile": {
			readTopologyYAML, "- \"top\\e\\nology\": t\n", `line 1: unknown key "top\x1b\nology"`,
			nil,
		},
		"slurm yaml: tag": {
			readTopologyYAML, "- !x t\n",
			"line 1: expected a topology with tree or block, found a single value", nil,
		},
		"slurm yaml: options": {
			readTopologyYAML, "- {topology: t, flat: {alpha_step_rank: true}}\n",
			"set balance.nodes", errShape,
		},
		"slurm yaml: deep key": {
			readTopologyYAML, "- topology: t\n  ring:\n    rings:\n      - {ring: r, node: a}\n",
			`line 4: unknown key "node"`, nil,
		},
		"slurm yaml: no ring": {
			readTopologyYAML, "- topology: t\n  ring: [a]\n",
			"line 2: expected the key rings, found a list", nil,
		},
		"slurm yaml: rings": {
			readTopologyYAML, "- topology: t\n  ring:\n    rings: {ring: a}\n",
			"line 3: expected a list of rings, found keys", nil,
		},
		"slurm yaml: a ring": {
			readTopologyYAML, "- topology: t\n  ring:\n    rings: [a]\n",
			"line 3: expected a ring such as {ring: r1, nodes: 'n[1-2]'}, found a single value", nil,
		},
		"slurm yaml: no torus": {
			readTopologyYAML, "- topology: t\n  torus3d: [a]\n",
			"line 2: expected the key toruses, found a list", nil,
		},
		"slurm yaml: toruses": {
			readTopologyYAML, "- topology: t\n  torus3d:\n    toruses: {name: a}\n",
			"line 3: expected a list of toruses, found keys", nil,
		},
		"slurm yaml: a torus": {
			readTopologyYAML, "- topology: t\n  torus3d:\n    toruses: [a]\n",
			"line 3: expected a torus such as {name: t1, nodes: 'n[1-2]'}, found a single value", nil,
		},
		"slurm yaml: regions": {
			readTopologyYAML, "- topology: t\n  torus3d:\n    toruses: [{name: a, regions: b}]\n",
			"line 3: expected a list of regions, found a single value", nil,
		},
		"slurm yaml: a region": {
			readTopologyYAML,
			"- topology: t\n  torus3d:\n    toruses: [{name: a, regions: [b]}]\n",
			"line 3: expected a region such as {nodes: 'n[1-2]'}, found a single value", nil,
		},
		"slurm yaml: chosen": {
			readTopologyYAML,
			"- {topology: s, tree: {switches: [{switch: a, nodes: n}]}}\n- topology: t\n  tree:\n    switches:\n" +
				"      - {switch: a, nodes: [n1]}\n  cluster_default: true\n",
			"line 5: expected a name or a hostlist", nil,
		},
		"slurm yaml: flat": {readTopologyYAML, "- {topology: t, flat: true}\n", `"t" has neither`, errShape},
		"slurm yaml: key":  {readTopologyYAML, "- {topology: t, trees: {}}\n", "line 1", nil},
		"slurm yaml: no name": {
			readTopologyYAML, "- topology: t\n  tree:\n    switches:\n      - {nodes: a}\n",
			"without a name", nil,
		},
		"slurm yaml: cycle": {
			readTopologyYAML,
			"- topology: t\n  tree:\n    switches:\n      - {switch: a, children: b}\n" +
				"      - {switch: b, children: a}\n", "line 4: vertex a is in a cycle", errShape,
		},
		"slurm yaml: nothing": {readTopologyYAML, "[]\n", "", errEmpty},
		"tgf: cycle":          {readTGF, "1 a\n2 b\n#\n1 2\n2 1\n", "line 1: vertex a is in a cycle", errShape},
		"tgf: id twice":       {readTGF, "1 a\n1 b\n#\n", "line 2: vertex 1", errTwice},
		"tgf: name twice":     {readTGF, "1 r\n2 a\n3 a\n#\n1 2\n1 3\n", "line 3: node a", errTwice},
		"tgf: no such id":     {readTGF, "1 a\n#\n1 2\n", "line 3: vertex 2 is not defined", errShape},
		"tgf: two parents": {
			readTGF, "1 r\n2 a\n3 b\n4 n\n#\n1 2\n1 3\n2 4\n3 4\n",
			"line 9: vertex n is below a and below b", errShape,
		},
		"tgf: two tops":    {readTGF, "1 r\n2 s\n3 a\n#\n1 3\n", "line 1: vertex r and s", errShape},
		"tgf: half a link": {readTGF, "1 r\n#\n1\n", `line 3: "1"`, nil},
		"tgf: name":        {readTGF, "1 r\n2 not a name\n#\n1 2\n", `line 2: node "not a name"`, errName},
		"tgf: hostile names": {
			readTGF, "1 r\x1b\n2 a\x1b\n3 b\x1b\n4 n\n#\n1 2\n1 3\n2 4\n3 4\n",
			`line 9: vertex n is below "a\x1b" and below "b\x1b"`, errShape,
		},
		"tgf: hostile tops": {
			readTGF, "1 r\x1b\n2 s\x1b\n3 a\n#\n1 3\n",
			`line 1: vertex "r\x1b" and "s\x1b" are both at the top`, errShape,
		},
		"tgf: hostile id":   {readTGF, "1\x1b r\n1\x1b s\n", `line 2: vertex "1\x1b"`, errTwice},
		"tgf: hostile root": {readTGF, "1 \x1b\n2 a\n#\n1 2\n", `line 1: root "\x1b"`, errName},
		"tgf: alone":        {readTGF, "1 r\n", "", errEmpty},
		"yaml: too deep": {
			ReadYAML,
			"root: m\nislands: " + strings.Repeat("[{name: i, islands: ", 65) + strings.Repeat("}]", 65),
			"line 2: island i", errDeep,
		},
		"yaml: rack twice": {
			ReadYAML,
			"root: m\nislands:\n  - {name: i, racks: [r], nodes: [a]}\n  - {name: j, racks: [r], nodes: [b]}\n",
			"line 4: rack r", errTwice,
		},
		"yaml: inner twice": {
			ReadYAML,
			"root: m\nislands:\n  - name: i\n    islands:\n      - {name: i, nodes: [a]}\n", "line 5: island i",
			errTwice,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree, err := tt.read(strings.NewReader(tt.text))
			if err == nil || tree != nil {
				t.Fatalf("got %v, %v", tree, err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.names) {
				t.Errorf("error %q: wants %v and %q", err, tt.is, tt.names)
			}
			if strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), "unmarshal") ||
				strings.Contains(err.Error(), "topology.") {
				t.Errorf("error %q is not in words for whoever wrote the file", err)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	tree, err := ReadYAML(strings.NewReader(deepTree))
	if err != nil {
		t.Fatal(err)
	}
	for pair, want := range map[[2]string]int{
		{"a", "a"}: 0, {"a", "b"}: 1, {"a", "s1"}: 1, {"a", "c"}: 2, {"a", "i1"}: 2, {"s1", "s2"}: 1, {"a", "d"}: 3,
		{"d", "a"}: 3, {"m", "a"}: 3, {"d", "i2"}: 1, {"s1", "i2"}: 2,
	} {
		if got, ok := tree.distance(pair[0], pair[1]); !ok || got != want {
			t.Errorf("%v: %d, %v; want %d", pair, got, ok, want)
		}
	}
	if _, ok := tree.distance("a", "x"); ok {
		t.Error("x is not in the tree")
	}
	for rack, want := range map[string]int{"room-7": 0, "i1": 0, "s2": 0, "i2": 1, "m": -1, "x": -1} {
		if got, ok := tree.Rack(rack); ok != (want >= 0) || ok && tree.VertexIsland(got) != want {
			t.Errorf("rack %s is in island %d, %v", rack, got, ok)
		}
	}
}

// randomTree describes a tree of any depth in YAML.
func randomTree(r *rand.Rand) string {
	vertices, nodes := 0, 0
	var islands func(indent string, depth int) string
	islands = func(indent string, depth int) string {
		var b strings.Builder
		for range 1 + r.IntN(3) {
			vertices++
			fmt.Fprintf(&b, "%s- name: v%d\n", indent, vertices)
			inner := depth < 4 && r.IntN(2) == 0
			if inner {
				fmt.Fprintf(&b, "%s  islands:\n%s", indent, islands(indent+"    ", depth+1))
			}
			if !inner || r.IntN(3) == 0 {
				fmt.Fprintf(&b, "%s  nodes: [", indent)
				for range 1 + r.IntN(4) {
					nodes++
					fmt.Fprintf(&b, "n%d,", nodes)
				}
				b.WriteString("]\n")
			}
		}
		return b.String()
	}
	return "root: m\nislands:\n" + islands("  ", 0)
}

func TestWritersAndReaders(t *testing.T) {
	for seed := range uint64(200) {
		tree, err := ReadYAML(strings.NewReader(randomTree(rand.New(rand.NewPCG(seed, 8)))))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var tgf, conf, again bytes.Buffer
		if err := errors.Join(tree.writeTGF(&tgf), tree.writeTopologyConf(&conf)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		read, err := readTGF(&tgf)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(shape(tree), shape(read)); diff != "" {
			t.Fatalf("seed %d: TGF: %s", seed, diff)
		}
		slurms, err := readTopologyConf(bytes.NewReader(conf.Bytes()))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if diff := cmp.Diff(tree.Nodes(), slurms.Nodes()); diff != "" {
			t.Fatalf("seed %d: topology.conf: %s", seed, diff)
		}
		// Slurm's tree is ours but for the switches that hold nodes of a vertex with both: written again it stays as it
		// is.
		if err := slurms.writeTopologyConf(&again); err != nil ||
			again.String() != conf.String() && len(slurms.vertices) == len(tree.vertices) {
			t.Fatalf("seed %d: %v\n%s\n%s", seed, err, conf.String(), again.String())
		}
	}
}

func TestWriteTopologyConfFaults(t *testing.T) {
	for _, text := range []string{
		"root: m\nislands:\n  - {name: m, nodes: [a]}\n",
		"root: m\nislands:\n  - {name: i, nodes: [a], islands: [{name: i-nodes, nodes: [b]}]}\n",
	} {
		tree, err := ReadYAML(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.writeTopologyConf(io.Discard); !errors.Is(err, errTwice) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestReadFileKnowsTheFormat(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.conf": "SwitchName=s Nodes=n[1-2]\n", "a.tgf": "1 s\n2 n1\n3 n2\n#\n1 2\n1 3\n",
		"a.yaml": "root: s\nislands: [{name: i, nodes: [n1, n2]}]\n",
		"b.yaml": "---\n# Slurm's\n- topology: t\n  tree: {switches: [{switch: s, nodes: 'n[1-2]'}]}\n",
		"c.yaml": "[{topology: t, tree: {switches: [{switch: s, nodes: 'n[1-2]'}]}}]\n",
		"d.yaml": "%YAML 1.1\n---\n-\n  topology: t\n  tree: {switches: [{switch: s, nodes: 'n[1-2]'}]}\n",
		"e.yaml": "\xef\xbb\xbf- topology: t\n  tree: {switches: [{switch: s, nodes: 'n[1-2]'}]}\n",
		"f.yaml": "--- [{topology: t, tree: {switches: [{switch: s, nodes: 'n[1-2]'}]}}]\n",
		"g.yaml": "%YAML 1.1\n---\n{root: s, islands: [{name: i, nodes: [n1, n2]}]}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if tree, err := ReadFile(path); err != nil || !cmp.Equal(tree.Nodes(), []string{"n1", "n2"}) ||
			tree.top() != "s" {
			t.Errorf("%s: %v, %v", name, tree, err)
		}
	}
}

// manPageYAML is the example of topology.yaml(5) in Slurm 26.05, with the default at one of its entries.
func manPageYAML(chosen string) string {
	text := `---
- topology: topo1
  tree:
    switches:
      - switch: sw_root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: node[03-04]
- topology: topo2
  block:
    block_sizes:
      - 4
      - 16
    blocks:
      - block: b1
        nodes: node[01-04]
      - block: b2
        nodes: node[05-08]
- topology: topo3
  flat: true
- topology: topo3a
  flat:
    alpha_step_rank: true
- topology: topo4
  ring:
    rings:
      - ring: ring0
        nodes: node[04-02],node01
      - ring: ring1
        nodes: node[05-06]
- topology: topo5
  torus3d:
    toruses:
      - name: pod1
        dims:
          x: 4
          y: 4
          z: 2
        nodes: node[01-02]
        placements:
          - dims:
              x: 2
              y: 2
              z: 1
            anchor_seed: {x: 0, y: 0, z: 0}
- topology: topo6
  torus3d:
    toruses:
      - name: pod1
        dims: {x: 1, y: 1, z: 4}
        regions:
          - {anchor: {x: 0, y: 0, z: 0}, dims: {x: 1, y: 1, z: 2}, nodes: 'node[03-04]'}
          - {anchor: {x: 0, y: 0, z: 2}, dims: {x: 1, y: 1, z: 2}, nodes: 'node[01-02]'}
- topology: topo7
  a_later_release: {has: [other, keys]}
  tree: [an, older, one, had, others]
`
	text = strings.ReplaceAll(text, "node[04-02],", "node04,node[02-03],")
	return strings.Replace(text, "- topology: "+chosen+"\n", "- topology: "+chosen+"\n  cluster_default: True\n", 1)
}

// TestManPageExample: each entry of Slurm's own example that names nodes makes a tree, with any other entries.
func TestManPageExample(t *testing.T) {
	for chosen, want := range map[string]struct{ shape, warning string }{
		"none":  {"sw_root(s1(node01 node02) s2(node03 node04))", ""},
		"topo1": {"sw_root(s1(node01 node02) s2(node03 node04))", ""},
		"topo2": {"root(b1(node01 node02 node03 node04) b2(node05 node06 node07 node08))", ""},
		"topo4": {"root(ring0(node04 node02 node03 node01) ring1(node05 node06))", "a ring is read as one switch"},
		"topo5": {"pod1(node01 node02)", "a torus is read as one switch"},
		"topo6": {"pod1(node03 node04 node01 node02)", "a torus is read as one switch"},
	} {
		tree, err := readTopologyYAML(strings.NewReader(manPageYAML(chosen)))
		if err != nil {
			t.Errorf("%s: %v", chosen, err)
			continue
		}
		warnings := strings.Join(tree.Warnings(), "\n")
		if got := shape(tree); got != want.shape || !strings.Contains(warnings, want.warning) ||
			want.warning == "" && warnings != "" {
			t.Errorf("%s: %s, warnings %q; want %+v", chosen, got, warnings, want)
		}
	}
	conf, err := readTopologyConf(strings.NewReader("RingName=r0 Nodes=n[1-2]\nRingName=r1 Nodes=n3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if shape(conf) != "root(r0(n1 n2) r1(n3))" || len(conf.Warnings()) != 1 {
		t.Errorf("%s, %q", shape(conf), conf.Warnings())
	}
}

// TestNodesOfSeveralSwitches: a node may have a cable to several leaf switches. The first one counts, and a switch that
// is left without nodes is not in the tree.
func TestNodesOfSeveralSwitches(t *testing.T) {
	for text, want := range map[string][2]string{
		"SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[2-3]\n": {
			"root(a(n1 n2) b(n3))",
			"line 2: node n2 is below a and below b: the first switch counts (entries passed over: 1)",
		},
		"SwitchName=s0 Switches=a0,b0\nSwitchName=a0 Nodes=n[1-2]\nSwitchName=b0 Nodes=n3\n" +
			"SwitchName=s1 Switches=a1,b1\nSwitchName=a1 Nodes=n[1-2]\nSwitchName=b1 Nodes=n3\n": {
			"s0(a0(n1 n2) b0(n3))",
			"line 5: node n1 is below a0 and below a1: the first switch counts (entries passed over: 3)",
		},
		"SwitchName=top Switches=a,b\nSwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n": {"top(a(n1))", "passed over: 1"},
		"SwitchName=a Nodes=n1,n1\n": {"a(n1)", "line 1: node n1 is below a and below a:"},
		"BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[2-3]\n": {
			"root(a(n1 n2) b(n3))",
			"line 2: node n2 is below a and below b",
		},
		"SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n": {"root(a(n1) b(n2))", ""},
	} {
		tree, err := readTopologyConf(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		warnings := strings.Join(tree.Warnings(), "\n")
		if got := shape(tree); got != want[0] || !strings.Contains(warnings, want[1]) ||
			want[1] == "" && warnings != "" {
			t.Errorf("%s: %s, warnings %q; want %q", text, got, warnings, want)
		}
	}
}

// TestLegalTopologies: a file that Slurm accepts must not stop the balancer. Warnings has what the tree does not show.
func TestLegalTopologies(t *testing.T) {
	for text, want := range map[string][2]string{
		"SwitchName=a Switches=s\nSwitchName=b Switches=s\nSwitchName=s Nodes=n\n": {
			"a(s(n))", "line 2: vertex s is below a and below b: the first parent counts (entries passed over: 1)\n" +
				"line 2: switch b is left out, since no nodes are below it (switches left out: 1)",
		},
		"SwitchName=c1 Switches=l[1-3]\nSwitchName=c2 Switches=l[1-4]\nSwitchName=l1 Nodes=n1\n" +
			"SwitchName=l2 Nodes=n2\nSwitchName=l3 Nodes=n3\nSwitchName=l4 Nodes=n4\n": {
			"root(c1(l1(n1) l2(n2) l3(n3)) c2(l4(n4)))",
			"line 2: vertex l1 is below c1 and below c2: the first parent counts (entries passed over: 3)",
		},
		"SwitchName=core(1) Switches=leaf/[1-2]\nSwitchName=leaf/1 Nodes=n1\nSwitchName=leaf/2 Nodes=n2\n": {
			"core_1_(leaf_1(n1) leaf_2(n2))",
			`line 1: switch "core(1)" is called core_1_ here (switches with another name: 3)`,
		},
		"SwitchName=a Switches=s,s\nSwitchName=s Nodes=n\n": {"a(s(n))", "line 1: vertex s is below a and below a"},
		"SwitchName=a Nodes=n\nSwitchName=b\n": {
			"a(n)", "line 2: switch b is left out, since no nodes are below it (switches left out: 1)",
		},
		"SwitchName=top Switches=a,m\nSwitchName=a Nodes=n\nSwitchName=m Switches=e[1-2]\nSwitchName=e1\n" +
			"SwitchName=e2 LinkSpeed=1\n": {
			"top(a(n))", "line 3: switch m is left out, since no nodes are below it (switches left out: 3)",
		},
		"sWITCHname=s0 nODES=dev[0-1,07]-ib[0,2-3] LINKSPEED=100\nSWITCHNAME=s1 \\\n\tSWITCHES=s0\\\n" +
			" LinkSpeed=2 # up\n# end\\\n": {
			"s1(s0(dev0-ib0 dev0-ib2 dev0-ib3 dev1-ib0 dev1-ib2 dev1-ib3 dev07-ib0 dev07-ib2 dev07-ib3))", "",
		},
		"BlockName=block1 Nodes=node[1-2]\nBlockName=block2\nBlockName=block3 Nodes=node3\nBlockSizes=2,4\n": {
			"root(block1(node1 node2) block3(node3))", "line 2: switch block2 is left out",
		},
	} {
		tree, err := readTopologyConf(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		warnings := strings.Join(tree.Warnings(), "\n")
		if got := shape(tree); got != want[0] || !strings.Contains(warnings, want[1]) ||
			want[1] == "" && warnings != "" {
			t.Errorf("%s: %s, warnings %q; want %q", text, got, warnings, want)
		}
	}
	tree, err := readTopologyYAML(strings.NewReader(`
- topology: other
  cluster_default: no
  tree: {switches: [{switch: x, nodes: y}]}
- topology: chosen
  cluster_default: True
  tree:
    switches:
      - {switch: core1, children: 'leaf[1-2],spare'}
      - {switch: core2, children: 'leaf[1-2]'}
      - {switch: leaf1, nodes: 'node[01-02]'}
      - {switch: leaf2, nodes: node03}
      - switch: spare
        nodes:
- topology: later
  cluster_default: true
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := shape(tree); got != "core1(leaf1(node01 node02) leaf2(node03))" || len(tree.Warnings()) != 2 {
		t.Errorf("%s, warnings %q", got, tree.Warnings())
	}
}

// TestReadFileRefusesWhatIsNoFile: a pipe must not hold up the start until somebody writes into it.
func TestReadFileRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "tree.conf")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, "/dev/null"} {
		done := make(chan error, 1)
		go func() {
			_, err := ReadFile(path)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), path+": not a regular file") {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(90 * time.Second):
			t.Fatalf("%s: still reading", path)
		}
	}
}

// TestManyLinesOfManyHosts: each line stays within what a hostlist may be, and the file does not.
func TestManyLinesOfManyHosts(t *testing.T) {
	var conf strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&conf, "BlockName=b%d Nodes=n%dx[1-300000]\n", i, i)
	}
	_, err := readTopologyConf(strings.NewReader(conf.String()))
	if !errors.Is(err, errHostlist) || !strings.Contains(err.Error(), "line 4") ||
		!strings.Contains(err.Error(), "b3") {
		t.Errorf("%v", err)
	}
}

func fuzzReader(f *testing.F, read func(io.Reader) (*Tree, error), seeds ...string) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := read(strings.NewReader(text))
		if (tree == nil) == (err == nil) {
			t.Fatalf("tree %v, error %v", tree, err)
		}
		if tree == nil || len(tree.Nodes()) > 20_000 {
			return // a few bytes stand for a million nodes: to look at each takes longer than a fuzz worker has
		}
		for i, n := range tree.Nodes() {
			at, ok := tree.Island(n)
			if !ok || at < 0 || at >= len(tree.Islands()) || !naming.Valid(n) {
				t.Fatalf("node %q has no island or no name", n)
			}
			if d, ok := tree.distance(n, tree.top()); i < 50 &&
				(!ok || tree.inner[tree.top()] == 0 && !tree.has(tree.top()) && d < 1) {
				t.Fatalf("node %q is at %d from the root", n, d)
			}
		}
		var b bytes.Buffer
		if err := tree.writeTGF(&b); err != nil {
			t.Fatal(err)
		}
		if again, err := readTGF(&b); err != nil || len(again.Nodes()) != len(tree.Nodes()) {
			t.Fatalf("written and read: %v, %v", again, err)
		}
	})
}

func FuzzReadTopologyConf(f *testing.F) {
	fuzzReader(f, readTopologyConf, "SwitchName=leaf1 Nodes=n[1-2],x\nSwitchName=spine Switches=leaf1 LinkSpeed=3\n",
		"SwitchName=s0 Switches=a0\nSwitchName=a0 Nodes=n[1-2]\nSwitchName=s1 Switches=a1\n"+
			"SwitchName=a1 Nodes=n[1-2]\n",
		"RingName=r Nodes=n[1-3]\n", "BlockName=b Nodes=n[01-03]r[1]\\\n", "SwitchName=a Switches=a")
}

func FuzzReadTopologyYAML(f *testing.F) {
	fuzzReader(f, readTopologyYAML, "- topology: t\n  tree: {switches: [{switch: s, nodes: 'n[1-2]'}]}\n",
		"- {topology: t, block: {blocks: [{block: b, nodes: a}]}}",
		manPageYAML("topo1"), manPageYAML("topo4"), manPageYAML("topo5"), manPageYAML("topo6"))
}

func FuzzReadTGF(f *testing.F) {
	fuzzReader(f, readTGF, "1 top\n2 s1\n3 a\n#\n1 2\n2 3 x\n", "1\n2\n#\n1 2\n2 1")
}
