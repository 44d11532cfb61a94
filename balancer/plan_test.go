package balancer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

func job(id string, nodes ...string) scheduler.Job {
	return scheduler.Job{Job: schemas.Job{JobID: id, Nodes: nodes}}
}

func lasts(j scheduler.Job, start, end *int64) scheduler.Job {
	j.Start, j.End = start, end
	return j
}

func on(j scheduler.Job, cpus ...int32) scheduler.Job {
	j.Cpus = cpus
	return j
}

func randomMix(r *rand.Rand, tree *topology.Tree) []scheduler.Job {
	nodes := tree.Nodes()
	var jobs []scheduler.Job
	for i := range r.IntN(12) {
		j := job(fmt.Sprintf("j%d", i))
		for _, n := range r.Perm(len(nodes))[:1+r.IntN(1+r.IntN(len(nodes)))] {
			j.Nodes = append(j.Nodes, nodes[n])
		}
		if r.IntN(3) == 0 {
			j.Cpus = []int32{int32(r.IntN(4))}
		}
		jobs = append(jobs, j)
	}
	good, _ := scheduler.Ask(scheduler.Fixed(jobs...), tree, time.UnixMilli(0))
	return good
}

// TestPlanAndTicksAgree checks that every node of every job is in exactly one partition's Tick, with the right numbers.
// _rest is expected from exactly the nodes that send it.
func TestPlanAndTicksAgree(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		sizes := make([]int, 1+r.IntN(5))
		for i := range sizes {
			sizes[i] = 1 + r.IntN(12)
		}
		tree, p := topology.Regular(sizes...), 1+r.IntN(8)
		jobs := randomMix(r, tree)
		lMax := 2 + r.IntN(20)
		lim := assign.Limits{LMax: lMax, LDist: 1 + r.IntN(lMax), LocalMax: r.IntN(4) - 1, Literal: seed%3 == 0}
		log := routeLog{}
		routes, _ := plan(assign.NewLayout(tree, p, nil), jobs, nil, lim, log)
		changed, gone := log.changes(routes, 1000, 1)
		if len(changed) != len(tree.Nodes()) || len(gone) != 0 {
			t.Fatalf("seed %d: %d Routes for %d nodes", seed, len(changed), len(tree.Nodes()))
		}
		for _, c := range changed {
			if err := c.Validate(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			log.add(c)
		}
		same, _ := plan(assign.NewLayout(tree, p, nil), jobs, nil, lim, log)
		if again, gone := log.changes(same, 2000, 2); len(again)+len(gone) > 0 {
			t.Fatalf("seed %d: the same plan changes %v", seed, again)
		}
		all := ticks(closing{start: 1000, ms: 1000, collectors: p, routes: log.at(1000), planned: true})
		listed, parts := map[string][]string{}, map[string]int32{}
		for _, tick := range all {
			if err := tick.Validate(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for _, j := range tick.Jobs {
				listed[j.JobID] = append(listed[j.JobID], j.Nodes...)
				parts[j.JobID]++
			}
		}
		want := map[string]int{}
		for _, j := range jobs {
			want[j.JobID] = len(j.Nodes)
		}
		for i := range routes {
			if routes[i].SendsRest() {
				want[schemas.JobRest]++
			}
		}
		if len(listed) != len(want) {
			t.Fatalf("seed %d: %d jobs listed, want %d", seed, len(listed), len(want))
		}
		for _, tick := range all {
			for _, j := range tick.Jobs {
				if int(j.JobNodes) != want[j.JobID] || len(listed[j.JobID]) != want[j.JobID] ||
					j.Parts != parts[j.JobID] {
					t.Fatalf("seed %d: %+v, want %d nodes over %d parts", seed, j, want[j.JobID], parts[j.JobID])
				}
			}
		}
	}
}

func TestChanges(t *testing.T) {
	tree := topology.Flat([]string{"a", "b", "c"})
	lim, log := assign.Limits{LMax: 2, LDist: 1}, routeLog{}
	publish := func(start, epoch int64, jobs ...scheduler.Job) (nodes []string, gone []string) {
		want, _ := plan(assign.NewLayout(tree, 2, nil), jobs, nil, lim, log)
		changed, gone := log.changes(want, start, epoch)
		for _, r := range changed {
			log.add(r)
			nodes = append(nodes, r.Node)
		}
		return nodes, gone
	}
	if nodes, _ := publish(10, 1); len(nodes) != 3 {
		t.Errorf("the first plan has Routes for %v", nodes)
	}
	if nodes, gone := publish(20, 2); len(nodes)+len(gone) != 0 {
		t.Errorf("the same plan changes %v, %v", nodes, gone)
	}
	if nodes, _ := publish(30, 2, on(job("1", "b"), 3, 1)); !cmp.Equal(nodes, []string{"b"}) {
		t.Errorf("a job on b changes %v", nodes)
	}
	if nodes, _ := publish(40, 3, on(job("1", "b"), 1, 3)); len(nodes) != 0 {
		t.Errorf("the same cpus in another order change %v", nodes)
	}
	if r := log["b"][1]; r.Epoch != 2 || r.IntervalStart != 30 || r.Entries[0].Mode != schemas.ModeLocal ||
		r.Entries[0].Partition != r.Home {
		t.Errorf("the Route of a job of one node: %+v", r)
	}
	// The past is judged by the Routes of its time, and forgotten once it is closed.
	if len(log.at(20)[1].Entries) != 0 || len(log.at(30)[1].Entries) != 1 || len(log.at(5)) != 3 {
		t.Error("a Route is in force before its time, or not in it")
	}
	log.forget(30)
	if len(log["b"]) != 1 || len(log["a"]) != 1 || log["b"][0].IntervalStart != 30 {
		t.Errorf("after forgetting: %+v", log)
	}
	if epoch, start := log.last(); epoch != 2 || start != 30 {
		t.Errorf("last: epoch %d, interval %d", epoch, start)
	}
	tree = topology.Flat([]string{"a", "b"})
	if nodes, gone := publish(50, 3, on(job("1", "b"), 3, 1)); !cmp.Equal(gone, []string{"c"}) ||
		!cmp.Equal(nodes, []string{"b"}) {
		t.Errorf("without c, b has a home of its own: %v, gone %v", nodes, gone)
	}
}

// A node that left the machine is in the Ticks of the intervals that it was there for, and in none after.
func TestTicksOfANodeThatLeft(t *testing.T) {
	l := routeLog{}
	l.add(schemas.Route{Node: "n", Epoch: 1, IntervalStart: 1000, Home: 1})
	l.end("n", 3000)
	for start, want := range map[int64]int{1000: 1, 2000: 1, 3000: 0, 4000: 0} {
		if got := len(l.at(start)); got != want {
			t.Errorf("interval %d has %d routes, want %d", start, got, want)
		}
	}
	if _, gone := l.changes(nil, 4000, 2); len(gone) != 0 {
		t.Errorf("it is said to be gone again: %v", gone)
	}
	if changed, _ := l.changes([]schemas.Route{{Node: "n", Home: 1}}, 5000, 2); len(changed) != 1 {
		t.Errorf("when it comes back it has no new route")
	}
	l.forget(2000)
	if len(l.at(2000)) != 1 {
		t.Error("forgotten too early")
	}
	if l.forget(3000); len(l) != 0 {
		t.Errorf("never forgotten: %v", l)
	}
}

func TestTicks(t *testing.T) {
	entry := func(id string, p int32, cpus ...int32) schemas.RouteEntry {
		return schemas.RouteEntry{JobID: id, Cpus: cpus, Partition: p, Mode: schemas.ModeCollect}
	}
	routes := []schemas.Route{
		{Node: "a", Epoch: 3, Home: 0, Entries: []schemas.RouteEntry{entry("split", 0)}},
		{Node: "b", Epoch: 4, Home: 0, Entries: []schemas.RouteEntry{entry("ended", 1, 0), entry("split", 1, 1)}},
		{Node: "c", Epoch: 2, Home: 1, Entries: []schemas.RouteEntry{
			entry("before", 1), entry("young", 1, 0),
			entry("elsewhere", 9),
		}},
		{Node: "d", Epoch: 2, Home: 1},
		{Node: "e", Epoch: 2, Home: 7},
	}
	lives := map[schemas.JobKey]scheduler.Span{
		{JobID: "split"}:  {Start: 0, End: 2000},
		{JobID: "ended"}:  {Start: 0, End: 1999},
		{JobID: "before"}: {Start: 0, End: 1000},
		{JobID: "young"}:  {Start: 1001, End: 9000},
	}
	machine := int32(3) // nodes that are listed: a, b and d
	tick := func(jobs ...schemas.TickJob) schemas.Tick {
		return schemas.Tick{IntervalStart: 1000, IntervalMs: 1000, Epoch: 4, Jobs: jobs, MachineNodes: machine}
	}
	split := func(node string) schemas.TickJob {
		return schemas.TickJob{JobID: "split", Parts: 2, JobNodes: 2, Nodes: []string{node}}
	}
	rest := func(node string) schemas.TickJob {
		return schemas.TickJob{JobID: schemas.JobRest, Parts: 2, JobNodes: 2, Nodes: []string{node}}
	}
	ended := schemas.TickJob{JobID: "ended", JobNodes: 1, Nodes: []string{"b"}}
	before := schemas.TickJob{JobID: "before", JobNodes: 1, Nodes: []string{"c"}}
	young := schemas.TickJob{JobID: "young", Parts: 1, JobNodes: 1, Nodes: []string{"c"}}

	c := closing{start: 1000, ms: 1000, collectors: 3, routes: routes, lives: lives}
	want := []schemas.Tick{tick(rest("b"), split("a")), tick(rest("d"), split("b")), tick()}
	want[0].Shared, want[1].Shared = []string{"b"}, []string{"b"}
	if diff := cmp.Diff(want, ticks(c)); diff != "" {
		t.Errorf("nobody planned it: %s", diff)
	}
	c.planned, machine = true, 4 // c too
	want[0], want[1], want[2] = tick(want[0].Jobs...), tick(rest("d"), before, ended, split("b"), young), tick()
	want[0].Shared = []string{"b"}
	want[1].Shared = []string{"b"}
	if diff := cmp.Diff(want, ticks(c)); diff != "" {
		t.Errorf("planned: %s", diff)
	}
	if diff := cmp.Diff([]schemas.Tick{tick0(1000)}, ticks(closing{start: 1000, ms: 1000, collectors: 1})); diff != "" {
		t.Errorf("without Routes: %s", diff)
	}
}

func tick0(start int64) schemas.Tick { return schemas.Tick{IntervalStart: start, IntervalMs: 1000} }

func BenchmarkPlanAndTicks(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 5))
	var nodes []string
	jobs := make([]scheduler.Job, 1000)
	for i := range 10_000 {
		nodes = append(nodes, fmt.Sprintf("n%05d", i))
		j := r.IntN(len(jobs))
		jobs[j].JobID = fmt.Sprintf("j%d", j)
		jobs[j].Nodes = append(jobs[j].Nodes, nodes[i])
	}
	tree := topology.Flat(nodes)
	l := assign.NewLayout(tree, 64, nil)
	for b.Loop() {
		good, _ := scheduler.Ask(scheduler.Fixed(jobs...), tree, time.Now())
		want, _ := plan(l, good, nil, assign.Limits{LMax: 100, LDist: 90}, routeLog{})
		changed, _ := routeLog{}.changes(want, 0, 1)
		ticks(closing{ms: 1000, collectors: 64, routes: changed, planned: true})
	}
}

