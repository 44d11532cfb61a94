package term

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// Rules writes a line for each rule: whether it holds for a job, and why it was not evaluated.
func Rules(w io.Writer, j *view.Job, all []rules.Rule, s Style) error {
	t := &text{Style: s}
	named := 4
	for i := range all {
		named = max(named, width(t.clean(all[i].ID, 40)))
	}
	t.line(left("RULE", named), "  ", "RESULT")
	for i := range all {
		words, color := t.result(j, &all[i], all)
		name := left(t.clean(all[i].ID, 40), named)
		t.hanging(t.paint(color, name)+"  ", named+2, named+2, words)
	}
	return t.print(w)
}

// result describes the result of a rule for a job.
func (t *text) result(j *view.Job, r *rules.Rule, all []rules.Rule) (words, color string) {
	for i := range j.Findings {
		f := &j.Findings[i]
		if f.Rule != r.ID {
			continue
		}
		words = fmt.Sprintf("%s, in %s of %s", t.clean(f.Class, 4), shareOf(f), plural(f.Evaluated, "check", "checks"))
		if f.State == schemas.FindingClosed {
			return "no more: " + words + ", until " + hour(f.LastInterval+f.IntervalMs, j.UntilMs) + " UTC", ""
		}
		return words, colorOf(f.Class)
	}
	at := slices.IndexFunc(j.NotEvaluated, func(n rules.Reason) bool { return n.Rule == r.ID })
	if at >= 0 {
		return "not evaluated: " + t.clean(j.NotEvaluated[at].Why, 300), ""
	}
	for i := range all {
		if slices.Contains(all[i].Silences, r.ID) && finding(j, all[i].ID) != nil {
			return "left out, since " + t.clean(all[i].ID, 40) + " holds", ""
		}
	}
	return "does not hold", ""
}

// shareOf returns the share of evaluations in which a rule held.
func shareOf(f *schemas.Finding) string {
	if f.Evaluated == 0 {
		return "-"
	}
	return percent(float64(f.Matched) / float64(f.Evaluated))
}

// Findings writes each finding of a job in full.
func Findings(w io.Writer, j *view.Job, s Style) error {
	t := &text{Style: s}
	if len(j.Findings) == 0 {
		t.line("No finding.")
	}
	for i := range j.Findings {
		f := &j.Findings[i]
		if i > 0 {
			t.line()
		}
		t.detail(j, f)
	}
	t.footer(j)
	return t.print(w)
}

func (t *text) detail(j *view.Job, f *schemas.Finding) {
	rule := t.clean(f.Rule, 40)
	t.hanging(t.paint(colorOf(f.Class), left(t.clean(f.Class, 4), 4))+" "+rule+"  ", 7+width(rule), 5,
		t.clean(f.Title, 200))
	words := []string{fmt.Sprintf("It held in %s of %s, from %s to %s UTC.", shareOf(f),
		plural(f.Evaluated, "check", "checks"), moment(f.FirstInterval),
		hour(f.LastInterval+f.IntervalMs, f.FirstInterval))}
	if f.State == schemas.FindingClosed {
		words = append(words, "It holds no more.")
	}
	if f.Certainty == schemas.Possible {
		words = append(words, "It is possible: the bounds of the deciles do not prove it.")
	}
	words = append(words, fmt.Sprintf("Its severity was %s of 1 on average, and %s at worst.", threeDigits(f.Severity),
		threeDigits(f.Worst)))
	if f.Hint != "" {
		t.hanging("     ", 5, 5, t.clean(f.Hint, 1000))
	}
	if f.Slurm != "" {
		t.line("     ", t.clean(f.Slurm, 1000))
	}
	t.hanging("     ", 5, 5, strings.Join(words, " "))
	for _, e := range f.Evidence {
		t.hanging("     ", 5, 7, t.clean(view.Evidence(j, &e, func(m *view.Metric, v float64) string {
			return t.value(v, m.Unit, view.TextOf(m.Name).Percent)
		}), 200))
	}
}

// Totals writes all deciles of each metric over the whole life, and their bounds if they are not exact.
func Totals(w io.Writer, j *view.Job, s Style) error {
	t := &text{Style: s}
	heads := []string{"min", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "max"}
	all := make([]column, 2, len(heads)+4)
	all[0], all[1] = column{head: "METRIC"}, column{head: "RANK ERROR", right: true, drop: 1}
	for k, head := range heads {
		// A narrow terminal drops d2 and d8 first, then the deciles nearer to the median. The extremes, d1, d5 and d9
		// always stay.
		drop := []int{0, 0, 6, 4, 3, 0, 3, 4, 6, 0, 0}[k]
		all = append(all, column{head: strings.ToUpper(head), right: true, drop: drop})
	}
	all = append(all, column{head: "MEAN", right: true}, column{head: "COUNT", right: true, drop: 2})
	row := func(name, rank, mean, values string, d *[11]float64, show func(float64) string) {
		cells := []string{name, rank}
		for _, v := range d {
			cells = append(cells, show(v))
		}
		for i, c := range append(cells, mean, values) {
			all[i].cells = append(all[i].cells, c)
		}
	}
	for i := range j.Metrics {
		m := &j.Metrics[i]
		show := func(v float64) string { return t.value(v, m.Unit, view.TextOf(m.Name).Percent) }
		rank := "0"
		if !m.Total.Exact {
			rank = view.Bound(m.Total.RankError)
		}
		row(t.clean(m.Name, 64), rank, show(m.Total.Mean), count(m.Total.Count), &m.Total.D, show)
		if m.Total.Known && !m.Total.Exact {
			row("  at least", "", "", "", &m.Total.Lo, show)
			row("  at most", "", "", "", &m.Total.Hi, show)
		}
	}
	t.grid(all)
	return t.print(w)
}
