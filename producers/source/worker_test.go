package source

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// T is the interval of these tests. The patience of its host is 500 ms.
const T = 10 * time.Second

// fake is a source of one count a second. Its calls do what the test wants.
type fake struct {
	name               string
	open, read, close_ func() error
	reads, opens       int
	last               reading // storage of the last read
}

func call(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (f *fake) source() source {
	s := source{
		name: f.name, scope: schemas.ScopeNode,
		metrics: []metric{{f.name + "_rate", "1/s", Rate, "count / time"}},
	}
	s.open = func(config.Agent, *slog.Logger) (probe, error) {
		f.opens++
		if err := call(f.open); err != nil {
			return probe{}, err
		}
		read := func(into reading, _ Vitals) (reading, error) {
			f.reads++
			f.last = into
			count := time.Now().Unix()
			if err := call(f.read); err != nil {
				return nil, err
			}
			return only(into, uint64(count)), nil
		}
		form := func(from, to []uint64, elapsed time.Duration, out []float64) {
			if d, ok := grown(from[0], to[0]); ok {
				out[0] = d / elapsed.Seconds()
			}
		}
		return probe{read: read, form: form, close: func() { _ = call(f.close_) }}, nil
	}
	return s
}

// machine is a host of fake sources, with boundaries of its own.
type machine struct {
	*Host
	t      *testing.T
	logged *kafkatest.Log
	last   time.Time
}

func newMachine(t *testing.T, all ...source) *machine {
	t.Helper()
	logged := &kafkatest.Log{}
	m := &machine{t: t, logged: logged}
	m.Host = openSources(config.Agent{}, logged.Logger(), all)
	return m
}

// boundary waits for the next boundary and reads. It returns how long that took, and the columns by name.
func (m *machine) boundary() (took time.Duration, got map[string]float64) {
	m.t.Helper()
	time.Sleep(time.Until(time.Now().Truncate(T).Add(T)))
	now := time.Now()
	m.Read(Vitals{BoundaryMs: now.UnixMilli(), Interval: T})
	took = time.Since(now)
	synctest.Wait() // the test may look at its sources, and change them
	_, columns := m.Interval(now.Sub(m.last))
	m.last = now
	got = map[string]float64{}
	for _, c := range columns {
		got[c.Name] = c.Values[0]
	}
	return took, got
}

func (m *machine) expect(when string, want map[string]float64) {
	m.t.Helper()
	_, got := m.boundary()
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// A mount hangs: its values are missing, those of its neighbours are not. The boundary waits once, for 500 ms. The
// source is not read again before its call has returned, and its storage is its own until then.
func TestAReadingThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mount := make(chan struct{})
		hangs := false
		bad := &fake{name: "bad", read: func() error {
			if hangs {
				<-mount
			}
			return nil
		}}
		m := newMachine(t, (&fake{name: "a"}).source(), bad.source(), (&fake{name: "z"}).source())
		defer m.Close()
		m.boundary()
		m.expect("before", map[string]float64{"a_rate": 1, "bad_rate": 1, "z_rate": 1, lateMetric: 0})
		hangs = true
		if took, _ := m.boundary(); took != T/20 {
			t.Errorf("the boundary took %s, want %s", took, T/20)
		}
		reads, goroutines := bad.reads, runtime.NumGoroutine()
		for range 100 {
			took, got := m.boundary()
			want := map[string]float64{"a_rate": 1, "z_rate": 1, lateMetric: 1}
			if diff := cmp.Diff(want, got); diff != "" || took != 0 {
				t.Fatalf("while it hangs: %s, (-want +got)\n%s", took, diff)
			}
		}
		if bad.reads != reads || runtime.NumGoroutine() > goroutines {
			t.Errorf("%d readings were begun beside the one that hangs, %d goroutines", bad.reads-reads,
				runtime.NumGoroutine()-goroutines)
		}
		if p := m.probes[1]; len(bad.last) > 0 && slices.ContainsFunc([]reading{p.from.rows, p.to.rows, p.spare},
			func(r reading) bool { return len(r) > 0 && &r[0] == &bad.last[0] }) {
			t.Error("the host has the storage of the reading that hangs")
		}
		if n := m.logged.Count(`msg="source is late: its values are missing" source=bad`); n != 2 {
			t.Errorf("1000 s of one trouble were logged %d times, want 2:\n%s", n, m.logged)
		}
		hangs = false
		close(mount)
		m.boundary()
		m.boundary()
		m.expect("after it returned", map[string]float64{"a_rate": 1, "bad_rate": 1, "z_rate": 1, lateMetric: 0})
		if n := m.logged.Count(`msg="source is back" source=bad late_ms=1000000`); n != 1 {
			t.Errorf("its return was logged %d times:\n%s", n, m.logged)
		}
	})
}

