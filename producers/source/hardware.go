package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// HardwareReport describes the hardware of a node and two readings of each source, with the metrics that they gave. It
// is what a site sends about hardware on which weir was not tried. Whoever has it can form the metrics again.
//
// It contains no names of hosts, users and jobs, no addresses and no serial numbers.
type HardwareReport struct {
	Host    HostFacts        `json:"host"`
	Sources []ReportedSource `json:"sources"`
	Metrics []ReportedMetric `json:"metrics"`
}

// HostFacts is the hardware as the kernel describes it.
type HostFacts struct {
	Kernel       string            `json:"kernel"`       // its release
	Architecture string            `json:"architecture"` // as Go names it
	PageBytes    int               `json:"page_bytes"`
	CPU          map[string]string `json:"cpu"`      // lines of /proc/cpuinfo that name the model of the first CPU
	Packages     map[int]int       `json:"packages"` // the package of each online CPU
	NUMANodes    int               `json:"numa_nodes"`
	PMUs         []PMUFacts        `json:"pmus,omitempty"`
	RAPL         []ZoneFacts       `json:"rapl,omitempty"`
	GPUs         []string          `json:"gpus,omitempty"` // models
	GPUDriver    string            `json:"gpu_driver,omitempty"`
	NICs         []NICFacts        `json:"nics,omitempty"`

	PeakFlops float64 `json:"peak_flops,omitempty"`  // of the configuration, FLOP/s
	PeakMemBW float64 `json:"peak_mem_bw,omitempty"` // likewise, bytes/s
}

// PMUFacts is a performance monitoring unit as sysfs describes it: the text of each file below its directory.
type PMUFacts struct {
	Name  string            `json:"name"`
	Files map[string]string `json:"files"`
}

// ZoneFacts is a zone of RAPL.
type ZoneFacts struct {
	Zone   string `json:"zone"`
	Name   string `json:"name"`
	Range  string `json:"max_energy_range_uj,omitempty"`
	Failed string `json:"failed,omitempty"` // why its energy cannot be read
}

// NICFacts is a network adapter, without its name.
type NICFacts struct {
	Class    string   `json:"class"`  // net or infiniband
	Driver   string   `json:"driver"` // of the kernel
	Speed    string   `json:"speed,omitempty"`
	Firmware string   `json:"firmware,omitempty"`
	Counters []string `json:"counters,omitempty"` // names of the counters of its first port
}

// ReportedSource is two readings of a source. A source about jobs has no rows: its numbers belong to users.
type ReportedSource struct {
	Source    string            `json:"source"            own:"true"`
	Scope     string            `json:"scope"             own:"true"`
	State     string            `json:"state"             own:"true"` // read, absent or late
	Failed    string            `json:"failed,omitempty"`             // the error of the source
	Absent    map[string]string `json:"absent,omitempty"`             // metrics without a value, and why
	ElapsedNs int64             `json:"elapsed_ns,omitempty"`         // between its two readings
	Rows      []ReportedRow     `json:"rows,omitempty"`
	Events    [][]ReportedEvent `json:"events,omitempty"` // groups of perf events that it opened
}

// ReportedRow is a row of two readings: the raw numbers that the metrics are formed from.
type ReportedRow struct {
	Row  int      `json:"row"` // number of the CPU, socket or GPU; 0 for a node
	From []uint64 `json:"from"`
	To   []uint64 `json:"to"`
}

// ReportedEvent is a perf event as the kernel was asked for it.
type ReportedEvent struct {
	Name   string `json:"name"`
	Type   uint32 `json:"type"`
	Config uint64 `json:"config"`
}

// ReportedMetric is a metric of the interval between the two readings.
type ReportedMetric struct {
	Name   string     `json:"name"           own:"true"`
	Unit   string     `json:"unit"           own:"true"`
	Scope  string     `json:"scope"          own:"true"`
	Rows   []int32    `json:"rows,omitempty"` // CPUs, sockets or GPUs, in the order of the values
	Values []*float64 `json:"values"`         // null if missing
}

// ReportHardware reads the sources of this host twice, some time apart. It reads all metrics, whatever list restricts
// the agent, and no source that the site declares. began is called before each reading, with its number.
func ReportHardware(ctx context.Context, cfg config.Agent, apart time.Duration, began func(reading int)) (
	*HardwareReport, error,
) {
	cfg.Sources, cfg.Metrics, cfg.List, cfg.ReportDir = nil, nil, nil, ""
	h := Open(cfg, slog.New(slog.DiscardHandler))
	defer h.Close()
	return h.report(ctx, apart, began)
}

