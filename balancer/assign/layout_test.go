package assign

import (
	"math/rand/v2"
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
			l := NewLayout(topology.Regular(tt.sizes...), len(tt.places), tt.places)
			if diff := cmp.Diff(tt.home, l.Home); diff != "" {
				t.Errorf("home: %s", diff)
			}
			if diff := cmp.Diff(tt.sync, l.Sync); diff != "" {
				t.Errorf("sync: %s", diff)
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
