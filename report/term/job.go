package term

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// Job writes how well a job used its resources, the problems found, and the lines that its user may change.
func Job(w io.Writer, j *view.Job, s Style) error {
	t := &text{Style: s}
	t.header(j)
	t.seen(j)
	t.uses(j)
	t.metrics(j, false)
	t.imbalance(j)
	t.byNode(j)
	t.notes(j)
	t.footer(j)
	id := t.clean(j.JobID, 64)
	t.hanging("Charts: ", 8, 8, "weir job "+id+t.clean(s.Where, 4096)+" --html "+id+".html")
	return t.print(w)
}

// header writes the identity of the job, its time and place, and its end.
func (t *text) header(j *view.Job) {
	named := max(20, t.cells()/4)
	who := []string{t.clean(j.User, 20), t.clean(j.Account, 20), t.clean(j.Queue, 20)}
	who = slices.DeleteFunc(who, func(s string) bool { return s == "" })
	id := "Job " + t.clean(j.JobID, 64)
	if j.Restart > 0 {
		id += fmt.Sprintf(" restart %d", j.Restart)
	}
	t.lines(flow([]string{
		strings.TrimSpace(id + " " + t.clean(j.Name, named)), strings.Join(who, " "), t.state(j),
	}, "   ", t.cells()))
	parts := []string{plural(int64(len(j.Nodes)), "node", "nodes")}
	if len(j.Nodes) == 0 {
		parts = nil
	}
	if j.Cores != nil {
		parts = append(parts, plural(*j.Cores, "core", "cores"))
	}
	if j.Gpus != nil && *j.Gpus > 0 {
		parts = append(parts, plural(int64(*j.Gpus), "GPU", "GPUs"))
	}
	if j.Running || j.UntilMs <= j.FirstMs {
		parts = append(parts, "since "+moment(start(j))+" UTC")
	} else {
		parts = append(parts, moment(start(j))+" to "+hour(until(j), start(j))+" UTC")
	}
	parts = append(parts, plural(j.Intervals, "interval", "intervals")+" of "+span(j.IntervalMs))
	t.lines(flow(parts, "  ", t.cells()))
	for _, l := range j.Earlier {
		t.earlier(l)
	}
}

// earlier writes a line about another life of the job.
func (t *text) earlier(l view.Life) {
	parts := []string{fmt.Sprintf("Restart %d", l.Restart), t.clean(l.State, 20)}
	if l.Start != nil {
		parts = append(parts, "from "+moment(*l.Start))
		if l.End != nil {
			parts = append(parts, "to "+hour(*l.End, *l.Start))
		}
	}
	t.lines(flow(parts, " ", t.cells()))
}

// start returns the start of the job, or of the first measured interval.
func start(j *view.Job) int64 {
	if j.Start != nil && *j.Start > 0 {
		return *j.Start
	}
	return j.FirstMs
}

func until(j *view.Job) int64 {
	if j.End != nil && !j.Running {
		return *j.End
	}
	return j.UntilMs
}

// state writes the job's state and running time, with the time limit if there is one.
func (t *text) state(j *view.Job) string {
	words := strings.TrimSpace(t.clean(j.State, 20) + " " + clock(float64(until(j)-start(j))/1000))
	if j.TimeLimitS != nil && *j.TimeLimitS > 0 {
		words += " of " + clock(float64(*j.TimeLimitS))
	}
	return words
}

// seen writes the missing share of the data, and the accuracy of the rest.
func (t *text) seen(j *view.Job) {
	complete := "Seen 100 %."
	switch {
	case j.Expected == 0:
		complete = ""
	case j.Reported < j.Expected:
		complete = "Seen " + tenths(float64(j.Reported)/float64(j.Expected)) + gapWords(t.Style, j) + "."
	}
	for _, l := range flow([]string{complete, j.ExactWords()}, "  ", t.cells()) {
		if width(l) <= t.cells() {
			t.line(l)
		} else {
			t.lines(wrap(l, t.cells()))
		}
	}
}

