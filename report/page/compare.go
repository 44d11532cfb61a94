package page

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/compare"
	"github.com/weirhpc/weir/report/view"
)

// compareDocument is the data of the template for two jobs.
type compareDocument struct {
	Style        template.CSS
	Now, Version string
	Title, Lead  string
	Names        [2]string
	Asked, Used  []sideRow
	Reasons      []string
	Caveats      []string
	Changes      []changeFigure
	Slight       string
	Alike        string
	Only         []string
	Notes        []note
	NoFinding    string
}

// sideRow is a fact with a value for each job.
type sideRow struct {
	Name    string
	Text    [2]string
	Differs bool
}

// changeFigure is a metric that changed: the deciles of both jobs.
type changeFigure struct {
	Name, What, Result string
	Figure             template.HTML
	Rows               []decileRow
}

// decileRow is a decile of both jobs, with bounds if it has any.
type decileRow struct{ Name, A, B string }

// Compared writes the page of two jobs side by side.
func Compared(w io.Writer, c *compare.Comparison, o Options) error {
	names := c.Names()
	d := compareDocument{
		Style: template.CSS(style), Now: o.Now.UTC().Format("2006-01-02 15:04"), Version: o.Version, Names: names,
		Title: "Jobs " + names[0] + " and " + names[1], Lead: comparedLead(c), Asked: sideRows(c.Asked),
		Used: sideRows(c.Used), Reasons: c.Reasons, Caveats: c.Caveats, Notes: notesOfTwo(c, names),
	}
	if len(c.Found) == 0 {
		d.NoFinding = "Neither job has a finding."
	}
	if c.Comparable() {
		for i, m := range c.Changes() {
			d.Changes = append(d.Changes, newChangeFigure(&m, names, fmt.Sprintf("change%d", i)))
		}
		d.Slight, d.Alike = metricNames(c.Slight()), metricNames(c.Alike())
		for i, of := range c.Only {
			if len(of) > 0 {
				d.Only = append(d.Only, "Only in "+names[i]+": "+strings.Join(of, ", ")+".")
			}
		}
	}
	return write(w, "compare.html", &d)
}

func comparedLead(c *compare.Comparison) string {
	kinds := map[string]int64{}
	for _, f := range c.Found {
		kinds[f.Kind]++
	}
	found := fmt.Sprintf(" %s appeared, and %d went away.", count(kinds[compare.Appeared], "finding"),
		kinds[compare.Gone])
	if !c.Comparable() {
		return "The metrics of these jobs are not comparable." + found
	}
	changes := c.Changes()
	if len(changes) == 0 {
		return "No metric changed." + found
	}
	return fmt.Sprintf("%s changed, %s most: %s.", count(int64(len(changes)), "metric"), changes[0].Name,
		changeWords(&changes[0])) + found
}

func sideRows(facts []compare.Fact) (rows []sideRow) {
	for i := range facts {
		f := &facts[i]
		rows = append(rows, sideRow{f.Name, [2]string{sideText(f, 0), sideText(f, 1)}, f.Differs()})
	}
	return rows
}

func sideText(f *compare.Fact, i int) string {
	if f.Unit == compare.UnitText {
		return cmp.Or(f.Text[i], "unknown")
	}
	if f.Value[i] == nil {
		return "unknown"
	}
	switch v := *f.Value[i]; f.Unit {
	case compare.UnitNumber:
		return whole(v)
	case compare.UnitSeconds:
		return span(int64(1000 * v))
	case compare.UnitShare:
		return percent(v)
	case compare.UnitJoules:
		return unitText("", "Wh", v/3600)
	case compare.UnitBytes:
		return unitText("", "B", v)
	default:
		return hours(v)
	}
}

// hours writes core-hours or GPU-hours.
func hours(v float64) string {
	if v != 0 && math.Abs(v) < 9.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return whole(v)
}

func metricNames(of []compare.Metric) string {
	var names []string
	for i := range of {
		names = append(names, of[i].Name)
	}
	return strings.Join(names, ", ")
}

