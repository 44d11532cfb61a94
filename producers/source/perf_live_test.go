package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// perfStat counts software events of each CPU with perf(1) while the shell runs script. It returns counts by event and
// CPU.
func perfStat(ctx context.Context, script string) (map[string]map[int]float64, error) {
	cmd := exec.CommandContext(ctx, "perf", "stat", "-a", "-A", "-x,", "-e",
		"context-switches,page-faults,major-faults,task-clock",
		"--", "sh", "-c", script)
	cmd.Env = append(cmd.Environ(), "LC_ALL=C") // a locale may have a comma in its numbers
	var text bytes.Buffer
	cmd.Stderr = &text
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %.300s", err, text.String())
	}
	counts := map[string]map[int]float64{}
	for lines := bufio.NewScanner(&text); lines.Scan(); {
		f := strings.Split(lines.Text(), ",")
		if len(f) < 4 || !strings.HasPrefix(f[0], "CPU") {
			continue
		}
		cpu, err1 := strconv.Atoi(strings.TrimPrefix(f[0], "CPU"))
		n, err2 := strconv.ParseFloat(f[1], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%w: %s", err, lines.Text())
		}
		if counts[f[3]] == nil {
			counts[f[3]] = map[int]float64{}
		}
		counts[f[3]][cpu] = n
	}
	return counts, nil
}

// TestSoftwareEventsAgainstPerf compares with perf(1), which opens events of its own. One perf counts from before the
// first reading to after the second, another from after the first to before the second. The values lie between the two.
func TestSoftwareEventsAgainstPerf(t *testing.T) {
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("SKIPPED: no perf(1) to compare with:", err)
	}
	if _, err := perfStat(t.Context(), "true"); err != nil {
		t.Skip("SKIPPED: perf(1) may not count here:", err)
	}
	p, err := perfSoftware().open(config.Agent{ProcPath: "/proc", SysPath: "/sys", Perf: true},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Skip("SKIPPED: the kernel refuses perf events here:", err)
	}
	defer p.close()
	dir := t.TempDir()
	started, done := filepath.Join(dir, "started"), filepath.Join(dir, "done")
	type result struct {
		counts map[string]map[int]float64
		err    error
	}
	outer := make(chan result, 1)
	go func() { // counts from before started exists until after done does
		counts, err := perfStat(t.Context(), fmt.Sprintf("touch %s; while [ ! -e %s ]; do sleep 0.02; done", started,
			done))
		outer <- result{counts, err}
	}()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(started); err == nil {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("perf does not start")
		}
	}
	from, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := perfStat(t.Context(), "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done")
	if err != nil {
		t.Fatal(err)
	}
	to, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, done, "")
	around := <-outer
	if around.err != nil {
		t.Fatal(around.err)
	}
	metrics := perfSoftware().metrics
	compared := 0
	for cpu := range from {
		if len(from[cpu]) == 0 || len(to[cpu]) == 0 {
			continue
		}
		out := make([]float64, len(metrics))
		p.form(from[cpu], to[cpu], 0, out)
		seconds := float64(to[cpu][rowEnabled]-from[cpu][rowEnabled]) / 1e9
		for i, m := range metrics {
			event := map[string]string{
				"page_faults": "page-faults", "page_faults_major": "major-faults",
				"context_switches": "context-switches",
				"task_clock":       "task-clock",
			}[m.name]
			low, known := inner[event][cpu]
			high := around.counts[event][cpu]
			count := out[i] * seconds
			if m.name == "task_clock" {
				count *= 1000 // perf has milliseconds
			}
			if !known {
				continue
			}
			compared++
			t.Logf("CPU %d, %s: %.1f <= %.1f <= %.1f", cpu, m.name, low, count, high)
			if count < low-0.01 || count > high+0.01 {
				t.Errorf("CPU %d: %s counted %.2f, perf(1) %.2f within and %.2f around it", cpu, m.name, count, low,
					high)
			}
		}
	}
	if compared < 4 {
		t.Errorf("%d values were compared", compared)
	}
}

// TestSoftwareEventsCount: page faults of this process are counted, without another program that counts them. A group
// whose events join it while it counts stays at 0 here.
func TestSoftwareEventsCount(t *testing.T) {
	p, err := perfSoftware().open(config.Agent{ProcPath: "/proc", SysPath: "/sys", Perf: true},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Skip("SOFTWARE EVENTS ARE NOT TRIED: the kernel refuses them: ", err)
	}
	r := &trial{probe: p, source: perfSoftware(), t: t}
	defer p.close()
	r.must(1)
	const pages = 1000
	memory, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil {
		t.Log(err) // a kernel without huge pages
	}
	for at := 0; at < len(memory); at += os.Getpagesize() {
		memory[at] = 1
	}
	r.must(1)
	faults := 0.0 // a whole number, but for what the division by the time costs
	for cpu, rate := range valuesBetween(r.source, p, r.from, r.to, time.Second)["page_faults"] {
		faults += rate * float64(r.to[cpu][rowEnabled]-r.from[cpu][rowEnabled]) / 1e9
	}
	if math.Round(faults) < pages {
		t.Errorf("%g page faults were counted, of %d at least", faults, pages)
	}
}

