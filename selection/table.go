// Package selection finds which metrics are worth measuring, and what is lost without the others. It is pure: a table
// of observations goes in, a selection with its evidence comes out. It knows no clock, no file and no Kafka. The same
// table gives the same bytes for any order of its metrics and any number of CPUs.
//
//	Table ──Prepare──▶ Design ──Stars──▶ representatives ──Gram, by block──▶ forward path ──held-out error──▶ size
//	  └──Literal: the method of Yang, Schopf, Dumitrescu and Foster, as published, for comparison
package selection

// Table holds observations: one row for each job and interval, each node and interval, or each line of a CSV. Missing
// values are NaN. Every slice has a value for each row.
type Table struct {
	Start     []int64  // of each row, in milliseconds; ascending within a unit
	Unit      []int32  // the job or the node of each row, an index of Units; nil: all rows are of one
	Units     []string // names of jobs or nodes, such as "4711/0"
	Metrics   []Metric
	Responses []Response
	Notes     []string // parts of the input left out or changed, with counts: reports repeat them
}

// Rows returns the number of rows.
func (t *Table) Rows() int { return len(t.Start) }

// Names returns the names of the metrics, in their order.
func (t *Table) Names() []string {
	names := make([]string, len(t.Metrics))
	for i := range t.Metrics {
		names[i] = t.Metrics[i].Name
	}
	return names
}

// Metric is one metric, with a column for each statistic of its values. It is measured or dropped as a whole.
type Metric struct {
	Name   string
	Source string // the source that reads it, as the catalogue names it; empty: not known
	Kind   string // ratio, rate or gauge; empty: not known
	// Columns are one or more: the mean, and the deciles if known.
	Columns []Column
}

// Column is one statistic of a metric over the CPUs or nodes of a row.
type Column struct {
	Statistic string // mean, d0, d5 or d10; empty: one value a row
	Values    []float64
}

// Response is a quantity that the metrics should explain, such as the rate of an application.
type Response struct {
	Name   string
	Values []float64
}
