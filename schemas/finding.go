package schemas

import (
	"strconv"

	"github.com/weirhpc/weir/naming"
)

// The records of find: Finding, FindState.

// States of a Finding.
const (
	FindingOpen   = "OPEN"
	FindingClosed = "CLOSED" // it no longer holds
)

// Certainties of a Finding.
const (
	Certain  = "CERTAIN"
	Possible = "POSSIBLE" // bounds do not prove it
)

// Classes of a Finding.
const (
	ClassLow  = "LOW"
	ClassMed  = "MED"
	ClassHigh = "HIGH"
)

const (
	// MaxFindingText is the largest number of bytes in a title, a hint or a scheduler's line of a Finding.
	MaxFindingText = 1000
	// MaxEvidence is the largest number of numbers in a Finding.
	MaxEvidence = 16

	maxFindState = 1 << 20 // bytes of a state: a hundred times the size for a job
)

// Finding is a rule that holds, or held, for a job.
type Finding struct {
	Cluster       string            `avro:"cluster"`
	JobID         string            `avro:"job_id"`
	Restart       int32             `avro:"restart"`
	Rule          string            `avro:"rule"` // its id
	RuleHash      string            `avro:"rule_hash"`
	Title         string            `avro:"title"`
	Hint          string            `avro:"hint"`
	Slurm         string            `avro:"slurm"` // empty: no line to change
	State         string            `avro:"state"`
	Final         bool              `avro:"final"`
	Certainty     string            `avro:"certainty"`
	Class         string            `avro:"class"`
	Severity      float64           `avro:"severity"` // mean over the evaluated intervals, at most Worst
	Worst         float64           `avro:"worst"`
	FirstInterval int64             `avro:"first_interval"`
	LastInterval  int64             `avro:"last_interval"`
	AsOf          int64             `avro:"as_of"`
	IntervalMs    int64             `avro:"interval_ms"`
	Intervals     int64             `avro:"intervals"`
	Evaluated     int64             `avro:"evaluated"`
	Matched       int64             `avro:"matched"`
	Node          *string           `avro:"node"`
	NodeIntervals int64             `avro:"node_intervals"`
	Evidence      []FindingEvidence `avro:"evidence"`
	// JobStart is when the job began; nil if the scheduler does not report it. It distinguishes the job from namesakes.
	JobStart *int64 `avro:"job_start"`
}

// FindingEvidence is a number that a rule looked at, over the matched intervals.
type FindingEvidence struct {
	Name string  `avro:"name"`
	Low  float64 `avro:"low"`
	Mean float64 `avro:"mean"`
	High float64 `avro:"high"`
}

// Job returns the job that the finding is about.
func (f *Finding) Job() JobKey { return JobKey{f.JobID, f.Restart} }

// Key is the key of a finding's records: job_id/restart/rule.
func (f *Finding) Key() []byte {
	b := append(append([]byte(f.JobID), '/'), strconv.Itoa(int(f.Restart))...)
	return append(append(b, '/'), f.Rule...)
}

// FindState is the state of find for a running job, so that a successor need not read the job's life again.
type FindState struct {
	Cluster string `avro:"cluster"`
	JobID   string `avro:"job_id"`
	Restart int32  `avro:"restart"`
	AsOf    int64  `avro:"as_of"`
	Offset  int64  `avro:"offset"` // of the last summary that it holds
	Ended   bool   `avro:"ended"`
	Job     []byte `avro:"job"` // the Job record as find knew it; empty: none
	State   []byte `avro:"state"`
}

// Identity returns the job that the state is of.
func (s *FindState) Identity() JobKey { return JobKey{s.JobID, s.Restart} }

// checkFoundJob checks the job of a record of find. The pseudo-jobs have no rules.
func checkFoundJob(cluster, jobID string, restart int32) error {
	switch {
	case !naming.Valid(cluster):
		return invalid("cluster", "%.80q is not a name", cluster)
	case !ValidJobID(jobID):
		return invalid("job_id", "%.80q is not a job's name", jobID)
	case restart < 0:
		return invalid("restart", "%d is negative", restart)
	}
	return nil
}