// One late reading costs the two intervals that it bounds, and nothing after them.
func TestAReadingThatIsLateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := time.Duration(0)
		bad := &fake{name: "bad", read: func() error { time.Sleep(slow); return nil }}
		m := newMachine(t, bad.source())
		defer m.Close()
		m.boundary()
		m.expect("in time", map[string]float64{"bad_rate": 1, lateMetric: 0})
		slow = time.Second
		m.expect("late", map[string]float64{lateMetric: 1})
		slow = 0
		m.expect("one reading", map[string]float64{lateMetric: 1})
		m.expect("two readings", map[string]float64{"bad_rate": 1, lateMetric: 0})
	})
}

// A source that is late again and again is asked less often, in the end every five minutes.
func TestASourceThatIsAlwaysLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &fake{name: "bad", read: func() error { time.Sleep(time.Second); return nil }}
		m := newMachine(t, bad.source())
		defer m.Close()
		for range 360 { // an hour
			if _, got := m.boundary(); got[lateMetric] != 1 {
				t.Fatalf("got %v", got)
			}
		}
		time.Sleep(T) // the last reading returns
		// 3 at once, then pauses of 10, 20, 40, 80, 160 s and eleven of 300 s
		if bad.reads < 15 || bad.reads > 21 {
			t.Errorf("%d readings in an hour", bad.reads)
		}
		if n := m.logged.Count("source is late"); n > 7 {
			t.Errorf("an hour of one trouble has %d lines", n)
		}
	})
}

// A driver that hangs while it is opened delays the start by a second. Its source joins when it is open.
func TestAnOpeningThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := make(chan struct{})
		bad := &fake{name: "bad", open: func() error { <-driver; return nil }}
		begin := time.Now()
		m := newMachine(t, bad.source(), (&fake{name: "z"}).source())
		defer m.Close()
		if took := time.Since(begin); took != openTime {
			t.Errorf("the start took %s, want %s", took, openTime)
		}
		m.boundary()
		m.expect("while it hangs", map[string]float64{"z_rate": 1, lateMetric: 1})
		close(driver)
		m.boundary()
		m.boundary()
		m.expect("when it is open", map[string]float64{"bad_rate": 1, "z_rate": 1, lateMetric: 0})
	})
}

// The end waits for no source that hangs, in a reading or in its close.
func TestAnEndWithSourcesThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := make(chan struct{})
		hang := func() error { <-driver; return nil }
		closed := false
		good := &fake{name: "good", close_: func() error { closed = true; return nil }}
		m := newMachine(t, (&fake{name: "a", read: hang}).source(), (&fake{name: "b", close_: hang}).source(),
			good.source())
		m.boundary()
		begin := time.Now()
		m.Close()
		if took := time.Since(begin); took != closeTime {
			t.Errorf("the end took %s, want %s", took, closeTime)
		}
		if !closed {
			t.Error("the source that does not hang is not closed")
		}
		close(driver) // a bubble ends with its goroutines
	})
}

// Errors in a row: the source is opened anew, and tried less often. Its neighbour has all of its values.
func TestErrorsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no such device")
		fails, closes := false, 0
		bad := &fake{name: "bad"}
		bad.read = func() error {
			if fails {
				return fmt.Errorf("%w: try %d", broken, bad.reads)
			}
			return nil
		}
		bad.close_ = func() error { closes++; return nil }
		m := newMachine(t, bad.source(), (&fake{name: "z"}).source())
		defer m.Close()
		m.boundary()
		m.expect("before", map[string]float64{"bad_rate": 1, "z_rate": 1, lateMetric: 0})
		fails = true
		for range 360 {
			_, got := m.boundary()
			if diff := cmp.Diff(map[string]float64{"z_rate": 1, lateMetric: 0}, got); diff != "" {
				t.Fatalf("(-want +got)\n%s", diff)
			}
		}
		if bad.opens != closes+1 || bad.opens < 5 || bad.opens > 21 || bad.reads > 25 {
			t.Errorf("it was opened %d times, closed %d times and read %d times in an hour", bad.opens, closes,
				bad.reads)
		}
		if n := m.logged.Count("source is absent"); n < 1 || n > 7 {
			t.Errorf("an hour of one trouble has %d lines:\n%s", n, m.logged)
		}
		fails = false // the device comes back: it is found within five minutes
		for range 33 {
			m.boundary()
		}
		m.expect("after", map[string]float64{"bad_rate": 1, "z_rate": 1, lateMetric: 0})
		if n := m.logged.Count(`msg="source is back" source=bad`); n != 1 {
			t.Errorf("its return was logged %d times", n)
		}
	})
}

