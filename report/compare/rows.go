package compare

import (
	"fmt"
	"math"
)

// Row is a line of a comparison for --json and --csv. View names the table, and with it the columns in use. In the
// other columns texts are empty and numbers null.
type Row struct {
	View  string `json:"view"` // jobs, asked, used, reason, caveat, metric, only, finding
	Name  string `json:"name"` // a fact, a metric or a rule
	Unit  string `json:"unit"`
	Scope string `json:"scope"`
	Kind  string `json:"kind"` // of a metric: changed, slight, alike; of a finding: appeared, gone, stays, unknown
	At    string `json:"at"`   // the decile, or the mean, with the largest difference

	AText string   `json:"a_text"` // class of a finding
	BText string   `json:"b_text"`
	A     *float64 `json:"a"` // severity of a finding
	B     *float64 `json:"b"`
	ALow  *float64 `json:"a_lo"` // bounds
	AHigh *float64 `json:"a_hi"`
	BLow  *float64 `json:"b_lo"`
	BHigh *float64 `json:"b_hi"`

	Effect *float64 `json:"effect"` // above 0 if the second job has more; 0: no certain difference
}

// Rows returns the comparison as rows, table by table. Jobs that are not comparable have no rows of metrics.
func (c *Comparison) Rows() []Row {
	a, b := c.Jobs[0], c.Jobs[1]
	all := []Row{{View: "jobs", Name: "job_id", AText: a.JobID, BText: b.JobID}}
	for _, r := range c.Reasons {
		all = append(all, Row{View: "reason", Name: r})
	}
	for _, r := range c.Caveats {
		all = append(all, Row{View: "caveat", Name: r})
	}
	for i, facts := range [][]Fact{c.Asked, c.Used} {
		for _, f := range facts {
			all = append(all, Row{
				View: []string{"asked", "used"}[i], Name: f.Name, Unit: f.Unit, AText: f.Text[0], BText: f.Text[1],
				A: f.Value[0], B: f.Value[1],
			})
		}
	}
	if c.Comparable() {
		all = append(all, metricRows("changed", c.Changes())...)
		all = append(all, metricRows("slight", c.Slight())...)
		all = append(all, metricRows("alike", c.Alike())...)
		for i, names := range c.Only {
			for _, n := range names {
				all = append(all, Row{View: "only", Name: n, Kind: []string{"a", "b"}[i]})
			}
		}
	}
	for _, f := range c.Found {
		r := Row{View: "finding", Name: f.Finding().Rule, Kind: f.Kind}
		if of := f.Of[0]; of != nil {
			r.AText, r.A = of.Class, &of.Severity
		}
		if of := f.Of[1]; of != nil {
			r.BText, r.B = of.Class, &of.Severity
		}
		all = append(all, r)
	}
	return all
}

func metricRows(kind string, of []Metric) (all []Row) {
	for i := range of {
		m := &of[i]
		v := m.Value()
		r := Row{
			View: "metric", Name: m.Name, Unit: m.Unit, Scope: m.Scope, Kind: kind, At: "mean", Effect: &m.Effect,
			A: finite(v[0]), B: finite(v[1]),
		}
		if m.At != Mean {
			x, y := m.Totals[0], m.Totals[1]
			r.At = fmt.Sprintf("d%d", m.At)
			r.ALow, r.AHigh, r.BLow, r.BHigh = finite(x.Lo[m.At]), finite(x.Hi[m.At]), finite(y.Lo[m.At]),
				finite(y.Hi[m.At])
		}
		all = append(all, r)
	}
	return all
}

// finite returns nil for a number that JSON cannot represent.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
