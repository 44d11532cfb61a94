package fold

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Merger folds one partition of partials.
//
// A window is one interval of one split job. It closes when all its parts are there. Parts without records come too.
// Two bounds close it without all parts:
//   - the least Watermark of all collectors, since nothing more can come behind it,
//   - any Watermark less the outage, so that a collector that is hours behind delays nobody.
//
// Whole jobs of such a collector come late and complete. Its shares of split jobs are missing, and parts_reported shows
// that.
//
// Fates: rejected; late, with its nodes, for a window that is closed or dropped; duplicate, the second partial of one
// collector; summarized.
type Merger struct {
	// Sketch is the most bytes of a certified summary in a JobSummary; 0: without.
	Sketch int

	Ledger
	cluster    string
	collectors int32
	watermarks map[int32]int64
	windows    map[int64]map[schemas.JobKey]*mergeWindow
	waiting    int64 // partials of windows that are not emitted
}

// mergeWindow keeps which collectors reported, also after it was emitted, until its interval is closed.
type mergeWindow struct {
	parts   map[int32]*schemas.JobPartial
	emitted bool
}

// NewMerger continues from p, nil at the beginning of a partition. collectors is the number of partitions of counters.
func NewMerger(cluster string, collectors int32, p *schemas.Progress) *Merger {
	m := &Merger{
		Ledger: NewLedger(p), cluster: cluster, collectors: collectors,
		watermarks: map[int32]int64{}, windows: map[int64]map[schemas.JobKey]*mergeWindow{},
	}
	if m.closed != Never { // every collector had closed this interval
		for c := range collectors {
			m.watermarks[c] = m.closed
		}
	}
	return m
}

// Progress implements Fold.
func (m *Merger) Progress(position int64) *schemas.Progress {
	p := m.Ledger.Progress(position)
	p.Open = m.waiting
	return p
}

// Apply folds the next entry of the log.
func (m *Merger) Apply(e Entry) Effects {
	r, err := m.Decode(e)
	if err != nil {
		return m.reject(e, err.Error())
	}
	switch r := r.(type) {
	case *schemas.JobPartial:
		if err := checkPartial(r); err != nil {
			return m.reject(e, err.Error())
		}
		return m.add(e, r).names(r.IntervalMs, fmt.Sprintf("collector %d", r.Collector))
	case *schemas.Watermark:
		return m.watermark(e, r).names(r.IntervalMs, fmt.Sprintf("collector %d", r.Collector))
	default:
		return m.reject(e, fmt.Sprintf("a %T does not belong here", r))
	}
}

// add keeps a share until all of its job are here. A late share also counts the nodes that are lost with it.
func (m *Merger) add(e Entry, p *schemas.JobPartial) Effects {
	start, late := p.IntervalStart, schemas.ProgressCounts{Late: 1, LateNodes: int64(p.NodesReported)}
	switch {
	case p.Cluster != m.cluster:
		return m.Refuse(e, "of cluster "+p.Cluster)
	case p.Collector >= m.collectors:
		return m.Refuse(e, fmt.Sprintf("of collector %d of %d", p.Collector, m.collectors))
	case isAhead(start, p.IntervalMs, e.AppendedMs):
		return m.Refuse(e, "from the future")
	case start <= max(m.closed, m.dropped):
		return Effects{Counts: late}
	}
	m.open(start, e.Offset)
	if m.windows[start] == nil {
		m.windows[start] = map[schemas.JobKey]*mergeWindow{}
	}
	key := schemas.JobKey{JobID: p.JobID, Restart: p.Restart}
	w := m.windows[start][key]
	if w == nil {
		w = &mergeWindow{parts: map[int32]*schemas.JobPartial{}}
		m.windows[start][key] = w
	}
	if _, heard := w.parts[p.Collector]; heard {
		return Effects{Counts: schemas.ProgressCounts{Duplicate: 1}}
	}
	if w.emitted {
		return Effects{Counts: late}
	}
	w.parts[p.Collector] = p
	m.waiting++
	if len(w.parts) < int(p.Parts) {
		return Effects{}
	}
	return m.emit(w)
}

// watermark closes an interval once every collector is past it. A collector that stands still would keep all others
// open, so after an outage's length intervals are dropped without it.
func (m *Merger) watermark(e Entry, w *schemas.Watermark) Effects {
	if w.Collector >= m.collectors {
		return m.Refuse(e, fmt.Sprintf("Watermark of collector %d of %d", w.Collector, m.collectors))
	}
	if isAhead(w.IntervalStart, w.IntervalMs, e.AppendedMs) {
		return m.Refuse(e, "Watermark from the future")
	}
	fx := Effects{Counts: schemas.ProgressCounts{Ticks: 1}}
	if w.IntervalStart > max(m.closed, m.dropped) {
		m.open(w.IntervalStart, e.Offset)
	}
	if old, ok := m.watermarks[w.Collector]; !ok || old < w.IntervalStart {
		m.watermarks[w.Collector] = w.IntervalStart
	}
	// The longer of two intervals counts, as for collectors: a wrong interval_ms must not drop shares that are in time.
	if bound := w.IntervalStart - config.Outage*max(w.IntervalMs, m.closedLengthMs); bound > max(m.dropped, m.closed) {
		m.dropped = bound
	}
	if len(m.watermarks) == int(m.collectors) {
		if least := slices.Min(slices.Collect(maps.Values(m.watermarks))); least > m.closed {
			m.closed, m.closedLengthMs = least, w.IntervalMs
			fx.Closes = true
		}
	}
	return m.closeForgotten(fx)
}

// closeForgotten emits the windows of intervals that are closed or dropped, with the parts that they have.
func (m *Merger) closeForgotten(fx Effects) Effects {
	for _, gone := range m.forgetClosed() {
		jobs := slices.SortedFunc(maps.Keys(m.windows[gone]), func(a, b schemas.JobKey) int {
			return cmp.Or(strings.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart))
		})
		for _, key := range jobs {
			if w := m.windows[gone][key]; !w.emitted {
				emitted := m.emit(w)
				fx.Outputs = append(fx.Outputs, emitted.Outputs...)
				fx.Counts.Add(emitted.Counts)
			}
		}
		delete(m.windows, gone)
	}
	return fx
}

// emit joins the shares in the order of collectors, since sums of floats depend on it. Replicas and replays must agree
// to the last bit.
func (m *Merger) emit(w *mergeWindow) Effects {
	parts := make([]*schemas.JobPartial, 0, len(w.parts))
	for _, collector := range slices.Sorted(maps.Keys(w.parts)) {
		parts = append(parts, w.parts[collector])
		w.parts[collector] = nil // frees the share, keeps who reported
	}
	w.emitted = true
	m.waiting -= int64(len(parts))
	summary, surplus := mergePartials(parts, m.Sketch)
	return Effects{
		Outputs: []schemas.Record{summary},
		Counts:  schemas.ProgressCounts{Summarized: int64(len(parts)), Outputs: 1, Surplus: surplus},
	}
}

// Abandon gives up the windows that a replay left open, after retention deleted its beginning. The rest of a window
// that was emitted looks like an open window, and would be emitted twice.
func (m *Merger) Abandon() {
	newest := int64(Never)
	for start, windows := range m.windows {
		for _, w := range windows {
			if !w.emitted {
				newest = max(newest, start)
			}
		}
	}
	for _, gone := range m.giveUp(newest) {
		delete(m.windows, gone)
	}
	m.waiting = 0
}
