package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

func at(ms int64) *int64 { return new(ms) }

func job(id string, nodes ...string) schemas.Job { return schemas.Job{JobID: id, Nodes: nodes} }

func lasts(j schemas.Job, start, end *int64) schemas.Job {
	j.Start, j.End = start, end
	return j
}

func on(j schemas.Job, cpus ...int32) schemas.Job {
	j.Cpus = cpus
	return j
}

func TestPlannedJobsHaveTheWholeInterval(t *testing.T) {
	jobs := []schemas.Job{
		job("ever", "a"),
		lasts(job("from-start", "a"), at(1000), nil),
		lasts(job("too-late", "a"), at(1001), nil),
		lasts(job("to-the-end", "a"), at(0), at(2000)),
		lasts(job("too-early", "a"), at(0), at(1999)),
		{JobID: "waits", Nodes: []string{"a"}, State: schemas.StatePending},
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
		jobs   []schemas.Job
		reason string // of the last job; empty: it is good
	}{
		"good":                    {[]schemas.Job{job("1", "a", "b")}, ""},
		"unknown node":            {[]schemas.Job{job("1", "a", "x")}, "unknown node x"},
		"no nodes":                {[]schemas.Job{job("1")}, "no nodes"},
		"node twice":              {[]schemas.Job{job("1", "a", "a")}, "node a is there twice"},
		"id":                      {[]schemas.Job{job("_1", "a")}, "not a job's name"},
		"cpu negative":            {[]schemas.Job{on(job("1", "a"), -1)}, "cpu -1"},
		"cpu twice":               {[]schemas.Job{on(job("1", "a"), 2, 2)}, "cpu 2"},
		"ends before":             {[]schemas.Job{lasts(job("1", "a"), at(5), at(4))}, "ends before"},
		"same id":                 {[]schemas.Job{job("1", "a"), job("1", "b")}, "same id"},
		"another restart":         {[]schemas.Job{job("1", "a"), {JobID: "1", Restart: 1, Nodes: []string{"b"}}}, ""},
		"both whole":              {[]schemas.Job{job("1", "a"), job("2", "b", "a")}, "node a"},
		"whole after cpus":        {[]schemas.Job{on(job("1", "a"), 0), job("2", "a")}, "node a"},
		"cpus after whole":        {[]schemas.Job{job("1", "a"), on(job("2", "a"), 0)}, "node a"},
		"disjoint cpus":           {[]schemas.Job{on(job("1", "a"), 0, 1), on(job("2", "a"), 2)}, ""},
		"one cpu in both":         {[]schemas.Job{on(job("1", "a"), 0, 1), on(job("2", "a"), 2, 1)}, "node a"},
		"one after the other":     {[]schemas.Job{lasts(job("1", "a"), at(0), at(5)), lasts(job("2", "a"), at(5), nil)}, ""},
		"overlapping by 1 ms":     {[]schemas.Job{lasts(job("1", "a"), at(0), at(6)), lasts(job("2", "a"), at(5), nil)}, "node a"},
		"before one that is open": {[]schemas.Job{lasts(job("1", "a"), at(9), nil), lasts(job("2", "a"), at(5), at(9))}, ""},
		"a skipped one holds nothing": {
			[]schemas.Job{job("1", "a"), job("2", "a", "b"), job("3", "b")}, "",
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
	for state, j := range map[string]schemas.Job{
		schemas.StateRunning:   lasts(job("1"), at(100), at(101)),
		schemas.StatePending:   lasts(job("1"), at(101), nil),
		schemas.StateCompleted: lasts(job("1"), at(0), at(100)),
	} {
		if got := stateAt(&j, now); got != state {
			t.Errorf("%s, want %s", got, state)
		}
	}
	if got := stateAt(&schemas.Job{State: schemas.StatePending}, now); got != schemas.StatePending {
		t.Errorf("a job that waits is %s", got)
	}
}

// randomMix returns jobs that admit takes: exclusive ones and some that share nodes.

// checkRecords wants that what is said of jobs can be a record, and be read again.
func checkRecords(t *testing.T, jobs []schemas.Job, faults []Fault) {
	t.Helper()
	all := slices.Clone(jobs)
	for _, f := range faults {
		all = append(all, schemas.Job{JobID: "x", State: schemas.StateSkipped, Reason: f.Reason})
	}
	for i := range all {
		value, err := schemas.Marshal(&all[i])
		if err == nil {
			_, err = schemas.Unmarshal(value)
		}
		if err != nil {
			t.Fatalf("%+v: %v", all[i], err)
		}
	}
}
