package audit

import (
	"fmt"
	"math/bits"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// AgentRun is one run of a node's agent. The agent numbers its records, so that a lost record leaves a hole. A Gap
// accounts for records that the agent itself gave up.
type AgentRun struct {
	Node    string `json:"node"`
	RunID   string `json:"run_id"`
	Records int64  `json:"records"` // acknowledged, of the audited intervals
	Fates   Fates  `json:"fates"`
	Open    int64  `json:"open"`
	Gaps    int64  `json:"gap_records"` // records that Gaps account for
	// Missing counts the numbers without a record or a Gap. The last 64 intervals of the run are left out:
	// these records may still wait in the agent, or have died with it.
	Missing int64 `json:"missing"`

	low       int64           // numbers from here on are not counted
	last      int64           // number that was read
	words     map[int64]*word // nil before the first record
	counted   bool            // some numbers are
	newest    int64           // interval
	partition int32           // of a record of that interval
	holes     int64
	hole      [2]int64 // numbers, among which the first hole is
}

// word is 64 numbers of a run: a bit for each number that was read, and the last interval of their records.
type word struct {
	seen  uint64
	start int64
}

// mostApart bounds the distance of two numbers of a run that are read one after the other. An agent forms far fewer
// records in all the intervals that it keeps.
const mostApart = 1 << 20

// add notes the sequence number of a record. A number below the counted ones belongs to a copy. A number far from the
// previous one belongs to another run.
func (r *AgentRun) add(partition int32, h *schemas.NodeHeader) {
	at := h.Seq >> 6
	switch {
	case r.words == nil:
		r.words, r.low, r.last = map[int64]*word{}, h.Seq, h.Seq
	case h.Seq < r.last-mostApart, h.Seq-mostApart > r.last:
		return
	case h.Seq < r.low && !r.counted:
		r.low = h.Seq // partitions are read side by side, not record by record
	case h.Seq < r.low:
		return
	}
	r.last = h.Seq
	w := r.words[at]
	if w == nil {
		w = &word{}
		r.words[at] = w
	}
	w.seen |= 1 << (h.Seq & 63)
	w.start = max(w.start, h.IntervalStart)
	if r.newest < h.IntervalStart {
		r.newest, r.partition = h.IntervalStart, partition
		r.count(r.newest - config.Outage*h.IntervalMs)
	}
}

// count counts the holes among the numbers of records of intervals up to bound, and forgets these numbers.
func (r *AgentRun) count(bound int64) {
	top, seen := int64(-1), int64(0)
	for at, w := range r.words {
		if w.start <= bound {
			top = max(top, at)
		}
	}
	for at, w := range r.words {
		if at <= top {
			seen += int64(bits.OnesCount64(w.seen))
			delete(r.words, at)
		}
	}
	next := (top + 1) << 6
	if missing := next - r.low - seen; top >= 0 && missing > 0 {
		if r.holes == 0 {
			r.hole = [2]int64{r.low, next - 1}
		}
		r.holes += missing
	}
	if top >= 0 {
		r.low, r.counted = next, true
	}
}

// close compares the holes with the records that Gaps account for. Only runs listed by Ticks are judged: others may
// number their records freely.
func (r *AgentRun) close(report *Report, topic string) {
	if r.Fates.Summarized+r.Fates.Ended == 0 {
		return
	}
	if r.Missing = max(0, r.holes-r.Gaps); r.Missing > 0 {
		report.differ(Difference{Kind: kindRun, Topic: topic, Partition: r.partition, Text: fmt.Sprintf(
			"run %s of node %s: %d records are neither in the log nor in a Gap, first among numbers %d to %d",
			r.RunID, r.Node, r.Missing, r.hole[0], r.hole[1])})
	}
}
