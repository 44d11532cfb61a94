package source

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/procfs"

	"github.com/weirhpc/weir/config"
)

func TestParseStat(t *testing.T) {
	data, err := os.ReadFile("testdata/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseStat(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	want := reading{
		{400, 4, 200, 3000, 40, 0, 20, 3},
		{300, 3, 150, 2500, 30, 0, 10, 2},
		nil, // offline
		{300, 3, 150, 2500, 30, 0, 10, 2},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("parseStat (-want +got):\n%s", diff)
	}

	// A CPU that is gone from the next reading has no row, although the storage had one.
	got, err = parseStat(got, []byte("cpu3 1 2 3 4\nintr 5\ncpu9 1 2 3 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	want = reading{nil, nil, nil, {1, 2, 3, 4, 0, 0, 0, 0}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("parseStat into an older reading (-want +got):\n%s", diff)
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, text := range []string{
		"", "intr 1 2\n", "cpu  1 2 3 4\n", "cpu0 1 2 3\n", "cpux 1 2 3 4\n", "cpu0\n", "cpu99999999 1 2 3 4\n",
		"cpu0 99999999999999999999999 2 3 4\n", "cpu0 1 2 x 4\n", "cpu184467440737095516160 1 2 3 4",
		"cpu0 425 4 200 3075 40 0 2", "cpu0 1 2 3 4\ncpu1 425 4 200 30", // cut in the middle of a number
		"cpu0 1 2 3 4 x 6 7 8\n", "cpu0 1 2 3 4 5z 6 7 8\n",
	} {
		if got, err := parseStat(nil, []byte(text)); err == nil {
			t.Errorf("parseStat(%q) = %v, want an error", text, got)
		}
	}
}

// procfs is the oracle: it reads this machine's file with another parser, between two readings of ours.
func TestStatAgreesWithProcfs(t *testing.T) {
	p, err := openStat(config.Agent{ProcPath: "/proc"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Skip("no /proc/stat here:", err)
	}
	defer p.close()
	before, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	fs, err := procfs.NewFS("/proc")
	if err != nil {
		t.Fatal(err)
	}
	states, err := fs.Stat()
	if err != nil {
		t.Fatal(err)
	}
	after, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	if len(states.CPU) == 0 {
		t.Fatal("procfs found no CPU")
	}
	for cpu, s := range states.CPU {
		times := []float64{s.User, s.Nice, s.System, s.Idle, s.Iowait, s.IRQ, s.SoftIRQ, s.Steal}
		for i, seconds := range times {
			jiffies := uint64(math.Round(seconds * 100))
			lo, hi := before.row(int(cpu))[i], after.row(int(cpu))[i]
			if (jiffies < lo || jiffies > hi) && i != stateIowait { // iowait may go back, says Linux
				t.Errorf("cpu %d state %d: procfs says %d, we said %d before and %d after", cpu, i, jiffies, lo, hi)
			}
		}
	}
}

func TestFormStat(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		from, to []uint64
		want     []float64 // user, system, iowait, idle
	}{
		"shares": {
			[]uint64{10, 10, 10, 10, 10, 10, 10, 10},
			[]uint64{20, 15, 13, 90, 11, 10, 11, 10},
			[]float64{0.15, 0.04, 0.01, 0.8},
		},
		"steal is in none": {make([]uint64, 8), []uint64{1, 0, 0, 1, 0, 0, 0, 2}, []float64{0.25, 0, 0, 0.25}},
		"nothing passed":   {make([]uint64, 8), make([]uint64, 8), []float64{nan, nan, nan, nan}},
		"iowait went back": {
			[]uint64{0, 0, 0, 0, 9, 0, 0, 0},
			[]uint64{1, 0, 0, 3, 5, 0, 0, 0},
			[]float64{0.25, 0, nan, 0.75},
		},
		"all went back": {[]uint64{9, 9, 9, 9, 9, 9, 9, 9}, make([]uint64, 8), []float64{nan, nan, nan, nan}},
		"near the end of all": {
			[]uint64{math.MaxUint64 - 1, 0, 0, 0, 0, 0, 0, 0},
			[]uint64{math.MaxUint64, 0, 0, 1, 0, 0, 0, 0},
			[]float64{0.5, 0, 0, 0.5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := []float64{nan, nan, nan, nan}
			formStat(c.from, c.to, time.Second, got)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Errorf("formStat (-want +got):\n%s", diff)
			}
		})
	}
}

// For any two files, a fraction is missing or from 0 to 1, and the fractions sum to 1 at most.
func FuzzStat(f *testing.F) {
	data, err := os.ReadFile("testdata/proc/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, []byte("cpu0 500 4 300 3100 20 0 30 3 0 0\nintr 1"))
	f.Add([]byte("cpu0 1 2 3 4\n"), []byte("cpu1 1 2 3 4\ncpu0 18446744073709551615 2 3 4"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		from, err1 := parseStat(nil, a)
		to, err2 := parseStat(nil, b)
		if err1 != nil || err2 != nil {
			return
		}
		var h Host
		p := &openProbe{probe: probe{form: formStat}, source: stat(), from: shot{rows: from}, to: shot{rows: to}}
		rows := []int32{0, 1, 2, 3}
		if err := h.form(p, rows, time.Second); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			sum := 0.0
			for k := range p.source.metrics {
				v := h.values[k*len(rows)+i]
				if math.IsNaN(v) {
					continue
				}
				if v < 0 || v > 1 {
					t.Fatalf("fraction %g", v)
				}
				sum += v
			}
			if sum > 1+1e-9 {
				t.Fatalf("shares sum to %g", sum)
			}
		}
	})
}

func TestParseStatm(t *testing.T) {
	if pages, err := parseStatm([]byte("1234 567 89 1 0 2 0\n")); err != nil || pages != 567 {
		t.Errorf("%d pages, %v", pages, err)
	}
	for _, text := range []string{
		"", "1234\n", "1234 567", "1234 x 89\n", "x 567 89\n",
		"1234 99999999999999 8\n", "1234 5x 89\n",
	} {
		if pages, err := parseStatm([]byte(text)); err == nil {
			t.Errorf("parseStatm(%q) = %d, want an error", text, pages)
		}
	}
}

func FuzzParseStatm(f *testing.F) {
	f.Add([]byte("1234 567 89 1 0 2 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if pages, err := parseStatm(b); err == nil && pages > 1<<40 {
			t.Fatalf("%d pages", pages)
		}
	})
}

func BenchmarkParseStat128(b *testing.B) {
	var text bytes.Buffer
	fmt.Fprintln(&text, "cpu  6623 0 3238 303515 280 0 54 15 0 0")
	for i := range 128 {
		fmt.Fprintf(&text, "cpu%d 2731445 12 1280332 15283344 28123 0 9112 3 0 0\n", i)
	}
	fmt.Fprintln(&text, "intr 409229 0 0 0")
	var r reading
	var err error
	b.ReportAllocs()
	for b.Loop() {
		if r, err = parseStat(r, text.Bytes()); err != nil {
			b.Fatal(err)
		}
	}
}
