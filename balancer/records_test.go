package balancer

import (
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

func TestJobChanges(t *testing.T) {
	running, waiting, over := job("run", "a"), job("wait", "b"), job("over", "c")
	running.State, waiting.State, over.State = stateRunning, statePending, stateCompleted
	there := map[schemas.JobKey]jobRecord{}
	publish := func(jobs []schemas.Job, faults ...Fault) string {
		t.Helper()
		want, err := jobRecords(jobs, faults)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := jobChanges(there, want)
		if err != nil {
			t.Fatal(err)
		}
		applyJobs(there, want, changes)
		var said []string
		for _, c := range changes {
			if c.value == nil {
				said = append(said, keyOf(&c.job).String()+" goes")
			} else {
				said = append(said, keyOf(&c.job).String()+" "+c.job.State)
			}
		}
		return strings.Join(said, ", ")
	}
	steps := []struct {
		jobs   []schemas.Job
		faults []Fault
		want   string
	}{
		{[]schemas.Job{running, waiting, over}, nil, "over/0 COMPLETED, run/0 RUNNING, wait/0 PENDING"},
		{
			[]schemas.Job{running, waiting, over},
			[]Fault{{"run", 0, "same id"}, {"bad", 2, "r"}, {"?", 0, "no id"}},
			"_fault-1/0 SKIPPED, _fault-2/0 SKIPPED, bad/2 SKIPPED",
		},
		{[]schemas.Job{over}, []Fault{{"", 0, "no YAML"}}, "_fault-1/0 goes, _fault-2/0 goes, _jobs-file/0 SKIPPED, bad/2 goes"},
		{[]schemas.Job{over}, nil, "_jobs-file/0 goes, run/0 COMPLETED, wait/0 goes"},
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
