package topology

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/naming"
)

const twoIslands = `root: machine
islands:
  - name: i01
    nodes: [n001, n002]
  - name: i02
    nodes:
      - 017
      - n003
`

func TestReadYAML(t *testing.T) {
	tree, err := ReadYAML(strings.NewReader(twoIslands))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"n001", "n002", "017", "n003"}, tree.Nodes()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"i01", "i02"}, tree.Islands()); diff != "" {
		t.Error(diff)
	}
	if i, ok := tree.Island("017"); !ok || i != 1 {
		t.Errorf("Island(017) = %d, %v", i, ok)
	}
	if _, ok := tree.Island("n004"); ok || tree.has("n004") || !tree.has("n001") || tree.top() != "machine" {
		t.Error("the tree has what it has not, or the other way round")
	}
}

func TestReadYAMLFaults(t *testing.T) {
	tests := map[string]struct {
		text, names string
		is          error
	}{
		"empty":           {"", "", errEmpty},
		"no islands":      {"root: m\nislands: []\n", "", errEmpty},
		"empty island":    {"root: m\nislands:\n  - name: i\n    nodes: []\n", "line 3: island i", errEmpty},
		"no root":         {"islands:\n  - {name: i, nodes: [a]}\n", "root", errName},
		"root not a name": {"root: [a]\nislands:\n  - {name: i, nodes: [a]}\n", "line 1", errName},
		"node not a name": {"root: m\nislands:\n  - {name: i, nodes: [a, ../b]}\n", `line 3: node "../b"`, errName},
		"dots":            {"root: m\nislands:\n  - {name: i, nodes: [..]}\n", "line 3", errName},
		"null node":       {"root: m\nislands:\n  - {name: i, nodes: [~x, ]}\n", "line 3", errName},
		"island no name":  {"root: m\nislands:\n  - {nodes: [a]}\n", "island", errName},
		"node twice": {
			"root: m\nislands:\n  - {name: i, nodes: [a]}\n  - {name: j, nodes: [a]}\n",
			"line 4: node a", errTwice,
		},
		"island twice": {
			"root: m\nislands:\n  - {name: i, nodes: [a]}\n  - {name: i, nodes: [b]}\n",
			"line 4: island i", errTwice,
		},
		"unknown key": {"root: m\nislands:\n  - {name: i, node: [a]}\n", `line 3: unknown key "node"`, nil},
		"key twice": {
			"root: m\nroot: n\nislands:\n  - {name: i, nodes: [a]}\n",
			`line 2: key "root" is there already at line 1`, nil,
		},
		"not YAML":         {"root: [", "line 1", nil},
		"two documents":    {twoIslands + "---\n" + twoIslands, "more than one", nil},
		"a list, no tree":  {"- a\n", "line 1: expected the keys root and islands, found a list", nil},
		"islands a scalar": {"root: m\nislands: 3\n", "line 2: expected a list of islands, found a single value", nil},
		"island a scalar": {
			"root: m\nislands: [3]\n",
			"line 2: expected an island such as {name: i01, nodes: [n001]}, found a single value", nil,
		},
		"nodes a scalar": {
			"root: m\nislands:\n  - {name: i, nodes: a}\n",
			"line 3: expected a list of names such as [n001, n002], found a single value", nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree, err := ReadYAML(strings.NewReader(tt.text))
			if err == nil || tree != nil {
				t.Fatalf("got %v, %v", tree, err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.names) {
				t.Errorf("error %q: wants %v and %q", err, tt.is, tt.names)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "unmarshal") ||
				strings.Contains(err.Error(), "topology.") {
				t.Errorf("error %q is not in words for whoever wrote the file", err)
			}
		})
	}
}

func TestReadFileNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tree.yaml")
	if _, err := ReadFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("root: m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name %s", err, path)
	}
	if err := os.WriteFile(path, []byte(twoIslands), 0o600); err != nil {
		t.Fatal(err)
	}
	if tree, err := ReadFile(path); err != nil || len(tree.Nodes()) != 4 {
		t.Errorf("%v, %v", tree, err)
	}
}