// Hardware that a host lacks is one line of the log, no warning. A driver that is loaded later is found.
func TestHardwareThatIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := errors.New("/sys/class/infiniband: no such directory")
		card := &fake{name: "infiniband", open: func() error { return missing }}
		other := &fake{name: "lustre", open: func() error { return missing }}
		m := newMachine(t, card.source(), other.source())
		defer m.Close()
		for range 100 {
			m.boundary()
		}
		if card.opens != 4 || other.opens != 4 { // at the start, and every five minutes
			t.Errorf("they were opened %d and %d times in 1000 s", card.opens, other.opens)
		}
		if m.logged.Count("level=INFO") != 1 || m.logged.Count(`sources="[infiniband lustre]"`) != 1 ||
			m.logged.Count("level=WARN") != 0 {
			t.Errorf("the log has\n%s", m.logged)
		}
		missing = nil
		for range 33 { // one is opened at a boundary, so the second comes one boundary after the first
			m.boundary()
		}
		m.expect("with its driver", map[string]float64{"infiniband_rate": 1, "lustre_rate": 1, lateMetric: 0})
		if n := m.logged.Count(`msg="source is there now" source=infiniband`); n != 1 {
			t.Errorf("logged %d times:\n%s", n, m.logged)
		}
	})
}

// With a long interval there are more sources that a host lacks than boundaries in five minutes. Each has its turn.
func TestEachAbsentSourceHasItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := errors.New("/sys/class/infiniband: no such directory")
		var cards []*fake
		var all []source
		for i := range 50 {
			cards = append(cards, &fake{name: fmt.Sprintf("card%d", i), open: func() error { return missing }})
			all = append(all, cards[i].source())
		}
		m := newMachine(t, all...)
		defer m.Close()
		for range 3 * 50 {
			m.boundary()
		}
		for _, c := range cards {
			if c.opens < 3 || c.opens > 4 { // at the start, and in each round of 50 boundaries
				t.Errorf("%s was opened %d times in 150 intervals", c.name, c.opens)
			}
		}
	})
}

// A mistake in the parser of one source is that source's error.
func TestASourceThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := &fake{name: "bad", read: func() error { var none []int; _ = none[3]; return nil }}
		m := newMachine(t, bad.source(), (&fake{name: "z"}).source())
		defer m.Close()
		m.boundary()
		m.expect("beside it", map[string]float64{"z_rate": 1, lateMetric: 0})
		if m.logged.Count("please report") != 1 || m.logged.Count("index out of range") != 1 {
			t.Errorf("the log has\n%s", m.logged)
		}
	})
}

// Each source has the time between its own readings: 9.7 s between a reading that came 300 ms late and the next one. A
// reading more than 100 ms from its boundary, T/100, has its distance told.
func TestEachSourceHasItsOwnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := 300 * time.Millisecond
		tells := &fake{name: "states", read: func() error { time.Sleep(wait); return nil }}
		first := tells.source()
		openIt := first.open
		first.open = func(c config.Agent, l *slog.Logger) (probe, error) {
			p, err := openIt(c, l)
			p.tells = true
			return p, err
		}
		follower := source{name: "events", scope: schemas.ScopeNode, metrics: []metric{{"seen", "s", gauge, "elapsed"}}}
		follower.open = func(config.Agent, *slog.Logger) (probe, error) {
			return probe{
				follow: func([]int) {},
				read:   func(into reading, _ Vitals) (reading, error) { return only(into, 1), nil },
				form: func(_, _ []uint64, elapsed time.Duration, out []float64) {
					out[0] = elapsed.Seconds()
				},
			}, nil
		}
		m := newMachine(t, first, follower)
		defer m.Close()
		m.boundary() // the follower waits for the states until T/40 = 250 ms after the boundary
		wait = 150 * time.Millisecond
		_, got := m.boundary()
		want := map[string]float64{
			"seen":        9.9, // from 0.25 s after a boundary to 0.15 s after the next: 10 - 0.25 + 0.15
			"states_rate": 1, lateMetric: 0,
			SkewMetric + "states": 300_000, // the larger of its two readings
			SkewMetric + "events": 250_000,
		}
		for name, v := range want {
			if math.Abs(got[name]-v) > 1e-9 || len(got) != len(want) {
				t.Errorf("%s = %v, want %v; all: %v", name, got[name], v, got)
			}
		}
		wait = 0
		m.boundary()
		m.expect("in time", map[string]float64{"seen": 10, "states_rate": 1, lateMetric: 0})
	})
}

