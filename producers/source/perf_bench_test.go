package source

import (
	"log/slog"
	"runtime"
	"slices"
	"testing"
	"time"

	perf "github.com/hodgesds/perf-utils"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// manyEvents is a reading of a machine whose events need no kernel.
func manyEvents(tb testing.TB, cpus int) (*perfForm, reading) {
	tb.Helper()
	k := newFakeKernel(cpus)
	f, _ := newPerfForm(k.calls(), coreMetrics(), describedHere(sapphireRapids.groups), 0, 0)
	groups := newPerfGroups(slog.New(slog.DiscardHandler), k.calls(), f.groups)
	online := make([]int, cpus)
	for cpu := range online {
		online[cpu] = cpu
	}
	if err := groups.openAll(online); err != nil {
		tb.Fatal(err)
	}
	k.now += 1e9
	from, err := groups.read(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return f, from
}

// TestSteadyLoopAllocatesNothing: neither reading nor forming allocates, once the storage has its size.
func TestSteadyLoopAllocatesNothing(t *testing.T) {
	f, row := manyEvents(t, 1)
	to := slices.Clone(row[0])
	for i := range to {
		to[i] += 1e9
	}
	out := make([]float64, len(coreMetrics()))
	if n := testing.AllocsPerRun(100, func() { f.form(row[0], to, time.Second, out) }); n != 0 {
		t.Errorf("forming allocates %g times", n)
	}

	p, err := perfSoftware().open(config.Agent{ProcPath: "/proc", SysPath: "/sys", Perf: true},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Skip("SKIPPED: the kernel refuses perf events here:", err)
	}
	defer p.close()
	cpus, err := onlineCPUs("/proc")
	if err != nil {
		t.Fatal(err)
	}
	into, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		p.follow(cpus)
		if into, err = p.read(into, Vitals{}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("reading allocates %g times", n)
	}
}

// BenchmarkReadOfThisMachine reads software events of all CPUs here, from one thread that goes where it wants: by our
// layer, and four of the same events by the groups of perf-utils.
func BenchmarkReadOfThisMachine(b *testing.B) {
	p, err := perfSoftware().open(config.Agent{ProcPath: "/proc", SysPath: "/sys", Perf: true},
		slog.New(slog.DiscardHandler))
	if err != nil {
		b.Skip(err)
	}
	defer p.close()
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		var into reading
		for b.Loop() {
			if into, err = p.read(into, Vitals{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	cpus, err := onlineCPUs("/proc")
	if err != nil {
		b.Fatal(err)
	}
	var groups []perf.GroupProfiler
	for _, cpu := range cpus {
		g, err := perf.NewGroupProfiler(-1, cpu, unix.PERF_FLAG_FD_CLOEXEC, perf.PageFaultsEventAttr(),
			perf.MajorPageFaultsEventAttr(), perf.ContextSwitchesEventAttr(), perf.CPUMigrationsEventAttr())
		if err == nil {
			err = g.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = g.Close() }()
		groups = append(groups, g)
	}
	b.Run("perf-utils", func(b *testing.B) {
		b.ReportAllocs()
		var value perf.GroupProfileValue
		for b.Loop() {
			for _, g := range groups {
				if err := g.Profile(&value); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkReadClock reads events of the clock on all CPUs here, in the group of the software events or in another one.
// A virtual machine has tsc at most.
func BenchmarkReadClock(b *testing.B) {
	clock := resolved("/sys", []eventGroup{clockGroup()})[0]
	clock.events = slices.DeleteFunc(clock.events, func(e event) bool { return e.lacking != nil })
	if len(clock.events) == 0 {
		b.Skip("the kernel has no PMU msr here")
	}
	software := softwareGroup()
	together := eventGroup{events: slices.Concat(software.events, clock.events)}
	cpus, err := onlineCPUs("/proc")
	if err != nil {
		b.Fatal(err)
	}
	for name, wanted := range map[string][]eventGroup{"together": {together}, "apart": {software, clock}} {
		b.Run(name, func(b *testing.B) {
			groups := newPerfGroups(slog.New(slog.DiscardHandler), linux, wanted)
			if err := groups.openAll(cpus); err != nil {
				b.Skip(err)
			}
			defer groups.close()
			b.ReportAllocs()
			var into reading
			for b.Loop() {
				if into, err = groups.read(into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReadFromEachCPU moves the thread to each CPU before it reads there. It was no better than one thread.
func BenchmarkReadFromEachCPU(b *testing.B) {
	groups := newPerfGroups(slog.New(slog.DiscardHandler), linux, []eventGroup{softwareGroup()})
	cpus, err := onlineCPUs("/proc")
	if err != nil {
		b.Fatal(err)
	}
	if err := groups.openAll(cpus); err != nil {
		b.Skip(err)
	}
	defer groups.close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &before) }()
	row := make([]uint64, 0, 16)
	b.ReportAllocs()
	for b.Loop() {
		for _, cpu := range cpus {
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				b.Fatal(err)
			}
			if row, err = groups.readCPU(row[:0], &groups.cpus[cpu]); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkReadByThreadsOfEachCPU wakes a thread on each CPU, which reads there.
func BenchmarkReadByThreadsOfEachCPU(b *testing.B) {
	groups := newPerfGroups(slog.New(slog.DiscardHandler), linux, []eventGroup{softwareGroup()})
	cpus, err := onlineCPUs("/proc")
	if err != nil {
		b.Fatal(err)
	}
	if err := groups.openAll(cpus); err != nil {
		b.Skip(err)
	}
	defer groups.close()
	wake, done := make([]chan bool, len(cpus)), make(chan error, len(cpus))
	for i, cpu := range cpus {
		wake[i] = make(chan bool, 1)
		go func() {
			runtime.LockOSThread() // and it ends with the goroutine
			var set unix.CPUSet
			set.Set(cpu)
			err := unix.SchedSetaffinity(0, &set)
			buf, row := make([]byte, 256), make([]uint64, 0, 16)
			for range wake[i] {
				if err == nil {
					row, err = linux.readGroup(row[:0], &groups.cpus[cpu].groups[0], buf)
				}
				done <- err
			}
		}()
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range wake {
			wake[i] <- true
		}
		for range wake {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
	}
	for i := range wake {
		close(wake[i])
	}
}

// BenchmarkForm128CPUs forms the hardware metrics of 128 CPUs, as Sapphire Rapids has them.
func BenchmarkForm128CPUs(b *testing.B) {
	f, from := manyEvents(b, 128)
	to := make(reading, len(from))
	for cpu := range from {
		to[cpu] = slices.Clone(from[cpu])
		for i := range to[cpu] {
			to[cpu][i] += 1e9
		}
	}
	out := make([]float64, len(coreMetrics()))
	b.ReportAllocs()
	for b.Loop() {
		for cpu := range from {
			f.form(from[cpu], to[cpu], time.Second, out)
		}
	}
}
