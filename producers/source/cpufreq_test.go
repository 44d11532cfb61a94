package source

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCPUFreq(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, cpufreq(), cfg)
	r.must(1)
	replace(t, cfg.SysPath, "devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3700125\n")
	replace(t, cfg.SysPath, "devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "<unknown>\n")
	replace(t, cfg.SysPath, "devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "0\n")
	r.must(1)
	r.wants(map[string][]float64{"clock_cpufreq": {2.4e9, 3.700125e9, nan, nan, 2.404e9, 2.405e9, 2.406e9, 2.407e9}})
}

// CPU 7 goes offline with its file, and comes back.
func TestClocksComeAndGo(t *testing.T) {
	cfg := machineOf(t, "intel")
	r := try(t, cpufreq(), cfg)
	r.follow([]int{0, 1, 2, 3, 4, 5, 6, 7})
	r.must(2)
	dir := filepath.Join(cfg.SysPath, "devices/system/cpu/cpu7/cpufreq")
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	lose(t, "cpu7/cpufreq.gone")
	r.follow([]int{0, 1, 2, 3, 4, 5, 6})
	r.must(3)
	r.wants(map[string][]float64{"clock_cpufreq": {2.4e9, 2.401e9, 2.402e9, 2.403e9, 2.404e9, 2.405e9, 2.406e9}})
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	r.follow([]int{0, 1, 2, 3, 4, 5, 6, 7})
	r.must(3)
	r.wants(map[string][]float64{
		"clock_cpufreq": {2.4e9, 2.401e9, 2.402e9, 2.403e9, 2.404e9, 2.405e9, 2.406e9, 2.407e9},
	})
}

// A kernel that stops at each CPU for its clock is not asked, whatever the other sources cost.
func TestSlowClockIsLeftAlone(t *testing.T) {
	err := quick([]time.Duration{12 * time.Millisecond, 11 * time.Millisecond, 13 * time.Millisecond})
	if !errors.Is(err, errSlowClock) {
		t.Errorf("12 ms a CPU: %v", err)
	}
	if err = quick([]time.Duration{12 * time.Millisecond, 4 * time.Microsecond, 13 * time.Millisecond}); err != nil {
		t.Errorf("4 us a CPU, and a busy machine: %v", err)
	}
}

func TestCPUFreqIsSteady(t *testing.T) { try(t, cpufreq(), machineOf(t, "intel")).steady() }