// While the source that tells the CPUs hangs, those that follow it have their values.
func TestTheCPUsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mount := make(chan struct{})
		defer close(mount)
		hangs := false
		tells := source{name: "states", scope: schemas.ScopeCore, metrics: []metric{{"busy", "1", gauge, ""}}}
		tells.open = func(config.Agent, *slog.Logger) (probe, error) {
			return probe{tells: true, form: formGauges, read: func(reading, Vitals) (reading, error) {
				if hangs {
					<-mount
				}
				return reading{{1}, {1}}, nil
			}}, nil
		}
		var online []int
		events := source{name: "events", scope: schemas.ScopeCore, metrics: []metric{{"seen", "1", gauge, ""}}}
		events.open = func(config.Agent, *slog.Logger) (probe, error) {
			return probe{
				form: formGauges, follow: func(cpus []int) { online = cpus },
				read: func(reading, Vitals) (reading, error) { return reading{{7}, {7}}, nil },
			}, nil
		}
		m := newMachine(t, tells, events)
		defer m.Close()
		m.boundary()
		m.boundary()
		hangs = true
		for range 3 {
			_, got := m.boundary()
			if got["seen"] != 7 || got[lateMetric] != 1 || !slices.Equal(online, []int{0, 1}) {
				t.Errorf("got %v, CPUs %v", got, online)
			}
			if cpus, _ := m.Interval(T); !slices.Equal(cpus, []int32{0, 1}) {
				t.Errorf("the sample has the CPUs %v", cpus)
			}
		}
	})
}

// A process that was stopped until its patience ended has late sources only where they hang.
func TestAProcessThatWasStopped(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	h := openSources(config.Agent{}, slog.New(slog.DiscardHandler), []source{
		(&fake{name: "a"}).source(), (&fake{name: "b"}).source(), (&fake{name: "c"}).source(),
	})
	defer h.Close()
	for range 10 {
		h.Read(Vitals{Interval: time.Nanosecond}) // no patience at all
		for _, p := range h.probes {
			if p.to.rows == nil {
				t.Fatalf("%s is late", p.source.name)
			}
		}
	}
}

func TestPause(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: 0, 2: 0, 3: 10 * time.Second, 4: 20 * time.Second, 7: 160 * time.Second, 8: longestPause,
		1 << 40: longestPause,
	} {
		if got := pause(failures, T); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
	for interval, want := range map[time.Duration]time.Duration{
		0: time.Second, time.Second: 50 * time.Millisecond, T: 500 * time.Millisecond, time.Minute: time.Second,
	} {
		if got := patience(interval); got != want {
			t.Errorf("at %s: %s, want %s", interval, got, want)
		}
	}
}

// The steady loop: a reading allocates nothing, and an interval what its caller keeps: the columns and their values.
func TestASteadyHostAllocatesNothing(t *testing.T) {
	states := source{
		name: "states", scope: schemas.ScopeCore,
		metrics: []metric{{"a", "1", gauge, ""}, {"b", "1", gauge, ""}},
	}
	states.open = func(config.Agent, *slog.Logger) (probe, error) {
		return probe{tells: true, form: formGauges, read: func(into reading, _ Vitals) (reading, error) {
			for len(into) < 128 {
				into = append(into, make([]uint64, 2))
			}
			return into, nil
		}}, nil
	}
	h := openSources(config.Agent{}, slog.New(slog.DiscardHandler), []source{
		states, (&fake{name: "x"}).source(), (&fake{name: "y"}).source(),
	})
	defer h.Close()
	read := func() { h.Read(Vitals{Interval: T, BoundaryMs: time.Now().UnixMilli()}) }
	for range 4 {
		read()
		h.Interval(T)
	}
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("a reading makes %g allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { h.Interval(T) }); n > 2 {
		t.Errorf("an interval makes %g allocations", n)
	}
}

