package source

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// countedMachine is a machine of testdata with a kernel that counts on it: its sources, as the host reads them.
type countedMachine struct {
	t      *testing.T
	dir    string
	cfg    config.Agent
	kernel *fakeKernel
	set    *perfSet
	host   *Host
	absent map[string]error // of all its metrics; a source that is absent says why for all of its own
	logged bytes.Buffer
	passed int64 // boundaries
}

// newCountedMachine has events count at the rates of a second given, for each CPU.
func newCountedMachine(t *testing.T, name string, rates func(cpu int, attr unix.PerfEventAttr) uint64,
	change func(*countedMachine),
) *countedMachine {
	t.Helper()
	m := &countedMachine{t: t, dir: t.TempDir(), kernel: newFakeKernel(4), absent: map[string]error{}}
	if err := os.CopyFS(m.dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	m.cfg = config.Agent{
		ProcPath: filepath.Join(m.dir, "proc"), SysPath: filepath.Join(m.dir, "sys"), Perf: true,
		PerfLock: filepath.Join(m.dir, "lock"), PeakFlops: 8e9, PeakMemBW: 4e9,
	}
	m.kernel.count = func(cpu int, attr unix.PerfEventAttr, since uint64) uint64 {
		return uint64(float64(rates(cpu, attr)) * float64(since) / 1e9)
	}
	if change != nil {
		change(m)
	}
	m.open()
	return m
}

func (m *countedMachine) open() {
	log := slog.New(slog.NewTextHandler(&m.logged, nil))
	if m.set == nil {
		m.set = newPerfSet()
		m.set.kernel = m.kernel.calls()
	}
	m.host = &Host{cfg: m.cfg, log: log}
	for _, s := range []source{
		stat(), m.set.perfHardware(), m.set.perfMemory(), m.set.perfNode(), perfSoftwareOf(m.kernel.calls()),
	} {
		if !measuredFrom(m.cfg, &s) {
			continue
		}
		p, err := s.open(m.cfg, log)
		for _, metric := range s.metrics {
			if s.name == "stat" {
				continue
			}
			if err != nil {
				m.absent[metric.name] = err
			} else if p.absent[metric.name] != nil {
				m.absent[metric.name] = p.absent[metric.name]
			}
		}
		if err == nil {
			m.host.probes = append(m.host.probes, &openProbe{probe: p, source: s})
		}
	}
	host := m.host
	m.t.Cleanup(func() {
		host.Close()
		if open := m.kernel.openFiles(); open != 0 {
			m.t.Errorf("%d events are still open at the end", open)
		}
	})
	m.read()
}

func (m *countedMachine) read() {
	m.passed++
	m.host.Read(Vitals{BoundaryMs: 1000 * m.passed})
}

// interval lets a second pass and returns the values of the metrics that have any.
func (m *countedMachine) interval() map[string][]float64 {
	m.kernel.now += 1e9
	m.read()
	_, columns := m.host.Interval(time.Second)
	values := map[string][]float64{}
	for _, c := range columns {
		values[c.Name] = c.Values
	}
	return values
}

// about compares values. The fake kernel rounds counts down to whole ones, and opens events one after the other.
var about = cmp.Comparer(func(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-6*math.Abs(b)
})

func (m *countedMachine) expect(got map[string][]float64, want map[string][]float64) {
	m.t.Helper()
	for name, w := range want {
		if diff := cmp.Diff(w, got[name], about); diff != "" {
			m.t.Errorf("%s: by hand (-), formed (+)\n%s", name, diff)
		}
	}
}

// rapids has 1e9 cycles and 1e8 scalar doubles a second on each CPU of the first socket, twice that on the second.
// A controller reads 1e6 lines a second on the first socket and 3e6 on the second, and writes half of that.
func rapids(cpu int, attr unix.PerfEventAttr) uint64 {
	socket := uint64(1 + cpu/2)
	switch {
	case attr.Type == unix.PERF_TYPE_HARDWARE:
		return 1e9 * socket
	case attr.Type == unix.PERF_TYPE_RAW && attr.Config == 0x01c7:
		return 1e8 * socket
	case attr.Type == unix.PERF_TYPE_RAW:
		return 0
	case attr.Config == 0xcf05: // cas_count_read
		return 1e6 * (2*socket - 1)
	case attr.Config == 0xf005:
		return 5e5 * (2*socket - 1)
	}
	return 1e6
}

func TestSocketsAndNode(t *testing.T) {
	m := newCountedMachine(t, "sapphire-rapids", rapids, nil)
	m.interval()
	got := m.interval()
	m.expect(got, map[string][]float64{
		"cycles":    {1e9, 1e9, 2e9, 2e9},
		"flops_any": {1e8, 1e8, 2e8, 2e8},
		// Two controllers a socket, lines of 64 bytes.
		"mem_read_bw":  {2 * 1e6 * 64, 2 * 3e6 * 64},
		"mem_write_bw": {2 * 5e5 * 64, 2 * 15e5 * 64},
		"mem_bw":       {192e6, 576e6}, // 128e6 + 64e6, 384e6 + 192e6
		// 2 * 1e8 FLOP/s / 192e6 B/s, 2 * 2e8 / 576e6
		"operational_intensity": {2e8 / 192e6, 4e8 / 576e6},
		// 192e6 B/s / (2 * 1e9 cycles/s), 576e6 / (2 * 2e9)
		"bytes_per_cycle":   {0.096, 0.144},
		"peak_share_flops":  {0.075}, // (1e8 + 1e8 + 2e8 + 2e8) / 8e9
		"peak_share_mem_bw": {0.192}, // (192e6 + 576e6) / 4e9
	})
	delete(m.absent, "cpu_load_core") // of another source, whose file is not there
	if len(m.absent) > 0 {
		t.Errorf("absent: %v", m.absent)
	}
	// The set is read once for all of its sources.
	before := m.set.boundary
	if m.read(); m.set.boundary != before+1000 {
		t.Errorf("the last boundary is %d", m.set.boundary)
	}
}

// TestLateSourceReadsAnew: a source that missed a boundary does not take that boundary's reading for the next one's.
func TestLateSourceReadsAnew(t *testing.T) {
	m := newCountedMachine(t, "sapphire-rapids", rapids, nil)
	core, node := m.host.probes[1], m.host.probes[3]
	m.kernel.now += 1e9
	if _, err := core.read(nil, Vitals{BoundaryMs: 77_000}); err != nil {
		t.Fatal(err)
	}
	m.kernel.now += 5e9
	reading, err := node.read(nil, Vitals{BoundaryMs: 78_000})
	if err != nil || m.set.boundary != 78_000 || len(reading[0]) == 0 {
		t.Errorf("boundary %d, %v", m.set.boundary, err)
	}
}

// TestAPartIsNoTotal: a CPU or a controller that was not counted makes the totals of its socket missing, not smaller.
func TestAPartIsNoTotal(t *testing.T) {
	nan := math.NaN()
	m := newCountedMachine(t, "sapphire-rapids", rapids, nil)
	m.interval()
	m.kernel.set(3, false) // and back, so that its events stand still
	m.kernel.set(3, true)
	got := m.interval()
	m.expect(got, map[string][]float64{
		"flops_any": {1e8, 1e8, 2e8, nan}, "operational_intensity": {2e8 / 192e6, nan}, "peak_share_flops": nil,
	})
	m.interval() // its events are new
	m.expect(m.interval(), map[string][]float64{"operational_intensity": {2e8 / 192e6, 4e8 / 576e6}})

	_ = m.kernel.close(m.set.memory[0].group.fds[0]) // a controller that cannot be read
	got = m.interval()
	m.expect(got, map[string][]float64{
		"mem_bw": {nan, 576e6}, "peak_share_mem_bw": nil,
		"flops_any": {1e8, 1e8, 2e8, 2e8},
	})
	m.set.memory[0].group.fds = m.set.memory[0].group.fds[1:]
}

func TestMemoryOfAMDAndArm(t *testing.T) {
	// Zen 3: each of eight channels moves 1e6 lines of 64 bytes a second on the first socket, 2e6 on the second.
	m := newCountedMachine(t, "zen3", func(cpu int, attr unix.PerfEventAttr) uint64 {
		if attr.Type == 12 {
			return 1e6 * uint64(1+cpu/2)
		}
		return 0
	}, nil)
	m.interval()
	m.expect(m.interval(), map[string][]float64{
		"mem_bw": {8 * 64e6, 8 * 128e6}, "mem_read_bw": nil, "mem_write_bw": nil,
	})
	if !errors.Is(m.absent["mem_read_bw"], errNotApart) {
		t.Errorf("mem_read_bw is absent: %v", m.absent["mem_read_bw"])
	}
	configs := map[uint64]bool{}
	for _, e := range m.kernel.fds {
		if e.attr.Type == 12 {
			configs[e.attr.Config] = true
		}
	}
	// Channel 4 is event 0x107: the low eight bits, and 1 in bits 32 to 35.
	for _, want := range []uint64{0x3807, 0x3847, 0x3887, 0x38c7, 0x100003807, 0x100003847, 0x100003887, 0x1000038c7} {
		if !configs[want] {
			t.Errorf("no event %#x among %v", want, configs)
		}
	}

	// Zen 4: two channels a socket, 1e6 reads and 5e5 writes a second each.
	m = newCountedMachine(t, "zen4", func(_ int, attr unix.PerfEventAttr) uint64 {
		switch attr.Config {
		case 0x10a: // 0x0a, reads in bits 8 and 9
			return 1e6
		case 0x20a:
			return 5e5
		}
		return 0
	}, nil)
	m.interval()
	m.expect(m.interval(), map[string][]float64{
		"mem_read_bw": {128e6, 128e6}, "mem_write_bw": {64e6, 64e6}, "mem_bw": {192e6, 192e6},
	})

	// Grace: 1e6 beats of 32 bytes read and 1e7 bytes written a second.
	m = newCountedMachine(t, "grace", func(_ int, attr unix.PerfEventAttr) uint64 {
		switch {
		case attr.Config == 0x1a5:
			return 1e6
		case attr.Config == 0x1db:
			return 1e7
		case attr.Type == unix.PERF_TYPE_HARDWARE:
			return 1e9
		case attr.Config == 0x3e: // slots that the front end left empty
			return 2e9
		}
		return 0
	}, nil)
	m.interval()
	m.expect(m.interval(), map[string][]float64{
		"mem_read_bw": {32e6, 32e6}, "mem_write_bw": {1e7, 1e7}, "mem_bw": {42e6, 42e6},
		"tma_frontend": {0.25, 0.25, 0.25, 0.25}, // 2e9 / (8 slots * 1e9 cycles)
	})
	if !errors.Is(m.absent["clock"], errNoEvents) {
		t.Errorf("clock is absent: %v", m.absent["clock"])
	}
}

// TestLockOfTheCounters: a job takes the counters, and gives them back. A crashed job's lock is ignored after a day.
func TestLockOfTheCounters(t *testing.T) {
	m := newCountedMachine(t, "sapphire-rapids", rapids, nil)
	has := func(when string, want bool) {
		t.Helper()
		got := m.interval()
		for _, name := range []string{"ipc", "mem_bw", "operational_intensity", "peak_share_flops"} {
			if (got[name] != nil) != want {
				t.Errorf("%s: %s = %v", when, name, got[name])
			}
		}
		for _, name := range []string{"page_faults", "clock"} { // which need no counter
			if got[name] == nil {
				t.Errorf("%s: no %s", when, name)
			}
		}
	}
	has("before", true)
	if err := os.Mkdir(m.cfg.PerfLock, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		has("while the lock is held", false)
		if open := m.kernel.openCounters(); open != 0 {
			t.Errorf("%d events are open while the lock is held", open)
		}
	}
	if err := os.Remove(m.cfg.PerfLock); err != nil {
		t.Fatal(err)
	}
	has("in the interval in which the lock went", false)
	has("after", true)

	write(t, m.cfg.PerfLock, "")
	has("held again", false)
	yesterday := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(m.cfg.PerfLock, yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	has("in the interval in which it is a day old", false)
	has("a day later", true)
	has("a day later", true)
	for line, n := range map[string]int{
		`msg="perf hardware events are closed: the lock is held"`:                 2,
		`msg="perf hardware events are opened again: the lock is free"`:           2,
		`msg="the lock of the perf hardware events is a day old, and is ignored"`: 1,
		`level=WARN msg="source is absent"`:                                       0,
		`msg="perf events are opened again: CPUs came back"`:                      0,
		`msg="perf events are absent on some CPUs"`:                               0,
	} {
		if got := strings.Count(m.logged.String(), line); got != n {
			t.Errorf("logged %d times, want %d: %s\n%s", got, n, line, m.logged.String())
		}
	}
}

// TestLockAtTheStart: an agent that starts while a job has the counters says so, and opens no event.
func TestLockAtTheStart(t *testing.T) {
	m := newCountedMachine(t, "sapphire-rapids", rapids, func(m *countedMachine) { write(t, m.cfg.PerfLock, "") })
	for _, name := range []string{"ipc", "flops_any", "mem_bw", "peak_share_flops"} {
		if !errors.Is(m.absent[name], errYields) {
			t.Errorf("%s is absent: %v", name, m.absent[name])
		}
	}
	if open := m.kernel.openCounters(); open != 0 {
		t.Errorf("%d events are open", open)
	}
	for _, e := range m.kernel.fds { // what the kernel has was asked without taking a counter from the job
		if e.needsCounter() && e.attr.Bits&unix.PerfBitDisabled == 0 {
			t.Errorf("event %#x was enabled", e.attr.Config)
		}
	}
	m.interval()
	if err := os.Remove(m.cfg.PerfLock); err != nil {
		t.Fatal(err)
	}
	m.interval()
	m.expect(m.interval(), map[string][]float64{"cycles": {1e9, 1e9, 2e9, 2e9}, "mem_bw": {192e6, 576e6}})
}

// TestRefusals: an error names what an administrator can do.
func TestRefusals(t *testing.T) {
	for err, remedy := range map[error]string{
		unix.EACCES: "CAP_PERFMON", unix.EPERM: "kernel.perf_event_paranoid", unix.ENOENT: "does not count it",
		unix.EMFILE: "LimitNOFILE", unix.EBUSY: "another program",
	} {
		m := newCountedMachine(t, "sapphire-rapids", rapids, func(m *countedMachine) {
			m.kernel.refuseAll = err
		})
		for _, name := range []string{"ipc", "mem_bw", "peak_share_flops"} {
			if got := fmt.Sprint(m.absent[name]); !strings.Contains(got, remedy) {
				t.Errorf("%v: %s is absent: %s", err, name, got)
			}
		}
		if got := m.interval(); got["ipc"] != nil || got["mem_bw"] != nil {
			t.Errorf("%v: ipc %v, mem_bw %v", err, got["ipc"], got["mem_bw"])
		}
	}
}

// TestEventsThatNeedNoCounter: software events and those of the clock are read at once. A kernel that refuses to count
// them together gives the same values by two reads. A CPU without all events of the clock opens none of them.
func TestEventsThatNeedNoCounter(t *testing.T) {
	rates := func(cpu int, attr unix.PerfEventAttr) uint64 {
		switch attr.Type {
		case unix.PERF_TYPE_SOFTWARE:
			return 1e6*(1+attr.Config) + uint64(cpu)
		case fakeMSR:
			return map[uint64]uint64{0: 2_400_000_000, 1: 3_000_000_000, 2: 2_000_000_000}[attr.Config]
		}
		return 1e9
	}
	hz := []float64{3.6e9, 3.6e9, 3.6e9, 3.6e9} // 3e9 / 2e9 = 1.5 times the nominal 2.4e9
	// By linux/perf_event.h task-clock is 1, page-faults 2, context-switches 3, migrations 4 and major faults 6.
	want := map[string][]float64{
		"task_clock":        {.002, .002000001, .002000002, .002000003}, // of ns
		"page_faults":       {3e6, 3e6 + 1, 3e6 + 2, 3e6 + 3},
		"context_switches":  {4e6, 4e6 + 1, 4e6 + 2, 4e6 + 3},
		"cpu_migrations":    {5e6, 5e6 + 1, 5e6 + 2, 5e6 + 3},
		"page_faults_major": {7e6, 7e6 + 1, 7e6 + 2, 7e6 + 3},
	}
	for name, c := range map[string]struct {
		change          func(*countedMachine)
		groups, members int // of events that need no counter, on a CPU
		clock           []float64
	}{
		"together": {func(*countedMachine) {}, 1, 8, hz},
		"apart":    {func(m *countedMachine) { m.kernel.apart = true }, 2, 8, hz},
		"a part of the clock": {func(m *countedMachine) {
			if err := os.Remove(filepath.Join(m.dir, "sys/bus/event_source/devices/msr/events/mperf")); err != nil {
				t.Fatal(err)
			}
		}, 1, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newCountedMachine(t, "sapphire-rapids", rates, c.change)
			m.interval()
			got := m.interval()
			m.expect(got, want)
			m.expect(got, map[string][]float64{"clock": c.clock})
			if missing := m.absent["clock"]; (missing == nil) != (c.clock != nil) {
				t.Errorf("clock is absent: %v", missing)
			}
			groups, members := 0, 0
			for fd, e := range m.kernel.fds {
				if !e.closed && !e.needsCounter() {
					members++
					if !m.kernel.isMember(fd) {
						groups++
					}
				}
			}
			if groups != 4*c.groups || members != 4*c.members { // on four CPUs
				t.Errorf("%d events in %d groups", members, groups)
			}
		})
	}
}

// TestFilesOfManyCPUs: a machine of 4,096 CPUs has more events than the process may open. The most important are
// opened.
func TestFilesOfManyCPUs(t *testing.T) {
	always := len(alwaysGroup(cpuModel{}).events)
	set := &perfSet{kernel: newFakeKernel(1).calls(), log: slog.New(slog.DiscardHandler), always: always}
	set.form, set.absent = newPerfForm(set.kernel, coreMetrics(), describedHere(sapphireRapids.groups), 0, 0)
	// 512 files and 4,096 * (5 + 3) software events and those of the clock are spared: 33,280. The first group takes
	// 4,096 * 7 = 28,672, the second 4,096 * 8 = 32,768: 94,720. The next, of 4,096 * 6 = 24,576, is too many.
	set.fit(4096, 100_000)
	if len(set.form.groups) != 2 {
		t.Errorf("%d groups are kept", len(set.form.groups))
	}
	for name, want := range map[string]bool{
		"ipc": true, "flops_dp": true, "tma_frontend": false, "l2_misses": false,
		"loads_per_store": false,
	} {
		if (set.absent[name] == nil) != want {
			t.Errorf("%s is absent: %v", name, set.absent[name])
		}
	}
	// All groups: 94,720 + 24,576 + 4 * 4,096 + 3 * 4,096 = 147,968.
	if err := set.absent["loads_per_store"]; err == nil ||
		!strings.Contains(err.Error(), "need 147968 open files, and 100000") ||
		!strings.Contains(err.Error(), "LimitNOFILE") {
		t.Error(err)
	}
}

// TestStarvedGroups: another program holds the counters that a group needs. Its metrics are missing, the others stay,
// and the log says so once.
func TestStarvedGroups(t *testing.T) {
	m := newCountedMachine(t, "sapphire-rapids", rapids, nil)
	m.interval()
	m.kernel.starve = 0x01c7 // the group that the scalar doubles lead
	for range 3 {
		got := m.interval()
		if got["flops_dp"] != nil || got["flops_any"] != nil || got["operational_intensity"] != nil {
			t.Errorf("flops_dp %v, flops_any %v, operational_intensity %v",
				got["flops_dp"], got["flops_any"], got["operational_intensity"])
		}
		m.expect(got, map[string][]float64{"cycles": {1e9, 1e9, 2e9, 2e9}, "bytes_per_cycle": {0.096, 0.144}})
	}
	line := `msg="perf events have no counters: the NMI watchdog or another program holds them" ` +
		`event=FP_ARITH_INST_RETIRED.SCALAR_DOUBLE`
	if n := strings.Count(m.logged.String(), line); n != 1 {
		t.Errorf("logged %d times\n%s", n, m.logged.String())
	}
	m.kernel.starve = 0
	m.interval()
	m.expect(m.interval(), map[string][]float64{"flops_any": {1e8, 1e8, 2e8, 2e8}})
}

// TestGarbledDevices: what /sys says of a PMU is damaged, or a CPU came whose socket is not told. What depends on it is
// absent and says why, and the rest stays.
func TestGarbledDevices(t *testing.T) {
	devices := "sys/bus/event_source/devices/"
	for file, text := range map[string]string{
		"uncore_imc_1/type": "x", "uncore_imc_1/cpumask": "0-", "uncore_imc_0/format/umask": "config2:0-3",
		"uncore_imc_0/events/cas_count_read": "event=0x05,\x00", "uncore_imc_1/format/event": "config:0-",
	} {
		m := newCountedMachine(t, "sapphire-rapids", rapids, func(m *countedMachine) {
			write(t, filepath.Join(m.dir, devices, file), text)
		})
		pmu, _, _ := strings.Cut(file, "/")
		if got := fmt.Sprint(m.absent["mem_bw"]); !errors.Is(m.absent["mem_bw"], errFormat) ||
			!strings.Contains(got, pmu) {
			t.Errorf("%s: mem_bw is absent: %s", file, got)
		}
		m.interval()
		m.expect(m.interval(), map[string][]float64{
			"mem_bw": nil, "peak_share_mem_bw": nil,
			"peak_share_flops": {0.075},
		})
	}
	m := newCountedMachine(t, "sapphire-rapids", rapids, func(m *countedMachine) {
		write(t, filepath.Join(m.dir, devices, "cpu/events/topdown-retiring"), "\xff\xfe")
		if err := os.Remove(filepath.Join(m.dir, devices, "msr/type")); err != nil {
			t.Fatal(err)
		}
	})
	if !errors.Is(m.absent["tma_retiring"], errFormat) || m.absent["tma_frontend"] != nil ||
		!errors.Is(m.absent["clock"], os.ErrNotExist) {
		t.Errorf("tma_retiring: %v, tma_frontend: %v, clock: %v", m.absent["tma_retiring"], m.absent["tma_frontend"],
			m.absent["clock"])
	}
}

// TestSocketOfACPUThatComes: the kernel does not tell the package of a CPU that is offline.
func TestSocketOfACPUThatComes(t *testing.T) {
	var topology string
	m := newCountedMachine(t, "sapphire-rapids", rapids, func(m *countedMachine) {
		topology = filepath.Join(m.dir, "sys/devices/system/cpu/cpu1/topology/physical_package_id")
		if err := os.Remove(topology); err != nil {
			t.Fatal(err)
		}
		m.kernel.set(1, false)
		write(t, filepath.Join(m.cfg.ProcPath, "stat"), "cpu 0\ncpu0 1 0 0 1\ncpu2 1 0 0 1\ncpu3 1 0 0 1\nintr 1\n")
	})
	m.interval()
	m.expect(m.interval(), map[string][]float64{"operational_intensity": {1e8 / 192e6, 4e8 / 576e6}})
	m.kernel.set(1, true)
	write(t, filepath.Join(m.cfg.ProcPath, "stat"),
		"cpu 0\ncpu0 1 0 0 1\ncpu1 1 0 0 1\ncpu2 1 0 0 1\ncpu3 1 0 0 1\nintr 1\n")
	m.interval()
	m.interval() // its package is still unknown: it may be of either socket
	m.expect(m.interval(), map[string][]float64{
		"operational_intensity": nil, "mem_bw": {192e6, 576e6},
		"peak_share_flops": {0.075},
	})
	write(t, topology, "0\n")
	m.interval()
	m.expect(m.interval(), map[string][]float64{"operational_intensity": {2e8 / 192e6, 4e8 / 576e6}})
}

// TestRefusedSetIsTriedAgain: an administrator gives the capability while the agent runs.
func TestRefusedSetIsTriedAgain(t *testing.T) {
	m := newCountedMachine(t, "sapphire-rapids", rapids, func(m *countedMachine) { m.kernel.refuseAll = unix.EACCES })
	if len(m.host.probes) != 1 || m.kernel.openFiles() != 0 {
		t.Errorf("%d sources, %d events are open", len(m.host.probes), m.kernel.openFiles())
	}
	m.kernel.refuseAll = nil
	m.absent = map[string]error{}
	m.open()
	m.interval()
	m.expect(m.interval(), map[string][]float64{"cycles": {1e9, 1e9, 2e9, 2e9}, "mem_bw": {192e6, 576e6}})
	if len(m.absent) > 0 {
		t.Errorf("absent: %v", m.absent)
	}
}

// TestSourcesReadAtTheSameTime: the host reads each source in a goroutine of its own, and forms in yet another.
func TestSourcesReadAtTheSameTime(t *testing.T) {
	m := newCountedMachine(t, "sapphire-rapids", rapids, nil)
	probes := m.host.probes[1:4] // that share the set
	from, to := make([]reading, len(probes)), make([]reading, len(probes))
	for boundary := range int64(50) {
		m.kernel.now += 1e9
		switch boundary % 10 {
		case 5:
			write(t, m.cfg.PerfLock, "")
		case 7:
			if err := os.Remove(m.cfg.PerfLock); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for i, p := range probes {
			all.Go(func() {
				p.follow([]int{0, 1, 2, 3})
				rows, err := p.read(from[i], Vitals{BoundaryMs: 1000 * (100 + boundary)})
				if err != nil {
					t.Error(err)
				}
				from[i], to[i] = to[i], rows
			})
		}
		all.Wait()
	}
	for i, p := range probes {
		out := make([]float64, len(p.source.metrics))
		p.form(from[i][0], to[i][0], time.Second, out)
		if name, want := p.source.metrics[0].name, []float64{1, 192e6, 0.075}[i]; !cmp.Equal(out[0], want, about) {
			t.Errorf("%s = %g, want %g", name, out[0], want)
		}
	}
}
