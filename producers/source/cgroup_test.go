package source

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// job2 is the files of a job's cgroup of version 2, in the form of kernel 6.1. scale multiplies what grows.
func job2(scale uint64, cpus string) map[string]string {
	return map[string]string{
		"memory.stat": fmt.Sprintf(`anon %d
file 50000000
kernel 12000000
kernel_stack 100000
pagetables 200000
sec_pagetables 0
percpu 30000
sock 4096
vmalloc 0
shmem 20000000
file_mapped 1000
slab_reclaimable 11000000
slab_unreclaimable 400000
slab 11400000
pgfault 5
`, 1_000_000_000*scale),
		"memory.peak":   "3000000000\n",
		"memory.max":    "4294967296\n",
		"memory.events": fmt.Sprintf("low 0\nhigh 7\nmax %d\noom 1\noom_kill 1\noom_group_kill 0\n", 5*scale),
		"cpu.stat": fmt.Sprintf("usage_usec %d\nuser_usec 1\nsystem_usec 2\ncore_sched.force_idle_usec 0\n"+
			"nr_periods 9\nnr_throttled 3\nthrottled_usec %d\nnr_bursts 0\nburst_usec 0\n", 16_000_000*scale,
			2_000_000*scale),
		"cpu.pressure":          pressureText(1_000_000*scale, 0),
		"memory.pressure":       pressureText(400_000*scale, 100_000*scale),
		"io.pressure":           pressureText(200_000*scale, 50_000*scale),
		"cpuset.cpus.effective": cpus + "\n",
		"cgroup.procs":          "",
		"memory.current":        "9\n",
	}
}

func pressureText(some, full uint64) string {
	return fmt.Sprintf("some avg10=0.12 avg60=1.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 "+
		"total=%d\n",
		some, full)
}

// job1 is the same of version 1, by controller, in the form of kernel 4.18.
func job1(scale uint64, cpus string) map[string]map[string]string {
	return map[string]map[string]string{
		"memory": {
			"memory.stat": fmt.Sprintf("cache 4096\nrss 0\nshmem 0\nmapped_file 0\nswap "+
				"0\nhierarchical_memory_limit %d\n"+
				"hierarchical_memsw_limit 9223372036854771712\ntotal_cache 50000000\ntotal_rss %d\ntotal_rss_huge 0\n"+
				"total_shmem 20000000\ntotal_mapped_file 5\n", 4294967296, 1_000_000_000*scale),
			"memory.max_usage_in_bytes": "3000000000\n",
			"memory.failcnt":            fmt.Sprintf("%d\n", 5*scale),
		},
		"cpu":     {"cpu.stat": fmt.Sprintf("nr_periods 9\nnr_throttled 3\nthrottled_time %d\n", 2_000_000_000*scale)},
		"cpuacct": {"cpuacct.usage": fmt.Sprintf("%d\n", 16_000_000_000*scale)},
		"cpuset":  {"cpuset.cpus": cpus + "\n"},
	}
}

// plant writes files below a directory.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
}

// plant1 writes a job's cgroup of version 1.
func plant1(t *testing.T, root, path string, scale uint64, cpus string) {
	t.Helper()
	for controller, files := range job1(scale, cpus) {
		plant(t, filepath.Join(root, controller, path), files)
	}
}

