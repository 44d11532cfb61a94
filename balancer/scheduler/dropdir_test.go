package scheduler

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// dropIn is a drop directory beside no other source.
func dropIn(t *testing.T) *DropDir {
	t.Helper()
	cfg := config.Default()
	cfg.Balance.DropDir = t.TempDir()
	return newDropDir(cfg)
}

func dropInBesideSlurm(t *testing.T) *DropDir {
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
	d.drop(t, "17.2.start",
		"start_ms=1000123\nnodes=n[1-2]\ncpus=0-1,4\nuser=ada\naccount=(null)\nqueue=batch\nname=a=b\n")
	d.drop(t, "18.0.start", "start_ms=1000200\nnodes=n3\n")
	d.drop(t, "18.0.end", "end_ms=1500300\n")
	d.drop(t, "19.0.start", "start_ms=1000\nnodes=n3\n")
	d.drop(t, "19.0.end", "end_ms=2000\n") // too long ago for any interval
	d.drop(t, ".20.0.start.123", "start_m")
	d.drop(t, "README", "what this is")
	d.scan(now)
	jobs, faults := d.Jobs(now)
	want := []Job{
		{Job: schemas.Job{
			JobID: "17", Restart: 2, Name: "a=b", User: "ada", Queue: "batch",
			Nodes: []string{"n1", "n2"}, Cpus: []int32{0, 1, 4}, Start: at(1_000_123),
		}},
		{Job: schemas.Job{JobID: "18", Nodes: []string{"n3"}, Start: at(1_000_200), End: at(1_500_300)}},
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
	if jobs, faults := d.Jobs(now); len(jobs) != 2 || len(faults) != 1 || faults[0].JobID != "" ||
		!strings.Contains(faults[0].Reason, "no such file") {
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
		if len(jobs) != 1 || jobs[0].JobID != "2" || len(faults) != 1 || faults[0].JobID != "1" ||
			!strings.Contains(faults[0].Reason, tt.reason) ||
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
	for _, name := range []string{
		"_rest.0.start", "5.-1.start", "5.99999999999.start", "5.start", ".0.start",
		"a b.0.start", "5.00.start", "5.+1.start", "5.01.end", "5. 1.start",
	} {
		d.drop(t, name, good)
	}
	done := make(chan struct{})
	go func() { d.scan(time.UnixMilli(1_000_200)); close(done) }()
	select {
	case <-done:
	case <-time.After(90 * time.Second): // for a busy machine
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
		Job{Job: schemas.Job{JobID: "1", Name: "a", Nodes: []string{"n1"}, Cpus: []int32{0}, Start: at(5000)}},
		Job{Job: schemas.Job{JobID: "1", Restart: 1, Nodes: []string{"n1"}, Start: at(9000), End: at(12_000)}},
		Job{Job: schemas.Job{JobID: "2", Nodes: []string{"n2"}, Start: at(5000)}},
		Job{Job: schemas.Job{JobID: "3", Nodes: []string{"n3"}, Start: at(5000)}},
	)
	d := dropInBesideSlurm(t)
	d.drop(t, "1.0.start", "start_ms=5123\ncgroup=s5K1KKYAYG5D00\ngpu_ids=2\n") // what Slurm does not tell of the job
	d.drop(t, "1.0.end", "end_ms=8456\n")
	d.drop(t, "1.1.end", "end_ms=12789\n")
	d.drop(t, "3.0.end", "end_ms=1000\n") // before it began: of no use
	d.drop(t, "4.0.start", "start_ms=5000\nnodes=n4\n")
	d.scan(time.UnixMilli(13_000))
	jobs, faults := Timed(slurm, d).Jobs(time.UnixMilli(13_000))
	want := []Job{
		{Job: schemas.Job{
			JobID: "1", Name: "a", Nodes: []string{"n1"}, Cpus: []int32{0}, Start: at(5123),
			End: at(8456),
		}, Cgroup: "s5K1KKYAYG5D00", GPUs: map[string][]int32{"": {2}}},
		{Job: schemas.Job{JobID: "1", Restart: 1, Nodes: []string{"n1"}, Start: at(9000), End: at(12_789)}},
		{Job: schemas.Job{JobID: "2", Nodes: []string{"n2"}, Start: at(5000)}},
		{Job: schemas.Job{JobID: "3", Nodes: []string{"n3"}, Start: at(5000)}},
	}
	if diff := cmp.Diff(want, jobs); diff != "" || len(faults) > 0 {
		t.Errorf("faults %v\n%s", faults, diff)
	}
	if again, _ := slurm.Jobs(time.Time{}); *again[0].Start != 5000 {
		t.Error("the source's own jobs were changed")
	}
}

// TestTimedSharesNodes: beside Slurm, which knows the CPUs of its jobs, a start on a node ends nobody there. A file
// that cannot be read makes a job less exact, and no more.
func TestTimedSharesNodes(t *testing.T) {
	slurm := Fixed(
		Job{Job: schemas.Job{JobID: "1", Nodes: []string{"n1"}, Cpus: []int32{0}, Start: at(5000)}},
		Job{Job: schemas.Job{JobID: "2", Nodes: []string{"n1"}, Cpus: []int32{1}, Start: at(6000)}},
	)
	d := dropInBesideSlurm(t)
	d.drop(t, "1.0.start", "start_ms=5123\nnodes=n1\n")
	d.drop(t, "2.0.start", "start_ms=6123\nnodes=n1\n")
	d.drop(t, "2.0.end", "end")
	d.drop(t, "3.0.end", "end")
	d.scan(time.UnixMilli(7_000))
	source, machine := Timed(slurm, d), topology.Flat([]string{"n1"})
	jobs, faults := Ask(source, machine, time.UnixMilli(7_000))
	if len(jobs) != 2 || *jobs[0].Start != 5123 || jobs[0].End != nil || *jobs[1].Start != 6123 {
		t.Errorf("%+v", jobs)
	}
	if len(faults) != 1 || faults[0].JobID != "2" || !faults[0].Followed {
		t.Errorf("faults %+v", faults)
	}
}

func TestDropDirTakesIDsWithDots(t *testing.T) {
	d := dropIn(t)
	d.drop(t, "17.pbs.0.start", "start_ms=1000123\nnodes=n1\n")
	d.drop(t, "17.pbs.0.end", "end_ms=1000200\n")
	d.scan(time.UnixMilli(1_000_300))
	if jobs, faults := d.Jobs(time.Time{}); len(jobs) != 1 || jobs[0].JobID != "17.pbs" || jobs[0].Restart != 0 ||
		jobs[0].End == nil || len(faults) > 0 {
		t.Errorf("%+v, %v", jobs, faults)
	}
}

// TestDropDirEndBeforeStart: of the two the end is the one that is not believed, and it is said.
func TestDropDirEndBeforeStart(t *testing.T) {
	d := dropIn(t)
	d.drop(t, "5.0.start", "start_ms=1000500\nnodes=n1\n")
	d.drop(t, "5.0.end", "end_ms=1000499\n")
	d.scan(time.UnixMilli(1_001_000))
	jobs, faults := Ask(d, topology.Flat([]string{"n1"}), time.UnixMilli(1_001_000))
	if len(jobs) != 1 || jobs[0].End != nil || jobs[0].State != schemas.StateRunning {
		t.Errorf("the job goes on: %+v", jobs)
	}
	want := "file 5.0.end of the drop directory ends it at 1970-01-01T00:16:40.499Z, " +
		"before its start at 1970-01-01T00:16:40.500Z, and is left out"
	if diff := cmp.Diff([]Fault{{JobID: "5", Reason: want, Followed: true}}, faults); diff != "" {
		t.Error(diff)
	}
}

// TestDropDirLostEpilog: a job whose end nobody wrote does not block its nodes. The job ends at the next start on one
// of its nodes. It does not come back when the files of that later job are removed.
func TestDropDirLostEpilog(t *testing.T) {
	d := dropIn(t)
	source, machine := Source(d), topology.Flat([]string{"n1", "n2", "n3"})
	ask := func(nowMs int64) ([]Job, []Fault) {
		d.scan(time.UnixMilli(nowMs))
		return Ask(source, machine, time.UnixMilli(nowMs))
	}
	d.drop(t, "7.0.start", "start_ms=1000000\nnodes=n[1-2]\n")
	d.drop(t, "8.0.start", "start_ms=1060000\nnodes=n2\n")
	d.drop(t, "9.0.start", "start_ms=1090000\nnodes=n1\ncpus=0-3\n")
	want := []Job{
		{Job: schemas.Job{
			JobID: "7", Nodes: []string{"n1", "n2"}, Start: at(1_000_000), End: at(1_060_000),
			State: schemas.StateCompleted,
		}},
		{Job: schemas.Job{JobID: "8", Nodes: []string{"n2"}, Start: at(1_060_000), State: schemas.StateRunning}},
		{Job: schemas.Job{
			JobID: "9", Nodes: []string{"n1"}, Cpus: []int32{0, 1, 2, 3}, Start: at(1_090_000),
			State: schemas.StateRunning,
		}},
	}
	for range 2 { // the second scan finds nothing new
		jobs, faults := ask(1_100_000)
		if diff := cmp.Diff(want, jobs); diff != "" {
			t.Fatal(diff)
		}
		reason := "no file 7.0.end, but job 8/0 took node n2 at 1970-01-01T00:17:40.000Z: " +
			"it counts as ended then; did the epilog fail?"
		if diff := cmp.Diff([]Fault{{JobID: "7", Reason: reason, Followed: true}}, faults); diff != "" {
			t.Fatal(diff)
		}
	}
	d.drop(t, "8.0.end", "end_ms=1110000\n")
	ask(1_120_000)
	for _, name := range []string{"8.0.start", "8.0.end"} {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if jobs, _ := ask(1_130_000); len(jobs) != 2 || jobs[0].End == nil || *jobs[0].End != 1_060_000 {
		t.Errorf("job 7 comes back: %+v", jobs)
	}
	if jobs, faults := ask(1_130_000 + d.keepMs); len(jobs) != 1 || jobs[0].JobID != "9" || len(faults) > 0 {
		t.Errorf("long after: %+v, %v", jobs, faults)
	}
	d.drop(t, "7.0.start", "start_ms=1000001\nnodes=n2\n") // whoever writes it anew means it
	if jobs, faults := ask(1_130_000 + d.keepMs); len(jobs) != 2 || jobs[0].End != nil || len(faults) > 0 {
		t.Errorf("written anew: %+v, %v", jobs, faults)
	}
}

// TestDropDirOverlaps: hosts' clocks differ by some milliseconds, and an epilog may be slow.
func TestDropDirOverlaps(t *testing.T) {
	d := dropIn(t)
	for name, text := range map[string]string{
		"1.0.start": "start_ms=1000000\nnodes=n1\n", "1.0.end": "end_ms=1010050\n",
		"2.0.start": "start_ms=1010000\nnodes=n1\n",
		"3.0.start": "start_ms=1000000\nnodes=n2\n", "3.0.end": "end_ms=1005050\n",
		"3.1.start": "start_ms=1005000\nnodes=n3\n",
		"3.1.end":   "end_ms=1007000\n", "3.2.start": "start_ms=1008000\nnodes=n2\n",
		"4.0.start": "start_ms=1000000\nnodes=n4\n", "4.2.start": "start_ms=1007000\nnodes=n4\n",
		"5.0.start": "start_ms=1000000\nnodes=n5\ncpus=0-3\n", "6.0.start": "start_ms=1000500\nnodes=n5\ncpus=4-7\n",
		// A life that begins after the next one is none, and takes nothing from others.
		"7.0.start": "start_ms=1009000\nnodes=n6\n", "7.1.start": "start_ms=1001000\nnodes=n7\n",
		"8.0.start": "start_ms=1002000\nnodes=n6\n",
	} {
		d.drop(t, name, text)
	}
	d.scan(time.UnixMilli(1_020_000))
	jobs, faults := Ask(d, topology.Flat([]string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"}), time.UnixMilli(1_020_000))
	ends := map[string]int64{}
	for _, j := range jobs {
		ends[j.Identity().String()] = Life(&j).End
	}
	const goesOn = math.MaxInt64
	want := map[string]int64{
		"1/0": 1_010_000, "2/0": goesOn, "3/0": 1_005_000, "3/1": 1_007_000, "3/2": goesOn, "4/0": 1_007_000,
		"4/2": goesOn,
		"5/0": goesOn, "6/0": goesOn, "7/0": 1_009_000, "7/1": goesOn, "8/0": goesOn,
	}
	if diff := cmp.Diff(want, ends); diff != "" {
		t.Error(diff)
	}
	wantFaults := []Fault{
		{JobID: "4", Reason: "no file 4.0.end, but its restart 2 began at 1970-01-01T00:16:47.000Z: " +
			"it counts as ended then; did the epilog fail?", Followed: true},
		{JobID: "7", Reason: "no file 7.0.end, but its restart 1 began at 1970-01-01T00:16:41.000Z: " +
			"it counts as ended then; did the epilog fail?", Followed: true},
	}
	if diff := cmp.Diff(wantFaults, faults); diff != "" {
		t.Error(diff)
	}
}

// TestDropDirJobsNeverOverlap: no two jobs hold a CPU at one time, whatever prologs and epilogs wrote. No job is lost.
// A job ends only by its epilog, by a restart, or because another job took a CPU of it.
func TestDropDirJobsNeverOverlap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 3))
	for range 300 {
		d := dropIn(t)
		d.files = map[string]*dropFile{}
		var given []Job
		for id := range 1 + r.IntN(12) {
			for restart := range 1 + r.IntN(3) {
				j := Job{Job: schemas.Job{
					JobID: fmt.Sprint(id), Restart: int32(restart),
					Start: at(1_000_000 + 10*r.Int64N(50)),
				}}
				for n := range 4 {
					if r.IntN(2) == 0 {
						j.Nodes = append(j.Nodes, fmt.Sprintf("n%d", n))
					}
				}
				for c := range int32(4) {
					if r.IntN(3) == 0 {
						j.Cpus = append(j.Cpus, c)
					}
				}
				if len(j.Nodes) == 0 {
					continue
				}
				d.files[startName(&j)] = &dropFile{job: j}
				if r.IntN(2) == 0 {
					j.End = at(*j.Start + 10*r.Int64N(30) - 20)
					d.files[endName(&j)] = &dropFile{job: Job{Job: schemas.Job{
						JobID: j.JobID, Restart: j.Restart,
						End: j.End,
					}}}
					if *j.End < *j.Start {
						j.End = nil
					}
				}
				given = append(given, j)
			}
		}
		for again := range 2 {
			jobs, _ := d.list(1_000_600)
			if _, faults := admit(topology.Flat([]string{"n0", "n1", "n2", "n3"}), jobs,
				time.UnixMilli(1_000_600)); len(faults) > 0 || len(jobs) != len(given) {
				t.Fatalf("seed %d, scan %d: %d jobs of %d, %v", seed, again, len(jobs), len(given), faults)
			}
			for i := range jobs {
				j := &jobs[i]
				for k := range jobs[:i] {
					if a, b := Life(j), Life(&jobs[k]); shareCPU(j, &jobs[k]) &&
						max(a.Start, b.Start) < min(a.End, b.End) {
						t.Fatalf("seed %d, scan %d: %+v and %+v overlap", seed, again, *j, jobs[k])
					}
				}
				was := given[slices.IndexFunc(given, func(g Job) bool { return g.Identity() == j.Identity() })]
				justified := Life(j).End == Life(&was).End || slices.ContainsFunc(given, func(g Job) bool {
					restarted := g.JobID == j.JobID && g.Restart > j.Restart
					return restarted && *j.End == max(*g.Start, *j.Start) ||
						g.Identity() != j.Identity() && shareCPU(&g, j) && *g.Start == *j.End
				})
				if !justified {
					t.Fatalf("seed %d, scan %d: %+v ends for no reason, given as %+v", seed, again, *j, was)
				}
			}
		}
	}
}

// shareCPU reports whether two jobs were given the same CPU of the same node.
func shareCPU(a, b *Job) bool {
	return slices.ContainsFunc(a.Nodes, func(n string) bool { return slices.Contains(b.Nodes, n) }) &&
		(len(a.Cpus) == 0 || len(b.Cpus) == 0 ||
			slices.ContainsFunc(a.Cpus, func(c int32) bool { return slices.Contains(b.Cpus, c) }))
}

func BenchmarkEndOverlaps(b *testing.B) {
	const jobs, nodes = 16_000, 100_000
	given := make([]Job, 2*jobs) // each node has had another job before
	for i := range given {
		given[i] = Job{Job: schemas.Job{JobID: fmt.Sprint(i), Start: at(int64(1_000_000 + i))}}
	}
	for n := range nodes {
		for _, i := range []int{n * jobs / nodes, jobs + (n+nodes/2)%nodes*jobs/nodes} {
			given[i].Nodes = append(given[i].Nodes, fmt.Sprintf("n%06d", n))
		}
	}
	for b.Loop() {
		if cuts := endOverlaps(slices.Clone(given)); len(cuts) != jobs {
			b.Fatalf("%d jobs ended", len(cuts))
		}
	}
}

// TestDropScripts runs the prolog and the epilog as Slurm does, with a name that a user chose.
func TestDropScripts(t *testing.T) {
	d := dropIn(t)
	run := func(script string) {
		cmd := exec.CommandContext(t.Context(), "../../deploy/slurm/"+script)
		cmd.Env = append(os.Environ(), "DROP_DIR="+d.dir, "SLURM_JOB_ID=4711", "SLURM_JOB_RESTART_COUNT=2",
			"SLURM_JOB_NODELIST=n[1-3]",
			"SLURM_ARRAY_JOB_ID=4700", "SLURM_ARRAY_TASK_ID=11",
			"SLURM_JOB_SLUID=s5K1KKYAYG5D00", "SLURM_JOB_USER=ada", "SLURM_JOB_ACCOUNT=(null)",
			"SLURM_JOB_PARTITION=batch",
			"SLURM_JOB_NAME=$(id) `id`\nend_ms=1\n%s\x1f'\"")
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
	if j.JobID != "4711" || j.Restart != 2 || !slices.Equal(j.Nodes, []string{"n1", "n2", "n3"}) || j.User != "ada" ||
		j.Account != "" || j.Queue != "batch" || j.Cgroup != "s5K1KKYAYG5D00" ||
		j.Name != "$(id) `id`end_ms=1%s'\"" || *j.ArrayJob != "4700" || *j.ArrayTask != 11 {
		t.Errorf("%+v", j)
	}
	if j.Start == nil || j.End == nil || *j.Start < before || *j.End < *j.Start || *j.End > after {
		t.Errorf("from %v to %v, between %d and %d", j.Start, j.End, before, after)
	}
	d.dir = filepath.Join(d.dir, "missing")
	run("prolog") // a job is never held up by a directory that is not there
	run("epilog")
}

// TestDropScriptsWithoutRestartCount: Slurm's releases to 21.08 do not tell their hooks the restart.
func TestDropScriptsWithoutRestartCount(t *testing.T) {
	d := dropIn(t)
	run := func(script, id string) {
		cmd := exec.CommandContext(t.Context(), "../../deploy/slurm/"+script)
		cmd.Env = slices.DeleteFunc(
			append(os.Environ(), "DROP_DIR="+d.dir, "SLURM_JOB_ID="+id, "SLURM_JOB_NODELIST=n"+id),
			func(e string) bool { return strings.HasPrefix(e, "SLURM_JOB_RESTART_COUNT=") })
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v, %s", script, err, out)
		}
	}
	for range 12 {
		run("prolog", "47")
		run("epilog", "47")
	}
	run("prolog", "47")
	run("prolog", "471")
	d.scan(time.Now())
	jobs, faults := d.Jobs(time.Now())
	if len(faults) > 0 || len(jobs) != 14 {
		t.Fatalf("%d jobs, faults %v", len(jobs), faults)
	}
	for _, j := range jobs {
		if ended := j.End != nil; ended != (j.JobID == "47" && j.Restart < 12) || j.JobID == "471" && j.Restart != 0 {
			t.Errorf("job %s, ended: %v", j.Identity(), ended)
		}
	}
}

// TestDropScriptsRemoveWhatKilledOnesLeave: a killed hook leaves a file that begins with a dot.
func TestDropScriptsRemoveWhatKilledOnesLeave(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, ".47.0.start.99"), filepath.Join(dir, ".48.0.end.100")
	for _, name := range []string{old, fresh} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "../../deploy/slurm/epilog")
	cmd.Env = append(os.Environ(), "DROP_DIR="+dir, "SLURM_JOB_ID=49", "SLURM_JOB_RESTART_COUNT=0")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a hook that was killed two hours ago: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error(err)
	}
}

