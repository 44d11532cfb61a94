package source

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
)

// Even CPUs are on package 0, odd ones on package 1. CPUs 0 and 4 are the threads of core 0, 2 and 6 those of core 5.
func TestTemperature(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, temperature(), cfg)
	r.must(2)
	r.wants(map[string][]float64{"temperature": {65, 58, 70, 59, 65, 58, 70, 59}})
	replace(t, cfg.SysPath, "class/hwmon/hwmon1/temp2_input", "66500\n")
	replace(t, cfg.SysPath, "class/hwmon/hwmon2/temp7_input", "-5250\n")
	replace(t, cfg.SysPath, "class/hwmon/hwmon2/temp2_input", "garbage\n")
	r.must(1)
	r.wants(map[string][]float64{"temperature": {66.5, nan, 70, -5.25, 66.5, nan, 70, -5.25}})
}

func TestTemperatureMax(t *testing.T) {
	intel := machineOf(t, "intel")
	r := try(t, temperatureMax(), intel)
	r.must(2)
	r.wants(map[string][]float64{"temperature_max": {71}}) // of package 0; a disk is no processor
	replace(t, intel.SysPath, "class/hwmon/hwmon2/temp1_input", "80000\n")
	r.must(1)
	r.wants(map[string][]float64{"temperature_max": {80}})
	replace(t, intel.SysPath, "class/hwmon/hwmon1/temp1_input", "")
	r.must(1)
	r.wants(map[string][]float64{}) // the other package may be hotter

	// The first processor's Tctl is 75. The second one has Tdie of 65.125, so its Tctl of 92.125 is for the fan.
	r = try(t, temperatureMax(), machineOf(t, "amd"))
	r.must(2)
	r.wants(map[string][]float64{"temperature_max": {75}})
}

// AMD's processors have no sensor of a core.
func TestNoTemperatureOfCores(t *testing.T) {
	if _, err := openTemperature(machineOf(t, "amd"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("there are temperatures of cores")
	}
}

// The last core of package 1 goes offline with its sensor, and comes back.
func TestCoresComeAndGo(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, temperature(), cfg)
	r.follow([]int{0, 1, 2, 3, 4, 5, 6, 7})
	r.must(2)
	input := filepath.Join(cfg.SysPath, "class/hwmon/hwmon2/temp7_input")
	if err := os.Rename(input, input+".gone"); err != nil {
		t.Fatal(err)
	}
	lose(t, "hwmon2/temp7_input")
	r.must(1)
	r.wants(map[string][]float64{"temperature": {65, 58, 70, nan, 65, 58, 70, nan}})
	r.follow([]int{0, 1, 2, 4, 5, 6})
	r.must(3)
	r.wants(map[string][]float64{"temperature": {65, 58, 70, 65, 58, 70}})
	if err := os.Rename(input+".gone", input); err != nil {
		t.Fatal(err)
	}
	r.follow([]int{0, 1, 2, 3, 4, 5, 6, 7})
	r.must(3)
	r.wants(map[string][]float64{"temperature": {65, 58, 70, 59, 65, 58, 70, 59}})
}

func TestParseCelsius(t *testing.T) {
	for text, want := range map[string]float64{
		"38850\n": 38.85, "0\n": 0, "-5000\n": -5, "250000": 250,
		"": nan, "-\n": nan, "hot\n": nan, "2147483647\n": nan, "-273150\n": nan, "1 2\n": nan, "--5\n": nan,
	} {
		if diff := cmp.Diff(want, parseCelsius([]byte(text)), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("parseCelsius(%q) (-want +got):\n%s", text, diff)
		}
	}
}

func FuzzParseCelsius(f *testing.F) {
	f.Add([]byte("38850\n"))
	f.Add([]byte("-5000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c := parseCelsius(text); c < -100 || c > 250 {
			t.Fatalf("%g degrees", c)
		}
	})
}

func TestTemperatureIsSteady(t *testing.T) {
	cfg := machineOf(t, "intel")
	try(t, temperature(), cfg).steady()
	try(t, temperatureMax(), cfg).steady()
}

// big is a node of two sockets with 64 cores each.
func big(t testing.TB) config.Agent {
	dir := t.TempDir()
	put := func(path, format string, v ...any) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, format+"\n", v...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for cpu := range 128 {
		socket, core := cpu/64, cpu%64
		put(fmt.Sprintf("devices/system/cpu/cpu%d/topology/physical_package_id", cpu), "%d", socket)
		put(fmt.Sprintf("devices/system/cpu/cpu%d/topology/core_id", cpu), "%d", core)
		put(fmt.Sprintf("devices/system/cpu/cpu%d/topology/core_siblings_list", cpu), "%d-%d", socket*64, socket*64+63)
		put(fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu), "%d", cpu)
		put(fmt.Sprintf("devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu), "%d", 2_400_000+cpu)
		chip := fmt.Sprintf("class/hwmon/hwmon%d/", socket)
		put(chip+"name", "coretemp")
		put(chip+"temp1_label", "Package id %d", socket)
		put(chip+"temp1_input", "71000")
		put(chip+fmt.Sprintf("temp%d_label", core+2), "Core %d", core)
		put(chip+fmt.Sprintf("temp%d_input", core+2), "%d", 40_000+cpu)
	}
	return config.Agent{SysPath: dir}
}

func BenchmarkTemperature128(b *testing.B) {
	r := try(b, temperature(), big(b))
	b.ReportAllocs()
	for b.Loop() {
		r.ms -= 10_000
		r.must(1)
	}
	if math.IsNaN(math.Float64frombits(r.to[127][0])) {
		b.Fatal("no temperature of CPU 127")
	}
}

func BenchmarkCPUFreq128(b *testing.B) {
	r := try(b, cpufreq(), big(b))
	b.ReportAllocs()
	for b.Loop() {
		r.ms -= 10_000
		r.must(1)
	}
}

// TestTopologyByBoth: cores and packages by procfs are those of the files, on a fixture and on this machine.
func TestTopologyByBoth(t *testing.T) {
	for name, sysPath := range map[string]string{"intel": machineOf(t, "intel").SysPath, "this machine": "/sys"} {
		want := map[core][]int{}
		for cpu := range 4096 {
			dir := filepath.Join(sysPath, fmt.Sprintf("devices/system/cpu/cpu%d/topology", cpu))
			socket, err1 := strconv.Atoi(textOf(filepath.Join(dir, "physical_package_id")))
			number, err2 := strconv.Atoi(textOf(filepath.Join(dir, "core_id")))
			if err1 == nil && err2 == nil {
				want[core{socket, number}] = append(want[core{socket, number}], cpu)
				if got, err := socketOf(sysPath, cpu); err != nil || got != socket {
					t.Errorf("%s: CPU %d is on package %d, %v; want %d", name, cpu, got, err, socket)
				}
			}
		}
		got := coresOf(sysPath)
		for _, cpus := range got {
			slices.Sort(cpus)
		}
		if !maps.EqualFunc(got, want, slices.Equal[[]int]) || name == "intel" && len(want) != 4 {
			t.Errorf("%s: cores %v, want %v", name, got, want)
		}
	}
}
