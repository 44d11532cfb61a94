// Package findings keeps the final findings of topic findings in the archive, for ever: one row for each rule that held
// for a job. The topic forgets them after topics.summary_retention.
package findings

import (
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/table"
)

// Row is a final finding. Users may rely on the columns in docs/archive.md.
type Row struct {
	Cluster       string   `parquet:"cluster,dict" json:"cluster"`
	JobID         string   `parquet:"job_id,dict" json:"job_id"`
	Restart       int32    `parquet:"restart" json:"restart"`
	Rule          string   `parquet:"rule,dict" json:"rule"`
	RuleHash      string   `parquet:"rule_hash,dict" json:"rule_hash"`
	Title         string   `parquet:"title,dict" json:"title"`
	State         string   `parquet:"state,dict" json:"state"`
	Certainty     string   `parquet:"certainty,dict" json:"certainty"`
	Class         string   `parquet:"class,dict" json:"class"`
	Severity      float64  `parquet:"severity" json:"severity"`
	Worst         float64  `parquet:"worst" json:"worst"`
	FirstInterval int64    `parquet:"first_interval,timestamp(millisecond)" json:"first_interval"`
	LastInterval  int64    `parquet:"last_interval,timestamp(millisecond)" json:"last_interval"`
	AsOf          int64    `parquet:"as_of,timestamp(millisecond)" json:"as_of"`
	IntervalMs    int64    `parquet:"interval_ms" json:"interval_ms"`
	Intervals     int64    `parquet:"intervals" json:"intervals"`
	Evaluated     int64    `parquet:"evaluated" json:"evaluated"`
	Matched       int64    `parquet:"matched" json:"matched"`
	Node          *string  `parquet:"node,optional,dict" json:"node"`
	NodeIntervals int64    `parquet:"node_intervals" json:"node_intervals"`
	EvidenceNames []string `parquet:"evidence_names,list" parquet-element:",dict" json:"evidence_names"`

	EvidenceMeans []float64 `parquet:"evidence_means,list" json:"evidence_means"`
	EvidenceLows  []float64 `parquet:"evidence_lows,list" json:"evidence_lows"`
	EvidenceHighs []float64 `parquet:"evidence_highs,list" json:"evidence_highs"`

	Hint  string `parquet:"hint,dict" json:"hint"`
	Slurm string `parquet:"slurm,dict" json:"slurm"`
	// Position is the offset in topic findings of the record that the row was made of; -1 for one of another topic.
	Position int64 `parquet:"position" json:"position"`
	// JobStart is when the job began; null if that is not known.
	JobStart *int64 `parquet:"job_start,optional,timestamp(millisecond)" json:"job_start"`
}

func (r *Row) number() table.Number {
	return table.Number{Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Rule: r.Rule}
}

// life returns when the job ran, as far as the finding shows. Without a start, the life begins with the job's first
// interval, or later if intervals are missing.
func (r *Row) life() table.Life {
	l := table.Life{From: r.AsOf - max(r.Intervals-1, 0)*r.IntervalMs, To: r.AsOf + r.IntervalMs}
	if r.JobStart != nil && *r.JobStart > 0 {
		l.From = *r.JobStart
	}
	return l
}

// date returns the date of the row's file, on which the last evaluated interval ended. The job ended then, or an
// interval later.
func (r *Row) date() string { return time.UnixMilli(r.AsOf + r.IntervalMs).UTC().Format(time.DateOnly) }

// rowOf returns the row of a record of topic findings, or false for a finding that may still change.
func rowOf(f *schemas.Finding, offset int64) (Row, bool) {
	if !f.Final {
		return Row{}, false
	}
	return RowOf(f, offset), true
}

// RowOf returns the row of a finding, as if it were final. Lists without evidence are empty, and never nil.
func RowOf(f *schemas.Finding, offset int64) Row {
	r := Row{
		Cluster: f.Cluster, JobID: f.JobID, Restart: f.Restart, Rule: f.Rule, RuleHash: f.RuleHash, Title: f.Title,
		State: f.State, Certainty: f.Certainty, Class: f.Class, Severity: f.Severity, Worst: f.Worst,
		FirstInterval: f.FirstInterval, LastInterval: f.LastInterval, AsOf: f.AsOf, IntervalMs: f.IntervalMs,
		Intervals: f.Intervals, Evaluated: f.Evaluated, Matched: f.Matched, Node: f.Node,
		NodeIntervals: f.NodeIntervals, Hint: f.Hint, Slurm: f.Slurm, Position: offset, JobStart: f.JobStart,
		EvidenceNames: []string{}, EvidenceMeans: []float64{}, EvidenceLows: []float64{}, EvidenceHighs: []float64{},
	}
	for _, e := range f.Evidence {
		r.EvidenceNames, r.EvidenceMeans = append(r.EvidenceNames, e.Name), append(r.EvidenceMeans, e.Mean)
		r.EvidenceLows, r.EvidenceHighs = append(r.EvidenceLows, e.Low), append(r.EvidenceHighs, e.High)
	}
	return r
}

// Finding returns the record that the row was made of. Lists of several lengths make no evidence: no sink wrote them.
func (r *Row) Finding() schemas.Finding {
	f := schemas.Finding{
		Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Rule: r.Rule, RuleHash: r.RuleHash, Title: r.Title,
		Hint: r.Hint, Slurm: r.Slurm, State: r.State, Final: true, Certainty: r.Certainty, Class: r.Class,
		Severity: r.Severity, Worst: r.Worst, FirstInterval: r.FirstInterval, LastInterval: r.LastInterval,
		AsOf: r.AsOf, IntervalMs: r.IntervalMs, Intervals: r.Intervals, Evaluated: r.Evaluated, Matched: r.Matched,
		Node: r.Node, NodeIntervals: r.NodeIntervals, JobStart: r.JobStart,
	}
	n := len(r.EvidenceNames)
	if len(r.EvidenceMeans) != n || len(r.EvidenceLows) != n || len(r.EvidenceHighs) != n {
		return f
	}
	for i, name := range r.EvidenceNames {
		f.Evidence = append(f.Evidence, schemas.FindingEvidence{
			Name: name, Low: r.EvidenceLows[i], Mean: r.EvidenceMeans[i], High: r.EvidenceHighs[i],
		})
	}
	return f
}
