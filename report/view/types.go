// Package view is the form in which reports and pages see a job: bins of intervals with envelopes, totals, findings.
// What draws knows nothing of where it was read.
package view

import (
	"math"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"
)

// Job is a life of a job as a report shows it.
type Job struct {
	schemas.Job
	Cluster string
	Jobs    []string        // the IDs of several jobs that this is of together; empty: it is one
	Type    config.NodeType // zero: of none or several

	FirstMs, UntilMs, IntervalMs int64 // of what was measured; a start of 0 or none is FirstMs
	Running                      bool
	Intervals, Complete          int64 // Complete: reported = expected
	Expected, Reported           int64 // sums
	ExactShare, WorstRankError   float64

	Gaps         []Gap             // spans with missing nodes, longest first
	Metrics      []Metric          // in the catalogue's order, then by name
	Findings     []schemas.Finding // worst first; shadowed ones left out
	NotEvaluated []rules.Reason
	Map          []Property // severity map: one a rule with each, worst first
	From         string     // "archive", "topic", "archive and topic": one line of the page
	Earlier      []Life     // restarts before this one
	Part         bool       // rules saw a part of the life alone: that they find nothing says nothing of the rest

	// Of several jobs: their nodes may differ, and rules may look at some of them alone.
	busy   float64
	silent bool
}

// Life is a restart of a job, in one line.
type Life struct {
	Restart    int32
	State      string
	Start, End *int64
}

// Gap is a span in which nodes are missing.
type Gap struct {
	FromMs, UntilMs int64
	Missing         int64    // node intervals
	Nodes           []string // only where the topic or samples tell
}

// Metric is a metric over the life of a job.
type Metric struct {
	Name, Unit, Scope string
	Bins              []Bin
	Total             Total
}

// Bin is several intervals of a picture. Low and High are envelopes: the least lo_k or d_k, the largest hi_k or d_k.
// The times of a bin of several jobs are those since the start of each.
type Bin struct {
	StartMs, EndMs                int64
	Intervals, Measured, Complete int32
	Expected, Reported            int64
	Low, High                     [11]float64
	Mean                          float64
	Count                         int64
	D5Min, D5Max                  float64
	Lows, Highs                   []NodeCount
	Hourly                        bool // of rollups: deciles of the hour's values, no envelope; captions say so
}

// NodeCount is in how many intervals a node was lowest, or highest.
type NodeCount struct {
	Node  string
	Count int64
}

// Property is a rule as a row of the severity map.
type Property struct {
	Rule, Title string
	Worst       []float64 // a bin; NaN: not evaluated
	Mean, Max   float64
	Why         string // it was not evaluated
}

// Total is a metric over all of a life.
type Total struct {
	D, Lo, Hi           [11]float64
	Mean, RankError     float64
	Count               int64
	PerNode             float64 // values of a node in an interval that has any; 0: not known
	Exact, Known        bool
	LowNode, HighNode   string
	LowShare, HighShare float64
	Of                  Span // what it is a total of, also where a part of the life is shown
	Nodes               Nodes

	// Only the archive's totals have these; nil: not known.
	Invalid, CertifiedCount *int64
	Stddev, NodeStddevRMS   *float64

	// Certified is what a merge of several jobs needs. Without it the deciles are merged, with wider bounds.
	Certified *quantile.Summary
}

// Nodes are how many nodes had a metric, of those that reported, summed over the intervals that tell.
type Nodes struct{ Intervals, With, Reported int64 }

// Few returns how many nodes had the metric, of how many that reported, in the mean. It is false where all of them had
// it, or nobody knows. Canary nodes measure more than the others, and some nodes lack hardware.
func (n Nodes) Few() (with, of int64, few bool) {
	if n.Intervals == 0 {
		return 0, 0, false
	}
	mean := func(sum int64) int64 { return int64(math.Round(float64(sum) / float64(n.Intervals))) }
	with, of = max(1, mean(n.With)), mean(n.Reported)
	return with, of, with < of
}

// Span is what the total of a metric is made of.
type Span struct {
	StartMs, EndMs      int64
	Intervals, Measured int64 // Measured: with a value
	Expected, Reported  int64 // nodes, over the intervals
	MeasuredS           float64
}

// Lists is what `weir jobs` shows.
type Lists struct {
	Rows    []JobLine
	Skipped []JobLine
}

// JobLine is a line of `weir jobs`. What is not known is nil.
type JobLine struct {
	schemas.Job
	Cluster                                 string
	Busy, Spread, WastedH, MemPerNode, Seen *float64
	TimeS                                   float64
	Finding                                 *schemas.Finding
	Judged                                  bool                // rules looked at it: without a finding none holds
	Of                                      map[string]*float64 // METRIC.dK that --sort asks for
}

// Peers ranks a job among the jobs of its user and of its queue, of the same size class.
type Peers struct {
	User, Queue []Rank
	Days        int
	SizeClass   int64 // the smallest power of two that is not below the job's cores
}

// Rank is where a number of a job lies among those of its peers.
type Rank struct {
	Metric, Of string // Of: d5, spread, or busy
	Value      float64
	Below, All int64 // peers below it, and all of them
}