func TestFlat(t *testing.T) {
	tree := Flat([]string{"b", "a", "b"})
	if diff := cmp.Diff([]string{"b", "a"}, tree.Nodes()); diff != "" {
		t.Error(diff)
	}
	if i, ok := tree.Island("a"); !ok || i != 0 || len(tree.Islands()) != 1 {
		t.Error("a flat tree has one island")
	}
}

func TestRegular(t *testing.T) {
	tree := Regular(2, 1)
	if got := shape(tree); got != "root(i0(n0-0 n0-1) i1(n1-0))" {
		t.Error(got)
	}
	if i, ok := tree.Island("n1-0"); !ok || i != 1 {
		t.Errorf("node n1-0 is on island %d, there: %v", i, ok)
	}
}

func FuzzReadYAML(f *testing.F) {
	f.Add(twoIslands)
	f.Add("root: &r m\nislands: [{name: *r, nodes: [a, *r]}]")
	f.Add("<<: *x")
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := ReadYAML(strings.NewReader(text))
		if (tree == nil) == (err == nil) {
			t.Fatalf("tree %v, error %v", tree, err)
		}
		if tree == nil {
			return
		}
		if again := Flat(tree.Nodes()); len(again.Nodes()) != len(tree.Nodes()) || len(tree.Nodes()) == 0 {
			t.Fatal("a node is there twice, or none is")
		}
		for _, n := range tree.Nodes() {
			if i, ok := tree.Island(n); !ok || i >= len(tree.Islands()) || !naming.Valid(n) {
				t.Fatalf("node %q has no island or no name", n)
			}
		}
	})
}

// TestExampleIsValid: what an administrator copies must load.
func TestExampleIsValid(t *testing.T) {
	tree, err := ReadFile("../deploy/config/tree.yaml")
	if err != nil || len(tree.Nodes()) != 8 || len(tree.Islands()) != 2 {
		t.Errorf("%v, %v", tree, err)
	}
}

// distance is PerSyst's topological distance of two nodes or vertices. It is how far the farther of them is from the
// root of the smallest subtree that holds both. So a vertex is at 1 from its children, and two nodes at one switch are
// at 1 from each other. A name that both a node and a vertex have is the node's. ok is false where the tree does not
// have one of them.
func (t *Tree) distance(a, b string) (distance int, ok bool) {
	x, okA := t.find(a)
	y, okB := t.find(b)
	if !okA || !okB {
		return 0, false
	}
	deepest := max(t.vertices[x].depth, t.vertices[y].depth)
	for x != y {
		if t.vertices[x].depth >= t.vertices[y].depth {
			x = t.vertices[x].parent
		} else {
			y = t.vertices[y].parent
		}
	}
	return int(deepest - t.vertices[x].depth), true
}

func (t *Tree) find(name string) (int32, bool) {
	if v, ok := t.leaf[name]; ok {
		return v, true
	}
	v, ok := t.inner[name]
	return v, ok
}

// TestPath: a path begins at an island, and a root is on the paths of its own nodes alone.
func TestPath(t *testing.T) {
	tree, err := ReadYAML(strings.NewReader(`
root: m
islands:
  - {name: i, nodes: [a], islands: [{name: s, nodes: [b], racks: [r]}]}
  - {name: j, nodes: [c]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"a": "i a", "b": "i s b", "c": "j c"} {
		v, _ := tree.Index(node)
		var names []string
		for _, v := range tree.Path(v) {
			names = append(names, tree.vertices[v].name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("path of %s: %s, want %s", node, got, want)
		}
	}
	v, ok := tree.Rack("r")
	if !ok || tree.vertices[v].name != "s" || tree.VertexIsland(v) != 0 {
		t.Errorf("rack r: vertex %d, %v", v, ok)
	}
	tree = Flat([]string{"x"})
	if v, _ := tree.Index("x"); len(tree.Path(v)) != 2 {
		t.Errorf("the path of a flat tree: %v", tree.Path(v))
	}
}
