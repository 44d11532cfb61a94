// Package fold turns the log of a partition into summaries. Collector folds one partition of counters into a summary of
// each job and interval. Merger joins the shares of jobs that several partitions have.
//
// A fold is a pure function of one partition's log: no wall clock, no second topic, no goroutine. Its outputs are the
// same, to the byte, when the log is read again. That makes exactly-once cheap. summary.go, column.go and system.go are
// the arithmetic of both folds. account.go holds the effects between two commits.
package fold

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Entry is one record of a partition's log.
type Entry struct {
	Offset     int64
	AppendedMs int64 // by the broker's clock; in job-summary by the clock of the committing process
	Value      []byte
}

// Effects are the results of folding one Entry. A caller that replays drops them: its predecessor committed them.
type Effects struct {
	Outputs []schemas.Record // JobSummary, JobPartial and Watermark, in a fixed order
	Rejects []Rejected
	Counts  schemas.ProgressCounts // to be added
	Closes  bool                   // an interval was closed
	Length  int64                  // interval_ms of a record, Tick or Watermark; 0 if it was rejected
	Sender  string                 // node or collector that sent it; empty for a Tick
	Clock   ClockSign              // for the log and the metrics; no output depends on it
}

// Tombstone is an output that deletes a key of a compacted topic.
type Tombstone struct {
	Topic string // without the prefix
	Key   []byte
}

// Validate implements schemas.Record. A tombstone has no value.
func (Tombstone) Validate() error { return nil }

// Delete adds tombstones.
func (fx *Effects) Delete(all ...Tombstone) {
	for _, t := range all {
		fx.Outputs = append(fx.Outputs, t)
	}
}

// names adds the interval length of an entry and its sender, unless it was rejected.
func (fx Effects) names(lengthMs int64, sender string) Effects {
	if len(fx.Rejects) == 0 {
		fx.Length, fx.Sender = lengthMs, sender
	}
	return fx
}

// Rejected is an entry that could not be used, and why.
type Rejected struct {
	Offset int64
	Reason string
	Value  []byte
	ByRule bool // it can be read, but a rule refuses it: another cluster, from the future
}

// Record makes the Reject that is written.
func (r Rejected) Record(topic string, partition int32) *schemas.Reject {
	hash := sha256.Sum256(r.Value)
	return &schemas.Reject{
		Topic: topic, Partition: partition, Offset: r.Offset, Reason: r.Reason,
		Hash: hex.EncodeToString(hash[:]), Head: r.Value[:min(len(r.Value), 1024)],
	}
}

const (
	// Never is the interval_start below all others.
	Never = math.MinInt64
	// None is the offset behind all others.
	None = math.MaxInt64
)

// isAhead reports whether an interval ends too late for a record of it to be credible. A node's clock may be off a
// little. A record from the far future would hold back, or close, all real intervals.
func isAhead(start, lengthMs, appendedMs int64) bool {
	return start+lengthMs > appendedMs+config.Slack(time.Duration(lengthMs)*time.Millisecond).Milliseconds()
}

// Ledger is the state of a partition that both folds keep beside its open windows.
type Ledger struct {
	closed         int64 // intervals up to here are closed
	closedLengthMs int64 // interval_ms of the Tick or Watermark that closed the last one
	dropped        int64 // intervals up to here were dropped, since nothing closed them
	first          map[int64]int64
	rejected       map[int64]bool // offsets; a replay rejects them again, even if this version can read them
	Resumed        int64          // entries before this offset are replayed
	Begun          int64          // offset of the first Tick of an interval that waits for its last one, or none
}

// NewLedger goes on from a Progress; nil is the beginning of the partition. It knows the intervals that the predecessor
// closed, so that records of a replay have the fate that they had.
func NewLedger(p *schemas.Progress) Ledger {
	l := Ledger{closed: Never, dropped: Never, first: map[int64]int64{}, rejected: map[int64]bool{}, Begun: None}
	if p == nil {
		return l
	}
	l.Resumed = p.Position
	if p.Closed != nil {
		l.closed, l.closedLengthMs = *p.Closed, p.ClosedIntervalMs
	}
	if p.Dropped != nil {
		l.dropped = *p.Dropped
	}
	for _, o := range p.Rejected {
		l.rejected[o] = true
	}
	return l
}

// open remembers the first offset of an interval.
func (l *Ledger) open(start, offset int64) {
	if _, ok := l.first[start]; !ok {
		l.first[start] = offset
	}
}

// forgetClosed forgets the intervals that are closed or dropped, and returns them in order.
func (l *Ledger) forgetClosed() []int64 {
	var gone []int64
	for start := range l.first {
		if start <= max(l.closed, l.dropped) {
			gone = append(gone, start)
			delete(l.first, start)
		}
	}
	slices.Sort(gone)
	return gone
}

// giveUp drops the intervals up to start, and returns the open ones. A later replay finds them dropped, too.
func (l *Ledger) giveUp(start int64) []int64 {
	l.dropped = max(l.dropped, start)
	return l.forgetClosed()
}

// reject rejects an entry, and remembers its offset.
func (l *Ledger) reject(e Entry, why string) Effects {
	l.rejected[e.Offset] = true
	return Effects{
		Rejects: []Rejected{{Offset: e.Offset, Reason: why, Value: e.Value}},
		Counts:  schemas.ProgressCounts{Rejected: 1},
	}
}

// Refuse rejects an entry that can be read, by a rule.
func (l *Ledger) Refuse(e Entry, why string) Effects {
	fx := l.reject(e, why)
	fx.Rejects[0].ByRule = true
	return fx
}

// hold returns where a successor must begin to fold: the first record of any interval that is neither closed nor
// dropped. An interval that waits for its last Tick holds at its first one.
//
// Intervals count, not windows. An interval without windows may still have records, and a replay must find their fate
// again.
func (l *Ledger) hold(position int64) int64 {
	position = min(position, l.Begun)
	for _, offset := range l.first {
		position = min(position, offset)
	}
	return position
}

// Progress returns the state of the fold once everything before position has been folded, as its successor needs it.
// The caller adds the counts.
func (l *Ledger) Progress(position int64) *schemas.Progress {
	p := &schemas.Progress{Position: position, Hold: l.hold(position), ClosedIntervalMs: l.closedLengthMs}
	if closed := l.closed; closed != Never {
		p.Closed = &closed
	}
	if dropped := l.dropped; dropped != Never {
		p.Dropped = &dropped
	}
	for offset := range l.rejected {
		if offset < p.Hold {
			delete(l.rejected, offset)
			continue
		}
		p.Rejected = append(p.Rejected, offset)
	}
	slices.Sort(p.Rejected)
	return p
}

// Decode decodes an entry's value. An offset that was rejected stays rejected in a replay.
func (l *Ledger) Decode(e Entry) (schemas.Record, error) {
	if l.rejected[e.Offset] {
		return nil, errReplayed
	}
	return schemas.Unmarshal(e.Value)
}

var errReplayed = errors.New("rejected before")