// TestAFileThatHangs: opening a FIFO that nobody writes to never returns. One goroutine at a time runs, as in the
// agent, and the system call that hangs does not keep the others from running.
func TestAFileThatHangs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	dir := procTree(t)
	fifo := filepath.Join(dir, "meminfo")
	if err := errors.Join(os.Remove(fifo), syscall.Mkfifo(fifo, 0o644)); err != nil {
		t.Skipf("no FIFO on this file system: %v", err)
	}
	h := Open(config.Agent{ProcPath: dir}, slog.New(slog.DiscardHandler))
	defer h.Close()
	h.Read(Vitals{})
	h.Read(Vitals{})
	cpus, columns := h.Interval(T)
	if len(cpus) == 0 || valuesOf(columns, "cpu_load") == nil || valuesOf(columns, "weir_agent_rss") == nil {
		t.Errorf("CPUs %v, columns %v", cpus, columns)
	}
	if valuesOf(columns, "mem_used") != nil || valuesOf(columns, lateMetric)[0] != 1 {
		t.Errorf("columns %v", columns)
	}
	writer, err := os.OpenFile(fifo, os.O_RDWR, 0) // the call that hangs returns
	if err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
}

// erratic is a source whose calls are late, fail or panic by chance. While a reading is late its storage holds garbage.
func erratic(name, scope string, chance *rand.Rand) source {
	late := func(most time.Duration) { time.Sleep(time.Duration(chance.Int64N(int64(most)))) }
	read := func(into reading, _ Vitals) (reading, error) {
		for i := range into {
			for k := range into[i] {
				into[i][k] = 1 << 60
			}
		}
		now := uint64(time.Now().UnixMilli())
		switch chance.IntN(10) {
		case 0:
			return nil, errors.New("no such device")
		case 1:
			panic("a mistake")
		case 2, 3:
			late(5 * T)
		}
		if scope == schemas.ScopeNode {
			return only(into, now), nil
		}
		for i := range into {
			into[i] = into[i][:0]
		}
		for range 1 + chance.IntN(4) { // CPUs and GPUs come and go
			i := chance.IntN(6)
			for len(into) <= i {
				into = append(into, nil)
			}
			into[i] = append(into[i][:0], now)
		}
		return into, nil
	}
	form := func(from, to []uint64, elapsed time.Duration, out []float64) {
		out[0] = float64(to[0]-from[0]) / float64(elapsed.Milliseconds())
	}
	return source{name, scope, "", []metric{{name, "1", Rate, ""}}, func(config.Agent, *slog.Logger) (probe, error) {
		if late(2 * openTime); chance.IntN(4) == 0 {
			return probe{}, errors.New("not yet")
		}
		return probe{tells: scope == schemas.ScopeCore, read: read, form: form, close: func() { late(T) }}, nil
	}}
}

// Over thousands of intervals of such sources a value is right or missing. What the ring holds does not change, and no
// goroutine is left behind.
func TestErraticSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []source
		for i, scope := range []string{schemas.ScopeNode, schemas.ScopeCore, schemas.ScopeGPU, schemas.ScopeNode} {
			all = append(all, erratic(fmt.Sprintf("m%d", i), scope, rand.New(rand.NewPCG(1, uint64(i)))))
		}
		m := newMachine(t, all...)
		formed := 0
		var ring, copies [][]float64
		for range 5000 {
			time.Sleep(time.Until(time.Now().Truncate(T).Add(T)))
			now := time.Now()
			m.Read(Vitals{BoundaryMs: now.UnixMilli(), Interval: T})
			_, columns := m.Interval(now.Sub(m.last))
			m.last = now
			for _, c := range columns {
				ring, copies = append(ring, c.Values), append(copies, slices.Clone(c.Values))
				wrong := func(v float64) bool { return math.Abs(v-1) > 1e-3 }
				if strings.HasPrefix(c.Name, "m") && slices.ContainsFunc(c.Values, wrong) {
					t.Fatalf("%s of %s = %v", c.Name, now, c.Values)
				}
				formed++
			}
			for ; len(ring) > 100; ring, copies = ring[1:], copies[1:] {
				if diff := cmp.Diff(copies[0], ring[0], cmpopts.EquateNaNs()); diff != "" {
					t.Fatalf("the ring's values changed (-before +after):\n%s", diff)
				}
			}
		}
		if formed < 5000 {
			t.Errorf("%d columns say little", formed)
		}
		m.Close()
		time.Sleep(time.Hour) // a bubble fails where a goroutine is left
	})
}
