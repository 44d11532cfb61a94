package balancer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

const goodFile = `jobs:
  - id: 4711
    restart: 1
    name: cfd
    user: ada
    account: p1
    queue: batch
    nodes: [n001, 017]
    cpus: [0, 1]
    start: 2026-01-31T08:00:00Z
    end: 2026-01-31T10:00:00+01:00
  - id: plain
    nodes:
      - n002
`

func TestParseJobs(t *testing.T) {
	jobs, faults, err := parseJobs([]byte(goodFile))
	if err != nil || len(faults) != 0 {
		t.Fatal(err, faults)
	}
	want := []schemas.Job{
		{
			JobID: "4711", Restart: 1, Name: "cfd", User: "ada", Account: "p1", Queue: "batch", Nodes: []string{"n001", "017"},
			Cpus: []int32{0, 1}, Start: at(1769846400000), End: at(1769850000000),
		},
		{JobID: "plain", Nodes: []string{"n002"}},
	}
	if diff := cmp.Diff(want, jobs); diff != "" {
		t.Error(diff)
	}
}

func TestParseJobsSkipsOnlyWhatIsWrong(t *testing.T) {
	tests := map[string]struct{ job, id, reason string }{
		"unknown key":   {"{id: x, nodes: [a], node: b}", "x", `line 2: unknown key "node"`},
		"key twice":     {"{id: x, nodes: [a], nodes: [b]}", "", "already defined"},
		"no id":         {"{nodes: [a]}", noID, `line 2: id "?"`},
		"pseudo-job":    {"{id: _rest, nodes: [a]}", "_rest", "not a job's name"},
		"no nodes":      {"{id: x}", "x", "no nodes"},
		"nodes a text":  {"{id: x, nodes: a}", "x", "line 2"},
		"start":         {"{id: x, nodes: [a], start: 2026-01-31}", "x", `start "2026-01-31"`},
		"year":          {"{id: x, nodes: [a], end: 9999-01-31T00:00:00Z}", "x", "end"},
		"end first":     {"{id: x, nodes: [a], start: 2026-01-31T00:00:01Z, end: 2026-01-31T00:00:00Z}", "x", "ends before"},
		"cpus":          {"{id: x, nodes: [a], cpus: [0, -2]}", "x", "cpu -2"},
		"cpu too large": {"{id: x, nodes: [a], cpus: [99999999999]}", "x", "line 2"},
		"node twice":    {"{id: x, nodes: [a, a]}", "x", "node a is there twice"},
		"node's name":   {"{id: x, nodes: [../a]}", "x", `node "../a"`},
		"restart":       {"{id: x, nodes: [a], restart: -1}", "x", "restart -1"},
		"no mapping":    {"[a, b]", "", "line 2"},
		"null":          {"null", "", "line 2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			jobs, faults, err := parseJobs([]byte("jobs:\n  - " + tt.job + "\n  - {id: good, nodes: [b]}\n"))
			if name == "key twice" && err != nil {
				return // the decoder may refuse the file for it
			}
			if err != nil || len(jobs) != 1 || jobs[0].JobID != "good" || len(faults) != 1 {
				t.Fatalf("jobs %v, faults %v, error %v", jobs, faults, err)
			}
			if tt.id != "" && faults[0].JobID != tt.id || !strings.Contains(faults[0].Reason, tt.reason) {
				t.Errorf("fault %+v, want %q", faults[0], tt.reason)
			}
		})
	}
}

func TestParseJobsRefusesTheFile(t *testing.T) {
	for text, reason := range map[string]string{
		"":                            "empty",
		"jobs: [":                     "line 1",
		"job: []":                     "line 1",
		"jobs: {}":                    "line 1",
		goodFile + "---\n" + goodFile: "more than one",
	} {
		if jobs, _, err := parseJobs([]byte(text)); err == nil || !strings.Contains(err.Error(), reason) || jobs != nil {
			t.Errorf("%q: jobs %v, error %v", text, jobs, err)
		}
	}
	if jobs, faults, err := parseJobs([]byte("jobs: []")); err != nil || len(jobs)+len(faults) != 0 {
		t.Errorf("no jobs: %v, %v, %v", jobs, faults, err)
	}
}

func FuzzParseJobs(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Add([]byte("jobs: [&a {id: x, nodes: [*a]}, *a, {<<: *a}]"))
	f.Add([]byte("jobs:\n- ? [a]\n  : b\n- !!binary a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		jobs, faults, err := parseJobs(text)
		if err != nil && len(jobs)+len(faults) > 0 {
			t.Fatal("jobs beside an error")
		}
		for i := range jobs {
			if reason := checkJob(&jobs[i]); reason != "" {
				t.Fatal(reason)
			}
		}
		tree := topology.Flat([]string{"n001", "n002"})
		good, more := admit(tree, jobs, time.UnixMilli(0))
		if len(good)+len(more) != len(jobs) {
			t.Fatal("a job is neither good nor a fault")
		}
		records, err := jobRecords(good, append(faults, more...))
		if err != nil || len(records) != len(good)+len(faults)+len(more) {
			t.Fatalf("%d records of %d jobs and %d faults: %v", len(records), len(good), len(faults)+len(more), err)
		}
		for _, r := range records {
			if _, err := schemas.Unmarshal(r.value); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestFileSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	source := NewFileSource(path)
	write := func(text string) { // as an editor does it: another file of the same name
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, wantJobs int, reasons ...string) {
		t.Helper()
		for range 2 { // the second time nothing changed
			jobs, faults := source.Jobs(time.Now())
			if len(jobs) != wantJobs || len(faults) != len(reasons) {
				t.Fatalf("%s: jobs %v, faults %v", what, jobs, faults)
			}
			for i, reason := range reasons {
				if !strings.Contains(faults[i].Reason, reason) {
					t.Errorf("%s: fault %+v, want %q", what, faults[i], reason)
				}
			}
		}
	}
	check("no file yet", 0, "no such file")
	write(goodFile)
	check("a good file", 2)
	write(goodFile + "  - {id: x}\n")
	check("one wrong job", 2, "line 15: has no nodes")
	write("jobs: [")
	check("no YAML", 2, path+": line 1", "has no nodes")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("gone", 2, "no such file", "has no nodes")
	write("jobs: []\n")
	check("empty on purpose", 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	check("a directory", 0, "not a regular file")
}
