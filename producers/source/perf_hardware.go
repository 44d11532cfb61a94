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
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNoController is the reason of memory bandwidth that no PMU counts.
	errNoController = errors.New("no PMU of a memory controller that weir knows (uncore_imc, amd_umc, amd_df, " +
		"nvidia_scf)")
	// errYields is the reason of hardware events while a user holds the counters.
	errYields = errors.New("the lock of agent.perf_lock is held: its holder has the counters")
	// errNoPeak is the reason of a share of a peak that is not configured.
	errNoPeak = errors.New("the peak is not configured")
)

// lockAge is the age at which the agent ignores a lock that nobody touches. This ends the lock of a job that crashed.
const lockAge = 24 * time.Hour

// spareFiles is the number of descriptors that the agent keeps free of perf events.
const spareFiles = 512

// newPerfSet is not open. Three sources share it: one set of events gives the metrics of CPUs, of sockets and of the
// node. The first of them that is opened opens it.
func newPerfSet() *perfSet { return &perfSet{kernel: linux, boundary: -1} }

func (s *perfSet) perfHardware() source {
	return source{"perf_hardware", schemas.ScopeCore, "perf hardware events of the CPUs", coreMetrics(), s.openCore}
}

func (s *perfSet) perfMemory() source {
	return source{
		"perf_memory", schemas.ScopeSocket, "perf events of the memory controllers and the socket's CPUs",
		memoryMetrics(), s.openMemory,
	}
}

func (s *perfSet) perfNode() source {
	return source{
		"perf_node", schemas.ScopeNode, "perf events of all CPUs and memory controllers", nodeMetrics(), s.openNode,
	}
}

func memoryMetrics() []metric {
	return []metric{
		{"mem_bw", "B/s", Rate, "bytes read and written at the memory controllers / time"},
		{"mem_read_bw", "B/s", Rate, "bytes read at the memory controllers / time"},
		{"mem_write_bw", "B/s", Rate, "bytes written at the memory controllers / time"},
		{"operational_intensity", "FLOP/B", ratio, "flops_any summed over the socket's CPUs / mem_bw"},
		{"bytes_per_cycle", "B", ratio, "mem_bw / cycles summed over the socket's CPUs"},
	}
}

func nodeMetrics() []metric {
	return []metric{
		{"peak_share_flops", "1", ratio, "flops_any summed over the node's CPUs / agent.peak_flops"},
		{"peak_share_mem_bw", "1", ratio, "mem_bw summed over the node's sockets / agent.peak_mem_bw"},
	}
}

func coreMetrics() []metric {
	return []metric{
		{"ipc", "1", ratio, "instructions / cycles"},
		{"cycles", "1/s", Rate, "cycles while not halted / time"},
		{"instructions", "1/s", Rate, "instructions retired / time"},
		{"flops_dp", "FLOP/s", Rate, "(scalar + 2 packed 128 + 4 packed 256 + 8 packed 512), double precision / time"},
		{"flops_sp", "FLOP/s", Rate, "(scalar + 4 packed 128 + 8 packed 256 + 16 packed 512), single precision / time"},
		{"flops_any", "FLOP/s", Rate, "operations of any precision, each counted once: flops_dp + flops_sp"},
		{"vectorization_ratio", "1", ratio, "packed / (packed + scalar) floating-point instructions"},
		{"avx512_share", "1", ratio, "packed 512 / all floating-point instructions"},
		{"sp_share", "1", ratio, "flops_sp / (flops_sp + flops_dp); Neoverse V2: by instructions"},
		{"l2_misses", "1/s", Rate, "lines that the L2 cache lacked, prefetched ones too / time"},
		{"l3_hits", "1/s", Rate, "loads that the L3 cache had / time"},
		{"l3_miss_rate", "1", ratio, "L3 misses / instructions; AMD: data from memory; Arm: reads"},
		{"loads_per_store", "1", ratio, "loads / stores; retired on Intel, dispatched on AMD, speculative on Arm"},
		{"loads_per_l3_miss", "1", ratio, "loads / loads that the L3 cache lacked"},
		{"branch_miss_ratio", "1", ratio, "branches mispredicted / branches"},
		{"divider_active", "1", ratio, "cycles with the divider busy / cycles"},
		{"stall_cycles", "1", ratio, "cycles without execution / cycles; Zen 4: without retirement; Arm: without " +
			"dispatch"},
		{"stall_memory", "1", ratio, "such cycles while loads are outstanding / cycles"},
		{"tma_frontend", "1", ratio, "slots that the front end left empty / slots"},
		{"tma_bad_speculation", "1", ratio, "slots of work that was thrown away / slots"},
		{"tma_retiring", "1", ratio, "slots of work that retired / slots"},
		{"tma_backend", "1", ratio, "slots that the back end could not take / slots"},
		{"tma_memory_bound", "1", ratio, "slots that the back end could not take because of memory / slots"},
	}
}

