package source

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// cpuTime is the CPU time of this process.
func cpuTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// BenchmarkCycle is what a cycle costs without sending: a reading of all sources of this machine, and its columns.
func BenchmarkCycle(b *testing.B) {
	h := Open(config.Agent{ProcPath: "/proc", SysPath: "/sys", Perf: true}, slog.New(slog.DiscardHandler))
	defer h.Close()
	cycle(b, h)
}

func cycle(b *testing.B, h *Host) {
	b.Helper()
	for range 3 {
		h.Read(Vitals{})
		h.Interval(time.Second)
	}
	b.ReportAllocs()
	begin := cpuTime()
	columns := 0
	for b.Loop() {
		h.Read(Vitals{})
		_, c := h.Interval(time.Second)
		columns = len(c)
	}
	b.ReportMetric(float64((cpuTime()-begin).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(columns), "columns")
}

// BenchmarkCycleIdle is a cycle after a sleep, as an agent has it: its threads and the caches are cold.
func BenchmarkCycleIdle(b *testing.B) {
	h := Open(config.Agent{ProcPath: "/proc", SysPath: "/sys", Perf: true}, slog.New(slog.DiscardHandler))
	defer h.Close()
	begin := cpuTime()
	for b.Loop() {
		time.Sleep(20 * time.Millisecond)
		h.Read(Vitals{})
		h.Interval(time.Second)
	}
	b.ReportMetric(float64((cpuTime()-begin).Microseconds())/float64(b.N), "cpu-us/op")
}

// BenchmarkHost is what 32 sources cost beside their readings, one after the other without a pause, and after a sleep.
func BenchmarkHost(b *testing.B) {
	for _, sleep := range []time.Duration{0, 20 * time.Millisecond} {
		for _, sources := range []int{0, 1, 32} {
			b.Run(fmt.Sprintf("%d_sources_after_%s", sources, sleep), func(b *testing.B) {
				var all []source
				for i := range sources {
					all = append(all, (&fake{name: fmt.Sprintf("s%d", i)}).source())
				}
				h := openSources(config.Agent{}, slog.New(slog.DiscardHandler), all)
				defer h.Close()
				begin := cpuTime()
				for b.Loop() {
					time.Sleep(sleep)
					h.Read(Vitals{})
					h.Interval(time.Second)
				}
				b.ReportMetric(float64((cpuTime()-begin).Microseconds())/float64(b.N), "cpu-us/op")
			})
		}
	}
}

// wideTree writes the files of a node with so many CPUs in two packages: what the sources of /proc and /sys read. Their
// numbers are as long as those of a node that has been up for months.
func wideTree(tb testing.TB, cpus int) config.Agent {
	tb.Helper()
	dir := tb.TempDir()
	file := func(name string, lines func(w *strings.Builder)) {
		tb.Helper()
		var text strings.Builder
		lines(&text)
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	file("proc/stat", func(w *strings.Builder) {
		fmt.Fprintln(w, "cpu  662312 0 323812 303515281 28012 0 5412 1512 0 0")
		for i := range cpus {
			fmt.Fprintf(w, "cpu%d 273144512 12 12803321 152833442 281231 0 91123 3 0 0\n", i)
		}
		fmt.Fprintln(w, "intr 40922911"+strings.Repeat(" 0", 16*cpus))
		fmt.Fprintln(w, "ctxt 1990473\nbtime 1795300000\nprocesses 26442\nprocs_running 1\nprocs_blocked 0")
	})
	file("proc/schedstat", func(w *strings.Builder) {
		fmt.Fprintln(w, "version 15\ntimestamp 4295892317")
		for i := range cpus {
			fmt.Fprintf(w, "cpu%d 0 0 0 0 0 0 427530391882131 16329411238123 9187231\n", i)
			for d := range 3 {
				fmt.Fprintf(w, "domain%d %s%s\n", d, strings.Repeat("ffffffff,", cpus/32)+"ff",
					strings.Repeat(" 281", 36))
			}
		}
	})
	file("proc/meminfo", func(w *strings.Builder) {
		for _, name := range []string{
			"MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapCached", "Shmem", "SReclaimable",
			"SwapTotal", "SwapFree",
		} {
			fmt.Fprintf(w, "%-15s %8d kB\n", name+":", 527891232)
		}
		for i := range 42 {
			fmt.Fprintf(w, "%-15s %8d kB\n", fmt.Sprintf("Other%d:", i), 123456)
		}
	})
	file("proc/vmstat", func(w *strings.Builder) {
		for i := range 160 {
			fmt.Fprintf(w, "nr_other_%d 123456789\n", i)
		}
		fmt.Fprintln(w, "pswpin 12\npswpout 13\npgfault 9182371231\npgmajfault 12345")
	})
	file("proc/loadavg", func(w *strings.Builder) { fmt.Fprintln(w, "127.75 128.1 128.2 129/4180 99912") })
	file("proc/self/statm", func(w *strings.Builder) { fmt.Fprintln(w, "310025 4210 3101 1 0 1210 0") })
	for _, name := range []string{"cpu", "memory", "io"} {
		file("proc/pressure/"+name, func(w *strings.Builder) {
			fmt.Fprintln(w, "some avg10=0.00 avg60=0.00 avg300=0.00 total=12837123\nfull avg10=0.00 avg60=0.00 "+
				"avg300=0.00 total=1123")
		})
	}
	file("proc/diskstats", func(w *strings.Builder) {
		for i := range 8 {
			fmt.Fprintf(w,
				" 259 %d nvme%dn1 11232 23 4123123 1231 12312 2312 41231231 2312 0 1231 1231 0 0 0 0 12 12\n", i, i)
		}
	})
	file("proc/net/dev", func(w *strings.Builder) {
		fmt.Fprintln(w, "Inter-|   Receive                |  Transmit\n face |bytes    packets errs drop fifo frame "+
			"compressed multicast|"+
			"bytes    packets errs drop fifo colls carrier compressed")
		for i := range 8 {
			fmt.Fprintf(w, "  eth%d: 912837123123 12312312 0 0 0 0 0 12 912837123123 12312312 0 0 0 0 0 0\n", i)
		}
	})
	for node := range 2 {
		file(fmt.Sprintf("sys/devices/system/node/node%d/numastat", node), func(w *strings.Builder) {
			fmt.Fprintln(w, "numa_hit 123123123\nnuma_miss 12\nnuma_foreign 13\ninterleave_hit 12\nlocal_node "+
				"12312312\nother_node 123123")
		})
	}
	for i := range min(cpus, 128) { // to write files of thousands takes longer than the tests
		file(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i), func(w *strings.Builder) {
			fmt.Fprintln(w, "2401000")
		})
		for name, value := range map[string]int{
			"physical_package_id": i * 2 / cpus, "core_id": i, "core_siblings_list": i, "thread_siblings_list": i,
		} {
			file(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/%s", i, name), func(w *strings.Builder) {
				fmt.Fprintln(w, value)
			})
		}
	}
	return config.Agent{ProcPath: filepath.Join(dir, "proc"), SysPath: filepath.Join(dir, "sys")}
}

