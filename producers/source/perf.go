package source

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	perf "github.com/hodgesds/perf-utils"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errStill is returned for a group that was not wanted since the last reading, because its CPU went offline.
	errStill = errors.New("they stand still")
	// errNotOpen is returned while no CPU counts perf events.
	errNotOpen = errors.New("no CPU has perf events")
	// errNoEvents is the reason of a metric without events in the table of this host's CPU.
	errNoEvents = errors.New("no events are known for it")
	// errPerfOff is the reason of metrics that the configuration switches off.
	errPerfOff = errors.New("agent.perf is false")
)

var missing = math.NaN()

func perfSoftware() source { return perfSoftwareOf(linux) }

func perfSoftwareOf(k perfKernel) source {
	metrics := []metric{
		{"task_clock", "1", ratio, "task-clock / time"},
		{"page_faults", "1/s", Rate, "page-faults / time"},
		{"page_faults_major", "1/s", Rate, "major-faults / time"},
		{"context_switches", "1/s", Rate, "context-switches / time"},
		{"cpu_migrations", "1/s", Rate, "cpu-migrations / time"},
		{"clock", "Hz", gauge, "mean while not halted: (aperf / mperf) * (tsc / time)"},
	}
	return source{
		"perf_software", schemas.ScopeCore, "perf events that need no counter: software, msr", metrics,
		func(cfg config.Agent, log *slog.Logger) (probe, error) { return openPerfSoftware(k, metrics, cfg, log) },
	}
}

// softwareEvent makes an event from the attributes in perf-utils.
func softwareEvent(w what, name string, attr unix.PerfEventAttr) event {
	return event{what: w, name: name, kind: attr.Type, config: attr.Config}
}

// softwareGroup counts the kernel's own events. task_clock is nanoseconds per nanosecond. The group counts a CPU and
// not a task, so its task_clock runs while the CPU idles too: it measures the time that was counted.
func softwareGroup() eventGroup {
	return eventGroup{
		events: []event{
			softwareEvent(software0, "task-clock", perf.CPUTaskClockEventAttr()),
			softwareEvent(software1, "page-faults", perf.PageFaultsEventAttr()),
			softwareEvent(software2, "major-faults", perf.MajorPageFaultsEventAttr()),
			softwareEvent(software3, "context-switches", perf.ContextSwitchesEventAttr()),
			softwareEvent(software4, "cpu-migrations", perf.CPUMigrationsEventAttr()),
		},
		gives: []gives{
			{"task_clock", func(c *counts) float64 { return per(c[software0]/1e9, c[seconds]) }},
			{"page_faults", rate(software1)},
			{"page_faults_major", rate(software2)},
			{"context_switches", rate(software3)},
			{"cpu_migrations", rate(software4)},
		},
	}
}

// clockGroup counts the mean clock while the CPU was not halted: aperf counts at it, mperf and tsc at the nominal one.
func clockGroup() eventGroup {
	return eventGroup{
		events: []event{named(aperf, "msr", "aperf"), named(mperf, "msr", "mperf"), named(tsc, "msr", "tsc")},
		gives: []gives{{"clock", func(c *counts) float64 {
			return per(c[aperf], c[mperf]) * per(c[tsc], c[seconds])
		}}},
	}
}

// alwaysGroup contains the events that need none of the CPU's counters, so the kernel counts them all of the time. A
// read of a group interrupts its CPU, and one read is enough for all of these. In a group with events that need
// counters they would wait for its turn, and their counts would become estimates. A CPU of Arm has no events of its
// clock.
func alwaysGroup(of cpuModel) eventGroup {
	software := softwareGroup()
	if of.implementer != 0 {
		return software
	}
	clock := clockGroup()
	return eventGroup{
		events: slices.Concat(software.events, clock.events), gives: slices.Concat(software.gives, clock.gives),
		parts: []eventGroup{software, clock},
	}
}

