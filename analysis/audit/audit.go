// Package audit closes the accounts of a live installation. It folds the log of counters anew, by the rules of
// docs/design.md, and compares the results with the records that the services committed: fates of records, summaries,
// shares of split jobs, and rows of the archive.
//
// It repeats rules of the folds on purpose and shares no code with package processors: an audit that called the fold
// would prove nothing. Deciles are read from sorted values. Package schemas decides whether a record is valid, and
// quantile.Summary.Check whether a summary contradicts itself: these are the contract, not the arithmetic. Its codec is
// compared with goavro's, on some records or on all.
//
// Books is the pure part. It asks for the records of three topics, interval by interval over all partitions, so that it
// holds only open intervals and records that still lack their counterpart in another topic. run.go reads the topics,
// archive.go compares the files with the topic.
package audit

import (
	"fmt"
	"time"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/schemas"
)

// Report is the result of an audit. It is clean if Found is 0.
type Report struct {
	TimeMs      int64        `json:"time_ms"`
	FromMs      *int64       `json:"from_interval_start"` // null: from the first record on
	ToMs        *int64       `json:"to_interval_start"`   // the last interval that all partitions have closed
	Partitions  []*Account   `json:"partitions"`
	Runs        []*AgentRun  `json:"runs"`
	Summaries   Summaries    `json:"summaries"`
	Rejects     int64        `json:"rejects"` // rejected records, found on topic rejects
	Decoded     Decoded      `json:"decoded_twice"`
	Archive     []*Chain     `json:"archive"` // empty: the archive was left out, or there is none
	Notes       []string     `json:"notes"`   // parts that could not be compared, with the reason
	Differences []Difference `json:"differences"`
	Found       int64        `json:"differences_found"` // Differences lists the first 1,000
}

// Account is one partition's input of collect or merge.
type Account struct {
	Stage     string `json:"stage"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`     // the first offset that was read
	Position  int64  `json:"position"` // the last committed position, the end of reading
	Records   int64  `json:"records"`  // acknowledged: of agents in counters, shares in partials
	Fates     Fates  `json:"fates"`    // by the audit's fold, of all Records
	Open      int64  `json:"open"`     // Records without a fate yet
	// Compared and Counted are the fates from an earlier Progress to the last one, by the audit and by the service.
	// Both are null if there is no earlier Progress to begin from.
	Compared *Fates `json:"compared"`
	Counted  *Fates `json:"counted"`

	closed int64 // the last interval that was closed
}

// Fates counts records by their fate, and the outputs made of them.
type Fates struct {
	Summarized int64 `json:"summarized"`
	Late       int64 `json:"late"`
	Dropped    int64 `json:"dropped"`
	Duplicate  int64 `json:"duplicate"`
	Misrouted  int64 `json:"misrouted"`
	Ended      int64 `json:"ended"`
	Rejected   int64 `json:"rejected"`
	Gaps       int64 `json:"gaps"`
	Ticks      int64 `json:"ticks"`   // in partials Watermarks
	Outputs    int64 `json:"outputs"` // summaries and shares
}

func fatesOf(c schemas.ProgressCounts) Fates {
	return Fates{
		Summarized: c.Summarized, Late: c.Late, Dropped: c.Dropped, Duplicate: c.Duplicate, Misrouted: c.Misrouted,
		Ended: c.Ended, Rejected: c.Rejected, Gaps: c.Gaps, Ticks: c.Ticks, Outputs: c.Outputs,
	}
}

func (f Fates) minus(g Fates) Fates {
	for i, n := range g.named() {
		*f.named()[i].count -= *n.count
	}
	return f
}

type namedCount struct {
	name  string
	count *int64
}

// named returns the counts in the order of the table.
func (f *Fates) named() []namedCount {
	return []namedCount{
		{"summarized", &f.Summarized},
		{"late", &f.Late},
		{"dropped", &f.Dropped},
		{"duplicate", &f.Duplicate},
		{"misrouted", &f.Misrouted},
		{"ended", &f.Ended},
		{"rejected", &f.Rejected},
		{"gaps", &f.Gaps},
		{"ticks", &f.Ticks},
		{"outputs", &f.Outputs},
	}
}

