package selection

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// check returns an error if slices of a table differ in length, or if names cannot be written to a list.
func (t *Table) check() error {
	n := t.Rows()
	if n == 0 {
		return errors.New("the table has no rows: name an input with observations")
	}
	if len(t.Metrics) == 0 {
		return errors.New("the table has no metrics: name an input with a column for each metric")
	}
	if t.Unit != nil && len(t.Unit) != n {
		return fmt.Errorf("the table has units of %d rows and times of %d", len(t.Unit), n)
	}
	for i, u := range t.Unit {
		if u < 0 || int(u) >= len(t.Units) {
			return fmt.Errorf("row %d is of unit %d, and the table has %d units", i, u, len(t.Units))
		}
	}
	seen := make(map[string]bool, len(t.Metrics))
	for _, m := range t.Metrics {
		if err := checkName("metric", m.Name, seen); err != nil {
			return err
		}
		if len(m.Columns) == 0 {
			return fmt.Errorf("metric %q has no column", m.Name)
		}
		statistics := make(map[string]bool)
		for _, c := range m.Columns {
			if statistics[c.Statistic] {
				return fmt.Errorf("metric %q has two columns %q", m.Name, c.Statistic)
			}
			statistics[c.Statistic] = true
			if len(c.Values) != n {
				return fmt.Errorf("metric %q has %d values for %d rows", m.Name, len(c.Values), n)
			}
		}
	}
	clear(seen)
	for _, r := range t.Responses {
		if err := checkName("response", r.Name, seen); err != nil {
			return err
		}
		if len(r.Values) != n {
			return fmt.Errorf("response %q has %d values for %d rows", r.Name, len(r.Values), n)
		}
	}
	return nil
}

func checkName(what, name string, seen map[string]bool) error {
	switch {
	case name == "":
		return fmt.Errorf("a %s has no name: give each column a heading", what)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name of %s %q is not UTF-8: convert the input, for example with iconv", what, name)
	case seen[name]:
		return fmt.Errorf("two %ss are named %q: rename one", what, name)
	}
	seen[name] = true
	return nil
}

// Blocks cuts the rows of a table into contiguous stretches of time, at least least if there are enough rows. With at
// least that many units, blocks are whole units.
func Blocks(t *Table, least int) [][]int {
	if t.Rows() == 0 || least < 1 {
		return nil
	}
	rows, _ := ordered(t)
	bounds := blockBounds(unitStarts(t, rows), least, false)
	out := make([][]int, len(bounds)-1)
	for b := range out {
		out[b] = rows[bounds[b]:bounds[b+1]]
	}
	return out
}

// ordered returns the rows of t by unit and time, and the number of rows that came after a later one.
func ordered(t *Table) (rows []int, late int) {
	rows = make([]int, t.Rows())
	last := make(map[int32]int64)
	for i := range rows {
		rows[i] = i
		u := t.unit(i)
		if before, ok := last[u]; ok && t.Start[i] < before {
			late++
			continue
		}
		last[u] = t.Start[i]
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		return cmp.Or(cmp.Compare(t.unit(a), t.unit(b)), cmp.Compare(t.Start[a], t.Start[b]))
	})
	return rows, late
}

func (t *Table) unit(row int) int32 {
	if t.Unit == nil {
		return 0
	}
	return t.Unit[row]
}

// unitStarts returns the start of each unit in ordered rows, and the end of the last.
func unitStarts(t *Table, rows []int) []int {
	starts := []int{0}
	for i := 1; i < len(rows); i++ {
		if t.unit(rows[i]) != t.unit(rows[i-1]) {
			starts = append(starts, i)
		}
	}
	return append(starts, len(rows))
}

// blockBounds cuts units into blocks. With enough rows it makes twice as many as asked for, which gives the halves more
// choice.
func blockBounds(units []int, least int, joint bool) []int {
	n, count := units[len(units)-1], len(units)-1
	want := least
	if n >= 32*least {
		want = 2 * least
	}
	var bounds []int
	switch {
	case joint:
		want = least
	case count >= least:
		blocks := min(count, mostBlocks)
		for b := range blocks {
			bounds = append(bounds, units[(b*count+blocks-1)/blocks])
		}
		return append(bounds, n)
	default:
		want = (want + count - 1) / count
	}
	for u := range count {
		rows := units[u+1] - units[u]
		here := min(want, rows)
		for b := range here {
			bounds = append(bounds, units[u]+b*rows/here)
		}
	}
	return append(bounds, n)
}

func (t *Table) unitName(row int) string {
	if u := int(t.unit(row)); u < len(t.Units) {
		return t.Units[u]
	}
	return ""
}

// step returns the usual distance in time between two rows of a unit.
func (d *Design) step(t *Table) int64 { return usualStep(t, d.Rows) }

