package scheduler

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
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
	want := []Job{
		{Job: schemas.Job{
			JobID: "4711", Restart: 1, Name: "cfd", User: "ada", Account: "p1", Queue: "batch",
			Nodes: []string{"n001", "017"},
			Cpus:  []int32{0, 1}, Start: at(1769846400000), End: at(1769850000000),
		}},
		{Job: schemas.Job{JobID: "plain", Nodes: []string{"n002"}}},
	}
	if diff := cmp.Diff(want, jobs); diff != "" {
		t.Error(diff)
	}
}

func TestParseJobsSkipsOnlyWhatIsWrong(t *testing.T) {
	tests := map[string]struct{ job, id, reason string }{
		"unknown key": {"{id: x, nodes: [a], node: b}", "x", `line 2: unknown key "node"`},
		"key twice":   {"{id: x, nodes: [a], nodes: [b]}", "x", `line 2: key "nodes" is there twice`},
		"no id":       {"{nodes: [a]}", noID, "line 2: it has no id"},
		"id null":     {"{id: , nodes: [a]}", noID, "line 2: it has no id"},
		"id a list":   {"{id: [a], nodes: [a]}", noID, "line 2: id: not one text"},
		"id raw": {
			`{id: "\e[31mred", nodes: [a]}`, "\x1b[31mred",
			`line 2: id "\x1b[31mred" is not a job's name`,
		},
		"pseudo-job": {"{id: _rest, nodes: [a]}", "_rest", "not a job's name"},
		"no nodes":   {"{id: x}", "x", "no nodes"},
		"nodes keys": {
			"{id: x, nodes: {a: b}}", "x",
			"line 2: nodes: not a list such as [n001, n002], or a hostlist such as n[001-016]",
		},
		"nodes lists":   {"{id: x, nodes: [[a]]}", "x", "line 2: nodes: not a list of names"},
		"hostlist":      {"{id: x, nodes: 'n[2-1]'}", "x", `line 2: nodes: "n[2-1]" is not a hostlist`},
		"huge hostlist": {"{id: x, nodes: 'n[1-9][0-999999]'}", "x", "more than 1048576 hosts"},
		"start":         {"{id: x, nodes: [a], start: 2026-01-31}", "x", `start: "2026-01-31"`},
		"year":          {"{id: x, nodes: [a], end: 9999-01-31T00:00:00Z}", "x", "end"},
		"end first": {
			"{id: x, nodes: [a], start: 2026-01-31T00:00:01Z, end: 2026-01-31T00:00:00Z}", "x",
			"ends before",
		},
		"cpus": {"{id: x, nodes: [a], cpus: [0, -2]}", "x", "cpu -2"},
		"cpus a text": {
			"{id: x, nodes: [a], cpus: 0-3}", "x",
			"line 2: cpus: not a list of numbers such as [0, 1, 2, 3]",
		},
		"cpu too large": {
			"{id: x, nodes: [a], cpus: [99999999999]}", "x",
			`line 2: cpus: "99999999999" is not a whole number`,
		},
		"half a cpu":   {"{id: x, nodes: [a], cpus: [0.5]}", "x", `line 2: cpus: "0.5" is not a whole number`},
		"node twice":   {"{id: x, nodes: [a, a]}", "x", "node a is there twice"},
		"node's name":  {"{id: x, nodes: [../a]}", "x", `node "../a"`},
		"restart":      {"{id: x, nodes: [a], restart: -1}", "x", "restart -1"},
		"restart word": {"{id: x, nodes: [a], restart: one}", "x", `line 2: restart: "one" is not a whole number`},
		"later line":   {"id: x\n    nodes: [a]\n    restart: [1]", "x", "line 4: restart: not one text"},
		"no mapping":   {"[a, b]", noID, "line 2: a job is written as keys"},
		"null":         {"null", noID, "line 2: a job is written as keys"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			jobs, faults, err := parseJobs([]byte("jobs:\n  - " + tt.job + "\n  - {id: good, nodes: [b]}\n"))
			if err != nil || len(jobs) != 1 || jobs[0].JobID != "good" || len(faults) != 1 {
				t.Fatalf("jobs %v, faults %v, error %v", jobs, faults, err)
			}
			f := faults[0]
			if f.JobID != tt.id || !strings.Contains(f.Reason, tt.reason) {
				t.Errorf("fault %+v, want %q", f, tt.reason)
			}
			if strings.ContainsAny(f.Reason, "\n\x1b") || strings.Contains(f.Reason, "unmarshal") ||
				strings.Contains(f.Reason, "balancer.") {
				t.Errorf("not in words for whoever wrote the file: %q", f.Reason)
			}
		})
	}
}

