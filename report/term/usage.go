package term

import (
	"fmt"
	"io"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/usage"
)

// Usage writes the month of a user or an account.
func Usage(w io.Writer, r *usage.Report, s Style) error {
	t := &text{Style: s}
	t.usageHead(r)
	if r.Sum.Jobs > 0 || len(r.Before) > 0 && r.Before[len(r.Before)-1].Jobs > 0 {
		t.line()
		t.usageMonths(r)
		t.usageTrend(r)
	}
	if r.Sum.Jobs > 0 {
		t.usageRules(r)
		t.usageWorst(r)
	}
	return t.print(w)
}

func (t *text) usageHead(r *usage.Report) {
	month := r.Month.Format("January 2006")
	if !r.Until.IsZero() {
		month += " so far"
	}
	kind := "User "
	if r.Kind == usage.Account {
		kind = "Account "
	}
	t.line(t.paint(bold, t.clean(kind+r.Name+", "+month, t.cells())))
	words := "No job ended in this month."
	if r.Sum.Jobs > 0 {
		words = plural(r.Sum.Jobs, "job", "jobs") + " ended."
	} else if !r.Newest.IsZero() && r.Newest.Before(r.Month) {
		words += " The newest job of the archive ended in " + r.Newest.Format("January 2006") + ": --month " +
			r.Newest.Format("2006-01") + "."
	}
	t.lines(wrap(words, t.cells()))
}

// usageMonths writes a line for the month and for each month before, the newest first.
func (t *text) usageMonths(r *usage.Report) {
	of := func(head string, drop int, cell func(s *usage.Sum) string) column {
		c := column{head: head, right: true, drop: drop, cells: []string{cell(&r.Sum)}}
		for i := len(r.Before) - 1; i >= 0; i-- {
			c.cells = append(c.cells, cell(&r.Before[i]))
		}
		return c
	}
	wasted := func(h *usage.Hours) string {
		if h.Measured <= 0 {
			return "-"
		}
		return hoursText(h.Wasted)
	}
	share := func(h *usage.Hours) string {
		if v, ok := h.Share(); ok {
			return percent(v)
		}
		return "-"
	}
	months := of("MONTH", 0, func(s *usage.Sum) string { return s.Month.Format("2006-01") })
	months.right = false
	all := []column{
		months,
		of("JOBS", 0, func(s *usage.Sum) string { return count(s.Jobs) }),
		of("CORE h", 0, func(s *usage.Sum) string { return hoursText(s.Cores.Held) }),
		of("WASTED", 2, func(s *usage.Sum) string { return wasted(&s.Cores) }),
		of("%", 0, func(s *usage.Sum) string { return share(&s.Cores) }),
	}
	if sum := r.Total(); sum.GPUs.Held > 0 {
		all = append(all, of("GPU h", 0, func(s *usage.Sum) string { return hoursText(s.GPUs.Held) }),
			of("WASTED", 1, func(s *usage.Sum) string { return wasted(&s.GPUs) }),
			of("%", 0, func(s *usage.Sum) string { return share(&s.GPUs) }))
	}
	if sum := r.Total(); sum.Powered > 0 {
		all = append(all, of("ENERGY", 3, func(s *usage.Sum) string {
			switch {
			case s.Powered == 0:
				return "-"
			case s.Powered < s.Jobs:
				return fmt.Sprintf("%s (%s)", energy(s.Energy), plural(s.Powered, "job", "jobs"))
			}
			return energy(s.Energy)
		}))
	}
	t.grid(all)
}

// usageTrend compares the wasted shares with the months before.
func (t *text) usageTrend(r *usage.Report) {
	cores, gpus := r.Trend()
	for _, of := range []struct {
		name   string
		now    *usage.Hours
		before *float64
	}{{"core-hours", &r.Sum.Cores, cores}, {"GPU-hours", &r.Sum.GPUs, gpus}} {
		share, ok := of.now.Share()
		if !ok {
			continue
		}
		words := fmt.Sprintf("%s of the measured %s were wasted", percent(share), of.name)
		if of.before != nil {
			words += fmt.Sprintf(", after %s in the %d months before", percent(*of.before), usage.MonthsBefore)
		}
		t.lines(wrap(words+".", t.cells()))
	}
}

func (t *text) usageRules(r *usage.Report) {
	t.line()
	switch {
	case !r.Judged:
		t.lines(wrap("No rule was evaluated: the archive has no findings. `weir find --live` makes them.", t.cells()))
		return
	case len(r.Rules) == 0:
		t.line("No job has a finding.")
		return
	}
	t.line(t.paint(bold, t.clean(fmt.Sprintf("Findings of %s, by the core-hours of these jobs",
		plural(r.Found, "job", "jobs")), t.cells())))
	class, rule, jobs := column{head: "WORST"}, column{head: "RULE"}, column{head: "JOBS", right: true}
	cores, gpus := column{head: "CORE h", right: true}, column{head: "GPU h", right: true, drop: 2}
	title := column{head: "MEANS", drop: 1}
	for i := range r.Rules {
		f := &r.Rules[i]
		class.cells, class.color = append(class.cells, t.clean(f.Class, 4)), append(class.color, colorOf(f.Class))
		rule.cells = append(rule.cells, t.clean(f.ID, 24))
		jobs.cells = append(jobs.cells, count(f.Jobs))
		cores.cells, gpus.cells = append(cores.cells, hoursText(f.CoreHours)), append(gpus.cells, hoursText(f.GPUHours))
		title.cells = append(title.cells, t.clean(f.Title, max(16, t.cells()-48)))
	}
	all := []column{class, rule, jobs, cores}
	if sum := r.Total(); sum.GPUs.Held > 0 {
		all = append(all, gpus)
	}
	t.grid(append(all, title))
}

// usageWorst names the jobs that waste most, each with one thing to change.
func (t *text) usageWorst(r *usage.Report) {
	if len(r.Worst) == 0 {
		return
	}
	t.line()
	t.line(t.paint(bold, t.clean("Worst jobs, and the one thing to change; `weir job ID` explains", t.cells())))
	for i := range r.Worst {
		w := &r.Worst[i]
		f := &w.Finding
		words := t.clean(f.Rule, 40) + ", " + maybe(w.WastedH, hoursText) + " core-hours wasted"
		if w.GPUWastedH != nil {
			words += ", " + hoursText(*w.GPUWastedH) + " GPU-hours"
		}
		id := t.clean(w.JobID, 20)
		if r.Kind == usage.Account {
			id += " " + t.clean(orDash(w.User), 12)
		}
		t.hanging(id+"  "+t.paint(colorOf(f.Class), left(t.clean(f.Class, 4), 4))+" ", width(id)+7, 4, words)
		if f.Slurm != "" {
			t.line("    ", t.clean(f.Slurm, schemas.MaxFindingText))
		} else {
			t.hanging("    ", 4, 4, t.clean(f.Hint, schemas.MaxFindingText))
		}
	}
}
