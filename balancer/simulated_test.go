package balancer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// TestSimulatedMix plans every interval as the balancer does, and looks at what comes out.
func TestSimulatedMix(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	sizes := []int{500, 999, 1000, 2000}
	for n := scheduler.MinSimulated; n <= 400; n++ {
		if n <= 64 || n%8 == 0 || !kafkatest.Raced {
			sizes = append(sizes, n)
		}
	}
	for _, n := range sizes {
		for _, host := range []string{"", "first", "last"} {
			steps := 24
			if n > 64 {
				steps = 2
			}
			simulate(t, n, host, steps)
		}
	}
}

func simulate(t *testing.T, n int, host string, steps int) {
	t.Helper()
	var nodes []string
	for i := range n {
		nodes = append(nodes, fmt.Sprintf("sim%04d", i))
	}
	all, source := nodes, scheduler.Source(scheduler.NewSimulated(nodes, 5*time.Second))
	switch host {
	case "first":
		all, source = append([]string{"host"}, nodes...), scheduler.Join(scheduler.Fixed(job("host", "host")), source)
	case "last":
		all, source = append(append([]string{}, nodes...), "host"),
			scheduler.Join(scheduler.Fixed(job("host", "host")), source)
	}
	tree := topology.Flat(all)
	l, lMax := assign.NewLayout(tree, 4, nil), max(2, n/4)
	lim := assign.Limits{LMax: lMax, LDist: max(1, lMax*9/10)}
	const ms = 5000
	ended, seen, log := 0, map[string]bool{}, routeLog{}
	for step := range int64(steps) {
		start := (350_000_000 + int64(n)*7 + step) * ms
		good, faults := scheduler.Ask(source, tree, time.UnixMilli(start+ms-1000))
		if len(faults) > 0 {
			t.Fatalf("N %d, interval %d: %v", n, start, faults)
		}
		jobs := scheduler.Planned(good, start, ms)
		routes, verdict := plan(l, jobs, nil, lim, log)
		if verdict.Overloaded {
			t.Fatalf("N %d, interval %d: overloaded", n, start)
		}
		changed, _ := log.changes(routes, start, step)
		for _, c := range changed {
			log.add(c)
		}
		after, _ := scheduler.Ask(source, tree, time.UnixMilli(start+ms+1000))
		lives := map[schemas.JobKey]scheduler.Span{}
		for i := range after {
			lives[after[i].Identity()] = scheduler.Life(&after[i])
		}
		split, local, exact, idle, shared := 0, 0, 0, 0, 0
		parts := map[string]map[int32]bool{}
		for _, r := range routes {
			for _, e := range r.Entries {
				if parts[e.JobID] == nil {
					parts[e.JobID] = map[int32]bool{}
				}
				parts[e.JobID][e.Partition] = true
			}
			if len(r.Entries) == 2 {
				shared++
			} else if len(r.Entries) == 0 {
				idle++
			}
		}
		for _, j := range jobs {
			seen[j.JobID] = true
			switch k := len(parts[j.JobID]); {
			case len(j.Nodes) == n/3:
				split++
				if k < 2 || len(j.Nodes) <= lMax {
					t.Fatalf("N %d (host %s): the big job is in %d parts", n, host, k)
				}
			case k != 1:
				t.Fatalf("N %d (host %s), interval %d: job %s of %d nodes is in %d parts",
					n, host, start, j.JobID, len(j.Nodes), k)
			case len(j.Nodes) == 1 && j.JobID != "host":
				local++
			case len(j.Nodes) > 1:
				exact++
			}
		}
		if split != 1 || local < 2 || exact < 2 || idle < 1 || shared != 1 {
			t.Fatalf("N %d, interval %d: %d split, %d local, %d exact, %d idle, %d shared",
				n, start, split, local, exact, idle, shared)
		}
		for _, tick := range ticks(closing{
			start: start, ms: ms, collectors: 4, routes: routes, lives: lives,
			planned: true,
		}) {
			for _, j := range tick.Jobs {
				if j.Parts == 0 {
					ended++
				}
			}
		}
	}
	if steps >= 12 && (ended < 4 || len(seen) < 10) {
		t.Fatalf("N %d: %d jobs ended within an interval, %d jobs seen", n, ended, len(seen))
	}
}

func TestSimulatedNeedsNoPast(t *testing.T) {
	var nodes []string
	for i := range 16 {
		nodes = append(nodes, fmt.Sprint("n", i))
	}
	now := time.UnixMilli(1_700_000_123_456)
	a, _ := scheduler.NewSimulated(nodes, time.Second).Jobs(now)
	later := scheduler.NewSimulated(nodes, time.Second)
	later.Jobs(now.Add(-time.Hour))
	b, _ := later.Jobs(now)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
	for _, few := range []int{0, 1, 5} { // too few for the mix, but no reason to panic
		scheduler.NewSimulated(nodes[:few], time.Second).Jobs(now)
	}
}
