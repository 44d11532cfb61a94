package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// TestReportsReplay: the metrics of each report are formed again from its raw values, to the last digit. The files are
// reports of real machines, as `weir agent --check --report` writes them. One that a site sends belongs here.
func TestReportsReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/hardware/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no reports:", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			expectReplay(t, text)
		})
	}
}

// TestReportOfThisHost: the same of a report that is taken now.
func TestReportOfThisHost(t *testing.T) {
	var readings []int
	cfg := config.Agent{ProcPath: "/proc", SysPath: "/sys", Perf: true}
	r := inTime(t, func() (*HardwareReport, error) {
		readings = nil
		return ReportHardware(t.Context(), cfg, 20*time.Millisecond, func(n int) { readings = append(readings, n) })
	})
	if !slices.Equal(readings, []int{1, 2}) {
		t.Errorf("readings %d", readings)
	}
	if r.Host.Kernel == "" || len(r.Host.CPU) == 0 || len(r.Host.PMUs) == 0 {
		t.Errorf("%+v", r.Host)
	}
	names := expectReplay(t, reportText(t, r))
	for _, name := range []string{"cpu_user", "mem_used", "cpu_load", "task_clock", "weir_agent_rss"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is absent", name)
		}
	}
}

// TestReportsOfMachines: the same of made-up machines, which have what this host lacks.
func TestReportsOfMachines(t *testing.T) {
	for name, want := range map[string]string{
		"intel": "cpu_power mem_power ic_read_bw lustre_read_bw node_power temperature", "amd": "cpu_power",
		"cray": "node_power", "omnipath": "ic_read_bw", "bare": "",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := machineOf(t, name)
			r := inTime(t, func() (*HardwareReport, error) {
				return ReportHardware(t.Context(), cfg, 20*time.Millisecond, func(n int) {
					if n == 2 {
						useEnergy(t, cfg)
					}
				})
			})
			names := expectReplay(t, reportText(t, r))
			for metric := range strings.FieldsSeq(want) {
				if !slices.Contains(names, metric) {
					t.Errorf("%s is absent: %s", metric, names)
				}
			}
		})
	}
	for name, want := range map[string]string{
		"sapphire-rapids": "ipc mem_read_bw peak_share_flops flops_dp clock", "zen3": "ipc mem_bw", "zen4": "ipc mem_bw",
		"grace": "ipc mem_bw",
	} {
		t.Run(name, func(t *testing.T) {
			m := newCountedMachine(t, name, rapids, nil)
			r := inTime(t, func() (*HardwareReport, error) {
				return m.host.report(t.Context(), time.Millisecond, func(int) { m.kernel.now += 1e9 })
			})
			names := expectReplay(t, reportText(t, r))
			for metric := range strings.FieldsSeq(want) {
				if !slices.Contains(names, metric) {
					t.Errorf("%s is absent: %s", metric, names)
				}
			}
		})
	}
}

// inTime takes reports until none of its sources is late, as they may be on a busy machine.
func inTime(t *testing.T, take func() (*HardwareReport, error)) *HardwareReport {
	t.Helper()
	for range 50 {
		r, err := take()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Sources, func(s ReportedSource) bool { return s.State == "late" }) {
			return r
		}
	}
	t.Fatal("a source is late in 50 reports")
	return nil
}