// perfSet is the hardware events of the host: groups of each CPU, and the memory controllers. Sources share it, each in
// its own goroutine.
type perfSet struct {
	kernel perfKernel

	mu      sync.Mutex
	cfg     config.Agent
	log     *slog.Logger
	refused error // why there are no events of the CPUs
	form    *perfForm
	groups  *perfGroups
	memory  []*controller
	buf     []byte // of a read of a controller
	sockets []int  // of each CPU number, -1 if unknown
	absent  map[string]error
	noFlow  error // why a memory controller is not counted: a part gives no bandwidth
	yielded bool
	stale   bool // the lock is ignored, and the log reports it
	users   int  // open sources
	always  int  // events of a CPU that need no counter: another source opens them

	boundary int64 // of the last reading
	cores    reading
	failed   error
	taken    [3]bool // the sources that have the last reading
}

// The sources of a set.
const (
	userCore = iota
	userMemory
	userNode
)

// open opens the events for their first user. It tries again if all were refused before.
func (s *perfSet) open(cfg config.Agent, log *slog.Logger) {
	if s.users > 0 {
		return
	}
	s.release()
	s.cfg, s.log, s.memory, s.form = cfg, log, nil, nil
	var cpus []int
	if cpus, s.refused = onlineCPUs(cfg.ProcPath); s.refused != nil {
		return
	}
	s.choose(cpus)
	s.groups = newPerfGroups(log, s.kernel, s.form.groups)
	s.buf = make([]byte, 8*(3+fabricCounters))
	if len(s.form.groups) == 0 {
		s.refused = noEvents(cfg, coreMetrics(), s.absent)
	}
	if s.yielded = s.locked(); s.yielded {
		log.Info("perf hardware events are closed: the lock is held", "file", cfg.PerfLock)
	} else {
		s.refused = cmp.Or(s.refused, s.count(cpus))
	}
}

// choose finds the events that this host counts and the configuration needs.
func (s *perfSet) choose(cpus []int) {
	model, err := thisCPU(s.cfg)
	if err != nil {
		s.log.Info("the kind of CPU is not known: only general events are counted", "err", err)
	}
	arch := architectureOf(model)
	s.always = len(alwaysGroup(model).events)
	slots, _ := readNumber(filepath.Join(pmuDir(s.cfg.SysPath, "armv8_pmuv3_0"), "caps/slots"))
	groups := resolved(s.cfg.SysPath, arch.groups)
	s.form, s.absent = newPerfForm(s.kernel, coreMetrics(), groups, cpus[0], slots)
	s.form.restrict(s.cfg, neededOfCores(s.cfg))
	if s.noFlow = errNotListed; needsControllers(s.cfg) {
		s.memory, s.noFlow = controllers(s.cfg.SysPath, arch)
	}
	s.fit(len(cpus), limitFiles())
}

// thisCPU is the host's model of CPU.
func thisCPU(cfg config.Agent) (cpuModel, error) {
	info, err := os.ReadFile(filepath.Join(cfg.ProcPath, "cpuinfo"))
	return parseCPUInfo(info), err
}

// resolved finds the events that the kernel describes by name.
func resolved(sysPath string, groups []eventGroup) []eventGroup {
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].parts = resolved(sysPath, groups[i].parts)
		groups[i].events = slices.Clone(groups[i].events)
		for j := range groups[i].events {
			if e := &groups[i].events[j]; e.pmu != "" {
				e.kind, e.config, e.lacking = lookUp(sysPath, e.pmu, e.name, "")
			}
			if e := &groups[i].events[j]; e.pmu == "cpu" {
				e.pmu = "" // a PMU of the core, which can exclude
			}
		}
	}
	return groups
}

// limitFiles raises the limit of open files as far as it goes, and returns it.
func limitFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	if limit.Cur < limit.Max {
		raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err == nil {
			return raised.Cur
		}
	}
	return limit.Cur
}

