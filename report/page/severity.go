package page

import (
	"fmt"
	"html/template"
	"math"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/view"
)

// severityMap is the figure of properties over time: a strip for each rule that was evaluated.
type severityMap struct {
	Result string
	Rows   []property
	Ticks  []mark
	Bins   int
	Each   string // the length of a bin
}

// property is a row of the map.
type property struct {
	Rule, Title, Worst, Mean, Class string
	Strip                           template.HTML
}

// mark is a label of the axis of time, at a percentage of its width.
type mark struct {
	Percent float64
	Text    string
	End     bool // the label ends there, so that it stays on the page
}

const stripW = 1000.0

func newSeverityMap(j *view.Job) severityMap {
	var s severityMap
	bad, evaluated := 0, 0
	x := timeOf(j, 0, stripW)
	for i := range j.Map {
		p := &j.Map[i]
		if math.IsNaN(p.Max) || len(p.Worst) == 0 || !anyNumber(p.Worst) {
			continue
		}
		if evaluated++; p.Max > 0 {
			bad++
		}
		s.Bins = len(p.Worst)
		s.Rows = append(s.Rows, property{
			Rule: p.Rule, Title: p.Title, Worst: two(p.Max), Mean: two(p.Mean), Class: severityClass(p.Max),
			Strip: strip(j, p, fmt.Sprintf("map%d", i), x),
		})
	}
	switch {
	case evaluated == 0:
		s.Result = "No property was evaluated."
	case bad == 0:
		s.Result = fmt.Sprintf("None of %d properties appears.", evaluated)
	default:
		s.Result = fmt.Sprintf("%d of %d properties %s. Worst: %s, with a mean severity of %s.",
			bad, evaluated, plural(bad, "appears", "appear"), s.Rows[0].Title, s.Rows[0].Mean)
	}
	for _, t := range x.Ticks(7) {
		s.Ticks = append(s.Ticks, mark{Percent: t.At / stripW * 100, Text: t.Text, End: t.At > stripW*0.93})
	}
	if s.Bins > 0 {
		s.Each = each(binMs(j, s.Bins))
	}
	return s
}

func strip(j *view.Job, p *view.Property, id string, x chart.Scale) template.HTML {
	f := chart.Figure{
		ID: id, W: stripW, H: 10, Strip: true, Title: p.Title + " over time",
		Desc: fmt.Sprintf("Severity is at worst %s, and %s in the mean.", two(p.Max), two(p.Mean)),
	}
	f.Cells(edges(j, len(p.Worst), x), []float64{0, 10}, func(i, _ int) (class, title string) {
		return severityClass(p.Worst[i]), ""
	})
	return f.SVG()
}

// each writes the width of a column in time. In a long job it may not be a whole number of hours.
func each(ms int64) string {
	if ms >= 2*3600e3 && ms%3600e3 != 0 {
		return roughly(ms)
	}
	return length(ms)
}

// binMs returns the length of each of n bins of the job.
func binMs(j *view.Job, n int) int64 {
	for i := range j.Metrics {
		if bins := j.Metrics[i].Bins; len(bins) == n {
			return bins[0].EndMs - bins[0].StartMs
		}
	}
	from, until := j.Drawn()
	return (until - from) / int64(n)
}

// edges returns the positions of n bins of the job. They are taken from a metric with as many bins if there is one,
// since the last bin may be shorter.
func edges(j *view.Job, n int, x chart.Scale) []float64 {
	for i := range j.Metrics {
		if c := columnsOf(j.Metrics[i].Bins, x); len(j.Metrics[i].Bins) == n && len(c.xs) == n+1 {
			return c.xs
		}
	}
	xs := make([]float64, n+1)
	from, until := j.Drawn()
	for i := range xs {
		xs[i] = x.At(float64(from) + float64(until-from)*float64(i)/float64(n))
	}
	return xs
}

// severityClass returns the class of a cell. It is empty if the rule was not evaluated, so that the hatched ground
// shows.
func severityClass(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v <= 0:
		return "sev0"
	case v < 1.0/3:
		return "sev1"
	case v < 2.0/3:
		return "sev2"
	}
	return "sev3"
}

func anyNumber(vs []float64) bool {
	for _, v := range vs {
		if !math.IsNaN(v) {
			return true
		}
	}
	return false
}

// two writes a severity with two digits. A small severity is never written as 0.
func two(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v > 0 && v < 0.005:
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", v)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
