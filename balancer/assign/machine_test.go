package assign

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMUCJobs: on a machine of any size the jobs are exclusive, take most nodes and are as many as its size tells.
func TestMUCJobs(t *testing.T) {
	sizes := []int{9288, 9408, 11136}
	for n := 16; n <= 400; n++ {
		sizes = append(sizes, n)
	}
	for n := 401; n < 9000; n += 331 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		jobs := MUCJobs(n)
		holds, taken := make([]bool, n), 0
		for _, nodes := range jobs {
			if len(nodes) == 0 || !slices.IsSorted(nodes) {
				t.Fatalf("%d nodes: a job has %v", n, nodes)
			}
			for _, k := range nodes {
				if holds[k] {
					t.Fatalf("%d nodes: two jobs have node %d", n, k)
				}
				holds[k] = true
				taken++
			}
		}
		if want := max(4, (n*185+4644)/9288); len(jobs) != want {
			t.Errorf("%d nodes have %d jobs, want %d", n, len(jobs), want)
		}
		if 4*(taken+1) < 3*n {
			t.Errorf("%d of %d nodes have a job", taken, n)
		}
	}
	if n := len(MUCJobs(9288)); n != 185 {
		t.Errorf("%d jobs, want 185", n)
	}
	if diff := cmp.Diff(MUCJobs(100), MUCJobs(100)); diff != "" {
		t.Error(diff)
	}
	one := 0
	jobs := MUCJobs(78_125)
	for _, nodes := range jobs {
		if len(nodes) == 1 {
			one++
		}
	}
	if share := float64(one) / float64(len(jobs)); share < 0.04 || share > 0.08 {
		t.Errorf("%.3f of the jobs have one node, want 0.06", share)
	}
}
