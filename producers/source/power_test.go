package source

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
)

// Ten seconds pass by our clock, and 9.9 by the controller's.
func TestCray(t *testing.T) {
	cfg := machineOf(t, "cray")
	r := try(t, power(), cfg)
	r.must(1)
	put := func(name, format string, v ...any) {
		replace(t, cfg.SysPath, "cray/pm_counters/"+name, fmt.Sprintf(format, v...)+"\n")
	}
	put("freshness", "5099")
	put("energy", "1003564 J 1700659210000000 us")    // + 3,564 J in 9.9 s
	put("power", "500 W 1700659210000000 us")         // of this moment alone
	put("cpu_energy", "301287 J 1700659210000000 us") // + 1,287 J
	put("cpu_power", "200 W 1700659210000000 us")
	put("memory_power", "43 W 1700659210000000 us") // without an energy
	r.must(1)
	r.wants(map[string][]float64{
		"node_power":     {360}, // 3,564 / 9.9
		"node_cpu_power": {130}, // 1,287 / 9.9
		"node_mem_power": {43},
	})

	// The controller stands still: what its files show is not of this interval.
	put("energy", "1009999 J 1700659219000000 us")
	r.must(1)
	r.wants(map[string][]float64{})

	// It began anew, and one of its files is garbled.
	put("freshness", "3")
	put("energy", "12 J 1700659229000000 us")
	put("cpu_energy", "301300 J")
	put("memory_power", "43 mW 1700659229000000 us")
	r.must(1)
	r.wants(map[string][]float64{"node_cpu_power": {1.3}}) // 13 J in our 10 s: it tells no time
}

// Old controllers have no times, and no freshness.
func TestCrayWithoutTimes(t *testing.T) {
	cfg := machineOf(t, "cray")
	if err := os.Remove(filepath.Join(cfg.SysPath, "cray/pm_counters/freshness")); err != nil {
		t.Fatal(err)
	}
	replace(t, cfg.SysPath, "cray/pm_counters/energy", "1000 J\n")
	r := try(t, power(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, "cray/pm_counters/energy", "4500 J\n")
	r.must(1)
	r.wants(map[string][]float64{"node_power": {350}, "node_mem_power": {41}}) // 3,500 / 10
}

func TestParseCray(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		v, at      uint64
	}{
		{"356 W 1700659200123456 us\n", "W", 356, 1700659200123456},
		{"356 W\n", "W", 356, unread},
		{"1000 J 1700659200123456 us", "J", 1000, 1700659200123456},
		{"5000\n", "", 5000, unread},
		{"356 J 1700659200123456 us\n", "W", unread, unread}, // another unit
		{"356 W 1700659200123456 ms\n", "W", unread, unread},
		{"356 W 17006592", "W", unread, unread},
		{"W\n", "W", unread, unread},
		{"", "W", unread, unread},
		{"-3 W 17 us\n", "W", unread, unread},
		{"\xff\x00", "", unread, unread},
	} {
		if v, at := parseCray([]byte(c.text), c.unit); v != c.v || at != c.at {
			t.Errorf("parseCray(%q, %q) = %d, %d, want %d, %d", c.text, c.unit, v, at, c.v, c.at)
		}
	}
}

// For any two files the power is missing or positive.
func FuzzCray(f *testing.F) {
	f.Add([]byte("1000 J 1700659200123456 us\n"), []byte("1003564 J 1700659210000000 us\n"))
	f.Add([]byte("1000 J\n"), []byte("900 J\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		from, to := []uint64{1}, []uint64{2}
		for range 3 {
			v, at := parseCray(a, "J")
			from = append(from, v, at, unread)
			v, at = parseCray(b, "J")
			to = append(to, v, at, unread)
		}
		out := []float64{nan, nan, nan}
		formCray(from, to, 10*time.Second, out)
		for _, v := range out {
			if v <= 0 {
				t.Fatalf("%g W", v)
			}
		}
	})
}

func TestMeter(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, power(), cfg)
	r.must(2)
	r.wants(map[string][]float64{"node_power": {412}}) // 412,000,000 microwatts
	replace(t, cfg.SysPath, "class/hwmon/hwmon3/device/power1_average", "0\n")
	r.must(1)
	r.wants(map[string][]float64{})
	if len(r.absent) != 2 || r.absent["node_cpu_power"] == nil {
		t.Errorf("absent: %v, want what only Cray measures", r.absent)
	}
}

// NVIDIA's Grace measures its module, and parts of it once more.
func TestMetersOfGrace(t *testing.T) {
	dir := t.TempDir()
	for i, m := range []struct {
		info       string
		microwatts int
	}{
		{"Module Power Socket 0", 560_000_000},
		{"Grace Power Socket 0", 200_000_000},
		{"CPU Power Socket 0", 150_000_000},
		{"SysIO Power Socket 0", 20_000_000},
		{"Module Power Socket 1", 440_000_000},
	} {
		device := filepath.Join(dir, fmt.Sprintf("class/hwmon/hwmon%d/device", i))
		if err := os.MkdirAll(device, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(device, "../name"), "power_meter\n")
		write(t, filepath.Join(device, "power1_oem_info"), m.info+"\n")
		write(t, filepath.Join(device, "power1_average"), fmt.Sprintln(m.microwatts))
	}
	cfg := config.Agent{SysPath: dir}
	r := try(t, power(), cfg)
	r.must(2)
	r.wants(map[string][]float64{"node_power": {1000}}) // 560 + 440

	// Meters that do not tell what they measure are not added up.
	for _, i := range []int{0, 4} {
		write(t, filepath.Join(dir, fmt.Sprintf("class/hwmon/hwmon%d/device/power1_oem_info", i)), "\n")
	}
	if _, err := openPower(cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, errManyMeters) {
		t.Errorf("meters of unknown parts: %v", err)
	}
}

func TestPowerIsSteady(t *testing.T) {
	try(t, power(), machineOf(t, "cray")).steady()
	try(t, power(), machineOf(t, "intel")).steady()
}

func BenchmarkCray(b *testing.B) {
	r := try(b, power(), machineOf(b, "cray"))
	b.ReportAllocs()
	for b.Loop() {
		r.must(1)
	}
}
