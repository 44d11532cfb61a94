package source

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/procfs"

	"github.com/weirhpc/weir/config"
)

// The lines of domains differ by version. In version 17 they have a name. Those of CPUs are the same.
var schedstats = map[string]string{
	"15": "version 15\ntimestamp 15819019232\ncpu0 4 0 3 2 5 6 2045936778163039 343796328169361 47\n" +
		"domain0 00000000,00000003 212 210 18 18 53 36 32 21 25 24 38 92 80 63 16\ncpu2 5 0 4 2 1 2 190 " +
		"364107263788241 51\n",
	"16": "version 16\ntimestamp 15819019232\ncpu0 4 0 3 2 5 6 2045936778163039 343796328169361 47\n" +
		"domain0 00000003 212 210 18 18 53 36 32 21 25 24 38 92 80 63 16\ncpu2 5 0 4 2 1 2 190 364107263788241 51\n",
	"17": "version 17\ntimestamp 15819019232\ncpu0 4 0 3 2 5 6 2045936778163039 343796328169361 47\n" +
		"domain0 SMT 00000003 212 210 18 18 53 36 32 21 25 24 38 92 80 63 16\ndomain1 PKG ff 1\n" +
		"cpu2 5 0 4 2 1 2 190 364107263788241 51\n",
}

func statRows(cpus ...int) reading {
	var rows reading
	for _, cpu := range cpus {
		for len(rows) <= cpu {
			rows = append(rows, nil)
		}
		rows[cpu] = append(make([]uint64, states), unread)
	}
	return rows
}