func TestParseJobsRefusesTheFile(t *testing.T) {
	texts := map[string]string{
		"":                            "line 1: empty; no jobs at all are written as jobs: []",
		"# to come\n":                 "line 1: empty; no jobs at all",
		"---\n":                       "line 1: empty; no jobs at all",
		"null":                        "line 1: empty; no jobs at all",
		"\njobs:\n":                   "line 2: nothing is behind jobs; no jobs at all are written as jobs: []",
		"jobs: ~\n":                   "line 1: nothing is behind jobs; no jobs at all",
		"{}":                          "line 1: nothing is behind jobs; no jobs at all",
		"jobs: [":                     "line 1",
		"job: []":                     "line 1: unknown key; a job file has the one key jobs",
		"jobs: {}":                    "line 1: jobs is not a list",
		"jobs: all":                   "line 1: jobs is not a list",
		"jobs: []\njobs: []":          "line 2: key jobs is there twice",
		"- id: x":                     "line 1: a job file begins with the key jobs",
		"x":                           "line 1: a job file begins with the key jobs",
		goodFile + "---\n" + goodFile: "more than one",
	}
	if !kafkatest.Raced {
		wide := "jobs:" + strings.Repeat("\n- {id: x, nodes: 'n[1-1000000]'}", 5)
		texts[wide] = "line 6: more than 4194304 nodes in all jobs"
	}
	for text, reason := range texts {
		jobs, _, err := parseJobs([]byte(text))
		if err == nil || !strings.Contains(err.Error(), reason) || jobs != nil ||
			strings.ContainsAny(err.Error(), "\n!") {
			t.Errorf("%q: %d jobs, error %v, want %q", text[:min(80, len(text))], len(jobs), err, reason)
		}
	}
	for _, text := range []string{"jobs: []", "\xef\xbb\xbfjobs: []\n", "%YAML 1.1\n---\njobs:\n  []\n"} {
		if jobs, faults, err := parseJobs([]byte(text)); err != nil || len(jobs)+len(faults) != 0 {
			t.Errorf("no jobs: %v, %v, %v", jobs, faults, err)
		}
	}
}

// TestParseJobsTakesHostlists: Slurm's users have their nodes as a hostlist.
func TestParseJobsTakesHostlists(t *testing.T) {
	text := "jobs:\n- {id: a, nodes: 'n[08-10],login'}\n- id: b\n  nodes: n[1-2]r[3-4]\n" +
		"- {id: c, nodes: n7, restart: , cpus: , start: , user: \"\\e[1mada\"}\n"
	jobs, faults, err := parseJobs([]byte(text))
	want := []Job{
		{Job: schemas.Job{JobID: "a", Nodes: []string{"n08", "n09", "n10", "login"}}},
		{Job: schemas.Job{JobID: "b", Nodes: []string{"n1r3", "n1r4", "n2r3", "n2r4"}}},
		{Job: schemas.Job{JobID: "c", Nodes: []string{"n7"}, User: "?[1mada"}},
	}
	if diff := cmp.Diff(want, jobs); diff != "" || err != nil || len(faults) > 0 {
		t.Errorf("%v, %v\n%s", err, faults, diff)
	}
}

// TestParseJobsNamesBytesThatAreNotUTF8: such a byte, or a control character, costs its own job, with line and column;
// in a comment none.
func TestParseJobsNamesBytesThatAreNotUTF8(t *testing.T) {
	text := "# caf\xe9\njobs:\n- {id: a, nodes: [n1]}\n- id: b\n  user: J\xf6rg\n  nodes: [n2]\n" +
		"- {id: c, name: \"x\x07\", nodes: [n3]}\n- {id: d, name: é, nodes: [n4]}\n"
	jobs, faults, err := parseJobs([]byte(text))
	if err != nil || len(jobs) != 2 || jobs[0].JobID != "a" || jobs[1].JobID != "d" || jobs[1].Name != "é" {
		t.Fatalf("jobs %v, error %v", jobs, err)
	}
	want := []Fault{
		{JobID: "b", Reason: "line 5, column 10: byte 0xf6 is not UTF-8: save the file as UTF-8"},
		{JobID: "c", Reason: "line 7, column 19: byte 0x07 is a control character: remove it"},
	}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Error(diff)
	}
	if _, _, err := parseJobs([]byte("jobs:\n- {id: a, nodes: [n1]}\nj\xf6bs: []\n")); err == nil ||
		!strings.Contains(err.Error(), "line 3, column 2: byte 0xf6 is not UTF-8") {
		t.Errorf("a key of the file: %v", err)
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
		checkRecords(t, good, append(faults, more...))
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
	check("no YAML", 2, "reading the job file "+path+": line 1", "has no nodes")
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
	check("a directory", 0, "reading the job file "+path+": not a regular file")
}

