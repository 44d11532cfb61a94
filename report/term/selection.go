package term

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/selection"
)

// Selection writes the metrics worth measuring, the representatives of all others, and the saving.
func Selection(w io.Writer, r *selection.Report, s Style) error {
	t := &text{Style: s}
	t.selected(r)
	t.scores(r)
	t.kept(r)
	t.curve(r)
	t.costs(r)
	t.frontier(r)
	t.dropped(r)
	t.left(r)
	t.remarks("Warnings", r.Warnings)
	t.remarks("Rows and columns", r.Notes)
	return t.print(w)
}

// selected writes the answer, in a few lines.
func (t *text) selected(r *selection.Report) {
	tiers := map[string]int{}
	for _, k := range r.Kept {
		tiers[k.Tier]++
	}
	of := strings.Join(r.Responses, ", ")
	var head string
	switch {
	case len(r.Responses) == 0:
		head = fmt.Sprintf("%d of %s stand for the others", len(r.Kept), plural(int64(r.Metrics), "metric", "metrics"))
	case r.Predictable:
		head = fmt.Sprintf("%d of %s explain "+
			"%s", tiers[selection.TierResponse], plural(int64(r.Metrics), "metric", "metrics"), of)
	default:
		head = "These metrics do not predict " + of + ": nothing is dropped"
	}
	t.line(t.paint(bold, t.clean(head, t.cells())))
	words := fmt.Sprintf("From %s: %s in "+
		"%s", r.From, plural(int64(r.Rows), "row", "rows"), plural(int64(r.Blocks), "block", "blocks"))
	if r.Units > 1 {
		words += fmt.Sprintf(" of %d jobs or nodes", r.Units)
		if r.Joint {
			words += ", each with coefficients of its own"
		}
	}
	words += fmt.Sprintf("; %s seen. Method %s, model %s, threshold %g, seed "+
		"%d", plural(int64(r.Regimes), "regime", "regimes"),
		r.Method, r.Model, r.Threshold, r.Seed)
	if r.Scale != "" {
		words += ", scale " + r.Scale
	}
	t.paragraph(words + ".")
	if r.Predictable || len(r.Responses) == 0 {
		t.paragraph(fmt.Sprintf("Kept: %d for the response, %d for coverage, %d in use. Dropped: %d. Not judged "+
			"or constant: "+
			"%d. Reduction degree %.2f.", tiers[selection.TierResponse], tiers[selection.TierCoverage],
			tiers[selection.TierInUse], len(r.Dropped), len(r.Left), r.Reduction))
	}
	if len(r.Responses) > 0 {
		t.paragraph(fmt.Sprintf("Guard: the best held-out R² of circular shifts of the response is %s.",
			r2(r.Shifted)))
	}
}

// paragraph adds wrapped words.
func (t *text) paragraph(words string) { t.lines(wrap(t.clean(words, 10*longest), t.cells())) }

// section adds a heading after an empty line.
func (t *text) section(head string) {
	t.line()
	t.line(t.paint(bold, head))
}

// r2 writes a share of the variance. Far below 0, its size means nothing.
func r2(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v < -9.995:
		return "< -10"
	}
	return fmt.Sprintf("%.2f", v)
}

// scores compares the selection with other ways to choose.
func (t *text) scores(r *selection.Report) {
	if len(r.Responses) == 0 {
		return
	}
	t.section("R² of the response")
	rows := [][]string{{"METHOD", "METRICS", "IN-SAMPLE", "ADJUSTED", "HELD-OUT", "RANGE"}}
	row := func(method string, n int, s selection.Score) {
		rows = append(rows, []string{
			method, fmt.Sprint(n), r2(s.InSample), r2(s.Adjusted), r2(s.HeldOut), r2(s.Low) + " to " + r2(s.High),
		})
	}
	n := 0
	for _, k := range r.Kept {
		if k.Tier == selection.TierResponse {
			n++
		}
	}
	row(r.Method, n, r.Score)
	for _, e := range r.Each {
		row("  "+e.Response, n, e.Score)
	}
	var refused []string
	for _, v := range r.Rivals {
		if v.Refused != "" {
			refused = append(refused, v.Method+": "+v.Refused)
			continue
		}
		row(v.Method, v.Metrics, v.Score)
	}
	t.table(rows, "lrrrrl")
	for _, why := range refused {
		t.paragraph(why)
	}
}

// kept lists the kept metrics with the reasons.
func (t *text) kept(r *selection.Report) {
	if len(r.Kept) == 0 {
		return
	}
	t.section(fmt.Sprintf("Kept (%d)", len(r.Kept)))
	tier := func(name string) (of []selection.Chosen) {
		for _, k := range r.Kept {
			if k.Tier == name {
				of = append(of, k)
			}
		}
		return of
	}
	if of := tier(selection.TierResponse); len(of) > 0 {
		rows := [][]string{{"FOR THE RESPONSE", "SOURCE", "GAIN", "F", "CHOSEN"}}
		for _, k := range of {
			rows = append(rows, []string{
				k.Name, orDash(k.Source), r2(k.Gain), fmt.Sprintf("%.4g", k.F),
				percent(k.Frequency),
			})
		}
		t.table(rows, "llrrr")
		t.paragraph("GAIN is the R² that it added. CHOSEN is how often halves of the blocks chose it, or a metric " +
			"that it " +
			"stands for.")
	}
	if of := tier(selection.TierCoverage); len(of) > 0 {
		var names []string
		for _, k := range of {
			names = append(names, k.Name)
		}
		t.names(fmt.Sprintf("For coverage, R² %g (%d): ", r.Coverage, len(of)), names)
	}
	if len(r.InUse) > 0 {
		t.paragraph(fmt.Sprintf("In use (%d):", len(r.InUse)))
		for _, name := range slices.Sorted(maps.Keys(r.InUse)) {
			head := "  " + t.clean(name, 40) + ": "
			t.hanging(head, width(head), 4, t.clean(strings.Join(r.InUse[name], ", "), 10*longest))
		}
	}
}

