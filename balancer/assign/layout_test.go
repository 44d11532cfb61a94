package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/topology"
)

func TestLayout(t *testing.T) {
	tests := map[string]struct {
		sizes      []int
		collectors int
		home, sync []int32
	}{
		"one island":             {[]int{5}, 2, []int32{0, 0, 0, 1, 1}, []int32{0, 0}},
		"as many":                {[]int{1, 3}, 2, []int32{0, 1, 1, 1}, []int32{0, 1}},
		"more go to the fullest": {[]int{2, 5}, 4, []int32{0, 0, 1, 1, 2, 2, 3}, []int32{0, 1, 1, 1}},
		"more than nodes":        {[]int{1, 1}, 5, []int32{0, 3}, []int32{0, 0, 0, 1, 1}},
		"fewer":                  {[]int{2, 2, 4}, 2, []int32{0, 0, 0, 0, 1, 1, 1, 1}, []int32{0, 1}},
		"fewer, a giant":         {[]int{1, 1, 9, 1}, 3, []int32{0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}, []int32{0, 1, 2}},
		"one collector":          {[]int{1, 2}, 1, []int32{0, 0, 0}, []int32{0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := NewLayout(topology.Regular(tt.sizes...), tt.collectors, nil)
			if diff := cmp.Diff(tt.home, l.Home); diff != "" {
				t.Errorf("home: %s", diff)
			}
			if diff := cmp.Diff(tt.sync, l.Sync); diff != "" {
				t.Errorf("sync: %s", diff)
			}
		})
	}
}

func TestLayoutOfPlaces(t *testing.T) {
	tests := map[string]struct {
		sizes, places []int
		home, sync    []int32
	}{
		"each in its island": {[]int{3, 3}, []int{1, 0}, []int32{1, 1, 1, 0, 0, 0}, []int32{1, 0}},
		"two in one":         {[]int{4, 2}, []int{0, 1, 0}, []int32{0, 0, 2, 2, 1, 1}, []int32{0, 1, 0}},
		"an island without":  {[]int{2, 4, 3}, []int{0, 1}, []int32{0, 0, 1, 1, 1, 1, 0, 0, 0}, []int32{0, 1}},
		"unknown: where nodes are": {
			[]int{2, 6},
			[]int{None, 0, None},
			[]int32{1, 1, 0, 0, 0, 2, 2, 2},
			[]int32{1, 0, 1},
		},
		"all unknown, as without": {
			[]int{2, 4},
			[]int{None, None, None},
			[]int32{0, 0, 1, 1, 2, 2},
			[]int32{0, 1, 1},
		},
		"all in one, others far off": {[]int{2, 2}, []int{0, 0}, []int32{0, 1, 0, 0}, []int32{0, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree := topology.Regular(tt.sizes...)
			places := slices.Clone(tt.places)
			for c, island := range places {
				if island != None {
					node, _ := tree.Index(fmt.Sprintf("n%d-0", island))
					places[c] = tree.Path(node)[0]
				}
			}
			l := NewLayout(tree, len(places), places)
			if diff := cmp.Diff(tt.home, l.Home); diff != "" {
				t.Errorf("home: %s", diff)
			}
			if diff := cmp.Diff(tt.sync, l.Sync); diff != "" {
				t.Errorf("sync: %s", diff)
			}
			if l.Deeper != nil {
				t.Errorf("three levels have become more: %v", l.Deeper)
			}
		})
	}
}

const deepTree = `
root: machine
islands:
  - name: i
    nodes: [login]
    islands:
      - {name: i1, nodes: [a, b], racks: [r1]}
      - {name: i2, nodes: [c, d, e, f], racks: [r2]}
      - {name: i3, nodes: [g, h, k]}
  - name: j
    racks: [r4]
    islands:
      - {name: j1, islands: [{name: j11, nodes: [m, n], racks: [r3]}, {name: j12, nodes: [o, p]}]}
      - {name: j2, nodes: [q, s]}
`

// TestLayoutAtDepth: below an island, a collector is home to the nodes that it stands beside.
func TestLayoutAtDepth(t *testing.T) {
	tree, err := topology.ReadYAML(strings.NewReader(deepTree))
	if err != nil {
		t.Fatal(err)
	}
	const u = "" // of unknown place
	tests := map[string]struct {
		racks  []string
		home   string // of the nodes in tree order
		sync   []int32
		deeper [][]int32
	}{
		"one in each part": {
			[]string{"r1", "r2", "r3", "r4"}, "1 00 1111 000 22 22 33", []int32{0, 0, 1, 1}, nil,
		},
		"two side by side": {
			[]string{"r1", "r2", "r2", "r4"}, "1 00 1122 000 33 33 33", []int32{0, 0, 0, 1}, [][]int32{{0, 1, 1, 2}},
		},
		"two levels down": {
			[]string{"r3", "r3", "r4", "r1"}, "3 33 3333 333 01 00 22", []int32{1, 1, 1, 0}, [][]int32{{0, 0, 1, 2}},
		},
		"unknown, where they are home": {
			[]string{u, u, u, u, u, u, u, u},
			"0 01 1223 344 55 66 77",
			[]int32{0, 0, 0, 0, 0, 1, 1, 1},
			[][]int32{{0, 1, 2, 3, 4, 5, 5, 6}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			places := make([]int, len(tt.racks))
			for c, rack := range tt.racks {
				places[c] = None
				if v, ok := tree.Rack(rack); ok {
					places[c] = v
				}
			}
			l := NewLayout(tree, len(places), places)
			var home strings.Builder
			for i, c := range l.Home {
				if slices.Contains([]int{1, 3, 7, 10, 12, 14}, i) {
					home.WriteByte(' ')
				}
				fmt.Fprint(&home, c)
			}
			if got := home.String(); got != tt.home {
				t.Errorf("homes %s, want %s", got, tt.home)
			}
			if diff := cmp.Diff(tt.sync, l.Sync); diff != "" {
				t.Errorf("sync: %s", diff)
			}
			if diff := cmp.Diff(tt.deeper, l.Deeper); diff != "" {
				t.Errorf("deeper: %s", diff)
			}
		})
	}
}

func TestLayoutProperties(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		sizes := make([]int, 1+r.IntN(20))
		total := 0
		for i := range sizes {
			sizes[i] = 1 + r.IntN(30)
			total += sizes[i]
		}
		tree, p := topology.Regular(sizes...), 1+r.IntN(40)
		l := NewLayout(tree, p, nil)
		used := map[int32]map[int]bool{}
		for i, n := range l.Nodes {
			island, _ := tree.Island(n)
			if used[l.Home[i]] == nil {
				used[l.Home[i]] = map[int]bool{}
			}
			used[l.Home[i]][island] = true
			if l.Home[i] < 0 || int(l.Home[i]) >= p || i > 0 && l.Home[i] < l.Home[i-1] {
				t.Fatalf("seed %d: homes %v are not contiguous in 0 to %d", seed, l.Home, p-1)
			}
			if p >= len(sizes) && int(l.Sync[l.Home[i]]) != island {
				t.Fatalf("seed %d: a home crosses islands", seed)
			}
		}
		if p <= len(sizes) && len(used) != p {
			t.Fatalf("seed %d: %d of %d collectors have an island", seed, len(used), p)
		}
	}
	if l := NewLayout(topology.Flat(nil), 3, nil); len(l.Home) != 0 || len(l.Sync) != 3 {
		t.Error("an empty tree has a layout too")
	}
}
