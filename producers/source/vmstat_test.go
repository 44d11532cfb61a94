package source

import (
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"

	"github.com/weirhpc/weir/config"
)

func TestPaging(t *testing.T) {
	nan := math.NaN()
	before := "nr_free_pages 77\npgpgin 5\npswpin 100\npswpout 200\npgfault 1000\npgmajfault 10\nnr_unstable 0\n"
	for name, c := range map[string]struct {
		after string
		want  []float64 // swapped in, out, pages, faults, major faults
	}{
		// 20 pages of 4096 B in 10 s, 50 pages in 10 s, (20 + 50) / 10, 5000 / 10, 30 / 10
		"rates": {
			"pswpin 120\npswpout 250\npgfault 6000\npgmajfault 40\n", []float64{8192, 20480, 7, 500, 3},
		},
		"a kernel without swap": {"pgfault 1000\npgmajfault 10\n", []float64{nan, nan, nan, 0, 0}},
		"a counter that went back": {
			"pswpin 99\npswpout 200\npgfault 999\npgmajfault 11\n", []float64{nan, 0, nan, nan, 0.1},
		},
		"cut in the middle of a number": {"pswpin 120\npswpout 250\npgfault 60", []float64{8192, 20480, 7, nan, nan}},
		"garbled": {
			"pswpin -1\npswpout 2x\npgfault\npgmajfault 11\n", []float64{nan, nan, nan, nan, 0.1},
		},
		"the first line counts": {"pgfault 1001\npgfault 1\npgmajfault 10\n", []float64{nan, nan, nan, 0.1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			wantValues(t, c.want, formed(t, 5, parsePaging, formPaging(4096), 10*time.Second, before, c.after))
		})
	}
	for _, text := range []string{"", "nonsense\n", "pswpin 12", "pgfault x\n"} {
		if row, err := parsePaging(nil, []byte(text)); err == nil {
			t.Errorf("parsePaging(%q) = %v, want an error", text, row)
		}
	}
}

// Most kernels print the counters early. They are found all the same where a kernel prints them late, or lacks some.
func TestPagingFarDown(t *testing.T) {
	for name, text := range map[string]string{
		"early":   "pswpin 1\npswpout 2\npgfault 3\npgmajfault 4\n" + strings.Repeat("nr_other 123456789\n", 1000),
		"late":    strings.Repeat("nr_other 123456789\n", 1000) + "pswpin 1\npswpout 2\npgfault 3\npgmajfault 4\n",
		"between": strings.Repeat("nr_other 1\n", pagingHead/11-3) + "pswpin 1\npswpout 2\npgfault 3\npgmajfault 4\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "vmstat"), text)
			p, err := openPaging(config.Agent{ProcPath: dir}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			for range 2 {
				if diff := cmp.Diff([]uint64{1, 2, 3, 4}, readRow(t, p)); diff != "" {
					t.Errorf("row (-want +got):\n%s", diff)
				}
			}
			write(t, filepath.Join(dir, "vmstat"), "pgfault 3\nnr_other 5\n")
			if diff := cmp.Diff([]uint64{unread, unread, 3, unread}, readRow(t, p)); diff != "" {
				t.Errorf("row (-want +got):\n%s", diff)
			}
			write(t, filepath.Join(dir, "vmstat"), "nonsense\n")
			if r, err := p.read(nil, Vitals{}); err == nil {
				t.Errorf("nonsense is read as %v", r)
			}
		})
	}
}

// Pages are as large as the machine's: 64 KiB on some Arm and Power nodes.
func TestPagingOfLargePages(t *testing.T) {
	got := formed(t, 5, parsePaging, formPaging(65536), time.Second, "pswpin 0\npswpout 0\n", "pswpin 2\npswpout 3\n")
	wantValues(t, []float64{131072, 196608, 5, math.NaN(), math.NaN()}, got)
}

func FuzzPaging(f *testing.F) {
	f.Add([]byte("pswpin 100\npswpout 200\npgfault 1000\npgmajfault 10\n"),
		[]byte("pswpin 100\npgfault 18446744073709551600\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		from, err1 := parsePaging(nil, a)
		to, err2 := parsePaging(nil, b)
		if err1 == nil && err2 == nil {
			checkFinite(t, formedOf(5, formPaging(65536), from, to, time.Second), 65536*math.MaxUint64)
		}
	})
}

func TestPressure(t *testing.T) {
	nan := math.NaN()
	some := "some avg10=0.00 avg60=0.00 avg300=0.00 total="
	full := "full avg10=0.00 avg60=0.00 avg300=0.00 total="
	row := func(texts ...string) (row []uint64) {
		for _, text := range texts {
			s, f, err := parsePressure([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, s, f)
		}
		return row
	}
	from := row(some+"1000000\n", some+"500\n"+full+"400\n", some+"0\n"+full+"7\n")
	to := row(some+"3500000\n", some+"1000500\n"+full+"400\n", some+"10000000\n"+full+"6\n")
	// 2.5 s of 10 s, 1 s of 10 s, 10 s of 10 s, 0 of 10 s; the last one went back
	wantValues(t, []float64{0.25, 0.1, 1, 0, nan}, formedOf(5, formPressure, from, to, 10*time.Second))
	for _, text := range []string{
		"", "some total=5", "full total=5\n", "some avg10=0.00 total=x\n", "some avg10=0.00\n",
		"some avg10=0.00 total=5 6\n",
		some + "99999999999999999999999\n", "some total=5\nnonsense\n",
	} {
		if s, f, err := parsePressure([]byte(text)); err == nil {
			t.Errorf("parsePressure(%q) = %d, %d, want an error", text, s, f)
		}
	}
}

// procfs reads between two readings of ours. The totals only grow.
func TestPressureAgreesWithProcfs(t *testing.T) {
	p := openHere(t, pressure())
	fs, err := procfs.NewFS("/proc")
	if err != nil {
		t.Fatal(err)
	}
	before, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	var theirs []uint64
	for _, name := range pressureFiles {
		s, err := fs.PSIStatsForResource(name)
		if err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, s.Some.Total)
		if s.Full != nil {
			theirs = append(theirs, s.Full.Total)
		} else {
			theirs = append(theirs, unread)
		}
	}
	after, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range theirs {
		if v < before[0][i] || v > after[0][i] {
			t.Errorf("total %d: procfs says %d, we said %d before and %d after", i, v, before[0][i], after[0][i])
		}
	}
}

func FuzzPressure(f *testing.F) {
	f.Add([]byte("some avg10=0.00 avg60=0.00 avg300=0.00 total=24280969138\n" +
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		some, full, err := parsePressure(b)
		if err == nil {
			row := []uint64{some, full, some, full, some, full}
			checkFinite(t, formedOf(5, formPressure, make([]uint64, 6), row, time.Second), math.MaxUint64)
		}
	})
}
