// Package source reads the counters of one node. A source is a file of the kernel, a device, a program or the
// hardware's own counters. Two readings of a source make the values of the interval between them.
//
//	catalogue ──open──▶ probe ──read, at a boundary──▶ reading ──form, of two──▶ columns
//
// The catalogue declares every metric: its name, unit, scope, kind, origin and formula. `weir metrics` prints it, and
// the page of the metrics is made from it. A value that cannot be read is absent, and never 0.
package source

import (
	"log/slog"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Kind is the kind of a metric's values. It decides which operations on them are valid.
type Kind string

// The kinds. A ratio is formed from two counts of the same interval for each value. It is ranked and never summed. A
// rate is a count per second, and may be summed. A gauge is the state at the end of the interval.
const (
	ratio Kind = "ratio"
	Rate  Kind = "rate"
	gauge Kind = "gauge"
)

// Metric is a line of the catalogue.
type Metric struct {
	Name, Unit string
	Scope      string // of its source: schemas.ScopeCore, schemas.ScopeNode
	Kind       Kind
	Source     string // the name of the source
	Origin     string // the file or the events, as an administrator finds them
	Formula    string // the value's definition, in the words of the origin
}

// source is a place to read counters from.
type source struct {
	name    string
	scope   string // of all its metrics
	origin  string
	metrics []metric
	open    func(config.Agent, *slog.Logger) (probe, error)
}

// metric is a source's declaration of one of its metrics.
type metric struct {
	name, unit string
	kind       Kind
	formula    string
}

// sources is every source of the agent. A new one is a function of its own file.
func sources() []source {
	counters := newPerfSet() // three sources share it
	return []source{
		stat(),
		load(),
		memory(),
		paging(),
		pressure(),
		numa(),
		perfSoftware(),
		counters.perfHardware(),
		counters.perfMemory(),
		counters.perfNode(),
		cpufreq(),
		rapl(),
		power(),
		temperature(),
		temperatureMax(),
		interconnect(),
		ethernet(),
		disks(),
		lustre(),
		nfs(),
		nvml(),
		cgroups(),
		clock(),
		synchrony(),
		agent(),
		agentMemory(),
		agentSources(),
		reports(),
	}
}

// Catalogue returns every metric that the agent may measure, in the order of the sources. The metrics that the site
// declares or computes come last.
func Catalogue(cfg config.Agent) (all []Metric) {
	for _, s := range append(sources(), siteSources(cfg)...) {
		for _, m := range s.metrics {
			all = append(all, Metric{m.name, m.unit, s.scope, m.kind, s.name, s.origin, m.formula})
		}
	}
	return append(all, computed(cfg)...)
}

// probe is an open source. It is used by one goroutine.
type probe struct {
	tells bool // its rows are the CPUs that are online
	// absent are metrics of the source that this host lacks, by name, and why.
	absent map[string]error
	// follow receives the online CPUs, ascending, before a read. It is nil for a source that does not depend on them.
	follow func(online []int)
	// read takes a reading into the storage given, and returns it.
	read func(into reading, v Vitals) (reading, error)
	// instant returns the time of the values of the last reading, if that is not the time of the reading. It is zero if
	// there are no values.
	instant func() time.Time
	// form writes the source's metrics, in their order, to out. They describe the interval between two rows of the same
	// length, which are elapsed apart. out begins as NaN, so a metric that form does not write is missing. form is a
	// pure function of its arguments.
	form func(from, to []uint64, elapsed time.Duration, out []float64)
	// job returns the name and the CPUs of the job whose row begins with the id. It is nil for a source of another
	// scope than job.
	job func(id uint64) (cgroup string, cpus []int32, ok bool)
	// reports returns the jobs' own metrics between the last two readings. It is nil for all sources but one.
	reports func() []Report
	// why is the reason for a value that the last reading lacks. It is nil for a source that fails a reading that lacks
	// a value.
	why func() error
	// events are the groups of perf events that the source opened. It is nil for a source without any.
	events [][]event
	// close releases the resources of the source. It is nil if there are none.
	close func()
}

// reading holds the raw counters of one source at one instant. A core-scoped reading has a row for every CPU number,
// empty if there is no such CPU. The rows of a socket-scoped source are indexed by package number, of a GPU-scoped
// source by minor number. A node-scoped reading has a single row. A job-scoped reading has a row for every job,
// ascending by its first number.
type reading [][]uint64

// row returns row i, or nil.
func (r reading) row(i int) []uint64 {
	if i >= len(r) {
		return nil
	}
	return r[i]
}

// present returns the numbers of the rows that are not empty, ascending.
func (r reading) present() []int {
	var rows []int
	for i := range r {
		if len(r[i]) > 0 {
			rows = append(rows, i)
		}
	}
	return rows
}

// Vitals is the agent's knowledge of itself at the beginning of a reading.
type Vitals struct {
	BoundaryMs int64         // the boundary of the reading, Unix time
	Interval   time.Duration // between two boundaries; 0 if unknown
	Skew       time.Duration // distance from the boundary
	Depth      int           // records in the ring
	Drops      int64         // records that were dropped since the start
	Clock      Clock
	Jobs       []schemas.RouteEntry // that run on the node in the interval that the reading ends
}

// Column is one metric of an interval, with a value for each CPU, socket or GPU, or one for the node. NaN is a missing
// value.
type Column struct {
	Name, Unit, Scope string
	Rows              []int32 // numbers of the sockets or GPUs, ascending; nil for other scopes
	Values            []float64
}

// grown returns the growth of a counter between two readings. It is not ok if the counter went backwards: the kernel
// started it anew, and its count before that is unknown.
func grown(from, to uint64) (float64, bool) {
	if to < from {
		return 0, false
	}
	return float64(to - from), true
}

// only returns the reading of a node-scoped source: its single row, in the storage of an older reading.
func only(into reading, row ...uint64) reading {
	if len(into) == 0 {
		into = make(reading, 1)
	}
	into[0] = append(into[0][:0], row...)
	return into[:1]
}