// Validate implements Record.
func (f *Finding) Validate() error {
	if err := checkFoundJob(f.Cluster, f.JobID, f.Restart); err != nil {
		return err
	}
	for _, n := range []struct {
		field, name string
	}{{"rule", f.Rule}, {"rule_hash", f.RuleHash}} {
		if !naming.Valid(n.name) {
			return invalid(n.field, "%.80q is not a name", n.name)
		}
	}
	if f.Node != nil && !naming.Valid(*f.Node) {
		return invalid("node", "%.80q is not a host's name", *f.Node)
	}
	for _, t := range []struct {
		field, text string
	}{{"title", f.Title}, {"hint", f.Hint}, {"slurm", f.Slurm}} {
		if len(t.text) > MaxFindingText || !isPrintable(t.text) {
			return invalid(t.field, "%.80q is not at most %d bytes of printable UTF-8", t.text, MaxFindingText)
		}
	}
	switch {
	case f.State != FindingOpen && f.State != FindingClosed:
		return invalid("state", "%.80q is none", f.State)
	case f.Certainty != Certain && f.Certainty != Possible:
		return invalid("certainty", "%.80q is none", f.Certainty)
	case f.Class != ClassLow && f.Class != ClassMed && f.Class != ClassHigh:
		return invalid("class", "%.80q is none", f.Class)
	}
	return f.validateNumbers()
}

func (f *Finding) validateNumbers() error {
	switch {
	case !(f.Severity >= 0 && f.Severity <= f.Worst && f.Worst <= 1): // NaN is none of it
		return invalid("severity", "%g of a worst %g is not in 0 to 1", f.Severity, f.Worst)
	case f.IntervalMs <= 0 || f.IntervalMs > maxIntervalMs:
		return invalid("interval_ms", "%d is not in 1 to %d", f.IntervalMs, int64(maxIntervalMs))
	case f.Matched < 0 || f.Evaluated < f.Matched || f.Intervals < f.Evaluated:
		return invalid("intervals", "%d matched, %d evaluated of %d are out of order", f.Matched, f.Evaluated,
			f.Intervals)
	case f.NodeIntervals < 0 || f.NodeIntervals > f.Matched:
		return invalid("node_intervals", "%d is not in 0 to %d", f.NodeIntervals, f.Matched)
	case len(f.Evidence) > MaxEvidence:
		return invalid("evidence", "%d are more than %d", len(f.Evidence), MaxEvidence)
	}
	for _, t := range []struct {
		field string
		ms    int64
	}{{"first_interval", f.FirstInterval}, {"last_interval", f.LastInterval}, {"as_of", f.AsOf}} {
		if err := checkTime(t.field, t.ms); err != nil {
			return err
		}
	}
	if f.JobStart != nil {
		if err := checkTime("job_start", *f.JobStart); err != nil {
			return err
		}
	}
	for i := range f.Evidence {
		e := &f.Evidence[i]
		if e.Name == "" || len(e.Name) > MaxFindingText || !isPrintable(e.Name) {
			return invalid("evidence", "%.80q is not the name of a number", e.Name)
		}
		if !finite(e.Low) || !finite(e.Mean) || !finite(e.High) {
			return invalid("evidence", "%s: %g, %g and %g are not all finite", e.Name, e.Low, e.Mean, e.High)
		}
	}
	return nil
}

// Validate implements Record.
func (s *FindState) Validate() error {
	if err := checkFoundJob(s.Cluster, s.JobID, s.Restart); err != nil {
		return err
	}
	switch {
	case s.Offset < 0:
		return invalid("offset", "%d is negative", s.Offset)
	case len(s.State) > maxFindState:
		return invalid("state", "%d bytes are more than %d", len(s.State), maxFindState)
	}
	return checkTime("as_of", s.AsOf)
}
