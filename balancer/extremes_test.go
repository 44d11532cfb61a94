package balancer

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// crowd is so many jobs on each of some nodes, of one core each; the nodes have homes in turn.
func crowd(nodes, jobs, collectors int) (routes []schemas.Route) {
	for n := range nodes {
		r := schemas.Route{Node: fmt.Sprintf("n%d", n), Home: int32(n % collectors)}
		for j := range jobs {
			r.Entries = append(r.Entries, schemas.RouteEntry{
				JobID: fmt.Sprint(n*jobs + j), Cpus: []int32{int32(j)}, Partition: r.Home, Mode: schemas.ModeLocal,
			})
		}
		routes = append(routes, r)
	}
	return routes
}

// TestTicksOfManyJobsAreTaken: whatever the mix of jobs, a collector reads what the balancer writes, and every job
// once.
func TestTicksOfManyJobsAreTaken(t *testing.T) {
	t.Parallel()
	homes := 1000
	if kafkatest.Raced {
		homes = 100
	}
	for name, routes := range map[string][]schemas.Route{
		"12,544 one-core jobs on 392 nodes":    crowd(392, 32, 2),
		"20,000 one-node jobs in a partition":  crowd(20_000, 1, 1),
		"128 jobs on each of many homes":       crowd(homes, 128, 1),
		"4,096 one-core jobs on a node":        crowd(1, 4096, 1),
		"no job, and no node":                  nil,
		"jobs at home and elsewhere, all busy": append(crowd(300, 64, 2), crowd(300, 64, 2)...),
	} {
		collectors := 1
		for i := range routes {
			collectors = max(collectors, int(routes[i].Home)+1)
			if i%3 == 0 && collectors > 1 { // a job that is not at home
				routes[i].Entries[0].Partition = 1 - routes[i].Home
			}
			if strings.HasPrefix(name, "jobs at home") && i >= 300 {
				routes[i].Node += "b"
				for k := range routes[i].Entries {
					routes[i].Entries[k].JobID += "b"
				}
			}
		}
		for _, want := range ticks(closing{
			start: 5000, ms: 5000, collectors: collectors, routes: routes,
			planned: true,
		}) {
			values, left, err := encodeTick(want)
			if err != nil || len(left) > 0 {
				t.Fatalf("%s: left %v, error %v", name, left, err)
			}
			got := want
			got.Jobs, got.Shared = nil, nil
			for i, value := range values {
				record, err := schemas.Unmarshal(value)
				if err != nil {
					t.Fatalf("%s: part %d of %d: %v", name, i+1, len(values), err)
				}
				part := record.(*schemas.Tick)
				if len(value) > tickBytes || part.More != (i+1 < len(values)) || part.IntervalStart != 5000 ||
					part.IntervalMs != 5000 {
					t.Errorf("%s: part %d of %d has %d bytes, more %v", name, i+1, len(values), len(value), part.More)
				}
				got.Jobs, got.Shared = append(got.Jobs, part.Jobs...), append(got.Shared, part.Shared...)
				if want := sharedBy(part.Jobs, want.Shared); !slices.Equal(part.Shared, want) {
					t.Errorf("%s: part %d shares %d nodes, its jobs %d", name, i+1, len(part.Shared), len(want))
				}
			}
			slices.Sort(got.Shared)
			if got.Shared = slices.Compact(got.Shared); len(got.Shared) == 0 {
				got.Shared = want.Shared
			}
			if !reflect.DeepEqual(want, got) {
				t.Errorf("%s: the parts have %d jobs that are not the Tick's %d, or other nodes",
					name, len(got.Jobs), len(want.Jobs))
			}
		}
	}
}

// TestSharedNodes: exactly the nodes that several partitions list are named, in each of these.
func TestSharedNodes(t *testing.T) {
	entry := func(id string, p int32) schemas.RouteEntry {
		return schemas.RouteEntry{JobID: id, Cpus: []int32{1}, Partition: p, Mode: schemas.ModeCollect}
	}
	routes := []schemas.Route{
		{Node: "a", Home: 0, Entries: []schemas.RouteEntry{entry("here", 0)}},
		{Node: "b", Home: 0, Entries: []schemas.RouteEntry{entry("there", 1), entry("too", 1)}},
		// No _rest.
		{Node: "c", Home: 1, Entries: []schemas.RouteEntry{{JobID: "whole", Partition: 0, Mode: schemas.ModeCollect}}},
		{Node: "d", Home: 2, Entries: []schemas.RouteEntry{entry("here", 0), entry("there", 1)}},
	}
	var got []string
	for _, tick := range ticks(closing{start: 1000, ms: 1000, collectors: 3, routes: routes, planned: true}) {
		got = append(got, strings.Join(tick.Shared, " "))
	}
	if text := strings.Join(got, "; "); text != "b d; b d; d" {
		t.Errorf("shared nodes are %s", text)
	}
}