// cgroupRoot makes a /sys with an empty cgroup file system of a version.
func cgroupRoot(t *testing.T, version int) (sys, root string) {
	t.Helper()
	sys = t.TempDir()
	root = filepath.Join(sys, "fs/cgroup")
	if version == 2 {
		plant(t, root, map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n", "cpu.stat": ""})
		return sys, root
	}
	for _, c := range []string{"memory", "cpuacct", "cpu", "cpuset", "freezer", "unified"} {
		plant(t, filepath.Join(root, c), map[string]string{"tasks": ""})
	}
	return sys, root
}

func openHost(t *testing.T, cfg config.Agent) (*Host, *bytes.Buffer) {
	t.Helper()
	logged := &bytes.Buffer{}
	cfg.ProcPath = procTree(t)
	h := Open(cfg, slog.New(slog.NewTextHandler(logged, nil)))
	t.Cleanup(h.Close)
	return h, logged
}

// jobsIn returns the jobs of an interval of 10 s by the names of their cgroups.
func jobsIn(h *Host) map[string]JobColumns {
	h.Read(Vitals{})
	h.Interval(10 * time.Second)
	jobs := map[string]JobColumns{}
	for _, j := range h.Jobs(10 * time.Second) {
		jobs[j.Cgroup] = j
	}
	return jobs
}

func newJobRow(id uint64) []uint64 {
	row := slices.Clone(noJob[:])
	row[jobID] = id
	return row
}

// valuesByName returns the values of a job.
func valuesByName(t *testing.T, j JobColumns) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, c := range j.Columns {
		if c.Scope != schemas.ScopeJob || len(c.Values) != 1 {
			t.Errorf("%+v", c)
		}
		values[c.Name] = c.Values[0]
	}
	return values
}

// rounded compares floats to a few units of their last digit: the time between two readings is measured.
func rounded(v map[string]float64) map[string]float64 {
	rounded := map[string]float64{}
	for k, x := range v {
		rounded[k], _ = strconv.ParseFloat(fmt.Sprintf("%.3g", x), 64)
	}
	return rounded
}

// TestJobMetrics: every formula, by hand. The second reading has the files of scale 2, the first those of scale 1, and
// 10 s are between them.
func TestJobMetrics(t *testing.T) {
	want := map[string]float64{
		"job_mem_anon":  2e9,                                               // anon; v1: total_rss
		"job_mem_shmem": 20e6,                                              // shmem
		"job_mem_file":  30e6,                                              // file - shmem = 50e6 - 20e6
		"job_mem_peak":  3e9,                                               // memory.peak
		"job_mem_limit": 4294967296,                                        // memory.max
		"job_mem_fails": 0.5,                                               // (10 - 5) / 10 s
		"job_throttled": 0.2,                                               // (4 - 2) s / 10 s
		"job_cpu":       1.6,                                               // (32 - 16) s / 10 s
		"job_mem_used":  2e9 + 20e6 + 100_000 + 200_000 + 30_000 + 400_000, // anon + shmem + the kernel's
		"job_psi_cpu":   0.1, "job_psi_memory": 0.04, "job_psi_io": 0.02,   // 1 s, 0.4 s and 0.2 s of 10 s
	}
	row := func(scale uint64) []uint64 {
		row := newJobRow(7)
		for _, f := range files2 {
			if f.parse != nil {
				f.parse(row, []byte(job2(scale, "0")[f.name]))
			}
		}
		return row
	}
	row1 := func(scale uint64) []uint64 {
		row := newJobRow(7)
		for _, f := range files1 {
			if f.parse != nil {
				f.parse(row, []byte(job1(scale, "0")[f.controller][f.name]))
			}
		}
		return row
	}
	got := func(from, to []uint64) map[string]float64 {
		out := make([]float64, len(cgroups().metrics))
		for i := range out {
			out[i] = math.NaN()
		}
		formJob(from, to, 10*time.Second, out)
		values := map[string]float64{}
		for i, m := range cgroups().metrics {
			if !math.IsNaN(out[i]) {
				values[m.name] = out[i]
			}
		}
		return values
	}
	near := cmpopts.EquateApprox(1e-12, 0)
	if diff := cmp.Diff(want, got(row(1), row(2)), near); diff != "" {
		t.Errorf("version 2 (-want +got):\n%s", diff)
	}
	for _, name := range []string{"job_psi_cpu", "job_psi_memory", "job_psi_io"} {
		delete(want, name)
	}
	want["job_mem_used"] = 2e9 + 20e6 // total_rss + total_shmem: version 1 does not tell of the kernel's
	if diff := cmp.Diff(want, got(row1(1), row1(2)), near); diff != "" {
		t.Errorf("version 1 (-want +got):\n%s", diff)
	}

	// What is not there, has no limit or was reset is missing, and never 0.
	if v := got(newJobRow(7), newJobRow(7)); len(v) > 0 {
		t.Errorf("of nothing: %v", v)
	}
	back := got(row(2), row(1))
	for _, name := range []string{"job_cpu", "job_throttled", "job_mem_fails", "job_psi_cpu"} {
		if _, there := back[name]; there {
			t.Errorf("%s of a counter that went backwards: %v", name, back[name])
		}
	}
	other := row(2)
	if other[jobID] = 8; len(got(row(1), other)) > 0 {
		t.Error("two jobs of one name are taken for one")
	}
	unlimited := row(2)
	unlimited[jobLimit] = unread
	oneNumber(jobLimit)(unlimited, []byte("max\n"))
	if v, there := got(row(1), unlimited)["job_mem_limit"]; there {
		t.Errorf("a limit of max: %v", v)
	}
	old := newJobRow(7) // of kernel 3.10, which does not know shared memory
	parseMemory1(old, []byte("hierarchical_memory_limit 9223372036854771712\ntotal_cache 5\ntotal_rss 6\n"))
	if diff := cmp.Diff(map[string]float64{"job_mem_anon": 6}, got(old, old)); diff != "" {
		t.Errorf("old kernel (-want +got):\n%s", diff)
	}
}

