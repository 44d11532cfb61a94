package schemas

import (
	"math"
	"slices"
)

// Names of the metrics by which a node's clock is judged. The agent measures them against the broker's clock.
const (
	MetricClockOffset = "weir_agent_clock_offset_us"
	MetricClockBound  = "weir_agent_clock_bound_us"
	MetricInWindow    = "weir_agent_in_window"
)

// ClockSign is the evidence in a record about the clock of its node.
type ClockSign struct {
	Known bool  // the record contains evidence
	Off   bool  // the clock is certainly off by more than a tenth of the interval
	Ms    int64 // least lead of the clock; negative: behind
}

// ClockOf judges a node's clock by a record of counters that the broker appended at appendedMs.
//
// A record that was sent later than it was appended comes from a clock that is ahead, regardless of the agent's own
// measurement. A clock that is behind looks like a record that waited, so only the agent's measurement reveals it. A
// difference within the error of that measurement does not count against the clock.
func ClockOf(r Record, appendedMs int64) ClockSign {
	var h *NodeHeader
	offset, bound := math.NaN(), math.NaN()
	switch r := r.(type) {
	case *CounterBatch:
		h = &r.NodeHeader
		for i := range r.Metrics {
			if m := &r.Metrics[i]; m.Name == MetricClockOffset && len(m.Values) == 1 {
				offset = m.Values[0]
			} else if m.Name == MetricClockBound && len(m.Values) == 1 {
				bound = m.Values[0]
			}
		}
	case *NodeSummary:
		h = &r.NodeHeader
		for i := range r.Metrics {
			if m := &r.Metrics[i]; m.Name == MetricClockOffset && m.Mean != nil {
				offset = *m.Mean
			} else if m.Name == MetricClockBound && m.Mean != nil {
				bound = *m.Mean
			}
		}
	default:
		return ClockSign{}
	}
	return clockOf(h, offset, bound, appendedMs)
}

// clockOf judges a clock by its measured offset and bound; NaN: not measured.
func clockOf(h *NodeHeader, offset, bound float64, appendedMs int64) ClockSign {
	tenth := h.IntervalMs / 10
	measured := ClockSign{Known: math.Abs(offset) < 1e15 && math.Abs(bound) < 1e15}
	if measured.Known {
		measured.Ms = int64(math.Round(offset / 1000))
		measured.Off = math.Abs(offset)-math.Abs(bound) > float64(tenth)*1000
	}
	if ahead := h.SentAt - appendedMs; ahead > tenth && (!measured.Off || measured.Ms <= ahead) {
		return ClockSign{Known: true, Off: true, Ms: ahead}
	}
	return measured
}

// Offsets of nodes with a wrong clock are alike if they differ by no more than this. The time of sending is only near
// the time of the append.
const alikeMs = 2000

// Alike judges a broker's clock by the nodes with records there. of is the number of nodes, and off lists the offsets
// of nodes with a wrong clock. alike reports whether nearly all are off by the same, and ms by how much they are ahead.
// Then the broker's clock may be wrong. right reports whether most nodes find it right, so that it is a witness against
// other brokers. One node decides neither: of five or more nodes, one may differ. Fewer than three nodes decide
// nothing.
func Alike(off []int64, of int) (ms int64, alike, right bool) {
	const fewest, tolerant = 3, 5
	right = of >= fewest && 2*len(off) < of
	if of < fewest || len(off) == 0 {
		return 0, false, right
	}
	differ := of / 10
	if of >= tolerant {
		differ = max(1, differ)
	}
	slices.Sort(off)
	ms = off[len(off)/2]
	same := 0
	for _, o := range off {
		if max(o-ms, ms-o) <= alikeMs {
			same++
		}
	}
	return ms, same >= of-differ, right
}