func longName(kind string, i int) string {
	return fmt.Sprintf("%s%s%06d", kind, strings.Repeat("x", 57), i)
}

// refusing plans for a machine with one collector, as the active balancer does.
func refusing(
	nodes []string, jobs ...scheduler.Job,
) (jobsLeft []scheduler.Job, faults []scheduler.Fault, changed []schemas.Route) {
	cfg := config.Default()
	cfg.Collectors, cfg.Balance.LMax = 1, 1_000_000
	b := newBalancer(cfg, topology.Flat(nodes), scheduler.Fixed(jobs...), slog.New(slog.DiscardHandler), unseen())
	m := &memory{routes: routeLog{}, loads: newLoads(1)}
	good, faults := scheduler.Ask(b.source, b.tree, time.Now())
	changed, _ = b.decide(m, good, faults, 10_000)
	_, changed, more := b.routeRecords(m, changed)
	jobsLeft, faults = b.without(good, append(faults, more...))
	return jobsLeft, faults, changed
}

// TestJobThatFitsNoTickIsRefused: a job of 64,000 nodes with long names at one collector is refused when it is planned,
// with the remedy. The others go on.
func TestJobThatFitsNoTickIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	nodes := []string{"a"}
	for i := range 64_000 {
		nodes = append(nodes, longName("n", i))
	}
	jobs, faults, changed := refusing(nodes, job("huge", nodes[1:]...), job("one", "a"))
	if len(jobs) != 1 || jobs[0].JobID != "one" || len(faults) != 1 || faults[0].JobID != "huge" ||
		!strings.Contains(faults[0].Reason, "more collectors, or a smaller balance.l_max") {
		t.Errorf("%d jobs, faults %.300v", len(jobs), faults)
	}
	if len(changed) != len(nodes) || len(changed[0].Entries) != 1 || len(changed[1].Entries) != 0 {
		t.Errorf("%d Routes", len(changed))
	}
	record := jobRecords(jobs, faults)[schemas.JobKey{JobID: "huge"}]
	if record.job.State != schemas.StateSkipped || record.value == nil {
		t.Errorf("shown as %.300v", record.job)
	}
}

// TestRouteOfVeryManyJobs: a node takes as many jobs as its Route has room for; those beyond are refused, by name.
func TestRouteOfVeryManyJobs(t *testing.T) {
	t.Parallel()
	counts := map[int]bool{4096: false}
	if !kafkatest.Raced {
		counts[60_000] = true
	}
	for count, refused := range counts {
		var jobs []scheduler.Job
		for i := range count {
			jobs = append(jobs, on(job(longName("j", i), "a"), int32(i)))
		}
		good, faults, changed := refusing([]string{"a", "b"}, append(jobs, job("beside", "b"))...)
		if refused != (len(faults) > 0) || len(good)+len(faults) != count+1 || len(changed) != 2 ||
			len(changed[0].Entries) != len(good)-1 || len(changed[1].Entries) != 1 {
			t.Errorf("%d jobs: %d are followed, %d are refused", count, len(good), len(faults))
		}
		if refused && !strings.Contains(faults[0].Reason, "node a has 60000 jobs, more than one Route takes") {
			t.Error(faults[0])
		}
		if _, err := schemas.MarshalChecked(&changed[0]); err != nil {
			t.Error(err)
		}
	}
}

