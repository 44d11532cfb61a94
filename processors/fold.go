// Package processors turns the log of counters into summaries. Collect folds one partition of counters into a summary of
// each job and interval; merge folds the shares of jobs that are spread over several partitions.
//
// A fold is a pure function of one partition's log: no wall clock, no second topic. Whatever it says of a log it says
// again, to the byte, when the log is read again; that is what makes exactly-once cheap. collector.go and merger.go are
// the two folds, summary.go is their arithmetic, loop.go commits what they say, owners.go decides who folds what.
package processors

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
	AppendedMs int64 // by the broker's clock
	Value      []byte
}

// Effects are what folding one Entry says. A caller that has heard them before, because it replays, drops them.
type Effects struct {
	Outputs []schemas.Record // JobSummary, JobPartial and Watermark, in a fixed order
	Rejects []Rejected
	Counts  schemas.ProgressCounts // to be added
	Closes  bool                   // an interval was closed
	Length  int64                  // interval_ms of a record, Tick or Watermark that was not rejected; else 0
	Sender  string                 // node or collector that sent it; empty for a Tick
}

// names adds the interval length that an entry names, unless it was rejected.
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

// record makes the record of a Rejected.
func (r Rejected) record(topic string, partition int32) *schemas.Reject {
	hash := sha256.Sum256(r.Value)
	return &schemas.Reject{
		Topic: topic, Partition: partition, Offset: r.Offset, Reason: r.Reason,
		Hash: hex.EncodeToString(hash[:]), Head: r.Value[:min(len(r.Value), 1024)],
	}
}

const (
	// never is the interval_start below all others.
	never = math.MinInt64
	// none is the offset behind all others.
	none = math.MaxInt64
)

// isAhead reports whether an interval ends later than a record of it can be believed. A node's clock may be off a little. A
// record from the far future would hold back, or close, all that is real.
func isAhead(start, lengthMs, appendedMs int64) bool {
	return start+lengthMs > appendedMs+config.Slack(time.Duration(lengthMs)*time.Millisecond).Milliseconds()
}

// ledger is what both folds keep of a partition beside its open windows.
type ledger struct {
	closed         int64 // intervals up to here are closed
	closedLengthMs int64 // interval_ms of what closed the last one
	dropped        int64 // intervals up to here were dropped, for lack of what closes them
	first          map[int64]int64
	rejected       map[int64]bool // offsets; those of a replay are rejected again, whatever they decode to by now
	resumed        int64          // entries before this offset are replayed
	begun          int64          // offset of the first Tick of an interval that waits for its last one; else none
}

func newLedger(p *schemas.Progress) ledger {
	l := ledger{closed: never, dropped: never, first: map[int64]int64{}, rejected: map[int64]bool{}, begun: none}
	if p == nil {
		return l
	}
	l.resumed = p.Position
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

// open notes that an interval has a record at offset.
func (l *ledger) open(start, offset int64) {
	if _, ok := l.first[start]; !ok {
		l.first[start] = offset
	}
}

// forgetClosed forgets the intervals that are closed or dropped by now, and returns them in order.
func (l *ledger) forgetClosed() []int64 {
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

// giveUp drops the intervals up to start, and returns those that were open. It lasts: a later replay finds them dropped.
func (l *ledger) giveUp(start int64) []int64 {
	l.dropped = max(l.dropped, start)
	return l.forgetClosed()
}

// reject notes a rejected entry. what is why.
func (l *ledger) reject(e Entry, what string) Effects {
	l.rejected[e.Offset] = true
	return Effects{Rejects: []Rejected{{Offset: e.Offset, Reason: what, Value: e.Value}}, Counts: schemas.ProgressCounts{Rejected: 1}}
}

// refuse notes an entry that can be read and that a rule rejects.
func (l *ledger) refuse(e Entry, what string) Effects {
	fx := l.reject(e, what)
	fx.Rejects[0].ByRule = true
	return fx
}

// hold is where a successor must begin to fold: at the first record of any interval that is neither closed nor dropped, or
// at the first Tick of an interval that waits for its last one.
// It goes by interval, not by window: an interval that lost all its windows to one verdict still has records whose
// verdict a replay has to find again.
func (l *ledger) hold(position int64) int64 {
	position = min(position, l.begun)
	for _, offset := range l.first {
		position = min(position, offset)
	}
	return position
}

// Progress is the state of the fold once everything before position has been folded, as its successor needs it. The
// counts are the caller's.
func (l *ledger) Progress(position int64) *schemas.Progress {
	p := &schemas.Progress{Position: position, Hold: l.hold(position), ClosedIntervalMs: l.closedLengthMs}
	if closed := l.closed; closed != never {
		p.Closed = &closed
	}
	if dropped := l.dropped; dropped != never {
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

// decode reads an entry's value. A rejected offset of a replay stays rejected, as does a cluster that is not ours.
func (l *ledger) decode(e Entry) (schemas.Record, error) {
	if l.rejected[e.Offset] {
		return nil, errReplayed
	}
	return schemas.Unmarshal(e.Value)
}

var errReplayed = errors.New("rejected before")

// addCounts adds b to a.
func addCounts(a *schemas.ProgressCounts, b schemas.ProgressCounts) {
	a.Summarized += b.Summarized
	a.Rejected += b.Rejected
	a.Late += b.Late
	a.LateNodes += b.LateNodes
	a.Dropped += b.Dropped
	a.Duplicate += b.Duplicate
	a.Misrouted += b.Misrouted
	a.Ended += b.Ended
	a.Gaps += b.Gaps
	a.Ticks += b.Ticks
	a.Outputs += b.Outputs
	a.Lost += b.Lost
	a.ClockAhead += b.ClockAhead
	a.Surplus += b.Surplus
}
