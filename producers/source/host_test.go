package source

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/naming"
)

// procTree copies the fixture tree to where a test may change it.
func procTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/proc")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func valuesOf(columns []Column, name string) []float64 {
	for _, c := range columns {
		if c.Name == name {
			return c.Values
		}
	}
	return nil
}

func TestHostInterval(t *testing.T) {
	dir := procTree(t)
	var logged bytes.Buffer
	h := Open(config.Agent{ProcPath: dir}, slog.New(slog.NewTextHandler(&logged, nil)))
	defer h.Close()

	h.Read(Vitals{Drops: 5})
	// CPU 1 goes offline, CPU 2 comes, the others spend 100 jiffies.
	write(t, filepath.Join(dir, "stat"),
		"cpu  0\ncpu0 425 4 200 3075 40 0 20 3 0 0\ncpu2 9 9 9 9 9 9 9 9\ncpu3 300 3 200 2500 80 0 10 2 0 0\nintr 1\n")
	write(t, filepath.Join(dir, "meminfo"), "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n")
	write(t, filepath.Join(dir, "loadavg"), "0.75 0.1 0.2 1/80 999\n")
	write(t, filepath.Join(dir, "self/statm"), "100 25 1 1 0 1 0\n")
	h.Read(Vitals{Drops: 7, Depth: 3, Skew: 42 * time.Microsecond})

	cpus, columns := h.Interval(10 * time.Second)
	if diff := cmp.Diff([]int32{0, 1, 2, 3}, cpus); diff != "" {
		t.Errorf("cpus (-want +got):\n%s", diff)
	}
	nan := math.NaN()
	for name, want := range map[string][]float64{
		"cpu_user":              {0.25, nan, nan, 0},
		"cpu_system":            {0, nan, nan, 0.5},
		"cpu_iowait":            {0, nan, nan, 0.5},
		"cpu_idle":              {0.75, nan, nan, 0},
		"mem_used":              {600 * 1024},
		"cpu_load":              {0.75},
		"weir_agent_rss":        {25 * float64(os.Getpagesize())},
		"weir_agent_skew_us":    {42},
		"weir_agent_ring_depth": {3},
		"weir_agent_drops":      {2},
	} {
		if diff := cmp.Diff(want, valuesOf(columns, name), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for i := 1; i < len(columns); i++ {
		if columns[i-1].Name >= columns[i].Name {
			t.Errorf("%s stands before %s", columns[i-1].Name, columns[i].Name)
		}
	}
	if v := valuesOf(columns, "weir_agent_cpu_ms"); len(v) != 1 || v[0] < 0 {
		t.Errorf("weir_agent_cpu_ms = %v", v)
	}

	// A source that can no longer be read is absent, and logged once. Its neighbours stay.
	write(t, filepath.Join(dir, "meminfo"), "nonsense\n")
	write(t, filepath.Join(dir, "loadavg"), "")
	h.Read(Vitals{})
	h.Read(Vitals{})
	_, columns = h.Interval(10 * time.Second)
	if valuesOf(columns, "mem_used") != nil || valuesOf(columns, "cpu_load") != nil {
		t.Errorf("unreadable sources have values: %v", columns)
	}
	if valuesOf(columns, "weir_agent_rss") == nil {
		t.Error("weir_agent_rss is absent")
	}
	if n := strings.Count(logged.String(), "source=memory"); n != 1 {
		t.Errorf("the memory source was named %d times in:\n%s", n, logged.String())
	}

	// They return after two good readings.
	write(t, filepath.Join(dir, "meminfo"), "MemTotal:  1000 kB\nMemAvailable:  400 kB\n")
	h.Read(Vitals{})
	h.Read(Vitals{})
	if _, columns = h.Interval(10 * time.Second); valuesOf(columns, "mem_used") == nil {
		t.Error("mem_used did not return")
	}
	if n := strings.Count(logged.String(), `msg="source is back" source=memory`); n != 1 {
		t.Errorf("the return of the memory source was logged %d times in:\n%s", n, logged.String())
	}

	// The next outage is a new one.
	write(t, filepath.Join(dir, "meminfo"), "nonsense\n")
	h.Read(Vitals{})
	if n := strings.Count(logged.String(), `msg="source is absent" source=memory`); n != 2 {
		t.Errorf("two outages of the memory source were logged %d times in:\n%s", n, logged.String())
	}
}

// A machine without a readable source still has an agent, and an almost empty sample.
func TestHostOfNothing(t *testing.T) {
	h := Open(config.Agent{ProcPath: t.TempDir(), Perf: true}, slog.New(slog.DiscardHandler))
	defer h.Close()
	h.Read(Vitals{})
	h.Read(Vitals{})
	cpus, columns := h.Interval(time.Second)
	if len(cpus) != 0 || valuesOf(columns, "weir_agent_cpu_ms") == nil {
		t.Errorf("cpus %v, columns %v", cpus, columns)
	}
}

// A metric is declared once, and whole: its name is that of a column, of a topic's field and of a file.
func TestSourcesAreTold(t *testing.T) {
	names := map[string]bool{}
	for _, s := range sources() {
		if names[s.name] || !naming.Valid(s.name) || !naming.Valid(SkewMetric+s.name) || s.origin == "" ||
			s.open == nil {
			t.Errorf("source %q is there twice, has no name or no origin", s.name)
		}
		names[s.name] = true
	}
	metrics := map[string]bool{}
	for _, m := range Catalogue(config.Agent{}) {
		if metrics[m.Name] || !naming.Valid(m.Name) {
			t.Errorf("metric %q of %s is there twice, or its name is not valid", m.Name, m.Source)
		}
		metrics[m.Name] = true
		if m.Unit == "" || m.Scope == "" || m.Formula == "" || !slices.Contains([]Kind{ratio, Rate, gauge}, m.Kind) {
			t.Errorf("not whole: %+v", m)
		}
	}
}

// The values of this machine are in their ranges: fractions of a CPU, memory below that of the machine.
func TestHostOfThisMachine(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("no /proc here")
	}
	var logged logBuffer // a source that opens late writes to it later
	h := Open(config.Agent{ProcPath: "/proc", Perf: true}, slog.New(slog.NewTextHandler(&logged, nil)))
	defer h.Close()
	t.Log("absent here:\n", logged.String())
	begin := time.Now()
	h.Read(Vitals{})
	for s := 0; time.Since(begin) < 100*time.Millisecond; s++ { // some work to see
		_ = math.Sqrt(float64(s))
	}
	h.Read(Vitals{})
	_, columns := h.Interval(time.Since(begin))
	for _, c := range columns {
		t.Logf("%s = %v %s", c.Name, c.Values, c.Unit)
		for _, v := range c.Values {
			if v < 0 || math.IsInf(v, 0) {
				t.Errorf("%s = %g", c.Name, v)
			}
			if strings.HasPrefix(c.Name, "cpu_") && c.Scope == schemas.ScopeCore && c.Unit == "1" && v > 1 {
				t.Errorf("%s = %g is no fraction", c.Name, v)
			}
		}
	}
	for _, name := range []string{"cpu_user", "cpu_idle", "mem_used", "cpu_load", "weir_agent_rss"} {
		if valuesOf(columns, name) == nil {
			t.Errorf("%s is absent", name)
		}
	}
}

// Sockets and GPUs are counted by their own numbers, not by those of the CPUs.
func TestRowsOfSocketsAndGPUs(t *testing.T) {
	for _, scope := range []string{schemas.ScopeSocket, schemas.ScopeGPU} {
		h := Host{log: slog.New(slog.DiscardHandler), probes: []*openProbe{
			{
				source: source{scope: schemas.ScopeCore, metrics: []metric{{"per_cpu", "1", gauge, ""}}},
				probe:  probe{tells: true, form: formGauges},
				from:   shot{rows: reading{{1}, {1}, {1}, {1}}}, to: shot{rows: reading{{1}, {1}, {1}, {1}}},
			},
			{
				source: source{scope: scope, metrics: []metric{{"power", "W", gauge, ""}}},
				probe:  probe{form: formGauges},
				from:   shot{rows: reading{{1}, nil, {1}}}, to: shot{rows: reading{{250}, nil, nil, {300}}},
			},
		}}
		h.start()
		defer h.Close()
		cpus, columns := h.Interval(time.Second)
		if diff := cmp.Diff([]int32{0, 1, 2, 3}, cpus); diff != "" {
			t.Errorf("%s: cpus (-want +got):\n%s", scope, diff)
		}
		// Row 0 is in both readings, row 2 went, row 3 came, and there is no row 1.
		want := Column{"power", "W", scope, []int32{0, 2, 3}, []float64{250, math.NaN(), math.NaN()}}
		if diff := cmp.Diff(want, columns[1], cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scope, diff)
		}
		_, again := h.Interval(time.Second)
		if &again[1].Rows[0] != &columns[1].Rows[0] || columns[0].Rows != nil {
			t.Errorf("%s: the same rows are another list, or CPUs have one", scope)
		}
	}
}