// FuzzDropName: a job and a kind of file have one name, so that no file stands for another one's.
func FuzzDropName(f *testing.F) {
	for _, name := range []string{"5.0.start", "5.00.start", "5.+1.end", "a.b.12.end", ".start", "5.2147483648.end"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		j, ok := dropName(name)
		if ok && name != startName(&j) && name != endName(&j) || ok && !schemas.ValidJobID(j.JobID) {
			t.Fatalf("%q is of %+v", name, j)
		}
	})
}

func FuzzParseDrop(f *testing.F) {
	f.Add("start_ms=1000123\nnodes=n[1-2]\ncpus=0-1,4\nuser=ada\naccount=(null)\nqueue=batch\nname=a=b\n")
	f.Add("end_ms=12\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, starts := range []bool{true, false} {
			j := Job{Job: schemas.Job{JobID: "1"}}
			err := parseDrop(text, starts, &j)
			if err == nil && starts && j.Start == nil || err == nil && !starts && j.End == nil {
				t.Fatal("no time")
			}
			if _, err := schemas.Marshal(&j.Job); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestDropDirReadsOnBeyondItsBound: a directory that nobody cleans costs a warning, and no job.
func TestDropDirReadsOnBeyondItsBound(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	d := dropIn(t)
	if d.many != manyDropFiles {
		t.Errorf("%d files are worth a warning", d.many)
	}
	d.many = 2 * dropBatch // the names are read in batches
	now := time.UnixMilli(1_000_000_000)
	for i := range 1 + d.many/2 {
		d.drop(t, strconv.Itoa(i)+".0.start", "start_ms=1\nnodes=n1\n")
		d.drop(t, strconv.Itoa(i)+".0.end", "end_ms=2\n")
	}
	d.drop(t, "new.0.start", "start_ms=999999000\nnodes=n2\n")
	d.scan(now)
	jobs, faults := Ask(d, topology.Flat([]string{"n1", "n2"}), now)
	if len(jobs) != 1 || jobs[0].JobID != "new" || len(faults) != 1 || !faults[0].Followed ||
		!strings.Contains(faults[0].Reason, "epilog") {
		t.Errorf("%d jobs, faults %+v", len(jobs), faults)
	}
}

// TestDropDirPastJobs: what is skipped in most polls is noticed all the same: an end that comes late, and a file that
// changed.
func TestDropDirPastJobs(t *testing.T) {
	d := dropIn(t)
	const hour = 3_600_000
	now := time.UnixMilli(100 * hour)
	look := func(after time.Duration, want string) {
		t.Helper()
		now = now.Add(after)
		d.scan(now)
		var got []string
		jobs, faults := d.Jobs(now)
		for _, j := range jobs {
			got = append(got, fmt.Sprint(j.JobID, " ", Life(&j).Start, " ", j.End != nil))
		}
		if text := strings.Join(got, ", "); text != want || len(faults) > 0 {
			t.Errorf("%s, want %s; faults %+v", text, want, faults)
		}
	}
	d.drop(t, "1.0.start", "start_ms=1000\nnodes=n1\n")
	d.drop(t, "2.0.start", "start_ms=2000\nnodes=n1\n") // takes the node: job 1 is over
	d.drop(t, "2.0.end", "end_ms=3000\n")
	look(0, "")
	d.drop(t, "1.0.end", fmt.Sprintf("end_ms=%d\n", 100*hour+500))
	look(time.Second, "") // the node was taken long ago
	d.drop(t, "2.0.start", fmt.Sprintf("start_ms=%d\nnodes=n1\n", 100*hour))
	if err := os.Remove(filepath.Join(d.dir, "2.0.end")); err != nil {
		t.Fatal(err)
	}
	look(dropCheck, "1 1000 true, 2 360000000 false")
}

// TestDropDirForgetsPastJobs: beside Slurm, the contents of a file are dropped if its job ended long ago. A file that
// changes is read again.
func TestDropDirForgetsPastJobs(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	const many, day = 5000, 86_400_000
	d := dropInBesideSlurm(t)
	now := time.UnixMilli(day)
	for i := range many {
		d.drop(t, fmt.Sprint(i, ".0.start"), fmt.Sprintf("start_ms=%d\nnodes=n[1-9]\nname=%d\n", i, i))
		d.drop(t, fmt.Sprint(i, ".0.end"), fmt.Sprintf("end_ms=%d\n", i))
	}
	d.drop(t, "runs.0.start", "start_ms=1\nnodes=n1\n")
	d.drop(t, "backwards.0.start", "start_ms=9000\nnodes=n1\n")
	d.drop(t, "backwards.0.end", "end_ms=1000\n")
	look := func(want string, wantFaults int) {
		t.Helper()
		d.scan(now)
		var got []string
		jobs, faults := d.Jobs(now)
		for _, j := range jobs {
			got = append(got, fmt.Sprint(j.JobID, " ", Life(&j).Start, " ", j.End != nil))
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); text != want || len(faults) != wantFaults {
			t.Errorf("%s, want %s; faults %+v", text, want, faults)
		}
	}
	scan := func() { d.scan(now) }
	scan()
	look("backwards 9000 false, runs 1 false", 1)
	if len(d.files) != 3 || len(d.past.files) != 2*many {
		t.Errorf("%d files are kept, and %d as past, of %d", len(d.files), len(d.past.files), 2*many+3)
	}
	// A later life of a number, an end that is written again, and one of a job that runs.
	d.drop(t, "17.0.start", fmt.Sprintf("start_ms=%d\nnodes=n1\n", day-5))
	d.drop(t, "18.0.end", fmt.Sprintf("end_ms=%d\n", day-1000))
	d.drop(t, "runs.0.end", fmt.Sprintf("end_ms=%d\n", day-7))
	scan()
	look("17 86399995 false, 18 18 true, backwards 9000 false, runs 1 true", 2)
	for _, name := range []string{"17.0.start", "17.0.end", "19.0.start", "19.0.end", "backwards.0.end"} {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	look("18 18 true, backwards 9000 false, runs 1 true", 0)
	now = now.Add(time.Hour) // these are past by now, too
	look("backwards 9000 false", 0)
	if len(d.files) != 1 || len(d.past.files) != 2*many-4+2 {
		t.Errorf("%d files are kept, and %d as past", len(d.files), len(d.past.files))
	}
}

// BenchmarkDropDirStart reads the files of 100,000 jobs that ended today, beside Slurm, and reports the memory of a
// job.
func BenchmarkDropDirStart(b *testing.B) {
	const jobs = 100_000
	cfg := slurmConfig()
	cfg.Balance.DropDir = b.TempDir()
	for i := range jobs {
		for name, text := range map[string]string{
			"start": fmt.Sprintf("start_ms=%d\nnodes=n[%d-%d]\nuser=ada\nname=run %d\n", i*400, i%1000, i%1000+3, i),
			"end":   fmt.Sprintf("end_ms=%d\n", i*400+390_000),
		} {
			path := filepath.Join(cfg.Balance.DropDir, fmt.Sprintf("%d.0.%s", 40_000_000+i, name))
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	var m runtime.MemStats
	held := func() uint64 {
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := held()
		d := newDropDir(cfg)
		d.scan(time.UnixMilli(86_400_000))
		b.ReportMetric(float64(held()-before)/jobs, "held-B/job")
		runtime.KeepAlive(d)
	}
}

// BenchmarkDropDirPoll is a poll late on a day of 200,000 jobs, of which 1,000 run.
func BenchmarkDropDirPoll(b *testing.B) {
	cfg := config.Default()
	cfg.Balance.DropDir = b.TempDir()
	d := newDropDir(cfg)
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 200_000 {
		put(fmt.Sprintf("%d.0.start", i), fmt.Sprintf("start_ms=%d\nnodes=n[%d-%d]\n", i*400, i%1000*4, i%1000*4+3))
		if i < 199_000 {
			put(fmt.Sprintf("%d.0.end", i), fmt.Sprintf("end_ms=%d\n", i*400+390_000))
		}
	}
	now := time.UnixMilli(200_000 * 400)
	d.scan(now)
	for b.Loop() {
		now = now.Add(time.Second)
		d.scan(now)
	}
	if jobs, faults := d.Jobs(now); len(jobs) < 1000 || len(faults) > 1 {
		b.Fatal(len(jobs), faults)
	}
}