func openPerfSoftware(k perfKernel, metrics []metric, cfg config.Agent, log *slog.Logger) (probe, error) {
	if !cfg.Perf {
		return probe{}, errPerfOff
	}
	cpus, err := onlineCPUs(cfg.ProcPath)
	if err != nil {
		return probe{}, err
	}
	f, absent := formAlways(k, metrics, cfg, cpus[0])
	if len(f.groups) == 0 {
		return probe{}, noEvents(cfg, metrics, absent)
	}
	groups := newPerfGroups(log, k, f.groups)
	if err := groups.openAll(cpus); err != nil {
		return probe{}, err
	}
	read := func(into reading, _ Vitals) (reading, error) { return groups.read(into) }
	return probe{
		absent: absent, follow: groups.follow, read: read, form: f.form, events: eventsOf(f.groups),
		close: groups.close,
	}, nil
}

// eventsOf returns the events of each group.
func eventsOf(groups []eventGroup) (all [][]event) {
	for _, g := range groups {
		all = append(all, g.events)
	}
	return all
}

// formAlways chooses the events that need no counter. A host may have a part of the clock's, which is left out.
func formAlways(k perfKernel, metrics []metric, cfg config.Agent, cpu int) (*perfForm, map[string]error) {
	model, _ := thisCPU(cfg) // without it only the reason of a metric that is absent changes
	f, absent := newPerfForm(k, metrics, resolved(cfg.SysPath, []eventGroup{alwaysGroup(model)}), cpu, 0)
	f.keep(cfg.Measures)
	return f, absent
}

// perfForm forms metrics from the rows of a CPU. A row consists of a part for each group, one behind the other.
type perfForm struct {
	groups []eventGroup
	places [][]int // of each group's metrics: indices among the source's metrics; -1: no value
	// sum is the index of flops_any if no group gives it, so that it is the sum of the metrics at the two others.
	sum, doubles, singles int

	slots  float64 // slots per cycle, if the kernel reports them
	counts counts  // of the group at hand: kept, and missing in between, so that forming allocates nothing
}

// newPerfForm chooses the metrics of the wanted groups that can be counted, which it tries on one CPU. absent gives the
// reason for a metric without a value.
func newPerfForm(k perfKernel, metrics []metric, wanted []eventGroup, cpu int, slots float64) (
	f *perfForm, absent map[string]error,
) {
	f = &perfForm{slots: slots, sum: -1}
	for w := range f.counts {
		f.counts[w] = missing
	}
	absent = make(map[string]error)
	place := func(name string) int {
		return slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })
	}
	given := make(map[string]bool)
	for _, g := range chosen(k, wanted, cpu, absent) {
		var places []int
		useful := false
		for _, give := range g.gives {
			at := -1
			if f.can(g, give) {
				at, given[give.metric], useful = place(give.metric), true, true
			}
			places = append(places, at)
		}
		if useful {
			f.groups, f.places = append(f.groups, g), append(f.places, places)
		}
	}
	if !given["flops_any"] && given["flops_dp"] && given["flops_sp"] {
		f.sum, f.doubles, f.singles = place("flops_any"), place("flops_dp"), place("flops_sp")
		given["flops_any"] = true
	}
	for _, m := range metrics {
		if given[m.name] {
			delete(absent, m.name)
		} else if absent[m.name] == nil {
			absent[m.name] = errNoEvents
		}
	}
	return f, absent
}

// can reports whether the events of a group yield a metric: its formula has a value if each of them counted.
func (f *perfForm) can(g eventGroup, give gives) bool {
	f.begin(1)
	for _, e := range g.events {
		f.counts[e.what] = 1
	}
	defer f.end(&g)
	return !math.IsNaN(give.of(&f.counts))
}

// begin resets the counts of a group to missing before they are set.
func (f *perfForm) begin(wanted float64) {
	f.counts[seconds] = wanted
	if f.slots > 0 {
		f.counts[slotsPerCycle] = f.slots
	}
}