// useEnergy lets the counters of energy of a made-up machine grow.
func useEnergy(t *testing.T, cfg config.Agent) {
	t.Helper()
	for _, pattern := range []string{"class/powercap/*/energy_uj", "cray/pm_counters/*"} {
		files, err := filepath.Glob(filepath.Join(cfg.SysPath, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			var n, us uint64
			var unit string
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			switch fields, _ := fmt.Sscan(string(text), &n, &unit, &us); fields {
			case 3:
				text = fmt.Appendf(nil, "%d %s %d us\n", n+5, unit, us+20_000)
			case 1:
				text = fmt.Appendf(nil, "%d\n", n+1000)
			}
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestReportHasNoSecrets: whatever a machine's files contain, its report names neither hosts nor persons.
func TestReportHasNoSecrets(t *testing.T) {
	const host, user, serial = "wolke17.rechner.example", "mustermann", "CZJ94205AB"
	cfg := machineOf(t, "intel")
	cfg.Node = host
	for path, text := range map[string]string{
		"proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Xeon of " + host +
			"\nSerial\t\t: 00000000deadbeef\n",
		"proc/cmdline":             "BOOT_IMAGE=/vmlinuz ip=10.17.4.2 secret=geheim\n",
		"proc/sys/kernel/hostname": "wolke17\n",
		"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  (" + user +
			"@wolke17)\n",
		"proc/driver/nvidia/gpus/0000:17:00.0/information": "Model: \t\t NVIDIA H100\n" +
			"GPU UUID: \t GPU-b94d2e6c-0123-4567-89ab-cdef01234567\n",
		"sys/class/dmi/id/product_serial":                      serial + "\n",
		"sys/class/net/enx0a1b2c3d4e5f/device/x":               "",
		"sys/class/net/enx0a1b2c3d4e5f/address":                "0a:1b:2c:3d:4e:5f\n",
		"sys/class/net/enx0a1b2c3d4e5f/speed":                  "25000 at 10.17.4.2, fe80::81b:2cff:fe3d:4e5f\n",
		"sys/class/powercap/intel-rapl:9/name":                 "package of 0a:1b:2c:3d:4e:5f and enx0a1b2c3d4e5f\n",
		"sys/class/infiniband/mlx5_0/node_guid":                "0c42:a103:0065:1fea\n",
		"sys/class/infiniband/mlx5_0/fw_ver":                   "20.31.1014 0c42:a103:0065:1fea " + serial + "\n",
		"sys/bus/event_source/devices/uncore_odd/type":         "17 by " + user + " on wolke17, wolke17\n",
		"sys/bus/event_source/devices/uncore_odd/format/event": "config:0-7\n",
	} {
		path = filepath.Join(filepath.Dir(cfg.ProcPath), path)
		mkdir(t, filepath.Dir(path))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("USER", user)
	broken := source{name: "broken", scope: schemas.ScopeNode, metrics: []metric{{"broken", "1", gauge, ""}}}
	broken.open = func(config.Agent, *slog.Logger) (probe, error) {
		return probe{}, fmt.Errorf("asking b94d2e6c-0123-4567-89ab-cdef01234567 at 10.17.4.2:8080 of /home/%s on %s",
			user, host)
	}
	h := openSources(cfg, slog.New(slog.DiscardHandler), append(sources(), broken))
	defer h.Close()
	r, err := h.report(t.Context(), time.Millisecond, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	text := string(reportText(t, r))
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if word := regexp.MustCompile(`\b` + regexp.QuoteMeta(own) + `\b`).FindString(text); word != "" {
		t.Errorf("it contains this host's name %q", word)
	}
	for _, secret := range []string{
		"wolke17", "rechner", user, serial, "geheim", "10.17.4.2", "fe80::", "0a:1b:2c", "0a1b2c", "0c42:a103",
		"deadbeef", "b94d2e6c", "BOOT_IMAGE",
	} {
		if at := strings.Index(strings.ToLower(text), strings.ToLower(secret)); at >= 0 {
			t.Errorf("it contains %q: %q", secret, text[max(at-80, 0):min(at+80, len(text))])
		}
	}
	for _, kept := range []string{
		"Xeon of (removed)", `"gpu_driver":"550.54.15"`, "NVIDIA H100", "20.31.1014 (removed) (removed)",
		"config:0-7", "(removed) at (removed) of /home/(removed) on (removed)", "package of (removed) and (removed)", "25000 at (removed), (removed)", `"model":"143"`,
		"17 by (removed) on (removed), (removed)",
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("it lacks %q", kept)
		}
	}
}

func reportText(t *testing.T, r *HardwareReport) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// expectReplay forms the metrics of a report from its raw values, compares them with its own, and returns their names.
func expectReplay(t *testing.T, text []byte) (names []string) {
	t.Helper()
	var r HardwareReport
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	got := replayed(t, &r)
	if diff := cmp.Diff(r.Metrics, got); diff != "" {
		t.Errorf("metrics reported (-), formed again (+):\n%s", diff)
	}
	for _, m := range got {
		names = append(names, m.Name)
	}
	return names
}

// replayed runs the sources of a report on its raw values.
func replayed(t *testing.T, r *HardwareReport) (metrics []ReportedMetric) {
	t.Helper()
	h := &Host{log: slog.New(slog.DiscardHandler)}
	open := formsOf(t, r)
	for _, s := range r.Sources {
		if len(s.Rows) == 0 {
			continue
		}
		p := open(s)
		for _, row := range s.Rows {
			for len(p.from.rows) <= row.Row {
				p.from.rows, p.to.rows = append(p.from.rows, nil), append(p.to.rows, nil)
			}
			p.from.rows[row.Row], p.to.rows[row.Row] = row.From, row.To
		}
		p.to.off = time.Duration(s.ElapsedNs) // the whole: the host's own time is not in the report
		h.probes = append(h.probes, p)
		if s.Source == stat().name {
			h.teller = p
		}
	}
	h.start()
	defer h.Close()
	cpus, columns := h.Interval(0)
	for i := range columns {
		if !strings.HasPrefix(columns[i].Name, "weir_agent_source") {
			metrics = append(metrics, reportedMetric(&columns[i], cpus))
		}
	}
	return metrics
}

// formsOf returns how the rows of each source of a report form metrics. Where that depends on what the source found,
// the source is opened on the machine that the report describes.
func formsOf(t *testing.T, r *HardwareReport) func(ReportedSource) *openProbe {
	t.Helper()
	cfg := reportedMachine(t, r)
	kernel := reportedKernel(r)
	set := newPerfSet()
	set.kernel = kernel
	opened := []source{
		perfSoftwareOf(kernel), set.perfHardware(), set.perfMemory(), set.perfNode(), clock(), synchrony(), agent(),
	}
	forms := map[string]func(from, to []uint64, elapsed time.Duration, out []float64){
		"stat": formCPU, "load": formLoad, "memory": formMemory, "paging": formPaging(float64(r.Host.PageBytes)),
		"pressure": formPressure, "numa": formNuma, "cpufreq": formGauges, "rapl": formRAPL, "power": formCray,
		"temperature": formFloats, "temperature_max": formFloats, "interconnect": formInterconnect,
		"ethernet": formEthernet, "disks": formDisks, "lustre": formLustre, "nfs": formNFS, "nvml": formNVML,
		"agent_memory": formGauges,
	}
	return func(s ReportedSource) *openProbe {
		t.Helper()
		if i := slices.IndexFunc(opened, func(o source) bool { return o.name == s.Source }); i >= 0 {
			p, err := opened[i].open(cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatalf("%s: %v", s.Source, err)
			}
			if p.close != nil {
				t.Cleanup(p.close)
			}
			return &openProbe{probe: probe{form: p.form}, source: opened[i]}
		}
		form := forms[s.Source]
		if s.Source == "power" && len(s.Rows[0].To) == 1 {
			form = formMeters
		}
		i := slices.IndexFunc(sources(), func(o source) bool { return o.name == s.Source })
		if form == nil || i < 0 {
			t.Fatalf("this test does not know how source %s forms its metrics", s.Source)
		}
		return &openProbe{probe: probe{form: form}, source: sources()[i]}
	}
}

// reportedMachine writes what the report has of a machine's /proc and /sys. One CPU is online: perf events are opened
// there alone, and a report of a large node needs no more open files.
func reportedMachine(t *testing.T, r *HardwareReport) config.Agent {
	t.Helper()
	dir := t.TempDir()
	file := func(path, text string) {
		path = filepath.Join(dir, path)
		mkdir(t, filepath.Dir(path))
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var info strings.Builder
	for key, value := range r.Host.CPU {
		fmt.Fprintf(&info, "%s\t: %s\n", key, value)
	}
	file("proc/cpuinfo", info.String())
	for _, s := range r.Sources {
		if s.Source == stat().name && len(s.Rows) > 0 {
			file("proc/stat", fmt.Sprintf("cpu%d 1 1 1 1 1 1 1 1", s.Rows[0].Row))
		}
	}
	for cpu, socket := range r.Host.Packages {
		for name, n := range map[string]int{ // the library wants all of them, the sources the package
			"physical_package_id": socket, "core_id": cpu, "core_siblings_list": cpu, "thread_siblings_list": cpu,
		} {
			file(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/%s", cpu, name), fmt.Sprint(n))
		}
	}
	for _, p := range r.Host.PMUs {
		for name, text := range p.Files {
			file(filepath.Join("sys/bus/event_source/devices", p.Name, name), text)
		}
	}
	return config.Agent{
		ProcPath: filepath.Join(dir, "proc"), SysPath: filepath.Join(dir, "sys"), Perf: true,
		PeakFlops: r.Host.PeakFlops, PeakMemBW: r.Host.PeakMemBW,
	}
}

// reportedKernel counts the groups of perf events that the kernel of the report counted. It refuses an event that is in
// none of them. If it refuses only to count an event beside others, the group is too large.
func reportedKernel(r *HardwareReport) perfKernel {
	var groups [][]ReportedEvent
	for _, s := range r.Sources {
		for _, g := range s.Events {
			var numbers []ReportedEvent // the name is for readers
			for _, e := range g {
				numbers = append(numbers, ReportedEvent{Type: e.Type, Config: e.Config})
			}
			groups = append(groups, numbers)
		}
	}
	counts := func(events ...ReportedEvent) bool {
		return slices.ContainsFunc(groups, func(g []ReportedEvent) bool {
			return !slices.ContainsFunc(events, func(e ReportedEvent) bool { return !slices.Contains(g, e) })
		})
	}
	var open [][]ReportedEvent // by leader
	return perfKernel{
		open: func(attr *unix.PerfEventAttr, _, leader int) (int, error) {
			e := ReportedEvent{Type: attr.Type, Config: attr.Config}
			if !counts(e) {
				return 0, unix.ENOENT
			}
			if leader < 0 {
				open = append(open, []ReportedEvent{e})
				return len(open) - 1, nil
			}
			if !counts(append(open[leader], e)...) {
				return 0, unix.EINVAL
			}
			open[leader] = append(open[leader], e)
			return leader, nil
		},
		start: func(int) error { return nil },
		read:  func(int, []byte) (int, error) { return 0, unix.EBADF },
		close: func(int) error { return nil },
	}
}
