// Package rules evaluates rules over the summaries of a job: what is wrong with the job, and how sure that is. A Watch
// folds one life of a job. It knows no clock and no Kafka, so the live service and history find the same.
package rules

import (
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// Known is a metric that rules may name.
type Known struct{ Name, Unit, Scope string }

// Set is a compiled set of rules. It is safe for concurrent use.
type Set struct {
	Rules  []Rule
	Guards Guards
}

// Guards are what must hold before a rule counts, unless the rule says otherwise.
type Guards struct {
	AfterMs    int64   // an interval counts from so long after the job's start
	Last       bool    // an interval counts once a later one, or the end, is known
	DurationMs int64   // the job has run so long
	Intervals  int64   // so many intervals were evaluated
	Seen       float64 // evaluated complete intervals, of those that came
	Complete   float64 // nodes that reported, of those that were expected
}

// Source is the text of a rule file. Its name is for messages.
type Source struct {
	Name string
	Text []byte
}

// Rule is a compiled rule. Its fields are for readers; the programs are private.
type Rule struct {
	ID, Title, Hint, Slurm string
	Hash                   string // of the canonical text with parameters
	From                   string // the source of its threshold
	Needs                  []string
	Share                  float64
	Job                    bool   // over the whole life, not an interval
	By                     string // low_node, high_node, or empty
	Same                   bool   // the share is that of one and the same node
	Silences               []string
}

// Job is what a rule may know of a job. What is not known is NaN, -1 or empty.
type Job struct {
	Key                                  schemas.JobKey
	Cluster, Name, User, Account, Queue  string
	State                                string
	Nodes                                []string
	StartMs, EndMs, LimitS, MemRequested int64
	Cores                                int64
	Gpus                                 int
	Node                                 config.NodeType // zero: none or several
}

// Metric is the distribution of a metric in an interval, or over a life. What is not known is NaN.
type Metric struct {
	D0           float64 `expr:"d0"`
	D1           float64 `expr:"d1"`
	D2           float64 `expr:"d2"`
	D3           float64 `expr:"d3"`
	D4           float64 `expr:"d4"`
	D5           float64 `expr:"d5"`
	D6           float64 `expr:"d6"`
	D7           float64 `expr:"d7"`
	D8           float64 `expr:"d8"`
	D9           float64 `expr:"d9"`
	D10          float64 `expr:"d10"`
	Lo0          float64 `expr:"lo0"`
	Lo1          float64 `expr:"lo1"`
	Lo2          float64 `expr:"lo2"`
	Lo3          float64 `expr:"lo3"`
	Lo4          float64 `expr:"lo4"`
	Lo5          float64 `expr:"lo5"`
	Lo6          float64 `expr:"lo6"`
	Lo7          float64 `expr:"lo7"`
	Lo8          float64 `expr:"lo8"`
	Lo9          float64 `expr:"lo9"`
	Lo10         float64 `expr:"lo10"`
	Hi0          float64 `expr:"hi0"`
	Hi1          float64 `expr:"hi1"`
	Hi2          float64 `expr:"hi2"`
	Hi3          float64 `expr:"hi3"`
	Hi4          float64 `expr:"hi4"`
	Hi5          float64 `expr:"hi5"`
	Hi6          float64 `expr:"hi6"`
	Hi7          float64 `expr:"hi7"`
	Hi8          float64 `expr:"hi8"`
	Hi9          float64 `expr:"hi9"`
	Hi10         float64 `expr:"hi10"`
	Mean         float64 `expr:"mean"`
	Count        float64 `expr:"count"`
	PerNode      float64 `expr:"per_node"` // count / nodes with a value
	LowNodeMean  float64 `expr:"low_node_mean"`
	HighNodeMean float64 `expr:"high_node_mean"`
}

// Interval is what a Watch folds: one interval of a job.
type Interval struct {
	StartMs, LengthMs  int64
	Expected, Reported int32
	Metrics            []Named // ascending by name
}

// Named is a metric of an interval.
type Named struct {
	Name, Scope string
	Low, High   string // the nodes with the lowest and the highest mean
	Metric
}

// Severity is what a rule says of one interval.
type Severity struct {
	Rule      int // in Set.Rules
	Value     float64
	Evaluated bool
	Why       string // it was not evaluated
}

// Reason is why a rule was not evaluated.
type Reason struct{ Rule, Why string }

// Watch is the fold of one life of a job.
type Watch struct{}

// Shipped returns the rules that weir ships.
func Shipped() []byte { return nil }

// Compile returns the rules of the files without those that are off. The error joins all faults, each with its file,
// its line and its rule.
func Compile(_ []Known, _ []string, _ ...Source) (*Set, error) { return &Set{}, nil }

// Reads returns the metrics that a reader must fetch for the rule: those that it needs, and those that it may use.
func (r *Rule) Reads() (metrics []string) { return r.Needs }

// JobOf returns what rules may know of a job of the scheduler.
func JobOf(cluster string, j *schemas.Job, _ *Types) Job {
	return Job{Key: j.Identity(), Cluster: cluster}
}

// MetricOf returns a metric of a summary, or false if it has no values.
func MetricOf(_ *schemas.JobSummaryMetric, _ bool) (Metric, bool) { return Metric{}, false }

// MetricOfRow returns the metric of a row of the archive, or false if it has no values.
func MetricOfRow(_ *schemas.Row, _ bool) (Metric, bool) { return Metric{}, false }

// FromSummary fills an interval from a summary. It allocates nothing once the interval has room.
func FromSummary(_ *schemas.JobSummary, _ bool, _ *Interval) {}

// FromRows fills an interval from the rows of one interval of a job.
func FromRows(_ []schemas.Row, _ bool, _ *Interval) {}

// NewWatch returns the fold of a life of a job that has no interval yet.
func (s *Set) NewWatch(_ Job, _ bool) *Watch { return &Watch{} }

// Know tells what the scheduler knows now.
func (w *Watch) Know(_ Job) {}

// Add folds an interval. They may come out of order. It reports whether Due has something.
func (w *Watch) Add(_ *Interval) (changed bool) { return false }

// Due appends the findings that opened, closed, changed class, or were written ten minutes of interval time ago.
func (w *Watch) Due(out []schemas.Finding) []schemas.Finding { return out }

// End appends the final findings. The Watch is over.
func (w *Watch) End(out []schemas.Finding) []schemas.Finding { return out }

// AppendBinary appends the state of the fold.
func (w *Watch) AppendBinary(b []byte) ([]byte, error) { return b, nil }

// UnmarshalBinary takes a state that AppendBinary wrote. A rule whose hash has changed begins anew.
func (w *Watch) UnmarshalBinary(_ []byte) error { return nil }

// Severities appends what each rule says of an interval.
func (w *Watch) Severities(_ *Interval, out []Severity) []Severity { return out }

// NotEvaluated returns the rules that were not evaluated, and why.
func (w *Watch) NotEvaluated() []Reason { return nil }

// Class returns the class of a severity.
func Class(severity float64) string {
	switch {
	case severity < 1.0/3:
		return schemas.ClassLow
	case severity < 2.0/3:
		return schemas.ClassMed
	}
	return schemas.ClassHigh
}
