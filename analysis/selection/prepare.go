package selection

import "errors"

// Scaling makes values of different units comparable: (x − Centre) / Scale, then asinh where rates are heavy-tailed.
type Scaling struct {
	Difference bool    `json:"difference,omitempty"` // of the value and the one before: for gauges that drift
	Centre     float64 `json:"centre"`
	Scale      float64 `json:"scale"`
	Asinh      bool    `json:"asinh,omitempty"`
	Mean       float64 `json:"mean"` // of the scaled values in training, and their standard deviation
	SD         float64 `json:"sd"`
	Square     bool    `json:"square,omitempty"` // squared after standardising; MeanSquare and SDSquare standardise that
	MeanSquare float64 `json:"mean_square,omitempty"`
	SDSquare   float64 `json:"sd_square,omitempty"`
}

// Scaled applies s to a column of one unit, in order of time. Missing values stay NaN.
func (s Scaling) Scaled(values []float64) []float64 { return nil }

// Term is one column of a design: a statistic of a metric, or its square.
type Term struct {
	Metric    int // of Design.Metrics
	Statistic string
	Scaling   Scaling
	X         []float64 // in the order of Design.Rows: mean 0, variance 1, no missing values
}

// Group is a metric of a design: its terms are chosen together.
type Group struct {
	Name   string
	Source string
	Terms  []int   // of Design.Terms
	Filled float64 // share of missing values, which the median of the block replaces
}

// Design is a table made ready: the rows that count, in blocks, and columns on a common scale.
type Design struct {
	Rows      []int   // of the table, block after block, in order of time inside a unit
	Bounds    []int   // block b has rows Bounds[b] to Bounds[b+1]-1 of Rows
	Unit      []int32 // of each of Rows
	Metrics   []Group // by name
	Terms     []Term  // by metric, statistic, then the square
	Responses []string
	Y         [][]float64 // of each response, in the order of Rows
	Joint     bool        // each unit has coefficients of its own
	Asinh     bool
	Left      []Left
	Out       Out
}

// Blocks cuts the rows of a table into contiguous stretches of time, at least as many as asked for where the rows
// suffice. With at least that many units, blocks are whole units.
func Blocks(t *Table, least int) [][]int { return nil }

// Prepare makes a table ready. Its columns are on the scale of asinh; Linear has the other.
func Prepare(t *Table, o Options) (*Design, error) { return nil, errors.New("not written yet") }

// Values are the columns of the named metrics of another table on the scale of the design, one value a row of t.
// Missing values are replaced by the centre. So a model of training rows is scored on rows that it never saw.
func (d *Design) Values(t *Table, metrics []string) ([][]float64, error) {
	return nil, errors.New("not written yet")
}
