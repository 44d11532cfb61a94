package source

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	perf "github.com/hodgesds/perf-utils"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// event is a counter of the kernel or of the CPU.
type event struct {
	name   string
	kind   uint32
	config uint64
}

// A row of a perf source begins with two times in nanoseconds: how long the group was wanted, and how long it counted.
// The counts of its events follow.
const (
	rowEnabled = iota
	rowRunning
	rowEvents
)

// errStill is returned for a group that was not wanted since the last reading, because its CPU went offline.
var errStill = errors.New("they stand still")

func perfSoftware() source {
	return source{"perf_software", schemas.ScopeCore, "perf software events", []metric{
		{"task_clock", "1", Ratio, "task-clock / time"},
		{"page_faults", "1/s", Rate, "page-faults / time"},
		{"context_switches", "1/s", Rate, "context-switches / time"},
		{"cpu_migrations", "1/s", Rate, "cpu-migrations / time"},
	}, openPerfSoftware}
}

// openPerfSoftware counts the kernel's own events on every CPU. task_clock is nanoseconds per nanosecond. The group
// counts a CPU and not a task, so its task_clock runs while the CPU idles too: it measures the time that was counted.
func openPerfSoftware(cfg config.Agent, log *slog.Logger) (probe, error) {
	if !cfg.Perf {
		return probe{}, nil
	}
	wanted := []event{ // in the order of the metrics
		{"task_clock", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK},
		{"page_faults", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_PAGE_FAULTS},
		{"context_switches", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
		{"cpu_migrations", unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_MIGRATIONS},
	}
	p, events, err := openPerf(cfg, log, wanted)
	if err != nil {
		return probe{}, err
	}
	p.form = func(from, to []uint64, elapsed time.Duration, out []float64) {
		for i, e := range events {
			count, ok := scaled(from, to, rowEvents+i)
			at := slices.Index(wanted, e)
			switch {
			case !ok || elapsed <= 0:
			case e.config == unix.PERF_COUNT_SW_TASK_CLOCK:
				out[at] = count / float64(elapsed)
			default:
				out[at] = count / elapsed.Seconds()
			}
		}
	}
	return p, nil
}

func perfHardware() source {
	return source{"perf_hardware", schemas.ScopeCore, "perf hardware events", []metric{
		{"ipc", "1", Ratio, "instructions / cycles"},
	}, openPerfHardware}
}

// openPerfHardware counts cycles and instructions on every CPU, for the instructions per cycle of each.
func openPerfHardware(cfg config.Agent, log *slog.Logger) (probe, error) {
	if !cfg.Perf {
		return probe{}, nil
	}
	wanted := []event{
		{"cycles", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES},
		{"instructions", unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_INSTRUCTIONS},
	}
	p, events, err := openPerf(cfg, log, wanted)
	if err != nil {
		return probe{}, err
	}
	if len(events) < len(wanted) { // the log has named the absent one; one alone makes no ratio
		if p.close != nil {
			p.close()
		}
		return probe{}, nil
	}
	p.form = formIPC
	return p, nil
}

// formIPC gives instructions per cycle. It is missing where the CPU had no cycle.
func formIPC(from, to []uint64, _ time.Duration, out []float64) {
	cycles, ok := scaled(from, to, rowEvents)
	instructions, ok2 := scaled(from, to, rowEvents+1)
	if ok && ok2 && cycles > 0 {
		out[0] = instructions / cycles
	}
}

// scaled is how often event i of a row occurred between two readings. Where more counters are wanted than the CPU has,
// the kernel counts groups in turn. The count is then extended to the time that was wanted. It is not ok where nothing
// was counted.
func scaled(from, to []uint64, i int) (float64, bool) {
	enabled, ok1 := grown(from[rowEnabled], to[rowEnabled])
	running, ok2 := grown(from[rowRunning], to[rowRunning])
	count, ok3 := grown(from[i], to[i])
	if !ok1 || !ok2 || !ok3 || running == 0 {
		return 0, false
	}
	return count * (enabled / running), true
}

// openPerf opens one group of events on every CPU that is online, for all tasks. It returns the events that the kernel
// has, and logs those that it lacks. One call reads a group: reading a remote CPU's counters interrupts that CPU, and
// one call interrupts it once.
//
// perf-utils reads the groups. They are opened one after the other, because perf-utils keeps a buffer of the last group
// opened in a variable of its package. Each event is first tried alone, because perf-utils reports errors as text only.
func openPerf(cfg config.Agent, log *slog.Logger, wanted []event) (probe, []event, error) {
	cpus, err := onlineCPUs(cfg.ProcPath)
	if err != nil {
		return probe{}, nil, err
	}
	var events []event
	var attrs []unix.PerfEventAttr
	for _, e := range wanted {
		attr := unix.PerfEventAttr{Type: e.kind, Config: e.config, Size: perf.EventAttrSize}
		if err := tryEvent(attr, cpus[0]); err != nil {
			log.Info("perf event is absent", "event", e.name, "err", err)
			continue
		}
		events, attrs = append(events, e), append(attrs, attr)
	}
	if len(events) == 0 {
		return probe{}, nil, nil
	}
	groups := newPerfGroups(log, func(cpu int) (perf.GroupProfiler, error) { return openGroup(cpu, attrs) })
	if opened, refused := groups.openMissing(cpus); len(opened) == 0 {
		return probe{}, nil, refused
	} else if refused != nil {
		log.Warn("perf events are absent on some CPUs", "count", len(cpus)-len(opened), "err", refused)
	}
	return probe{follow: groups.follow, read: groups.read, close: groups.close}, events, nil
}

// perfGroups is the open group of each CPU. The groups follow the CPUs that are online. The kernel takes away the
// events of a CPU that goes offline for good, and a read then repeats their last counts.
type perfGroups struct {
	log    *slog.Logger
	open   func(cpu int) (perf.GroupProfiler, error)
	groups map[int]*perfGroup // of the CPUs that are online; nil where it must be opened again
	value  perf.GroupProfileValue
}

// perfGroup is a group with its last reading.
type perfGroup struct {
	perf.GroupProfiler
	enabled uint64 // how long it was wanted, 0 before its first reading
}

func newPerfGroups(log *slog.Logger, open func(cpu int) (perf.GroupProfiler, error)) *perfGroups {
	return &perfGroups{log: log, open: open, groups: map[int]*perfGroup{}}
}

// openMissing opens a group on each of the CPUs that has none. It returns the CPUs where it did, and why another one
// was refused. A CPU that was refused before is tried without an error.
func (p *perfGroups) openMissing(cpus []int) (opened []int, refused error) {
	for _, cpu := range cpus {
		have, known := p.groups[cpu]
		if have != nil {
			continue
		}
		g, err := p.open(cpu)
		switch {
		case err == nil:
			p.groups[cpu] = &perfGroup{GroupProfiler: g}
			opened = append(opened, cpu)
		case !known:
			p.groups[cpu] = nil
			refused = err
		}
	}
	return opened, refused
}

// follow closes the groups of CPUs that went offline, and opens groups on CPUs that came. online is ascending.
func (p *perfGroups) follow(online []int) {
	var gone []int
	for cpu, g := range p.groups {
		if _, ok := slices.BinarySearch(online, cpu); ok {
			continue
		}
		if g != nil {
			_ = g.Close() // counters hold nothing that could be lost
			gone = append(gone, cpu)
		}
		delete(p.groups, cpu)
	}
	if slices.Sort(gone); len(gone) > 0 {
		p.log.Info("perf events are closed: CPUs went offline", "cpus", gone)
	}
	opened, refused := p.openMissing(online)
	if len(opened) > 0 {
		p.log.Info("perf events are opened again: CPUs came back", "cpus", opened)
	}
	if refused != nil {
		p.log.Warn("perf events are absent on some CPUs", "err", refused)
	}
}

// read reads every group, in the order of CPUs. A CPU whose group cannot be read, or stands still, has no row. It was
// offline since the last reading, and gets a new group before the next one.
func (p *perfGroups) read(into reading, _ Vitals) (reading, error) {
	var failed error
	for i := range into {
		into[i] = into[i][:0]
	}
	read := 0
	for _, cpu := range slices.Sorted(maps.Keys(p.groups)) {
		g := p.groups[cpu]
		if g == nil {
			continue
		}
		err := g.Profile(&p.value)
		if err != nil || p.value.TimeEnabled <= g.enabled {
			failed = fmt.Errorf("reading the perf events of CPU %d: %w", cpu, cmp.Or(err, errStill))
			_ = g.Close() // counters hold nothing that could be lost
			p.groups[cpu] = nil
			continue
		}
		g.enabled = p.value.TimeEnabled
		for len(into) <= cpu {
			into = append(into, nil)
		}
		into[cpu] = append(append(into[cpu], p.value.TimeEnabled, p.value.TimeRunning), p.value.Values...)
		read++
	}
	if read == 0 {
		return nil, failed
	}
	return into, nil
}

func (p *perfGroups) close() {
	for _, g := range p.groups {
		if g != nil {
			_ = g.Close() // counters hold nothing that could be lost
		}
	}
}

// openGroup counts events of one CPU as a group, so that the kernel measures all of them at the same time. Their ratios
// would mean nothing otherwise.
func openGroup(cpu int, attrs []unix.PerfEventAttr) (perf.GroupProfiler, error) {
	g, err := perf.NewGroupProfiler(-1, cpu, unix.PERF_FLAG_FD_CLOEXEC, attrs...)
	if err != nil {
		return nil, fmt.Errorf("opening perf events on CPU %d: %w", cpu, err)
	}
	if err := g.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting perf events on CPU %d: %w", cpu, err), g.Close())
	}
	return g, nil
}

// tryEvent returns why the kernel does not give an event on a CPU. ENOENT and EOPNOTSUPP mean that the hardware lacks
// it. EACCES and EPERM mean that the process needs CAP_PERFMON or a lower kernel.perf_event_paranoid.
func tryEvent(attr unix.PerfEventAttr, cpu int) error {
	attr.Bits = unix.PerfBitDisabled | unix.PerfBitExcludeHv
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// onlineCPUs are the CPUs that /proc/stat lists, at least one, ascending.
func onlineCPUs(procPath string) ([]int, error) {
	path := filepath.Join(procPath, "stat")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("finding the CPUs: %w", err)
	}
	rows, err := parseStat(nil, data)
	if err != nil {
		return nil, fmt.Errorf("finding the CPUs in %s: %w", path, err)
	}
	return rows.present(), nil
}
