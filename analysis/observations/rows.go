package observations

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/selection"
)

// mostCells bounds the numbers of a table in memory: 128 MB. Beyond it every second interval is left out, then every
// second of the rest, and so on: neighbours in time add the least information.
const mostCells = 16 << 20

// agentMetrics is the prefix of the names of an agent's metrics of itself. The agent always measures them.
const agentMetrics = "weir_agent_"

// observations collects rows of intervals. Their values may come in any order.
type observations struct {
	ask    *Ask
	most   int // cells
	stride int64

	units   map[string]int32
	names   []string // of the units
	at      map[rowKey]int32
	rows    []observedRow
	columns map[columnKey]*observedColumn
	torn    map[tornKey]bool
	sampled map[string]int // rows that have a metric of part of their nodes
	partial map[rowKey]bool
}

type rowKey struct {
	unit  int32
	start int64
}

type observedRow struct {
	rowKey
	length int64
}

type columnKey struct{ metric, statistic string }

// tornKey is a boundary of intervals at which a unit was not read in time.
type tornKey struct {
	unit string
	at   int64
}

// observedColumn holds the values of its first rows. The values of further rows are missing.
type observedColumn struct{ values []float64 }

func observe(a *Ask) *observations {
	return &observations{
		ask: a, most: mostCells, stride: 1, units: map[string]int32{}, at: map[rowKey]int32{},
		columns: map[columnKey]*observedColumn{}, torn: map[tornKey]bool{}, sampled: map[string]int{},
		partial: map[rowKey]bool{},
	}
}

// unit numbers a unit.
func (o *observations) unit(name string) int32 {
	n, known := o.units[name]
	if !known {
		n = int32(len(o.names)) //nolint:gosec // there are fewer than rows
		o.units[name] = n
		o.names = append(o.names, name)
	}
	return n
}

// row returns the row of an interval; false if the interval is left out.
func (o *observations) row(unit int32, start, length int64) (int32, bool) {
	if length <= 0 || start/length%o.stride != 0 {
		return 0, false
	}
	key := rowKey{unit, start}
	n, known := o.at[key]
	if !known {
		n = int32(len(o.rows)) //nolint:gosec // bounded by mostCells
		o.at[key] = n
		o.rows = append(o.rows, observedRow{key, length})
	}
	return n, true
}

// set puts a value into a row. NaN and infinities count as missing.
func (o *observations) set(row int32, metric, statistic string, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	key := columnKey{metric, statistic}
	c := o.columns[key]
	if c == nil {
		c = &observedColumn{}
		key.metric = strings.Clone(metric)
		o.columns[key] = c
	}
	for len(c.values) <= int(row) {
		c.values = append(c.values, math.NaN())
	}
	c.values[row] = v
}

// bound thins the rows if there are too many cells.
func (o *observations) bound() {
	for len(o.rows)*len(o.columns) > o.most && len(o.rows) > 1 {
		o.stride *= 2
		var kept []int
		for i := range o.rows {
			if r := &o.rows[i]; r.start/r.length%o.stride == 0 {
				kept = append(kept, i)
			}
		}
		o.keep(kept)
		maps.DeleteFunc(o.partial, func(k rowKey, _ bool) bool { _, has := o.at[k]; return !has })
	}
}

// keep leaves these rows, in their order.
func (o *observations) keep(rows []int) {
	for _, c := range o.columns {
		values := make([]float64, len(rows))
		for i, from := range rows {
			values[i] = math.NaN()
			if from < len(c.values) {
				values[i] = c.values[from]
			}
		}
		c.values = values
	}
	kept := make([]observedRow, len(rows))
	clear(o.at)
	for i, from := range rows {
		kept[i] = o.rows[from]
		o.at[kept[i].rowKey] = int32(i) //nolint:gosec // bounded by mostCells
	}
	o.rows = kept
}

// isTorn reports whether a reading at either end of a row's interval was not in time.
func (o *observations) isTorn(r *observedRow) bool {
	unit := o.names[r.unit]
	return o.torn[tornKey{unit, r.start}] || o.torn[tornKey{unit, r.start + r.length}]
}

