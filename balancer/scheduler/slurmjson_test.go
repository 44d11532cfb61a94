package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

// jsonForms are answers of `scontrol --json --details show job` about a job on two nodes of two sockets. Most keys that
// weir ignores are left out. The forms come from the data_parser of each release.
var jsonForms = map[string]string{
	"23.02": `{"meta": {"Slurm": {"release": "23.02.6"}}, "jobs": [{"account": "a", "name": "x", "job_id": 17,
		"gres_detail": ["gpu:8(IDX:0-1)", ""], "job_resources": {"nodes": "n[1-2]", "allocated_cores": 3,
		"allocated_hosts": 2, "allocated_nodes": [{"sockets": {"0": {"cores": {"1": "allocated"}},
		"1": {"cores": {"0": "allocated_and_in_use"}}}, "nodename": "n1", "cpus_used": 0, "memory_used": 0},
		{"sockets": {"1": {"cores": {"1": "allocated"}}}, "nodename": "n2"}]}, "job_state": "RUNNING",
		"cpus": {"set": true, "infinite": false, "number": 6}, "restart_cnt": 0}], "errors": []}`,
	"23.11": `{"jobs": [{"job_id": 17, "restart_cnt": 0, "gres_detail": ["gpu:8(IDX:0-1)", ""],
		"job_state": ["RUNNING"], "job_resources": {"allocated_cores": 3, "allocated_cpus": 0, "allocated_hosts": 2,
		"allocated_nodes": [{"cpus_used": 0, "nodename": "n1", "sockets": {"0": {"cores": {"1": "allocated"}},
		"1": {"cores": {"0": "allocated"}}}}, {"nodename": "n2", "sockets": {"1": {"cores": {"1": "allocated"}}}}],
		"nodes": "n[1-2]"}}], "last_update": {"set": true, "infinite": false, "number": 1}, "warnings": []}`,
	"24.05": `{"jobs": [{"job_id": 17, "restart_cnt": 0, "gres_detail": ["gpu:8(IDX:0-1)", ""],
		"job_state": ["RUNNING"], "job_resources": {"select_type": ["CORE"], "nodes": {"count": 2,
		"select_type": ["ONE_ROW"], "list": "n[1-2]", "whole": false, "allocation": [
		{"index": 0, "name": "n1", "cpus": {"count": 4, "used": 0}, "sockets": [{"index": 0, "cores": [
		{"index": 0, "status": ["UNALLOCATED"]}, {"index": 1, "status": ["ALLOCATED"]}]}, {"index": 1, "cores": [
		{"index": 0, "status": ["ALLOCATED", "IN_USE"]}, {"index": 1, "status": ["UNALLOCATED"]}]}]},
		{"index": 1, "name": "n2", "sockets": [{"index": 1, "cores": [{"index": 1, "status": ["ALLOCATED"]}]}]}]},
		"cpus": 6, "threads_per_core": {"set": false, "infinite": false, "number": 0}}}], "warnings": []}`,
	"25.11": `{"jobs": [{"job_id": 16, "restart_cnt": 0}, {"job_id": 17, "restart_cnt": 0,
		"gres_detail": ["gpu:8(IDX:0-1)", null], "step_id": {"sluid": "s5K1KKYAYG5D00", "job_id": {"set": true,
		"number": 17}, "step_id": "TBD"}, "job_resources": {"nodes": {"list": "n[1-2]", "allocation": [
		{"name": "n1", "sockets": [{"index": 0, "cores": [{"index": 1, "status": ["ALLOCATED"]}]},
		{"index": 1, "cores": [{"index": 0, "status": ["ALLOCATED"]}]}]}, {"name": "n2", "sockets": [
		{"index": 1, "cores": [{"index": 1, "status": ["ALLOCATED"]}]}]}]}}}]}`,
}

// jsonCase is the row of squeue and the machine of jsonForms.
func jsonCase() (*slurmRow, map[string]slurmNode) {
	shape := slurmNode{cpus: 8, sockets: 2, cores: 4, threads: 2}
	r := &slurmRow{
		job: schemas.Job{JobID: "17", Gpus: new(int32(2))}, cpus: 6, hosts: []string{"n1", "n2"}, state: slurmHolds,
	}
	return r, map[string]slurmNode{"n1": shape, "n2": shape}
}

