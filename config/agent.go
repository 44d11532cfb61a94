package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Agent is the configuration of the node agent.
type Agent struct {
	Node     string `mapstructure:"node"`      // empty: the host's name
	ProcPath string `mapstructure:"proc_path"` // mount point of /proc
	SysPath  string `mapstructure:"sys_path"`  // mount point of /sys
	StateDir string `mapstructure:"state_dir"` // the last route is kept here; empty: not kept
	Perf     bool   `mapstructure:"perf"`      // open perf events

	PerfLock  string  `mapstructure:"perf_lock"`   // while it exists, hardware events are closed; empty: never
	PeakFlops float64 `mapstructure:"peak_flops"`  // the node's peak, FLOP/s; 0: unknown
	PeakMemBW float64 `mapstructure:"peak_mem_bw"` // the node's peak, bytes/s; 0: unknown
	CPUs      string  `mapstructure:"cpus"`        // CPUs of the agent itself, such as "0,64-65"; empty: any
	Idle      bool    `mapstructure:"idle"`        // run only on CPUs without other work
	// Sampling selects the call for a sample: each node's clock, or a trigger of the balancer. The balancer reads it,
	// too.
	Sampling string          `mapstructure:"sampling"`
	Sources  []SiteSource    `mapstructure:"sources"` // of metrics that the site declares
	Metrics  []DerivedMetric `mapstructure:"metrics"` // that are computed from others
	Cgroups  []string        `mapstructure:"cgroups"` // patterns of the jobs' cgroups; empty: Slurm's and PBS's
	// MetricsFile names the list of the metrics that are measured; empty: all are.
	MetricsFile string        `mapstructure:"metrics_file"`
	Topology    AgentTopology `mapstructure:"topology"`
	// List is the content of MetricsFile, with the names in use; nil: everything is measured. A wrong list restricts
	// nothing, so whoever starts the agent reads the file.
	List *MetricList `mapstructure:"-"`
	// ReportDir contains a file JOB.RESTART for each job that reports metrics of its own; empty: jobs report none.
	ReportDir string `mapstructure:"report_dir"`
}

// AgentTopology configures an agent's part in a measurement of latencies, which an administrator orders.
type AgentTopology struct {
	Enabled          bool    `mapstructure:"enabled"`
	Listen           string  `mapstructure:"listen"`             // UDP host:port while it measures
	PacketsPerSecond float64 `mapstructure:"packets_per_second"` // that it sends at most; 0: no limit
	Share            float64 `mapstructure:"share"`              // of the time of one CPU; 0: no limit
}

// Measures reports whether this node measures a metric.
func (a *Agent) Measures(metric string) bool { return a.List.Measures(a.Node, metric) }

// SiteSource is a command or a text file that gives values of metrics.
type SiteSource struct {
	Name string   `mapstructure:"name"`
	Exec []string `mapstructure:"exec"` // a command with its arguments, without a shell
	File string   `mapstructure:"file"`
	// Timeout bounds a run of the command. It begins so long before each boundary. 0 in a file: half of the interval,
	// but at most 10s.
	Timeout time.Duration `mapstructure:"timeout"`
	// MaxAge is the age of the file at which its values are dropped; 0 in a file: 3 intervals
	MaxAge  time.Duration `mapstructure:"max_age"`
	Metrics []SiteMetric  `mapstructure:"metrics"`

	Interval time.Duration `mapstructure:"-"` // the interval of the configuration
}

// SiteMetric is a metric of a SiteSource.
type SiteMetric struct {
	Name  string `mapstructure:"name"`
	Unit  string `mapstructure:"unit"`
	Scope string `mapstructure:"scope"`
	Kind  string `mapstructure:"kind"`
}

// DerivedMetric is a metric that the agent computes from others.
type DerivedMetric struct {
	Name  string `mapstructure:"name"`
	Unit  string `mapstructure:"unit"`  // empty: 1
	Scope string `mapstructure:"scope"` // empty: the scope of the metrics it uses
	Kind  string `mapstructure:"kind"`  // for readers; empty: not stated
	Expr  string `mapstructure:"expr"`
}

// maxCPU is the largest CPU number that a list may name.
const maxCPU = 1<<14 - 1

// errCPUs is returned for a text that is no list of CPUs.
var errCPUs = errors.New(`must be CPU numbers such as "0,64-65", up to 16383`)

// CPUList returns the CPUs of a list as the kernel writes it: numbers and ranges of numbers, separated by commas.
func CPUList(text string) (cpus []int, err error) {
	if text == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(item), "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 16)
		last, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil || first > last || last > maxCPU {
			return nil, fmt.Errorf("%.80q: %w", item, errCPUs)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	return cpus, nil
}

// validate checks the agent's settings. A lock that is relative would depend on the directory that the agent starts in.
func (a *Agent) validate(f *findings) {
	f.name("agent.node", a.Node)
	if a.PerfLock != "" && !filepath.IsAbs(a.PerfLock) {
		f.wrong(errPath, "agent.perf_lock", fmt.Sprintf("%.80q", a.PerfLock), "")
	}
	if a.ReportDir != "" {
		f.file("agent.report_dir", a.ReportDir)
	}
	if _, err := CPUList(a.CPUs); err != nil {
		f.wrong(errCPUs, "agent.cpus", fmt.Sprintf("%.80q", a.CPUs), "")
	}
	f.peak("agent.peak_flops", a.PeakFlops)
	f.peak("agent.peak_mem_bw", a.PeakMemBW)
	a.Topology.validate(f, a.Idle)
	a.validateSite(f)
}

func (t *AgentTopology) validate(f *findings, idle bool) {
	host, port, err := net.SplitHostPort(t.Listen)
	if number, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || number == 0 ||
		host != "" && (!IsAddress(t.Listen) || net.ParseIP(host).IsUnspecified()) {
		f.wrong(errAddress, "agent.topology.listen", fmt.Sprintf("%.80q", t.Listen), ":7118, or 10.0.0.1:7118")
	}
	if p := t.PacketsPerSecond; p != 0 && !(p >= 1 && p <= 1e9) {
		f.wrong(errRange, "agent.topology.packets_per_second", p, "1 to 1e9, or 0 (no limit)")
	}
	if s := t.Share; s != 0 && !(s >= .01 && s <= 1) {
		f.wrong(errRange, "agent.topology.share", s, "0.01 to 1, or 0 (no limit)")
	}
	if t.Enabled && idle {
		f.wrong(errTogether, "agent.topology.enabled", true,
			"agent.idle: false, since it would measure how long it waits")
	}
}

// peak checks the peak of a node, in its unit a second: a peak beyond any node's is a mistake in the unit.
func (f *findings) peak(key string, value float64) {
	if !(value >= 0 && value <= 1e18) {
		f.wrong(errRange, key, value, "0 (not told) to 1e18")
	}
}
