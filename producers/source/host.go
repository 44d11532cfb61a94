package source

import (
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Host samples the machine that the process runs on. One goroutine uses it. Each source runs in a goroutine of its own,
// so a source that hangs loses its own values, and delays the others for no longer than patience.
type Host struct {
	cfg    config.Agent
	log    *slog.Logger
	probes []*openProbe
	done   chan *openProbe // probes that have obeyed an order
	timer  *time.Timer     // of wait
	teller *openProbe      // the source that lists the online CPUs

	interval time.Duration // before the last reading, 0 if unknown
	began    time.Time     // the last reading
	online   []int         // CPUs, as the teller last read them
	opening  *openProbe    // the source that is opened at this boundary; nil: none
	measure  bool          // the CPU time of each reading

	derived *derived // nil: none
	node    []Column // that were read, of scope node, of the last interval

	// Memory that Interval reuses.
	slots  []slot
	cpus   []int32 // of the last interval; samples share it while it does not change
	next   []int32
	out    []float64
	values []float64
}

// slot is a column that an interval may have.
type slot struct {
	Column
	probe  *openProbe // nil for the count of late sources
	metric int        // of the probe's metrics, or ownSkew
}

// ownSkew is the slot of a source's own skew.
const ownSkew = -1

const (
	// openTime is the longest time that the start waits for sources to open. A source that takes longer is read once it
	// is open.
	openTime = time.Second
	// closeTime is the longest time that the end waits for sources to close.
	closeTime = 200 * time.Millisecond
)

// SkewMetric begins the name of the metric of a source's own skew. The name of the source follows.
const SkewMetric = "weir_agent_source_skew_us:"

const lateMetric = "weir_agent_sources_late"

func agentSources() source {
	return source{"agent_sources", schemas.ScopeNode, "the agent itself", []metric{
		{lateMetric, "1", gauge, "sources without values in the interval, because a reading was not there in time"},
		{SkewMetric + "SOURCE", "us", gauge, "distance of SOURCE's reading from the boundary, where above interval " +
			"/ 100"},
	}, func(config.Agent, *slog.Logger) (probe, error) { return probe{}, nil }} // the host forms them
}

// Open opens every source. A source that takes longer than openTime joins once it is open. One line of the log names
// the sources that the host lacks.
func Open(cfg config.Agent, log *slog.Logger) *Host {
	set, err := newDerived(cfg)
	if err != nil {
		log.Warn("site's metrics are absent", "err", err)
		cfg.Sources = nil
	}
	h := openSources(cfg, log, append(sources(), siteSources(cfg)...))
	h.derived = set
	return h
}

func openSources(cfg config.Agent, log *slog.Logger, all []source) *Host {
	h := &Host{cfg: cfg, log: log}
	for _, s := range all {
		if measuredFrom(cfg, &s) {
			h.probes = append(h.probes, &openProbe{source: s})
		}
	}
	h.start()
	h.began = time.Now()
	for _, p := range h.probes {
		h.order(p, order{open: true})
	}
	h.wait(openTime, h.awaits)
	var absent []string
	for _, p := range h.probes {
		switch {
		case p.busy:
			h.late(p)
		case p.last != nil:
			absent = append(absent, p.source.name)
			log.Debug("source is absent", "source", p.source.name, "err", p.last)
		}
	}
	if len(absent) > 0 {
		log.Info("this host lacks some sources: `weir metrics --available` says why", "sources", absent)
	}
	return h
}

// start starts the goroutines.
func (h *Host) start() {
	if h.done != nil {
		return
	}
	h.done = make(chan *openProbe, 2*len(h.probes)) // an answer and the end of each: no goroutine waits for the host
	h.timer = time.NewTimer(time.Hour)
	for _, p := range h.probes {
		p.orders = make(chan order, 1)
		if p.read != nil {
			h.opened(p)
		}
		for k, m := range p.source.metrics {
			if h.cfg.Measures(m.name) {
				h.slots = append(h.slots, slot{Column{m.name, m.unit, p.source.scope, nil, nil}, p, k})
			}
		}
		h.slots = append(h.slots, slot{
			Column{SkewMetric + p.source.name, "us", schemas.ScopeNode, nil, nil},
			p,
			ownSkew,
		})
		go p.work(h.cfg, h.log, h.done)
	}
	h.slots = append(h.slots, slot{Column{lateMetric, "1", schemas.ScopeNode, nil, nil}, nil, 0})
	slices.SortFunc(h.slots, func(a, b slot) int { return strings.Compare(a.Name, b.Name) })
}

// Close releases the resources of the sources. It does not wait for a source that hangs.
func (h *Host) Close() {
	h.start()
	idle := 0
	for _, p := range h.probes {
		close(p.orders)
		if !p.busy {
			idle++
		}
	}
	for late := time.After(closeTime); idle > 0; {
		select {
		case p := <-h.done:
			if p == nil {
				idle--
			}
		case <-late:
			return
		}
	}
}

// Read takes a reading of every source, now. The source that lists the online CPUs is read before the sources that
// follow its list. If it hangs, they follow its last list.
func (h *Host) Read(v Vitals) {
	h.start()
	h.gather()
	h.interval, h.began = v.Interval, time.Now()
	h.opening = h.nextOpening()
	for _, p := range h.probes {
		if p.spare == nil {
			p.spare = p.from.rows
		}
		p.from, p.to = p.to, shot{late: p.to.late}
	}
	limit := patience(v.Interval)
	h.orderReadings(v, false)
	h.wait(limit/2, h.untold)
	h.orderReadings(v, true)
	h.wait(limit-time.Since(h.began), h.awaits)
	for _, p := range h.probes {
		if p.busy {
			h.late(p)
		}
	}
}

// orderReadings orders a reading of the sources that follow the online CPUs, or of all others. A source that failed
// often is opened again, and read at the next boundary after that. At most one source is opened at a boundary, so that
// openings never add up. A source that is busy with an earlier order gets none.
func (h *Host) orderReadings(v Vitals, following bool) {
	for _, p := range h.probes {
		if p.busy || p.barren || (p.follow != nil) != following || h.began.Before(p.next) {
			continue
		}
		if p.needsOpening() {
			if p == h.opening {
				h.order(p, order{open: true})
			}
			continue
		}
		h.order(p, order{online: h.online, into: p.spare, vitals: v, measure: h.measure})
		p.spare = nil
	}
}

// nextOpening returns the source that has waited longest to be opened, or nil. One source per boundary is opened; with
// a long interval more sources may be absent than there are boundaries between their attempts.
func (h *Host) nextOpening() (next *openProbe) {
	for _, p := range h.probes {
		if p.busy || p.barren || !p.needsOpening() || h.began.Before(p.next) {
			continue
		}
		if next == nil || p.next.Before(next.next) {
			next = p
		}
	}
	return next
}

func (h *Host) order(p *openProbe, o order) {
	p.busy, p.overdue, p.began = true, false, h.began
	p.orders <- o // never blocks: the channel holds one order, and the previous one was answered
}

// awaits reports whether an order is unanswered but not yet late.
func (h *Host) awaits() bool {
	for _, p := range h.probes {
		if p.busy && !p.overdue {
			return true
		}
	}
	return false
}

// untold reports whether the list of online CPUs is still expected in this round.
func (h *Host) untold() bool { return h.teller != nil && h.teller.busy && !h.teller.overdue }

// wait takes answers until nothing is awaited any more, for at most a time. Most sources answer while the host yields.
// A timer is started for the others alone: one that is no longer needed would wake the process all the same.
func (h *Host) wait(limit time.Duration, awaited func() bool) {
	if h.lastCall(awaited); !awaited() {
		return
	}
	h.timer.Reset(max(limit, 0))
	defer h.timer.Stop()
	for awaited() {
		select {
		case p := <-h.done:
			h.accept(p)
		case <-h.timer.C:
			h.lastCall(awaited)
			return
		}
	}
}

// lastCall lets the sources run that are ready to. If this whole process was stopped, they had no time either.
func (h *Host) lastCall(awaited func() bool) {
	for still := 0; still < 3 && awaited(); still++ {
		runtime.Gosched()
		if h.gather() {
			still = 0
		}
	}
}

// gather takes the answers that are there, and reports whether there were any.
func (h *Host) gather() (some bool) {
	for {
		select {
		case p := <-h.done:
			h.accept(p)
			some = true
		default:
			return some
		}
	}
}

// late notes a source that has not answered in time. Its reading is dropped, because its instant is unknown.
func (h *Host) late(p *openProbe) {
	p.to.late = true
	if !p.overdue {
		p.overdue = true
		p.failures++
	}
	p.hung = time.Since(p.began)
	p.last = fmt.Errorf("its call %w for %s", errLate, p.hung.Round(time.Millisecond))
	if p.trouble.Worth(p.last, time.Now()) {
		h.log.Warn("source is late: its values are missing", "source", p.source.name, "err", p.last)
	}
}

// accept notes an answer. A reading that was late is dropped, and its storage kept.
func (h *Host) accept(p *openProbe) {
	a := &p.answer
	p.busy = false
	switch {
	case a.err != nil:
		p.spare = a.into
		h.failed(p, a.err)
	case a.open:
		h.opened(p)
	case p.overdue:
		p.spare, p.hung = a.rows, a.end.Sub(p.began)
	default:
		p.to = shot{rows: a.rows, off: a.at.Sub(h.began), skew: a.skew()}
		h.well(p)
	}
	wait := pause(p.failures, h.interval)
	switch {
	case a.open && a.err == nil:
		wait = 0
	case !p.was: // hardware that is absent seldom comes
		wait = longestPause
	}
	p.next = time.Now().Add(wait)
}

// failed notes an error of a source. A source that never opened belongs to hardware that this host lacks. Open has
// already logged it.
func (h *Host) failed(p *openProbe, err error) {
	p.failures++
	p.last, p.reopened, p.to.late = err, false, false
	if p.was && p.trouble.Worth(err, time.Now()) {
		h.log.Warn("source is absent", "source", p.source.name, "err", err)
	}
}

// opened notes a source that is open.
func (h *Host) opened(p *openProbe) {
	p.barren, p.reopened = p.read == nil, true
	if p.tells {
		h.teller = p
	}
	if p.last != nil && !p.was && !p.barren {
		h.log.Info("source is there now", "source", p.source.name)
	}
	p.was = p.was || !p.barren
}

// well notes a reading in time.
func (h *Host) well(p *openProbe) {
	if p.trouble.Over() {
		h.log.Info("source is back", "source", p.source.name, "late_ms", p.hung.Milliseconds())
	}
	p.failures, p.last, p.hung = 0, nil, 0
	if p.tells {
		h.tell(p.to.rows)
	}
}

// tell keeps the list of online CPUs. It makes a new list rather than change the old one, because sources still read
// that.
func (h *Host) tell(rows reading) {
	at := 0
	for i := range rows {
		if len(rows[i]) == 0 {
			continue
		}
		if at >= len(h.online) || h.online[at] != i {
			h.online = rows.present()
			return
		}
		at++
	}
	if at < len(h.online) {
		h.online = rows.present()
	}
}

// Interval forms the columns of the interval between the last two readings, which are elapsed apart. They are ascending
// by name, and the caller owns them. The CPUs are the union of both readings, ascending: a CPU that came or went in
// between has missing values, an offline CPU is absent. A metric without a value on any CPU is left out.
//
// Each source uses the time between its own two readings. All columns share one piece of memory for their values, so an
// interval costs two allocations.
func (h *Host) Interval(elapsed time.Duration) (cpus []int32, columns []Column) {
	cpus = h.present()
	h.values = h.values[:0]
	late := 0
	for _, p := range h.probes {
		if p.from.late || p.to.late {
			late++
		}
		p.at, p.rows = len(h.values), 0
		if p.from.rows == nil || p.to.rows == nil || p.source.scope == schemas.ScopeJob { // Jobs forms these
			continue
		}
		if err := h.form(p, cpus, elapsed+p.to.off-p.from.off); err != nil {
			p.rows = 0
			h.failed(p, err)
		}
	}
	count, size := 0, 0
	for i := range h.slots {
		s := &h.slots[i]
		s.Values = h.of(s, late)
		if len(s.Values) > 0 {
			count, size = count+1, size+len(s.Values)
		}
	}
	columns = make([]Column, 0, count)
	slab := make([]float64, 0, size)
	for i := range h.slots {
		if s := &h.slots[i]; len(s.Values) > 0 {
			from := len(slab)
			slab = append(slab, s.Values...)
			c := Column{s.Name, s.Unit, s.Scope, nil, slab[from:len(slab):len(slab)]}
			if s.Scope == schemas.ScopeSocket || s.Scope == schemas.ScopeGPU {
				c.Rows = s.probe.numbers
			}
			columns = append(columns, c)
		}
	}
	return cpus, h.derive(columns, cpus)
}

// of returns the values of a slot, in the host's scratch. It returns none if the interval has no such column.
func (h *Host) of(s *slot, late int) []float64 {
	p := s.probe
	switch {
	case p == nil:
		h.values = append(h.values, float64(late))
		return h.values[len(h.values)-1:]
	case p.rows == 0:
		return nil
	case s.metric == ownSkew:
		skew := max(p.from.skew, p.to.skew)
		if h.interval == 0 || skew <= h.interval/100 {
			return nil
		}
		h.values = append(h.values, float64(skew.Microseconds()))
		return h.values[len(h.values)-1:]
	}
	values := h.values[p.at+s.metric*p.rows:][:p.rows]
	if !slices.ContainsFunc(values, func(v float64) bool { return !math.IsNaN(v) }) {
		return nil
	}
	return values
}

// form appends the values of a source to the host's scratch, metric by metric, with NaN for missing values. A
// core-scoped source yields a value for each of the CPUs, any other source one for each of its own rows.
func (h *Host) form(p *openProbe, cpus []int32, elapsed time.Duration) (err error) {
	defer caught(&err)
	metrics := len(p.source.metrics)
	rows := cpus
	if p.source.scope != schemas.ScopeCore {
		rows = h.numbers(p)
	}
	p.rows = len(rows)
	h.values = slices.Grow(h.values, metrics*p.rows)[:p.at+metrics*p.rows]
	h.out = slices.Grow(h.out[:0], metrics)[:metrics]
	for i, r := range rows {
		for k := range h.out {
			h.out[k] = math.NaN()
		}
		if from, to := p.from.rows.row(int(r)), p.to.rows.row(int(r)); len(from) > 0 && len(from) == len(to) {
			p.form(from, to, elapsed, h.out)
		}
		for k, v := range h.out {
			if math.IsInf(v, 0) { // a site's numbers may grow beyond the largest float
				v = math.NaN()
			}
			h.values[p.at+k*p.rows+i] = v
		}
	}
	return nil
}

// numbers returns the numbers of the rows that are in either of a source's last two readings, ascending. Columns share
// the list while it does not change.
func (h *Host) numbers(p *openProbe) []int32 {
	h.next = h.next[:0]
	for i := range max(len(p.from.rows), len(p.to.rows)) {
		if len(p.from.rows.row(i))+len(p.to.rows.row(i)) > 0 {
			h.next = append(h.next, int32(i))
		}
	}
	if !slices.Equal(h.next, p.numbers) {
		p.numbers = slices.Clone(h.next)
	}
	return p.numbers
}

// present returns the CPUs of the source that lists the online CPUs. If it cannot be read, they are the CPUs of its
// last list; before its first list, the CPUs of all sources.
func (h *Host) present() []int32 {
	h.next = h.next[:0]
	told := h.teller != nil && h.teller.from.rows != nil && h.teller.to.rows != nil
	if !told && h.teller != nil && len(h.cpus) > 0 {
		return h.cpus
	}
	most := 0
	for _, p := range h.probes {
		most = max(most, len(p.from.rows), len(p.to.rows))
	}
	for i := range most {
		if told && h.teller.has(i) || !told &&
			slices.ContainsFunc(h.probes, func(p *openProbe) bool { return p.has(i) }) {
			h.next = append(h.next, int32(i))
		}
	}
	if !slices.Equal(h.next, h.cpus) {
		h.cpus = slices.Clone(h.next) // samples have the old one
	}
	return h.cpus
}