// Summaries counts the summaries of the topic.
type Summaries struct {
	Recomputed int64 `json:"recomputed"` // from the log of counters, and compared with the topic
	Node       int64 `json:"node"`       // of these, by method
	Exact      int64 `json:"exact"`
	Estimated  int64 `json:"estimated"`
	Brackets   int64 `json:"brackets"`  // of estimates, each compared with the true decile
	Certified  int64 `json:"certified"` // certified summaries of metrics, each compared with the values
	InFlight   int64 `json:"in_flight"` // committed after the positions were read
	Shares     int64 `json:"shares"`    // of split jobs, found on topic partials

	unheld int64 // certified summaries that came too late to keep the values for them
}

// Chain is one partition of summaries and its files in the archive.
type Chain struct {
	Partition int32 `json:"partition"`
	Files     int64 `json:"files"`
	Next      int64 `json:"next"`      // first offset of the next file
	End       int64 `json:"end"`       // of the topic
	Compared  int64 `json:"compared"`  // files of which the topic still holds all summaries
	Summaries int64 `json:"summaries"` // of the topic, compared with their rows
	Rows      int64 `json:"rows"`      // compared
	Gaps      int64 `json:"gaps"`      // accepted by `weir sink accept-gap`
}

// Decoded counts the records that were decoded a second time, by goavro, and compared field by field.
type Decoded struct {
	OneIn     int64 `json:"one_in"`    // of so many records, one was chosen; 1: all, 0: none
	Read      int64 `json:"read"`      // records of all topics
	Twice     int64 `json:"records"`   // decoded by both
	Malformed int64 `json:"malformed"` // chosen, but of a form that is not handed to goavro
}

// Difference is one account that does not close. Numbers and names that do not apply are absent.
type Difference struct {
	Kind          string  `json:"kind"` // fates, summary, share, run, reject, decoding, archive or chain
	Topic         string  `json:"topic"`
	Partition     int32   `json:"partition"`
	Offset        *int64  `json:"offset,omitempty"`
	JobID         *string `json:"job_id,omitempty"`
	Restart       *int32  `json:"restart,omitempty"`
	IntervalStart *int64  `json:"interval_start,omitempty"`
	File          string  `json:"file,omitempty"`
	Field         string  `json:"field,omitempty"` // of the record, such as metrics[2].values[17]
	Text          string  `json:"text"`
}

// The kinds of differences.
const (
	kindFates    = "fates"
	KindSummary  = "summary"
	kindShare    = "share"
	kindRun      = "run"
	KindReject   = "reject"
	kindDecoding = "decoding"
	kindArchive  = "archive"
	kindChain    = "chain"
)

// String returns the difference as one line: its place, then its text.
func (d Difference) String() string {
	where := fmt.Sprintf("%s-%d", d.Topic, d.Partition)
	if d.Offset != nil {
		where += fmt.Sprintf(" at %d", *d.Offset)
	}
	if d.File != "" {
		where = d.File + ": " + where
	}
	if d.JobID != nil {
		where += fmt.Sprintf(": job %s/%d", *d.JobID, *d.Restart)
	}
	if d.IntervalStart != nil {
		where += ": interval " + Instant(*d.IntervalStart)
	}
	return where + ": " + d.Text
}

// Instant returns a time in Unix milliseconds as text, in UTC.
func Instant(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z") }

// mostDifferences bounds the list of differences. Found counts all.
const mostDifferences = 1000

func (r *Report) differ(d Difference) {
	if r.Found++; len(r.Differences) < mostDifferences {
		r.Differences = append(r.Differences, d)
	}
}

const (
	// Beginning is the interval_start below all others.
	Beginning = recount.Never

	never = Beginning
	ended = recount.Ended
)

// jobInterval is one job in one interval.
type jobInterval struct {
	job   schemas.JobKey
	start int64
}

func intervalOf(s *schemas.JobSummary) jobInterval {
	return jobInterval{schemas.JobKey{JobID: s.JobID, Restart: s.Restart}, s.IntervalStart}
}

func (w jobInterval) mark(d Difference) Difference {
	d.JobID, d.Restart, d.IntervalStart = &w.job.JobID, &w.job.Restart, &w.start
	return d
}

// Entry is one record of a topic.
type Entry = recount.Entry
