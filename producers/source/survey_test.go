package source

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Each metric without a value has its reason, and a metric with one has none.
func TestAbsentSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mount := make(chan struct{})
		denied := fmt.Errorf("opening: %w", fs.ErrPermission)
		half := source{name: "half", scope: schemas.ScopeNode, metrics: []metric{
			{"there", "1", gauge, ""}, {"lacking", "1", gauge, ""}, {"missing", "1", gauge, ""},
		}}
		half.open = func(config.Agent, *slog.Logger) (probe, error) {
			return probe{
				absent: map[string]error{"lacking": unix.EOPNOTSUPP},
				read:   func(into reading, _ Vitals) (reading, error) { return only(into, 1), nil },
				form:   func(_, _ []uint64, _ time.Duration, out []float64) { out[0] = 1 },
			}, nil
		}
		off := source{name: "off", scope: schemas.ScopeNode, metrics: []metric{{"off", "1", gauge, ""}}}
		off.open = func(config.Agent, *slog.Logger) (probe, error) { return probe{}, nil }
		m := newMachine(t, half, off,
			(&fake{name: "closed", open: func() error { return denied }}).source(),
			(&fake{name: "hung", read: func() error { <-mount; return nil }}).source(),
		)
		defer m.Close()
		defer close(mount)
		m.boundary()
		m.boundary()
		_, columns := m.Interval(T)
		reasons := m.Absent(columns)
		for name, want := range map[string]error{
			"there": nil, "lacking": unix.EOPNOTSUPP, "missing": errNoValue, "off": errNothing,
			"closed_rate": fs.ErrPermission, "hung_rate": errLate,
		} {
			if !errors.Is(reasons[name], want) {
				t.Errorf("%s: %v, want %v", name, reasons[name], want)
			}
		}
		if len(reasons) != 5 {
			t.Errorf("reasons %v", reasons)
		}
		for name, want := range map[string]string{
			"closed_rate": "CAP_PERFMON", "hung_rate": "hangs", "lacking": "driver", "missing": "",
		} {
			if remedy := Remedy(reasons[name]); !strings.Contains(remedy, want) || (want == "") != (remedy == "") {
				t.Errorf("%s: %q does not name %q", name, remedy, want)
			}
		}
		// The text of an event that the CPU lacks says all, and no driver brings a file of /proc.
		for reason, want := range map[error]string{
			remedy(unix.ENOENT): "", remedy(unix.EACCES): "",
			&fs.PathError{Op: "open", Path: "/proc/schedstat", Err: unix.ENOENT}:  "this kernel",
			&fs.PathError{Op: "open", Path: "/sys/class/hwmon", Err: unix.ENOENT}: "driver",
		} {
			if remedy := Remedy(reason); !strings.Contains(remedy, want) || (want == "") != (remedy == "") {
				t.Errorf("%v: %q does not name %q", reason, remedy, want)
			}
		}
	})
}

// A source that works for a millisecond costs about that, and one that sleeps costs time and no CPU.
func TestCostsOfSources(t *testing.T) {
	work := &fake{name: "work", read: func() error {
		for begin := threadTime(); threadTime()-begin < time.Millisecond; {
			_ = math.Sqrt(2)
		}
		return nil
	}}
	sleep := &fake{name: "sleep", read: func() error { time.Sleep(5 * time.Millisecond); return nil }}
	lacking := &fake{name: "lacking", open: func() error { return unix.ENODEV }}
	h := openSources(config.Agent{}, slog.New(slog.DiscardHandler),
		[]source{work.source(), sleep.source(), lacking.source()})
	defer h.Close()
	costs, cycles, err := h.Costs(t.Context(), 3, time.Millisecond)
	if err != nil || len(cycles) != 3 || len(costs) != 3 {
		t.Fatal(costs, cycles, err)
	}
	if c := costs[0]; len(c.CPU) == 0 || c.CPU[0] < time.Millisecond || c.Wall[0] < time.Millisecond || c.Metrics != 1 {
		t.Errorf("%+v", c)
	}
	// What interrupts a thread may count as its own. It does not interrupt every reading.
	if c := costs[1]; len(c.CPU) == 0 || slices.Min(c.CPU) >= time.Millisecond || c.Wall[0] < 5*time.Millisecond {
		t.Errorf("%+v", c)
	}
	if c := costs[2]; len(c.CPU) != 0 || len(c.Absent) != 1 || !errors.Is(c.Absent[0].Reason, unix.ENODEV) {
		t.Errorf("%+v", c)
	}
	for _, c := range cycles {
		if c < time.Millisecond {
			t.Errorf("a cycle has %s of CPU time", c)
		}
	}
}
