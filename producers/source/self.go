package source

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// errStatm is returned if /proc/self/statm is not in the kernel's format.
var errStatm = errors.New("not two numbers of pages")

// formGauges returns the numbers of the second reading. It serves sources without counters.
func formGauges(_, to []uint64, _ time.Duration, out []float64) {
	for i := range out {
		out[i] = float64(to[i])
	}
}

func agent() source {
	return source{"agent", schemas.ScopeNode, "the agent itself", []metric{
		{"weir_agent_cpu_ms", "ms", gauge, "its CPU time in the interval, user and system"},
		{"weir_agent_drops", "1", gauge, "records that its ring dropped in the interval"},
		{"weir_agent_skew_us", "us", gauge, "distance of the reading from the boundary"},
		{"weir_agent_ring_depth", "1", gauge, "records in its ring"},
	}, openAgent}
}

// openAgent reads the agent's own cost and punctuality. Per interval it returns the CPU time of the process, user and
// system, in ms, and the number of records that the ring dropped. At the end of the interval it returns the distance of
// the reading from the boundary, in microseconds, and the number of records in the ring.
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
		{"weir_agent_rss", "B", gauge, "resident memory of the agent's process"},
	}, openAgentMemory}
}

// openAgentMemory reads the resident memory of the agent's process, in bytes.
func openAgentMemory(cfg config.Agent, _ *slog.Logger) (probe, error) {
	page := uint64(os.Getpagesize())
	parse := func(row []uint64, data []byte) ([]uint64, error) {
		pages, err := parseStatm(data)
		return append(row[:0], pages*page), err
	}
	return openOne(filepath.Join(cfg.ProcPath, "self/statm"), parse, formGauges)
}

// parseStatm returns the resident pages of a process: the second number of its statm. procfs takes 9.8 µs and 22
// allocations, this 1.3 µs and none.
func parseStatm(b []byte) (uint64, error) {
	_, rest, ok := number(b)
	if !ok || len(rest) == 0 || rest[0] != ' ' {
		return 0, fmt.Errorf("%w: %.80q", errStatm, b)
	}
	pages, rest, ok := number(rest[1:])
	if !ok || pages > 1<<40 || len(rest) == 0 || rest[0] != ' ' {
		return 0, fmt.Errorf("%w: %.80q", errStatm, b)
	}
	return pages, nil
}
