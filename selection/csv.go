package selection

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Columns of a CSV that are not metrics.
var (
	timeColumns = []string{"t", "time", "interval_start", "timestamp"}
	// unitColumns name the job or the node of a row.
	unitColumns = []string{"job_id", "restart", "node"}
	// orderColumn numbers stretches of time. As a metric it would explain every trend.
	orderColumn = "chunk"
)

// maxCells bounds a table: 800 MB of numbers.
const maxCells = 100_000_000

// ErrCSV is wrapped by every error about the content of a CSV.
var ErrCSV = errors.New("not a table of observations")

// ReadCSV reads a table: a line of names, then a line for each row. A column is a metric unless it is the time, a unit
// or a response. An empty or non-numeric cell is missing. Notes counts everything left out or changed.
func ReadCSV(from io.Reader, responses []string) (*Table, error) {
	s, err := openSheet(from)
	if err != nil {
		return nil, err
	}
	p := csvTable{sheet: s, timeAt: -1, unitAt: map[string]int{}}
	if err := p.header(responses); err != nil {
		return nil, err
	}
	return p.read()
}

// read reads the lines below the names.
func (p *csvTable) read() (*Table, error) {
	for {
		cells, err := p.next()
		if errors.Is(err, io.EOF) {
			return p.table()
		}
		if err == nil {
			err = p.row(cells)
		}
		if err != nil {
			return nil, err
		}
	}
}

// csvTable collects the columns of a table.
type csvTable struct {
	*sheet
	timeAt  int // index of the column of the time; -1: none, and rows are a second apart
	unitAt  map[string]int
	columns []csvColumn
	times   []float64 // seconds or milliseconds, as they stand
	dated   int       // times that are dates, in milliseconds
	unit    []int32
	units   []string
	index   map[string]int32
	untimed int
	notes   []string
}

// csvColumn is the state of a column during reading.
type csvColumn struct {
	name     string
	at       int
	response bool
	values   []float64
	present  int    // non-empty cells
	texts    int    // of these, not a number
	infinite int    // of these, not finite
	first    string // place of the first text
}

// header classifies the columns by their names.
func (p *csvTable) header(responses []string) error {
	seen := map[string]int{}
	unnamed, foreign := 0, 0
	for i, name := range p.names {
		if !utf8.ValidString(name) {
			foreign++
			name = escapeBytes(name)
		}
		if name == "" {
			unnamed++
			continue
		}
		if before, twice := seen[name]; twice {
			return fmt.Errorf("%w: columns %d and %d are both called %.80q: rename one", ErrCSV, before+1, i+1, name)
		}
		seen[name] = i
		switch response := slices.Contains(responses, name); {
		case response:
			p.columns = append(p.columns, csvColumn{name: name, at: i, response: true})
		case p.timeAt < 0 && slices.Contains(timeColumns, name):
			p.timeAt = i
		case name == "job_id" || name == "node":
			p.unitAt[name] = i
		case name == orderColumn:
			p.note("column %s is left out: it numbers stretches of time", orderColumn)
		default:
			p.columns = append(p.columns, csvColumn{name: name, at: i})
		}
	}
	if _, jobs := p.unitAt["job_id"]; jobs { // without job_id, restart is a metric like any other
		p.columns = slices.DeleteFunc(p.columns, func(c csvColumn) bool {
			if c.name == "restart" && !c.response {
				p.unitAt[c.name] = c.at
			}
			return c.name == "restart" && !c.response
		})
	}
	if unnamed > 0 {
		p.note("%s without a name left out", counted(unnamed, "column"))
	}
	if foreign > 0 {
		p.note(`%s not in UTF-8: bytes are written as \xE9`, counted(foreign, "name"))
	}
	return p.checkHeader(responses)
}

// checkHeader returns an error if an indispensable column is missing.
func (p *csvTable) checkHeader(responses []string) error {
	metrics, numbers := 0, 0
	for _, c := range p.columns {
		if !c.response {
			metrics++
		}
		if _, err := strconv.ParseFloat(c.name, 64); err == nil {
			numbers++
		}
	}
	if numbers > 0 && numbers == len(p.columns) {
		return fmt.Errorf("%w: the first line has numbers: it must have the names of the columns", ErrCSV)
	}
	for _, name := range responses {
		if !slices.ContainsFunc(p.columns, func(c csvColumn) bool { return c.name == name }) {
			return fmt.Errorf("%w: no column is called %.80q, as the response is: there are "+
				"%s", ErrCSV, name, someOf(p.names))
		}
	}
	if metrics == 0 {
		return fmt.Errorf("%w: no column is a metric: there are %s", ErrCSV, someOf(p.names))
	}
	return nil
}

// row adds a line.
func (p *csvTable) row(cells []string) error {
	if (len(p.times)+1)*len(p.columns) > maxCells {
		return fmt.Errorf("%w: line %d: more than %d cells: split the file, or leave out columns", ErrCSV, p.line,
			maxCells)
	}
	at := float64(len(p.times) + p.untimed)
	if p.timeAt >= 0 {
		var ok, dated bool
		if at, dated, ok = p.time(cells[p.timeAt]); !ok {
			p.untimed++
			return nil
		}
		if dated {
			p.dated++
		}
	}
	p.times = append(p.times, at)
	if len(p.unitAt) > 0 {
		p.unit = append(p.unit, p.unitOf(cells))
	}
	for i := range p.columns {
		c := &p.columns[i]
		v, state := p.number(cells[c.at])
		switch state {
		case cellText:
			if c.texts == 0 {
				c.first = fmt.Sprintf("line %d: %.40q", p.line, cells[c.at])
			}
			c.texts++
			c.present++
		case cellInfinite:
			c.infinite++
			c.present++
		case cellNumber:
			c.present++
		}
		c.values = append(c.values, v)
	}
	return nil
}

