package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/topology"
)

func simulatedNodes(n int) (nodes []string) {
	for i := range n {
		nodes = append(nodes, fmt.Sprintf("sim%04d", i+1))
	}
	return nodes
}

// TestSuperMUC: at any time the jobs are exclusive, and about as many as the paper has. In an interval 2 % of them end
// and as many begin.
func TestSuperMUC(t *testing.T) {
	const ms = 5000
	nodes := simulatedNodes(9288)
	tree := topology.Flat(nodes)
	source := NewSuperMUC(nodes, 16, ms*time.Millisecond)
	seen := map[string]bool{}
	begun, ended, most := 0, 0, 0
	const intervals = 40
	for i := range int64(4 * intervals) {
		now := time.UnixMilli((350_000_000*4+i)*ms/4 + 3)
		running, held := 0, 0
		jobs, faults := Ask(source, tree, now) // two jobs on a node would be a fault
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		for j := range jobs {
			job := &jobs[j]
			if job.End != nil && *job.End <= now.UnixMilli() {
				if seen[job.JobID] {
					ended++
				}
				delete(seen, job.JobID)
				continue
			}
			if job.End != nil {
				t.Fatalf("the end of %s is known in advance", job.JobID)
			}
			if *job.Cores != int64(16*len(job.Nodes)) || !*job.Exclusive || len(job.Cpus) > 0 {
				t.Fatalf("%s has %d cores on %d nodes", job.JobID, *job.Cores, len(job.Nodes))
			}
			if i > 0 && !seen[job.JobID] {
				begun++
			}
			seen[job.JobID] = true
			running, held = running+1, held+len(job.Nodes)
		}
		if most = max(most, running); running < 180 || 4*held < 3*9288-400 {
			t.Errorf("%d jobs run on %d nodes", running, held)
		}
	}
	if most != 185 {
		t.Errorf("at most %d jobs run at a time", most)
	}
	for what, n := range map[string]int{"begin": begun, "end": ended} {
		if share := float64(n) / intervals / 185; share < 0.015 || share > 0.025 {
			t.Errorf("%.3f of the jobs %s in an interval", share, what)
		}
	}
}

// TestSuperMUCNeedsNoPast: the jobs depend on the time and the machine alone.
func TestSuperMUCNeedsNoPast(t *testing.T) {
	for _, n := range []int{MinSimulated, 17, 100, 1000} {
		nodes, now := simulatedNodes(n), time.UnixMilli(1_700_000_123_456)
		a, _ := NewSuperMUC(nodes, 96, time.Second).Jobs(now)
		later := NewSuperMUC(nodes, 96, time.Second)
		later.Jobs(now.Add(-time.Hour))
		b, _ := later.Jobs(now)
		if diff := cmp.Diff(a, b); diff != "" || len(a) < 4 {
			t.Errorf("%d nodes, %d jobs: %s", n, len(a), diff)
		}
	}
}