// TestSlurmJSON: every release's form gives the same CPUs and GPUs, in the numbers of scontrol's text.
func TestSlurmJSON(t *testing.T) {
	r, machine := jsonCase()
	want := newRawAllocation()
	want.cpus = map[string][]int32{"n1": {2, 3, 4, 5}, "n2": {6, 7}}
	want.gpus = map[string][]int32{"n1": {0, 1}}
	for release, text := range jsonForms {
		got, err := parseJobJSON([]byte(text), r, machine)
		if err != nil {
			t.Errorf("%s: %v", release, err)
			continue
		}
		want.sluid = map[string]string{"25.11": "s5K1KKYAYG5D00"}[release]
		diff := cmp.Diff(want, got, cmp.AllowUnexported(rawAllocation{}))
		if misfit := got.misfit(r, machine); diff != "" || misfit != "" {
			t.Errorf("%s: %s\n%s", release, misfit, diff)
		}
	}
}

func TestSlurmJSONThatDoesNotFit(t *testing.T) {
	r, machine := jsonCase()
	lists, keys := jsonForms["24.05"], jsonForms["23.02"]
	none := strings.Replace(keys, `{"1": "allocated"}}}, "nodename": "n2"`, `{}}}, "nodename": "n2"`, 1)
	for _, tt := range []struct{ text, reason string }{
		{`{"jobs": []}`, "does not say which CPUs"},
		{`{"jobs": [{"job_id": 17, "restart_cnt": 0}]}`, "does not say which CPUs"},
		{strings.Replace(lists, `"restart_cnt": 0`, `"restart_cnt": 1`, 1), "requeued"},
		{strings.ReplaceAll(lists, `"n2"`, `"n9"`), `node "n9" has no core`},
		{strings.ReplaceAll(lists, `"n2"`, `"n1"`), `node "n1" is there twice`},
		{strings.Replace(lists, `{"index": 1, "cores"`, `{"index": 2, "cores"`, 1), "no core 0 on a socket 2"},
		{strings.Replace(lists, `"job_id": 17`, `"job_id": 16`, 1), "does not say which CPUs"},
		{strings.Replace(jsonForms["25.11"], `"job_id": 16`, `"job_id": 17`, 1), "there twice"},
		{strings.Replace(keys, `gpu:8(IDX:0-1)`, `gpu:8(IDX:0-3)`, 1), "4 GPUs, where squeue has 2"},
		{none, `"n2" has no CPUs`},
	} {
		got, err := parseJobJSON([]byte(tt.text), r, machine)
		if misfit := got.misfit(r, machine); err != nil || !strings.Contains(misfit, tt.reason) {
			t.Errorf("%s: %q, %v, want %q", tt.text, misfit, err, tt.reason)
		}
	}
	r.cpus = 2 // three cores
	got, err := parseJobJSON([]byte(lists), r, machine)
	if misfit := got.misfit(r, machine); err != nil || !strings.Contains(misfit, "3 cores, where squeue has 2 CPUs") {
		t.Errorf("%q, %v", misfit, err)
	}
	for _, text := range []string{"", "slurm_load_jobs error: Invalid job id specified\n", `{"jobs": [`} {
		if _, err := parseJobJSON([]byte(text), r, machine); !errors.Is(err, errNoJSON) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		`{"jobs": 7}`, `{"jobs": [{"job_id": 17, "job_resources": {"allocated_nodes": 7}}]}`,
	} {
		if _, err := parseJobJSON([]byte(text), r, machine); err == nil || errors.Is(err, errNoJSON) ||
			!strings.Contains(err.Error(), "none that weir knows") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzSlurmJSON: whatever an answer holds, an allocation that is used has CPUs of the job's nodes only.
func FuzzSlurmJSON(f *testing.F) {
	for _, text := range jsonForms {
		f.Add([]byte(text))
	}
	r, machine := jsonCase()
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseJobJSON(text, r, machine)
		if err != nil || s.misfit(r, machine) != "" {
			return
		}
		sum := 0
		for _, h := range r.hosts {
			ids := s.cpus[h]
			if !slices.IsSorted(ids) || len(ids) == 0 || ids[0] < 0 || ids[len(ids)-1] >= 8 {
				t.Fatalf("node %s: %v", h, ids)
			}
			sum += len(ids)
		}
		if sum < 6 || len(s.cpus) != 2 {
			t.Fatalf("%v", s.cpus)
		}
	})
}
