package source

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
)

// keeping restricts an agent to some metrics. Its node is no canary.
func keeping(cfg config.Agent, names ...string) config.Agent {
	cfg.List = &config.MetricList{Keep: names}
	return cfg
}

// namesOf reads a host twice, and returns the names of its columns.
func namesOf(t *testing.T, cfg config.Agent) (names, opened []string) {
	t.Helper()
	h := Open(cfg, slog.New(slog.DiscardHandler))
	defer h.Close()
	h.Read(Vitals{})
	write(t, filepath.Join(cfg.ProcPath, "stat"), "cpu0 425 4 200 3075 40 0 20 3 0 0\n") // a CPU of the fixture
	h.Read(Vitals{})
	write(t, filepath.Join(cfg.ProcPath, "stat"), "cpu0 325 4 200 2775 40 0 20 3 0 0\n")
	_, columns := h.Interval(10 * time.Second)
	for _, c := range columns {
		if !strings.HasPrefix(c.Name, "weir_") {
			names = append(names, c.Name)
		}
	}
	for _, p := range h.probes {
		opened = append(opened, p.source.name)
	}
	return names, opened
}

// TestRestrictedHost: a node has the metrics of its list and no other, and opens no source for the others. A canary
// has all, and so has a node without a list.
func TestRestrictedHost(t *testing.T) {
	cfg := config.Agent{ProcPath: procTree(t), Node: "n0001"}
	all, _ := namesOf(t, cfg)
	if len(all) < 10 {
		t.Fatalf("a node without a list has %q alone", all)
	}
	restricted := keeping(cfg, "cpu_idle", "mem_free", "none_of_weir")
	names, opened := namesOf(t, restricted)
	if diff := cmp.Diff([]string{"cpu_idle", "mem_free"}, names); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	want := []string{"stat", "memory", "clock", "synchrony", "agent", "agent_memory", "agent_sources", "report"}
	if diff := cmp.Diff(want, opened); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
	if not := NotOpened(restricted); slices.Contains(not, "memory") || !slices.Contains(not, "paging") {
		t.Errorf("not opened: %q", not)
	}
	// The CPUs that are online are told by the file of their states, whatever is measured of it.
	if _, opened := namesOf(t, keeping(cfg, "mem_free")); !slices.Contains(opened, "stat") {
		t.Error("without a metric of the CPU states nobody tells which CPUs are online")
	}
	restricted.List.Canary = 1
	if names, _ := namesOf(t, restricted); !slices.Equal(names, all) {
		t.Errorf("a canary has %q, want %q", names, all)
	}
}

// TestAbsentByTheList: what the list leaves out is absent for that reason, and costs nothing.
func TestAbsentByTheList(t *testing.T) {
	h := Open(keeping(config.Agent{ProcPath: procTree(t)}, "mem_free", "cpu_idle"), slog.New(slog.DiscardHandler))
	defer h.Close()
	costs, _, err := h.Costs(t.Context(), 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range costs {
		if c.Source == "memory" && (c.Metrics != 1 || len(c.Absent) != 0) || c.Source == "paging" {
			t.Errorf("costs %+v", c)
		}
	}
	_, columns := h.Interval(time.Second)
	absent := h.Absent(columns)
	for name, why := range map[string]error{"mem_used": errNotListed, "psi_io": errNotListed, "mem_free": nil} {
		if absent[name] != why { //nolint:errorlint // the very reason, which nothing wraps
			t.Errorf("%s is absent by %v, want %v", name, absent[name], why)
		}
	}
}

// TestEachMetricAlone: a metric alone has the value that it has among all others, so no file that it needs is left out.
func TestEachMetricAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	for _, machine := range []string{"intel", "amd", "cray", "omnipath"} {
		for _, s := range []source{
			interconnect(), lustre(), rapl(), temperature(), temperatureMax(), power(), cpufreq(), disks(), ethernet(),
		} {
			all, err := valuesAt(t, s, machineOf(t, machine))
			if err != nil {
				continue // this machine lacks it
			}
			for k, m := range s.metrics {
				if len(known(all[k])) == 0 {
					continue
				}
				alone, err := valuesAt(t, s, keeping(machineOf(t, machine), m.name))
				if err != nil {
					t.Errorf("%s: %s alone: %v", machine, m.name, err)
				} else if diff := cmp.Diff(known(all[k]), known(alone[k])); diff != "" {
					t.Errorf("%s: %s alone (-want +got):\n%s", machine, m.name, diff)
				}
			}
		}
	}
}

