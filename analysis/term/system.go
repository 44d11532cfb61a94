package term

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/analysis/machine"
)

// System writes the report of the machine.
func System(w io.Writer, r *machine.Report, s Style) error {
	t := &text{Style: s}
	t.jobsCounted(r)
	t.cores(&r.Cores)
	for i := range r.Figures {
		t.figure(&r.Figures[i])
	}
	t.jobSizes(r.Sizes)
	t.kernel(r.Kernel)
	t.properties(r)
	return t.print(w)
}

// spanOf names the time that a report is about: a month by its name.
func spanOf(fromMs, toMs int64) string {
	from, to := time.UnixMilli(fromMs).UTC(), time.UnixMilli(toMs).UTC()
	if from.Day() == 1 && from.Equal(from.Truncate(24*time.Hour)) && to.Equal(from.AddDate(0, 1, 0)) {
		return from.Format("January 2006")
	}
	return dayOrTime(from) + " to " + dayOrTime(to)
}

func dayOrTime(t time.Time) string {
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format(time.DateOnly)
	}
	return t.Format("2006-01-02 15:04")
}

// name is a name as it fits into a line that is wrapped.
func (t *text) name(name string, cells int) string {
	return t.clean(name, min(cells, max(t.cells()-14, 6)))
}

// underHead adds a heading, and words that are wrapped beside it.
func (t *text) underHead(head, words string) {
	if t.cells() < narrow {
		t.line(t.paint(bold, head))
		t.lines(wrap(words, t.cells()))
		return
	}
	t.hanging(t.paint(bold, head)+"   ", width(head)+3, width(head)+3, words)
}

func (t *text) jobsCounted(r *machine.Report) {
	words := fmt.Sprintf("%s counted, %s core-hours", plural(r.Jobs, "job", "jobs"), count(whole(r.CoreHours)))
	if r.Left.Jobs > 0 {
		var reasons []string
		for _, l := range r.Left.Reasons {
			reasons = append(reasons, t.name(l.Text, 40)+" "+count(l.Jobs))
		}
		words += "; left out: " + count(r.Left.Jobs) + " (" + strings.Join(reasons, ", ")
		if len(reasons) > 1 {
			words += "; overlapping"
		}
		words += ")"
	}
	t.underHead(spanOf(r.FromMs, r.ToMs), words)
}