// names lists names behind a head. Each is whole: a line is as long as its longest name.
func (t *text) names(head string, names []string) {
	cleaned := make([]string, len(names))
	for i, n := range names {
		cleaned[i] = strings.ReplaceAll(t.clean(n, longest), " ", "_")
	}
	t.hanging(head, width(head), 2, strings.Join(cleaned, " "))
}

// curve writes R² against the number of metrics.
func (t *text) curve(r *selection.Report) {
	if len(r.Curve) == 0 {
		return
	}
	t.section("Held-out R² against the number of metrics")
	var parts []string
	for _, p := range r.Curve {
		parts = append(parts, fmt.Sprintf("%d: %s", p.Count, r2(p.HeldOut)))
	}
	t.lines(flow(parts, "   ", t.cells()))
}

// costs writes the saving by source.
func (t *text) costs(r *selection.Report) {
	if len(r.Dropped) == 0 && r.Cost == nil {
		return
	}
	t.section("What is saved")
	c := r.Cost
	if c == nil || len(c.Sources) == 0 {
		t.paragraph("Not known: no metric is of weir's catalogue, so no source of it is read.")
		return
	}
	t.paragraph(c.Measured)
	rows := [][]string{{"SOURCE", "CPU_US", "METRICS", "KEPT", "SAVED"}}
	for _, s := range c.Sources {
		us, saved := "-", "no: still read"
		if s.Known {
			us = fmt.Sprintf("%.1f", s.CPU)
		}
		if len(s.Kept) == 0 {
			saved = "yes"
		}
		rows = append(rows, []string{s.Source, us, fmt.Sprint(s.Metrics), fmt.Sprint(len(s.Kept)), saved})
	}
	t.table(rows, "lrrrl")
	t.paragraph(fmt.Sprintf("A reading of these sources: %.1f µs before, %.1f µs after.", c.Before, c.After))
	if c.BytesBefore > 0 {
		t.paragraph(fmt.Sprintf("A record of this host before compression: %d bytes before, %d bytes "+
			"after.", c.BytesBefore,
			c.BytesAfter))
	}
}

// frontier writes the cost of doing without whole sources. It has no influence on the selection.
func (t *text) frontier(r *selection.Report) {
	if len(r.Frontier) < 2 {
		return
	}
	t.section("Without whole sources (for the response alone; nothing is chosen here)")
	rows := [][]string{{"WITHOUT", "METRICS", "HELD-OUT", "CPU_US"}}
	for _, f := range r.Frontier {
		us := "-"
		if f.CPU > 0 {
			us = fmt.Sprintf("%.1f", f.CPU)
		}
		rows = append(rows, []string{orDash(strings.Join(f.Without, " ")), fmt.Sprint(f.Metrics), r2(f.HeldOut), us})
	}
	t.table(rows, "lrrr")
}

// dropped lists the dropped metrics with their representatives.
func (t *text) dropped(r *selection.Report) {
	if len(r.Dropped) == 0 {
		return
	}
	t.section(fmt.Sprintf("Dropped (%d), the least represented first", len(r.Dropped)))
	all := slices.Clone(r.Dropped)
	slices.SortStableFunc(all, func(a, b selection.Dropped) int {
		switch {
		case a.R2 < b.R2:
			return -1
		case a.R2 > b.R2:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	rows := [][]string{{"METRIC", "REPRESENTED BY", "R", "HELD-OUT R²"}}
	for _, d := range all {
		corr := "-"
		if d.Representative != "" {
			corr = fmt.Sprintf("%.2f", d.R)
		}
		rows = append(rows, []string{d.Name, cmp.Or(d.Representative, "nothing"), corr, r2(d.R2)})
	}
	t.table(rows, "llrr")
	t.paragraph("R is the correlation with the representative. R² is of the metric from all that are kept, on " +
		"blocks of " +
		"rows that were not used for it.")
}

// left lists the metrics that took no part, by reason.
func (t *text) left(r *selection.Report) {
	if len(r.Left) == 0 {
		return
	}
	t.section(fmt.Sprintf("Took no part (%d)", len(r.Left)))
	by := map[string][]string{}
	for _, l := range r.Left {
		by[l.Reason] = append(by[l.Reason], l.Name)
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		head := t.clean(reason, 40) + ": "
		t.names(head, by[reason])
	}
}

// remarks lists sentences.
func (t *text) remarks(head string, all []string) {
	if len(all) == 0 {
		return
	}
	t.section(head)
	for _, one := range all {
		t.hanging("- ", 2, 2, t.clean(one, 10*longest))
	}
}

// table writes rows below a line of heads: l aligns a column to the left, r to the right. A narrow terminal shows
// shorter names.
func (t *text) table(rows [][]string, align string) {
	columns := make([]column, len(align))
	for i := range columns {
		c := &columns[i]
		c.head, c.right = rows[0][i], align[i] == 'r'
		if !c.right {
			c.least = leastName
		}
		for _, r := range rows[1:] {
			c.cells = append(c.cells, t.clean(r[i], longest))
		}
	}
	t.grid(columns)
}

// leastName is the width down to which a column of names is cut.
const leastName = 8