// known are the values that are not missing.
func known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

// valuesAt reads a source twice, and returns the values of each metric.
func valuesAt(t *testing.T, s source, cfg config.Agent) (values [][]float64, err error) {
	p, err := s.open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	if p.close != nil {
		defer p.close()
	}
	from, err := p.read(nil, Vitals{BoundaryMs: 1_700_659_200_000})
	if err != nil {
		return nil, err
	}
	for file, text := range map[string]string{ // what stands still has no power
		powercap + "intel-rapl:0/energy_uj": "262100000000\n", powercap + "intel-rapl:0:0/energy_uj": "5300000000\n",
		powercap + "intel-rapl:1/energy_uj": "65500000000\n", powercap + "intel-rapl:1:0/energy_uj": "7200000000\n",
		powercap + "intel-rapl:1:1/energy_uj": "2800000000\n", "cray/pm_counters/freshness": "5001\n",
		"cray/pm_counters/energy":     "1000036 J 1700659200200000 us\n",
		"cray/pm_counters/cpu_energy": "300012 J 1700659200200000 us\n",
	} {
		if path := filepath.Join(cfg.SysPath, file); textOf(path) != "" {
			write(t, path, text)
		}
	}
	to, err := p.read(nil, Vitals{BoundaryMs: 1_700_659_210_000})
	if err != nil {
		return nil, err
	}
	values = make([][]float64, len(s.metrics))
	for i := range to {
		out := make([]float64, len(s.metrics))
		for k := range out {
			out[k] = math.NaN()
		}
		if len(to[i]) > 0 && len(from.row(i)) == len(to[i]) {
			p.form(from[i], to[i], 10*time.Second, out)
		}
		for k, v := range out {
			values[k] = append(values[k], v)
		}
	}
	return values, nil
}

// TestPressureAlone: a file of pressure is opened for a metric of it alone.
func TestPressureAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pressure"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "pressure/io"), "some avg10=0 total=7\nfull avg10=0 total=3\n") // the only file
	cfg := config.Agent{ProcPath: dir}
	if _, err := valuesAt(t, pressure(), cfg); err == nil {
		t.Error("without the files of CPU and memory the source is whole")
	}
	for k, m := range pressure().metrics {
		values, err := valuesAt(t, pressure(), keeping(cfg, m.name))
		if of := strings.HasPrefix(m.name, "psi_io"); of != (err == nil) || of && values[k][0] != 0 {
			t.Errorf("%s alone: %v, %v", m.name, values, err)
		}
	}
}

// TestCgroupFilesAlone: each metric of a job is formed of the files that it names, and of no other.
func TestCgroupFilesAlone(t *testing.T) {
	row := func(files []cgroupFile, text func(f cgroupFile) string) []uint64 {
		row := newJobRow(7)
		for _, f := range files {
			if f.parse != nil {
				f.parse(row, []byte(text(f)))
			}
		}
		return row
	}
	formed := func(files []cgroupFile, text func(scale uint64, f cgroupFile) string) []float64 {
		out := make([]float64, len(cgroups().metrics))
		for i := range out {
			out[i] = math.NaN()
		}
		from := row(files, func(f cgroupFile) string { return text(1, f) })
		to := row(files, func(f cgroupFile) string { return text(2, f) })
		formJob(from, to, 10*time.Second, out)
		return out
	}
	for version, c := range map[string]struct {
		files []cgroupFile
		text  func(scale uint64, f cgroupFile) string
	}{
		"v2": {files2, func(scale uint64, f cgroupFile) string { return job2(scale, "0")[f.name] }},
		"v1": {files1, func(scale uint64, f cgroupFile) string { return job1(scale, "0")[f.controller][f.name] }},
	} {
		all := formed(c.files, c.text)
		for k, m := range cgroups().metrics {
			needed := neededFiles(c.files, func(name string) bool { return name == m.name })
			if alone := formed(needed, c.text)[k]; alone != all[k] && !math.IsNaN(all[k]) {
				t.Errorf("%s: %s alone is %g, want %g, from %d files", version, m.name, alone, all[k], len(needed))
			}
			if len(needed) > 2 { // one, and the list of CPUs
				t.Errorf("%s: %s needs %d files", version, m.name, len(needed))
			}
		}
	}
}

