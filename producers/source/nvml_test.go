//go:build linux && (amd64 || arm64) && !static

package source

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// stub is a library that answers like NVIDIA's, by what a test sets.
type stub struct {
	t      testing.TB
	path   string
	set    func(key string, gpu int32, value uint64)
	number func(function string) int32
}

// newStub compiles testdata/nvml/stub.c. Each test has a library of its own.
func newStub(t testing.TB, flags ...string) *stub {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("NVML TEST SKIPPED: gcc is missing, so the stub of NVIDIA's library cannot be built:", err)
	}
	s := &stub{t: t, path: filepath.Join(t.TempDir(), nvmlLibrary)}
	args := append([]string{"-shared", "-fPIC", "-O1", "-Wall", "-o", s.path, "testdata/nvml/stub.c"}, flags...)
	if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	library, err := purego.Dlopen(s.path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	purego.RegisterLibFunc(&s.set, library, "stub_set")
	s.number = func(function string) (n int32) {
		var f func() int32
		purego.RegisterLibFunc(&f, library, function)
		return f()
	}
	return s
}

// each sets values of one GPU.
func (s *stub) each(gpu int32, values map[string]uint64) {
	for key, v := range values {
		s.set(key, gpu, v)
	}
}

func (s *stub) open(log *slog.Logger) probe {
	s.t.Helper()
	p, err := openNVML(s.path, config.Agent{}, log)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.close)
	return p
}

// formedGPU returns the metrics of a row by name, without those that are missing.
func formedGPU(p probe, from, to []uint64, elapsed time.Duration) map[string]float64 {
	out := make([]float64, len(nvml().metrics))
	for k := range out {
		out[k] = math.NaN()
	}
	p.form(from, to, elapsed, out)
	all := map[string]float64{}
	for k, m := range nvml().metrics {
		if !math.IsNaN(out[k]) {
			all[m.name] = out[k]
		}
	}
	return all
}

// clone copies a reading, since the next one takes its storage.
func clone(r reading) reading {
	c := slices.Clone(r)
	for i := range c {
		c[i] = slices.Clone(c[i])
	}
	return c
}

// read2 takes a reading, changes what the GPUs have counted, and takes the next one.
func read2(t *testing.T, p probe, between func()) (from, to reading) {
	t.Helper()
	from, err := p.read(nil, Vitals{})
	if err != nil {
		t.Fatal(err)
	}
	from = clone(from)
	between()
	if to, err = p.read(nil, Vitals{}); err != nil {
		t.Fatal(err)
	}
	return from, to
}

// TestLayoutsOfNVML: the sizes are those that NVIDIA's header has on 64-bit Linux. A wrong one would let the library
// write beyond the end.
func TestLayoutsOfNVML(t *testing.T) {
	var o nvmlOut
	for name, size := range map[string][2]uintptr{
		"nvmlUtilization_t":    {unsafe.Sizeof(o.rates), 2 * 4},
		"nvmlMemory_t":         {unsafe.Sizeof(o.memory1), 3 * 8},
		"nvmlMemory_v2_t":      {unsafe.Sizeof(o.memory2), 4 + 4 + 4*8}, // four bytes of padding behind the version
		"nvmlFieldValue_t":     {unsafe.Sizeof(o.fields[0]), 2*4 + 2*8 + 2*4 + 8},
		"nvmlGpmSupport_t":     {unsafe.Sizeof(o.support), 2 * 4},
		"nvmlGpmMetric_t":      {unsafe.Sizeof(o.metrics.metrics[0]), 2*4 + 8 + 3*8},
		"nvmlGpmMetricsGet_t":  {unsafe.Sizeof(o.metrics), 2*4 + 2*8 + 333*40},
		"offset of used":       {unsafe.Offsetof(o.memory2.used), 32},
		"offset of nvmlReturn": {unsafe.Offsetof(o.fields[0].result), 28},
		"offset of value":      {unsafe.Offsetof(o.metrics.metrics[0].value), 8},
	} {
		if size[0] != size[1] {
			t.Errorf("%s: %d bytes, want %d", name, size[0], size[1])
		}
	}
}