// TestCgroupLayouts: where Slurm and PBS make the cgroups of their jobs. Below each job are steps, whose files nobody
// reads, and beside the jobs are directories that are none.
func TestCgroupLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		version  int
		jobs     map[string]string // paths below the root, or below each controller
		others   []string
		patterns []string
	}{
		"Slurm, version 1": {
			version: 1,
			jobs:    map[string]string{"slurm/uid_1000/job_71": "job_71", "slurm/uid_1001/job_72": "job_72"},
			others:  []string{"slurm/uid_1000/job_71/step_0/task_0", "slurm/system", "user.slice/job_1"},
		},
		"several slurmd, version 1": {
			version: 1,
			jobs:    map[string]string{"slurm_n1/uid_0/job_71": "job_71", "slurm_n2/uid_0/job_72": "job_72"},
			others:  []string{"slurm_n1/uid_0/job_71/step_0/task_0"},
		},
		"Slurm, version 2": {
			version: 2,
			jobs: map[string]string{
				"system.slice/slurmstepd.scope/job_71": "job_71", "system.slice/slurmstepd.scope/job_72": "job_72",
			},
			others: []string{
				"system.slice/slurmstepd.scope/system", "system.slice/slurmd.service", "user.slice",
				"system.slice/slurmstepd.scope/job_71/step_0/user/task_0",
			},
		},
		"several slurmd, version 2": {
			version: 2,
			jobs: map[string]string{
				"system.slice/n1_slurmstepd.scope/job_71": "job_71",
				"system.slice/n2_slurmstepd.scope/job_72": "job_72",
			},
		},
		"Slurm 26.05": {
			version: 2,
			jobs: map[string]string{
				"system.slice/slurmstepd.scope/s5K1KKYAYG5D00":    "s5K1KKYAYG5D00",
				"system.slice/n2_slurmstepd.scope/s5K1KKYAYG5D01": "s5K1KKYAYG5D01",
			},
			others: []string{
				"system.slice/slurmstepd.scope/system",
				"system.slice/slurmstepd.scope/s5K1KKYAYG5D00/step_0",
			},
		},
		"PBS, version 1": {
			version: 1,
			jobs: map[string]string{
				"pbs_jobs.service/jobid/71.server": "71.server",
				"pbspro.service/jobid/72.server":   "72.server",
			},
		},
		"PBS, version 2": {
			version: 2,
			jobs: map[string]string{
				"pbs_jobs.service/jobs/71.server":  "71.server",
				"pbs_jobs.service/jobid/72.server": "72.server",
			},
		},
		"of the site": {
			version:  2,
			jobs:     map[string]string{"batch/q1/j-71": "j-71", "batch/q2/j-72": "j-72"},
			others:   []string{"system.slice/slurmstepd.scope/job_9", "batch/q1/k-73"},
			patterns: []string{"batch/*/j-*"},
		},
		"names that nobody expects": {
			version: 2,
			jobs: map[string]string{
				"pbs_jobs.service/jobid/71[3].a b":     "71[3].a b",
				"pbs_jobs.service/jobid/\x1b[2J\\x2d*": "\x1b[2J\\x2d*",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			sys, root := cgroupRoot(t, c.version)
			h, _ := openHost(t, config.Agent{SysPath: sys, Cgroups: c.patterns})
			put := func(scale uint64) {
				n := 0
				for path := range c.jobs {
					if cpus := fmt.Sprintf("%d-%d,8", n, n+1); c.version == 1 {
						plant1(t, root, path, scale, cpus)
					} else {
						plant(t, filepath.Join(root, path), job2(scale, cpus))
					}
					n++
				}
				for _, path := range c.others {
					if c.version == 1 {
						plant1(t, root, path, 99, "99")
					} else {
						plant(t, filepath.Join(root, path), job2(99, "99"))
					}
				}
			}
			if jobs := jobsIn(h); len(jobs) > 0 {
				t.Errorf("jobs of an empty node: %v", jobs)
			}
			put(1)
			jobsIn(h)
			for path := range c.jobs { // the same files with other texts
				if c.version == 1 {
					plant1(t, root, path, 2, "0-1,8")
				} else {
					plant(t, filepath.Join(root, path), job2(2, "0-1,8"))
				}
			}
			jobs := jobsIn(h)
			if len(jobs) != len(c.jobs) {
				t.Errorf("%d jobs, want %d: %v", len(jobs), len(c.jobs), jobs)
			}
			for _, name := range c.jobs {
				v := rounded(valuesByName(t, jobs[name]))
				if v["job_mem_anon"] != 2e9 || v["job_cpu"] != 1.6 || v["job_throttled"] != 0.2 ||
					v["job_mem_peak"] != 3e9 {
					t.Errorf("%s: %v", name, v)
				}
				if diff := cmp.Diff([]int32{0, 1, 8}, jobs[name].CPUs); diff != "" {
					t.Errorf("%s: CPUs (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestJobsComeAndGo: a job has values from its second reading on, and none after its end. One that begins again under
// its name is another job.
func TestJobsComeAndGo(t *testing.T) {
	sys, root := cgroupRoot(t, 2)
	h, logged := openHost(t, config.Agent{SysPath: sys})
	scope := filepath.Join(root, "system.slice/slurmstepd.scope")
	jobsIn(h)
	plant(t, filepath.Join(scope, "job_1"), job2(1, "0"))
	if jobs := jobsIn(h); len(jobs) != 0 {
		t.Errorf("values of one reading: %v", jobs)
	}
	plant(t, filepath.Join(scope, "job_2"), job2(1, "1"))
	if jobs := jobsIn(h); len(jobs) != 1 || jobs["job_1"].Columns == nil {
		t.Errorf("want job_1: %v", jobs)
	}
	if jobs := jobsIn(h); len(jobs) != 2 {
		t.Errorf("want both: %v", jobs)
	}
	if err := os.RemoveAll(filepath.Join(scope, "job_1")); err != nil {
		t.Fatal(err)
	}
	if jobs := jobsIn(h); len(jobs) != 1 || jobs["job_2"].Columns == nil {
		t.Errorf("want job_2: %v", jobs)
	}
	if err := os.Rename(filepath.Join(scope, "job_2"), filepath.Join(scope, "gone")); err != nil {
		t.Fatal(err)
	}
	plant(t, filepath.Join(scope, "job_2"), job2(3, "1"))
	if jobs := jobsIn(h); len(jobs) != 0 {
		t.Errorf("the second job_2 has values of the first: %v", jobs)
	}
	if jobs := jobsIn(h); len(jobs) != 1 {
		t.Errorf("want the second job_2: %v", jobs)
	}
	if err := os.RemoveAll(filepath.Join(root, "system.slice")); err != nil {
		t.Fatal(err)
	}
	if jobs := jobsIn(h); len(jobs) != 0 {
		t.Errorf("want none: %v", jobs)
	}
	if log := logged.String(); strings.Contains(log, "cgroup") && strings.Contains(log, "WARN") {
		t.Errorf("ends of jobs are logged:\n%s", log)
	}
}

// TestNewJobsAreLookedFor: at one reading a second a new cgroup is seen within five seconds, at ten seconds at once.
func TestNewJobsAreLookedFor(t *testing.T) {
	for intervalMs, want := range map[int64][]int64{1000: {6000}, 10_000: {20_000}} {
		sys, root := cgroupRoot(t, 2)
		p, err := openCgroups(config.Agent{SysPath: sys}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		var seen []int64
		for at := intervalMs; at <= 2*intervalMs || at <= 6000; at += intervalMs {
			rows, err := p.read(nil, Vitals{BoundaryMs: at})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) > 0 {
				seen = append(seen, at)
			}
			plant(t, filepath.Join(root, "system.slice/slurmstepd.scope/job_1"), job2(1, "0"))
		}
		if !slices.Equal(seen, want) {
			t.Errorf("a job that began after %d ms is seen at %v, want %v", intervalMs, seen, want)
		}
		if rows, _ := p.read(nil, Vitals{BoundaryMs: 1}); len(rows) != 1 { // the clock was set back
			t.Errorf("%d jobs, want 1", len(rows))
		}
	}
}

// TestFilesThatComeLater: the directories of the controllers of version 1 are made one after the other.
func TestFilesThatComeLater(t *testing.T) {
	sys, root := cgroupRoot(t, 1)
	h, _ := openHost(t, config.Agent{SysPath: sys})
	const path = "slurm/uid_0/job_1"
	plant(t, filepath.Join(root, "cpuset", path), job1(1, "0")["cpuset"])
	jobsIn(h)
	plant1(t, root, path, 1, "0-3")
	jobsIn(h)
	v := valuesByName(t, jobsIn(h)["job_1"])
	if v["job_mem_anon"] != 1e9 || v["job_cpu"] != 0 {
		t.Errorf("%v", v)
	}
	if _, there := v["job_cpu"]; !there {
		t.Error("job_cpu is missing")
	}
}

// TestGarbledCgroups: files that are cut off, empty or of another kind cost their own values.
func TestGarbledCgroups(t *testing.T) {
	sys, root := cgroupRoot(t, 2)
	h, _ := openHost(t, config.Agent{SysPath: sys})
	dir := filepath.Join(root, "system.slice/slurmstepd.scope/job_1")
	files := job2(1, "0")
	files["memory.stat"] = "anon 12x\nfile\nshmem 99999999999999999999\nkernel_stack 5\nanon 77"
	files["memory.peak"] = ""
	files["memory.max"] = "18446744073709551616\n"
	files["cpu.pressure"] = "full avg10=0 total=5\n"
	files["io.pressure"] = "some avg10=0.00 total=12"
	files["cpuset.cpus.effective"] = "0-99999999999\n"
	delete(files, "memory.pressure")
	delete(files, "memory.events")
	plant(t, dir, files)
	// It can be opened and not read, as a file of pressure where the kernel does not measure it.
	if err := os.Mkdir(filepath.Join(dir, "memory.pressure"), 0o755); err != nil {
		t.Fatal(err)
	}
	jobsIn(h)
	j := jobsIn(h)["job_1"]
	if diff := cmp.Diff(map[string]float64{"job_cpu": 0, "job_throttled": 0}, valuesByName(t, j)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if j.CPUs != nil {
		t.Errorf("CPUs %v", j.CPUs)
	}
}

func TestManyJobs(t *testing.T) {
	sys, root := cgroupRoot(t, 2)
	h, logged := openHost(t, config.Agent{SysPath: sys})
	for i := range maxJobs + 20 {
		plant(t, filepath.Join(root, fmt.Sprintf("system.slice/slurmstepd.scope/job_%d", i)),
			map[string]string{"cpu.stat": "usage_usec 5\n"})
	}
	jobsIn(h)
	if n := len(jobsIn(h)); n != maxJobs {
		t.Errorf("%d jobs, want %d", n, maxJobs)
	}
	jobsIn(h)
	if n := strings.Count(logged.String(), "cgroups of more jobs are not read"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, logged)
	}
}

// TestDerivedOfJobs: a computed metric may use those of the job, and those of its node.
func TestDerivedOfJobs(t *testing.T) {
	sys, root := cgroupRoot(t, 2)
	h, _ := openHost(t, config.Agent{SysPath: sys, Metrics: []config.DerivedMetric{
		{Name: "node_twice", Expr: "2 * mem_used"},
		{Name: "job_mem_free", Unit: "B", Expr: "job_mem_limit - job_mem_anon"},
		{Name: "job_mem_share", Expr: "job_mem_anon / node_twice"},
	}})
	plant(t, filepath.Join(root, "system.slice/slurmstepd.scope/job_1"), job2(1, "0"))
	jobsIn(h)
	h.Read(Vitals{})
	_, columns := h.Interval(10 * time.Second)
	jobs := h.Jobs(10 * time.Second)
	if len(jobs) != 1 {
		t.Fatalf("%v", jobs)
	}
	v := valuesByName(t, jobs[0])
	node := valuesOf(columns, "mem_used")[0]
	if v["job_mem_free"] != 3294967296 { // 4294967296 - 1e9
		t.Errorf("job_mem_free = %v", v["job_mem_free"])
	}
	if want := 1e9 / (2 * node); math.Abs(v["job_mem_share"]/want-1) > 1e-12 {
		t.Errorf("job_mem_share = %v, want %v", v["job_mem_share"], want)
	}
	for _, c := range columns {
		if c.Scope == schemas.ScopeJob {
			t.Errorf("%s of no job", c.Name)
		}
	}
	if _, there := v["node_twice"]; there || valuesOf(columns, "node_twice")[0] != 2*node {
		t.Errorf("node_twice: %v", v)
	}
}

func TestNoCgroups(t *testing.T) {
	if _, err := openCgroups(config.Agent{SysPath: t.TempDir()}, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "fs/cgroup") {
		t.Errorf("%v", err)
	}
	sys, _ := cgroupRoot(t, 1)
	p, err := openCgroups(config.Agent{SysPath: sys}, slog.New(slog.DiscardHandler))
	if err != nil || p.absent["job_psi_io"] == nil {
		t.Errorf("%v, absent %v", err, p.absent)
	}
	p.close()
}

// TestCgroupsCostLittle: a reading of jobs that stay allocates nothing.
func TestCgroupsCostLittle(t *testing.T) {
	sys, root := cgroupRoot(t, 2)
	for i := range 4 {
		plant(t, filepath.Join(root, fmt.Sprintf("system.slice/slurmstepd.scope/job_%d", i)), job2(1, "0-7"))
	}
	p, err := openCgroups(config.Agent{SysPath: sys}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	a, _ := p.read(nil, Vitals{})
	b, _ := p.read(nil, Vitals{})
	if len(a) != 4 || len(b) != 4 {
		t.Fatalf("%d and %d jobs", len(a), len(b))
	}
	if n := testing.AllocsPerRun(20, func() { a, _ = p.read(a, Vitals{}) }); n > 0 {
		t.Errorf("%v allocations a reading", n)
	}
}

// TestOwnCgroup: the numbers of a cgroup of this machine are those that its files have.
func TestOwnCgroup(t *testing.T) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	path, file, key := "", "", ""
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), "memory"):
			path, file, key = parts[2], filepath.Join("/sys/fs/cgroup/memory", parts[2], "memory.stat"), "total_rss "
		case len(parts) == 3 && parts[0] == "0" && path == "":
			path, file, key = parts[2], filepath.Join("/sys/fs/cgroup", parts[2], "memory.stat"), "anon "
		}
	}
	if _, err := os.Stat(file); err != nil || filepath.Base(path) == "/" {
		t.Skipf("no cgroup of this process with a memory controller: %q", path)
	}
	pattern := strings.TrimPrefix(filepath.Join(filepath.Dir(path), "*"), "/")
	p, err := openCgroups(config.Agent{SysPath: "/sys", Cgroups: []string{pattern}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	eventually(t, "the same as "+file, func() bool { // both change all the time
		r, err := p.read(nil, Vitals{})
		if err != nil {
			t.Fatal(err)
		}
		stat, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r {
			if name, _, ok := p.job(row[jobID]); ok && name == filepath.Base(path) {
				return strings.Contains("\n"+string(stat), fmt.Sprintf("\n%s%d\n", key, row[jobAnon]))
			}
		}
		t.Fatalf("%s is not among %d cgroups", path, len(r))
		return false
	})
}

func FuzzCgroupFiles(f *testing.F) {
	for _, text := range job2(1, "0-3,8") {
		f.Add([]byte(text))
	}
	for _, files := range job1(1, "0-3,8,10-11") {
		for _, text := range files {
			f.Add([]byte(text))
		}
	}
	f.Add([]byte("max\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		from, to := newJobRow(1), newJobRow(1)
		for _, files := range [][]cgroupFile{files1, files2} {
			for _, file := range files {
				if file.parse != nil {
					file.parse(to, text)
					file.parse(from, text[:len(text)/2])
				}
			}
		}
		if len(to) != jobFields || to[jobID] != 1 {
			t.Errorf("row %v", to)
		}
		out := make([]float64, len(cgroups().metrics))
		formJob(from, to, time.Second, out)
		for i, v := range out {
			if math.IsInf(v, 0) || v < 0 {
				t.Errorf("%s = %v", cgroups().metrics[i].name, v)
			}
		}
		cpus := parseCPUList(text)
		if len(cpus) > maxCPUs || !slices.IsSorted(cpus) || len(cpus) != len(slices.Compact(slices.Clone(cpus))) {
			t.Errorf("CPUs %v", cpus)
		}
	})
}

func FuzzDirectories(f *testing.F) {
	dir := f.TempDir()
	for _, name := range []string{"job_1", "s5K1KKYAYG5D00"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	l := &listing{fd: -1}
	l.open(dir)
	defer l.close()
	if got := directories(l.raw); len(got) != 2 {
		f.Fatalf("%q", got)
	}
	f.Add(slices.Clone(l.raw))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, name := range directories(raw) {
			if strings.ContainsRune(name, 0) || name == "." || name == ".." {
				t.Errorf("%q", name)
			}
		}
	})
}

func TestParseCPUList(t *testing.T) {
	for text, want := range map[string][]int32{
		"0\n": {0}, "0-3,8,10-11\n": {0, 1, 2, 3, 8, 10, 11}, "\n": nil, "": nil, "16383\n": {16383},
		"16384\n": nil, "3-1\n": nil, "0,0\n": nil, "4,2\n": nil, "a\n": nil, "1-\n": nil, "-1\n": nil, "1,,2\n": nil,
		"0-3 \n": nil, "0-99999999999\n": nil,
	} {
		if diff := cmp.Diff(want, parseCPUList([]byte(text))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// BenchmarkCgroups reads the cgroups of 8 jobs that stay. Files of the fixture are on a disk, not made by the kernel.
func BenchmarkCgroups(b *testing.B) {
	root := filepath.Join(b.TempDir(), "fs/cgroup")
	scope := filepath.Join(root, "system.slice/slurmstepd.scope")
	for i := range 8 {
		dir := filepath.Join(scope, fmt.Sprintf("job_%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for name, text := range job2(1, "0-7") {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.controllers"), nil, 0o644); err != nil {
		b.Fatal(err)
	}
	p, err := openCgroups(config.Agent{SysPath: filepath.Dir(filepath.Dir(root))}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer p.close()
	var r reading
	b.ReportAllocs()
	for b.Loop() {
		if r, err = p.read(r, Vitals{}); err != nil || len(r) != 8 {
			b.Fatalf("%d jobs, %v", len(r), err)
		}
	}
}
