package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// fakeKernel has perf events as Linux has them. A CPU that goes offline detaches its events for good, and their counts
// stand still. It refuses a group of more events than the CPU has counters.
type fakeKernel struct {
	mu        sync.Mutex // guards its calls, which sources make at the same time
	now       uint64     // ns
	online    map[int]bool
	refuse    map[int]bool
	refuseAll error
	starve    uint64 // the config of a leader whose group gets no counters
	counters  int    // of a CPU, without those of cycles and instructions; 0: enough
	lacks     map[uint64]error
	apart     bool // a group has events of one PMU
	// count is what an event has counted on a CPU since it was opened.
	count func(cpu int, attr unix.PerfEventAttr, since uint64) uint64
	fds   []*fakeEvent
}

type fakeEvent struct {
	kernel    *fakeKernel
	cpu       int
	attr      unix.PerfEventAttr
	opened    uint64
	group     []*fakeEvent // of a leader
	detached  bool
	frozen    []uint64
	starvedAt uint64 // how long it had counted when it lost its counters
	closed    bool
}

// fakeFixed is the kind of an event that has a counter of its own.
const fakeFixed = 98

// fakeMSR is the kind of the events of PMU msr, on the machines of testdata that have it.
const fakeMSR = 18

func newFakeKernel(cpus int) *fakeKernel {
	k := &fakeKernel{now: 1, online: map[int]bool{}, refuse: map[int]bool{}}
	for cpu := range cpus {
		k.online[cpu] = true
	}
	k.count = func(_ int, attr unix.PerfEventAttr, since uint64) uint64 {
		if attr.Type == unix.PERF_TYPE_HARDWARE && attr.Config == unix.PERF_COUNT_HW_INSTRUCTIONS {
			return 3 * since
		}
		return 2 * since
	}
	return k
}

func (k *fakeKernel) calls() perfKernel {
	return perfKernel{
		open: func(attr *unix.PerfEventAttr, cpu, leader int) (int, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.open(attr, cpu, leader)
		},
		start: func(leader int) error {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.start(leader)
		},
		read: func(fd int, into []byte) (int, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.read(fd, into)
		},
		close: func(fd int) error {
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.close(fd)
		},
	}
}

func (k *fakeKernel) open(attr *unix.PerfEventAttr, cpu, leader int) (int, error) {
	if !k.online[cpu] || k.refuse[cpu] {
		return 0, unix.ENODEV
	}
	if k.refuseAll != nil {
		return 0, k.refuseAll
	}
	if err := k.lacks[attr.Config]; err != nil && attr.Type == unix.PERF_TYPE_RAW {
		return 0, err
	}
	e := &fakeEvent{kernel: k, cpu: cpu, attr: *attr, opened: k.now}
	e.group = []*fakeEvent{e}
	if leader >= 0 {
		lead := k.fds[leader]
		raw := 0
		for _, of := range append(lead.group, e) {
			fixed := of.attr.Type == unix.PERF_TYPE_HARDWARE && of.attr.Config <= unix.PERF_COUNT_HW_INSTRUCTIONS
			if !fixed && of.attr.Type != fakeFixed {
				raw++
			}
		}
		if k.counters > 0 && raw > k.counters || k.apart && lead.attr.Type != attr.Type {
			return 0, unix.EINVAL
		}
		lead.group = append(lead.group, e)
	} else {
		k.now++
	}
	k.fds = append(k.fds, e)
	return len(k.fds) - 1, nil
}

// start begins to count a group. An event that was open before its leader waited would stay at 0.
func (k *fakeKernel) start(leader int) error {
	if k.fds[leader].attr.Bits&unix.PerfBitDisabled == 0 {
		return errors.New("the leader counts already")
	}
	k.fds[leader].attr.Bits &^= unix.PerfBitDisabled
	return nil
}

func (k *fakeKernel) close(fd int) error {
	if k.fds[fd].closed {
		return unix.EBADF
	}
	k.fds[fd].closed = true
	return nil
}

