package producers

import (
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/kafka"
)

// source is a place to read counters from.
type source struct {
	name string
	open func(config.Agent, *slog.Logger) (probe, error)
}

// sources is every source of the agent. A new one is a line here, and a file of its own beside this one.
func sources() []source {
	return []source{
		{"stat", openStat},
		{"memory", openMemory},
		{"load", openLoad},
		{"perf_software", openPerfSoftware},
		{"perf_hardware", openPerfHardware},
		{"agent", openAgent},
		{"agent_memory", openAgentMemory},
		{"clock", openClock},
	}
}

// probe is an open source. It is used by one goroutine.
type probe struct {
	scope   string
	metrics []metric
	tells   bool // its rows are the CPUs that are online
	// follow is given the CPUs that are online, ascending, before a read. It is nil where that makes no difference.
	follow func(online []int)
	// read takes a reading into the storage given, and returns it.
	read func(into reading, v vitals) (reading, error)
	// form writes to out the metrics of the interval between two rows of the same length, which are elapsed apart. out
	// begins as NaN, so what form does not write is missing. It is a function of its arguments alone.
	form func(from, to []uint64, elapsed time.Duration, out []float64)
	// close releases what the source holds. It is nil where that is nothing.
	close func()
}

// metric names what a probe measures.
type metric struct{ name, unit string }

// reading is the raw counters of one source at one instant. A core-scoped source has a row for every CPU number, empty
// where there is no such CPU. A node-scoped source has a single row.
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

// host samples the machine that the process runs on.
type host struct {
	log    *slog.Logger
	probes []*openProbe
}

// openProbe is a probe with its last two readings. A reading that failed is nil.
type openProbe struct {
	probe
	name     string
	from, to reading
	spare    reading // storage for the next reading
	absent   kafka.Trouble
}

// openHost opens every source. A source that cannot be opened is logged, and absent from then on.
func openHost(cfg config.Agent, log *slog.Logger) *host {
	h := &host{log: log}
	for _, s := range sources() {
		p, err := s.open(cfg, log)
		if err != nil {
			log.Warn("source is absent", "source", s.name, "err", err)
			continue
		}
		if len(p.metrics) > 0 {
			h.probes = append(h.probes, &openProbe{probe: p, name: s.name})
		}
	}
	return h
}

func (h *host) close() {
	for _, p := range h.probes {
		if p.close != nil {
			p.close()
		}
	}
}

// read takes a reading of every source. sources lists the one that tells which CPUs are online before those that follow
// it.
func (h *host) read(v vitals) {
	var online []int
	for _, p := range h.probes {
		if p.follow != nil && len(online) > 0 {
			p.follow(online)
		}
		into := p.spare
		if p.from != nil {
			into = p.from
		}
		p.spare = nil
		now, err := p.read(into, v)
		p.from, p.to = p.to, now
		if err != nil {
			p.to, p.spare = nil, into
			if p.absent.Worth(err, time.Now()) {
				h.log.Warn("source is absent", "source", p.name, "err", err)
			}
		} else if p.absent.Over() {
			h.log.Info("source is back", "source", p.name)
		}
		if p.tells {
			online = now.present()
		}
	}
}

// interval forms the columns of the interval between the last two readings. Its CPUs are those of either reading: one
// that came or went in between has missing values, one that is offline is absent. A metric that no CPU has is left out.
func (h *host) interval(start int64, elapsed time.Duration) *sample {
	s := &sample{start: start, cpus: h.cpus()}
	for _, p := range h.probes {
		if p.from == nil || p.to == nil {
			continue
		}
		rows := s.cpus
		if p.scope == schemas.ScopeNode {
			rows = []int32{0}
		}
		s.columns = append(s.columns, p.columns(rows, elapsed)...)
	}
	slices.SortFunc(s.columns, func(a, b column) int { return strings.Compare(a.name, b.name) })
	return s
}

// cpus returns the CPUs of the source that tells which are online. Where it cannot be read, they are those of all
// sources.
func (h *host) cpus() []int32 {
	var cpus []int32
	for _, p := range h.probes {
		if p.scope != schemas.ScopeCore || p.from == nil || p.to == nil {
			continue
		}
		if p.tells {
			cpus = nil
		}
		for i := range max(len(p.from), len(p.to)) {
			if len(p.from.row(i))+len(p.to.row(i)) > 0 {
				cpus = append(cpus, int32(i))
			}
		}
		if p.tells {
			break
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// columns forms the probe's metrics, with one value for each of the rows named. Metrics without any value are left out.
func (p *openProbe) columns(rows []int32, elapsed time.Duration) []column {
	values := make([]float64, len(p.metrics)*len(rows))
	out := make([]float64, len(p.metrics))
	for i, r := range rows {
		for k := range out {
			out[k] = math.NaN()
		}
		if from, to := p.from.row(int(r)), p.to.row(int(r)); len(from) > 0 && len(from) == len(to) {
			p.form(from, to, elapsed, out)
		}
		for k := range out {
			values[k*len(rows)+i] = out[k]
		}
	}
	columns := make([]column, 0, len(p.metrics))
	for k, m := range p.metrics {
		c := column{m.name, m.unit, p.scope, values[k*len(rows) : (k+1)*len(rows) : (k+1)*len(rows)]}
		if slices.ContainsFunc(c.values, func(v float64) bool { return !math.IsNaN(v) }) {
			columns = append(columns, c)
		}
	}
	return columns
}

// grown is how much a counter grew between two readings. It is not ok for a counter that went backwards: the kernel
// began it anew, and what it counted before is not known.
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