// TestNVML: every metric of a GPU of Hopper, over ten seconds. The numbers are computed by hand.
func TestNVML(t *testing.T) {
	s := newStub(t)
	s.each(0, map[string]uint64{
		"gpu": 75, "memory": 40, "used": 8 << 30, "reserved": 1 << 30, "power": 999_000,
		"temperature": 61, "sm_clock": 1410,
		"compute": 2, "graphics": 1, "reasons": 0x20, // software thermal slowdown
		"energy": 5_000_000, "nvlink_tx": 1000, "nvlink_rx": 2000, "pcie_tx": 1 << 33, "pcie_rx": 1 << 34,
		"gpm_2": 80, "gpm_5": 50, "gpm_11": 1, "gpm_12": 20, "gpm_13": 0, "gpm_10": 35,
	})
	s.each(1, map[string]uint64{"minor": 5, "reasons": 0x01}) // idle
	p := s.open(slog.New(slog.DiscardHandler))
	from, to := read2(t, p, func() {
		s.each(0, map[string]uint64{
			"energy": 5_000_000 + 3_500_000, "nvlink_tx": 1000 + 4000, "nvlink_rx": 2000 + 20,
			"pcie_tx": 1<<33 + 3_000_000, "pcie_rx": 1<<34 + 50,
		})
	})
	if got := to.present(); !slices.Equal(got, []int{0, 5}) {
		t.Fatalf("GPUs %v are read, want 0 and 5: the numbers of their devices", got)
	}
	want := map[string]float64{
		"acc_utilization": 0.75, "acc_mem_utilization": 0.4, "acc_mem_used": 8 * 1024 * 1024 * 1024,
		"acc_power":       350, // 3,500,000 mJ = 3,500 J in 10 s, and not the 999 W of the instant
		"acc_temperature": 61, "acc_clock": 1.41e9, "acc_clock_limited": 1, "acc_processes": 3, "acc_idle": 0,
		"acc_pcie_tx":     300_000,    // 3,000,000 B in 10 s
		"acc_pcie_rx":     5,          // 50 B
		"acc_nvlink_tx":   400 * 1024, // 4,000 KiB
		"acc_nvlink_rx":   2 * 1024,   // 20 KiB
		"acc_sm_active":   0.8,        // 80 %
		"acc_dram_active": 0.35, "acc_tensor_active": 0.5, "acc_fp64_active": 0.01, "acc_fp32_active": 0.2,
		"acc_fp16_active": 0,
	}
	near := cmpopts.EquateApprox(0, 1e-9)
	if diff := cmp.Diff(want, formedGPU(p, from[0], to[0], 10*time.Second), near); diff != "" {
		t.Errorf("GPU 0 (-want +got):\n%s", diff)
	}
	got := formedGPU(p, from[5], to[5], 10*time.Second)
	if got["acc_idle"] != 1 || got["acc_clock_limited"] != 0 || got["acc_power"] != 0 {
		t.Errorf("GPU 5 is idle, and nothing limits its clock: %v", got)
	}
	if len(p.absent) > 0 {
		t.Errorf("absent: %v", p.absent)
	}
	for _, reasons := range []struct {
		bits    uint64
		limited float64
	}{
		{0, 0},
		{1, 0},
		{2, 0},
		{4, 1},
		{8, 1},
		{0x10, 0},
		{0x20, 1},
		{0x40, 1},
		{0x80, 1},
		{0x100, 0},
		{0x101, 0},
		{5, 1},
	} {
		to[0][gpuReasons] = reasons.bits
		if got := formedGPU(p, from[0], to[0], time.Second)["acc_clock_limited"]; got != reasons.limited {
			t.Errorf("reasons %#x: clock limited %v, want %v", reasons.bits, got, reasons.limited)
		}
	}
}