// TestGPUFieldsAlone: each metric of a GPU is formed of the fields that are read for it.
func TestGPUFieldsAlone(t *testing.T) {
	whole := func(scale uint64, skip [gpuFields]bool) []uint64 {
		row := make([]uint64, gpuFields)
		for f := range row {
			switch {
			case skip[f]:
				row[f] = nvmlMissing
			case f >= gpuGPM:
				row[f] = math.Float64bits(float64(scale))
			default:
				row[f] = scale * uint64(10+f)
			}
		}
		return row
	}
	form := func(skip [gpuFields]bool) []float64 {
		out := make([]float64, len(nvml().metrics))
		for k := range out {
			out[k] = math.NaN()
		}
		formNVML(whole(1, skip), whole(2, skip), time.Second, out)
		return out
	}
	all := form([gpuFields]bool{})
	for k, m := range nvml().metrics {
		skip := gpuSkips(func(name string) bool { return name == m.name })
		if alone := form(skip)[k]; math.IsNaN(alone) || alone != all[k] {
			t.Errorf("%s alone is %g, want %g", m.name, alone, all[k])
		}
		for f := range skip { // each field that is read counts, or stands in where another is missing
			if skip[f] || k == 3 || k >= 9 && k <= 12 {
				continue
			}
			fewer := skip
			if fewer[f] = true; !math.IsNaN(form(fewer)[k]) {
				t.Errorf("%s does not need field %d", m.name, f)
			}
		}
	}
	if none := gpuSkips(func(string) bool { return true }); slices.Contains(none[:], true) {
		t.Error("with all metrics a field is skipped")
	}
}

// TestPerfEventsAlone: a metric of perf events alone has the value that it has among all others. No more events are
// open than it needs: for a metric of one event, it alone.
func TestPerfEventsAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	rates := func(cpu int, attr unix.PerfEventAttr) uint64 { return 1e6 + 1000*(attr.Config%97) + uint64(cpu) }
	for _, machine := range []string{"sapphire-rapids", "zen3", "zen4", "grace"} {
		whole := newCountedMachine(t, machine, rates, nil)
		all, events := whole.interval(), whole.kernel.openFiles()
		tried := 0
		for _, m := range slices.Concat(coreMetrics(), memoryMetrics(), nodeMetrics(), perfSoftware().metrics) {
			if all[m.name] == nil {
				continue
			}
			tried++
			one := newCountedMachine(t, machine, rates, func(c *countedMachine) { c.cfg = keeping(c.cfg, m.name) })
			if diff := cmp.Diff(all[m.name], one.interval()[m.name], about); diff != "" {
				t.Errorf("%s: %s alone (-want +got):\n%s", machine, m.name, diff)
			}
			open := one.kernel.openFiles()
			if open >= events || m.name == "cycles" && open != 4 || m.name == "ipc" && open != 8 {
				t.Errorf("%s: %s alone has %d events of %d open", machine, m.name, open, events)
			}
			t.Logf("%s: %s: %d events of %d", machine, m.name, open, events)
		}
		if tried < 8 {
			t.Errorf("%s: %d metrics alone", machine, tried)
		}
	}
}

// TestSoftwareEventsAlone: the leader of a group may be left out.
func TestSoftwareEventsAlone(t *testing.T) {
	k := newFakeKernel(1)
	f, _ := newPerfForm(k.calls(), perfSoftware().metrics, []eventGroup{alwaysGroup(cpuModel{})}, 0, 0)
	cfg := keeping(config.Agent{}, "page_faults", "context_switches")
	f.restrict(cfg, cfg.Measures)
	var names []string
	for _, e := range f.groups[0].events {
		names = append(names, e.name)
	}
	if want := []string{"page-faults", "context-switches"}; !slices.Equal(names, want) || len(f.groups) != 1 {
		t.Errorf("events %q in %d groups, want %q", names, len(f.groups), want)
	}
	nan := math.NaN()
	out := []float64{nan, nan, nan, nan, nan, nan}
	f.form([]uint64{0, 0, 0, 0}, []uint64{2e9, 2e9, 6, 8}, 0, out)
	want := []float64{nan, 3, nan, 4, nan, nan} // 6 / 2 s, 8 / 2 s
	if diff := cmp.Diff(want, out, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}
