package source

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
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

// logBuffer is a log that a test reads while others write it.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// siteHost is a host with the fixture's /proc and sources of the site.
func siteHost(t *testing.T, cfg config.Agent) (*Host, *logBuffer) {
	t.Helper()
	logged := &logBuffer{}
	if cfg.SysPath = t.TempDir(); cfg.ProcPath == "" {
		cfg.ProcPath = procTree(t)
	}
	h := Open(cfg, slog.New(slog.NewTextHandler(logged, nil)))
	t.Cleanup(h.Close)
	return h, logged
}

func TestFileSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "site.txt")
	h, logged := siteHost(t, config.Agent{Sources: []config.SiteSource{{
		Name: "disk", File: path, MaxAge: time.Minute, Interval: 10 * time.Second, Metrics: siteMetrics(),
	}}})
	now := time.Now()
	put := func(text string, age time.Duration) {
		t.Helper()
		write(t, path+".new", text)
		if err := os.Chtimes(path+".new", time.Time{}, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	interval := func() []Column {
		t.Helper()
		h.Read(Vitals{BoundaryMs: now.UnixMilli(), Interval: time.Minute})
		_, columns := h.Interval(10 * time.Second)
		return columns
	}
	check := func(when string, columns []Column, want map[string][]float64) {
		t.Helper()
		for _, name := range []string{"wear", "written", "heat", "fan"} {
			if diff := cmp.Diff(want[name], valuesOf(columns, name), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", when, name, diff)
			}
		}
	}
	nan := math.NaN()

	put("wear 0.5\nwritten 1000\nheat 1 40\nfan 0 5\nfan 1 6\n", 10*time.Second)
	interval()
	put("wear 0.6\nwritten 4000\nheat 1 41\nfan 1 7\n", 5*time.Second)
	// Of CPUs 0 and 3, which are online too, the file says nothing. written grew by 3,000 within 5 s.
	columns := interval()
	check("two texts", columns, map[string][]float64{
		"wear": {0.6}, "written": {600}, "heat": {nan, 41, nan}, "fan": {nan, 7},
	})
	// The greatest distance of a reading from its boundary is that of the first text, 10 s.
	if v := valuesOf(columns, SkewMetric+"disk:node"); len(v) != 1 || v[0] < 9.99e6 || v[0] > 10.01e6 {
		t.Errorf("skew %v us", v)
	}
	check("the same text", interval(), map[string][]float64{
		"wear": {0.6}, "heat": {nan, 41, nan}, "fan": {7}, // GPU 0 is in neither of the two readings
	})
	if log := logged.String(); strings.Contains(log, "source=disk") {
		t.Errorf("something is logged:\n%s", log)
	}

	secret := filepath.Join(t.TempDir(), "password")
	write(t, secret, "hunter2\n")
	for _, c := range []struct {
		name, says string
		make       func()
	}{
		{"stale", "nobody has written it for too long", func() { put("wear 1\n", 2*time.Minute) }},
		{"of the future, a fault as before", "", func() { put("wear 1\n", -2*time.Minute) }},
		{"gone", "no such file", func() { _ = os.Remove(path) }},
		{"a pipe", "not a regular file", func() { _ = unix.Mkfifo(path, 0o644) }},
		{"a directory, a fault as before", "", func() { _ = os.Remove(path); _ = os.Mkdir(path, 0o755) }},
		{"a link", "a symbolic link: name the file that it leads to", func() {
			_ = os.Remove(path)
			_ = os.Symlink(secret, path)
		}},
		{"undeclared", "1 of undeclared metrics, first in line 2", func() {
			_ = os.Remove(path)
			put("# x\nhunter2 1\n", 0)
		}},
		{"megabytes", "longer than 262144 bytes", func() { put(strings.Repeat("wear 1\n", 100_000), 0) }},
		{"garbled", "3 garbled", func() { put("\x00\xff\nwear x\n\x01 2\n", 0) }},
	} {
		before := len(logged.String())
		c.make()
		check(c.name, interval(), nil)
		check(c.name+", again", interval(), nil)
		log := logged.String()[before:]
		if n := strings.Count(log, "source=disk"); n != min(1, len(c.says)) || !strings.Contains(log, c.says) {
			t.Errorf("%s: want a line with %q:\n%s", c.name, c.says, log)
		}
		if strings.Contains(log, "hunter2") {
			t.Errorf("%s: the log quotes the file:\n%s", c.name, log)
		}
	}

	put("wear 0.7\nwritten 9000\n", 0)
	check("mended", interval(), map[string][]float64{"wear": {0.7}})
	if log := logged.String(); strings.Count(log, `msg="source is back" source=disk`) != 1 {
		t.Errorf("its return is not logged:\n%s", log)
	}
	put("wear 0.8\nwritten 8000\n", -time.Second)
	check("counter reset", interval(), map[string][]float64{"wear": {0.8}})
}

// TestExecSource: a command runs before each boundary, and its values belong to the interval that ends there. One that
// fails costs its values and a line in the log.
func TestExecSource(t *testing.T) {
	dir := t.TempDir()
	counter, broken := filepath.Join(dir, "counter"), filepath.Join(dir, "broken")
	h, logged := siteHost(t, config.Agent{Sources: []config.SiteSource{{
		Name: "disk", Interval: time.Second, Timeout: 900 * time.Millisecond, Metrics: siteMetrics(),
		Exec: sh("if [ -e " + broken + " ]; then echo the disk is away >&2; exit 7; fi; n=$(cat " + counter +
			" 2>/dev/null || echo 0); echo $((n + 1000000)) >" + counter +
			"; echo written $n; echo other 1; echo heat 0 50; printf 'wear 0.5'"), // its last line has no end
	}}})
	var columns []Column
	until := func(what string, holds func() bool) {
		t.Helper()
		eventually(t, what, func() bool {
			time.Sleep(100 * time.Millisecond)
			h.Read(Vitals{BoundaryMs: time.Now().UnixMilli(), Interval: 20 * time.Second})
			_, columns = h.Interval(time.Second)
			return holds()
		})
	}
	lines := func(text string) int { return strings.Count(logged.String(), text) }

	// The counter grows by a million a run. Runs are a second apart: the newest one began just now, and the one before
	// it a second earlier. On a busy machine some are late, and then the next one comes sooner.
	until("a rate of the command's counter", func() bool {
		v, skew := valuesOf(columns, "written"), valuesOf(columns, SkewMetric+"disk:node")
		return len(v) == 1 && v[0] > 0 && v[0] <= 4e6 && len(skew) == 1 && skew[0] >= 0.5e6
	})
	if v := valuesOf(columns, "wear"); len(v) != 1 || v[0] != 0.5 {
		t.Errorf("wear %v", v)
	}
	if v := valuesOf(columns, "heat"); len(v) == 0 || v[0] != 50 {
		t.Errorf("heat %v", v)
	}
	if lines("1 of undeclared metrics, first in line 2") != 1 {
		t.Errorf("the undeclared metric is not logged once:\n%s", logged)
	}

	write(t, broken, "")
	until("the end of its values", func() bool {
		return lines("exit status 7") > 0 && valuesOf(columns, "wear") == nil
	})
	if valuesOf(columns, "weir_agent_cpu_ms") == nil {
		t.Error("the values of another source are gone as well")
	}
	for range 5 {
		until("a reading", func() bool { return true })
	}
	slow := lines("timeout") // a busy machine may end a run, which is another failure
	if n := lines("exit status 7"); n < 1 || n > 1+slow || lines("the disk is away") != n {
		t.Errorf("the failure is not logged once:\n%s", logged)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	until("its return", func() bool { return valuesOf(columns, "wear") != nil && valuesOf(columns, "written") != nil })
}

// TestSlowCommandBlocksNothing: a command that never ends costs its values, and no reading waits for it.
func TestSlowCommandBlocksNothing(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	logged := &logBuffer{}
	h := Open(config.Agent{ProcPath: procTree(t), Sources: []config.SiteSource{{
		Name: "slow", Interval: 500 * time.Millisecond, Timeout: 400 * time.Millisecond, Metrics: siteMetrics(),
		Exec: sh("echo $$ >>" + pids + "; echo wear 1; while :; do sleep 1000; done"),
	}}}, slog.New(slog.NewTextHandler(logged, nil)))
	var took []time.Duration
	eventually(t, "the timeout in the log", func() bool {
		began := time.Now()
		h.Read(Vitals{BoundaryMs: began.UnixMilli()})
		took = append(took, time.Since(began))
		if _, columns := h.Interval(time.Second); valuesOf(columns, "wear") != nil {
			t.Error("a run that was ended has values")
		}
		time.Sleep(20 * time.Millisecond)
		return strings.Contains(logged.String(), "source=slow") && strings.Contains(logged.String(), "timeout")
	})
	// The command runs nearly all the time. A busy machine stops this process now and then, but not at every reading.
	slices.Sort(took)
	if median := took[len(took)/2]; median > 300*time.Millisecond {
		t.Errorf("a reading took %v, and up to %v", median, took[len(took)-1])
	}
	if strings.Contains(logged.String(), `msg="source is late: its values are missing" source=slow`) {
		t.Errorf("a reading waited for the command:\n%s", logged)
	}
	began := time.Now()
	h.Close()
	if took := time.Since(began); took > tooLong/3 {
		t.Errorf("closing took %v", took)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(text)) {
		eventually(t, "the end of "+pid, func() bool {
			_, err := os.Stat("/proc/" + pid)
			return err != nil
		})
	}
}

// A growth that no number holds is missing, and not infinite: 1.7e308 after -1.7e308 is beyond the largest float.
func TestGrowthBeyondAllNumbers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "values")
	h, _ := siteHost(t, config.Agent{Sources: []config.SiteSource{{
		Name: "s", File: file, MaxAge: time.Hour, Interval: 10 * time.Second,
		Metrics: []config.SiteMetric{{Name: "site_rate", Unit: "1/s", Scope: "node", Kind: "rate"}},
	}}})
	var columns []Column
	for i, text := range []string{"site_rate -1.7e308\n", "site_rate 1.7e308\n"} {
		write(t, file, text)
		at := time.Now().Add(time.Duration(i-1) * time.Second)
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		h.Read(Vitals{BoundaryMs: int64(10_000 * (i + 1))})
		_, columns = h.Interval(10 * time.Second)
	}
	if v := valuesOf(columns, "site_rate"); v != nil {
		t.Errorf("site_rate = %v", v)
	}
}

