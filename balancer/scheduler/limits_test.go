package scheduler

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

func shownLimits(j *schemas.Job) string {
	return fmt.Sprintf("cores %s gpus %s limit %s memory %s exclusive %s", shown(j.Cores), shown(j.Gpus),
		shown(j.TimeLimitS), shown(j.MemRequestedBytes), shown(j.Exclusive))
}

func shown[T any](p *T) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

func TestSlurmLimits(t *testing.T) {
	for text, want := range map[string]string{
		"10:00": "600", "1:30:00": "5400", "1-02:00:00": "93600", "00:00:30": "30", "0:00": "0",
		"364-23:59:59": "31535999",
		"UNLIMITED":    "-", "365-00:00:00": "-", "NOT_SET": "-", "INVALID": "-", "Partition_Limit": "-",
		"": "-", "10": "-",
		"-1:00": "-", "1-2-3:00:00": "-", "9999999999-00:00:00": "-", "1:2:3:4": "-", "1-1:2": "-", "0x10:00": "-",
		"99999999999999999999:00": "-", "1048575-00:00:00": "-",
	} {
		if got := shown(slurmLimit(text)); got != want {
			t.Errorf("the limit %q is %s, want %s", text, got, want)
		}
	}
	const mib = 1 << 20
	for text, want := range map[string]string{
		"cpu=3,mem=6000M,node=3,billing=3":                      fmt.Sprint("- ", 2000*mib),
		"cpu=64,mem=1.50T,node=1,billing=9,gres/gpu=4":          fmt.Sprint("4 ", int64(1.5*(1<<40))),
		"cpu=1,mem=100,node=1,gres/gpu:a100=8,gres/gpu=8":       fmt.Sprint("8 ", 100*mib),
		"cpu=1,node=1,gres/gpu:a100=8":                          "- -",
		"mem=4G":                                                "- -", // on how many nodes?
		"mem=4G,node=0":                                         "- -",
		"cpu=1,mem=1e300M,node=1,gres/gpu=99999999999999999999": "- -",
		"cpu=1,mem=-5M,node=1,gres/gpu=-1":                      "- -",
		"cpu=1,mem=NaN,node=1,gres/gpu=4294967295":              "- -",
		"mem=M,node=1":                                          "- -",
		"mem=,node=1":                                           "- -",
		"":                                                      "- -",
		"(null)":                                                "- -",
		"=,=,":                                                  "- -",
		"mem=9000P,node=1":                                      "- -",
		"mem=Inf,node=1":                                        "- -",
	} {
		gpus, memory := slurmTRES(text)
		if got := shown(gpus) + " " + shown(memory); got != want {
			t.Errorf("%q has GPUs and memory %s, want %s", text, got, want)
		}
	}
}