// end makes the counts of a group missing again.
func (f *perfForm) end(g *eventGroup) {
	for i := range g.events {
		f.counts[g.events[i].what] = missing
	}
}

// form is the form of a probe. The time of a rate is the group's own: a reading that was late counts more, in more
// time.
func (f *perfForm) form(from, to []uint64, _ time.Duration, out []float64) {
	for i := range f.groups {
		g := &f.groups[i]
		width := rowEvents + len(g.events)
		if len(from) < width || len(to) < width {
			return
		}
		wanted, _ := grown(from[rowEnabled], to[rowEnabled])
		f.begin(wanted / float64(time.Second))
		for j := range g.events {
			if n, ok := scaled(from[:width], to[:width], rowEvents+j); ok {
				f.counts[g.events[j].what] = n
			}
		}
		for j, give := range g.gives {
			if at := f.places[i][j]; at >= 0 {
				out[at] = give.of(&f.counts)
			}
		}
		f.end(g)
		from, to = from[width:], to[width:]
	}
	if f.sum >= 0 {
		out[f.sum] = out[f.doubles] + out[f.singles]
	}
}

// chosen returns the groups with the events that the kernel counts together on a CPU. It replaces a group for which the
// CPU has too few counters by its parts. If the kernel refuses the events of a metric, absent gets the error.
func chosen(k perfKernel, wanted []eventGroup, cpu int, absent map[string]error) (groups []eventGroup) {
	for _, g := range wanted {
		events, refused := k.choose(cpu, g.events)
		for _, give := range g.gives {
			if refused != nil && absent[give.metric] == nil {
				absent[give.metric] = refused
			}
		}
		if errors.Is(refused, unix.EINVAL) && len(g.parts) > 0 {
			groups = append(groups, chosen(k, g.parts, cpu, absent)...)
			continue
		}
		if len(events) > 0 {
			g.events = events
			groups = append(groups, g)
		}
	}
	return groups
}

// perfGroups is the open groups of each CPU. They follow the CPUs that are online. The kernel takes away the events of
// a CPU that goes offline for good, and a read then repeats their last counts.
type perfGroups struct {
	log    *slog.Logger
	kernel perfKernel
	wanted []eventGroup
	cpus   []perfCPU // by number
	buf    []byte    // of one read

	waiting []int  // number of CPUs on which each group had no turn since the last reading
	starved []bool // groups that the log has reported already
}

// perfCPU is the groups of one CPU.
type perfCPU struct {
	known  bool    // it is online, and its groups were opened or refused
	groups []group // in the order wanted, with closed ones for refused groups; nil if they must be opened again
}

func newPerfGroups(log *slog.Logger, k perfKernel, wanted []eventGroup) *perfGroups {
	most := 0
	for _, g := range wanted {
		most = max(most, len(g.events))
	}
	return &perfGroups{
		log: log, kernel: k, wanted: wanted, buf: make([]byte, 8*(3+most)),
		waiting: make([]int, len(wanted)), starved: make([]bool, len(wanted)),
	}
}

// openAll opens the groups of CPUs for the first time. It returns an error if it can open none on any CPU, and logs a
// warning if some CPUs lack some groups.
func (p *perfGroups) openAll(cpus []int) error {
	opened, refused := p.openMissing(cpus)
	if len(opened) == 0 {
		return refused
	}
	if refused != nil {
		p.log.Warn("perf events are absent on some CPUs", "count", len(cpus)-len(opened), "err", refused)
	}
	return nil
}

// openMissing opens the groups of the CPUs without any. It returns the CPUs on which it opened some, and the reason if
// another was refused. A CPU that was refused before is tried without an error.
func (p *perfGroups) openMissing(cpus []int) (opened []int, refused error) {
	for _, cpu := range cpus {
		for len(p.cpus) <= cpu {
			p.cpus = append(p.cpus, perfCPU{})
		}
		c := &p.cpus[cpu]
		if len(c.groups) > 0 {
			continue
		}
		groups, err := p.openCPU(cpu)
		if len(groups) > 0 {
			opened = append(opened, cpu)
		}
		if err != nil && !c.known {
			refused = err
		}
		*c = perfCPU{known: true, groups: groups}
	}
	return opened, refused
}