// table makes the table: whole rows alone, by unit and time. The same records make the same table in any order.
func (o *observations) table() (*selection.Table, error) {
	partial, torn := 0, 0
	var kept []int
	for i := range o.rows {
		switch r := &o.rows[i]; {
		case o.partial[r.rowKey]:
			partial++
		case o.isTorn(r):
			torn++
		default:
			kept = append(kept, i)
		}
	}
	total := len(o.rows)
	slices.SortFunc(kept, func(a, b int) int {
		x, y := &o.rows[a], &o.rows[b]
		return cmp.Or(cmp.Compare(o.names[x.unit], o.names[y.unit]), cmp.Compare(x.start, y.start))
	})
	o.keep(kept)
	t := &selection.Table{}
	if total > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d intervals read", total))
	}
	for _, n := range []struct {
		rows int
		why  string
	}{
		{partial, "left out: nodes or shares of collectors are missing"},
		{torn, "left out: a reading was further than a tenth of the interval from its boundary"},
	} {
		if n.rows > 0 {
			t.Notes = append(t.Notes, fmt.Sprintf("%d of them %s", n.rows, n.why))
		}
	}
	if o.stride > 1 {
		t.Notes = append(t.Notes, fmt.Sprintf("every %d. interval is used, since all do not fit into memory: "+
			"--since and --jobs choose", o.stride))
	}
	if len(o.rows) == 0 {
		return nil, fmt.Errorf("%w in what was asked for%s: --since, --until and --jobs choose, and `weir jobs` "+
			"lists jobs",
			errNoRows, because(t.Notes))
	}
	o.fill(t)
	if err := o.respond(t); err != nil {
		return nil, err
	}
	lengths := make([]int64, len(o.rows))
	for i := range o.rows {
		lengths[i] = o.rows[i].length
	}
	return t, Join(t, o.ask.Given, lengths)
}

func because(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	return " (" + strings.Join(notes, "; ") + ")"
}

// fill hands the rows and columns over, in the order of their names.
func (o *observations) fill(t *selection.Table) {
	t.Start, t.Unit = make([]int64, len(o.rows)), make([]int32, len(o.rows))
	number := map[int32]int32{}
	for i := range o.rows {
		r := &o.rows[i]
		n, known := number[r.unit]
		if !known {
			n = int32(len(t.Units)) //nolint:gosec // there are fewer than rows
			number[r.unit] = n
			t.Units = append(t.Units, o.names[r.unit])
		}
		t.Start[i], t.Unit[i] = r.start, n
	}
	statistics := append(slices.Clone(o.ask.Statistics), statisticNodes)
	keys := slices.SortedFunc(maps.Keys(o.columns), func(a, b columnKey) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric),
			cmp.Compare(slices.Index(statistics, a.statistic), slices.Index(statistics, b.statistic)))
	})
	for _, k := range keys {
		if n := len(t.Metrics); n == 0 || t.Metrics[n-1].Name != k.metric {
			t.Metrics = append(t.Metrics, selection.Metric{Name: k.metric})
		}
		m := &t.Metrics[len(t.Metrics)-1]
		m.Columns = append(m.Columns, selection.Column{Statistic: k.statistic, Values: o.columns[k].values})
	}
	var part []string
	for _, name := range slices.Sorted(maps.Keys(o.sampled)) {
		if o.sampled[name]*2 > len(o.rows) && !slices.Contains(o.ask.Responses, name) {
			part = append(part, name)
		}
	}
	if len(part) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("measured on part of the nodes: %d of the metrics, such as %s",
			len(part), part[0]))
	}
}

// respond moves the responses out of the metrics. A row of a node without a response takes the response of its job: an
// application may report on one node.
func (o *observations) respond(t *selection.Table) error {
	for _, name := range o.ask.Responses {
		at := slices.IndexFunc(t.Metrics, func(m selection.Metric) bool { return m.Name == name })
		if at < 0 {
			return fmt.Errorf("%w: no row has metric %.80q: did the job report it? There are %d other metrics, "+
				"such as %s",
				errResponse, name, len(t.Metrics), t.Metrics[len(t.Metrics)/2].Name)
		}
		t.Responses = append(t.Responses, selection.Response{Name: name, Values: spread(t,
			t.Metrics[at].Columns[0].Values)})
		t.Metrics = slices.Delete(t.Metrics, at, at+1)
	}
	if len(t.Metrics) == 0 {
		return fmt.Errorf("%w: there is no metric besides the responses", errNoRows)
	}
	return nil
}

// spread fills rows without a value with the mean of the rows of the same life and interval.
func spread(t *selection.Table, values []float64) []float64 {
	type interval struct {
		life  string
		start int64
	}
	type sum struct {
		of float64
		n  int
	}
	sums := map[interval]sum{}
	for i, v := range values {
		if !math.IsNaN(v) {
			key := interval{lifeOf(t, i), t.Start[i]}
			s := sums[key]
			sums[key] = sum{s.of + v, s.n + 1}
		}
	}
	for i, v := range values {
		if s := sums[interval{lifeOf(t, i), t.Start[i]}]; math.IsNaN(v) && s.n > 0 {
			values[i] = s.of / float64(s.n)
		}
	}
	return values
}