func (h *Host) report(ctx context.Context, apart time.Duration, began func(reading int)) (*HardwareReport, error) {
	read := func(n int) time.Time {
		began(n)
		now := time.Now()
		h.Read(Vitals{BoundaryMs: now.UnixMilli(), Interval: max(apart, time.Second)})
		return now
	}
	begin := read(1)
	if !retry.Pause(ctx, apart) {
		return nil, ctx.Err()
	}
	elapsed := read(2).Sub(begin)
	cpus, columns := h.Interval(elapsed)
	r := &HardwareReport{Host: factsOf(h.cfg)}
	absent := h.Absent(columns)
	for _, p := range h.probes {
		if name := p.source.name; name != agentSources().name && name != reports().name { // both read no hardware
			r.Sources = append(r.Sources, p.report(elapsed, absent))
		}
	}
	for i := range columns {
		if c := &columns[i]; !strings.HasPrefix(c.Name, "weir_agent_source") { // the host's own, of no source
			r.Metrics = append(r.Metrics, reportedMetric(c, cpus))
		}
	}
	redactorOf(h.cfg).clean(r)
	return r, nil
}

func reportedMetric(c *Column, cpus []int32) ReportedMetric {
	m := ReportedMetric{Name: c.Name, Unit: c.Unit, Scope: c.Scope, Rows: c.Rows}
	if c.Scope == schemas.ScopeCore {
		m.Rows = cpus
	}
	for _, v := range c.Values {
		if math.IsNaN(v) {
			m.Values = append(m.Values, nil)
		} else {
			m.Values = append(m.Values, &v)
		}
	}
	return m
}

// report describes the last two readings of a source. A source that is late still works, so nothing of it is touched.
func (p *openProbe) report(elapsed time.Duration, absent map[string]error) ReportedSource {
	s := ReportedSource{Source: p.source.name, Scope: p.source.scope, State: "read"}
	switch {
	case p.from.late || p.to.late:
		s.State = "late"
	case p.from.rows == nil || p.to.rows == nil:
		s.State = "absent"
	}
	if p.source.scope == schemas.ScopeJob {
		return s
	}
	if p.last != nil {
		s.Failed = p.last.Error()
	}
	for _, m := range p.source.metrics {
		if reason := absent[m.name]; reason != nil && p.last == nil {
			if s.Absent == nil {
				s.Absent = map[string]string{}
			}
			s.Absent[m.name] = reason.Error()
		}
	}
	if s.State != "read" || p.busy {
		return s
	}
	s.ElapsedNs = (elapsed + p.to.off - p.from.off).Nanoseconds()
	for i := range max(len(p.from.rows), len(p.to.rows)) {
		from, to := p.from.rows.row(i), p.to.rows.row(i)
		if len(from)+len(to) > 0 {
			s.Rows = append(s.Rows, ReportedRow{i, slices.Clone(from), slices.Clone(to)})
		}
	}
	for _, group := range p.events {
		var events []ReportedEvent
		for _, e := range group {
			events = append(events, ReportedEvent{e.name, e.kind, e.config})
		}
		s.Events = append(s.Events, events)
	}
	return s
}

