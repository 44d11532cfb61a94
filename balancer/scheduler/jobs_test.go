package scheduler

import (
	order "cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

func at(ms int64) *int64 { return new(ms) }

func job(id string, nodes ...string) Job { return Job{Job: schemas.Job{JobID: id, Nodes: nodes}} }

func lasts(j Job, start, end *int64) Job {
	j.Start, j.End = start, end
	return j
}

func on(j Job, cpus ...int32) Job {
	j.Cpus = cpus
	return j
}

func TestPlannedJobsHaveTheWholeInterval(t *testing.T) {
	jobs := []Job{
		job("ever", "a"),
		lasts(job("from-start", "a"), at(1000), nil),
		lasts(job("too-late", "a"), at(1001), nil),
		lasts(job("to-the-end", "a"), at(0), at(2000)),
		lasts(job("too-early", "a"), at(0), at(1999)),
		{Job: schemas.Job{JobID: "waits", Nodes: []string{"a"}, State: schemas.StatePending}},
	}
	var got []string
	for _, j := range Planned(jobs, 1000, 1000) {
		got = append(got, j.JobID)
	}
	if diff := cmp.Diff([]string{"ever", "from-start", "to-the-end"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAdmit(t *testing.T) {
	tree := topology.Flat([]string{"a", "b", "c"})
	tests := map[string]struct {
		jobs   []Job
		reason string // of the last job; empty: it is good
	}{
		"good":         {[]Job{job("1", "a", "b")}, ""},
		"unknown node": {[]Job{job("1", "a", "x")}, "unknown node x"},
		"no nodes":     {[]Job{job("1")}, "no nodes"},
		"node twice":   {[]Job{job("1", "a", "a")}, "node a is there twice"},
		"id":           {[]Job{job("_1", "a")}, "not a job's name"},
		"cpu negative": {[]Job{on(job("1", "a"), -1)}, "cpu -1"},
		"cpu twice":    {[]Job{on(job("1", "a"), 2, 2)}, "cpu 2"},
		"ends before":  {[]Job{lasts(job("1", "a"), at(5), at(4))}, "ends before"},
		"same id":      {[]Job{job("1", "a"), job("1", "b")}, "same id"},
		"another restart": {[]Job{
			job("1", "a"),
			{Job: schemas.Job{JobID: "1", Restart: 1, Nodes: []string{"b"}}},
		}, ""},
		"both whole":          {[]Job{job("1", "a"), job("2", "b", "a")}, "node a"},
		"whole after cpus":    {[]Job{on(job("1", "a"), 0), job("2", "a")}, "node a"},
		"cpus after whole":    {[]Job{job("1", "a"), on(job("2", "a"), 0)}, "node a"},
		"disjoint cpus":       {[]Job{on(job("1", "a"), 0, 1), on(job("2", "a"), 2)}, ""},
		"one cpu in both":     {[]Job{on(job("1", "a"), 0, 1), on(job("2", "a"), 2, 1)}, "node a"},
		"one after the other": {[]Job{lasts(job("1", "a"), at(0), at(5)), lasts(job("2", "a"), at(5), nil)}, ""},
		"overlapping by 1 ms": {
			[]Job{lasts(job("1", "a"), at(0), at(6)), lasts(job("2", "a"), at(5), nil)},
			"node a",
		},
		"before one that is open": {[]Job{lasts(job("1", "a"), at(9), nil), lasts(job("2", "a"), at(5), at(9))}, ""},
		"a skipped one holds nothing": {
			[]Job{job("1", "a"), job("2", "a", "b"), job("3", "b")}, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			good, faults := admit(tree, tt.jobs, time.UnixMilli(7))
			last := tt.jobs[len(tt.jobs)-1]
			if tt.reason == "" {
				if len(good) == 0 || good[len(good)-1].JobID != last.JobID {
					t.Fatalf("left out: %v", faults)
				}
				return
			}
			if len(faults) != 1 || faults[0].JobID != last.JobID || !strings.Contains(faults[0].Reason, tt.reason) {
				t.Errorf("faults %v, want %q", faults, tt.reason)
			}
		})
	}
}

func TestStates(t *testing.T) {
	now := time.UnixMilli(100)
	for state, j := range map[string]Job{
		schemas.StateRunning:   lasts(job("1"), at(100), at(101)),
		schemas.StatePending:   lasts(job("1"), at(101), nil),
		schemas.StateCompleted: lasts(job("1"), at(0), at(100)),
	} {
		if got := stateAt(&j, now); got != state {
			t.Errorf("%s, want %s", got, state)
		}
	}
	if got := stateAt(&Job{Job: schemas.Job{State: schemas.StatePending}}, now); got != schemas.StatePending {
		t.Errorf("a job that waits is %s", got)
	}
}

// checkRecords wants that what is said of jobs can be a record, and be read again.
func checkRecords(t *testing.T, jobs []Job, faults []Fault) {
	t.Helper()
	all := slices.Clone(jobs)
	for _, f := range faults {
		all = append(all, Job{Job: schemas.Job{JobID: "x", State: schemas.StateSkipped, Reason: f.Reason}})
	}
	for i := range all {
		value, err := schemas.Marshal(&all[i].Job)
		if err == nil {
			_, err = schemas.Unmarshal(value)
		}
		if err != nil {
			t.Fatalf("%+v: %v", all[i], err)
		}
	}
}

// busyMachine returns jobs of one node each, in the order of their starts, of which all can be followed.
func busyMachine(kind string, jobs int) (*topology.Tree, []Job) {
	const cores = 128
	all := make([]Job, jobs)
	names := map[string]bool{}
	for i := range all {
		start := int64(i) * 10
		j := Job{Job: schemas.Job{JobID: strconv.Itoa(i), Start: &start, State: schemas.StateRunning}}
		node, first, last := i/cores, i%cores, i%cores
		switch kind {
		case "last starts first": // ten whole nodes in turn
			start, last = int64(jobs-i)*10, -1
			node, j.End = i/10, new(start+10)
		case "half nodes":
			node, first = i/2, i%2*cores/2
			last = first + cores/2 - 1
		case "one after the other": // two jobs a core
			node = i / (2 * cores)
			if i%(2*cores) < cores {
				j.End = at(int64(i+cores) * 10)
			}
		case "whole nodes":
			node, last = i, -1
		case "whole after cores": // ten whole ones in turn where 128 jobs had a core each
			node = i / (cores + 10)
			if at := i % (cores + 10); at >= cores {
				first, last = 0, -1
			} else {
				first, last = at, at
			}
			j.End = new(start + 1)
		}
		for c := first; c <= last; c++ {
			j.Cpus = append(j.Cpus, int32(c))
		}
		if j.End != nil {
			j.State = schemas.StateCompleted
		}
		j.Nodes = []string{fmt.Sprintf("n%06d", node)}
		names[j.Nodes[0]] = true
		all[i] = j
	}
	return topology.Flat(slices.Sorted(maps.Keys(names))), all
}

var busyKinds = []string{
	"one core each", "last starts first", "half nodes", "one after the other", "whole nodes", "whole after cores",
}

// TestAdmitRemembersLittle: every plan admits all jobs, and what is allocated for each CPU of each costs seconds at
// 100,000 jobs.
func TestAdmitRemembersLittle(t *testing.T) {
	count := 100_000
	if kafkatest.Raced {
		count = 20_000
	}
	for _, kind := range busyKinds {
		tree, jobs := busyMachine(kind, count)
		var good []Job
		allocated := testing.AllocsPerRun(1, func() { good, _ = admit(tree, jobs, time.UnixMilli(10_000_000)) })
		if len(good) != len(jobs) || allocated > 1.2*float64(len(jobs)) {
			t.Errorf("%s: %d of %d jobs are followed, with %.0f allocations", kind, len(good), len(jobs), allocated)
		}
		if &good[0] != &jobs[0] {
			t.Errorf("%s: a list of which nothing changes was copied", kind)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	for _, kind := range busyKinds {
		b.Run(kind, func(b *testing.B) {
			tree, jobs := busyMachine(kind, 100_000)
			for b.Loop() {
				if good, _ := admit(tree, jobs, time.UnixMilli(10_000_000)); len(good) != len(jobs) {
					b.Fatalf("%d jobs are followed", len(good))
				}
			}
		})
	}
}

// TestAdmitEqualsClaims: what admit says of jobs is what Claims says of all of them in turn, in any order of their
// starts. One seed is fixed, since the test counts the jobs that it refused.
func TestAdmitEqualsClaims(t *testing.T) {
	if refused := admitLikeClaims(t, 1); refused < 1000 {
		t.Errorf("only %d jobs were refused", refused)
	}
	admitLikeClaims(t, uint64(time.Now().UnixNano()))
}

func admitLikeClaims(t *testing.T, seed uint64) (refused int) {
	t.Helper()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	nodes := []string{"a", "b", "c", "d"}
	tree := topology.Flat(nodes)
	for range 3000 {
		var jobs []Job
		for i := range 1 + rnd.IntN(12) {
			j := Job{Job: schemas.Job{JobID: strconv.Itoa(rnd.IntN(14)), Nodes: slices.Clone(nodes[rnd.IntN(4):])}}
			if rnd.IntN(6) > 0 {
				j.Start = at(int64(rnd.IntN(20)))
				if rnd.IntN(3) > 0 {
					j.End = at(*j.Start + int64(rnd.IntN(4)))
				}
			}
			for range rnd.IntN(3) {
				j.Cpus = append(j.Cpus, int32(rnd.IntN(5)*1500))
			}
			slices.Sort(j.Cpus)
			if j.Cpus = slices.Compact(j.Cpus); rnd.IntN(4) == 0 {
				slices.Reverse(j.Cpus)
			}
			if j.Start != nil {
				j.State = []string{"", schemas.StateRunning, schemas.StateCompleted}[rnd.IntN(3)]
			}
			if j.Start != nil && rnd.IntN(5) == 0 {
				j.Held = map[string]Hold{j.Nodes[0]: {Cpus: j.Cpus, Since: *j.Start + int64(rnd.IntN(3))}}
			}
			if jobs = append(jobs, j); i%2 == 0 {
				slices.SortFunc(jobs, func(a, b Job) int { return order.Compare(Life(&a).Start, Life(&b).Start) })
			}
		}
		want, taken, seen := map[int]string{}, Claims{}, map[schemas.JobKey]bool{}
		for i := range jobs {
			switch conflict := taken.Conflict(&jobs[i]); {
			case seen[jobs[i].Identity()]:
				want[i] = "same id"
			case conflict != "":
				want[i] = conflict
			default:
				seen[jobs[i].Identity()] = true
				taken.Add(&jobs[i])
			}
		}
		given := slices.Clone(jobs)
		good, faults := admit(tree, jobs, time.UnixMilli(7))
		if !reflect.DeepEqual(given, jobs) { // cmp is only asked for the difference: it is slow
			t.Fatalf("the source's own list is changed: %s", cmp.Diff(given, jobs))
		}
		var follow []Job
		for i, j := range given {
			if _, fault := want[i]; !fault {
				j.State = stateAt(&j, time.UnixMilli(7))
				follow = append(follow, j)
			}
		}
		if len(follow)+len(good) > 0 && !reflect.DeepEqual(follow, good) {
			t.Fatal(cmp.Diff(follow, good))
		}
		refused += len(faults)
		if len(good) != len(jobs)-len(want) || len(faults) != len(want) {
			t.Fatalf("%+v: %d are followed, faults %v, want %v", jobs, len(good), faults, want)
		}
		for k, i := range slices.Sorted(maps.Keys(want)) {
			if f := faults[k]; f.JobID != jobs[i].JobID || !strings.Contains(f.Reason, want[i]) {
				t.Fatalf("%+v: fault %v, want %q", jobs, f, want[i])
			}
		}
	}
	return refused
}
