package source

import (
	"log/slog"
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