func TestParseSchedstat(t *testing.T) {
	for version, text := range schedstats {
		t.Run(version, func(t *testing.T) {
			// CPU 1 is offline, 2 came after /proc/stat was read, 3 went before /proc/schedstat was
			rows := statRows(0, 3)
			if err := parseSchedstat(rows, []byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := parseSchedstat(statRows(0), []byte(text)); err != nil { // the other CPUs came in between
				t.Fatal(err)
			}
			want := statRows(0, 3)
			want[0][stateWaiting] = 343796328169361
			if diff := cmp.Diff(want, rows, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
	for _, text := range []string{
		"", "version 14\ncpu0 1 2 3 4 5 6 7 8 9\n", "version 18\ncpu0 1 2 3 4 5 6 7 8 9\n", "version x\n", "version 15",
		"nonsense\n",
		"version 15\ncpu0 1 2 3 4 5 6 7 8\n", "version 15\ncpu0 1 2 3 4 5 6 7 8 9",
		"version 15\ncpux 1 2 3 4 5 6 7 8 9\n",
		"version 15\ncpu0 1 2 3 4 5 6 7 x 9\n", "version 15\ncpu0 1 2 3 4 5 6 7 99999999999999999999 9\n",
	} {
		if err := parseSchedstat(statRows(0), []byte(text)); err == nil {
			t.Errorf("parseSchedstat(%q) is no error", text)
		}
	}
}

func TestLoadOfCPU(t *testing.T) {
	nan := math.NaN()
	// user nice system idle iowait irq softirq steal, waiting in ns
	for name, c := range map[string]struct {
		from, to []uint64
		want     float64
	}{
		// busy 500+100+200+50+50+100 of 1000 jiffies. Tasks waited 5 s of 10 s.
		"running and waiting": {make([]uint64, 9), []uint64{500, 100, 200, 0, 0, 50, 50, 100, 5e9}, 1 + 0.5},
		// 250 of 1000 jiffies; three tasks waited all the time
		"oversubscribed": {make([]uint64, 9), []uint64{250, 0, 0, 750, 0, 0, 0, 0, 30e9}, 0.25 + 3},
		"idle":           {make([]uint64, 9), []uint64{0, 0, 0, 900, 100, 0, 0, 0, 0}, 0},
		"iowait went back": {
			[]uint64{0, 0, 0, 0, 9, 0, 0, 0, 0}, []uint64{5, 0, 0, 5, 8, 0, 0, 0, 0}, 0.5,
		},
		"the time of users went back": {[]uint64{9, 0, 0, 0, 0, 0, 0, 0, 0}, []uint64{5, 0, 0, 5, 8, 0, 0, 0, 0}, nan},
		"the waiting time went back":  {[]uint64{0, 0, 0, 0, 0, 0, 0, 0, 9}, []uint64{5, 0, 0, 5, 8, 0, 0, 0, 0}, nan},
		"no waiting time": {
			[]uint64{0, 0, 0, 0, 0, 0, 0, 0, unread}, []uint64{5, 0, 0, 5, 8, 0, 0, 0, unread}, nan,
		},
		"the waiting time comes": {
			[]uint64{0, 0, 0, 0, 0, 0, 0, 0, unread},
			[]uint64{5, 0, 0, 5, 8, 0, 0, 0, 7},
			nan,
		},
		"nothing passed for the states": {make([]uint64, 9), []uint64{0, 0, 0, 0, 0, 0, 0, 0, 5e9}, nan},
	} {
		t.Run(name, func(t *testing.T) {
			wantValues(t, []float64{c.want}, []float64{loadOfCPU(c.from, c.to, 10*time.Second)})
		})
	}
}

// A host without a scheduler's file, and one whose file is garbled, has the CPU states all the same.
func TestStatWithoutSchedstat(t *testing.T) {
	dir := procTree(t)
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	p, err := openStat(config.Agent{ProcPath: dir}, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.absent["cpu_load_core"]; !errors.Is(err, os.ErrNotExist) {
		t.Errorf("cpu_load_core is absent because: %v", err)
	}
	p.close()
	write(t, filepath.Join(dir, "schedstat"), "version 99\n")
	if p, err = openStat(config.Agent{ProcPath: dir}, log); err != nil {
		t.Fatal(err)
	}
	if err := p.absent["cpu_load_core"]; !errors.Is(err, errSchedstatVersion) {
		t.Errorf("cpu_load_core is absent because: %v", err)
	}
	p.close()

	write(t, filepath.Join(dir, "schedstat"), schedstats["15"])
	if p, err = openStat(config.Agent{ProcPath: dir}, log); err != nil {
		t.Fatal(err)
	}
	defer p.close()
	var from, to reading
	step := func(text, schedstat string) map[string][]float64 {
		write(t, filepath.Join(dir, "stat"), text)
		write(t, filepath.Join(dir, "schedstat"), schedstat)
		from = to
		if to, err = p.read(nil, Vitals{}); err != nil {
			t.Fatal(err)
		}
		return valuesBetween(stat(), p, from, to, 10*time.Second)
	}
	step("cpu0 0 0 0 0\n", "version 15\ncpu0 0 0 0 0 0 0 0 0 0\n")
	// 75 of 100 jiffies busy, 2.5 s of 10 s waited
	values := step("cpu0 75 0 0 25\n", "version 15\ncpu0 0 0 0 0 0 0 0 2500000000 0\n")
	wantValues(t, []float64{1}, values["cpu_load_core"])
	values = step("cpu0 150 0 0 50\n", "version 15\ncpu0 0 0 nonsense\n")
	wantValues(t, []float64{0.75}, values["cpu_user"])
	wantValues(t, []float64{math.NaN()}, values["cpu_load_core"])
	step("cpu0 150 0 0 50\n", "version 15\ncpu0 0 0 nonsense\n")
	if n := strings.Count(logged.String(), "metric=cpu_load_core"); n != 1 {
		t.Errorf("cpu_load_core was named %d times in:\n%s", n, logged.String())
	}
}

// procfs reads the same text.
func TestSchedstatAgreesWithProcfs(t *testing.T) {
	proc := t.TempDir()
	write(t, filepath.Join(proc, "schedstat"), schedstats["15"])
	fs, err := procfs.NewFS(proc)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := fs.Schedstat()
	if err != nil {
		t.Fatal(err)
	}
	rows := statRows(0, 1, 2)
	if err := parseSchedstat(rows, []byte(schedstats["15"])); err != nil {
		t.Fatal(err)
	}
	for _, cpu := range theirs.CPUs {
		n, _, _ := number([]byte(cpu.CPUNum))
		if got := rows[n][stateWaiting]; got != cpu.WaitingNanoseconds {
			t.Errorf("cpu %s: procfs says %d, we say %d", cpu.CPUNum, cpu.WaitingNanoseconds, got)
		}
	}
	if len(theirs.CPUs) != 2 {
		t.Errorf("procfs found %d CPUs", len(theirs.CPUs))
	}
}

// manyCPUs gives /proc/stat and /proc/schedstat of n CPUs that were online for so many jiffies. Every eighth is
// offline.
func manyCPUs(n, jiffies int) (stat, schedstat string) {
	var a, b strings.Builder
	a.WriteString("cpu  1 2 3 4 5 6 7 8 0 0\n")
	b.WriteString("version 15\ntimestamp 1\n")
	for i := range n {
		if i%8 == 7 {
			continue
		}
		fmt.Fprintf(&a, "cpu%d %d 0 0 %d 0 0 0 0 0 0\n", i, 2731445+jiffies/4, 15283344+jiffies*3/4)
		fmt.Fprintf(&b,
			"cpu%d 498494191 0 3533438552 2553969831 3853684107 2465731542 2045936778163039 %d 4767485306\n",
			i, 343796328169361+jiffies*2500000)
		for d := range 4 {
			fmt.Fprintf(&b, "domain%d 00000000,00000003%s\n", d, strings.Repeat(" 212499247", 45))
		}
	}
	a.WriteString("intr 409229" + strings.Repeat(" 0", 20000) + "\n")
	return a.String(), b.String()
}

func manyCPUTree(tb testing.TB, cpus, jiffies int) string {
	tb.Helper()
	dir := tb.TempDir()
	a, b := manyCPUs(cpus, jiffies)
	for name, text := range map[string]string{"stat": a, "schedstat": b} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

func TestManyCPUs(t *testing.T) {
	const cpus = 4096
	dir := manyCPUTree(t, cpus, 0)
	h := Open(config.Agent{ProcPath: dir}, slog.New(slog.DiscardHandler))
	defer h.Close()
	h.Read(Vitals{})
	a, b := manyCPUs(cpus, 100_000)
	write(t, filepath.Join(dir, "stat"), a)
	write(t, filepath.Join(dir, "schedstat"), b)
	h.Read(Vitals{})
	numbers, columns := h.Interval(1000 * time.Second)
	if len(numbers) != cpus/8*7 {
		t.Fatalf("%d CPUs", len(numbers))
	}
	for i, cpu := range numbers {
		if cpu%8 == 7 {
			t.Fatalf("CPU %d is offline", cpu)
		}
		// A quarter of the time busy. Tasks waited 250 s of 1000 s, as the host measures them.
		user, load := valuesOf(columns, "cpu_user")[i], valuesOf(columns, "cpu_load_core")[i]
		if user != 0.25 || math.Abs(load-0.5) > 0.01 {
			t.Fatalf("CPU %d: cpu_user %g, cpu_load_core %g", cpu, user, load)
		}
	}
}

func FuzzSchedstat(f *testing.F) {
	for _, text := range schedstats {
		f.Add([]byte(text))
	}
	f.Add([]byte("version 15\ncpu16383 1 2 3 4 5 6 7 8 9\ncpu0 1 2 3 4 5 6 7 18446744073709551600 9\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		from, to := statRows(0, 2), statRows(0, 2)
		from[0][stateWaiting], to[0][stateUser] = 0, 5
		if parseSchedstat(to, b) == nil {
			checkFinite(t, []float64{loadOfCPU(from[0], to[0], time.Second)}, 1+math.MaxUint64)
		}
		if len(to) != 3 {
			t.Fatalf("%d rows", len(to))
		}
	})
}
