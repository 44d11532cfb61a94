package source

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNoMemory is returned when /proc/meminfo lacks MemTotal or MemAvailable.
	errNoMemory = errors.New("no MemTotal or no MemAvailable")
	// errUnsynchronised is returned when nothing disciplines the host's clock.
	errUnsynchronised = errors.New("the clock is not synchronised")
	// errStatm is returned when /proc/self/statm is not what the kernel writes.
	errStatm = errors.New("not two numbers of pages")
)

func memory() source {
	return source{"memory", schemas.ScopeNode, "/proc/meminfo", []metric{
		{"mem_used", "B", Gauge, "MemTotal - MemAvailable"},
	}, openMemory}
}

// openMemory reads the memory in use, in bytes, at the end of the interval. It counts all that a program that starts
// now could not get.
func openMemory(cfg config.Agent, _ *slog.Logger) (probe, error) {
	fs, err := procfs.NewFS(cfg.ProcPath)
	if err != nil {
		return probe{}, fmt.Errorf("opening the memory's state: %w", err)
	}
	read := func(into reading, _ Vitals) (reading, error) {
		m, err := fs.Meminfo()
		if err != nil {
			return nil, fmt.Errorf("reading the memory's state: %w", err)
		}
		if m.MemTotalBytes == nil || m.MemAvailableBytes == nil || *m.MemAvailableBytes > *m.MemTotalBytes {
			return nil, fmt.Errorf("reading the memory's state: %w", errNoMemory)
		}
		return only(into, *m.MemTotalBytes-*m.MemAvailableBytes), nil
	}
	return probe{read: read, form: formGauges}, nil
}

// formGauges gives what the second reading found. It serves sources whose numbers are no counters.
func formGauges(_, to []uint64, _ time.Duration, out []float64) {
	for i := range out {
		out[i] = float64(to[i])
	}
}

func load() source {
	return source{"load", schemas.ScopeNode, "/proc/loadavg", []metric{
		{"cpu_load", "1", Gauge, "the mean of the last minute"},
	}, openLoad}
}

// openLoad reads the load: how many tasks ran, or waited for a CPU or a disk, in the mean of the last minute.
func openLoad(cfg config.Agent, _ *slog.Logger) (probe, error) {
	fs, err := procfs.NewFS(cfg.ProcPath)
	if err != nil {
		return probe{}, fmt.Errorf("opening the load: %w", err)
	}
	read := func(into reading, _ Vitals) (reading, error) {
		load, err := fs.LoadAvg()
		if err != nil {
			return nil, fmt.Errorf("reading the load: %w", err)
		}
		return only(into, math.Float64bits(load.Load1)), nil // a reading holds integers: the load's bits
	}
	form := func(_, to []uint64, _ time.Duration, out []float64) { out[0] = math.Float64frombits(to[0]) }
	return probe{read: read, form: form}, nil
}

func agent() source {
	return source{"agent", schemas.ScopeNode, "the agent itself", []metric{
		{"weir_agent_cpu_ms", "ms", Gauge, "its CPU time in the interval, user and system"},
		{"weir_agent_drops", "1", Gauge, "records that its ring dropped in the interval"},
		{"weir_agent_skew_us", "us", Gauge, "distance of the reading from the boundary"},
		{"weir_agent_ring_depth", "1", Gauge, "records in its ring"},
	}, openAgent}
}

// openAgent reads what the agent costs and how well it keeps time. Per interval it gives the CPU time of the process,
// user and system, in ms, and the records that the ring dropped. At the end of the interval it gives the distance of
// the reading from the boundary, in microseconds, and the records in the ring.
func openAgent(config.Agent, *slog.Logger) (probe, error) {
	read := func(into reading, v Vitals) (reading, error) {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			return nil, fmt.Errorf("reading the agent's CPU time: %w", err)
		}
		cpu := time.Duration(u.Utime.Nano() + u.Stime.Nano())
		return only(into,
			uint64(cpu.Microseconds()), uint64(v.Drops), uint64(v.Skew.Microseconds()), uint64(v.Depth)), nil
	}
	form := func(from, to []uint64, _ time.Duration, out []float64) {
		if d, ok := grown(from[0], to[0]); ok {
			out[0] = d / 1000
		}
		if d, ok := grown(from[1], to[1]); ok {
			out[1] = d
		}
		out[2], out[3] = float64(to[2]), float64(to[3])
	}
	return probe{read: read, form: form}, nil
}

func agentMemory() source {
	return source{"agent_memory", schemas.ScopeNode, "/proc/self/statm", []metric{
		{"weir_agent_rss", "B", Gauge, "resident memory of the agent's process"},
	}, openAgentMemory}
}

// openAgentMemory reads the resident memory of the agent's process, in bytes.
func openAgentMemory(cfg config.Agent, _ *slog.Logger) (probe, error) {
	path := filepath.Join(cfg.ProcPath, "self/statm")
	file, err := os.Open(path)
	if err != nil {
		return probe{}, fmt.Errorf("opening the agent's memory: %w", err)
	}
	page := uint64(os.Getpagesize())
	buffer := make([]byte, 128)
	read := func(into reading, _ Vitals) (reading, error) {
		data, grown, err := readAt0(file, buffer)
		buffer = grown
		if err != nil {
			return nil, fmt.Errorf("reading the agent's memory: %w", err)
		}
		pages, err := parseStatm(data)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		return only(into, pages*page), nil
	}
	return probe{read: read, form: formGauges, close: func() { _ = file.Close() }}, nil // it was only read
}

// parseStatm returns the resident pages of a process: the second number of its statm.
func parseStatm(b []byte) (uint64, error) {
	_, rest, ok := number(b)
	if !ok || len(rest) == 0 || rest[0] != ' ' {
		return 0, fmt.Errorf("%w: %.80q", errStatm, b)
	}
	pages, _, ok := number(rest[1:])
	if !ok || pages > 1<<40 {
		return 0, fmt.Errorf("%w: %.80q", errStatm, b)
	}
	return pages, nil
}

func clock() source {
	return source{"clock", schemas.ScopeNode, "adjtimex(2)", []metric{
		{"weir_agent_clock_error_us", "us", Gauge, "esterror: the kernel's estimate of the clock's error"},
	}, openClock}
}

// openClock reads by how much the kernel believes the host's clock to be wrong, in microseconds. Where nothing
// synchronises the clock the kernel cannot know, and the metric is absent.
func openClock(config.Agent, *slog.Logger) (probe, error) {
	read := func(into reading, _ Vitals) (reading, error) {
		var t unix.Timex // without a mode the call changes nothing
		state, err := unix.Adjtimex(&t)
		if err != nil {
			return nil, fmt.Errorf("asking for the clock's error: %w", err)
		}
		if state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0 || t.Esterror < 0 {
			return nil, errUnsynchronised
		}
		return only(into, uint64(t.Esterror)), nil
	}
	return probe{read: read, form: formGauges}, nil
}
