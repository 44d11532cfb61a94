package source

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/procfs"

	"github.com/weirhpc/weir/config"
)

// formed gives the values that a source forms of two texts of its file.
func formed(
	tb testing.TB, metrics int, parse func([]uint64, []byte) ([]uint64, error),
	form func(from, to []uint64, elapsed time.Duration, out []float64), elapsed time.Duration, a, b string,
) []float64 {
	tb.Helper()
	from, err := parse(nil, []byte(a))
	if err != nil {
		tb.Fatal(err)
	}
	to, err := parse(nil, []byte(b))
	if err != nil {
		tb.Fatal(err)
	}
	return formedOf(metrics, form, from, to, elapsed)
}

func formedOf(
	metrics int, form func(from, to []uint64, elapsed time.Duration, out []float64),
	from, to []uint64, elapsed time.Duration,
) []float64 {
	out := make([]float64, metrics)
	for i := range out {
		out[i] = math.NaN()
	}
	form(from, to, elapsed, out)
	return out
}

func wantValues(tb testing.TB, want, got []float64) {
	tb.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		tb.Errorf("values (-want +got):\n%s", diff)
	}
}

// checkFinite fails for a value that is negative or infinite, or that is above most.
func checkFinite(tb testing.TB, values []float64, most float64) {
	tb.Helper()
	for i, v := range values {
		if v < 0 || math.IsInf(v, 0) || v > most {
			tb.Fatalf("value %d is %g", i, v)
		}
	}
}

// readFile returns a file of the fixtures.
func readFile(tb testing.TB, elements ...string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, elements...)...))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestMemory(t *testing.T) {
	nan := math.NaN()
	whole := "MemTotal:       16384 kB\nMemFree:         1024 kB\nMemAvailable:    8192 kB\n" +
		"Buffers:   100 kB\nCached:  2000 kB\nSwapCached:  7 kB\nSwapTotal:  4096 kB\nSwapFree:   3000 kB\n" +
		"Shmem:  500 kB\nKReclaimable: 999 kB\nSReclaimable:  400 kB\n"
	for name, c := range map[string]struct {
		text string
		want []float64 // used, free, cached, swap used
	}{
		// (16384-8192)*1024, 1024*1024, (100+2000+400-500)*1024, (4096-3000)*1024
		"whole":              {whole, []float64{8388608, 1048576, 2048000, 1122304}},
		"no page cache told": {"MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable: 4 kB\n", []float64{6144, 1024, nan, nan}},
		"no swap": {
			"MemTotal: 10 kB\nMemAvailable: 10 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n", []float64{0, nan, nan, 0},
		},
		"cut in the middle of a number": {
			"MemTotal: 10 kB\nMemAvailable: 4 kB\nSwapTotal: 9 kB\nSwapFree: 1", []float64{6144, nan, nan, nan},
		},
		"more swap is free than there is": {
			"MemTotal: 10 kB\nMemAvailable: 4 kB\nSwapTotal: 9 kB\nSwapFree: 10 kB\n", []float64{6144, nan, nan, nan},
		},
		"another unit": {"MemTotal: 10 kB\nMemFree: 3 MB\nMemAvailable: 4 kB\n", []float64{6144, nan, nan, nan}},
		"a number that does not fit": {
			"MemTotal: 10 kB\nMemFree: 99999999999999999999 kB\nMemAvailable: 4 kB\n", []float64{6144, nan, nan, nan},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantValues(t, c.want, formed(t, 4, parseMemory, formMemory, time.Second, whole, c.text))
		})
	}
	for _, text := range []string{
		"", "nonsense\n", "MemTotal: 10 kB\n", "MemAvailable: 10 kB\n", "MemTotal: 10 kB\nMemAvailable: 11 kB\n",
		"MemTotal: 10 kB\nMemAvailable: 1", "MemTotal: ten kB\nMemAvailable: 1 kB\n",
	} {
		if row, err := parseMemory(nil, []byte(text)); err == nil {
			t.Errorf("parseMemory(%q) = %v, want an error", text, row)
		}
	}
}

