package audit

import (
	"maps"
	"slices"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// merger is the audit's fold of one partition of partials. It decides which shares a summary merges. Their values come
// from the log of counters.
type merger struct {
	b         *Books
	account   *Account
	partition int32
	position  int64 // offset up to which merge has folded; records behind it may be read too
	later     int64 // the position behind the ends of all topics

	closed, closedMs, dropped int64
	watermarks                map[int32]int64
	windows                   map[int64]map[schemas.JobKey]*merging
	ahead                     map[jobInterval]bool // that have shares between position and later
	ended                     bool
}

// merging is a window with shares in the topic.
type merging struct {
	parts   map[int32]bool
	emitted bool
}

func (m *merger) front() int64 {
	if m.ended {
		return ended
	}
	return max(m.closed, m.dropped)
}

// apply folds the next entry of the partition.
func (m *merger) apply(e Entry) {
	value, err := schemas.Unmarshal(e.Value)
	folded := e.Offset < m.position
	switch v := value.(type) {
	case *schemas.Watermark:
		if folded {
			m.watermark(e, v)
		}
		return
	case *schemas.JobPartial:
		if err == nil && m.usable(e, v) {
			m.b.found(m.partition, e, v)
			if folded {
				m.account.Records++
				m.add(v)
			} else if e.Offset < m.later {
				m.ahead[jobInterval{schemas.JobKey{JobID: v.JobID, Restart: v.Restart}, v.IntervalStart}] = true
			}
			return
		}
	}
	if folded {
		m.refuse(e)
	}
}

// refuse counts a rejected record.
func (m *merger) refuse(e Entry) {
	m.account.Records++
	m.account.Fates.Rejected++
	m.b.rejected(schemas.TopicPartials, m.account, e)
}

// usable reports whether merge takes a share.
func (m *merger) usable(e Entry, p *schemas.JobPartial) bool {
	if p.Cluster != m.b.terms.Cluster || p.Collector >= m.b.terms.Collectors ||
		recount.IsAhead(p.IntervalStart, p.IntervalMs, e.AppendedMs) {
		return false
	}
	for i := range p.Metrics {
		c := &p.Metrics[i]
		if c.NodeMeans < 0 || c.NodeMeans > c.Count || recount.CheckCertified(c.Count, &c.Certified) != nil {
			return false
		}
	}
	return true
}

// emitting reports whether merge may have emitted a summary between position and later.
func (m *merger) emitting(w jobInterval) bool {
	at := m.windows[w.start][w.job]
	return m.position < m.later && (m.ahead[w] || at != nil && !at.emitted)
}

func (m *merger) add(p *schemas.JobPartial) {
	if p.IntervalStart <= max(m.closed, m.dropped) {
		m.account.Fates.Late++
		return
	}
	if m.windows[p.IntervalStart] == nil {
		m.windows[p.IntervalStart] = map[schemas.JobKey]*merging{}
	}
	w := jobInterval{schemas.JobKey{JobID: p.JobID, Restart: p.Restart}, p.IntervalStart}
	at := m.windows[w.start][w.job]
	if at == nil {
		at = &merging{parts: map[int32]bool{}}
		m.windows[w.start][w.job] = at
	}
	switch {
	case at.parts[p.Collector]:
		m.account.Fates.Duplicate++
		return
	case at.emitted:
		m.account.Fates.Late++
		return
	}
	at.parts[p.Collector] = true
	m.account.Open++
	if len(at.parts) >= int(p.Parts) {
		m.emit(w, at)
	}
}

func (m *merger) emit(w jobInterval, at *merging) {
	at.emitted = true
	m.account.Open -= int64(len(at.parts))
	m.account.Fates.Summarized += int64(len(at.parts))
	m.account.Fates.Outputs++
	m.b.merged(w, slices.Sorted(maps.Keys(at.parts)))
}

func (m *merger) watermark(e Entry, w *schemas.Watermark) {
	if w.Collector >= m.b.terms.Collectors || recount.IsAhead(w.IntervalStart, w.IntervalMs, e.AppendedMs) {
		m.refuse(e)
		return
	}
	m.account.Fates.Ticks++
	if old, ok := m.watermarks[w.Collector]; !ok || old < w.IntervalStart {
		m.watermarks[w.Collector] = w.IntervalStart
	}
	if bound := w.IntervalStart - config.Outage*max(w.IntervalMs, m.closedMs); bound > max(m.closed, m.dropped) {
		m.dropped = bound
	}
	if len(m.watermarks) == int(m.b.terms.Collectors) {
		if least := slices.Min(slices.Collect(maps.Values(m.watermarks))); least > m.closed {
			m.closed, m.closedMs, m.account.closed = least, w.IntervalMs, least
		}
	}
	for start, jobs := range m.windows {
		if start > max(m.closed, m.dropped) {
			continue
		}
		for job, at := range jobs {
			if !at.emitted {
				m.emit(jobInterval{job, start}, at)
			}
		}
		delete(m.windows, start)
	}
}
