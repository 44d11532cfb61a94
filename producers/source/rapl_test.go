package source

import (
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/procfs/sysfs"

	"github.com/weirhpc/weir/config"
)

const powercap = "class/powercap/"

// Ten seconds pass. The zones are numbered otherwise than the packages, and the energy of package 1 wraps.
func TestRAPL(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, rapl(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, powercap+"intel-rapl:0/energy_uj", "3856671150\n")    // package 1
	replace(t, cfg.SysPath, powercap+"intel-rapl:0:0/energy_uj", "5300000000\n")  // + 300 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:1/energy_uj", "12500000000\n")   // package 0: + 2,500 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:1:0/energy_uj", "7200000000\n")  // + 200 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:1:1/energy_uj", "2800000000\n")  // + 1,800 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:2/energy_uj", "99000000000\n")   // psys
	replace(t, cfg.SysPath, powercap+"intel-rapl-mmio:0/energy_uj", "99000000\n") // the same as intel-rapl:1
	r.must(1)
	r.wants(map[string][]float64{
		// 2,500 J / 10 s. 262,143.32885 - 262,000 + 3,856.67115 = 4,000 J.
		"cpu_power":  {250, 400},
		"core_power": {180, nan}, // package 1 has no such zone
		"mem_power":  {20, 30},
	})
	r.must(1) // a processor that draws nothing does not measure
	r.wants(map[string][]float64{})
}

// procfs is the oracle: it reads the same files with another parser.
func TestRAPLAgreesWithProcfs(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, rapl(), cfg)
	r.must(1)
	fs, err := sysfs.NewFS(cfg.SysPath)
	if err != nil {
		t.Fatal(err)
	}
	zones, err := sysfs.GetRaplZones(fs)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, z := range zones {
		energy, err := z.GetEnergyMicrojoules()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range r.to {
			for i := 0; i < len(row); i += 3 {
				if row[i+1] == energy && row[i+2] == z.MaxMicrojoules {
					found++
				}
			}
		}
	}
	if found != 5+1 { // intel-rapl-mmio shows package 0 once more
		t.Errorf("%d of the zones of procfs are ours, want 6: %v and %v", found, zones, r.to)
	}
}

