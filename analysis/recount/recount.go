// Package recount reads the log of counters anew, and gathers the records that its Ticks list, by the rules of
// docs/design.md. Audit and replay share its order of reading, its fold of a partition, and its rule for the first
// complete interval.
//
// It repeats rules of the folds on purpose and shares no code with package processors: an audit that called the fold
// would prove nothing. Package schemas decides whether a record is valid, and quantile.Summary.Check whether a summary
// contradicts itself: these are the contract, not the arithmetic.
package recount

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

const (
	// Never is the interval_start below all others.
	Never = math.MinInt64
	// Ended is the front of a partition that was read to its end.
	Ended = math.MaxInt64
)

// Entry is one record of a topic.
type Entry struct {
	Offset     int64
	AppendedMs int64 // the record's timestamp
	Value      []byte
}

// Fate is the fate of a record: taken by a Tick, or the reason why not.
type Fate int

// The fates, in the order in which they are tested.
const (
	Rejected Fate = iota
	Late
	Dropped
	Duplicate
	Misrouted
	EndedJob
	Summarized
)

// Record is a CounterBatch or a NodeSummary.
type Record struct {
	*schemas.NodeHeader
	Batch   *schemas.CounterBatch
	Summary *schemas.NodeSummary
	Late    bool // taken from Partition.Belated
	// Entry is the record's place in the log. Its value is kept only for a NodeSummary, which a Tick may reject.
	Entry Entry
}

// Share is one partition's share of one job in one interval. The share of _system ends the interval: its Nodes are all
// nodes that the Ticks list, and it contains no records.
type Share struct {
	Job             schemas.JobKey
	Start, LengthMs int64
	Partition       int32
	Offset          int64           // of the Tick
	Parts, JobNodes int32           // JobNodes of the machine: 0 if the Ticks lack it
	Shared          []string        // of the machine: nodes that other partitions list too
	Nodes           map[string]bool // that Ticks list, and whether a record was taken
	Records         []*Record       // ordered by node
}

// Reported returns the number of nodes with a record.
func (s *Share) Reported() (n int32) {
	for _, came := range s.Nodes {
		if came {
			n++
		}
	}
	return n
}

// SharedReported returns how many nodes with a record other partitions list too. Only shares of the machine have such
// nodes.
func (s *Share) SharedReported() (n int) {
	for _, node := range slices.Compact(slices.Sorted(slices.Values(s.Shared))) {
		if s.Nodes[node] {
			n++
		}
	}
	return n
}

// Met is a record that met its fate. The record is nil if it cannot be used at all. Of a rejected one the entry is
// known.
type Met struct {
	Record *Record
	Fate   Fate
	Entry  Entry
}

// effects are the results of folding one Entry.
type effects struct {
	Came   *Record // a record of a node that can be read
	Gap    *schemas.Gap
	Ticked bool // a Tick that was not rejected
	Met    []Met
	Shares []*Share // in the order of the Ticks
}

// IsAhead reports whether an interval ends too late for its record to be credible: more than the slack after the
// broker received it.
func IsAhead(start, lengthMs, appendedMs int64) bool {
	slack := config.Slack(time.Duration(lengthMs) * time.Millisecond).Milliseconds()
	return start+lengthMs-appendedMs > slack
}

// Behind returns the partition that is furthest behind. It is not ok if all are at their ends.
func Behind[V any](all map[int32]V, front func(V) int64) (partition int32, at int64, ok bool) {
	at = Ended
	for p, v := range all {
		if f := front(v); f < at || f == at && ok && p < partition {
			partition, at, ok = p, f, true
		}
	}
	return partition, at, ok
}

var errForeign = errors.New("it does not belong here")

// checkSummary returns an error if the numbers of a NodeSummary contradict each other.
func checkSummary(s *schemas.NodeSummary) error {
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if err := CheckCertified(m.Count, &m.Certified); err != nil || m.Invalid > quantile.MaxCount {
			return cmp.Or(err, errForeign)
		}
	}
	return nil
}

// CheckCertified returns an error if a certified summary contradicts itself or the count.
func CheckCertified(count int64, c *schemas.Certified) error { return Summary(count, c).Check() }

// Summary converts a certified summary from the wire to a quantile.Summary.
func Summary(count int64, c *schemas.Certified) *quantile.Summary {
	s := &quantile.Summary{Count: count, Eps: c.Eps, Order: c.OrderStatistics}
	for _, k := range c.Knots {
		s.Knots = append(s.Knots, quantile.Knot(k))
	}
	for _, a := range c.Atoms {
		s.Atoms = append(s.Atoms, quantile.Atom(a))
	}
	return s
}