// TestNVMLIdle: a GPU is idle without a kernel and without a process. What is not known is not idle.
func TestNVMLIdle(t *testing.T) {
	for _, c := range []struct {
		utilization, processes uint64
		want                   float64
	}{{0, 0, 1}, {1, 0, 0}, {0, 1, 0}, {50, 3, 0}, {nvmlMissing, 0, math.NaN()}, {0, nvmlMissing, math.NaN()}} {
		row := make([]uint64, gpuFields)
		row[gpuUtilization], row[gpuProcesses] = c.utilization, c.processes
		got, there := formedGPU(probe{form: formNVML}, row, row, time.Second)["acc_idle"]
		if there == math.IsNaN(c.want) || there && got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestNVMLOfOldDrivers: a library that lacks functions gives what it has.
func TestNVMLOfOldDrivers(t *testing.T) {
	s := newStub(t, "-DOLD")
	s.each(0, map[string]uint64{"gpu": 10, "used": 100, "reserved": 11, "power": 250_500, "reasons": 4, "compute": 1})
	p := s.open(slog.New(slog.DiscardHandler))
	from, to := read2(t, p, func() {})
	want := map[string]float64{
		"acc_utilization": 0.1, "acc_mem_utilization": 0, "acc_mem_used": 111, "acc_power": 250.5, "acc_temperature": 0,
		"acc_clock": 0, "acc_clock_limited": 1, "acc_processes": 1, "acc_idle": 0,
	}
	if diff := cmp.Diff(want, formedGPU(p, from[0], to[0], time.Second), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(p.absent) != len(nvml().metrics)-len(want) || p.absent["acc_pcie_tx"] == nil ||
		!strings.Contains(p.absent["acc_sm_active"].Error(), "lacks the function") {
		t.Errorf("absent: %v", p.absent)
	}
}

// TestNVMLWhatAGPULacks: what a GPU does not support is absent, and never 0. acc_idle needs both of its inputs.
func TestNVMLWhatAGPULacks(t *testing.T) {
	s := newStub(t)
	for _, f := range []string{"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetTotalEnergyConsumption"} { // as under MIG
		s.set("error:"+f, -1, uint64(nvmlNotSupported))
	}
	s.set("error:nvlink", -1, uint64(nvmlNotSupported))
	s.set("pcie_type", -1, 1) // 32 bits
	s.set("gpm", -1, 0)
	s.set("power", -1, 70_000)
	p := s.open(slog.New(slog.DiscardHandler))
	from, to := read2(t, p, func() {})
	got := slices.Sorted(maps.Keys(formedGPU(p, from[0], to[0], time.Second)))
	want := []string{"acc_clock", "acc_clock_limited", "acc_mem_used", "acc_power", "acc_processes", "acc_temperature"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"acc_utilization": "not supported", "acc_idle": "not supported", "acc_nvlink_rx": "not supported",
		"acc_pcie_rx": "not supported", "acc_sm_active": "not supported",
	} {
		if err := p.absent[name]; err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNVMLByThePerformanceMonitor: GPUs whose counters of PCIe and NVLink cannot be read have the monitor's rates.
func TestNVMLByThePerformanceMonitor(t *testing.T) {
	s := newStub(t)
	s.each(-1, map[string]uint64{
		"error:nvlink": uint64(nvmlNotSupported), "pcie_type": 1, "gpm_20": 3, "gpm_21": 5, "gpm_60": 7, "gpm_61": 11,
	})
	p := s.open(slog.New(slog.DiscardHandler))
	from, to := read2(t, p, func() {})
	got := formedGPU(p, from[0], to[0], time.Second)
	for name, mebibytes := range map[string]float64{
		"acc_pcie_tx": 3, "acc_pcie_rx": 5, "acc_nvlink_rx": 7, "acc_nvlink_tx": 11,
	} {
		if got[name] != mebibytes*1024*1024 {
			t.Errorf("%s: %v, want %v MiB/s", name, got[name], mebibytes)
		}
	}
}

// TestNVMLCountersThatBeginAnew: a counter that went backwards has no rate.
func TestNVMLCountersThatBeginAnew(t *testing.T) {
	s := newStub(t)
	s.each(0, map[string]uint64{"energy": 500, "pcie_tx": 500, "power": 42_000})
	p := s.open(slog.New(slog.DiscardHandler))
	from, to := read2(t, p, func() { s.each(0, map[string]uint64{"energy": 100, "pcie_tx": 100}) })
	got := formedGPU(p, from[0], to[0], time.Second)
	if _, there := got["acc_pcie_tx"]; there || got["acc_power"] != 42 {
		t.Errorf("%v", got)
	}
}

// TestNVMLLosesAGPU: a GPU that falls off the bus has no row, is named once, and the others go on. When it is back, its
// rates begin with the second reading.
func TestNVMLLosesAGPU(t *testing.T) {
	s := newStub(t)
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	lib, err := loadNVML(s.path)
	if err != nil {
		t.Fatal(err)
	}
	gpus, err := lib.gpus()
	if err != nil {
		t.Fatal(err)
	}
	defer lib.close(gpus)
	d := &nvmlDevices{lib: lib, gpus: gpus, log: log}
	expect := func(what string, want ...int) {
		t.Helper()
		rows, err := d.read(nil, Vitals{})
		if got := rows.present(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: GPUs %v, %v, want %v", what, got, err, want)
		}
	}
	expect("at first", 0, 1)
	s.set("error", 1, uint64(nvmlLost))
	expect("one is lost", 0)
	expect("it stays lost", 0)
	s.set("error", 1, 0)
	expect("it is back, and is not asked yet", 0)
	d.gpus[1].lost = time.Now().Add(-2 * gpuRetry)
	expect("it is asked", 0, 1)
	text := logged.String()
	if strings.Count(text, "GPU does not answer") != 1 || strings.Count(text, "GPU answers again") != 1 ||
		!strings.Contains(text, "gpu=1") || !strings.Contains(text, "fallen off the bus") {
		t.Errorf("logged:\n%s", text)
	}
	for _, e := range []nvmlReturn{nvmlUninitialized, nvmlNotLoaded, nvmlMismatch} { // the driver is loaded anew
		s.set("error", 0, uint64(e))
		s.set("error", 1, uint64(e))
		if rows, err := d.read(nil, Vitals{}); err == nil || rows != nil || !errors.Is(err, nvmlError(e)) {
			t.Errorf("no GPU answers: %v, %v", rows, err)
		}
		for i := range d.gpus {
			d.gpus[i].lost = time.Time{}
		}
	}
}

// TestNVMLEndsWhatItBegan: closing frees the samples and shuts the library down, so that opening anew starts over.
func TestNVMLEndsWhatItBegan(t *testing.T) {
	s := newStub(t)
	for range 3 {
		p, err := openNVML(s.path, config.Agent{}, slog.New(slog.DiscardHandler))
		uses, samples := s.number("stub_initialized"), s.number("stub_allocated")
		if err != nil || uses != 1 || samples != 4 {
			t.Fatalf("%v: initialized %d times, %d samples", err, uses, samples)
		}
		p.close()
		if uses, samples := s.number("stub_initialized"), s.number("stub_allocated"); uses != 0 || samples != 0 {
			t.Errorf("still initialized %d times, %d samples are left", uses, samples)
		}
	}
}

// TestNVMLIsAbsent: the error says what the host lacks.
func TestNVMLIsAbsent(t *testing.T) {
	if _, err := openNVML("libnvidia-ml-of-nobody.so.1", config.Agent{}, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "libnvidia-ml-of-nobody.so.1") {
		t.Errorf("without a library: %v", err)
	}
	s := newStub(t)
	for _, c := range []struct {
		key   string
		value uint64
		want  string
	}{
		{"error:nvmlInit_v2", uint64(nvmlNotLoaded), "driver is not loaded"},
		{"error:nvmlInit_v2", uint64(nvmlMismatch), "restart the node"},
		{"error:nvmlInit_v2", 0, ""},
		{"error:nvmlDeviceGetHandleByIndex_v2", 4, "no permission"},
		{"error:nvmlDeviceGetHandleByIndex_v2", 0, ""},
		{"error", 999, "error 999"},
		{"error", 0, ""},
		{"count", 0, "the driver has no GPU"},
	} {
		s.set(c.key, -1, c.value)
		p, err := openNVML(s.path, config.Agent{}, slog.New(slog.DiscardHandler))
		if c.want == "" && err == nil {
			p.close()
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %d: %v, want %q", c.key, c.value, err, c.want)
		}
		if n := s.number("stub_initialized"); n != 0 {
			t.Errorf("%s = %d: the library is still in use, %d times", c.key, c.value, n)
		}
	}
}

// TestNVMLAllocatesNothing: the steady loop makes no garbage.
func TestNVMLAllocatesNothing(t *testing.T) {
	s := newStub(t)
	s.set("count", -1, 8)
	p := s.open(slog.New(slog.DiscardHandler))
	var into reading
	if n := testing.AllocsPerRun(100, func() {
		var err error
		if into, err = p.read(into, Vitals{}); err != nil {
			t.Fatal(err)
		}
	}); n > 0 && !poolsForget {
		t.Errorf("%v allocations a reading of 8 GPUs", n)
	}
	began := time.Now()
	for range 100 {
		_, _ = p.read(into, Vitals{})
	}
	t.Logf("%v a reading of 8 GPUs of the stub", time.Since(began)/100)
}

// TestNVMLHangs: a driver that sleeps costs the GPUs' values, and no other source's.
func TestNVMLHangs(t *testing.T) {
	s := newStub(t)
	log := slog.New(slog.DiscardHandler)
	h := openSources(config.Agent{ProcPath: "/proc"}, log, []source{
		stat(),
		{"nvml", schemas.ScopeGPU, nvmlLibrary, nvml().metrics, func(config.Agent, *slog.Logger) (probe, error) {
			return openNVML(s.path, config.Agent{}, log)
		}},
	})
	defer h.Close()
	defer s.set("hang", -1, 0)
	interval := func() map[string][]int32 {
		time.Sleep(50 * time.Millisecond) // some ticks of the kernel's, so that CPUs have shares of time
		boundary := time.Now()
		h.Read(Vitals{BoundaryMs: boundary.UnixMilli(), Interval: time.Minute}) // patience for a busy machine
		_, columns := h.Interval(time.Second)
		rows := map[string][]int32{}
		for _, c := range columns {
			rows[c.Name] = c.Rows
		}
		if d := time.Since(boundary); d > 10*time.Second {
			t.Fatalf("the reading took %v", d)
		}
		return rows
	}
	interval()
	if rows := interval(); !slices.Equal(rows["acc_power"], []int32{0, 1}) {
		t.Fatalf("GPUs %v", rows["acc_power"])
	}
	s.set("hang", -1, 1)
	for range 3 {
		rows := interval()
		if _, gpus := rows["acc_power"]; gpus {
			t.Error("a library that hangs has values")
		}
		if _, cpus := rows["cpu_idle"]; !cpus {
			t.Error("the CPUs' values are missing")
		}
	}
}

// TestNVMLOfThisHost reads the GPUs that there are.
func TestNVMLOfThisHost(t *testing.T) {
	p, err := openNVML(nvmlLibrary, config.Agent{}, slog.New(slog.DiscardHandler))
	if err != nil {
		if _, there := os.Stat("/dev/nvidiactl"); there == nil {
			t.Fatal(err)
		}
		t.Skip("GPU TEST SKIPPED: there is no GPU of NVIDIA here:", err)
	}
	defer p.close()
	from, to := read2(t, p, func() { time.Sleep(time.Second) })
	for _, n := range to.present() {
		got := formedGPU(p, from[n], to[n], time.Second)
		t.Logf("GPU %d: %v", n, got)
		for name, v := range got {
			if v < 0 || strings.HasSuffix(name, "_active") && v > 1 {
				t.Errorf("%s = %v", name, v)
			}
		}
	}
	t.Log("absent:", p.absent)
}

// TestNVMLReadsWhatIsMeasured: calls for fields that nobody measures are saved. The utilization is always read.
func TestNVMLReadsWhatIsMeasured(t *testing.T) {
	s := newStub(t)
	s.each(0, map[string]uint64{
		"gpu": 75, "memory": 40, "used": 8 << 30, "power": 200_000, "temperature": 61, "sm_clock": 1410,
		"energy": 5_000_000, "gpm_2": 80, "gpm_5": 50,
	})
	for _, c := range []struct{ keep, want []string }{
		{[]string{"acc_power"}, []string{"acc_mem_utilization", "acc_power", "acc_utilization"}},
		{[]string{"acc_temperature"}, []string{"acc_mem_utilization", "acc_temperature", "acc_utilization"}},
		{[]string{"acc_idle"}, []string{"acc_idle", "acc_mem_utilization", "acc_processes", "acc_utilization"}},
	} {
		p, err := openNVML(s.path, keeping(config.Agent{}, c.keep...), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.close)
		from, to := read2(t, p, func() { s.set("energy", 0, 6_000_000) })
		got := slices.Sorted(maps.Keys(formedGPU(p, from[0], to[0], 10*time.Second)))
		if !slices.Equal(got, c.want) {
			t.Errorf("with %q alone a GPU has %q, want %q", c.keep, got, c.want)
		}
	}
}

// TestReportOfGPUs: the metrics in a report of GPUs are formed again from its raw values.
func TestReportOfGPUs(t *testing.T) {
	s := newStub(t)
	of := nvml()
	of.open = func(cfg config.Agent, log *slog.Logger) (probe, error) { return openNVML(s.path, cfg, log) }
	cfg := config.Agent{ProcPath: "testdata/proc", SysPath: t.TempDir()}
	h := openSources(cfg, slog.New(slog.DiscardHandler), []source{stat(), of})
	defer h.Close()
	r := inTime(t, func() (*HardwareReport, error) { return h.report(t.Context(), time.Millisecond, func(int) {}) })
	if names := expectReplay(t, reportText(t, r)); !slices.Contains(names, "acc_power") {
		t.Errorf("metrics %s", names)
	}
}
