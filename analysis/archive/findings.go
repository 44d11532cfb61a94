package archive

import (
	"context"

	"github.com/weirhpc/weir/schemas"
)

// finding is a row of table findings.
type finding struct {
	Cluster       string  `parquet:"cluster"`
	JobID         string  `parquet:"job_id"`
	Restart       int32   `parquet:"restart"`
	Rule          string  `parquet:"rule"`
	RuleHash      string  `parquet:"rule_hash"`
	Title         string  `parquet:"title"`
	State         string  `parquet:"state"`
	Certainty     string  `parquet:"certainty"`
	Class         string  `parquet:"class"`
	Severity      float64 `parquet:"severity"`
	Worst         float64 `parquet:"worst"`
	FirstInterval int64   `parquet:"first_interval"`
	LastInterval  int64   `parquet:"last_interval"`
	AsOf          int64   `parquet:"as_of"`
	IntervalMs    int64   `parquet:"interval_ms"`
	Intervals     int64   `parquet:"intervals"`
	Evaluated     int64   `parquet:"evaluated"`
	Matched       int64   `parquet:"matched"`
	Node          *string `parquet:"node"`
	NodeIntervals int64   `parquet:"node_intervals"`

	Names []string  `parquet:"evidence_names"`
	Means []float64 `parquet:"evidence_means"`
	Lows  []float64 `parquet:"evidence_lows"`
	Highs []float64 `parquet:"evidence_highs"`
	Hint  string    `parquet:"hint"`
	Slurm string    `parquet:"slurm"`
}

// EachFinding calls fn with the final findings of the jobs that ended from one date to another. They are of one job, or
// of all if job is empty.
func EachFinding(ctx context.Context, dir, from, to, job string, fn func(*schemas.Finding) error) error {
	choose := every
	if job != "" {
		choose = ofJob(job)
	}
	return each(ctx, dir, "findings", from, to, nil, choose, func(r *finding) error {
		f := schemas.Finding{
			Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Rule: r.Rule, RuleHash: r.RuleHash,
			Title: r.Title, Hint: r.Hint, Slurm: r.Slurm, State: r.State, Final: true, Certainty: r.Certainty,
			Class: r.Class, Severity: r.Severity, Worst: r.Worst, FirstInterval: r.FirstInterval,
			LastInterval: r.LastInterval, AsOf: r.AsOf, IntervalMs: r.IntervalMs, Intervals: r.Intervals,
			Evaluated: r.Evaluated, Matched: r.Matched, Node: r.Node, NodeIntervals: r.NodeIntervals,
		}
		for i := range min(len(r.Names), len(r.Means), len(r.Lows), len(r.Highs)) {
			f.Evidence = append(f.Evidence, schemas.FindingEvidence{
				Name: r.Names[i], Low: r.Lows[i], Mean: r.Means[i], High: r.Highs[i],
			})
		}
		return fn(&f)
	})
}
