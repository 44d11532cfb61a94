package analysis

import (
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// watcher evaluates the rules, interval by interval. The rows of a date come metric by metric, and one date after the
// other. So it holds the intervals of one date, never of a whole life.
type watcher struct {
	job        func() rules.Job // is called once rows are there
	possible   bool
	set        *rules.Set
	reads      map[string]bool // metrics that rules name
	width      int             // the number of these metrics among the job's
	watch      *rules.Watch
	severities *severityMap // nil: none is wanted
	of         map[int64]*rules.Interval
	day        int64
	spare      []*rules.Interval
	now        []rules.Severity
	came       int64
}

const dayMs = 24 * 3_600_000

// add takes a row.
func (w *watcher) add(r *schemas.Row, metric string) {
	if day := r.IntervalStart / dayMs; day != w.day {
		w.fold()
		w.day = day
	}
	iv := w.of[r.IntervalStart]
	if iv == nil {
		if last := len(w.spare) - 1; last >= 0 {
			iv, w.spare = w.spare[last], w.spare[:last]
		} else {
			iv = &rules.Interval{Metrics: make([]rules.Named, 0, w.width)}
		}
		iv.Begin(r)
		w.of[r.IntervalStart] = iv
	}
	if w.reads[metric] {
		iv.AddRow(r)
	}
}

// fold evaluates the rules over the intervals that are there.
func (w *watcher) fold() {
	if w.watch == nil {
		w.watch = w.set.NewWatch(w.job(), w.possible)
	}
	for _, at := range slices.Sorted(maps.Keys(w.of)) {
		iv := w.of[at]
		w.watch.Add(iv) // interim findings are left: the final ones replace them
		if w.severities != nil {
			w.now = w.watch.Severities(iv, w.now[:0])
			w.severities.add(at, w.now)
		}
		w.spare = append(w.spare, iv)
		w.came++
	}
	clear(w.of)
}

// end returns the findings of all that came.
func (w *watcher) end(running bool) []schemas.Finding {
	w.fold()
	if running {
		return w.watch.Due(nil)
	}
	return w.watch.End(nil)
}

// severityMap is properties by time. Its cells are as wide as the bins of the picture were at first.
type severityMap struct {
	set               *rules.Set
	originMs, widthMs int64
	all               []view.Property
	worst             []map[int64]float64 // by rule and cell
	sum               []float64
	n                 []int
}

func newSeverityMap(set *rules.Set, originMs, widthMs int64) *severityMap {
	n := len(set.Rules)
	m := &severityMap{
		set: set, originMs: originMs, widthMs: widthMs, worst: make([]map[int64]float64, n), sum: make([]float64, n),
		n: make([]int, n),
	}
	for i := range set.Rules {
		m.all = append(m.all, view.Property{Rule: set.Rules[i].ID, Title: set.Rules[i].Title})
		m.worst[i] = map[int64]float64{}
	}
	return m
}

func (m *severityMap) add(startMs int64, of []rules.Severity) {
	into := (startMs - m.originMs) % m.widthMs
	if into < 0 {
		into += m.widthMs
	}
	cell := startMs - into
	for _, s := range of {
		if s.Rule < 0 || s.Rule >= len(m.all) {
			continue
		}
		p := &m.all[s.Rule]
		if !s.Evaluated {
			p.Why = s.Why
			continue
		}
		m.sum[s.Rule] += s.Value
		m.n[s.Rule]++
		p.Max = max(p.Max, s.Value)
		if worst, has := m.worst[s.Rule][cell]; !has || worst < s.Value {
			m.worst[s.Rule][cell] = s.Value
		}
	}
}

// done returns the rules that look at intervals, the worst first. Rules that were never evaluated come last, with the
// reason. Each bin of the picture covers several cells.
func (m *severityMap) done(bins int, at func(startMs int64) int) (all []view.Property) {
	for i := range m.all {
		if m.set.Rules[i].Job {
			continue
		}
		p := m.all[i]
		p.Worst = make([]float64, bins)
		for k := range p.Worst {
			p.Worst[k] = math.NaN()
		}
		for cell, worst := range m.worst[i] {
			if bin := at(cell); bin >= 0 && !(p.Worst[bin] >= worst) { // NaN too
				p.Worst[bin] = worst
			}
		}
		switch {
		case m.n[i] > 0:
			p.Mean, p.Why = m.sum[i]/float64(m.n[i]), ""
		case p.Why == "":
			p.Why = "no interval was evaluated"
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, view.ByWorst)
	return all
}
