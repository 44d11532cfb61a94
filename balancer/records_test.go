package balancer

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

func TestJobChanges(t *testing.T) {
	running, waiting, over := job("run", "a"), job("wait", "b"), job("over", "c")
	running.State, waiting.State, over.State = schemas.StateRunning, schemas.StatePending, schemas.StateCompleted
	there := map[schemas.JobKey]jobRecord{}
	publish := func(jobs []scheduler.Job, faults ...scheduler.Fault) string {
		t.Helper()
		want := jobRecords(jobs, faults)
		changes := jobChanges(1_700_000_000_000, there, want)
		applyJobs(there, want, changes)
		var said []string
		for _, c := range changes {
			if c.value == nil {
				said = append(said, c.job.Identity().String()+" goes")
			} else {
				said = append(said, c.job.Identity().String()+" "+c.job.State)
			}
		}
		return strings.Join(said, ", ")
	}
	steps := []struct {
		jobs   []scheduler.Job
		faults []scheduler.Fault
		want   string
	}{
		{[]scheduler.Job{running, waiting, over}, nil, "over/0 COMPLETED, run/0 RUNNING, wait/0 PENDING"},
		{
			[]scheduler.Job{running, waiting, over},
			[]scheduler.Fault{
				{JobID: "run", Reason: "same id"},
				{JobID: "bad", Restart: 2, Reason: "r"},
				{JobID: "?", Reason: "no id"},
			},
			"_fault-1/0 SKIPPED, _fault-2/0 SKIPPED, bad/2 SKIPPED",
		},
		{
			[]scheduler.Job{over},
			[]scheduler.Fault{{Reason: "no YAML"}},
			"_fault-1/0 goes, _fault-2/0 goes, _jobs-file/0 SKIPPED, bad/2 goes",
		},
		{[]scheduler.Job{over}, nil, "_jobs-file/0 goes, run/0 COMPLETED, wait/0 goes"},
		{nil, nil, ""},
	}
	for i, s := range steps {
		if got := publish(s.jobs, s.faults...); got != s.want {
			t.Errorf("step %d: %s; want %s", i, got, s.want)
		}
	}
	if len(there) != 0 {
		t.Errorf("remembered for ever: %v", there)
	}
}

// TestUnlistedJobsEnd: a job that no list names any more has an end, which is no later than when that was noticed. How
// a job ended stays as its source said.
func TestUnlistedJobsEnd(t *testing.T) {
	const now = 1_700_000_000_000
	endless, ahead, late, failed := job("endless", "a"), job("ahead", "b"), job("late", "c"), job("failed", "d")
	for _, j := range []*scheduler.Job{&endless, &ahead, &late} {
		j.State = schemas.StateRunning
	}
	ahead.End, late.Start = new(int64(now+1000)), new(int64(now+5))
	failed.State, failed.End = schemas.StateFailed, new(int64(5))
	there := jobRecords([]scheduler.Job{endless, ahead, late, failed}, nil)
	changes := jobChanges(now, there, nil)
	want := map[string]int64{"endless": now, "ahead": now, "late": now + 5}
	if len(changes) != len(want) {
		t.Errorf("%d changes: %v", len(changes), changes)
	}
	for _, c := range changes {
		if c.job.State != schemas.StateCompleted || c.job.End == nil || *c.job.End != want[c.job.JobID] ||
			!strings.HasPrefix(c.job.Reason, "no list names it any more") {
			t.Errorf("%+v", c.job)
		}
	}
	if over := applyJobs(there, nil, changes); len(over) != 4 || len(there) != 0 {
		t.Errorf("%v are over, %v stay", over, there)
	}
}

