package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

const (
	// agentProcs is the number of goroutines that the agent runs at once. Measured at 1 Hz with sending: a cycle costs
	// 1.2 to 1.5 ms of CPU with one, 1.6 to 1.9 ms with two. With one, the agent never takes a second CPU from a job.
	agentProcs = 1
	// agentMemory is a soft limit in bytes, the same as GOMEMLIMIT in the systemd unit. Only an outage of Kafka comes
	// near it.
	agentMemory = 72 << 20
	// agentGC is how much the heap may grow before it is collected, in percent. Measured: 50 takes 1.6 MB less than
	// 100, and one collection in some twenty intervals. 25 takes no less.
	agentGC = 50
)

// restrain keeps the process from disturbing the jobs of its node: its CPUs, its scheduling class and its memory. The
// variables of Go's runtime come first.
func restrain(a config.Agent) error {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(agentProcs)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(agentMemory)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(agentGC)
	}
	cpus, err := config.CPUList(a.CPUs)
	if err != nil {
		return fmt.Errorf("agent.cpus: %w", err)
	}
	if len(cpus) > 0 {
		set := cpuSet(cpus)
		if err := eachThread(func(id int) error { return unix.SchedSetaffinityDynamic(id, set) }); err != nil {
			return fmt.Errorf("agent.cpus %q: this host does not let the agent run there: %w", a.CPUs, err)
		}
	}
	if a.Idle {
		idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
		if err := eachThread(func(id int) error { return unix.SchedSetAttr(id, &idle, 0) }); err != nil {
			return fmt.Errorf("agent.idle: the kernel refuses SCHED_IDLE: %w", err)
		}
	}
	return nil
}

// cpuSet returns the CPUs in the kernel's form. unix.CPUSet would leave out CPUs above 1,023.
func cpuSet(cpus []int) unix.CPUSetDynamic {
	set := unix.NewCPUSet(slices.Max(cpus) + 1)
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return set
}

// eachThread calls set for every thread of this process. New threads inherit from the thread that starts them, so it
// repeats until a pass finds no new one.
func eachThread(set func(id int) error) error {
	done := map[int]bool{}
	for fresh := true; fresh; {
		fresh = false
		paths, err := filepath.Glob("/proc/self/task/[0-9]*")
		if err != nil || len(paths) == 0 {
			return errors.Join(errors.New("/proc/self/task lists no thread"), err)
		}
		for _, path := range paths {
			id, err := strconv.Atoi(filepath.Base(path))
			if err != nil || done[id] {
				continue
			}
			if err := set(id); err != nil && !errors.Is(err, unix.ESRCH) { // a thread that ended meanwhile
				return err
			}
			done[id], fresh = true, true
		}
	}
	return nil
}
