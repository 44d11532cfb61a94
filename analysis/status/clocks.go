package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// NodeClock is a node with a clock that is off by more than a tenth of the interval.
type NodeClock struct {
	Node     string `json:"node"`
	OffsetMs int64  `json:"offset_ms"` // ahead of the broker's clock, at least; negative: behind
}

// Synchrony is the share of the machine's nodes that sampled at the same instant, by the newest row of _system that
// reports it.
type Synchrony struct {
	IntervalStart int64   `json:"interval_start"`
	Nodes         int32   `json:"nodes"`           // that measured their clocks
	InWindow      float64 `json:"in_window_share"` // of them, within 0.6 s of the boundary by the broker's clock
}

// BrokerClock is a broker with a clock that is off. Nearly all nodes are off by the same in the partitions that it
// leads, and most are right in the partitions of another.
type BrokerClock struct {
	Broker   int32 `json:"broker"`
	OffsetMs int64 `json:"offset_ms"` // ahead of the nodes' clocks; negative: behind
	Nodes    int   `json:"nodes"`     // nodes with samples
}

// clockSigns are the last words of each node's records on its clock, against the clock of each broker.
type clockSigns map[clockWitness]clockSaid

type clockWitness struct {
	node   string
	broker int32
}

type clockSaid struct {
	schemas.ClockSign
	appendedMs int64
}

// add notes the sign in a record about its node's clock, against the clock of the broker that leads its partition. A
// node sends to several partitions, so the record that was appended last counts.
func (c clockSigns) add(cluster string, r schemas.Record, appendedMs int64, broker int32) {
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
	w := clockWitness{h.Node, broker}
	before, known := c[w]
	if !sign.Known || known && (appendedMs < before.appendedMs || appendedMs == before.appendedMs && !sign.Off) {
		return
	}
	before.ClockSign, before.appendedMs = sign, appendedMs
	c[w] = before
}

// brokers returns the brokers with a clock that is off, and never nil.
func (c clockSigns) brokers() []BrokerClock {
	all, off := map[int32]int{}, map[int32][]int64{}
	for w, sign := range c {
		all[w.broker]++
		if sign.Off {
			off[w.broker] = append(off[w.broker], sign.Ms)
		}
	}
	wrong, witness := []BrokerClock{}, false
	for _, b := range slices.Sorted(maps.Keys(all)) {
		ms, alike, right := schemas.Alike(off[b], all[b])
		if alike {
			wrong = append(wrong, BrokerClock{b, -ms, all[b]})
		}
		witness = witness || right
	}
	if !witness {
		return []BrokerClock{} // no broker is known to be right: the nodes may be off
	}
	return wrong
}

// off returns the nodes with a clock that is off, the worst first, and never nil: they become a JSON array. It
// ignores samples against brokers with a clock that is off.
func (c clockSigns) off(wrong []BrokerClock) []NodeClock {
	last := map[string]clockSaid{}
	for w, sign := range c {
		if slices.ContainsFunc(wrong, func(b BrokerClock) bool { return b.Broker == w.broker }) {
			continue
		}
		before, known := last[w.node]
		if !known || sign.appendedMs > before.appendedMs || sign.appendedMs == before.appendedMs && sign.Off {
			last[w.node] = sign
		}
	}
	off := []NodeClock{}
	for node, sign := range last {
		if sign.Off {
			off = append(off, NodeClock{node, sign.Ms})
		}
	}
	slices.SortFunc(off, func(a, b NodeClock) int {
		return cmp.Or(cmp.Compare(max(b.OffsetMs, -b.OffsetMs), max(a.OffsetMs, -a.OffsetMs)),
			cmp.Compare(a.Node, b.Node))
	})
	return off
}

// newer returns the synchrony that a summary reports, if it is of the whole machine and newer than s. Otherwise it
// returns s.
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

// String returns the node and the signed offset of its clock.
func (c NodeClock) String() string {
	sign := "+"
	if c.OffsetMs < 0 {
		sign = ""
	}
	return fmt.Sprintf("%s %s%v", c.Node, sign, time.Duration(c.OffsetMs)*time.Millisecond)
}

// judgeClocks reports the brokers and nodes with clocks that are off. The intervals of such nodes hold values measured
// at another time.
func (s *Status) judgeClocks(cfg config.Config) {
	for _, b := range s.BrokersOff {
		off := time.Duration(b.OffsetMs) * time.Millisecond
		if b.OffsetMs > 0 {
			s.wrong("the clock of broker %d is %v ahead: set it now, and see that NTP runs there; Kafka deletes by it "+
				"what is older than retention, and nobody brings that back", b.Broker, off)
		} else {
			s.wrong("the clock of broker %d is %v behind: set it, and see that NTP runs there; until then records of "+
				"nodes are rejected, as if they were from the future", b.Broker, -off)
		}
	}
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