// TestCoresOfJobs: a job that has the same CPUs on all of its nodes has so many in all.
func TestCoresOfJobs(t *testing.T) {
	part, whole, said, changed := job("part", "a", "b"), job("whole", "c"), job("said", "d"), job("changed", "e", "f")
	part.Cpus, said.Cpus, changed.Cpus = []int32{0, 1, 2}, []int32{0}, []int32{0}
	said.Cores, changed.Held = new(int64(7)), map[string]scheduler.Hold{"e": {}}
	for id, r := range jobRecords([]scheduler.Job{part, whole, said, changed}, nil) {
		want := map[string]int64{"part": 6, "said": 7}[id.JobID]
		if got := r.job.Cores; (got == nil) != (want == 0) || got != nil && *got != want {
			t.Errorf("%s has %v cores, want %d", id.JobID, got, want)
		}
	}
}

// TestJobRecordsCountGPUs: a job whose GPUs are listed has as many as the lists, unless its source says how many.
func TestJobRecordsCountGPUs(t *testing.T) {
	every, each, said := job("every", "a", "b", "c"), job("each", "a", "b"), job("said", "a")
	every.GPUs = map[string][]int32{"": {0, 1}}
	each.GPUs = map[string][]int32{"a": {0, 1, 2}, "b": {3}}
	said.GPUs, said.Gpus = map[string][]int32{"": {0}}, new(int32(4))
	for id, r := range jobRecords([]scheduler.Job{every, each, said, job("none", "a")}, nil) {
		want, known := map[string]int32{"every": 3 * 2, "each": 3 + 1, "said": 4}[id.JobID]
		if got := r.job.Gpus; known != (got != nil) || known && *got != want {
			t.Errorf("%s has %v GPUs, want %d", id.JobID, got, want)
		}
	}
}

// TestJobRecordsSayWhatIsInDoubt: of a job that is followed all the same, whoever asks for jobs reads why it is not as
// it was given.
func TestJobRecordsSayWhatIsInDoubt(t *testing.T) {
	running := job("run", "a")
	running.State = schemas.StateRunning
	faults := []scheduler.Fault{
		{JobID: "run", Reason: "its end is missing", Followed: true},
		{JobID: "none", Reason: "nobody follows it", Followed: true},
	}
	want := jobRecords([]scheduler.Job{running}, faults)
	if got := want[running.Identity()].job; len(want) != 1 || got.State != schemas.StateRunning ||
		got.Reason != "its end is missing" {
		t.Errorf("%+v", want)
	}
}

// TestFaultsInTheLog: a list that cannot be read is no job that is skipped, nor is a job of which something is in
// doubt.
func TestFaultsInTheLog(t *testing.T) {
	var out kafkatest.Log
	registry := prometheus.NewRegistry()
	b := newBalancer(config.Default(), sixNodes(), asked{
		[]scheduler.Job{job("run", "a"), job("clash", "a")},
		[]scheduler.Fault{
			{Reason: "no YAML"},
			{JobID: "bad", Reason: "no nodes"},
			{JobID: "run", Reason: "no end", Followed: true},
		},
	}, out.Logger(), NewMetrics(registry))
	b.jobs(time.Now())
	if skipped := shown(t, registry)["jobs SKIPPED"]; skipped != 2 {
		t.Errorf("%v jobs are shown as skipped", skipped)
	}
	b.metrics.standsBy()
	b.jobs(time.Now())
	for _, line := range []string{
		`level=WARN msg="list of jobs cannot be read" reason="no YAML"`,
		`level=WARN msg="job skipped" job_id=bad restart=0 reason="no nodes"`,
		`level=WARN msg="job skipped" job_id=clash restart=0 reason="node a is held`,
		`level=WARN msg="job is followed, but not as it is given" job_id=run restart=0 reason="no end"`,
		`level=INFO msg="jobs skipped in all" count=2 jobs=1 jobs_in_doubt=1 lists_unreadable=1`,
	} {
		if out.Count(line) != 1 {
			t.Errorf("%d times %s in:\n%s", out.Count(line), line, out.String())
		}
	}
}

// asked is a source that always says the same.
type asked struct {
	jobs   []scheduler.Job
	faults []scheduler.Fault
}

func (a asked) Jobs(time.Time) ([]scheduler.Job, []scheduler.Fault) { return a.jobs, a.faults }