// unitOf returns the number of the job or node of a line.
func (p *csvTable) unitOf(cells []string) int32 {
	label := func(name string) string {
		if at, is := p.unitAt[name]; is {
			return strings.TrimSpace(cells[at])
		}
		return ""
	}
	text := UnitName(label("job_id"), label("restart"), label("node"))
	if p.index == nil {
		p.index = map[string]int32{}
	}
	n, known := p.index[text]
	if !known {
		text = strings.Clone(text)
		n = int32(len(p.units)) //nolint:gosec // there are fewer than lines
		p.index[text] = n
		p.units = append(p.units, text)
	}
	return n
}

// UnitName names the unit of a row: a life of a job, a node of it, or a node. Unknown parts are empty.
func UnitName(job, restart, node string) string {
	if job == "" {
		return node
	}
	name := job + "/" + cmp.Or(restart, "0")
	if node != "" {
		name += " " + node
	}
	return name
}

// table makes a table of the columns with numbers.
func (p *csvTable) table() (*Table, error) {
	n := len(p.times)
	if n == 0 {
		return nil, fmt.Errorf("%w: no row has values%s", ErrCSV, p.whyNone())
	}
	if err := p.ambiguous(); err != nil {
		return nil, err
	}
	start, err := p.starts()
	if err != nil {
		return nil, err
	}
	t := &Table{Start: start, Unit: p.unit, Units: p.units}
	texts, infinite, first := 0, 0, ""
	var words []string
	for i := range p.columns {
		c := &p.columns[i]
		if c.texts*2 > c.present { // names and states are not measurements
			if c.response {
				return nil, fmt.Errorf("%w: the response %.80q is no number at %s", ErrCSV, c.name, c.first)
			}
			words = append(words, c.name)
			continue
		}
		texts, infinite = texts+c.texts, infinite+c.infinite
		if first == "" && c.first != "" {
			first = fmt.Sprintf("column %.80q, %s", c.name, c.first)
		}
		if c.response {
			t.Responses = append(t.Responses, Response{Name: c.name, Values: c.values})
			continue
		}
		t.Metrics = append(t.Metrics, Metric{Name: c.name, Columns: []Column{{Values: c.values}}})
	}
	if len(t.Metrics) == 0 && len(words) > 0 {
		return nil, fmt.Errorf("%w: no column has numbers: %s", ErrCSV, someOf(words))
	}
	if len(words) > 0 {
		p.note("%s of text left out: %s", counted(len(words), "column"), someOf(words))
	}
	if texts > 0 {
		p.note("%s no number, and so missing; the first is in %s", counted(texts, "cell"), first)
	}
	if infinite > 0 {
		p.note("%s not finite, and so missing", counted(infinite, "cell"))
	}
	if p.untimed > 0 {
		p.note("%s without a time left out", counted(p.untimed, "row"))
	}
	p.inOrder(t)
	t.Notes = append(p.sheet.notes(), p.notes...)
	return t, nil
}

func (p *csvTable) whyNone() string {
	if p.untimed > 0 {
		return fmt.Sprintf(": %s no time in column %.80q: write Unix seconds, milliseconds or RFC 3339",
			counted(p.untimed, "row has", "rows have"), p.names[p.timeAt])
	}
	return ": there is none below the names"
}

// sort orders the rows by unit and time. Rows of the same time keep their order.
func (t *Table) sort() {
	rows, _ := ordered(t)
	t.pick(rows)
}

// pick keeps only the given rows, in their order.
func (t *Table) pick(rows []int) {
	t.Start = pick(t.Start, rows)
	if t.Unit != nil {
		t.Unit = pick(t.Unit, rows)
	}
	for _, m := range t.Metrics {
		for i := range m.Columns {
			m.Columns[i].Values = pick(m.Columns[i].Values, rows)
		}
	}
	for i := range t.Responses {
		t.Responses[i].Values = pick(t.Responses[i].Values, rows)
	}
}

// Between keeps the rows in [from, to). A zero time is no bound.
func (t *Table) Between(from, to time.Time) {
	var rows []int
	for i, at := range t.Start {
		if (from.IsZero() || at >= from.UnixMilli()) && (to.IsZero() || at < to.UnixMilli()) {
			rows = append(rows, i)
		}
	}
	t.pick(rows)
}

// pick returns the values at the given indices.
func pick[T any](values []T, order []int) []T {
	picked := make([]T, len(order))
	for i, from := range order {
		picked[i] = values[from]
	}
	return picked
}

func (p *csvTable) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// counted returns a number with its noun, such as "1 row" and "2 rows". Irregular plurals are passed as a second form.
func counted(n int, forms ...string) string {
	word := forms[0]
	if n != 1 {
		if len(forms) > 1 {
			word = forms[1]
		} else {
			word += "s"
		}
	}
	return strconv.Itoa(n) + " " + word
}

// someOf lists names, and counts the rest if there are many.
func someOf(names []string) string {
	const most = 12
	var b strings.Builder
	for i, n := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.80s", escapeBytes(n))
	}
	return b.String()
}

// escapeBytes replaces each byte that is not UTF-8 by an escape such as \xE9.
func escapeBytes(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02X`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}
