package source

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// llite is what Lustre writes of a mount.
func llite(lines ...string) string {
	return "snapshot_time             1700659210.123456789 secs.nsecs\n" + strings.Join(lines, "\n") + "\n"
}

// Two mounts of Lustre 2.12 work for ten seconds.
func TestLustre(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, lustre(), cfg)
	r.must(1)
	replace(t, cfg.ProcPath, "fs/lustre/llite/home-ffff9d1c4a3f8800/stats", llite(
		"read_bytes                60 samples [bytes] 0 4194304 1500000", // 50 + 10, 500,000 + 1,000,000
		"write_bytes               15 samples [bytes] 1 4194304 300000",  // 10 + 5, 100,000 + 200,000
		"ioctl                     9 samples [regs]",
		"open                      30 samples [regs]",   // 20 + 10
		"close                     26 samples [regs]",   // 18 + 8
		"getattr                   400 samples [regs]")) // 300 + 100
	replace(t, cfg.ProcPath, "fs/lustre/llite/scratch-ffff9d1c4b001000/stats", llite(
		"read_bytes                100 samples [bytes] 0 4194304 10000000", // 70 + 30, 7,000,000 + 3,000,000
		"write_bytes               81 samples [bytes] 1 4194304 8000004",   // 80 + 1, 8,000,000 + 4
		"open                      6 samples [regs]",                       // 5 + 1
		"close                     5 samples [regs]",
		"getattr                   60 samples [regs]"))
	r.must(1)
	r.wants(map[string][]float64{
		"lustre_read_bw":   {400000},  // (1,000,000 + 3,000,000) / 10
		"lustre_write_bw":  {20000.4}, // (200,000 + 4) / 10
		"lustre_read_ops":  {4},       // (10 + 30) / 10
		"lustre_write_ops": {0.6},     // (5 + 1) / 10
		"lustre_open":      {1.1},     // (10 + 1) / 10
		"lustre_close":     {0.8},
		"lustre_getattr":   {10},
	})
}

// Lustre 2.15 has its statistics in debugfs. It writes no line of what never happened: that is 0.
func TestLustreInDebugfs(t *testing.T) {
	cfg := machineOf(t, "amd")
	r := try(t, lustre(), cfg)
	r.must(1)
	stats := "kernel/debug/lustre/llite/work-ffff8f3c5a0e7800/stats"
	replace(t, cfg.SysPath, stats, llite(
		"start_time                1700600000.000000001 secs.nsecs",
		"read_bytes                1100 samples [bytes] 1 1048576 1900000 1234567890", // + 100, + 1,000,000
		"write_bytes               20 samples [bytes] 4096 4096 81920 335544320",      // the first
		"read                      1100 samples [usecs] 2 5000 123456 987654321",
		"open                      40 samples [usecs] 12 3000 40000 98765432",
		"getattr                   450 samples [usecs] 1 900 5000 98765"))
	r.must(1)
	r.wants(map[string][]float64{
		"lustre_read_bw": {100000}, "lustre_read_ops": {10},
		"lustre_write_bw": {8192}, "lustre_write_ops": {2}, // 81,920 / 10 and 20 / 10
		"lustre_open": {0}, "lustre_close": {0}, "lustre_getattr": {5},
	})

	// Someone clears the statistics. What was counted is not known, nor is what follows until there are two counts.
	replace(t, cfg.SysPath, stats, llite("getattr                   3 samples [usecs] 1 900 5000 98765"))
	r.must(1)
	r.wants(map[string][]float64{"lustre_close": {0}})
	replace(t, cfg.SysPath, stats, llite(
		"open                      9 samples [usecs] 12 3000 40000 98765432",
		"getattr                   13 samples [usecs] 1 900 5000 98765"))
	r.must(1)
	r.wants(map[string][]float64{"lustre_close": {0}, "lustre_getattr": {1}})
}

// A second file system is mounted, and both are unmounted later. An interval in which a mount came has no sum.
func TestMountsComeAndGo(t *testing.T) {
	cfg := machineOf(t, "bare")
	first := filepath.Join(cfg.ProcPath, "fs/lustre/llite/first-ffff000000000001")
	if err := os.MkdirAll(first, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(first, "stats"), llite("open 5 samples [regs]"))
	r := try(t, lustre(), cfg)
	r.must(1)
	dir := filepath.Join(cfg.ProcPath, "fs/lustre/llite/late-ffff000000000002")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "stats"), llite("open 70 samples [regs]"))
	r.must(6)
	r.wants(map[string][]float64{})
	write(t, filepath.Join(dir, "stats"), llite("open 75 samples [regs]"))
	r.must(1)
	r.wants(map[string][]float64{
		"lustre_read_bw": {0}, "lustre_write_bw": {0}, "lustre_read_ops": {0}, "lustre_write_ops": {0},
		"lustre_open": {0.5}, "lustre_close": {0}, "lustre_getattr": {0},
	})
	if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	lose(t, "late-ffff")
	if err := r.take(); err == nil || !strings.Contains(err.Error(), "late-ffff") {
		t.Errorf("a mount that is gone: %v", err)
	}
	for range 3 {
		_ = r.take()
	}
	if err := r.take(); !errors.Is(err, errNoLustre) {
		t.Errorf("without a mount: %v", err)
	}
}