// changeWords writes both values of a change.
func changeWords(m *compare.Metric) string {
	at := "mean"
	switch m.At {
	case compare.Mean:
	case 5:
		at = "median"
	default:
		at = fmt.Sprintf("d%d", m.At)
	}
	v := m.Value()
	return fmt.Sprintf("%s %s → %s", at, unitText(m.Name, m.Unit, v[0]), unitText(m.Name, m.Unit, v[1]))
}

func newChangeFigure(m *compare.Metric, names [2]string, id string) changeFigure {
	f := changeFigure{
		Name: m.Name, What: what(&view.Metric{Name: m.Name, Unit: m.Unit, Scope: m.Scope}), Result: changeWords(m),
	}
	f.Figure = drawChange(m, names, id, f.Result)
	text := func(t int, k int) string {
		of := m.Totals[t]
		show := func(v float64) string { return unitText(m.Name, m.Unit, v) }
		if of.Exact || of.Lo[k] == of.Hi[k] {
			return show(of.D[k])
		}
		return fmt.Sprintf("%s (%s to %s)", show(of.D[k]), show(of.Lo[k]), show(of.Hi[k]))
	}
	for k, name := range []string{"min", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "max"} {
		f.Rows = append(f.Rows, decileRow{name, text(0, k), text(1, k)})
	}
	f.Rows = append(f.Rows, decileRow{
		"mean", unitText(m.Name, m.Unit, m.Totals[0].Mean), unitText(m.Name, m.Unit, m.Totals[1].Mean),
	})
	return f
}

// drawChange draws a bar for each job: its deciles in the bands of a fan, and its mean as a dot.
func drawChange(m *compare.Metric, names [2]string, id, result string) template.HTML {
	const left, right, top, step, height = 76.0, 386.0, 8.0, 34.0, 22.0
	low, high := 0.0, 1.0
	if !m.Share() {
		low, high = math.Inf(1), math.Inf(-1)
		for _, t := range m.Totals {
			for _, v := range append(slices.Clone(t.D[:]), t.Mean) {
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					low, high = min(low, v), max(high, v)
				}
			}
		}
		if low = min(low, 0); !(high > low) {
			high = low + 1
		}
	}
	by, unit := unitFor(m.Name, m.Unit, high)
	x := chart.Linear(low, high, left, right).As(func(v float64) string { return digits(v / by) })
	fig := chart.Figure{ID: id, Title: m.Name + " of both jobs", Desc: result, W: 400, H: top + 2*step + 36}
	for i, t := range m.Totals {
		y := top + step*float64(i)
		fig.Text(left-6, y+height/2+4, "tick end", shorten(names[i], 11))
		for k, class := range []string{"fan0", "fan1", "", "fan2"} {
			if class != "" {
				fig.Band([]float64{x.At(t.D[k]), x.At(t.D[10-k])}, []float64{y + height}, []float64{y}, class)
			}
		}
		if v := x.At(t.D[5]); !math.IsNaN(v) {
			fig.Line([]float64{v, v}, []float64{y - 2, y + height + 2}, "mid")
		}
		fig.Points([]chart.Point{{X: x.At(t.Mean), Y: y + height/2, R: 3, Class: "t3", Title: "mean"}})
	}
	fig.Across(x, top+2*step, unit)
	return fig.SVG()
}

// notesOfTwo are the findings of both jobs, those first that changed.
func notesOfTwo(c *compare.Comparison, names [2]string) (all []note) {
	for i := range c.Found {
		f := &c.Found[i]
		of := f.Finding()
		n := note{Class: of.Class, Title: of.Title, Rule: of.Rule, Hint: of.Hint, Slurm: of.Slurm}
		switch f.Kind {
		case compare.Appeared:
			n.How = "Appeared: only " + names[1] + " has it"
		case compare.Gone:
			n.How = "Gone: only " + names[0] + " has it"
			n.Hint, n.Slurm = "", ""
		case compare.Stays:
			n.How = fmt.Sprintf("Stays: %s has it with severity %s, and %s with %s", names[0], two(f.Of[0].Severity),
				names[1], two(f.Of[1].Severity))
		default:
			n.How = "Not known for both: " + f.Why
		}
		all = append(all, n)
	}
	return all
}
