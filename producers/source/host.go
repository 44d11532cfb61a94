package source

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

// Host samples the machine that the process runs on. One goroutine uses it.
type Host struct {
	log     *slog.Logger
	probes  []*openProbe
	derived *derived // nil: none
	node    []Column // read, of scope node, of the last interval
}

// openProbe is a probe with its last two readings. A reading that failed is nil.
type openProbe struct {
	probe
	source   source
	from, to reading
	spare    reading // storage for the next reading
	trouble  kafka.Trouble
}

// Open opens every source. A source that cannot be opened is logged, and absent from then on.
func Open(cfg config.Agent, log *slog.Logger) *Host {
	h := &Host{log: log}
	var err error
	if h.derived, err = newDerived(cfg); err != nil {
		log.Warn("site's metrics are absent", "err", err)
		cfg.Sources = nil
	}
	for _, s := range append(sources(), siteSources(cfg)...) {
		p, err := s.open(cfg, log)
		if err != nil {
			log.Warn("source is absent", "source", s.name, "err", err)
			continue
		}
		if p.read != nil {
			h.probes = append(h.probes, &openProbe{probe: p, source: s})
		}
	}
	return h
}

// Close releases what the sources hold.
func (h *Host) Close() {
	for _, p := range h.probes {
		if p.close != nil {
			p.close()
		}
	}
}

// Read takes a reading of every source, now. sources lists the one that tells which CPUs are online before those that
// follow it.
func (h *Host) Read(v Vitals) {
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
			if p.trouble.Worth(err, time.Now()) {
				h.log.Warn("source is absent", "source", p.source.name, "err", err)
			}
		} else if p.trouble.Over() {
			h.log.Info("source is back", "source", p.source.name)
		}
		if p.tells {
			online = now.present()
		}
	}
}

// Interval forms the columns of the interval between the last two readings, which are elapsed apart. They are ascending
// by name, and the caller keeps them. The CPUs are those of either reading, ascending: one that came or went in between
// has missing values, one that is offline is absent. A metric that no CPU has is left out.
func (h *Host) Interval(elapsed time.Duration) (cpus []int32, columns []Column) {
	cpus = h.cpus()
	for _, p := range h.probes {
		if p.from == nil || p.to == nil {
			continue
		}
		rows := cpus
		switch p.source.scope {
		case schemas.ScopeNode:
			rows = []int32{0}
		case schemas.ScopeSocket, schemas.ScopeGPU:
			rows = upTo(max(len(p.from), len(p.to)))
		case schemas.ScopeJob:
			continue // Jobs forms them
		}
		columns = append(columns, p.columns(rows, elapsed)...)
	}
	h.node = h.node[:0]
	for _, c := range columns {
		if c.Scope == schemas.ScopeNode {
			h.node = append(h.node, c)
		}
	}
	columns = h.derived.add(columns, cpus)
	slices.SortFunc(columns, func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	return cpus, columns
}

// cpus returns the CPUs of the source that tells which are online. Where it cannot be read, they are those of all
// sources.
func (h *Host) cpus() []int32 {
	var cpus []int32
	for _, p := range h.probes {
		if p.source.scope != schemas.ScopeCore || p.from == nil || p.to == nil {
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
func (p *openProbe) columns(rows []int32, elapsed time.Duration) []Column {
	values := make([]float64, len(p.source.metrics)*len(rows))
	out := make([]float64, len(p.source.metrics))
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
	columns := make([]Column, 0, len(p.source.metrics))
	for k, m := range p.source.metrics {
		c := Column{m.name, m.unit, p.source.scope, values[k*len(rows) : (k+1)*len(rows) : (k+1)*len(rows)]}
		if slices.ContainsFunc(c.Values, func(v float64) bool { return !math.IsNaN(v) }) {
			columns = append(columns, c)
		}
	}
	return columns
}

// upTo returns the numbers below n.
func upTo(n int) []int32 {
	numbers := make([]int32, n)
	for i := range numbers {
		numbers[i] = int32(i)
	}
	return numbers
}
