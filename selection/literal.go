package selection

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// LiteralOptions are choices that the paper leaves open.
type LiteralOptions struct {
	Threshold   float64 // correlation above which two metrics share a cluster, 0 to 1; 1 groups nothing
	FToRemove   float64 // terms with a smaller F are removed; the paper uses 2
	Quadratic   bool    // also use the square of each metric
	DropAliased bool    // leave out representatives that are sums of others, instead of refusing
	PerBlock    bool    // correlations within blocks of time, averaged, instead of over all rows
}

// Reasons for which the literal method refuses.
const (
	tooFewSamples     = "too few samples"
	multicollinearity = "multicollinearity"
	constantResponse  = "constant response"
)

// Literal is the selection by the method of Yang, Schopf, Dumitrescu and Foster: Statistical Data Reduction for
// Efficient Application Performance Monitoring. Names are in the order of the table.
type Literal struct {
	Threshold       float64    `json:"threshold"`
	Model           string     `json:"model"` // linear or quadratic
	FToRemove       float64    `json:"f_to_remove"`
	Constant        []string   `json:"constant"`
	Clusters        [][]string `json:"clusters"`
	Representatives []string   `json:"representatives"`
	Aliased         []string   `json:"aliased,omitempty"` // representatives that DropAliased left out
	RowsUsed        int        `json:"rows_used"`         // rows with the response and all representatives

	// The regression after the backward elimination.
	Eliminated      []Elimination      `json:"eliminated"` // in order
	Terms           []string           `json:"terms"`      // a square is NAME^2
	Selected        []string           `json:"selected"`   // metrics with a remaining term
	F               map[string]float64 `json:"f"`          // of each remaining term
	R2              float64            `json:"r2"`
	ReductionDegree float64            `json:"reduction_degree"` // 1 − selected / all metrics, constant ones included

	// The reason for a missing regression.
	Error      string   `json:"error,omitempty"`
	Samples    int      `json:"samples,omitempty"`
	Predictors int      `json:"predictors,omitempty"`
	Collinear  []string `json:"collinear,omitempty"` // columns that are sums of the others
}

// MarshalJSON leaves out the fields of the regression if there is none.
func (l Literal) MarshalJSON() ([]byte, error) {
	type plain Literal
	if l.Error == "" {
		return json.Marshal(plain(l))
	}
	return json.Marshal(struct {
		plain
		Eliminated      *int `json:"eliminated,omitempty"`
		Terms           *int `json:"terms,omitempty"`
		Selected        *int `json:"selected,omitempty"`
		F               *int `json:"f,omitempty"`
		R2              *int `json:"r2,omitempty"`
		ReductionDegree *int `json:"reduction_degree,omitempty"`
	}{plain: plain(l)})
}

// Elimination is a term that the backward elimination removed, with its F at that time.
type Elimination struct {
	Term string
	F    float64
}

// MarshalJSON writes a pair.
func (e Elimination) MarshalJSON() ([]byte, error) { return json.Marshal([]any{e.Term, e.F}) }

// SelectLiteral selects metrics by the published method. For a metric with several columns it uses the first. The order
// of columns only decides between correlations that are equal within 1e-9, and between terms with equal F.
//
// It refuses a meaningless regression. The result then contains the clusters and the kind of refusal, and the error
// recommends a remedy.
func SelectLiteral(t *Table, response int, o LiteralOptions) (*Literal, error) {
	all, errs := sweepLiteral(t, response, o, []float64{o.Threshold})
	return all[0], errs[0]
}