// A file system is mounted anew. What the new mount did before it was found is no work of the interval.
func TestMountsChangePlaces(t *testing.T) {
	cfg := machineOf(t, "amd")
	r := try(t, lustre(), cfg)
	r.must(1)
	dir := filepath.Join(cfg.SysPath, "kernel/debug/lustre/llite")
	anew := filepath.Join(dir, "work-ffff8f3c5a0e0000")
	if err := os.Rename(filepath.Join(dir, "work-ffff8f3c5a0e7800"), anew); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(anew, "stats"), llite(
		"read_bytes                9000 samples [bytes] 1 1048576 990000000", "open 4000 samples [regs]"))
	lose(t, "llite")
	for range 3 {
		_ = r.take() // an error, until it is time to look
	}
	r.must(1)
	r.wants(map[string][]float64{
		"lustre_read_bw": {0}, "lustre_write_bw": {0}, "lustre_read_ops": {0}, "lustre_write_ops": {0},
		"lustre_open": {0}, "lustre_close": {0}, "lustre_getattr": {0},
	})
	if r.to[0][0] == 1 {
		t.Error("the new mount passes for the old one")
	}
}

// An agent that may not enter debugfs says so, and how to let it in.
func TestLustreWithoutRights(t *testing.T) {
	cfg := machineOf(t, "amd")
	debugfs := filepath.Join(cfg.SysPath, "kernel/debug")
	if err := os.Chmod(debugfs, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(debugfs, 0o755) }) // so that anybody can remove it
	asNobody(t, func() {
		_, err := openLustre(cfg, slog.New(slog.DiscardHandler))
		if !errors.Is(err, errDebugfs) || !strings.Contains(err.Error(), "mount -o remount") {
			t.Errorf("a mount, and no rights: %v", err)
		}
	})
	if err := os.RemoveAll(filepath.Join(cfg.SysPath, "fs")); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		if _, err := openLustre(cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, errNoLustre) {
			t.Errorf("no mount, and no rights: %v", err)
		}
	})
}

func TestParseLliteRefuses(t *testing.T) {
	for _, text := range []string{
		"", "\n", "open 5 samples [regs]\n", "snapshot_time 1.2 secs.nsecs\nopen 5 samples [re", // cut
		llite("open x samples [regs]"), llite("open 5 [regs]"), llite("open"), llite("open 5 samples [regs"),
		llite("read_bytes 5 samples [bytes]"), llite("read_bytes 5 samples [bytes] 0 1"),
		strings.TrimSuffix(llite("read_bytes 5 samples [bytes] 0 1 4096"), "\n"), // the sum was 409600
		llite("open 99999999999999999999999 samples [regs]"), "\x00\x01\x02\n",
	} {
		if row, err := parseLlite(nil, []byte(text), new([lliteNumbers]bool)); err == nil {
			t.Errorf("parseLlite(%q) = %v, want an error", text, row)
		}
	}
}

// What a file says is in the row, or the file is refused. No other line of the file changes that.
func FuzzParseLlite(f *testing.F) {
	f.Add([]byte(llite("read_bytes 12 samples [bytes] 4096 1048576 8392704", "open 3 samples [regs]")))
	f.Add([]byte(llite("getattr 3 samples [usecs] 1 2 3 4")))
	f.Fuzz(func(t *testing.T, text []byte) {
		var seen [lliteNumbers]bool
		row, err := parseLlite([]uint64{7}, text, &seen)
		if err != nil {
			return
		}
		if len(row) != 1+lliteNumbers || row[0] != 7 {
			t.Fatalf("row %v", row)
		}
		again, err := parseLlite([]uint64{7}, append(text, "other 1 samples [regs]\n"...), &seen)
		if err != nil || cmp.Diff(row, again) != "" {
			t.Fatalf("row %v, then %v (%v)", row, again, err)
		}
		out := make([]float64, lliteNumbers)
		formLustre(row, again, time.Second, out)
		for _, v := range out {
			if v < 0 {
				t.Fatalf("rates %v", out)
			}
		}
	})
}

func TestLustreIsSteady(t *testing.T) { try(t, lustre(), machineOf(t, "intel")).steady() }

func BenchmarkLustre(b *testing.B) {
	r := try(b, lustre(), machineOf(b, "intel"))
	b.ReportAllocs()
	for b.Loop() {
		r.ms -= 10_000
		r.must(1)
	}
}

// A file of Lustre that hangs costs the values of Lustre, and those of nothing else.
func TestLustreThatHangs(t *testing.T) {
	cfg := machineOf(t, "intel")
	stats := filepath.Join(cfg.ProcPath, "fs/lustre/llite/home-ffff9d1c4a3f8800/stats")
	if err := os.Remove(stats); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(stats, 0o644); err != nil { // opening it waits for somebody who writes
		t.Skip("no named pipe here:", err)
	}
	h := Open(cfg, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if w, err := os.OpenFile(stats, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			_ = w.Close() // the reader goes on
		}
		h.Close()
	})
	for range 2 {
		h.Read(Vitals{Interval: time.Minute}) // the others have a second, also on a busy machine
	}
	_, columns := h.Interval(time.Second)
	if valuesOf(columns, "lustre_open") != nil {
		t.Error("Lustre has values")
	}
	for _, name := range []string{"ic_read_bw", "temperature_max", "node_power"} {
		if valuesOf(columns, name) == nil {
			t.Errorf("%s is missing", name)
		}
	}
	if late := valuesOf(columns, lateMetric); len(late) != 1 || late[0] != 1 {
		t.Errorf("%v sources are late, want 1", late)
	}
}