// TestTickLeavesOutWhatFitsNowhere: a share that nobody refused, as of Routes of before, costs its own job only.
func TestTickLeavesOutWhatFitsNowhere(t *testing.T) {
	t.Parallel()
	tick := tick0(1000)
	huge := schemas.TickJob{JobID: "huge", Parts: 1, JobNodes: 70_000}
	for i := range 70_000 {
		huge.Nodes = append(huge.Nodes, longName("n", i))
	}
	tick.Jobs = []schemas.TickJob{
		{JobID: "a", Parts: 1, JobNodes: 1, Nodes: []string{"x"}},
		huge,
		{JobID: "z", Parts: 1, JobNodes: 1, Nodes: []string{"y"}},
	}
	for from, want := range map[int]string{0: "a z", 1: "z"} {
		part := tick
		part.Jobs = tick.Jobs[from:]
		values, left, err := encodeTick(part)
		if err != nil || len(left) != 1 || left[0].job.JobID != "huge" {
			t.Fatalf("left %v, error %v", left, err)
		}
		var ids []string
		for i, value := range values {
			record, err := schemas.Unmarshal(value)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range record.(*schemas.Tick).Jobs {
				ids = append(ids, j.JobID)
			}
			if record.(*schemas.Tick).More != (i+1 < len(values)) {
				t.Errorf("part %d of %d: more", i+1, len(values))
			}
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("listed %v, want %s", ids, want)
		}
	}
}

// TestJobRecordsAreTaken: texts that a source let through, and more nodes than a record takes, neither stop the others
// nor the job.
func TestJobRecordsAreTaken(t *testing.T) {
	t.Parallel()
	wide := job("wide")
	for i := range 70_000 {
		wide.Nodes = append(wide.Nodes, longName("n", i))
	}
	odd := job("odd", "a")
	odd.Name, odd.User, odd.Account, odd.Queue = "J\xf6rg", strings.Repeat("é", 5000), "\xff",
		strings.Repeat("q", 1<<20)
	faults := []scheduler.Fault{{JobID: "bad", Reason: strings.Repeat("r\xe9", 1<<20)}}
	unanswered := "Slurm has not answered:\n\tslurm_load_jobs error: \x1b[31mtimed out"
	faults = append(faults, scheduler.Fault{Reason: unanswered})
	want := jobRecords([]scheduler.Job{wide, odd, job("well", "b")}, faults)
	for id, nodes := range map[string]int{"wide": 0, "odd": 1, "well": 1, "bad": 0, schemas.JobOfLists: 0} {
		record, err := schemas.Unmarshal(want[schemas.JobKey{JobID: id}].value)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		j := record.(*schemas.Job)
		if len(j.Nodes) != nodes || len(j.Name)+len(j.User)+len(j.Account)+len(j.Queue) > 4*maxTextBytes ||
			len(j.Reason) > maxReasonBytes {
			t.Errorf("%s: %d nodes, reason %.80s", id, len(j.Nodes), j.Reason)
		}
		if id == "wide" && !strings.Contains(j.Reason, "its 70000 nodes are not shown") {
			t.Error(j.Reason)
		}
	}
}

// TestStateFromTheFutureIsIgnored: a balancer whose clock was two hours ahead holds up nobody. Routes of then are
// written anew, behind a tombstone, so that agents forget them; jobs stay where they were.
func TestStateFromTheFutureIsIgnored(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	ms := cfg.Interval.Milliseconds()
	ahead := (time.Now().UnixMilli() + 2*3600*1000) / ms * ms
	source := scheduler.Fixed(job("big", "a", "b", "c"))
	produce(t, cfg, &schemas.BalanceState{Epoch: 70, IntervalStart: ahead, IntervalMs: ms})
	for _, n := range []string{"a", "b", "c", "d", "left"} {
		r := &schemas.Route{Node: n, Epoch: 71, IntervalStart: ahead + ms}
		if n < "d" {
			r.Entries = []schemas.RouteEntry{{JobID: "big", Partition: 2, Mode: schemas.ModeCollect}}
		}
		produceRoute(t, cfg, r)
	}
	r := newReader(t, cfg)
	var out kafkatest.Log
	up := time.Now()
	background(t, func(ctx context.Context) error { return Run(ctx, cfg, sixNodes(), source, out.Logger(), unseen()) })
	r.until("Ticks of now, and all Routes", func() bool {
		return len(r.ticks[0]) > 2 && len(r.routes) == 7 && len(r.gone) == 5 &&
			min(len(r.routes["a"]), len(r.routes["b"]), len(r.routes["c"]), len(r.routes["d"])) > 1
	})
	for _, tick := range r.ticks[0] {
		if tick.IntervalStart > time.Now().UnixMilli() || tick.IntervalStart < up.UnixMilli()-ms {
			t.Errorf("a Tick of %d, started at %d", tick.IntervalStart, up.UnixMilli())
		}
	}
	for _, n := range []string{"a", "b", "c", "d"} {
		of := r.routes[n]
		last := of[len(of)-1]
		if len(of) != 2 || last.IntervalStart > time.Now().UnixMilli() || last.Epoch <= 71 {
			t.Errorf("node %s has %d Routes, the last of %d, epoch %d", n, len(of), last.IntervalStart, last.Epoch)
		}
		if n < "d" && (len(last.Entries) != 1 || last.Entries[0].Partition != 2) {
			t.Errorf("job big moved on node %s: %v", n, last.Entries)
		}
	}
	if gone := r.gone; !slices.Equal(slices.Sorted(slices.Values(gone)), []string{"a", "b", "c", "d", "left"}) {
		t.Errorf("tombstones of %v", gone)
	}
	if out.Count("state from the future is ignored") != 1 {
		t.Errorf("not logged once:\n%s", out.String())
	}
}