// openCPU opens the groups of one CPU, none if the first is refused.
func (p *perfGroups) openCPU(cpu int) (groups []group, refused error) {
	for i, want := range p.wanted {
		g, err := p.kernel.openEvents(cpu, want.events)
		refused = cmp.Or(refused, err)
		if i == 0 && err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, refused
}

func (p *perfGroups) closeCPU(cpu int) {
	c := &p.cpus[cpu]
	for i := range c.groups {
		p.kernel.closeGroup(&c.groups[i])
	}
	c.groups = nil
}

// follow closes the groups of CPUs that went offline, and opens groups on CPUs that came. online is ascending.
func (p *perfGroups) follow(online []int) {
	var gone []int
	for cpu := range p.cpus {
		c := &p.cpus[cpu]
		if _, ok := slices.BinarySearch(online, cpu); ok || !c.known {
			continue
		}
		if len(c.groups) > 0 {
			p.closeCPU(cpu)
			gone = append(gone, cpu)
		}
		c.known = false
	}
	if len(gone) > 0 {
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

// read reads every group, in the order of CPUs. If the first group of a CPU cannot be read, or stands still, the CPU
// has been offline since the last reading. It gets no row, and new groups before the next reading. Another group that
// cannot be read counted nothing.
func (p *perfGroups) read(into reading) (reading, error) {
	var failed error
	for i := range into {
		into[i] = into[i][:0]
	}
	read := 0
	for cpu := range p.cpus {
		c := &p.cpus[cpu]
		if len(c.groups) == 0 {
			continue
		}
		for len(into) <= cpu {
			into = append(into, nil)
		}
		row, err := p.readCPU(into[cpu], c)
		if err != nil {
			failed = fmt.Errorf("reading the perf events of CPU %d: %w", cpu, err)
			row = row[:0]
			p.closeCPU(cpu)
		} else {
			read++
		}
		into[cpu] = row
	}
	if read == 0 {
		return nil, cmp.Or(failed, errNotOpen)
	}
	p.name(read)
	return into, nil
}

// name logs the groups that had no turn on any of the CPUs read. The kernel gives a group no counters that another
// holder reserved: the NMI watchdog, or a profiler that pins its events.
func (p *perfGroups) name(read int) {
	for i, n := range p.waiting {
		if n == read && !p.starved[i] {
			p.log.Warn("perf events have no counters: the NMI watchdog or another program holds them",
				"event", p.wanted[i].events[0].name, "count", len(p.wanted[i].events))
		}
		p.starved[i] = n == read
		p.waiting[i] = 0
	}
}

func (p *perfGroups) readCPU(row []uint64, c *perfCPU) ([]uint64, error) {
	for i := range c.groups {
		g, begin := &c.groups[i], len(row)
		end := begin + rowEvents + len(p.wanted[i].events)
		var err error
		if len(g.fds) > 0 {
			row, err = p.kernel.readGroup(row, g, p.buf)
		}
		if i == 0 {
			if err == nil && row[rowEnabled] <= g.enabled {
				err = errStill
			}
			if err != nil {
				return row, err
			}
		}
		for len(row) < end {
			row = append(row, 0)
		}
		enabled, running := row[begin+rowEnabled], row[begin+rowRunning]
		if g.enabled > 0 && enabled > g.enabled && running == g.running {
			p.waiting[i]++
		}
		g.enabled, g.running = enabled, running
	}
	return row, nil
}

func (p *perfGroups) close() {
	for cpu := range p.cpus {
		p.closeCPU(cpu)
	}
	p.cpus = p.cpus[:0]
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