// Write writes the report as JSON, with a line for each source and metric.
func (r *HardwareReport) Write(w io.Writer) error {
	var text bytes.Buffer
	put := func(before string, v any, after string) error {
		text.WriteString(before)
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		err := e.Encode(v)
		text.Truncate(max(text.Len()-1, 0)) // the encoder ends the line
		text.WriteString(after)
		return err
	}
	err := put("{\n\"host\": ", r.Host, ",\n\"sources\": [")
	for i := 0; i < len(r.Sources) && err == nil; i++ {
		err = put(separator(i), &r.Sources[i], "")
	}
	text.WriteString("\n],\n\"metrics\": [")
	for i := 0; i < len(r.Metrics) && err == nil; i++ {
		err = put(separator(i), &r.Metrics[i], "")
	}
	text.WriteString("\n]\n}\n")
	if err == nil {
		_, err = w.Write(text.Bytes())
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// separator begins element i of a list on a line of its own.
func separator(i int) string {
	if i == 0 {
		return "\n"
	}
	return ",\n"
}

// cpuLines are the lines of /proc/cpuinfo that name the model. Boards of Arm have a line with their serial number, too.
var cpuLines = []string{
	"vendor_id", "cpu family", "model", "model name", "stepping", "microcode",
	"CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision",
}

// driverVersion is a version in the text of the driver, which may name the user and the host that built it.
var driverVersion = regexp.MustCompile(`[0-9]+\.[0-9]+(\.[0-9]+)*`)

// factsOf describes the hardware. A part that the kernel does not describe is left out.
func factsOf(cfg config.Agent) HostFacts {
	f := HostFacts{
		Architecture: runtime.GOARCH, PageBytes: os.Getpagesize(), CPU: map[string]string{}, Packages: map[int]int{},
		PeakFlops: cfg.PeakFlops, PeakMemBW: cfg.PeakMemBW,
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	first, _, _ := strings.Cut(textOf(filepath.Join(cfg.ProcPath, "cpuinfo")), "\n\n")
	for line := range strings.SplitSeq(first, "\n") {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); slices.Contains(cpuLines, key) {
			f.CPU[key] = strings.TrimSpace(value)
		}
	}
	online, _ := onlineCPUs(cfg.ProcPath) // without it there are no packages either
	for _, cpu := range online {
		if n, err := socketOf(cfg.SysPath, cpu); err == nil {
			f.Packages[cpu] = n
		}
	}
	nodes, _ := filepath.Glob(filepath.Join(cfg.SysPath, "devices/system/node/node[0-9]*")) // the pattern is valid
	f.NUMANodes = len(nodes)
	f.PMUs, f.RAPL, f.NICs = pmuFacts(cfg.SysPath), zoneFacts(cfg.SysPath), nicFacts(cfg.SysPath)
	gpus := filepath.Join(cfg.ProcPath, "driver/nvidia")
	f.GPUDriver = driverVersion.FindString(textOf(filepath.Join(gpus, "version")))
	infos, _ := filepath.Glob(filepath.Join(gpus, "gpus/*/information"))
	for _, info := range infos {
		for line := range strings.SplitSeq(textOf(info), "\n") {
			if model, ok := strings.CutPrefix(line, "Model:"); ok {
				f.GPUs = append(f.GPUs, strings.TrimSpace(model))
			}
		}
	}
	return f
}

// maxPMUText is longer than any description of an event, in bytes.
const maxPMUText = 256

func pmuFacts(sysPath string) (all []PMUFacts) {
	names, _ := entries(pmuDir(sysPath, "")) // a kernel without perf events has none
	for _, name := range names {
		p := PMUFacts{Name: name, Files: map[string]string{}}
		for _, pattern := range []string{"type", "cpumask", "cpus", "caps/*", "format/*", "events/*"} {
			files, _ := filepath.Glob(filepath.Join(pmuDir(sysPath, name), pattern))
			for _, file := range files {
				below, err := filepath.Rel(pmuDir(sysPath, name), file)
				if text := textOf(file); err == nil && text != "" && len(text) <= maxPMUText {
					p.Files[below] = text
				}
			}
		}
		all = append(all, p)
	}
	return all
}

func zoneFacts(sysPath string) (all []ZoneFacts) {
	class := filepath.Join(sysPath, "class/powercap")
	names, _ := entries(class) // a kernel without powercap has none
	for _, zone := range names {
		if !strings.Contains(zone, ":") {
			continue // the control itself
		}
		z := ZoneFacts{
			Zone: zone, Name: textOf(filepath.Join(class, zone, "name")),
			Range: textOf(filepath.Join(class, zone, "max_energy_range_uj")),
		}
		if file, err := os.Open(filepath.Join(class, zone, "energy_uj")); err != nil {
			z.Failed = err.Error()
		} else {
			_ = file.Close() // it was only opened
		}
		all = append(all, z)
	}
	return all
}

// nicFacts describes adapters with a device. Names of interfaces may contain their addresses, so they are left out.
func nicFacts(sysPath string) (all []NICFacts) {
	for _, class := range []string{"net", "infiniband"} {
		names, _ := entries(filepath.Join(sysPath, "class", class))
		for _, name := range names {
			dir := filepath.Join(sysPath, "class", class, name)
			if _, err := os.Stat(filepath.Join(dir, "device")); err != nil && class == "net" {
				continue // no hardware
			}
			n := NICFacts{Class: class, Speed: textOf(filepath.Join(dir, "speed"))}
			if driver, err := os.Readlink(filepath.Join(dir, "device/driver")); err == nil {
				n.Driver = filepath.Base(driver)
			}
			if class == "infiniband" {
				n.Speed = textOf(filepath.Join(dir, "ports/1/rate"))
				n.Firmware = textOf(filepath.Join(dir, "fw_ver"))
				n.Counters, _ = entries(filepath.Join(dir, "ports/1/counters"))
			}
			all = append(all, n)
		}
	}
	return all
}
