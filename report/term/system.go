package term

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/report/machine"
)

// System writes the report of the machine.
func System(w io.Writer, r *machine.Report, s Style) error {
	t := &text{Style: s}
	t.jobsCounted(r)
	t.cores(&r.Cores)
	t.gpus(r)
	for i := range r.Figures {
		t.figure(&r.Figures[i])
	}
	t.jobSizes(r.Sizes)
	t.kernel(r.Kernel)
	t.properties(r)
	return t.print(w)
}

// name cleans a name and cuts it to cells, for a line that is wrapped.
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
	if r.GPUHours > 0 {
		words += ", " + count(whole(r.GPUHours)) + " GPU-hours"
	}
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
	t.underHead(r.Span(), words)
}

// oneDecimal rounds a share of the cores to the nearest, so that all of them add up to 100.
func oneDecimal(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func (t *text) cores(c *machine.Cores) {
	if _, _, _, _, ok := c.Shares(); !ok {
		t.underHead("Cores", "not measured: the archive has no cpu_idle of the whole machine in this time")
		return
	}
	t.shares("Cores", "core-hours", "all cores", c)
}

// gpus writes the use of the GPUs and the energy, if they were measured.
func (t *text) gpus(r *machine.Report) {
	if r.GPUs.Seen > 0 {
		t.shares("GPUs", "GPU-hours", "all GPUs", &r.GPUs)
	}
	if r.Energy.Of != "" {
		t.underHead("Energy", energy(r.Energy.Joules)+" of "+r.Energy.Of+", as far as power was measured")
	}
}

// shares writes how hours were used.
func (t *text) shares(head, unit, all string, c *machine.Cores) {
	busy, wasted, free, notSeen, _ := c.Shares()
	parts := []string{"busy " + oneDecimal(busy), "wasted " + oneDecimal(wasted), "free " + oneDecimal(free)}
	if c.NotSeen != nil {
		parts = append(parts, "not seen "+oneDecimal(notSeen))
		if c.Machine != nil {
			parts[len(parts)-1] += fmt.Sprintf("; the machine has %s %s", count(whole(*c.Machine)), unit)
		}
	} else {
		parts = append(parts, "of what was measured: `machine` in the configuration does not tell "+all)
	}
	t.underHead(head, strings.Join(parts, ", "))
}

// Cells of the columns of numbers.
const (
	classCells, jobsCells, hoursCells, quartileCells = 9, 8, 12, 8
	boxCells                                         = 24
)

// quartiles formats the columns of numbers.
func quartiles(p25, median, p75, mean string) string {
	return right(p25, quartileCells) + right(median, quartileCells) + right(p75, quartileCells) +
		right(mean, quartileCells)
}

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
	t.line(t.clean(head+quartiles("p25", "median", "p75", "mean"), t.cells()))
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
	row += quartiles(plainNumber(s.P25, f.Unit), plainNumber(s.Median, f.Unit), plainNumber(s.P75, f.Unit),
		plainNumber(s.Mean, f.Unit))
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

// plainNumber formats a number for a column with the unit in its head.
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
	head += quartiles("p25", "median", "p75", "mean")
	t.line(t.clean(head+"  of the mean core-hour", t.cells()))
	for _, m := range sizes {
		row := right(m.Month, classCells) + right(count(m.Jobs), jobsCells)
		row += quartiles(count(whole(m.P25)), count(whole(m.Median)), count(whole(m.P75)), count(whole(m.Mean)))
		t.line(t.clean(row+"  "+count(whole(m.Weighted))+" cores", t.cells()))
	}
}

// kernelShare is the share of time in the kernel from which a job is listed.
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