// A killed command whose pipes somebody keeps open is let go a second later. Only after that is it stuck in the kernel.
func TestStuckCommand(t *testing.T) {
	for since, stuck := range map[time.Duration]bool{time.Second: false, 3 * time.Second: true} {
		r := &runner{argv: []string{"/x"}, timeout: 100 * time.Millisecond, interval: 200 * time.Millisecond}
		r.running = time.Now().Add(-since)
		if _, _, err := r.newest(); errors.Is(err, errStuck) != stuck {
			t.Errorf("after %s: %v", since, err)
		}
	}
}

// TestNextRun: T is 10 s, and a run may take 2 s, so runs begin at 8 s, 18 s and so on.
func TestNextRun(t *testing.T) {
	at := func(seconds float64) time.Time { return time.UnixMilli(1_000_000_000_000 + int64(seconds*1000)) }
	for _, c := range []struct {
		now      float64
		failures int
		want     float64
	}{
		{0, 0, 8},
		{7.9, 0, 8},
		{8, 0, 18},
		{8.001, 0, 18},
		{9.999, 0, 18},
		{10, 0, 18},
		{8.5, 1, 28},
		{8.5, 2, 38},
		{8.5, 3, 58},
		{8.5, 6, 338},
		{8.5, 100, 338},
	} {
		if got := nextRun(at(c.now), 2*time.Second, 10*time.Second, c.failures); !got.Equal(at(c.want)) {
			t.Errorf("after %v s and %d failures: %v s, want %v", c.now, c.failures, got.Sub(at(0)).Seconds(), c.want)
		}
	}
}