// fit leaves out the last groups if the process may not open as many files as all groups of all CPUs need.
func (s *perfSet) fit(cpus int, files uint64) {
	need := uint64(spareFiles + cpus*s.always)
	for _, c := range s.memory {
		need += uint64(len(c.events))
	}
	kept := 0
	for _, g := range s.form.groups {
		if need += uint64(cpus * len(g.events)); need <= files {
			kept++
		}
	}
	if kept == len(s.form.groups) {
		return
	}
	err := fmt.Errorf("perf events of %d CPUs need %d open files, and %d are allowed: raise LimitNOFILE of the "+
		"agent's unit",
		cpus, need, files)
	s.log.Warn("perf events are left out", "err", err)
	for i, g := range s.form.groups[kept:] {
		for j, give := range g.gives {
			if s.form.places[kept+i][j] >= 0 {
				s.absent[give.metric] = err
			}
		}
	}
	s.form.groups, s.form.places = s.form.groups[:kept], s.form.places[:kept]
	if s.form.sum >= 0 && (s.absent["flops_dp"] != nil || s.absent["flops_sp"] != nil) {
		s.form.sum, s.absent["flops_any"] = -1, err
	}
}

// count opens the events. It returns an error if no CPU counts any.
func (s *perfSet) count(cpus []int) error {
	for _, c := range s.memory {
		g, err := s.kernel.openEvents(c.cpu, c.events)
		if err != nil && s.noFlow == nil {
			s.noFlow = fmt.Errorf("memory controller %s: %w", c.name, err)
		}
		c.group = g
	}
	if len(s.form.groups) == 0 {
		return nil
	}
	return s.groups.openAll(cpus)
}

// release closes all events.
func (s *perfSet) release() {
	if s.groups != nil {
		s.groups.close()
	}
	for _, c := range s.memory {
		s.kernel.closeGroup(&c.group)
		c.row = c.row[:0]
	}
}

// locked reports whether somebody asks for the counters: the lock exists, and was touched in the last day. A lock from
// the future is held until a day after.
func (s *perfSet) locked() bool {
	if s.cfg.PerfLock == "" {
		return false
	}
	var st unix.Stat_t
	if err := unix.Stat(s.cfg.PerfLock, &st); err != nil {
		return false
	}
	if time.Since(time.Unix(st.Mtim.Unix())) < lockAge {
		s.stale = false
		return true
	}
	if !s.stale {
		s.stale = true
		s.log.Warn("the lock of the perf hardware events is a day old, and is ignored", "file", s.cfg.PerfLock)
	}
	return false
}

// user is one of the sources that share the set, as a probe.
func (s *perfSet) user(user int, metrics []metric, absent map[string]error, read func(reading) reading,
	form func(from, to []uint64, elapsed time.Duration, out []float64),
) probe {
	s.users++
	if s.yielded {
		for _, m := range metrics {
			absent[m.name] = errYields
		}
	}
	events := eventsOf(s.form.groups)
	for _, c := range s.memory {
		events = append(events, c.events)
	}
	return probe{
		absent: absent,
		form:   form,
		events: events,
		follow: func(online []int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.yielded && s.refused == nil {
				s.groups.follow(online)
			}
		},
		read: func(into reading, v Vitals) (reading, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.taken[user] || s.boundary != v.BoundaryMs {
				s.read(v.BoundaryMs)
			}
			s.taken[user] = true
			if s.failed != nil && user == userCore {
				return nil, s.failed
			}
			if into == nil {
				into = reading{}
			}
			return read(into), nil
		},
		close: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.users--
			s.unused()
		},
	}
}

// read takes a reading of all events, or lets go of them while the lock is held. There is no reading meanwhile.
func (s *perfSet) read(boundary int64) {
	s.boundary, s.taken, s.failed = boundary, [3]bool{}, nil
	s.cores = s.cores[:0]
	held := s.locked()
	switch {
	case held && !s.yielded:
		s.release()
		s.log.Info("perf hardware events are closed: the lock is held", "file", s.cfg.PerfLock)
	case !held && s.yielded:
		cpus, err := onlineCPUs(s.cfg.ProcPath)
		if err == nil {
			err = s.count(cpus)
		}
		if err != nil {
			s.log.Warn("perf hardware events are refused after the lock was held", "err", err)
		} else {
			s.log.Info("perf hardware events are opened again: the lock is free", "file", s.cfg.PerfLock)
		}
	}
	if s.yielded = held; held {
		return
	}
	if len(s.form.groups) > 0 && s.refused == nil {
		s.cores, s.failed = s.groups.read(s.cores)
	}
	for _, c := range s.memory {
		c.row = c.row[:0]
		if len(c.group.fds) > 0 {
			row, err := s.kernel.readGroup(c.row, &c.group, s.buf)
			if c.row = row; err != nil {
				c.row = row[:0]
			}
		}
	}
}

