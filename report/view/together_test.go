package view

import (
	"math"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"
)

// shares is a job with shares of idle cores and of memory bandwidth.
func sharesOf(t *testing.T, id string, nodes []string, of config.NodeType, idle float64, bandwidth bool) *Job {
	t.Helper()
	b := NewBuilder(0, 1000, 0)
	row := rowOf("cpu_idle", 0, 1000, []float64{idle, idle, idle, idle})
	b.Row(&row, true)
	if bandwidth {
		row = rowOf("mem_bw", 0, 1000, []float64{50, 50, 50, 50})
		row.Nodes = new(int32(2))
		b.Row(&row, true)
	}
	j := &Job{Cluster: "c", Type: of}
	j.JobID, j.Nodes = id, nodes
	if !b.Into(j) {
		t.Fatal("the job has no interval")
	}
	j.Map = []Property{{Rule: "low-cpu"}}
	return j
}

// TestSeveralJobsSayNoMoreThanEachOfThem: a word is for so many of the jobs, and silence is ok if all were judged.
func TestSeveralJobsSayNoMoreThanEachOfThem(t *testing.T) {
	thin := config.NodeType{Name: "thin", ThreadsPerCore: 1, PeakMemBW: 200}
	jobs := []*Job{
		sharesOf(t, "1", []string{"b", "a"}, thin, 0.5, true), sharesOf(t, "2", []string{"b"}, thin, 0, false),
		sharesOf(t, "3", []string{"c"}, thin, 0, false),
	}
	jobs[0].Findings = []schemas.Finding{
		{JobID: "1", Rule: "idle-cores", State: schemas.FindingOpen, Class: schemas.ClassMed},
		{JobID: "1", Rule: "low-cpu", State: schemas.FindingOpen, Class: schemas.ClassLow},
	}
	lacks := func(why string) []rules.Reason {
		return []rules.Reason{{Rule: "low-use", Why: why}, {Rule: "memory-bound", Why: why}}
	}
	jobs[1].NotEvaluated, jobs[2].NotEvaluated = lacks("no metric mem_bw"), lacks("it requires job.time > 0")
	words := func() (all []string) {
		j, err := Merge(jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range j.Uses() {
			all = append(all, u.Name+" "+u.Word+" "+u.Class)
		}
		return all
	}
	if diff := gocmp.Diff([]string{"busy cores low in 1 of 3 MED", "memory bandwidth of peak "}, words()); diff != "" {
		t.Error(diff)
	}
	j, err := Merge(jobs)
	if err != nil {
		t.Fatal(err)
	}
	why := "in 2 of 3 jobs: no metric mem_bw; or it requires job.time > 0"
	if diff := gocmp.Diff([]rules.Reason{{Rule: "low-use", Why: why}, {Rule: "memory-bound", Why: why}},
		j.NotEvaluated); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]string{"a", "b", "c"}, j.Nodes); diff != "" {
		t.Error(diff)
	}
	if u := j.Uses()[1]; u.Share != 50*2/200.0 { // of the one job that has it
		t.Errorf("memory bandwidth: %+v", u)
	}
	jobs[0].Findings, jobs[1].NotEvaluated, jobs[2].NotEvaluated = nil, nil, nil
	if diff := gocmp.Diff([]string{"busy cores ok ", "memory bandwidth ok "}, words()); diff != "" {
		t.Errorf("all were judged: %s", diff)
	}
	jobs[2].Part = true
	if diff := gocmp.Diff([]string{"busy cores  ", "memory bandwidth of peak "}, words()); diff != "" {
		t.Errorf("rules saw a part of one: %s", diff)
	}
	if u := jobs[2].Uses()[0]; u.Word != "" {
		t.Errorf("rules saw a part of it: %+v", u)
	}
	jobs[2].Part = false
	jobs[1].NotEvaluated = []rules.Reason{{Rule: "idle-cores", Why: "w"}, {Rule: "low-cpu", Why: "w"}}
	if diff := gocmp.Diff([]string{"busy cores  ", "memory bandwidth ok "}, words()); diff != "" {
		t.Errorf("other rules say nothing of all cores: %s", diff)
	}
	jobs[2].Map, jobs[2].Nodes = nil, nil
	if diff := gocmp.Diff([]string{"busy cores  ", "memory bandwidth of peak "}, words()); diff != "" {
		t.Errorf("one has no rules: %s", diff)
	}
	if j, err := Merge(jobs); err != nil || j.Nodes != nil {
		t.Errorf("nodes %v of jobs of which one's are not known, %v", j.Nodes, err)
	}
}

// TestBusyCoresOfSeveralJobs: each job's nodes tell how many hardware threads a core has.
func TestBusyCoresOfSeveralJobs(t *testing.T) {
	thin, smt := config.NodeType{Name: "thin", ThreadsPerCore: 1}, config.NodeType{Name: "smt", ThreadsPerCore: 2}
	j, err := Merge([]*Job{
		sharesOf(t, "1", []string{"a"}, thin, 0.5, false), sharesOf(t, "2", []string{"b"}, smt, 0.5, false),
	})
	if err != nil {
		t.Fatal(err)
	}
	// Each has four logical CPUs. Half of the first job's cores are busy, and all of the second's.
	if got, want := j.BusyCores(), 0.75; math.Abs(got-want) > 1e-12 {
		t.Errorf("busy: %v, want %v", got, want)
	}
}