// BenchmarkCycle128 is the same on the files of 128 CPUs. The time that the kernel takes to write such files is not in
// it.
func BenchmarkCycle128(b *testing.B) {
	h := Open(wideTree(b, 128), slog.New(slog.DiscardHandler))
	defer h.Close()
	cycle(b, h)
}

// TestReadingsAllocateNothing holds every source that this machine or a fixture has.
func TestReadingsAllocateNothing(t *testing.T) {
	for where, cfg := range map[string]config.Agent{
		"here": {ProcPath: "/proc", SysPath: "/sys", Perf: true}, "128 CPUs": wideTree(t, 128),
	} {
		for _, s := range sources() {
			p, err := s.open(cfg, slog.New(slog.DiscardHandler))
			if err != nil || p.read == nil {
				continue
			}
			var r, storage reading
			failed := false
			read := func() {
				if storage, err = p.read(r, Vitals{}); err != nil {
					failed = true // an error may allocate
					return
				}
				r = storage
			}
			for range 3 {
				read()
			}
			if n := testing.AllocsPerRun(20, read); n > 0 && !failed {
				t.Errorf("%s, %s: a reading makes %g allocations", where, s.name, n)
			} else {
				t.Logf("%s, %s: %g allocations", where, s.name, n)
			}
			if p.close != nil {
				p.close()
			}
		}
	}
}

// TestCycleOf4096CPUs: the largest nodes have their values too, within the time that a boundary has.
func TestCycleOf4096CPUs(t *testing.T) {
	h := Open(wideTree(t, 4096), slog.New(slog.DiscardHandler))
	defer h.Close()
	h.Read(Vitals{})
	eventually(t, "an interval of 4096 CPUs", func() bool { // a busy machine makes a reading late now and then
		h.Read(Vitals{})
		cpus, columns := h.Interval(time.Second)
		t.Logf("%d CPUs, %d columns", len(cpus), len(columns))
		return len(cpus) == 4096 && len(columns) > 0
	})
}