func (k *fakeKernel) read(fd int, into []byte) (int, error) {
	e := k.fds[fd]
	if e.closed {
		return 0, unix.EBADF
	}
	words := e.frozen
	if !e.detached {
		words = e.words()
	}
	if len(into) < 8*len(words) {
		return 0, unix.ENOSPC
	}
	for i, w := range words {
		binary.NativeEndian.PutUint64(into[8*i:], w)
	}
	return 8 * len(words), nil
}

func (e *fakeEvent) words() []uint64 {
	since := e.kernel.now - e.opened
	if e.attr.Bits&unix.PerfBitDisabled != 0 {
		since = 0
	}
	running := since
	if e.attr.Config == e.kernel.starve && e.kernel.starve != 0 {
		running = e.starvedAt
	} else {
		e.starvedAt = since
	}
	words := []uint64{uint64(len(e.group)), since, running}
	for _, of := range e.group {
		words = append(words, e.kernel.count(e.cpu, of.attr, running))
	}
	return words
}

func (k *fakeKernel) set(cpu int, online bool) {
	for _, e := range k.fds {
		if e.cpu == cpu && !online && !e.detached {
			e.frozen = e.words()
			e.detached = true
		}
	}
	k.online[cpu] = online
}

// openGroups counts the leaders that are open.
func (k *fakeKernel) openGroups() (count int) {
	for fd := range k.fds {
		if !k.fds[fd].closed && !k.isMember(fd) {
			count++
		}
	}
	return count
}

func (k *fakeKernel) isMember(fd int) bool {
	return slices.ContainsFunc(k.fds, func(e *fakeEvent) bool {
		return e != k.fds[fd] && slices.Contains(e.group, k.fds[fd])
	})
}

func (k *fakeKernel) openFiles() (count int) {
	for _, e := range k.fds {
		if !e.closed {
			count++
		}
	}
	return count
}

// openCounters counts the open events that need a counter of the CPU. msr is the kind of its PMU on all machines.
func (k *fakeKernel) openCounters() (count int) {
	for _, e := range k.fds {
		if !e.closed && e.needsCounter() {
			count++
		}
	}
	return count
}

func (e *fakeEvent) needsCounter() bool {
	return e.attr.Type != unix.PERF_TYPE_SOFTWARE && e.attr.Type != fakeMSR
}

// smtMachine is a host of four CPUs with the sources stat and perf_hardware.
type smtMachine struct {
	t      *testing.T
	kernel *fakeKernel
	stat   string
	host   *Host
	logged bytes.Buffer
}

func newSMTMachine(t *testing.T) *smtMachine {
	t.Helper()
	dir := t.TempDir()
	m := &smtMachine{t: t, stat: filepath.Join(dir, "stat"), kernel: newFakeKernel(4)}
	log := slog.New(slog.NewTextHandler(&m.logged, nil))
	m.write()
	states, err := openStat(config.Agent{ProcPath: dir}, log)
	if err != nil {
		t.Fatal(err)
	}
	metrics := []metric{{"ipc", "1", ratio, ""}}
	form, _ := newPerfForm(m.kernel.calls(), metrics, []eventGroup{coreGroup}, 0, 0)
	groups := newPerfGroups(log, m.kernel.calls(), form.groups)
	if opened, refused := groups.openMissing([]int{0, 1, 2, 3}); len(opened) != 4 || refused != nil {
		t.Fatal(opened, refused)
	}
	read := func(into reading, _ Vitals) (reading, error) { return groups.read(into) }
	perfs := probe{form: form.form, follow: groups.follow, read: read, close: groups.close}
	m.host = &Host{log: log, probes: []*openProbe{
		{probe: states, source: stat()},
		{probe: perfs, source: source{scope: schemas.ScopeCore, metrics: metrics}},
	}}
	t.Cleanup(func() {
		m.host.Close()
		if open := m.kernel.openFiles(); open != 0 {
			t.Errorf("%d events are still open at the end", open)
		}
	})
	m.host.Read(Vitals{})
	return m
}

