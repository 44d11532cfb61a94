package source

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNoClock is returned if no CPU exposes its clock.
	errNoClock = errors.New("no CPU has cpufreq/scaling_cur_freq: no driver of their clock is loaded")
	// errSlowClock is returned if the kernel stops each CPU to measure its clock.
	errSlowClock = errors.New("reading the clock of a CPU takes longer than 0.2 ms, since this kernel interrupts " +
		"the CPU and waits 10 ms: switch agent.perf on, its metric clock costs less")
)

func cpufreq() source {
	return source{"cpufreq", schemas.ScopeCore, "/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq", []metric{
		{"clock_cpufreq", "Hz", gauge, "scaling_cur_freq: the clock just before the boundary"},
	}, openCPUFreq}
}

// slowClock is longer than a read takes if the kernel keeps the clock at hand. Kernels for x86 before 5.18 do not: they
// interrupt the CPU, sleep for 10 ms and interrupt it again, which takes more than a second for 128 CPUs.
const slowClock = 200 * time.Microsecond

// cpuClock is the open file of a CPU's clock.
type cpuClock struct {
	cpu  int
	file numberFile
}

// openCPUFreq reads the clock of every CPU. It serves nodes on which hardware counters cannot be read. procfs reads
// eight files a CPU, 52 allocations for two CPUs. This reads one, without an allocation.
func openCPUFreq(cfg config.Agent, _ *slog.Logger) (probe, error) {
	dir := filepath.Join(cfg.SysPath, "devices/system/cpu")
	clocks := devices[cpuClock]{
		list: func() ([]string, error) { return cpusOf(dir) },
		open: func(name string) (cpuClock, error) {
			cpu, _ := numberAfter(name, "cpu")
			file, _ := keep(filepath.Join(dir, name, "cpufreq/scaling_cur_freq")) // offline: missing
			return cpuClock{cpu, numberFile{kept: file, unit: 1000}}, nil
		},
		close: func(c cpuClock) { c.file.close() },
	}
	err := clocks.look()
	if err == nil {
		err = quick(timed(clocks.all))
	}
	if err != nil {
		clocks.release()
		return probe{}, err
	}
	buffer, cpus := make([]byte, 64), 0
	read := func(into reading, v Vitals) (reading, error) {
		all, err := clocks.now(v.BoundaryMs)
		if err != nil {
			return nil, err
		}
		for i := range into {
			into[i] = into[i][:0]
		}
		for i := range all {
			c := &all[i]
			hz, err := c.file.number(buffer)
			if err != nil || hz == unread || hz == 0 {
				clocks.gone = clocks.gone || err != nil
				continue
			}
			for len(into) <= c.cpu {
				into = append(into, nil)
			}
			into[c.cpu] = append(into[c.cpu][:0], hz)
		}
		return into, nil
	}
	follow := func(online []int) {
		clocks.gone = clocks.gone || cpus > 0 && len(online) != cpus
		cpus = len(online)
	}
	return probe{read: read, follow: follow, form: formGauges, close: clocks.release}, nil
}

// cpusOf returns the names of the CPUs, such as cpu3.
func cpusOf(dir string) ([]string, error) {
	all, err := entries(dir)
	return slices.DeleteFunc(all, func(name string) bool {
		cpu, ok := numberAfter(name, "cpu")
		return !ok || cpu >= maxCPUs
	}), err
}

// timed reads a few clocks, and returns the time that each read took.
func timed(clocks []cpuClock) (took []time.Duration) {
	for i := range clocks {
		if clocks[i].file.file == nil {
			continue
		}
		begin := time.Now()
		_, _ = clocks[i].file.number(make([]byte, 64)) // the time is all that counts here
		if took = append(took, time.Since(begin)); len(took) == 4 {
			break
		}
	}
	return took
}

// quick returns an error if reads take too long. It judges the fastest read, because the others may have waited for a
// busy machine.
func quick(took []time.Duration) error {
	if len(took) == 0 {
		return errNoClock
	}
	if best := slices.Min(took); best > slowClock {
		return fmt.Errorf("%w (here: %v)", errSlowClock, best)
	}
	return nil
}
