package source

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"
)

var (
	// errSchedstat is returned if /proc/schedstat is not in the kernel's format.
	errSchedstat = errors.New("not a line of a CPU's scheduler")
	// errSchedstatVersion is returned if the version of /proc/schedstat is unknown.
	errSchedstatVersion = errors.New("its version is none of 15, 16 and 17")
)

// openSchedstat opens the file of the scheduler, if the kernel provides it in a known version.
func openSchedstat(path string) (*kernelFile, error) {
	file, err := openKernelFile(path)
	if err != nil {
		return nil, fmt.Errorf("a kernel without CONFIG_SCHEDSTATS: %w", err)
	}
	if err := readSchedstat(nil, file); err != nil {
		file.close()
		return nil, err
	}
	return file, nil
}

// readSchedstat adds the file's numbers to the rows of the CPUs. The file is nil on a kernel without it.
func readSchedstat(rows reading, file *kernelFile) error {
	if file == nil {
		return nil
	}
	data, err := file.read()
	if err != nil {
		return err
	}
	if err := parseSchedstat(rows, data); err != nil {
		return fmt.Errorf("reading %s: %w", file.path, err)
	}
	return nil
}

// parseSchedstat sets the column stateWaiting of the rows of CPUs: the time in nanoseconds that tasks waited for the
// CPU. The lines of CPUs are the same in versions 15 to 17: cpu0, then nine numbers, of which it is the eighth. The
// lines of scheduling domains differ, and are skipped. The row of a CPU without a line stays as it is. procfs takes
// 183 µs and 913 allocations for 128 CPUs, this 13 µs and none (BenchmarkByProcfs).
func parseSchedstat(rows reading, data []byte) error {
	line, data, ok := cutLine(data)
	version, isVersion := bytes.CutPrefix(line, []byte("version "))
	v, rest, isNumber := number(version)
	if !ok || !isVersion || !isNumber || len(rest) > 0 || v < 15 || v > 17 {
		return fmt.Errorf("%w: %.80q", errSchedstatVersion, line)
	}
	for len(data) > 0 {
		if line, data, ok = cutLine(data); !ok {
			return fmt.Errorf("%w: %.80q", errSchedstat, line)
		}
		rest, isCPU := bytes.CutPrefix(line, []byte("cpu"))
		if !isCPU {
			continue
		}
		cpu, rest, ok := cutNumber(rest)
		var waiting uint64
		for field := 1; field <= 9 && ok; field++ {
			var v uint64
			if v, rest, ok = cutNumber(rest); field == 8 {
				waiting = v
			}
		}
		if !ok {
			return fmt.Errorf("%w: %.80q", errSchedstat, line)
		}
		if cpu < uint64(len(rows)) && len(rows[cpu]) > stateWaiting {
			rows[cpu][stateWaiting] = waiting
		}
	}
	return nil
}

// loadOfCPU returns the mean number of tasks that ran on a CPU or waited for it during the interval. The running time
// comes from /proc/stat. /proc/schedstat counts it only when the task leaves the CPU, which may be minutes later.
func loadOfCPU(from, to []uint64, elapsed time.Duration) float64 {
	busy, total := 0.0, 0.0
	for i := range states {
		d, ok := grown(from[i], to[i])
		total += d
		switch {
		case i == stateIdle || i == stateIowait: // the latter may go back, says Linux, and counts for nothing then
		case !ok:
			return math.NaN()
		default:
			busy += d
		}
	}
	return busy/total + perSecond(from[stateWaiting], to[stateWaiting], elapsed)/float64(time.Second)
}