func usualStep(t *Table, rows []int) int64 {
	var steps []int64
	for i := 1; i < len(rows); i++ {
		if t.unit(rows[i]) == t.unit(rows[i-1]) {
			steps = append(steps, t.Start[rows[i]]-t.Start[rows[i-1]])
		}
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

// withoutTorn leaves out rows that follow another too soon. In such a case one of the readings was not at its boundary,
// and rates over so short a time are wild. If both readings are within a tenth of the step, at least .8 steps lie
// between them. If more than a twentieth of the rows violate this, the times are irregular by design, and only repeated
// times are left out.
func (d *Design) withoutTorn(t *Table, rows []int) []int {
	step := usualStep(t, rows)
	torn := func(limit int64) (kept []int) {
		for i, r := range rows {
			if i > 0 && t.unit(r) == t.unit(rows[i-1]) && t.Start[r]-t.Start[rows[i-1]] < limit {
				continue
			}
			kept = append(kept, r)
		}
		return kept
	}
	kept := torn(max(1, step*8/10))
	if (len(rows)-len(kept))*20 > len(rows) && step > 0 {
		kept = torn(1)
		d.Warnings = append(d.Warnings, "the rows are at irregular times: torn readings cannot be told from others")
	}
	if step == 0 { // without times every row counts
		kept = rows
	}
	d.Out.Torn = len(rows) - len(kept)
	return kept
}

// withResponse leaves out rows with a missing or wild response.
func (d *Design) withResponse(t *Table, rows []int) ([]int, error) {
	for _, r := range t.Responses {
		rows = keepRows(rows, &d.Out.NoResponse, func(row int) bool { return present(r.Values[row]) })
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row has a value of every response (%s): name responses that were measured together",
			strings.Join(d.Responses, ", "))
	}
	for _, r := range t.Responses {
		starts := unitStarts(t, rows)
		wild := make(map[int]bool)
		for u := range len(starts) - 1 {
			here := rows[starts[u]:starts[u+1]]
			values := make([]float64, len(here))
			for i, row := range here {
				values[i] = r.Values[row]
			}
			centre, scale, _ := robust(values)
			for _, row := range here {
				if scale > 0 && math.Abs(r.Values[row]-centre) > outlying*scale {
					wild[row] = true
				}
			}
		}
		rows = keepRows(rows, &d.Out.Outlying, func(row int) bool { return !wild[row] })
	}
	return rows, nil
}

func keepRows(rows []int, out *int, good func(int) bool) []int {
	kept := make([]int, 0, len(rows))
	for _, r := range rows {
		if good(r) {
			kept = append(kept, r)
		}
	}
	*out += len(rows) - len(kept)
	return kept
}

func present(v float64) bool { return math.Abs(v) <= huge } // false for NaN

// chooseUnits decides whether each job gets coefficients of its own. This needs at least two jobs with enough rows,
// which contain at least half of all rows. Shorter jobs are then left out. Otherwise all rows share coefficients.
func (d *Design) chooseUnits(t *Table, rows []int) []int {
	if len(t.Responses) == 0 || len(rows) == 0 {
		return rows
	}
	starts := unitStarts(t, rows)
	var long []int
	inLong := 0
	for u := range len(starts) - 1 {
		if n := starts[u+1] - starts[u]; n >= ownRows && varies(t, rows[starts[u]:starts[u+1]]) {
			long = append(long, u)
			inLong += n
		}
	}
	if len(long) < 2 || 2*inLong < len(rows) {
		return rows
	}
	d.Joint = true
	if len(long) > mostJoint {
		d.Warnings = append(d.Warnings,
			fmt.Sprintf("%d of %d jobs are used: those with the most rows", mostJoint, len(long)))
		slices.SortStableFunc(long, func(a, b int) int {
			return (starts[b+1] - starts[b]) - (starts[a+1] - starts[a])
		})
		long = long[:mostJoint]
		slices.Sort(long)
	}
	var kept []int
	for _, u := range long {
		kept = append(kept, rows[starts[u]:starts[u+1]]...)
	}
	d.Out.ShortUnit = len(rows) - len(kept)
	return kept
}

// varies reports whether every response varies over rows.
func varies(t *Table, rows []int) bool {
	for _, r := range t.Responses {
		low, high := math.Inf(1), math.Inf(-1)
		for _, row := range rows {
			low, high = min(low, r.Values[row]), max(high, r.Values[row])
		}
		if low == high {
			return false
		}
	}
	return true
}

// preceding returns the row one step before each row, for differences. It is -1 after a gap and at the start of a unit.
func preceding(t *Table, rows []int, step int64) []int {
	before := make([]int, len(rows))
	for i, r := range rows {
		before[i] = -1
		if i > 0 && t.unit(r) == t.unit(rows[i-1]) && 2*(t.Start[r]-t.Start[rows[i-1]]) <= 3*step {
			before[i] = rows[i-1]
		}
	}
	return before
}
