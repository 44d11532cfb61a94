package selection

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// table has the given columns, one row every 5 s, and a response if y is not nil.
func table(y []float64, columns map[string][]float64) *Table {
	t := &Table{}
	for name, values := range columns {
		t.Metrics = append(t.Metrics, Metric{Name: name, Columns: []Column{{Values: values}}})
		t.Start = make([]int64, len(values))
	}
	for i := range t.Start {
		t.Start[i] = int64(i) * 5000
	}
	if y != nil {
		t.Responses = []Response{{Name: "y", Values: y}}
	}
	return t
}

func normal(seed uint64, n int) []float64 {
	r := rand.New(rand.NewPCG(seed, 2))
	x := make([]float64, n)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	return x
}

func TestPrepareCountsRowsThatAreOut(t *testing.T) {
	n := 120
	y := normal(1, n)
	y[10], y[11], y[12] = math.NaN(), math.Inf(1), 1e6
	tb := table(y, map[string][]float64{"a": normal(2, n)})
	tb.Start[50] = tb.Start[49] + 4 // a catch-up sample
	tb.Start[70], tb.Start[71] = tb.Start[71], tb.Start[70]
	d, err := Prepare(tb, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Out{Torn: 1, NoResponse: 2, Outlying: 1, Unordered: 1}
	if d.Out != want || len(d.Rows) != n-4 {
		t.Errorf("out %+v, %d rows; want %+v, %d", d.Out, len(d.Rows), want, n-4)
	}
	for _, row := range []int{10, 11, 12, 50} {
		if slices.Contains(d.Rows, row) {
			t.Errorf("row %d is in", row)
		}
	}
	if i := slices.Index(d.Rows, 71); i < 0 || d.Rows[i+1] != 70 {
		t.Error("rows out of order were not sorted")
	}
}

// Times that are irregular by design are no torn readings, but the warning says that these cannot be told.
func TestPrepareKeepsIrregularRows(t *testing.T) {
	n := 120
	tb := table(normal(1, n), map[string][]float64{"a": normal(2, n)})
	for i := range tb.Start {
		tb.Start[i] = int64(i)*5000 + int64(i%3)*2000
	}
	d, err := Prepare(tb, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Out.Torn != 0 || !strings.Contains(strings.Join(d.Warnings, " "), "irregular") {
		t.Errorf("%d torn, warnings %q", d.Out.Torn, d.Warnings)
	}
}

func TestPrepareLeavesOutWithAReason(t *testing.T) {
	n := 120
	constant, few, many, none := make([]float64, n), normal(3, n), normal(4, n), make([]float64, n)
	for i := range n {
		constant[i] = .1
		none[i] = math.NaN()
		if i%20 == 0 {
			few[i] = math.NaN()
		}
		if i%5 == 0 {
			many[i] = math.NaN()
		}
	}
	d, err := Prepare(table(normal(1, n), map[string][]float64{
		"a": normal(2, n), "constant": constant, "few": few, "many": many, "none": none,
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Left{
		{Name: "constant", Reason: "constant"}, {Name: "many", Reason: "missing"}, {Name: "none", Reason: "missing"},
	}
	if !slices.Equal(d.Left, want) {
		t.Errorf("left %v, want %v", d.Left, want)
	}
	if len(d.Metrics) != 2 || d.Metrics[1].Name != "few" || d.Metrics[1].Filled != .05 {
		t.Errorf("metrics %+v", d.Metrics)
	}
	for _, v := range d.Terms[1].X {
		if math.IsNaN(v) {
			t.Fatal("a missing value is left")
		}
	}
}

// A gauge that drifts from block to block says less by its level than by its change. A rate is never differenced.
func TestPrepareDifferencesGaugesThatDrift(t *testing.T) {
	n := 240
	drift := normal(2, n)
	for i := range drift {
		drift[i] += float64(i)
	}
	tb := table(normal(1, n), map[string][]float64{"drift": drift, "steady": normal(3, n)})
	d, err := Prepare(tb, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !d.Terms[0].Scaling.Difference || d.Terms[1].Scaling.Difference {
		t.Errorf("scaling %+v, %+v", d.Terms[0].Scaling, d.Terms[1].Scaling)
	}
	for i := range tb.Metrics {
		tb.Metrics[i].Kind = "rate"
	}
	if d, err = Prepare(tb, Options{}); err != nil {
		t.Fatal(err)
	}
	if d.Terms[0].Scaling.Difference {
		t.Error("a rate was differenced")
	}
}

// Values puts the rows of the training table where the design has them, and Scaled is the same for one unit.
func TestValuesAreOnTheScaleOfTheDesign(t *testing.T) {
	n := 240
	drift := normal(2, n)
	for i := range drift {
		drift[i] += float64(i)
	}
	tb := table(normal(1, n), map[string][]float64{"a": normal(3, n), "drift": drift})
	asinh, err := Prepare(tb, Options{Quadratic: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Design{asinh, asinh.Linear()} {
		values, err := d.Values(tb, []string{"a", "drift"})
		if err != nil {
			t.Fatal(err)
		}
		if len(values) != 4 {
			t.Fatalf("%d columns", len(values))
		}
		for k, term := range d.Terms {
			scaled := term.Scaling.scaled(term.column)
			for i, row := range d.Rows {
				if row == 0 {
					continue // the first difference is missing, and each fills it in its way
				}
				if math.Abs(values[k][row]-term.X[i]) > 1e-9 || math.Abs(scaled[row]-term.X[i]) > 1e-9 {
					t.Fatalf("term %d, row %d: %g, %g and %g", k, row, term.X[i], values[k][row], scaled[row])
				}
			}
		}
	}
	if _, err := asinh.Values(tb, []string{"b"}); err == nil {
		t.Error("an unknown metric is no error")
	}
}

func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		name         string
		units, rows  int
		least, count int
		whole        bool
	}{
		{"one unit", 1, 100, 6, 6, false},
		{"one long unit", 1, 1000, 6, 12, false},
		{"two units", 2, 1000, 6, 12, false},
		{"six units", 6, 600, 6, 6, true},
		{"many units", 100, 1000, 6, mostBlocks, true},
		{"no rows", 0, 0, 6, 0, false},
	} {
		tb := &Table{Start: make([]int64, c.rows), Unit: make([]int32, c.rows), Units: make([]string, c.units)}
		for i := range c.rows {
			tb.Unit[i], tb.Start[i] = int32(i*c.units/c.rows), int64(i)
		}
		blocks := Blocks(tb, c.least)
		if len(blocks) != c.count {
			t.Errorf("%s: %d blocks, want %d", c.name, len(blocks), c.count)
		}
		seen := map[int32]int{}
		next := 0
		for b, rows := range blocks {
			for _, r := range rows {
				if r != next {
					t.Fatalf("%s: row %d where %d was due", c.name, r, next)
				}
				next++
				if was, ok := seen[tb.Unit[r]]; ok && was != b && c.whole {
					t.Errorf("%s: unit %d is in two blocks", c.name, tb.Unit[r])
				}
				seen[tb.Unit[r]] = b
			}
		}
		if next != c.rows {
			t.Errorf("%s: %d of %d rows are in blocks", c.name, next, c.rows)
		}
	}
}

// Every input that cannot be used is an error which names it.
func TestSelectRefuses(t *testing.T) {
	n := 120
	good := func() *Table { return table(normal(1, n), map[string][]float64{"a": normal(2, n)}) }
	for _, c := range []struct {
		name string
		make func(*Table, *Options)
		want string
	}{
		{"no rows", func(t *Table, _ *Options) { t.Start = nil }, "no rows"},
		{"no metrics", func(t *Table, _ *Options) { t.Metrics = nil }, "no metrics"},
		{"no columns", func(t *Table, _ *Options) { t.Metrics[0].Columns = nil }, `"a" has no column`},
		{"no name", func(t *Table, _ *Options) { t.Metrics[0].Name = "" }, "no name"},
		{"not UTF-8", func(t *Table, _ *Options) { t.Metrics[0].Name = "a\xff" }, "not UTF-8"},
		{"twice", func(t *Table, _ *Options) {
			t.Metrics = append(t.Metrics, t.Metrics[0])
		}, `two metrics are named "a"`},
		{"two columns", func(t *Table, _ *Options) {
			t.Metrics[0].Columns = append(t.Metrics[0].Columns, t.Metrics[0].Columns[0])
		}, "two columns"},
		{"short", func(t *Table, _ *Options) {
			t.Metrics[0].Columns[0].Values = make([]float64, 3)
		}, "3 values for 120 rows"},
		{"short response", func(t *Table, _ *Options) {
			t.Responses[0].Values = make([]float64, 3)
		}, "3 values for 120 rows"},
		{"unknown unit", func(t *Table, _ *Options) { t.Unit = make([]int32, n) }, "unit 0"},
		{"short units", func(t *Table, _ *Options) { t.Unit = make([]int32, 3) }, "units of 3 rows"},
		{"few rows", func(tb *Table, _ *Options) {
			*tb = *table(normal(1, 40), map[string][]float64{"a": normal(2, 40)})
		}, "a selection needs 48"},
		{"constant response", func(t *Table, _ *Options) {
			t.Responses[0].Values = make([]float64, n)
		}, "constant (0)"},
		{"missing response", func(t *Table, _ *Options) {
			t.Responses[0].Values = slices.Repeat([]float64{math.NaN()}, n)
		}, "no row has a value"},
		{"all constant", func(t *Table, _ *Options) {
			t.Metrics[0].Columns[0].Values = make([]float64, n)
		}, "1 constant"},
		{"all missing", func(t *Table, _ *Options) {
			t.Metrics[0].Columns[0].Values = slices.Repeat([]float64{math.NaN()}, n)
		}, "1 missing"},
		{"threshold", func(_ *Table, o *Options) { o.Threshold = 2 }, "threshold is 2"},
		{"NaN", func(_ *Table, o *Options) { o.Threshold = math.NaN() }, "threshold is NaN"},
		{"folds", func(_ *Table, o *Options) { o.Folds = 1 }, "1 folds"},
		{"coverage", func(_ *Table, o *Options) { o.Coverage = 1 }, "coverage of 1"},
		{"tolerance", func(_ *Table, o *Options) { o.Tolerance = -1 }, "tolerance is -1"},
		{"negative", func(_ *Table, o *Options) { o.Halves = -1 }, "negative"},
	} {
		tb, o := good(), Defaults()
		c.make(tb, &o)
		if _, err := Select(tb, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}