// gapWords names the longest time without some nodes.
func gapWords(s Style, j *view.Job) string {
	if len(j.Gaps) == 0 {
		return ""
	}
	g := j.Gaps[0]
	who := "some nodes"
	if n := len(g.Nodes); n > 0 {
		who = s.clean(g.Nodes[0], 24)
		if n > 1 {
			who += fmt.Sprintf(" and %d more", n-1)
		}
	}
	words := fmt.Sprintf(": %s silent %s-%s", who, hour(g.FromMs, start(j)), hour(g.UntilMs, g.FromMs))
	if n := len(j.Gaps) - 1; n > 0 {
		words += ", and " + plural(int64(n), "more gap", "more gaps")
	}
	return words
}

// imbalance writes how much the cores differ.
func (t *text) imbalance(j *view.Job) {
	m := metric(j, "cpu_user")
	if m == nil || math.IsNaN(spread(m)) || isPseudo(j) {
		return
	}
	words := strings.TrimSuffix(points(spread(m)), "pt") + "points between d1 and d9 of cpu_user"
	if f := finding(j, "imbalance-grows"); f != nil {
		words += "; growing since " + hour(f.FirstInterval, j.UntilMs)
	}
	t.line()
	t.hanging("Imbalance  ", 11, 11, words)
}

// notes writes the findings, the worst first, with the lines that the user may change.
func (t *text) notes(j *view.Job) {
	var open, over []*schemas.Finding
	named := 0
	for i := range j.Findings {
		f := &j.Findings[i]
		if f.State == schemas.FindingClosed {
			over = append(over, f)
			continue
		}
		open = append(open, f)
		named = max(named, width(t.clean(f.Rule, 40)))
	}
	if len(open) > 0 {
		t.line(t.paint(bold, "Notes"))
	}
	for _, f := range open {
		t.note(f, named)
	}
	if len(over) > 0 {
		var words []string
		for _, f := range over {
			words = append(words, fmt.Sprintf("%s (%s until %s)", t.clean(f.Rule, 40), t.clean(f.Class, 4),
				hour(f.LastInterval+f.IntervalMs, j.UntilMs)))
		}
		t.hanging("No more: ", 9, 6, strings.Join(words, ", ")+".")
	}
}

func (t *text) note(f *schemas.Finding, named int) {
	hint := t.clean(f.Hint, 1000)
	if hint == "" {
		hint = t.clean(f.Title, 1000)
	}
	if f.Certainty == schemas.Possible {
		hint = "Possible: " + hint
	}
	const indent = 6
	id := left(t.clean(f.Rule, 40), named)
	t.hanging(" "+t.paint(colorOf(f.Class), left(t.clean(f.Class, 4), 4))+" "+id+"  ", indent+named+2, indent, hint)
	if f.Slurm != "" {
		t.line(strings.Repeat(" ", indent), t.clean(f.Slurm, 1000)) // uncut, so that it can be copied
	}
}

// footer lists the rules that do not count, and the commands that show more.
func (t *text) footer(j *view.Job) {
	var other, unknown []string
	for _, r := range j.NotEvaluated {
		if strings.HasPrefix(r.Why, "it requires ") {
			other = append(other, t.clean(r.Rule, 40))
		} else {
			unknown = append(unknown, t.clean(r.Rule, 40)+" ("+t.clean(r.Why, 60)+")")
		}
	}
	if len(other) > 0 {
		t.hanging("Not applicable: ", 16, 2, some(other)+".")
	}
	if len(unknown) > 0 {
		t.hanging("Not evaluated: ", 15, 2, some(unknown)+"; --rules tells why.")
	}
	if j.From != "" {
		t.hanging("Read from ", 10, 2, t.clean(j.From, 200)+".")
	}
}

// some lists words, but not too many.
func some(words []string) string {
	const most = 5
	if n := len(words) - most; n > 0 {
		words = append(slices.Clone(words[:most]), fmt.Sprintf("and %d more", n))
	}
	return strings.Join(words, ", ")
}