// sweepLiteral runs the literal method at several ascending thresholds, with the correlations computed once.
func sweepLiteral(t *Table, response int, o LiteralOptions, thresholds []float64) ([]*Literal, []error) {
	out, errs := make([]*Literal, len(thresholds)), make([]error, len(thresholds))
	for i, threshold := range thresholds {
		o.Threshold = threshold
		if errs[i] = t.checkLiteral(response, o); errs[i] != nil {
			return out, errs
		}
		out[i] = newLiteral(o)
	}
	y, bounds, rows := t.literalRows(response, o.PerBlock)
	kind, text := refusedResponse(t.Responses[response], y)
	if kind != "" {
		for i, l := range out {
			l.RowsUsed = len(rows)
			errs[i] = l.refuse(kind, 0, text)
		}
		return out, errs
	}
	var names, flat []string
	var columns [][]float64
	for _, m := range t.Metrics {
		x := m.Columns[0].Values
		if len(rows) < len(x) || o.PerBlock {
			x = pick(x, rows)
		}
		if constant(x) {
			flat = append(flat, m.Name)
		} else {
			names, columns = append(names, m.Name), append(columns, x)
		}
	}
	strength := strengths(columns, y, bounds)
	for i, groups := range clusters(columns, bounds, thresholds) {
		l := out[i]
		l.Constant = append(l.Constant, flat...)
		var chosen []int
		for _, members := range groups {
			l.Clusters = append(l.Clusters, pick(names, members))
			r := representative(members, strength)
			chosen = append(chosen, r)
			l.Representatives = append(l.Representatives, names[r])
		}
		errs[i] = l.regress(pick(names, chosen), pick(columns, chosen), pick(strength, chosen), y, o)
		l.ReductionDegree = 1 - float64(len(l.Selected))/float64(len(t.Metrics))
	}
	return out, errs
}

func newLiteral(o LiteralOptions) *Literal {
	l := &Literal{
		Threshold: o.Threshold, Model: "linear", FToRemove: o.FToRemove,
		Constant: []string{}, Clusters: [][]string{}, Representatives: []string{},
	}
	if o.Quadratic {
		l.Model = "quadratic"
	}
	return l
}

// refusedResponse returns the kind and the text of a refusal if no regression is possible on the response.
func refusedResponse(r Response, y []float64) (kind, text string) {
	switch {
	case len(y) == 0:
		return tooFewSamples, fmt.Sprintf(
			"response %q has no value in %d rows: name a response that was measured", r.Name, len(r.Values))
	case constant(y):
		return constantResponse, fmt.Sprintf(
			"response %q is %g in all of %d rows: nothing can explain it; measure while it varies",
			r.Name, y[0], len(y))
	}
	return "", ""
}

// checkLiteral returns an error for invalid options or tables.
func (t *Table) checkLiteral(response int, o LiteralOptions) error {
	switch {
	case !(o.Threshold >= 0 && o.Threshold <= 1):
		return fmt.Errorf("the threshold is %g: it must be from 0 to 1", o.Threshold)
	case !(o.FToRemove >= 0) || math.IsInf(o.FToRemove, 1):
		return fmt.Errorf("the F to remove is %g: it must be a number of at least 0", o.FToRemove)
	case response < 0 || response >= len(t.Responses):
		return fmt.Errorf("response %d of %d: the literal method needs a response", response, len(t.Responses))
	}
	return t.check()
}

// literalRows returns the rows with a response, and their responses. If correlations are within blocks, rows are
// ordered by block.
func (t *Table) literalRows(response int, perBlock bool) (y []float64, bounds, rows []int) {
	values := t.Responses[response].Values
	blocks := [][]int{make([]int, t.Rows())}
	for i := range blocks[0] {
		blocks[0][i] = i
	}
	if perBlock {
		blocks = Blocks(t, foldsOfBlocks)
	}
	bounds = []int{0}
	for _, block := range blocks {
		for _, row := range block {
			if present(values[row]) {
				rows = append(rows, row)
				y = append(y, values[row])
			}
		}
		if len(rows) > bounds[len(bounds)-1] {
			bounds = append(bounds, len(rows))
		}
	}
	return y, bounds, rows
}

// foldsOfBlocks is the smallest number of blocks.
const foldsOfBlocks = 6

// constant reports whether all present values are equal. A computed variance could be above 0 by rounding.
func constant(values []float64) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if present(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return !(low < high)
}