// unused releases the events once no source uses them.
func (s *perfSet) unused() {
	if s.users == 0 {
		s.release()
	}
}

// openCore gives the metrics of the CPUs.
func (s *perfSet) openCore(cfg config.Agent, log *slog.Logger) (probe, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.unused()
	if !cfg.Perf {
		return probe{}, errPerfOff
	}
	if s.open(cfg, log); s.refused != nil {
		return probe{}, s.refused
	}
	copyCores := func(into reading) reading {
		for len(into) < len(s.cores) {
			into = append(into, nil)
		}
		for cpu := range into {
			into[cpu] = append(into[cpu][:0], s.cores.row(cpu)...)
		}
		return into
	}
	return s.user(userCore, coreMetrics(), maps.Clone(s.absent), copyCores, s.form.form), nil
}

// openMemory gives the metrics of the sockets.
func (s *perfSet) openMemory(cfg config.Agent, log *slog.Logger) (probe, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.unused()
	if !cfg.Perf {
		return probe{}, errPerfOff
	}
	s.open(cfg, log)
	if err := cmp.Or(s.noFlow, s.refused); len(s.memory) == 0 || s.noFlow != nil {
		return probe{}, err
	}
	absent := s.absentSums("operational_intensity", "bytes_per_cycle")
	for _, f := range []struct {
		metric string
		is     flow
	}{{"mem_read_bw", reads}, {"mem_write_bw", writes}} {
		if !slices.ContainsFunc(s.memory, func(c *controller) bool { return slices.Contains(c.flows, f.is) }) {
			absent[f.metric] = errNotApart
		}
	}
	read := func(into reading) reading {
		for i := range into {
			into[i] = into[i][:0]
		}
		for _, c := range s.memory {
			for len(into) <= c.socket {
				into = append(into, nil)
			}
			if len(into[c.socket]) == 0 {
				into[c.socket] = s.compose(into[c.socket], c.socket)
			}
		}
		return into
	}
	sums := s.sums()
	form := func(from, to []uint64, _ time.Duration, out []float64) {
		t := sums.of(from, to)
		out[0], out[1], out[2] = t.bytes(), t.flow[reads], t.flow[writes]
		if sums.apart[reads] {
			out[1] = missing
		}
		if sums.apart[writes] {
			out[2] = missing
		}
		out[3], out[4] = per(t.flops, t.bytes()), per(t.bytes(), t.cycles)
	}
	return s.user(userMemory, memoryMetrics(), absent, read, form), nil
}

// errNotApart is the reason of directions that the data fabric counts together.
var errNotApart = errors.New("this CPU's memory controllers do not distinguish reads from writes")

// absentSums are the reasons of metrics that need the events of the CPUs as well.
func (s *perfSet) absentSums(flops, cycles string) map[string]error {
	absent := make(map[string]error)
	if err := cmp.Or(s.refused, s.absent["flops_any"]); err != nil {
		absent[flops] = fmt.Errorf("flops_any is absent: %w", err)
	}
	if err := cmp.Or(s.refused, s.absent["cycles"]); err != nil && cycles != "" {
		absent[cycles] = fmt.Errorf("cycles are absent: %w", err)
	}
	return absent
}

// openNode gives the shares of the node's peaks.
func (s *perfSet) openNode(cfg config.Agent, log *slog.Logger) (probe, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.unused()
	if cfg.PeakFlops == 0 && cfg.PeakMemBW == 0 {
		return probe{}, fmt.Errorf("%w: set agent.peak_flops and agent.peak_mem_bw", errNoPeak)
	}
	if !cfg.Perf {
		return probe{}, errPerfOff
	}
	s.open(cfg, log)
	if s.refused != nil && (len(s.memory) == 0 || s.noFlow != nil) {
		return probe{}, s.refused
	}
	absent := s.absentSums("peak_share_flops", "")
	if cfg.PeakFlops == 0 {
		absent["peak_share_flops"] = fmt.Errorf("%w: set agent.peak_flops", errNoPeak)
	}
	if cfg.PeakMemBW == 0 {
		absent["peak_share_mem_bw"] = fmt.Errorf("%w: set agent.peak_mem_bw", errNoPeak)
	} else if s.noFlow != nil {
		absent["peak_share_mem_bw"] = s.noFlow
	}
	read := func(into reading) reading {
		if len(into) == 0 {
			into = make(reading, 1)
		}
		into[0] = s.compose(into[0][:0], -1)
		return into[:1]
	}
	sums := s.sums()
	form := func(from, to []uint64, _ time.Duration, out []float64) {
		t := sums.of(from, to)
		out[0] = per(t.flops, cfg.PeakFlops)
		if cfg.PeakFlops == 0 {
			out[0] = missing
		}
		out[1] = per(t.bytes(), cfg.PeakMemBW)
	}
	return s.user(userNode, nodeMetrics(), absent, read, form), nil
}

