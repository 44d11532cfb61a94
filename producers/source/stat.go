package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// States of a CPU in /proc/stat, in the kernel's order. The fields after them, guest and guest_nice, are part of user
// and nice already.
const (
	stateUser = iota
	stateNice
	stateSystem
	stateIdle
	stateIowait
	stateIRQ
	stateSoftIRQ
	stateSteal
	states
)

// stateWaiting is the field of a row, after the states, for the time that tasks waited for the CPU, in ns.
const stateWaiting = states

// maxKernelFile bounds the text of a file, and so the memory for it. /proc/schedstat takes some 8 MiB for 4,096 CPUs.
const maxKernelFile = 32 << 20

// maxCPUs bounds the CPU numbers that a file may name, and so the memory that it may ask for.
const maxCPUs = 1 << 14

var (
	// errStat is returned if /proc/stat is not in the kernel's format.
	errStat = errors.New("not a line of CPU states")
	// errEndless is returned for a file that is longer than any of the kernel.
	errEndless = fmt.Errorf("the file is longer than %d MiB", maxKernelFile>>20)
	// errNoCPU is returned when /proc/stat names no CPU.
	errNoCPU = errors.New("no CPU")
)

func stat() source {
	return source{"stat", schemas.ScopeCore, "/proc/stat, /proc/schedstat", []metric{
		{"cpu_user", "1", ratio, "(user + nice) / all states"},
		{"cpu_system", "1", ratio, "(system + irq + softirq) / all states"},
		{"cpu_iowait", "1", ratio, "iowait / all states"},
		{"cpu_idle", "1", ratio, "idle / all states"},
		{"cpu_load_core", "1", Rate, "(all states - idle - iowait) / all states + run_delay of /proc/schedstat / s: " +
			"tasks that ran on the CPU or waited for it, in the mean"},
	}, openStat}
}

// openStat reads the time that each CPU spends in each state, and the time that tasks waited for it. The files stay
// open. The parser of /proc/stat stops after the lines of CPUs. procfs takes 28 times as long for stat and schedstat of
// 128 CPUs: 639 µs and 2,635 allocations, this 23 µs and none (BenchmarkByProcfs). /proc/schedstat is not in every
// kernel; without it, only cpu_load_core is absent.
func openStat(cfg config.Agent, log *slog.Logger) (probe, error) {
	file, err := openKernelFile(filepath.Join(cfg.ProcPath, "stat"))
	if err != nil {
		return probe{}, fmt.Errorf("opening the CPU states: %w", err)
	}
	p := probe{tells: true, form: formCPU, close: file.close}
	var scheduler *kernelFile // nil: not read
	if cfg.Measures("cpu_load_core") {
		scheduler, err = openSchedstat(filepath.Join(cfg.ProcPath, "schedstat"))
	}
	if err != nil {
		p.absent = map[string]error{"cpu_load_core": err}
	} else if scheduler != nil {
		p.close = func() { file.close(); scheduler.close() }
	}
	var trouble retry.Trouble
	p.read = func(into reading, _ Vitals) (reading, error) {
		data, err := file.read()
		if err != nil {
			return nil, err
		}
		now, err := parseStat(into, data)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.path, err)
		}
		for cpu := range now {
			if len(now[cpu]) > 0 {
				now[cpu] = append(now[cpu], unread)
			}
		}
		if err := readSchedstat(now, scheduler); err == nil {
			trouble.Over()
		} else if trouble.Worth(err, time.Now()) {
			log.Warn("metric is absent", "metric", "cpu_load_core", "err", err)
		}
		return now, nil
	}
	return p, nil
}

// readAt0 reads a file of the kernel from its beginning into the buffer. It returns the buffer, grown if the file did
// not fit. The kernel writes such a file anew for every read at 0, so one read must get it all.
func readAt0(file *os.File, buffer []byte) (data, grown []byte, err error) {
	for {
		n, err := file.ReadAt(buffer, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, buffer, err
		}
		if n < len(buffer) {
			return buffer[:n], buffer, nil
		}
		if len(buffer) >= maxKernelFile {
			return nil, buffer, errEndless
		}
		buffer = make([]byte, 2*len(buffer))
	}
}

// parseStat reads the lines cpu<N> of /proc/stat into rows of jiffies by state. It stops at the first line of another
// kind, since the kernel writes the CPUs first. States that an old kernel does not have are 0.
func parseStat(into reading, data []byte) (reading, error) {
	for i := range into {
		into[i] = into[i][:0]
	}
	found := false
	for len(data) > 0 {
		line, after, whole := cutLine(data)
		data = after
		rest, isCPU := bytes.CutPrefix(line, []byte("cpu"))
		if !isCPU {
			break
		}
		if len(rest) == 0 || rest[0] == ' ' {
			continue // the sum over all CPUs
		}
		cpu, rest, ok := number(rest)
		if !ok || !whole || cpu >= maxCPUs {
			return nil, fmt.Errorf("%w: %.80q", errStat, line)
		}
		for len(into) <= int(cpu) {
			into = append(into, nil)
		}
		row := into[cpu][:0]
		for len(row) < states {
			if rest = bytes.TrimLeft(rest, " "); len(rest) == 0 {
				break
			}
			var v uint64
			if v, rest, ok = cutNumber(rest); !ok {
				return nil, fmt.Errorf("%w: %.80q", errStat, line)
			}
			row = append(row, v)
		}
		if len(row) <= stateIdle {
			return nil, fmt.Errorf("%w: %.80q", errStat, line)
		}
		for len(row) < states {
			row = append(row, 0)
		}
		into[cpu], found = row, true
	}
	if !found {
		return nil, errNoCPU
	}
	return into, nil
}

// number reads the decimal number at the beginning of b. It is not ok if there is none, or if it overflows.
func number(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		if v > (1<<64-1-9)/10 {
			return 0, b, false
		}
		v = v*10 + uint64(b[i]-'0')
	}
	return v, b[i:], i > 0
}

// formStat returns the fraction of the CPU's time in each state: user with nice, system with irq and softirq, iowait,
// idle. Steal belongs to none of them, so on a virtual machine the sum may be below 1. If the counter of a state went
// backwards, as iowait may, the state is missing and the others are computed without it.
func formStat(from, to []uint64, _ time.Duration, out []float64) {
	var d [states]float64
	var ok [states]bool
	total := 0.0
	for i := range d {
		d[i], ok[i] = grown(from[i], to[i])
		total += d[i]
	}
	if total == 0 {
		return
	}
	if ok[stateUser] && ok[stateNice] {
		out[0] = (d[stateUser] + d[stateNice]) / total
	}
	if ok[stateSystem] && ok[stateIRQ] && ok[stateSoftIRQ] {
		out[1] = (d[stateSystem] + d[stateIRQ] + d[stateSoftIRQ]) / total
	}
	if ok[stateIowait] {
		out[2] = d[stateIowait] / total
	}
	if ok[stateIdle] {
		out[3] = d[stateIdle] / total
	}
}

// formCPU gives the fractions of the CPU's time and its load.
func formCPU(from, to []uint64, elapsed time.Duration, out []float64) {
	formStat(from, to, elapsed, out[:4])
	out[4] = loadOfCPU(from, to, elapsed)
}