func TestDerived(t *testing.T) {
	path := filepath.Join(t.TempDir(), "site.txt")
	write(t, path, "wear 0.5\nwritten 10\n")
	proc := procTree(t)
	h, _ := siteHost(t, config.Agent{
		ProcPath: proc,
		Sources: []config.SiteSource{{
			Name: "disk", File: path, MaxAge: time.Hour, Interval: time.Second, Metrics: siteMetrics(),
		}},
		Metrics: []config.DerivedMetric{
			{Name: "busy", Expr: "1 - cpu_idle"},
			{Name: "busy_share", Unit: "%", Expr: "100 * busy * wear"},
			{Name: "wear_left", Scope: schemas.ScopeNode, Kind: "ratio", Expr: "1 - wear"},
			{Name: "hot", Expr: "heat / 100"}, // the file has no heat
		},
	})
	h.Read(Vitals{})
	write(t, filepath.Join(proc, "stat"),
		"cpu  0\ncpu0 425 4 200 3075 40 0 20 3 0 0\ncpu2 9 9 9 9 9 9 9 9\ncpu3 300 3 200 2500 80 0 10 2 0 0\nintr 1\n")
	h.Read(Vitals{})
	_, columns := h.Interval(time.Second)
	nan := math.NaN()
	for name, want := range map[string][]float64{
		"cpu_idle":   {0.75, nan, nan, 0},
		"busy":       {0.25, nan, nan, 1},  // 1 - 0.75, 1 - 0
		"busy_share": {12.5, nan, nan, 50}, // 100 × 0.25 × 0.5, 100 × 1 × 0.5
		"wear_left":  {0.5}, "hot": nil,    // 1 - 0.5
	} {
		if diff := cmp.Diff(want, valuesOf(columns, name), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if !slices.IsSortedFunc(columns, func(a, b Column) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the columns are not ascending by name")
	}
	i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == "busy_share" })
	if c := columns[i]; c.Unit != "%" || c.Scope != schemas.ScopeCore {
		t.Errorf("%+v", c)
	}
}