// TestRouteBeforeTheFutureStays: agents leave a Route from the future out, and send by the one before it. So do the
// Ticks.
func TestRouteBeforeTheFutureStays(t *testing.T) {
	now := &schemas.Route{
		Node: "a", Epoch: 1, IntervalStart: 1000, Home: 1,
		Entries: []schemas.RouteEntry{{JobID: "j", Partition: 1}},
	}
	future := &schemas.Route{Node: "a", Epoch: 2, IntervalStart: 9_000_000, Entries: []schemas.RouteEntry{{JobID: "k"}}}
	l := routeLog{}
	l.add(*now)
	l.addUntimed(*future)
	if at := l.at(2000); len(at) != 1 || at[0].Epoch != 1 {
		t.Errorf("in force: %v", at)
	}
	if !l.isUntimed("a") {
		t.Error("the next plan would keep it")
	}
	if epoch, start := l.last(); epoch != 2 || start != 1000 {
		t.Errorf("epoch %d, planned %d", epoch, start)
	}
	l.add(schemas.Route{Node: "a", Epoch: 3, IntervalStart: 3000})
	for start, epoch := range map[int64]int64{2000: 1, 3000: 3, 10_000_000: 3} {
		if at := l.at(start); len(at) != 1 || at[0].Epoch != epoch {
			t.Errorf("in force at %d: %v, want epoch %d", start, at, epoch)
		}
	}
	l.forget(3000)
	if len(l["a"]) != 1 {
		t.Errorf("kept: %v", l["a"])
	}
}

// TestLastEpoch: a record with the last epoch that there is stops neither plans nor Ticks.
func TestLastEpoch(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	ms := cfg.Interval.Milliseconds()
	produce(t, cfg, &schemas.BalanceState{
		Epoch: schemas.MaxEpoch, IntervalStart: time.Now().UnixMilli()/ms*ms - ms,
		IntervalMs: ms,
	})
	produceRoute(t, cfg, &schemas.Route{Node: "left", Epoch: schemas.MaxEpoch})
	r := newReader(t, cfg)
	background(t, func(ctx context.Context) error {
		return Run(ctx, cfg, sixNodes(), scheduler.Fixed(job("big", "a", "b", "c")), slog.New(slog.DiscardHandler),
			unseen())
	})
	r.until("Routes and Ticks", func() bool { return len(r.ticks[0]) > 3 && len(r.routes) == 7 })
	if last := r.routes["a"]; len(last) != 1 || len(last[0].Entries) != 1 {
		t.Errorf("Routes of node a: %v", last)
	}
}

// TestStandbyIsLogged: a second balancer logs that it stands by, once, and when it takes over.
func TestStandbyIsLogged(t *testing.T) {
	t.Parallel()
	_, cfg := broker(t)
	r := newReader(t, cfg)
	var first, second kafkatest.Log
	run := func(l *kafkatest.Log) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return Run(ctx, cfg, sixNodes(), scheduler.Fixed(), l.Logger(), unseen())
		}
	}
	stop := background(t, run(&first))
	r.until("a Tick", r.atLeast(1))
	background(t, run(&second))
	kafkatest.Eventually(t, "the standby", func() bool { return second.Count("balancer stands by") == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, "its turn", func() bool { return second.Count("balancer is active") == 1 })
	if first.Count("stands by") != 0 || second.Count("stands by") != 1 {
		t.Errorf("first:\n%s\nsecond:\n%s", first.String(), second.String())
	}
}
