package source

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	perf "github.com/hodgesds/perf-utils"

	"github.com/weirhpc/weir/config"
)

// fakeKernel has perf events as Linux has them. A CPU that goes offline detaches its events for good, and their counts
// stand still.
type fakeKernel struct {
	now    uint64 // ns
	online map[int]bool
	refuse map[int]bool
	groups []*fakeGroup
}

type fakeGroup struct {
	perf.GroupProfiler
	kernel   *fakeKernel
	cpu      int
	opened   uint64
	detached bool
	frozen   perf.GroupProfileValue
	closed   bool
}

func (k *fakeKernel) open(cpu int) (perf.GroupProfiler, error) {
	if !k.online[cpu] || k.refuse[cpu] {
		return nil, fmt.Errorf("opening perf events on CPU %d: no such device", cpu)
	}
	g := &fakeGroup{kernel: k, cpu: cpu, opened: k.now}
	k.groups = append(k.groups, g)
	k.now++
	return g, nil
}

func (k *fakeKernel) set(cpu int, online bool) {
	for _, g := range k.groups {
		if g.cpu == cpu && !online && !g.detached {
			_ = g.Profile(&g.frozen)
			g.detached = true
		}
	}
	k.online[cpu] = online
}

func (k *fakeKernel) openGroups() (count int) {
	for _, g := range k.groups {
		if !g.closed {
			count++
		}
	}
	return count
}

func (g *fakeGroup) Profile(v *perf.GroupProfileValue) error {
	if g.closed {
		return errors.New("bad file descriptor")
	}
	if g.detached {
		*v = g.frozen
		return nil
	}
	t := g.kernel.now - g.opened
	*v = perf.GroupProfileValue{Events: 2, TimeEnabled: t, TimeRunning: t, Values: []uint64{2 * t, 3 * t}}
	return nil
}

func (g *fakeGroup) Close() error {
	g.closed = true
	return nil
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
	m := &smtMachine{
		t: t, stat: filepath.Join(dir, "stat"),
		kernel: &fakeKernel{now: 1, online: map[int]bool{0: true, 1: true, 2: true, 3: true}, refuse: map[int]bool{}},
	}
	log := slog.New(slog.NewTextHandler(&m.logged, nil))
	m.write()
	states, err := openStat(config.Agent{ProcPath: dir}, log)
	if err != nil {
		t.Fatal(err)
	}
	groups := newPerfGroups(log, m.kernel.open)
	if opened, refused := groups.openMissing([]int{0, 1, 2, 3}); len(opened) != 4 || refused != nil {
		t.Fatal(opened, refused)
	}
	perfs := probe{
		form: formIPC, follow: groups.follow, read: groups.read, close: groups.close,
	}
	m.host = &Host{log: log, probes: []*openProbe{{probe: states, source: stat()}, {probe: perfs, source: perfHardware()}}}
	t.Cleanup(func() {
		m.host.Close()
		if open := m.kernel.openGroups(); open != 0 {
			t.Errorf("%d groups are still open at the end", open)
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
