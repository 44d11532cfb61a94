package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// ClockStatus is a node whose clock is off by more than a tenth of the interval.
type ClockStatus struct {
	Node     string `json:"node"`
	OffsetMs int64  `json:"offset_ms"` // ahead of the broker's clock, at least; negative: behind
}

// Synchrony is how many nodes of the machine sampled at the same instant, by the newest row of _system that tells.
type Synchrony struct {
	IntervalStart int64   `json:"interval_start"`
	Nodes         int32   `json:"nodes"`           // that measured their clocks
	InWindow      float64 `json:"in_window_share"` // of them, within 0.6 s of the boundary by the broker's clock
}

// clockSigns are the last words of each node's records on its clock.
type clockSigns map[string]struct {
	schemas.ClockSign
	appendedMs int64
}

// add notes what a record tells of its node's clock. The records of a node come from several partitions, so the one
// that was appended last counts.
func (c clockSigns) add(cluster string, r schemas.Record, appendedMs int64) {
	var h *schemas.NodeHeader
	switch r := r.(type) {
	case *schemas.CounterBatch:
		h = &r.NodeHeader
	case *schemas.NodeSummary:
		h = &r.NodeHeader
	}
	if h == nil || h.Cluster != cluster {
		return
	}
	sign := schemas.ClockOf(r, appendedMs)
	before, known := c[h.Node]
	if !sign.Known || known && (appendedMs < before.appendedMs || appendedMs == before.appendedMs && !sign.Off) {
		return
	}
	before.ClockSign, before.appendedMs = sign, appendedMs
	c[h.Node] = before
}

// off returns the nodes whose clock is off, the worst first, and never nil: they become a JSON array.
func (c clockSigns) off() []ClockStatus {
	off := []ClockStatus{}
	for node, sign := range c {
		if sign.Off {
			off = append(off, ClockStatus{node, sign.Ms})
		}
	}
	slices.SortFunc(off, func(a, b ClockStatus) int {
		return cmp.Or(cmp.Compare(max(b.OffsetMs, -b.OffsetMs), max(a.OffsetMs, -a.OffsetMs)),
			cmp.Compare(a.Node, b.Node))
	})
	return off
}

// newer returns the synchrony that a summary tells, if it is of the whole machine and newer than the one known.
func (s *Synchrony) newer(row *schemas.JobSummary) *Synchrony {
	if row.JobID != schemas.JobSystem || s != nil && row.IntervalStart <= s.IntervalStart {
		return s
	}
	for i := range row.Metrics {
		if m := &row.Metrics[i]; m.Name == schemas.MetricInWindow && m.Mean != nil {
			return &Synchrony{row.IntervalStart, m.Nodes, *m.Mean}
		}
	}
	return s
}

// String is the offset as people say it.
func (c ClockStatus) String() string {
	sign := "+"
	if c.OffsetMs < 0 {
		sign = ""
	}
	return fmt.Sprintf("%s %s%v", c.Node, sign, time.Duration(c.OffsetMs)*time.Millisecond)
}

// judgeClocks names the nodes whose clocks are off. Their intervals hold what was measured at another time.
func (s *Status) judgeClocks(cfg config.Config) {
	if len(s.ClocksOff) == 0 {
		return
	}
	var named []string
	for _, c := range s.ClocksOff {
		named = append(named, c.String())
	}
	s.wrong("clocks of %d nodes are off by more than %v, against the broker's: %s: set these clocks, and see that NTP "+
		"runs there", len(named), cfg.Interval/10, few(named, ", "))
}