// jobsAt asks a job file that says something new at a time in milliseconds.
func (f *FileSource) jobsAt(t *testing.T, ms int64, text string) []Job {
	t.Helper()
	if err := os.WriteFile(f.path+".new", []byte("jobs:\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		t.Fatal(err)
	}
	jobs, faults := f.Jobs(time.UnixMilli(ms))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return jobs
}

// nodesIn returns the nodes that the jobs have in an interval, as its plan has them.
func nodesIn(jobs []Job, start, ms int64) map[string]string {
	nodes := map[string]string{}
	for _, j := range Planned(jobs, start, ms) {
		nodes[j.JobID] = strings.Join(j.Nodes, " ")
	}
	return nodes
}

// TestFileSourceChangesJobsAtABoundary: records of the interval that runs were formed before the file changed.
func TestFileSourceChangesJobsAtABoundary(t *testing.T) {
	f := NewFileSource(filepath.Join(t.TempDir(), "jobs.yaml"))
	check := func(what string, jobs []Job, start int64, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, nodesIn(jobs, start, 1000)); diff != "" {
			t.Errorf("%s, interval %d: %s", what, start, diff)
		}
	}
	jobs := f.jobsAt(t, 5_900, "- {id: a, nodes: [n1, n2], cpus: [0, 1]}\n"+
		"- {id: b, nodes: [n3], start: 1970-01-01T00:00:02Z}\n")
	check("at first", jobs, 5_000, map[string]string{"a": "n1 n2", "b": "n3"})
	for _, j := range jobs {
		if j.Held != nil {
			t.Errorf("the first reading: %+v", j)
		}
	}
	jobs = f.jobsAt(t, 6_900, "- {id: a, nodes: [n2, n4], cpus: [1, 0]}\n"+
		"- {id: b, nodes: [n3, n5], cpus: [2], start: 1970-01-01T00:00:02Z}\n- {id: c, nodes: [n6]}\n")
	check("a moves, b has other CPUs", jobs, 6_000, map[string]string{"a": "n2", "c": "n6"})
	check("a moves, b has other CPUs", jobs, 7_000, map[string]string{"a": "n2 n4", "b": "n3 n5", "c": "n6"})
	// The file changes again before the interval ends, though not for a.
	jobs = f.jobsAt(t, 6_950, "- {id: a, nodes: [n2, n4], cpus: [1, 0]}\n"+
		"- {id: b, nodes: [n3, n5], cpus: [2], start: 1970-01-01T00:00:02Z}\n- {id: c, nodes: [n6, n7]}\n")
	check("c grows", jobs, 6_000, map[string]string{"a": "n2", "c": "n6"})
	jobs = f.jobsAt(t, 7_900, "- {id: a, nodes: [n2, n4], cpus: [1, 0]}\n"+
		"- {id: b, nodes: [n3, n5], cpus: [2], start: 1970-01-01T00:00:02Z}\n- {id: c, nodes: [n6]}\n")
	check("c shrinks", jobs, 7_000, map[string]string{"a": "n2 n4", "b": "n3 n5", "c": "n6"})
	jobs = f.jobsAt(t, 8_900, "- {id: a, nodes: [n2, n4, n7], cpus: [0, 1]}\n"+
		"- {id: b, restart: 1, nodes: [n3, n5, n8], cpus: [2]}\n- {id: c, nodes: [n6]}\n")
	check("a grows, b is another life", jobs, 8_000, map[string]string{"a": "n2 n4", "b": "n3 n5 n8", "c": "n6"})
	if jobs[1].Held != nil || jobs[2].Held != nil {
		t.Errorf("nothing of them changed: %+v", jobs[1:])
	}
	if again, _ := f.Jobs(time.UnixMilli(99_000)); cmp.Diff(jobs, again) != "" {
		t.Errorf("the same file, later: %s", cmp.Diff(jobs, again))
	}
	// What is new before a job begins is no news for it, nor what it takes over from one that has ended a conflict.
	f.jobsAt(t, 20_100, "- {id: d, nodes: [n1], start: 1970-01-01T00:00:30Z}\n"+
		"- {id: e, nodes: [n2], end: 1970-01-01T00:00:20Z}\n- {id: f, nodes: [n3]}\n")
	jobs = f.jobsAt(t, 20_200, "- {id: d, nodes: [n1, n9], start: 1970-01-01T00:00:30Z}\n"+
		"- {id: e, nodes: [n2], end: 1970-01-01T00:00:20Z}\n- {id: f, nodes: [n3, n2]}\n")
	if jobs[0].Held != nil {
		t.Errorf("%+v", jobs[0])
	}
	if good, faults := admit(topology.Flat([]string{"n1", "n2", "n3", "n9"}), jobs,
		time.UnixMilli(20_200)); len(good) != 3 {
		t.Errorf("faults %v", faults)
	}
}