// procfs reads the same file of this machine. Memory moves while it is read. So in one of many tries, what it finds
// lies between our readings before and after, with a hundredth of the memory to spare.
func TestMemoryAgreesWithProcfs(t *testing.T) {
	p := openHere(t, memory())
	fs, err := procfs.NewFS("/proc")
	if err != nil {
		t.Fatal(err)
	}
	read := func() []float64 {
		r, err := p.read(nil, Vitals{})
		if err != nil {
			t.Fatal(err)
		}
		return formedOf(4, p.form, r[0], r[0], time.Second)
	}
	for try := range 100 {
		before := read()
		m, err := fs.Meminfo()
		if err != nil {
			t.Fatal(err)
		}
		after := read()
		spare := float64(*m.MemTotalBytes) / 100
		theirs := []float64{
			float64(*m.MemTotalBytes - *m.MemAvailableBytes), float64(*m.MemFreeBytes),
			float64(*m.BuffersBytes) + float64(*m.CachedBytes) + float64(*m.SReclaimableBytes) - float64(*m.ShmemBytes),
			float64(*m.SwapTotalBytes - *m.SwapFreeBytes),
		}
		agrees := true
		for i, v := range theirs {
			agrees = agrees && v >= min(before[i], after[i])-spare && v <= max(before[i], after[i])+spare
		}
		if agrees {
			return
		}
		if try == 99 {
			t.Errorf("procfs says %v, we said %v before and %v after", theirs, before, after)
		}
	}
}

func FuzzMemory(f *testing.F) {
	f.Add(readFile(f, "proc", "meminfo"))
	f.Add([]byte("MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable: 4 kB\n" +
		"Buffers: 1 kB\nCached: 1 kB\nShmem: 9 kB\nSReclaimable: 0 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if row, err := parseMemory(nil, b); err == nil {
			checkFinite(t, formedOf(4, formMemory, row, row, time.Second), 1024*3*math.MaxUint64)
		}
	})
}

func TestLoad(t *testing.T) {
	row, err := parseLoad(nil, []byte("12.75 0.10 0.20 31/80 999\n"))
	if err != nil {
		t.Fatal(err)
	}
	wantValues(t, []float64{12.75, 31}, formedOf(2, formLoad, row, row, time.Second))
	for _, text := range []string{
		"", "0.75 0.10 0.20 1/80 999", "0.75 0.10 0.20 1/80\n", "0.75 0.10\n", "x 0.1 0.2 1/80 9\n",
		"0,75 0.10 0.20 1/80 9\n",
		"0.7 0.10 0.20 1/80 9\n", "0.755 0.10 0.20 1/80 9\n", "0.75 0.10 0.20 x/80 9\n", "0.75 0.10 0.20 1 80 9\n",
		"99999999999999999.75 0.10 0.20 1/80 9\n", "0.7x 0.10 0.20 1/80 9\n", "-1.00 0.10 0.20 1/80 9\n",
	} {
		if row, err := parseLoad(nil, []byte(text)); err == nil {
			t.Errorf("parseLoad(%q) = %v, want an error", text, row)
		}
	}
}

// The kernel computes the load anew every 5 s, so procfs mostly reads the same number as we before or after it.
func TestLoadAgreesWithProcfs(t *testing.T) {
	p := openHere(t, load())
	fs, err := procfs.NewFS("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r, err := p.read(nil, Vitals{})
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := fs.LoadAvg()
		if err != nil {
			t.Fatal(err)
		}
		if ours := formedOf(2, p.form, r[0], r[0], time.Second); ours[0] == theirs.Load1 {
			return
		}
	}
	t.Error("procfs never read the load that we read")
}

func FuzzLoad(f *testing.F) {
	f.Add(readFile(f, "proc", "loadavg"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if row, err := parseLoad(nil, b); err == nil {
			checkFinite(t, formedOf(2, formLoad, row, row, time.Second), 1<<41)
		}
	})
}

func TestKernelFileIsOpenedAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "numastat")
	write(t, path, "local_node 1\n")
	f, err := openKernelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.close() // as good as gone: its reads fail from now on
	if data, err := f.read(); err != nil || string(data) != "local_node 1\n" {
		t.Errorf("read = %q, %v", data, err)
	}
	f.close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(); err == nil {
		t.Error("a file that is gone was read")
	}
}

// A file that never ends is refused before it takes the memory of the node.
func TestEndlessFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meminfo")
	write(t, path, "")
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip("no sparse files here:", err)
	}
	p, err := openMemory(config.Agent{ProcPath: filepath.Dir(path)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if _, err := p.read(nil, Vitals{}); !errors.Is(err, errEndless) {
		t.Errorf("a file of 1 TiB was read: %v", err)
	}
}
