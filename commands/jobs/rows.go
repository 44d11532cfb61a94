package jobs

import (
	"io"
	"math"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"
	"github.com/weirhpc/weir/sink/table"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
)

// totalRow is a metric of a job over its whole life, for programs. Its names are the columns of the archive's table
// job_totals. Unknown values are null.
type totalRow struct {
	Cluster string  `json:"cluster"`
	JobID   string  `json:"job_id"`
	Restart int32   `json:"restart"`
	Metric  *string `json:"metric"`
	Unit    *string `json:"unit"`
	Scope   *string `json:"scope"`

	Start             int64    `json:"start"`
	End               int64    `json:"end"`
	Intervals         int64    `json:"intervals"`
	IntervalsMeasured int64    `json:"intervals_measured"`
	MeasuredS         float64  `json:"measured_s"`
	NodesExpectedSum  int64    `json:"nodes_expected_sum"`
	NodesReportedSum  int64    `json:"nodes_reported_sum"`
	Completeness      *float64 `json:"completeness"`

	Count         int64    `json:"count"`
	Invalid       *int64   `json:"invalid"`
	Mean          *float64 `json:"mean"`
	Min           *float64 `json:"min"`
	Max           *float64 `json:"max"`
	Stddev        *float64 `json:"stddev"`
	NodeStddevRMS *float64 `json:"node_stddev_rms"`
	LowNode       *string  `json:"low_node"`
	LowNodeShare  *float64 `json:"low_node_share"`
	HighNode      *string  `json:"high_node"`
	HighNodeShare *float64 `json:"high_node_share"`

	D0        *float64  `json:"d0"`
	D1        *float64  `json:"d1"`
	D2        *float64  `json:"d2"`
	D3        *float64  `json:"d3"`
	D4        *float64  `json:"d4"`
	D5        *float64  `json:"d5"`
	D6        *float64  `json:"d6"`
	D7        *float64  `json:"d7"`
	D8        *float64  `json:"d8"`
	D9        *float64  `json:"d9"`
	D10       *float64  `json:"d10"`
	RankError *float64  `json:"rank_error"`
	Lo        []float64 `json:"lo"` // null if the deciles are exact
	Hi        []float64 `json:"hi"`

	CertifiedCount *int64 `json:"certified_count"`
	Final          bool   `json:"final"`
}

// totalRows are the totals of a job, a metric each.
func totalRows(j *view.Job) []totalRow {
	rows := make([]totalRow, 0, len(j.Metrics))
	for i := range j.Metrics {
		rows = append(rows, totalOf(j, &j.Metrics[i]))
	}
	return rows
}

func totalOf(j *view.Job, m *view.Metric) totalRow {
	t := &m.Total
	r := totalRow{
		Cluster: j.Cluster, JobID: j.JobID, Restart: j.Restart, Metric: &m.Name, Unit: &m.Unit, Scope: &m.Scope,
		Start: t.Of.StartMs, End: t.Of.EndMs, Intervals: t.Of.Intervals, IntervalsMeasured: t.Of.Measured,
		MeasuredS: t.Of.MeasuredS, NodesExpectedSum: t.Of.Expected, NodesReportedSum: t.Of.Reported,
		Count: t.Count, Invalid: t.Invalid, CertifiedCount: t.CertifiedCount, Mean: finite(&t.Mean),
		Stddev: finite(t.Stddev), NodeStddevRMS: finite(t.NodeStddevRMS), RankError: finite(&t.RankError),
		Min: finite(&t.D[0]), Max: finite(&t.D[10]), Final: !j.Running,
	}
	if t.Of.Expected > 0 {
		complete := float64(t.Of.Reported) / float64(t.Of.Expected)
		r.Completeness = &complete
	}
	if t.LowNode != "" {
		r.LowNode, r.LowNodeShare = &t.LowNode, finite(&t.LowShare)
	}
	if t.HighNode != "" {
		r.HighNode, r.HighNodeShare = &t.HighNode, finite(&t.HighShare)
	}
	for k, to := range []**float64{&r.D0, &r.D1, &r.D2, &r.D3, &r.D4, &r.D5, &r.D6, &r.D7, &r.D8, &r.D9, &r.D10} {
		*to = finite(&t.D[k])
	}
	if t.Known && !t.Exact && !math.IsNaN(t.Lo[5]) {
		r.Lo, r.Hi = t.Lo[:], t.Hi[:]
	}
	return r
}

// findingRow is a finding for programs: a row of the archive's table findings, of a finding that may still change.
type findingRow struct {
	findings.Row
	Final bool `json:"final"`
	// Nil pointers hide the two columns that only the archive has.
	Position *int64 `json:"position,omitempty"`
	JobStart *int64 `json:"job_start,omitempty"`
}

// findingRows are the findings of a job, the worst first.
func findingRows(j *view.Job) []findingRow {
	rows := make([]findingRow, 0, len(j.Findings))
	for i := range j.Findings {
		rows = append(rows, findingOf(&j.Findings[i]))
	}
	return rows
}

func findingOf(f *schemas.Finding) findingRow {
	return findingRow{Row: findings.RowOf(f, table.Earlier), Final: f.Final}
}

// printEach prints the rows of all jobs for programs.
func printEach[T any](w io.Writer, form cli.CSVFlags, jobs []*view.Job, rows func(*view.Job) []T) error {
	var all []T
	for _, j := range jobs {
		all = append(all, rows(j)...)
	}
	return cli.PrintRows(w, form, all)
}