// TestSlurmJobsHaveLimits has what squeue of Slurm 22.05 printed.
func TestSlurmJobsHaveLimits(t *testing.T) {
	f := newFakeSlurm(t)
	f.write("sinfo", "#!/bin/sh\nfor i in 1 2 3; do echo \"n$i|4|1|2|2\"; done\n") // n9 is not shown
	line := func(id int, state, end string, cpus int, nodes, rest string) {
		f.write(fmt.Sprintf("squeue.%d", id), fmt.Sprintf("%d|0|%s|2026-11-22T10:00:00|%s|2026-11-22T09:00:00|%d|%s|%s"+
			"|%d|N/A|ada|batch|p1|x", id, state, end, cpus, nodes, rest, id))
	}
	line(1, "RUNNING", "NONE", 8, "n[1-2]", "1:30:00|NO|cpu=8,mem=4000M,node=2,billing=4,gres/gpu=2")
	line(2, "FAILED", "2026-11-22T10:00:05", 1, "n3", "365-00:00:00|OK|cpu=1,node=1,billing=1")
	line(3, "RUNNING", "NONE", 1, "n9", "UNLIMITED|YES|what|no=one,knows")
	line(4, "OUT_OF_MEMORY", "2026-11-22T10:00:05", 4, "n3", "10:00|OK|cpu=4,node=1")
	f.job(5, "0-1", "n3", "x,y", "part") // two of four CPUs
	s := f.source()
	now := time.Date(2026, 11, 22, 10, 0, 6, 0, time.UTC)
	ask := func() map[string]string {
		s.poll(t.Context(), now)
		jobs, faults := Ask(s, topology.Flat([]string{"n1", "n2", "n3", "n9"}), now)
		if len(faults) > 0 {
			t.Error(faults)
		}
		got := map[string]string{}
		for i := range jobs {
			got[jobs[i].JobID] = jobs[i].State + " " + shownLimits(&jobs[i].Job)
		}
		return got
	}
	want := map[string]string{
		"1": fmt.Sprintf("RUNNING cores 8 gpus 2 limit 5400 memory %d exclusive true", 2000<<20),
		"2": "FAILED cores - gpus - limit - memory - exclusive false",
		"3": "RUNNING cores - gpus - limit - memory - exclusive -",
		"4": "OUT_OF_MEMORY cores 4 gpus - limit 600 memory - exclusive true",
		"5": "RUNNING cores 2 gpus - limit - memory - exclusive false",
	}
	if diff := cmp.Diff(want, ask()); diff != "" {
		t.Error(diff)
	}
	// The limit is raised, and the job is cancelled.
	line(1, "RUNNING", "NONE", 8, "n[1-2]", "2:30:00|NO|cpu=8,mem=4000M,node=2,billing=4,gres/gpu=2")
	want["1"] = strings.Replace(want["1"], "5400", "9000", 1)
	if diff := cmp.Diff(want, ask()); diff != "" {
		t.Error(diff)
	}
	line(1, "COMPLETING", "2026-11-22T10:00:06", 8, "n2", "2:30:00|NO|cpu=8,mem=4000M,node=2,billing=4,gres/gpu=2")
	want["1"] = strings.Replace(want["1"], "RUNNING", "COMPLETED", 1)
	if diff := cmp.Diff(want, ask()); diff != "" {
		t.Error(diff)
	}
	line(1, "CANCELLED", "2026-11-22T10:00:06", 8, "n[1-2]", "2:30:00|NO|cpu=8,mem=4000M,node=2,billing=4,gres/gpu=2")
	want["1"] = strings.Replace(want["1"], "COMPLETED", "CANCELLED", 1)
	for range 2 {
		if diff := cmp.Diff(want, ask()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestArrays: every task of an array is a job of its own, and knows its array. The last task has the array's own
// number, as squeue prints it. A job that is no task has no array.
func TestArrays(t *testing.T) {
	const rest = "RUNNING|2026-11-22T10:00:00|NONE|2026-11-22T09:00:00|1|n1|UNLIMITED|OK|cpu=1,node=1|"
	array := func(j *schemas.Job) string { return shown(j.ArrayJob) + "_" + shown(j.ArrayTask) }
	for row, want := range map[string]string{
		"184301|0|" + rest + "184300|1|ada|batch|p1|x|y":     "184300_1",
		"184300|0|" + rest + "184300|60|ada|batch|p1|x":      "184300_60",
		"184400|0|" + rest + "184400|N/A|ada|batch|p1|x":     "-_-",
		"184401|0|" + rest + "N/A|1|ada|batch|p1|x":          "-_-",
		"184402|0|" + rest + "7|4294967296|ada|batch|p1|x":   "-_-",
		"184403|0|" + rest + "7|1-60%4|ada|batch|p1|x":       "-_-",
		"184404|0|" + rest + "+7|1|ada|batch|p1|x":           "-_-",
		"184405|0|" + rest + "|" + "|ada|batch|p1|x":         "-_-",
		"184406|0|" + rest + "7|0|ada|batch|p1|184300|1|ada": "7_0",
	} {
		rows := parsed(t, row)
		if j := &rows[0].job; array(j) != want || rows[0].fault != "" || j.User != "ada" || j.Account != "p1" {
			t.Errorf("%s: %s of %s, %s", row, array(j), j.User, rows[0].fault)
		}
	}

	path := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(path, []byte(`jobs:
  - {id: "184301", nodes: [n1], array_job: 184300, array_task: 1}
  - {id: "bad-array_job", nodes: [n2], array_job: a/b}
  - {id: "bad-array_task", nodes: [n2], array_task: -1}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	jobs, faults := Ask(NewFileSource(path), topology.Flat([]string{"n1", "n2"}), time.Now())
	if len(jobs) != 1 || array(&jobs[0].Job) != "184300_1" {
		t.Errorf("%+v", jobs)
	}
	for _, f := range faults {
		if key := strings.TrimPrefix(f.JobID, "bad-"); !strings.Contains(f.Reason, key+": ") {
			t.Errorf("%s: %s", f.JobID, f.Reason)
		}
	}
	if len(faults) != 2 {
		t.Errorf("%d faults: %v", len(faults), faults)
	}

	var j Job
	const start = "start_ms=1800000000000\nnodes=n1\n"
	if err := parseDrop(start+"array_job=184300\narray_task=7\n", true, &j); err != nil || array(&j.Job) != "184300_7" {
		t.Errorf("%v: %s", err, array(&j.Job))
	}
	j = Job{} // a prolog writes both keys for every job
	if err := parseDrop(start+"array_job=\narray_task=\n", true, &j); err != nil || array(&j.Job) != "-_-" {
		t.Errorf("%v: %s", err, array(&j.Job))
	}
	for _, wrong := range []string{"array_job=a b", "array_task=x", "array_task=2147483648"} {
		if parseDrop(start+wrong+"\n", true, &j) == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestSlurmStatesOfEnds(t *testing.T) {
	for state, want := range map[string]string{
		"COMPLETED": "COMPLETED", "COMPLETING": "COMPLETED", "STAGE_OUT": "COMPLETED", "FAILED": "FAILED",
		"NODE_FAIL": "FAILED", "BOOT_FAIL": "FAILED", "TIMEOUT": "TIMEOUT", "DEADLINE": "TIMEOUT",
		"OUT_OF_MEMORY": "OUT_OF_MEMORY", "CANCELLED": "CANCELLED", "PREEMPTED": "CANCELLED",
	} {
		if got := slurmEnd(state); got != want || !schemas.Over(got) {
			t.Errorf("%s is %s, want %s", state, got, want)
		}
	}
}

func TestFilesHaveLimits(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 6, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	var text strings.Builder
	text.WriteString(`jobs:
  - id: "1"
    nodes: [n1]
    end: 2026-11-22T10:00:00Z
    state: TIMEOUT
    cores: 8
    gpus: 0
    time_limit_s: 60
    exclusive: false
  - {id: "2", nodes: [n2], state: FAILED, mem_requested_bytes: 1024, gpus: , cores: null}
`)
	for key, value := range map[string]string{
		"cores": "-1", "gpus": "4294967296", "time_limit_s": "1.5", "mem_requested_bytes": fmt.Sprint(math.MaxInt64),
		"exclusive": "maybe", "state": "RUNNING",
	} {
		fmt.Fprintf(&text, "  - {id: %q, nodes: [n3], %s: %s}\n", "bad-"+key, key, value)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	jobs, faults := Ask(NewFileSource(path), topology.Flat([]string{"n1", "n2", "n3"}), now)
	want := []string{
		"1 TIMEOUT cores 8 gpus 0 limit 60 memory - exclusive false",
		"2 RUNNING cores - gpus - limit - memory 1024 exclusive -", // it has not ended
	}
	var got []string
	for i := range jobs {
		got = append(got, jobs[i].JobID+" "+jobs[i].State+" "+shownLimits(&jobs[i].Job))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(faults) != 6 {
		t.Errorf("%d faults: %v", len(faults), faults)
	}
	for _, f := range faults {
		if key := strings.TrimPrefix(f.JobID, "bad-"); !strings.Contains(f.Reason, key+": ") {
			t.Errorf("%s: %s", f.JobID, f.Reason)
		}
	}
}

func TestDropFilesHaveLimits(t *testing.T) {
	const start = "start_ms=1800000000000\nnodes=n1\n"
	const limits = "cores=8\ngpus=2\ntime_limit_s=60\nmem_requested_bytes=5\nexclusive=true\n"
	var j Job
	if err := parseDrop(start+limits, true, &j); err != nil ||
		shownLimits(&j.Job) != "cores 8 gpus 2 limit 60 memory 5 exclusive true" {
		t.Errorf("%v: %s", err, shownLimits(&j.Job))
	}
	if err := parseDrop("end_ms=1800000000000\nstate=FAILED\n", false, &j); err != nil || j.State != "FAILED" {
		t.Errorf("%v: %s", err, j.State)
	}
	for text, starts := range map[string]bool{
		start + "state=FAILED\n": true, start + "cores=x\n": true, "end_ms=1\ngpus=1\n": false,
		"end_ms=1\nstate=ENDED\n": false,
	} {
		if parseDrop(text, starts, &j) == nil {
			t.Errorf("%q is taken", text)
		}
	}
	d := newDropDir(slurmConfig())
	d.dir, d.alone = t.TempDir(), true
	now := time.UnixMilli(1800000060000)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		d.scan(now)
	}
	write("1.0.start", start)
	write("1.0.end", "end_ms=1800000030000\nstate=OUT_OF_MEMORY\n")
	for range 2 { // the second time the epilog's file is gone, and its end is still known
		jobs, _ := Ask(d, topology.Flat([]string{"n1"}), now)
		if len(jobs) != 1 || jobs[0].State != schemas.StateOutOfMemory {
			t.Errorf("%+v", jobs)
		}
		if err := os.Remove(filepath.Join(d.dir, "1.0.end")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		d.scan(now)
	}
}