// oneDecimal rounds a share of the cores to the nearest, so that all of them add up to 100.
func oneDecimal(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func (t *text) cores(c *machine.Cores) {
	busy, wasted, free, notSeen, ok := c.Shares()
	if !ok {
		t.underHead("Cores", "not measured: the archive has no cpu_idle of the whole machine in this time")
		return
	}
	parts := []string{"busy " + oneDecimal(busy), "wasted " + oneDecimal(wasted), "free " + oneDecimal(free)}
	if c.NotSeen != nil {
		parts = append(parts, "not seen "+tenths(notSeen))
	} else {
		parts = append(parts, "of what was measured: `machine` in the configuration does not tell all cores")
	}
	t.underHead("Cores", strings.Join(parts, ", "))
}

// Cells of the columns of numbers.
const (
	classCells, jobsCells, hoursCells, quartileCells = 9, 8, 12, 8
	boxCells                                         = 24
)

func (t *text) figure(f *machine.Figure) {
	t.line()
	unit := "in %"
	if f.Unit != "1" {
		unit = "in " + f.Unit
	}
	t.line(t.paint(bold, t.clean(f.Title+" by job size, "+unit, t.cells())))
	most := 0.0
	for i := range f.Sizes {
		most = max(most, f.Sizes[i].P75, f.Sizes[i].Mean)
	}
	head := right("cores", classCells) + right("jobs", jobsCells)
	if t.cells() >= usual {
		head += right("core-hours", hoursCells)
	}
	for _, name := range []string{"p25", "median", "p75", "mean"} {
		head += right(name, quartileCells)
	}
	t.line(t.clean(head, t.cells()))
	for i := range f.Sizes {
		t.size(f, &f.Sizes[i], most)
	}
	if len(f.Months) > 1 {
		t.months(f)
	}
}

func (t *text) size(f *machine.Figure, s *machine.Size, most float64) {
	row := right(count(s.Cores), classCells) + right(count(s.Jobs), jobsCells)
	if t.cells() >= usual {
		row += right(count(whole(s.CoreHours)), hoursCells)
	}
	for _, v := range []float64{s.P25, s.Median, s.P75, s.Mean} {
		row += right(plainNumber(v, f.Unit), quartileCells)
	}
	if t.cells() >= wide {
		row += "   " + t.box(s, most)
	}
	t.line(t.clean(row, t.cells()))
	indent := strings.Repeat(" ", min(classCells+2, t.cells()/4))
	if len(s.High) > 0 {
		words := "above p75: " + t.users(s.High)
		if s.MeanWithout != nil {
			words += "; mean without them " + plainNumber(*s.MeanWithout, f.Unit)
		}
		t.hanging(indent, len(indent), len(indent)+2, words)
	}
	if len(s.Low) > 0 {
		t.hanging(indent, len(indent), len(indent)+2, "below p25: "+t.users(s.Low))
	}
}

// box shows the quartiles of a size: a line from p25 to p75, and the median.
func (t *text) box(s *machine.Size, most float64) string {
	d := [11]float64{}
	for k := range d {
		d[k] = s.Median
	}
	d[0], d[1], d[9], d[10] = s.P25, s.P25, s.P75, s.P75
	return t.band(&d, 0, max(most, math.SmallestNonzeroFloat64), boxCells)
}

func (t *text) users(of []machine.OffUser) string {
	var all []string
	for _, u := range of {
		all = append(all, t.name(orDash(u.User), 16)+" "+percent(u.Share))
	}
	return strings.Join(all, ", ")
}

// plainNumber is a number of a column whose head has the unit.
func plainNumber(v float64, unit string) string {
	if unit == "1" {
		return fmt.Sprintf("%.1f", 100*v)
	}
	number, prefix := si(v)
	return number + prefix
}

func whole(v float64) int64 { return int64(math.Round(v)) }

func (t *text) months(f *machine.Figure) {
	t.line(t.clean(right("month", classCells)+right("jobs", jobsCells)+right("median", quartileCells)+
		right("mean", quartileCells)+right("mean cores", hoursCells), t.cells()))
	for _, m := range f.Months {
		t.line(t.clean(right(m.Month, classCells)+right(count(m.Jobs), jobsCells)+
			right(plainNumber(m.Median, f.Unit), quartileCells)+right(plainNumber(m.Mean, f.Unit), quartileCells)+
			right(count(whole(m.MeanCores)), hoursCells), t.cells()))
	}
}

func (t *text) jobSizes(sizes []machine.MonthSize) {
	if len(sizes) == 0 {
		return
	}
	t.line()
	t.line(t.paint(bold, t.clean("Cores of a job by month of its start", t.cells())))
	head := right("month", classCells) + right("jobs", jobsCells)
	for _, name := range []string{"p25", "median", "p75", "mean"} {
		head += right(name, quartileCells)
	}
	t.line(t.clean(head+"  where a core-hour goes", t.cells()))
	for _, m := range sizes {
		row := right(m.Month, classCells) + right(count(m.Jobs), jobsCells)
		for _, v := range []float64{m.P25, m.Median, m.P75, m.Mean} {
			row += right(count(whole(v)), quartileCells)
		}
		t.line(t.clean(row+"  "+count(whole(m.Weighted))+" cores", t.cells()))
	}
}

// kernelShare is where a job's time in the kernel is worth a line.
const kernelShare = 0.1

func (t *text) kernel(jobs []machine.KernelJob) {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(k machine.KernelJob) bool { return k.System < kernelShare })
	if len(jobs) == 0 {
		return
	}
	t.line()
	t.line(t.paint(bold, t.clean("Jobs with most time in the kernel", t.cells())))
	t.line(t.clean(left("job", 12)+left("user", 10)+right("cores", classCells)+right("kernel", quartileCells)+
		right("local disk", hoursCells), t.cells()))
	for _, k := range jobs {
		disk := "-"
		if k.Disk != nil {
			disk = t.value(*k.Disk, "B/s", false)
		}
		row := left(t.clean(k.Job, 11), 12) + left(t.clean(orDash(k.User), 9), 10) + right(count(k.Cores), classCells)
		t.line(t.clean(row+right(percent(k.System), quartileCells)+right(disk, hoursCells), t.cells()))
	}
}

// shownAccounts and shownProperties bound what a person reads.
const shownAccounts, shownProperties, shownJobs = 10, 4, 10

// properties lists accounts by what tuning them is worth, and the jobs.
func (t *text) properties(r *machine.Report) {
	accounts := slices.DeleteFunc(slices.Clone(r.Accounts), func(l machine.Line) bool { return l.Cost <= 0 })
	t.line()
	if !r.Judged {
		const words = "Nothing to tune is named: the archive has no findings. `weir find --live` makes them."
		t.lines(wrap(words, t.cells()))
		return
	}
	t.line(t.paint(bold, t.clean("What to tune first: core-hours x severity by account", t.cells())))
	if len(accounts) == 0 {
		t.line(t.clean("No counted job has a finding.", t.cells()))
	}
	for i := range accounts[:min(shownAccounts, len(accounts))] {
		a := &accounts[i]
		head := left(t.clean(orDash(a.Account), 12), 13) + right(count(whole(a.Cost)), 9) + " of " +
			left(count(whole(a.CoreHours))+" h", 12) + " "
		t.beside(head, t.cellsOf(a, r.Rules))
	}
	if len(r.Worst) > 0 {
		t.line()
		t.line(t.paint(bold, t.clean("Jobs that cost most; `weir job ID` explains one", t.cells())))
	}
	for i := range r.Worst[:min(shownJobs, len(r.Worst))] {
		l := &r.Worst[i]
		head := left(t.clean(l.Job, 12), 13) + left(t.clean(orDash(l.User), 8), 9) +
			right(count(whole(l.Cost)), 9) + " h  "
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

// cellsOf are the properties that cost most.
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

// notMeasured names the rules that no job could be judged by.
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