// TestRoutesHaveGPUs: an entry of a part of a node has the job's GPUs there, and the name of its cgroup. Other GPUs, or
// another name, are another Route. A job that goes on without a list keeps its GPUs.
func TestRoutesHaveGPUs(t *testing.T) {
	tree := topology.Flat([]string{"a", "b", "c"})
	l, lim := assign.NewLayout(tree, 2, nil), assign.Limits{LMax: 10}
	left, right, whole := on(job("left", "a", "b"), 0, 1), on(job("right", "a"), 2, 3), job("whole", "c")
	left.GPUs, left.Cgroup = map[string][]int32{"": {0, 1}, "b": {3}}, "s5K1KKYAYG5D00"
	right.GPUs = map[string][]int32{"a": {2}}
	whole.GPUs = map[string][]int32{"": {0}} // it holds all CPUs, and so all GPUs
	jobs := []scheduler.Job{left, right, whole}
	log := routeLog{}
	add := func(start int64, jobs []scheduler.Job) []schemas.Route {
		routes, _ := plan(l, jobs, nil, lim, log)
		changed, _ := log.changes(routes, start, start)
		for i := range changed {
			log.add(changed[i])
		}
		return changed
	}
	if changed := add(1, jobs); len(changed) != 3 {
		t.Fatalf("%+v", changed)
	}
	check := func(start int64, want ...schemas.RouteEntry) {
		t.Helper()
		var got []schemas.RouteEntry
		for _, r := range log.at(start) {
			for _, e := range r.Entries {
				got = append(got, schemas.RouteEntry{JobID: e.JobID, Cpus: e.Cpus, Gpus: e.Gpus, Cgroup: e.Cgroup})
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("interval %d: %s", start, diff)
		}
	}
	onA := schemas.RouteEntry{JobID: "left", Cpus: []int32{0, 1}, Gpus: []int32{0, 1}, Cgroup: "s5K1KKYAYG5D00"}
	onB, all := onA, schemas.RouteEntry{JobID: "whole"}
	onB.Gpus = []int32{3}
	beside := schemas.RouteEntry{JobID: "right", Cpus: []int32{2, 3}, Gpus: []int32{2}}
	check(1, onA, beside, onB, all)
	if changed := add(2, jobs); len(changed) != 0 {
		t.Errorf("nothing has changed: %+v", changed)
	}
	if changed := add(3, log.carried(l, nil, nil, nil)); len(changed) != 0 {
		t.Errorf("nobody lists the jobs, and their Routes changed: %+v", changed)
	}
	jobs[1].GPUs = map[string][]int32{"a": {2, 3}}
	beside.Gpus = []int32{2, 3}
	if changed := add(4, jobs); len(changed) != 1 || changed[0].Node != "a" {
		t.Errorf("other GPUs on a: %+v", changed)
	}
	check(4, onA, beside, onB, all)
	jobs[0].Cgroup, onA.Cgroup, onB.Cgroup = "", "", ""
	if changed := add(5, jobs); len(changed) != 2 {
		t.Errorf("another cgroup on a and b: %+v", changed)
	}
	check(5, onA, beside, onB, all)
}

// TestCarriedJobs: of the jobs on the Routes those go on that nobody names, where nobody else is.
func TestCarriedJobs(t *testing.T) {
	tree := topology.Flat([]string{"a", "b", "c", "d", "e"})
	l, lim := assign.NewLayout(tree, 2, nil), assign.Limits{LMax: 10}
	before := []scheduler.Job{
		job("silent", "a", "b", "c"), on(job("shares", "d"), 0, 1), on(job("beside", "d"), 2, 3), job("named", "e"),
	}
	log := routeLog{}
	add := func(start int64, has []scheduler.Job) {
		routes, _ := plan(l, has, nil, lim, log)
		changed, _ := log.changes(routes, start, start)
		for i := range changed {
			log.add(changed[i])
		}
	}
	add(1, before)
	over := lasts(job("named", "e"), new(int64(0)), new(int64(1)))
	fresh := job("fresh", "b")
	for range 2 {
		carried := log.carried(l, []scheduler.Job{over, fresh},
			[]scheduler.Fault{{JobID: "beside", Reason: "skipped"}, {Unread: true}}, []scheduler.Job{fresh})
		want := []scheduler.Job{
			{
				Job:  schemas.Job{JobID: "silent", Nodes: []string{"a", "c"}},
				Held: map[string]scheduler.Hold{"a": {}, "c": {}},
			},
			{
				Job:  schemas.Job{JobID: "shares", Nodes: []string{"d"}},
				Held: map[string]scheduler.Hold{"d": {Cpus: []int32{0, 1}}},
			},
		}
		if diff := cmp.Diff(want, carried, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		add(2, append([]scheduler.Job{fresh}, carried...)) // which makes the Routes of the second time
	}
	if routes := log.at(2); routes[0].Entries[0].JobID != "silent" || routes[1].Entries[0].JobID != "fresh" ||
		len(routes[3].Entries) != 1 || len(routes[4].Entries) != 0 {
		t.Errorf("%+v", routes)
	}
}