func (m *smtMachine) write() {
	var text strings.Builder
	text.WriteString("cpu  0 0 0 0\n")
	for cpu := range 4 {
		if m.kernel.online[cpu] {
			fmt.Fprintf(&text, "cpu%d %d 0 0 %d\n", cpu, m.kernel.now/1e7, m.kernel.now/1e7)
		}
	}
	write(m.t, m.stat, text.String()+"intr 1\n")
}

// interval lets ten seconds pass and returns the CPUs of the sample, and ipc of each.
func (m *smtMachine) interval() ([]int32, []float64) {
	m.kernel.now += 10e9
	m.write()
	m.host.Read(Vitals{})
	cpus, columns := m.host.Interval(10 * time.Second)
	return cpus, valuesOf(columns, "ipc")
}

func (m *smtMachine) expect(when string, cpus []int32, ipc []float64) {
	m.t.Helper()
	gotCPUs, gotIPC := m.interval()
	if diff := cmp.Diff(cpus, gotCPUs); diff != "" {
		m.t.Errorf("%s: cpus (-want +got):\n%s", when, diff)
	}
	if diff := cmp.Diff(ipc, gotIPC, cmpopts.EquateNaNs()); diff != "" {
		m.t.Errorf("%s: ipc (-want +got):\n%s", when, diff)
	}
}

// TestCPUsThatGoAndComeBack: a prolog switches SMT off for a job, and an epilog on again.
func TestCPUsThatGoAndComeBack(t *testing.T) {
	nan := math.NaN()
	all, half := []int32{0, 1, 2, 3}, []int32{0, 1}
	m := newSMTMachine(t)
	m.expect("at first", all, []float64{1.5, 1.5, 1.5, 1.5})

	m.kernel.set(2, false)
	m.kernel.set(3, false)
	m.expect("as they go", all, []float64{1.5, 1.5, nan, nan})
	for range 3 {
		m.expect("while they are away", half, []float64{1.5, 1.5})
	}
	if open := m.kernel.openGroups(); open != 2 {
		t.Errorf("%d groups are open for 2 CPUs", open)
	}

	m.kernel.set(2, true)
	m.kernel.set(3, true)
	m.expect("as they come", all, []float64{1.5, 1.5, nan, nan})
	for range 3 {
		m.expect("when they are back", all, []float64{1.5, 1.5, 1.5, 1.5})
	}
	for _, line := range []string{
		`msg="perf events are closed: CPUs went offline" cpus="[2 3]"`,
		`msg="perf events are opened again: CPUs came back" cpus="[2 3]"`,
	} {
		if strings.Count(m.logged.String(), line) != 1 {
			t.Errorf("not logged once: %s\n%s", line, m.logged.String())
		}
	}
}

// TestCPUThatIsAwayBetweenReadings: /proc/stat has it in both readings, and its events are dead all the same.
func TestCPUThatIsAwayBetweenReadings(t *testing.T) {
	m := newSMTMachine(t)
	m.expect("at first", []int32{0, 1, 2, 3}, []float64{1.5, 1.5, 1.5, 1.5})
	m.kernel.set(3, false)
	m.kernel.set(3, true)
	var ipc []float64
	for range 4 {
		_, ipc = m.interval()
	}
	if !slices.Equal(ipc, []float64{1.5, 1.5, 1.5, 1.5}) {
		t.Errorf("ipc %v after it was away", ipc)
	}
}

// TestRefusedEventsAreTriedAgain: a CPU that comes back has no events where the kernel refuses them, and gets them
// later. The log names the refusal once.
func TestRefusedEventsAreTriedAgain(t *testing.T) {
	m := newSMTMachine(t)
	m.kernel.set(3, false)
	m.interval()
	m.kernel.set(3, true)
	m.kernel.refuse[3] = true
	for range 3 {
		m.interval()
	}
	m.expect("while refused", []int32{0, 1, 2, 3}, []float64{1.5, 1.5, 1.5, math.NaN()})
	if n := strings.Count(m.logged.String(), "perf events are absent"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, m.logged.String())
	}
	m.kernel.refuse[3] = false
	m.interval()
	m.expect("when allowed", []int32{0, 1, 2, 3}, []float64{1.5, 1.5, 1.5, 1.5})
}