func TestRAPLOfAMD(t *testing.T) {
	cfg := machineOf(t, "amd")
	r := try(t, rapl(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, powercap+"intel-rapl:0/energy_uj", "1501000000\n")   // 1 J + 1,500 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:0:0/energy_uj", "902000000\n")  // 2 J + 900 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:1/energy_uj", "1467389013\n")   // wraps
	replace(t, cfg.SysPath, powercap+"intel-rapl:1:0/energy_uj", "1003000000\n") // 3 J + 1,000 J
	r.must(1)
	r.wants(map[string][]float64{
		// 65,532.610987 - 65,000 + 1,467.389013 = 2,000 J
		"cpu_power":  {150, 200},
		"core_power": {90, 100},
	})
	if err := r.absent["mem_power"]; err == nil || len(r.absent) != 1 {
		t.Errorf("absent: %v, want mem_power alone", r.absent)
	}
}

// A package of two dies has a zone for each.
func TestRAPLOfDies(t *testing.T) {
	cfg := machineOf(t, "amd")
	replace(t, cfg.SysPath, powercap+"intel-rapl:0/name", "package-1-die-0\n")
	replace(t, cfg.SysPath, powercap+"intel-rapl:1/name", "package-1-die-1\n")
	r := try(t, rapl(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, powercap+"intel-rapl:0/energy_uj", "1001000000\n")  // + 1,000 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:1/energy_uj", "65500000000\n") // + 500 J
	r.must(1)
	r.wants(map[string][]float64{"cpu_power": {150}}) // of package 1, the only one
}

func TestUsedEnergy(t *testing.T) {
	const span = 262143328850
	for name, c := range map[string]struct {
		from, to, span uint64
		seconds        int
		want           float64
	}{
		"grows":                     {1000, 5001000, span, 10, 5000000},
		"wraps":                     {span - 1000, 500, span, 10, 1500},
		"stands":                    {7, 7, span, 10, 0},
		"began anew":                {10_000_000_000, 5000, span, 10, nan}, // 252 kJ in 10 s would be 25 kW
		"began anew beyond its end": {span + 5, 0, span, 10, nan},
		"may have wrapped unseen":   {1000, 2000, span, 300, nan}, // 262 kJ are 874 W for 300 s
		"no span":                   {1000, 2000, 0, 10, nan},
		"not read":                  {unread, 2000, span, 10, nan},
		"no longer read":            {1000, unread, span, 10, nan},
	} {
		got := usedEnergy(c.from, c.to, c.span, time.Duration(c.seconds)*time.Second)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzUsedEnergy(f *testing.F) {
	f.Add(uint64(1000), uint64(5000), uint64(262143328850), int64(10e9))
	f.Add(uint64(262143328000), uint64(5000), uint64(262143328850), int64(10e9))
	f.Fuzz(func(t *testing.T, from, to, span uint64, nanos int64) {
		used := usedEnergy(from, to, span, time.Duration(nanos))
		if nanos > 0 && (used < 0 || to < from && used > maxZoneWatts*1e6*time.Duration(nanos).Seconds()) {
			t.Fatalf("%g microjoules", used)
		}
	})
}

// Energy that only root may read is absent, and the reason names the remedy.
func TestRAPLWithoutRights(t *testing.T) {
	cfg := machineOf(t, "intel")
	if err := os.Chmod(filepath.Join(cfg.SysPath, powercap, "intel-rapl:0/energy_uj"), 0); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		_, err := openRAPL(cfg, slog.New(slog.DiscardHandler))
		if !errors.Is(err, errRAPLRights) || !strings.Contains(err.Error(), "intel-rapl:0") ||
			!strings.Contains(err.Error(), "udev") {
			t.Errorf("open without rights: %v", err)
		}
	})
}

// A reading is missing while a zone does not answer. The others stay what they are when it is back.
func TestZoneIsGoneAndBack(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, rapl(), cfg)
	r.must(2)
	lose(t, "intel-rapl:1/energy_uj")
	if err := r.take(); err == nil || !strings.Contains(err.Error(), "intel-rapl:1") {
		t.Errorf("a zone that is gone: %v", err)
	}
	r.must(2)
	replace(t, cfg.SysPath, powercap+"intel-rapl:1/energy_uj", "11000000000\n")
	r.must(1)
	r.wants(map[string][]float64{"cpu_power": {100, nan}})
}

func TestRAPLWithGarbledFiles(t *testing.T) {
	cfg := machineOf(t, "intel")
	replace(t, cfg.SysPath, powercap+"intel-rapl:1:0/max_energy_range_uj", "many\n")
	replace(t, cfg.SysPath, powercap+"intel-rapl:1:1/energy_uj", "<none>\n")
	r := try(t, rapl(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, powercap+"intel-rapl:0/energy_uj", "")
	replace(t, cfg.SysPath, powercap+"intel-rapl:0:0/energy_uj", "53x\n")
	replace(t, cfg.SysPath, powercap+"intel-rapl:1/energy_uj", "12500000000\n")
	replace(t, cfg.SysPath, powercap+"intel-rapl:1:0/energy_uj", "7200000000\n")
	replace(t, cfg.SysPath, powercap+"intel-rapl:1:1/energy_uj", "2800000000\n")
	r.must(1)
	r.wants(map[string][]float64{"cpu_power": {250, nan}})
}

// A zone that the processor cannot tell costs the others nothing.
func TestZoneThatCannotBeRead(t *testing.T) {
	cfg := machineOf(t, "amd")
	energy := filepath.Join(cfg.SysPath, powercap, "intel-rapl:0:0/energy_uj")
	if err := os.Remove(energy); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(energy, 0o755); err != nil { // every read of it fails
		t.Fatal(err)
	}
	r := try(t, rapl(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, powercap+"intel-rapl:0/energy_uj", "1001000000\n")  // + 1,000 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:1/energy_uj", "65500000000\n") // + 500 J
	replace(t, cfg.SysPath, powercap+"intel-rapl:1:0/energy_uj", "203000000\n") // + 200 J
	r.must(1)
	r.wants(map[string][]float64{"cpu_power": {100, 50}, "core_power": {nan, 20}})
}

func TestPackageOf(t *testing.T) {
	for name, want := range map[string]int{
		"package-0": 0, "package-17": 17, "package-1-die-3": 1, "": -1, "package": -1, "package-": -1, "package--1": -1,
		"package-x": -1, "package-1x": -1, "package-1024": -1, "package-99999999999": -1, "dram": -1, "psys": -1,
	} {
		got, ok := packageOf(name)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("packageOf(%q) = %d, want %d", name, got, want)
		}
	}
}

func FuzzPackageOf(f *testing.F) {
	f.Add("package-1-die-0")
	f.Fuzz(func(t *testing.T, name string) {
		socket, ok := packageOf(name)
		if ok && (socket < 0 || socket >= maxSockets || !strings.HasPrefix(name, "package-")) {
			t.Fatalf("%q is package %d", name, socket)
		}
	})
}

func TestRAPLOfThisMachine(t *testing.T) {
	p, err := openRAPL(config.Agent{SysPath: "/sys"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Skip("no RAPL here:", err)
	}
	defer p.close()
	from, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for time.Since(begin) < 100*time.Millisecond { // some work to measure
		_ = math.Sqrt(2)
	}
	to, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range to {
		out := []float64{nan, nan, nan}
		p.form(from[i], to[i], time.Since(begin), out)
		t.Logf("package %d: %v W", i, out)
		if out[0] < 0 || out[0] > 1000 {
			t.Errorf("package %d draws %g W", i, out[0])
		}
	}
}

func TestRAPLIsSteady(t *testing.T) { try(t, rapl(), machineOf(t, "intel")).steady() }

func BenchmarkRAPL(b *testing.B) {
	r := try(b, rapl(), machineOf(b, "intel"))
	b.ReportAllocs()
	for b.Loop() {
		r.ms -= 10_000
		r.must(1)
	}
}