// TestKernelCountsTogether: this kernel takes events of PMU msr into a group of software events, and counts both all of
// the time.
func TestKernelCountsTogether(t *testing.T) {
	clock := resolved("/sys", []eventGroup{clockGroup()})[0].events
	clock = slices.DeleteFunc(clock, func(e event) bool { return e.lacking != nil })
	if len(clock) == 0 {
		t.Skip("COUNTING TOGETHER IS NOT TRIED: the kernel has no PMU msr here")
	}
	events := slices.Concat(softwareGroup().events, clock)
	g, err := linux.openEvents(0, events)
	if err != nil {
		t.Skip("COUNTING TOGETHER IS NOT TRIED: the kernel refuses perf events here: ", err)
	}
	defer linux.closeGroup(&g)
	buf := make([]byte, 8*(3+len(events)))
	from, err1 := linux.readGroup(nil, &g, buf)
	time.Sleep(20 * time.Millisecond)
	to, err2 := linux.readGroup(nil, &g, buf)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if to[rowRunning]-from[rowRunning] != to[rowEnabled]-from[rowEnabled] {
		t.Errorf("they waited for their turn: from %v to %v", from, to)
	}
	if last := len(to) - 1; to[rowEvents] <= from[rowEvents] || to[last] <= from[last] {
		t.Errorf("task-clock or %s stands still: from %v to %v", events[len(events)-1].name, from, to)
	}
}

// TestHooksOfTheLock runs the node's prolog and epilog as slurmd does.
func TestHooksOfTheLock(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	set := &perfSet{cfg: config.Agent{PerfLock: lock}, log: slog.New(slog.DiscardHandler)}
	run := func(script, job string, env ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "../../deploy/slurm/"+script)
		cmd.Env = append([]string{"PERF_LOCK=" + lock, "SLURM_JOB_ID=" + job}, env...)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: %v, %s", script, err, out)
		}
	}
	for _, asks := range []string{
		"SLURM_JOB_CONSTRAINTS=hwperf", "SLURM_JOB_CONSTRAINTS=cpu&hwperf", "SLURM_JOB_CONSTRAINTS=[a|hwperf*2]",
		"SLURM_JOB_COMMENT=please hwperf, thanks", "SLURM_JOB_COMMENT=$(id) `id` * hwperf",
	} {
		run("node-prolog", "47", asks)
		if !set.locked() {
			t.Errorf("%s: no lock", asks)
		}
		run("node-epilog", "47", asks)
		if set.locked() {
			t.Errorf("%s: the lock stays", asks)
		}
	}
	for _, other := range []string{
		"A=", "SLURM_JOB_CONSTRAINTS=nohwperf", "SLURM_JOB_COMMENT=hwperf2",
		"SLURM_JOB_CONSTRAINTS=(null)",
	} {
		run("node-prolog", "47", other)
		if set.locked() {
			t.Errorf("%s: a lock", other)
		}
		run("node-epilog", "47", other) // there is nothing to remove
	}
	// Two jobs share the node, and a third asks for nothing.
	run("node-prolog", "1", "SLURM_JOB_COMMENT=hwperf")
	run("node-prolog", "2", "SLURM_JOB_COMMENT=hwperf")
	run("node-epilog", "3")
	run("node-epilog", "1")
	if !set.locked() {
		t.Error("the first job that ends takes the second one's lock")
	}
	run("node-epilog", "2")
	if set.locked() {
		t.Error("the lock stays")
	}
	// A job of three days keeps its lock to the end.
	end := time.Now().Add(72 * time.Hour)
	run("node-prolog", "4", "SLURM_JOB_COMMENT=hwperf", fmt.Sprint("SLURM_JOB_END_TIME=", end.Unix()))
	var st unix.Stat_t
	if err := unix.Stat(lock, &st); err != nil || st.Mtim.Sec != end.Unix() || !set.locked() {
		t.Errorf("the lock is of %d, want %d: %v", st.Mtim.Sec, end.Unix(), err)
	}
}

func TestEncode(t *testing.T) {
	formats := map[string]string{
		"event": "config:0-7,32-35", "umask": "config:8-15", "cmask": "config:24-31", "any": "config:21",
		"offcore": "config1:0-63",
	}
	format := func(field string) (string, error) {
		if f, ok := formats[field]; ok {
			return f, nil
		}
		return "", os.ErrNotExist
	}
	for terms, want := range map[string]uint64{
		"event=0x04,umask=0x03":           0x304,
		"event=0x107,umask=0x38":          0x100003807,
		"event=0x3c,umask=0x0,any=1":      0x20003c,
		"event=0xd,umask=0x3,cmask=1,any": 0x120030d, // 1 << 24 | 1 << 21 | 3 << 8 | 0xd
		"event=5":                         5,
	} {
		got, err := encode(terms, format)
		if err != nil || got != want {
			t.Errorf("%s: %#x, %v, want %#x", terms, got, err, want)
		}
	}
	for _, terms := range []string{"", "event=", "event=x", "event=0x1fff", "offcore=1", "nothing=1", "event=1,,"} {
		if got, err := encode(terms, format); err == nil {
			t.Errorf("%q: %#x", terms, got)
		}
	}
}

// FuzzEncode: a PMU of a driver that nobody knows describes its events as it likes.
func FuzzEncode(f *testing.F) {
	f.Add("event=0x04,umask=0x03", "config:0-7,32-35")
	f.Add("any", "config:21")
	f.Add("event=0xffffffffffffffff", "config:0-63")
	f.Fuzz(func(t *testing.T, terms, format string) {
		config, err := encode(terms, func(string) (string, error) { return format, nil })
		if err != nil && config != 0 {
			t.Errorf("%#x and %v", config, err)
		}
	})
}

func FuzzParseCPUInfo(f *testing.F) {
	f.Add([]byte("vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\n"))
	f.Add([]byte("CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if arch := architectureOf(parseCPUInfo(text)); len(arch.groups) == 0 {
			t.Error("no events")
		}
	})
}
