package source

import (
	"errors"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// machineOf unpacks the files of a machine of testdata: "-- path --" and what is in the file, or
// "-- path -> target --". They are no directories, since names such as intel-rapl:0 are not allowed in a module.
func machineOf(t testing.TB, name string) config.Agent {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // asNobody reads there
		t.Fatal(err)
	}
	for _, file := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		path, content, _ := strings.Cut(file, " --\n")
		path, target, isLink := strings.Cut(path, " -> ")
		path = filepath.Join(dir, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err == nil && isLink:
			err = os.Symlink(target, path)
		case err == nil:
			err = os.WriteFile(path, []byte(strings.TrimSuffix(content, "\n")+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return config.Agent{ProcPath: filepath.Join(dir, "proc"), SysPath: filepath.Join(dir, "sys")}
}

// trial is one source that is read as the host reads it.
type trial struct {
	probe
	source   source
	from, to reading
	spare    reading
	t        testing.TB
	ms       int64 // boundary of the next reading
}

func try(t testing.TB, s source, cfg config.Agent) *trial {
	t.Helper()
	p, err := s.open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal("open:", err)
	}
	if p.close != nil {
		t.Cleanup(p.close)
	}
	return &trial{probe: p, source: s, t: t, ms: 1_700_659_200_000}
}

// take takes the next reading, 10 s after the last.
func (r *trial) take() error {
	into := r.spare
	if r.from != nil {
		into = r.from
	}
	now, err := r.read(into, Vitals{BoundaryMs: r.ms})
	r.ms += 10_000
	r.spare, r.from, r.to = nil, r.to, now
	if err != nil {
		r.to, r.spare = nil, into
	}
	return err
}

// must reads without an error, n times.
func (r *trial) must(n int) {
	r.t.Helper()
	for range n {
		if err := r.take(); err != nil {
			r.t.Fatal("read:", err)
		}
	}
}

// wants compares the metrics of the last 10 s, with a value for each row. A metric that is not named is missing in all.
func (r *trial) wants(want map[string][]float64) {
	r.t.Helper()
	got := map[string][]float64{}
	for i := range max(len(r.from), len(r.to)) {
		from, to := r.from.row(i), r.to.row(i)
		if len(from)+len(to) == 0 {
			continue
		}
		out := make([]float64, len(r.source.metrics))
		for k := range out {
			out[k] = nan
		}
		if len(from) == len(to) {
			r.form(from, to, 10*time.Second, out)
		}
		for k, m := range r.source.metrics {
			got[m.name] = append(got[m.name], out[k])
		}
	}
	maps.DeleteFunc(got, func(_ string, values []float64) bool {
		return !slices.ContainsFunc(values, func(v float64) bool { return !math.IsNaN(v) })
	})
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		r.t.Errorf("values (-want +got):\n%s", diff)
	}
}

// steady fails the test where a reading and its values allocate. Looking for devices may.
func (r *trial) steady() {
	r.t.Helper()
	r.must(3)
	out := make([]float64, len(r.source.metrics))
	allocs := testing.AllocsPerRun(20, func() {
		r.ms -= 10_000 // it is not time to look for devices
		r.must(1)
		for i := range r.to {
			if from := r.from.row(i); len(from) > 0 {
				r.form(from, r.to[i], 10*time.Second, out)
			}
		}
	})
	if allocs != 0 {
		r.t.Errorf("a reading allocates %g times", allocs)
	}
}

// replace puts new text into a file that a source may have open.
func replace(t testing.TB, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lose makes every read of the open files whose path has the name fail, as after a device is gone.
func lose(t testing.TB, name string) {
	t.Helper()
	r, w, err := os.Pipe() // a pipe cannot be read at an offset
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	fds, err := entries("/proc/self/fd")
	if err != nil {
		t.Skip("no list of open files here:", err)
	}
	lost := 0
	for _, fd := range fds {
		path, _ := os.Readlink(filepath.Join("/proc/self/fd", fd))
		if n, err := strconv.Atoi(fd); err == nil && strings.Contains(path, name) {
			if err := unix.Dup3(int(r.Fd()), n, unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			lost++
		}
	}
	if lost == 0 {
		t.Fatalf("no file of %s is open", name)
	}
}

// asNobody runs f without the rights of root.
func asNobody(t testing.TB, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	// The thread alone loses its rights to files. It ends with the goroutine, since it stays locked.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

var nan = math.NaN()

// The kernel makes a file of /sys anew for every read at its beginning, so that it can stay open.
func TestKeptFileOfSysIsMadeAnew(t *testing.T) {
	f, err := openNumber("/sys/class/net/lo/statistics/tx_bytes")
	if err != nil {
		t.Skip("no loopback here:", err)
	}
	defer f.close()
	buffer := make([]byte, 64)
	before, err := f.number(buffer)
	if err != nil {
		t.Fatal(err)
	}
	to, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = to.Close() }()
	if _, err := to.WriteTo(make([]byte, 5000), to.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	if after, err := f.number(buffer); err != nil || after < before+5000 {
		t.Errorf("%d bytes before, %d after 5000 more (%v)", before, after, err)
	}
}

func TestParseCount(t *testing.T) {
	for _, c := range []struct {
		text       string
		unit, most uint64
		want       uint64
	}{
		{"42\n", 1, 0, 42},
		{"42", 4, 0, 168},
		{"0\n", 4, 255, 0},
		{"254\n", 1, 255, 254},
		{"255\n", 1, 255, unread}, // it stopped to count
		{"256\n", 1, 255, 256},    // and this one is wider
		{"18446744073709551600\n", 1, 0, 18446744073709551600},
		{"18446744073709551600\n", 4, 0, unread},
		{"N/A (no PMA)\n", 1, 0, unread}, // of an adapter without the counter
		{"", 1, 0, unread},
		{"-1\n", 1, 0, unread},
		{"12 kB\n", 1, 0, unread},
		{"1\n2\n", 1, 0, unread},
		{"99999999999999999999999\n", 1, 0, unread},
		{"\x00\x01", 1, 0, unread},
	} {
		if got := parseCount([]byte(c.text), c.unit, c.most); got != c.want {
			t.Errorf("parseCount(%q, %d, %d) = %d, want %d", c.text, c.unit, c.most, got, c.want)
		}
	}
}

func FuzzParseCount(f *testing.F) {
	f.Add([]byte("123\n"), uint64(4), uint64(255))
	f.Fuzz(func(t *testing.T, text []byte, unit, most uint64) {
		if unit == 0 {
			return
		}
		if v := parseCount(text, unit, most); v != unread && v%unit != 0 {
			t.Fatalf("%d is no number of units of %d", v, unit)
		}
	})
}

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		from, to uint64
		want     float64
	}{
		{3, 10, 7}, {3, 3, 0}, {10, 3, nan}, {unread, 3, nan}, {3, unread, nan}, {unread, unread, nan},
	} {
		if diff := cmp.Diff(c.want, growth(c.from, c.to), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("growth(%d, %d) (-want +got):\n%s", c.from, c.to, diff)
		}
	}
}

func TestErrorsOfAReadThatPass(t *testing.T) {
	for err, gone := range map[error]bool{
		unix.ENODEV: true, unix.ENXIO: true, unix.ENOENT: true, os.ErrClosed: true,
		unix.EAGAIN: false, unix.EINVAL: false, unix.EOPNOTSUPP: false, unix.EIO: false,
	} {
		if got := isGone(&os.PathError{Op: "read", Path: "x", Err: err}); got != gone {
			t.Errorf("isGone(%v) = %t, want %t", err, got, gone)
		}
	}
}

// Devices are looked for once a minute, and after ten seconds where one is gone. Those that stay are not opened again.
func TestDevicesAreLookedFor(t *testing.T) {
	there, looks, opened, closed := []string{"a"}, 0, 0, 0
	var broken error
	d := devices[string]{
		list: func() ([]string, error) {
			looks++
			if len(there) == 0 {
				return nil, errors.New("none")
			}
			return there, nil
		},
		open:  func(name string) (string, error) { opened++; return name, broken },
		close: func(string) { closed++ },
	}
	if err := d.look(); err != nil {
		t.Fatal(err)
	}
	at := func(second int64, want []string, wantLooks int, wantSet uint64) {
		t.Helper()
		got, err := d.now(1_000_000 + second*1000)
		if want == nil && err == nil {
			t.Errorf("second %d: %v without an error", second, got)
		}
		if diff := cmp.Diff(want, append([]string(nil), got...)); diff != "" || looks != wantLooks || d.set != wantSet {
			t.Errorf("second %d: %d looks, set %d, want %d and %d; (-want +got):\n%s",
				second, looks, d.set, wantLooks, wantSet, diff)
		}
	}
	at(0, []string{"a"}, 1, 1)
	at(59, []string{"a"}, 1, 1)
	at(60, []string{"a"}, 2, 1) // the same
	there = []string{"a", "b"}
	at(119, []string{"a"}, 2, 1)
	at(120, []string{"a", "b"}, 3, 2)
	_ = d.lost(unix.ENODEV)
	at(129, []string{"a", "b"}, 3, 2)
	there = []string{"b"}
	at(130, []string{"b"}, 4, 3)
	_ = d.lost(unix.ENODEV)
	there = nil
	at(140, nil, 5, 4)
	at(149, nil, 5, 4)
	at(150, nil, 6, 5)
	there, broken = []string{"b"}, unix.EACCES
	at(160, nil, 7, 6)
	broken = nil
	at(170, []string{"b"}, 8, 7)
	at(10, []string{"b"}, 9, 7) // the clock was set back
	if opened != 6 || closed != 4 {
		t.Errorf("opened %d times, closed %d times, want 6 and 4", opened, closed)
	}
}

// On a host without any of the devices every source says so when it is opened.
func TestDevicesOfABareMachine(t *testing.T) {
	cfg := machineOf(t, "bare")
	for _, s := range []source{
		interconnect(), lustre(), rapl(), temperature(), temperatureMax(), power(), cpufreq(),
	} {
		_, err := s.open(cfg, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%s is there", s.name)
		}
		t.Logf("%s: %v", s.name, err)
	}
}

// The agent of a whole machine has the metrics of its devices, with a value for each CPU, each socket or the node.
func TestHostOfMachines(t *testing.T) {
	for name, want := range map[string]map[string]int{
		"intel": {
			"ic_read_bw": 1, "lustre_open": 1, "cpu_power": 2, "core_power": 2, "mem_power": 2, "temperature": 8,
			"temperature_max": 1, "node_power": 1, "clock_cpufreq": 8,
		},
		"amd":      {"lustre_open": 1, "cpu_power": 2, "core_power": 2, "temperature_max": 1},
		"cray":     {"node_power": 1, "node_cpu_power": 1, "node_mem_power": 1},
		"omnipath": {"ic_read_bw": 1},
		"bare":     {},
	} {
		cfg := machineOf(t, name)
		h := Open(cfg, slog.New(slog.DiscardHandler))
		defer h.Close()
		h.Read(Vitals{})
		for file, text := range map[string]string{ // what stands still has no power
			powercap + "intel-rapl:0/energy_uj":   "262100000000\n",
			powercap + "intel-rapl:0:0/energy_uj": "5300000000\n",
			powercap + "intel-rapl:1/energy_uj":   "65500000000\n",
			powercap + "intel-rapl:1:0/energy_uj": "7200000000\n",
			powercap + "intel-rapl:1:1/energy_uj": "2800000000\n",
			"cray/pm_counters/freshness":          "5001\n",
			"cray/pm_counters/energy":             "1000036 J 1700659200200000 us\n",
			"cray/pm_counters/cpu_energy":         "300012 J 1700659200200000 us\n",
		} {
			if path := filepath.Join(cfg.SysPath, file); textOf(path) != "" {
				write(t, path, text)
			}
		}
		h.Read(Vitals{})
		got := map[string]int{}
		_, columns := h.Interval(10 * time.Second)
		for _, c := range columns {
			got[c.Name] = len(c.Values)
		}
		for _, s := range []source{
			interconnect(), lustre(), rapl(), temperature(), temperatureMax(), power(), cpufreq(),
		} {
			lacks := !slices.ContainsFunc(s.metrics, func(m metric) bool { return want[m.name] > 0 })
			for _, m := range s.metrics {
				if n, there := want[m.name]; (there || lacks) && got[m.name] != n {
					t.Errorf("%s: %s has %d values, want %d", name, m.name, got[m.name], n)
				}
			}
		}
	}
}
