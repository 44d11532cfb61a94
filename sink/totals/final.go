package totals

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
)

// Frontier is how far everything that a total needs is closed and archived.
type Frontier struct {
	// ThroughMs is a time: all intervals that end by then are closed by all collectors and by merge.
	ThroughMs int64
	// Waiting are the jobs with summaries that the archive still lacks, and the first interval of these summaries.
	Waiting map[schemas.JobKey]int64
	// Reason is why ThroughMs is not later, for a person.
	Reason string
}

// final reports whether no further summary of a job is to come: it ended, everything closed its end, and its summaries
// are archived. Summaries from toMs on belong to a namesake.
func (f Frontier) final(j jobs.Life, toMs int64) bool {
	first, waits := f.Waiting[j.JobKey]
	return j.EndMs <= f.ThroughMs && (!waits || first >= toMs)
}

// nothing closes no interval at all.
const nothing = math.MinInt64

// stage is a stage of processors, with the last Progress of its partitions.
type stage struct {
	name       string
	partitions int
	last       map[int32]*schemas.Progress
	topicID    string // of the input
	sameTopic  func(a, b string) bool
}

// through returns the end of the last interval that all partitions of all stages closed, and the reason why it is not
// later.
func through(stages ...stage) (ms int64, reason string) {
	ms = math.MaxInt64
	for _, s := range stages {
		if s.partitions == 0 {
			return nothing, s.name + " has no partitions"
		}
		for p := range int32(s.partitions) {
			switch l := s.last[p]; {
			case l == nil || l.Closed == nil:
				return nothing, fmt.Sprintf("%s has closed no interval of partition %d", s.name, p)
			case !s.sameTopic(l.TopicID, s.topicID):
				return nothing, fmt.Sprintf("%s: partition %d: its topic was made anew", s.name, p)
			case *l.Closed+l.ClosedIntervalMs < ms:
				ms, reason = *l.Closed+l.ClosedIntervalMs, fmt.Sprintf("%s, partition %d", s.name, p)
			}
		}
	}
	return ms, reason
}

// behind returns the offsets of a topic that the archive lacks. The bounds count all records, also of open
// transactions. If the archive cannot be of this topic, behind returns a reason.
func behind(positions map[int32]int64, bounds map[int32]kafka.Range) (lacks map[int32]kafka.Range, reason string) {
	lacks = map[int32]kafka.Range{}
	for _, p := range slices.Sorted(maps.Keys(bounds)) {
		at, archived := positions[p]
		begin, end := bounds[p].From, bounds[p].To
		switch {
		case !archived:
			at = begin
		case at > end:
			return nil, fmt.Sprintf("the archive is at %d of partition %d of job-summary, which ends at %d: "+
				"it is of another topic", at, p, end)
		case at < begin:
			return nil, fmt.Sprintf("retention deleted offsets %d to %d of partition %d of job-summary before they "+
				"were archived: `weir sink accept-gap %d` goes on behind them", at, begin, p, p)
		}
		if at < end {
			lacks[p] = kafka.Range{From: at, To: end}
		}
	}
	return lacks, ""
}