func TestCheck(t *testing.T) {
	metrics := func(name string) []config.SiteMetric {
		return []config.SiteMetric{{Name: name, Scope: schemas.ScopeCore, Kind: "gauge"}}
	}
	source := func(name string, m []config.SiteMetric) config.Agent {
		return config.Agent{Sources: []config.SiteSource{{Name: "first"}, {Name: name, File: "/x", Metrics: m}}}
	}
	computed := func(of config.Agent, expr string) config.Agent {
		of.Metrics = []config.DerivedMetric{{Name: "new", Expr: expr}}
		return of
	}
	for name, c := range map[string]struct {
		cfg  config.Agent
		want string
	}{
		"nothing": {config.Agent{}, ""},
		"fine":    {computed(source("mine", metrics("heat")), "heat * cpu_user"), ""},
		"a metric": {
			source("mine", metrics("cpu_user")),
			`agent.sources[1].metrics[0].name = "cpu_user": the agent has one`,
		},
		"a source": {source("memory", metrics("heat")), `agent.sources[1].name = "memory": the agent has one`},
		"not there": {
			computed(config.Agent{}, "cpu_usr + 1"),
			"agent.metrics: definition of a metric \"new\": there is no metric \"cpu_usr\": did you mean cpu_user",
		},
		"undeclared": {computed(source("mine", metrics("heat")), "heet"), "did you mean heat"},
		"no text":    {computed(config.Agent{}, "cpu_user +"), "agent.metrics: definition of a metric"},
		"a clash": {
			config.Agent{Metrics: []config.DerivedMetric{{Name: "cpu_user", Expr: "cpu_idle"}}},
			"choose another name",
		},
		"other scopes": {
			config.Agent{Metrics: []config.DerivedMetric{{Name: "x", Scope: "node", Expr: "cpu_idle"}}},
			"its scope must be core",
		},
	} {
		err := Check(c.cfg)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// An agent that was not checked does without the site's metrics.
	var logged logBuffer
	cfg := source("mine", metrics("cpu_user"))
	cfg.ProcPath = procTree(t)
	h := Open(cfg, slog.New(slog.NewTextHandler(io.MultiWriter(&logged), nil)))
	defer h.Close()
	if !strings.Contains(logged.String(), "site's metrics are absent") {
		t.Errorf("logged:\n%s", logged.String())
	}
}

// TestCostOfASite: the cost of a site's source is that of its reading, and not the age of its values.
func TestCostOfASite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "site.txt")
	write(t, path, "wear 0.5\n")
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	h, _ := siteHost(t, config.Agent{Sources: []config.SiteSource{{
		Name: "disk", File: path, MaxAge: 2 * time.Hour, Interval: time.Second, Metrics: siteMetrics(),
	}}})
	costs, _, err := h.Costs(t.Context(), 3, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range costs {
		for _, wall := range c.Wall {
			if found = found || c.Source == "disk:node"; wall < 0 || wall > tooLong {
				t.Errorf("a reading of %s took %v", c.Source, wall)
			}
		}
	}
	if !found {
		t.Error("the source has no cost")
	}
}
