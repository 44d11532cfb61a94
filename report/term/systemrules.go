package term

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhpc/weir/report/machine"
)

// shownAccounts, shownProperties and shownJobs bound the lists for a person.
const shownAccounts, shownProperties, shownJobs = 10, 4, 10

// properties lists the accounts by the gain from tuning their jobs, and the worst jobs.
func (t *text) properties(r *machine.Report) {
	accounts := slices.DeleteFunc(slices.Clone(r.Accounts), func(l machine.Line) bool { return l.Cost <= 0 })
	t.line()
	if !r.Judged {
		const words = "Nothing to tune is named: the archive has no findings. `weir find --live` makes them."
		t.lines(wrap(words, t.cells()))
		return
	}
	const head = "What to tune first: core-hours x severity, summed over findings, by account"
	t.line(t.paint(bold, t.clean(head, t.cells())))
	if len(accounts) == 0 {
		t.line(t.clean("No counted job has a finding.", t.cells()))
	}
	for i := range accounts[:min(shownAccounts, len(accounts))] {
		a := &accounts[i]
		head := left(t.clean(orDash(a.Account), 12), 13) + right(count(whole(a.Cost)), 9) + " in " +
			left(count(whole(a.CoreHours))+" h", 12) + " "
		t.beside(head, t.cellsOf(a, r.Rules))
	}
	if len(r.Worst) > 0 {
		t.line()
		t.line(t.paint(bold, t.clean("Jobs with most core-hours x severity; `weir job ID` explains one", t.cells())))
	}
	for i := range r.Worst[:min(shownJobs, len(r.Worst))] {
		l := &r.Worst[i]
		head := left(t.clean(l.Job, 12), 13) + left(t.clean(orDash(l.User), 8), 9) +
			right(count(whole(l.Cost)), 9) + "  "
		t.beside(head, t.cellsOf(l, r.Rules))
	}
	t.notMeasured(r)
}

// beside adds words beside a head, or below it on a narrow terminal.
func (t *text) beside(head, words string) {
	if t.cells() < usual {
		t.line(t.clean(head, t.cells()))
		t.hanging("    ", 4, 4, words)
		return
	}
	t.hanging(head, width(head), 4, words)
}

// cellsOf writes the most expensive properties.
func (t *text) cellsOf(l *machine.Line, rules []machine.Rule) string {
	var order []int
	for i := range l.Cells {
		if l.Cells[i].Jobs > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.Cells[b].Cost, l.Cells[a].Cost) })
	var parts []string
	for _, i := range order[:min(shownProperties, len(order))] {
		c := &l.Cells[i]
		part := fmt.Sprintf("%s %.2f", t.name(rules[i].ID, 40), c.Severity)
		if l.Job == "" {
			part += " in " + plural(c.Jobs, "job", "jobs")
		}
		parts = append(parts, part)
	}
	if more := len(order) - shownProperties; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// notMeasured names the rules for which no job had the metrics.
func (t *text) notMeasured(r *machine.Report) {
	var names []string
	for i, rule := range r.Rules {
		if !slices.ContainsFunc(r.Accounts, func(l machine.Line) bool { return l.Cells[i].Measured }) {
			names = append(names, t.name(rule.ID, 40))
		}
	}
	if len(names) > 0 && len(r.Accounts) > 0 {
		t.line()
		t.lines(wrap("Not evaluated, since no job has the metrics: "+strings.Join(names, ", "), t.cells()))
	}
}