// compose appends to a row the readings of a socket's controllers and CPUs; of the whole node for socket -1. The row
// consists of the number of controllers, and for each its index and its row, then for each CPU its number and its row.
// The row stays empty if a controller was not read. It lists no CPUs if the socket of one is unknown.
func (s *perfSet) compose(row []uint64, socket int) []uint64 {
	if s.yielded {
		return row
	}
	row = append(row, 0)
	for i, c := range s.memory {
		if socket < 0 || c.socket == socket {
			if len(c.row) == 0 {
				return row[:0]
			}
			row[0]++
			row = append(append(row, uint64(i)), c.row...)
		}
	}
	cpus := len(row)
	for cpu, counted := range s.cores {
		if len(counted) == 0 {
			continue
		}
		if socket >= 0 {
			if of := s.socket(cpu); of < 0 {
				return row[:cpus]
			} else if of != socket {
				continue
			}
		}
		row = append(append(row, uint64(cpu)), counted...)
	}
	return row
}

// socket returns the package of an online CPU, -1 if unknown.
func (s *perfSet) socket(cpu int) int {
	for len(s.sockets) <= cpu {
		s.sockets = append(s.sockets, -1)
	}
	if s.sockets[cpu] < 0 {
		if n, err := socketOf(s.cfg.SysPath, cpu); err == nil {
			s.sockets[cpu] = n
		}
	}
	return s.sockets[cpu]
}

// perfSums forms totals from the rows that compose wrote. It contains a form of its own, since two sources may form at
// once.
type perfSums struct {
	memory        []*controller
	form          perfForm
	width         int // of a CPU's row
	flops, cycles int // their places among the metrics of a CPU
	apart         [both + 1]bool
	out           []float64
}

func (s *perfSet) sums() *perfSums {
	place := func(name string) int {
		return slices.IndexFunc(coreMetrics(), func(m metric) bool { return m.name == name })
	}
	t := &perfSums{
		memory: s.memory, form: *s.form, flops: place("flops_any"), cycles: place("cycles"),
		out: make([]float64, len(coreMetrics())),
	}
	for _, g := range t.form.groups {
		t.width += rowEvents + len(g.events)
	}
	for f := range t.apart {
		t.apart[f] = !slices.ContainsFunc(s.memory,
			func(c *controller) bool { return slices.Contains(c.flows, flow(f)) })
	}
	return t
}

// totals are rates of a socket or a node.
type totals struct {
	flow          [both + 1]float64 // bytes in each direction
	flops, cycles float64
}

func (t totals) bytes() float64 { return t.flow[reads] + t.flow[writes] + t.flow[both] }

// of forms the totals of two rows. All are missing if the rows cover different controllers and CPUs. A single total is
// missing if the value of one controller or CPU is, because a part is no total.
func (s *perfSums) of(from, to []uint64) (t totals) {
	unknown := totals{flow: [both + 1]float64{missing, missing, missing}, flops: missing, cycles: missing}
	n := from[0]
	if n != to[0] {
		return unknown
	}
	from, to = from[1:], to[1:]
	if n == 0 {
		t.flow = unknown.flow
	}
	for range n {
		if from[0] != to[0] || from[0] >= uint64(len(s.memory)) {
			return unknown
		}
		c := s.memory[from[0]]
		end := 1 + rowEvents + len(c.events)
		if len(from) < end || len(to) < end {
			return unknown
		}
		wanted, _ := grown(from[1+rowEnabled], to[1+rowEnabled])
		var bytes [both + 1]float64
		c.flowed(from[1:end], to[1:end], &bytes)
		for f := range bytes {
			t.flow[f] += bytes[f] * float64(time.Second) / wanted
		}
		from, to = from[end:], to[end:]
	}
	if len(from) == 0 || s.width == 0 {
		t.flops, t.cycles = missing, missing
	}
	for ; len(from) > s.width && len(to) > s.width; from, to = from[1+s.width:], to[1+s.width:] {
		if from[0] != to[0] {
			return unknown
		}
		for i := range s.out {
			s.out[i] = missing
		}
		s.form.form(from[1:1+s.width], to[1:1+s.width], 0, s.out)
		t.flops += s.out[s.flops]
		t.cycles += s.out[s.cycles]
	}
	return t
}
