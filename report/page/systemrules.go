package page

import (
	"fmt"
	"html/template"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/machine"
)

// propertyTable is the figure of properties by account, after LRZ's overview.
type propertyTable struct {
	Result   string
	Figure   template.HTML
	Accounts []accountRow
}

type accountRow struct{ Name, Jobs, Hours, Cost string }

// The figure draws a column for each of shownAccounts. The table lists more.
const (
	shownAccounts = 10
	tableAccounts = 100
)

func newPropertyTable(r *machine.Report) propertyTable {
	var t propertyTable
	for i := range r.Accounts {
		if a := &r.Accounts[i]; i < tableAccounts {
			row := accountRow{accountName(a), thousands(a.Jobs), whole(a.CoreHours), whole(a.Cost)}
			t.Accounts = append(t.Accounts, row)
		}
	}
	cost, title, rows := 0.0, "", []int{}
	for i := range r.Rules {
		sum, jobs := 0.0, int64(0)
		for k := range r.Accounts {
			if i < len(r.Accounts[k].Cells) {
				sum += r.Accounts[k].Cells[i].Cost
				jobs += r.Accounts[k].Cells[i].Jobs
			}
		}
		if jobs > 0 {
			rows = append(rows, i)
		}
		if sum > cost {
			cost, title = sum, r.Rules[i].Title
		}
	}
	switch {
	case !r.Judged:
		t.Result = "The archive has no findings, so no job was judged. weir find makes them."
		return t
	case len(rows) == 0:
		t.Result = fmt.Sprintf("None of %d properties was found in a job.", len(r.Rules))
		return t
	}
	t.Result = fmt.Sprintf("%s costs most: %s core-hours times severity. %d of %d properties were found.",
		title, whole(cost), len(rows), len(r.Rules))
	t.Figure = drawProperties(r, rows, t.Result)
	return t
}

func accountName(l *machine.Line) string {
	if l.Account == "" {
		return "(none)"
	}
	return l.Account
}

func drawProperties(r *machine.Report, rows []int, result string) template.HTML {
	const left, top, rowH, width = 132.0, 80.0, 20.0, 400.0
	accounts := r.Accounts[:min(len(r.Accounts), shownAccounts)]
	step := min(40, (width-left-44)/float64(len(accounts)))
	f := chart.Figure{
		ID: "properties", W: width, H: top + rowH*float64(len(rows)) + 4,
		Title: "Properties of jobs, by account", Desc: result,
	}
	xs, ys := grid(left, step, len(accounts)), grid(top, rowH, len(rows))
	cell := func(i, row int) *machine.Cell { return &accounts[i].Cells[rows[row]] }
	for row := range rows {
		for i := range accounts {
			if !cell(i, row).Measured {
				f.Hatch(xs[i]+1, xs[i+1]-1, ys[row]+1, ys[row+1]-1)
			}
		}
	}
	f.Cells(xs, ys, func(i, row int) (class, title string) {
		c := cell(i, row)
		name := accountName(&accounts[i]) + ", " + r.Rules[rows[row]].Title
		switch {
		case !c.Measured:
			return "", ""
		case c.Jobs == 0:
			return "cell", name + ": never"
		}
		return "tile " + severityClass(c.Severity), fmt.Sprintf("%s: %s with a mean severity of %s",
			name, count(c.Jobs, "job"), two(c.Severity))
	})
	for row, rule := range rows {
		f.Text(left-6, ys[row]+rowH/2+4, "tick end", shorten(r.Rules[rule].ID, 18))
		for i := range accounts {
			if c := cell(i, row); c.Jobs > 0 {
				f.Text(xs[i]+step/2, ys[row]+rowH/2+4, "mid on-"+severityClass(c.Severity), compact(c.Jobs, step))
			}
		}
	}
	for i := range accounts {
		f.Text(xs[i]+step/2+3, top-6, "tick slant", shorten(accountName(&accounts[i]), 11))
	}
	return f.SVG()
}

// compact writes a number that fits into a cell, or nothing.
func compact(n int64, room float64) string {
	text := fmt.Sprint(n)
	if float64(len(text))*7 > room {
		text = fmt.Sprintf("%.0fk", float64(n)/1000)
	}
	if float64(len(text))*7 > room {
		return ""
	}
	return text
}
