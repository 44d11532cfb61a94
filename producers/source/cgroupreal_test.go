package source

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
)

// usageOf returns the CPU time of a cgroup as a person would read it, in seconds.
func usageOf(t *testing.T, dir string) float64 {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(dir, "cpuacct.usage")); err == nil {
		n, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n / 1e9
	}
	b, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
	if err != nil {
		t.Fatal(err)
	}
	var n float64
	if _, err := fmt.Sscanf(string(b), "usage_usec %g", &n); err != nil {
		t.Fatal(err)
	}
	return n / 1e6
}

// TestRealCgroups makes a cgroup for a job with a busy process, where this machine lets it. What the source says lies
// between what its file says before and after.
func TestRealCgroups(t *testing.T) {
	for version, root := range map[string]string{
		"1": "/sys/fs/cgroup/cpuacct", "2": "/sys/fs/cgroup", "2, beside 1": "/sys/fs/cgroup/unified",
	} {
		t.Run(version, func(t *testing.T) {
			_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
			if second := version != "1"; second != (err == nil) {
				t.Skip("this machine has no such cgroups")
			}
			site := fmt.Sprintf("weir-test-%d", os.Getpid())
			parent := filepath.Join(root, site)
			dir := filepath.Join(parent, "job_1")
			made := time.Now()
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Skip("NOT CHECKED against real cgroups: this test may not make one:", err)
			}
			sys := t.TempDir()
			if err := os.MkdirAll(filepath.Join(sys, "fs"), 0o755); err != nil {
				t.Fatal(err)
			}
			below := root
			if version == "1" {
				below = filepath.Dir(root)
			}
			if err := os.Symlink(below, filepath.Join(sys, "fs/cgroup")); err != nil {
				t.Fatal(err)
			}
			busy := exec.Command("/bin/sh", "-c", "while :; do :; done")
			if err := busy.Start(); err != nil {
				t.Fatal(err)
			}
			remove := func() {
				_ = busy.Process.Kill()
				_ = busy.Wait()
				eventually(t, "removed", func() bool { return os.Remove(dir) == nil || os.IsNotExist(os.Remove(dir)) })
			}
			t.Cleanup(func() { remove(); _ = os.Remove(parent) })
			pid := []byte(strconv.Itoa(busy.Process.Pid))
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0o644); err != nil {
				t.Skip("NOT CHECKED against real cgroups: a process may not join one:", err)
			}

			p, err := openCgroups(config.Agent{SysPath: sys, Cgroups: []string{site + "/job_*"}},
				slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			read := func() reading {
				t.Helper()
				r, err := p.read(nil, Vitals{})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			before := usageOf(t, dir)
			from := read()
			began := time.Now()
			inner := usageOf(t, dir)
			time.Sleep(300 * time.Millisecond)
			eventually(t, "some CPU time of the busy process", func() bool { return usageOf(t, dir) > inner })
			least := usageOf(t, dir) - inner
			elapsed := time.Since(began)
			to := read()
			most := usageOf(t, dir) - before
			if len(from) != 1 || len(to) != 1 {
				t.Fatalf("%d and %d jobs", len(from), len(to))
			}
			if name, _, ok := p.job(to[0][jobID]); !ok || name != "job_1" {
				t.Errorf("job %q", name)
			}
			out := make([]float64, len(cgroups().metrics))
			for i := range out {
				out[i] = math.NaN()
			}
			formJob(from[0], to[0], elapsed, out)
			const jobCPU = 11
			spent := out[jobCPU] * elapsed.Seconds()
			if cgroups().metrics[jobCPU].name != "job_cpu" || !(spent >= least-1e-6 && spent <= most+1e-6) ||
				most == 0 {
				t.Errorf("%v s of CPU time, want %v to %v", spent, least, most)
			}
			// The kernel renews these totals every two seconds. So one may grow at once by what was lost since the
			// cgroup was made. A kernel whose PSI is off has the file and refuses to read it.
			stalled, most := out[7]*elapsed.Seconds(), time.Since(made).Seconds()
			if _, err := os.ReadFile(filepath.Join(dir, "cpu.pressure")); err == nil &&
				!(stalled >= 0 && stalled <= most) {
				t.Errorf("job_psi_cpu = %v, %v s in %v s", out[7], stalled, most)
			}
			row := read()
			for range maxTries { // this machine lacks some of a job's files, which are looked for that often
				read()
			}
			if n := testing.AllocsPerRun(10, func() { row, _ = p.read(row, Vitals{}) }); n > 0 {
				t.Errorf("%v allocations a reading", n)
			}

			// The job ends, and one of its name begins.
			remove()
			if r := read(); len(r) != 0 {
				t.Errorf("a job that ended is read: %v", r)
			}
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if r := read(); len(r) != 1 || r[0][jobID] == to[0][jobID] {
				t.Errorf("the second job of its name: %v", r)
			}
		})
	}
}
