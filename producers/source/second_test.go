package source

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	perf "github.com/hodgesds/perf-utils"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// TestSecondReadingsHere: on this kernel perf-utils counts each event that the agent opens, and agrees.
func TestSecondReadingsHere(t *testing.T) {
	cfg := config.Agent{ProcPath: "/proc", SysPath: "/sys", Perf: true}
	all, err := SecondReadings(t.Context(), cfg, 100*time.Millisecond)
	if err != nil {
		t.Skip("NOTHING IS COMPARED: the kernel refuses perf events here: ", err)
	}
	compared := 0
	for _, s := range all {
		t.Log(s)
		if !s.Agrees() {
			t.Error(s)
		}
		if s.Reason == nil {
			compared++
		}
	}
	if compared < 5 {
		t.Errorf("%d events were compared", compared)
	}
}

// otherProfiler is perf-utils on a fake kernel. Its counts are those of the kernel, times the factor.
type otherProfiler struct {
	kernel        *fakeKernel
	cpu           int
	attrs         []unix.PerfEventAttr
	began, ended  uint64
	factor, share float64 // how much of the time it counted
}

func (p *otherProfiler) Start() error       { p.began = p.kernel.now; return nil }
func (p *otherProfiler) Stop() error        { p.ended = p.kernel.now; return nil }
func (p *otherProfiler) Reset() error       { return nil }
func (p *otherProfiler) Close() error       { return nil }
func (p *otherProfiler) HasProfilers() bool { return true }

func (p *otherProfiler) Profile(v *perf.GroupProfileValue) error {
	since := p.ended - p.began
	v.TimeEnabled, v.TimeRunning = since, uint64(float64(since)*p.share)
	for _, attr := range p.attrs {
		n := float64(p.kernel.count(p.cpu, attr, since)) * p.factor * p.share
		v.Values = append(v.Values, uint64(n))
	}
	return nil
}

// TestSecondReadings: all groups of a machine are counted twice. A difference is reported, and so is the reason where
// there is nothing to compare. No event stays open.
func TestSecondReadings(t *testing.T) {
	for name, c := range map[string]struct {
		factor, share      float64
		refused            error
		locked             bool
		compared, disagree int
	}{
		"they agree":                 {1, 1, nil, false, 33, 0},
		"they disagree":              {1.01, 1, nil, false, 33, 33},
		"in turns they agree":        {1.5, .5, nil, false, 33, 0},
		"in turns they disagree":     {3, .5, nil, false, 33, 33},
		"it had no turn":             {1, 0, nil, false, 0, 0},
		"it is refused":              {1, 1, unix.EBUSY, false, 0, 0},
		"the lock is held":           {1, 1, nil, true, 5, 0},
		"the lock is held, disagree": {.5, 1, nil, true, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			m := newCountedMachine(t, "sapphire-rapids", func(int, unix.PerfEventAttr) uint64 { return 1e9 }, nil)
			if c.locked {
				write(t, m.cfg.PerfLock, "")
			}
			k := m.kernel.calls()
			read, number := k.read, 0
			k.read = func(fd int, into []byte) (int, error) {
				m.kernel.now += 1e3
				defer func() {
					if number++; number%4 == 2 { // the wait follows the second of four readings
						m.kernel.now += 1e9
					}
				}()
				return read(fd, into)
			}
			before := m.kernel.openFiles()
			open := func(cpu int, attrs []unix.PerfEventAttr) (perf.GroupProfiler, error) {
				if c.refused != nil {
					return nil, c.refused
				}
				return &otherProfiler{kernel: m.kernel, cpu: cpu, attrs: attrs, factor: c.factor, share: c.share}, nil
			}
			all, err := secondReadings(t.Context(), k, open, m.cfg, 0)
			if err != nil {
				t.Fatal(err)
			}
			compared, disagree := 0, 0
			for _, s := range all {
				if s.Reason == nil {
					compared++
				}
				if !s.Agrees() {
					disagree++
					if !strings.Contains(s.String(), "they disagree") {
						t.Error(s)
					}
				}
			}
			if compared != c.compared || disagree != c.disagree {
				t.Errorf("%d events were compared, want %d; %d disagree, want %d", compared, c.compared, disagree,
					c.disagree)
			}
			if c.refused != nil && !errors.Is(all[3].Reason, c.refused) {
				t.Errorf("it was refused by %v", all[3].Reason)
			}
			if open := m.kernel.openFiles(); open != before {
				t.Errorf("%d events stay open", open-before)
			}
		})
	}
}

// TestSecondReadingsEnd: without perf events there is an error, and so there is at Ctrl-C.
func TestSecondReadingsEnd(t *testing.T) {
	if _, err := SecondReadings(t.Context(), config.Agent{ProcPath: "/proc"}, 0); !errors.Is(err, errPerfOff) {
		t.Error(err)
	}
	m := newCountedMachine(t, "zen4", func(int, unix.PerfEventAttr) uint64 { return 1e9 }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	open := func(cpu int, attrs []unix.PerfEventAttr) (perf.GroupProfiler, error) {
		return &otherProfiler{kernel: m.kernel, cpu: cpu, attrs: attrs, factor: 1, share: 1}, nil
	}
	if _, err := secondReadings(ctx, m.kernel.calls(), open, m.cfg, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
