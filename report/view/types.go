// Package view is the form in which reports and pages see a job: bins of intervals with envelopes, totals, findings.
// Drawing code does not know where the data was read.
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
	Jobs    []string        // IDs of the jobs, if this is several together; otherwise empty
	Type    config.NodeType // zero if the nodes have no type, or several

	FirstMs, UntilMs, IntervalMs int64 // time of the measurements; a start of 0 or none is FirstMs
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
	Part         bool       // rules saw a part of the life only, so silence means nothing for the rest
	ByNode       *NodeTable // nil: not looked for

	// For several jobs: their nodes may differ, and rules may have seen only some of them.
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
	Nodes           []string // if the topic or samples name them
}

// Metric is a metric over the life of a job.
type Metric struct {
	Name, Unit, Scope string
	Bins              []Bin
	Total             Total
}

// Bin joins several intervals of a picture. Low and High are envelopes: the smallest lo_k or d_k, the largest hi_k or
// d_k. For several jobs its times count from the start of each.
type Bin struct {
	StartMs, EndMs                int64
	Intervals, Measured, Complete int32
	Expected, Reported            int64
	Low, High                     [11]float64
	Mean                          float64
	Count                         int64
	D5Min, D5Max, D5Mean          float64 // of the medians of its intervals
	Lows, Highs                   []NodeCount
	Hourly                        bool // of rollups: deciles of the hour's values, no envelope, as captions note
}

// NodeCount is the number of intervals in which a node was lowest, or highest.
type NodeCount struct {
	Node  string
	Count int64
}

// Property is a rule as a row of the severity map.
type Property struct {
	Rule, Title string
	Worst       []float64 // a bin; NaN: not evaluated
	Mean, Max   float64
	Why         string // reason for which it was not evaluated
}

// Total is a metric over all of a life.
type Total struct {
	D, Lo, Hi           [11]float64
	Mean, RankError     float64
	Count               int64
	PerNode             float64 // number of values from a node in an interval, if any; 0: not known
	Exact, Known        bool
	LowNode, HighNode   string
	LowShare, HighShare float64
	Of                  Span // intervals that the total covers, even if only a part of the life is shown
	Nodes               Nodes

	// Only the archive's totals have these; nil: not known.
	Invalid, CertifiedCount *int64
	Stddev, NodeStddevRMS   *float64

	// Certified is the summary for a merge of several jobs. Without it the deciles are merged, with wider bounds.
	Certified *quantile.Summary
}

// Nodes counts the nodes with a metric, and the nodes that reported. Both are summed over the intervals that know these
// numbers.
type Nodes struct{ Intervals, With, Reported int64 }

// Few returns the mean number of nodes with the metric, and of nodes that reported. few is false if all of them
// measured it, or if the numbers are unknown. Canary nodes measure more than the others, and some nodes lack hardware.
func (n Nodes) Few() (with, of int64, few bool) {
	if n.Intervals == 0 {
		return 0, 0, false
	}
	mean := func(sum int64) int64 { return int64(math.Round(float64(sum) / float64(n.Intervals))) }
	with, of = max(1, mean(n.With)), mean(n.Reported)
	return with, of, with < of
}

// Span is the data behind the total of a metric.
type Span struct {
	StartMs, EndMs      int64
	Intervals, Measured int64 // Measured: with a value
	Expected, Reported  int64 // nodes, over the intervals
	MeasuredS           float64
}

// Lists are the jobs of `weir jobs`.
type Lists struct {
	Rows    []JobLine
	Skipped []JobLine
}

// JobLine is a line of `weir jobs`. Unknown values are nil.
type JobLine struct {
	schemas.Job
	Cluster                                 string
	Busy, Spread, WastedH, MemPerNode, Seen *float64
	GPUBusy, GPUWastedH                     *float64
	idleH                                   *float64 // core-hours without work
	TimeS                                   float64
	Finding                                 *schemas.Finding
	Judged                                  bool                // rules were evaluated: without a finding, none holds
	Of                                      map[string]*float64 // METRIC.dK of --sort
}

// Take sets the number of the line that a metric gives, if any: busy, spread, or the memory of a node. Memory of the
// job itself counts only if no metric measures the memory of its nodes. A missing decile is nil.
func (l *JobLine) Take(metric string, mean *float64, d [11]*float64, nodes config.NodeType) {
	switch {
	case metric == "cpu_idle" && mean != nil:
		busy := Busy(*mean, nodes)
		l.Busy = &busy
	case metric == "cpu_user" && d[9] != nil && d[1] != nil:
		spread := *d[9] - *d[1]
		l.Spread = &spread
	case metric == "acc_utilization" && mean != nil:
		busy := min(1, max(0, *mean))
		l.GPUBusy = &busy
	case metric == "mem_used" || metric == "job_mem_used" && l.MemPerNode == nil:
		l.MemPerNode = d[10]
	}
}

// Waste sets the wasted hours of a metric that Take has taken: of its count values, each is from one interval. Cores
// beside a GPU that works are of use to nobody else, so a job wastes its idle cores by the share of its GPUs that idle.
func (l *JobLine) Waste(metric string, count int64, intervalS float64) {
	switch {
	case metric == "cpu_idle" && l.Busy != nil:
		l.idleH = new(WastedHours(*l.Busy, count, intervalS))
	case metric == "acc_utilization" && l.GPUBusy != nil:
		l.GPUWastedH = new(WastedHours(*l.GPUBusy, count, intervalS))
	}
	if l.idleH == nil {
		return
	}
	wasted := *l.idleH
	if l.GPUBusy != nil {
		wasted *= 1 - *l.GPUBusy
	}
	l.WastedH = &wasted
}

// Peers ranks a job among the jobs of its user and of its queue, of the same size class.
type Peers struct {
	User, Queue []Rank
	Days        int
	SizeClass   int64 // the smallest power of two that is not below the job's cores
}

// Rank is the rank of a number of a job among its peers.
type Rank struct {
	Metric, Of string // Of: d5, spread, or busy
	Value      float64
	Below, All int64 // peers below it, and all of them
}
