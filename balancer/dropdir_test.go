package balancer

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/schemas"
)

func dropIn(t *testing.T) *DropDir {
	t.Helper()
	cfg := slurmConfig()
	cfg.Balance.DropDir = t.TempDir()
	return newDropDir(cfg)
}

func (d *DropDir) drop(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDropDir(t *testing.T) {
	d := dropIn(t)
	now := time.UnixMilli(2_000_000)
	d.scan(now)
	if jobs, faults := d.Jobs(now); len(jobs)+len(faults) != 0 {
		t.Fatal(jobs, faults)
	}
	d.drop(t, "17.2.start", "start_ms=1000123\nnodes=n[1-2]\ncpus=0-1,4\nuser=ada\naccount=(null)\nqueue=batch\nname=a=b\n")
	d.drop(t, "18.0.start", "start_ms=1000200\nnodes=n3\n")
	d.drop(t, "18.0.end", "end_ms=1500300\n")
	d.drop(t, "19.0.start", "start_ms=1000\nnodes=n3\n")
	d.drop(t, "19.0.end", "end_ms=2000\n") // too long ago for any interval
	d.drop(t, ".20.0.start.123", "start_m")
	d.drop(t, "README", "what this is")
	d.scan(now)
	jobs, faults := d.Jobs(now)
	want := []schemas.Job{
		{JobID: "17", Restart: 2, Name: "a=b", User: "ada", Queue: "batch", Nodes: []string{"n1", "n2"}, Cpus: []int32{0, 1, 4}, Start: at(1_000_123)},
		{JobID: "18", Nodes: []string{"n3"}, Start: at(1_000_200), End: at(1_500_300)},
	}
	if diff := cmp.Diff(want, jobs); diff != "" || len(faults) > 0 {
		t.Errorf("faults %v\n%s", faults, diff)
	}
	d.drop(t, "17.2.end", "end_ms=1900456\n")
	d.scan(now)
	if jobs, _ := d.Jobs(now); len(jobs) != 2 || jobs[0].End == nil || *jobs[0].End != 1_900_456 {
		t.Errorf("%+v", jobs)
	}
	if jobs[0].End != nil {
		t.Error("what was returned has changed")
	}
	if err := os.Rename(d.dir, d.dir+".gone"); err != nil {
		t.Fatal(err)
	}
	d.scan(now)
	if jobs, faults := d.Jobs(now); len(jobs) != 2 || len(faults) != 1 || faults[0].JobID != "" || !strings.Contains(faults[0].Reason, "no such file") {
		t.Errorf("without the directory: %v, %v", jobs, faults)
	}
}

func TestDropDirHostileFiles(t *testing.T) {
	good := "start_ms=1000123\nnodes=n1\n"
	for name, tt := range map[string]struct {
		file, text, reason string
	}{
		"empty":        {"1.0.start", "", "no time"},
		"half a line":  {"1.0.start", "start_ms=10001", "no key=value"},
		"twice":        {"1.0.start", good + "nodes=n2\n", "there twice"},
		"unknown key":  {"1.0.start", good + "node=n2\n", "unknown key"},
		"another kind": {"1.0.end", good, "unknown key"},
		"time":         {"1.0.start", "start_ms=99999999999999999\n", "not a time"},
		"hostlist":     {"1.0.start", "start_ms=1000123\nnodes=n[1-999999999]\n", "more than"},
		"cpus":         {"1.0.start", good + "cpus=0-99999\n", "beyond any"},
		"too many":     {"1.0.start", good + "cpus=0-9999999999999\n", "more than"},
		"too long":     {"1.0.start", good + "name=" + strings.Repeat("x", maxDropBytes) + "\n", "longer than"},
		"no text":      {"1.0.start", "\x00\xff\n", "no key=value"},
	} {
		d := dropIn(t)
		d.drop(t, tt.file, tt.text)
		d.drop(t, "2.0.start", good)
		d.scan(time.UnixMilli(1_000_200))
		jobs, faults := d.Jobs(time.Time{})
		if len(jobs) != 1 || jobs[0].JobID != "2" || len(faults) != 1 || faults[0].JobID != "1" || !strings.Contains(faults[0].Reason, tt.reason) ||
			len(faults[0].Reason) > 500 {
			t.Errorf("%s: jobs %+v, faults %v, want %q", name, jobs, faults, tt.reason)
		}
	}
	d := dropIn(t)
	if err := syscall.Mkfifo(filepath.Join(d.dir, "1.0.start"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(d.dir, "3.0.start")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.dir, "4.0.end"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"_rest.0.start", "5.-1.start", "5.99999999999.start", "5.start", ".0.start", "a b.0.start"} {
		d.drop(t, name, good)
	}
	done := make(chan struct{})
	go func() { d.scan(time.UnixMilli(1_000_200)); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("a pipe holds up the scan")
	}
	jobs, faults := d.Jobs(time.Time{})
	if len(jobs) != 0 || len(faults) != 3 {
		t.Errorf("jobs %v, faults %v", jobs, faults)
	}
	for _, f := range faults {
		if !strings.Contains(f.Reason, "not a regular file") {
			t.Error(f)
		}
	}
}

func TestTimedHasTheExactTimes(t *testing.T) {
	slurm := Fixed(
		schemas.Job{JobID: "1", Name: "a", Nodes: []string{"n1"}, Cpus: []int32{0}, Start: at(5000)},
		schemas.Job{JobID: "1", Restart: 1, Nodes: []string{"n1"}, Start: at(9000), End: at(12_000)},
		schemas.Job{JobID: "2", Nodes: []string{"n2"}, Start: at(5000)},
		schemas.Job{JobID: "3", Nodes: []string{"n3"}, Start: at(5000)},
	)
	d := dropIn(t)
	d.drop(t, "1.0.start", "start_ms=5123\n")
	d.drop(t, "1.0.end", "end_ms=8456\n")
	d.drop(t, "1.1.end", "end_ms=12789\n")
	d.drop(t, "3.0.end", "end_ms=1000\n") // before it began: of no use
	d.drop(t, "4.0.start", "start_ms=5000\nnodes=n4\n")
	d.scan(time.UnixMilli(13_000))
	jobs, faults := Timed(slurm, d).Jobs(time.UnixMilli(13_000))
	want := []schemas.Job{
		{JobID: "1", Name: "a", Nodes: []string{"n1"}, Cpus: []int32{0}, Start: at(5123), End: at(8456)},
		{JobID: "1", Restart: 1, Nodes: []string{"n1"}, Start: at(9000), End: at(12_789)},
		{JobID: "2", Nodes: []string{"n2"}, Start: at(5000)},
		{JobID: "3", Nodes: []string{"n3"}, Start: at(5000)},
	}
	if diff := cmp.Diff(want, jobs); diff != "" || len(faults) > 0 {
		t.Errorf("faults %v\n%s", faults, diff)
	}
	if again, _ := slurm.Jobs(time.Time{}); *again[0].Start != 5000 {
		t.Error("the source's own jobs were changed")
	}
}

// TestDropScripts runs the prolog and the epilog as Slurm does, with a name that a user chose.
func TestDropScripts(t *testing.T) {
	d := dropIn(t)
	run := func(script string) {
		cmd := exec.CommandContext(t.Context(), "../deploy/slurm/"+script)
		cmd.Env = append(os.Environ(), "WEIR_DROP_DIR="+d.dir, "SLURM_JOB_ID=4711", "SLURM_JOB_RESTART_COUNT=2", "SLURM_JOB_NODELIST=n[1-3]",
			"SLURM_JOB_USER=ada", "SLURM_JOB_ACCOUNT=(null)", "SLURM_JOB_PARTITION=batch", "SLURM_JOB_NAME=$(id) `id`\nend_ms=1\n%s\x1f'\"")
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v, %s", script, err, out)
		}
	}
	before := time.Now().UnixMilli()
	run("prolog")
	run("epilog")
	after := time.Now().UnixMilli()
	d.scan(time.Now())
	jobs, faults := d.Jobs(time.Now())
	if len(jobs) != 1 || len(faults) > 0 {
		t.Fatal(jobs, faults)
	}
	j := jobs[0]
	if j.JobID != "4711" || j.Restart != 2 || !slices.Equal(j.Nodes, []string{"n1", "n2", "n3"}) || j.User != "ada" || j.Account != "" || j.Queue != "batch" ||
		j.Name != "$(id) `id`end_ms=1%s'\"" {
		t.Errorf("%+v", j)
	}
	if j.Start == nil || j.End == nil || *j.Start < before || *j.End < *j.Start || *j.End > after {
		t.Errorf("from %v to %v, between %d and %d", j.Start, j.End, before, after)
	}
	d.dir = filepath.Join(d.dir, "missing")
	run("prolog") // a job is never held up by a directory that is not there
	run("epilog")
}

func FuzzParseDrop(f *testing.F) {
	f.Add("start_ms=1000123\nnodes=n[1-2]\ncpus=0-1,4\nuser=ada\naccount=(null)\nqueue=batch\nname=a=b\n")
	f.Add("end_ms=12\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, starts := range []bool{true, false} {
			j := schemas.Job{JobID: "1"}
			err := parseDrop(text, starts, &j)
			if err == nil && starts && j.Start == nil || err == nil && !starts && j.End == nil {
				t.Fatal("no time")
			}
			if _, err := newJobRecord(j); err != nil {
				t.Fatal(err)
			}
		}
	})
}