// strengths returns |r| of each column with the response.
func strengths(columns [][]float64, y []float64, bounds []int) []float64 {
	out := make([]float64, len(columns))
	for j, x := range columns {
		if len(bounds) == 2 {
			r, _ := correlation(x, y)
			out[j] = math.Abs(r)
			continue
		}
		newCorrelator([][]float64{x, y}, bounds).pairs(func(_, _ int, r, _ float64) { out[j] = math.Abs(r) })
	}
	return out
}

// representative returns the column that correlates most with the response. The same counter in bytes and in KiB
// differs in the last digit, so among columns within 1e-9 the first wins.
func representative(members []int, strength []float64) int {
	best := 0.
	for _, m := range members {
		best = max(best, strength[m])
	}
	for _, m := range members {
		if strength[m] >= best-1e-9 {
			return m
		}
	}
	return members[0]
}

// regress runs the backward elimination, starting with all representatives.
func (l *Literal) regress(names []string, columns [][]float64, strength, y []float64, o LiteralOptions) error {
	rows := complete(columns, len(y))
	l.RowsUsed = len(rows)
	m := newModel(names, columns, pick(y, rows), rows, o.Quadratic)
	if o.DropAliased {
		l.Aliased = m.dropAliased(strength)
	}
	n, p := len(rows), len(m.names)
	switch {
	case n <= p+1:
		return l.refuse(tooFewSamples, p, fmt.Sprintf(
			"%d rows have the response and all representatives (of %d with the response), "+
				"and %d predictors need at least %d%s: measure longer, lower the threshold below %g, "+
				"or use --method forward",
			n, len(y), p, p+2, gappiest(names, columns, len(y)-n), l.Threshold))
	case constant(m.raw):
		return l.refuse(constantResponse, p, fmt.Sprintf(
			"the response is %g in the %d rows that have all representatives: measure while it varies", m.raw[0], n))
	}
	if aliases := m.eliminate(o.FToRemove); len(aliases) > 0 {
		l.Collinear = aliases
		return l.refuse(multicollinearity, p, fmt.Sprintf(
			"%d predictors over %d rows are collinear (multicollinearity): %s; lower the threshold below %g, "+
				"leave a column out with --drop-aliased, or use --method forward", p, n, reason(aliases), l.Threshold))
	}
	l.Eliminated, l.Terms, l.F, l.R2 = m.eliminated, m.names, m.f, m.r2
	l.Selected = []string{}
	for _, name := range names {
		if slices.Contains(m.of, name) {
			l.Selected = append(l.Selected, name)
		}
	}
	return nil
}

// refuse records the kind of a refusal, and returns its text as an error.
func (l *Literal) refuse(kind string, predictors int, text string) error {
	l.Error, l.Samples, l.Predictors = kind, l.RowsUsed, predictors
	return fmt.Errorf("the literal method: %s", text)
}

func reason(columns []string) string {
	if len(columns) == 1 {
		return columns[0] + " does not vary in the rows that have all representatives"
	}
	return someNames(columns) + " determine each other"
}

// someNames lists names, at most ten.
func someNames(names []string) string {
	const most = 10
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// complete returns the rows in which no column misses a value.
func complete(columns [][]float64, n int) []int {
	rows := make([]int, 0, n)
rows:
	for i := range n {
		for _, x := range columns {
			if !present(x[i]) {
				continue rows
			}
		}
		rows = append(rows, i)
	}
	return rows
}

// gappiest names the column with the most missing values, if any rows were lost to missing values.
func gappiest(names []string, columns [][]float64, lost int) string {
	if lost == 0 {
		return ""
	}
	worst, most := 0, -1
	for j, x := range columns {
		missing := 0
		for _, v := range x {
			if !present(v) {
				missing++
			}
		}
		if missing > most {
			worst, most = j, missing
		}
	}
	return fmt.Sprintf("; %s alone lacks %d values, so leave it out", names[worst], most)
}
