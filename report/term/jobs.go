package term

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
)

// Jobs writes a line for each job, and below them the jobs that are not measured.
func Jobs(w io.Writer, l *view.Lists, s Style) error {
	t := &text{Style: s}
	if len(l.Rows) == 0 {
		t.line("No job.")
	} else {
		t.grid(t.columnsOf(l.Rows))
	}
	if len(l.Skipped) > 0 {
		t.line()
		t.line("Not measured:")
		ids, reasons := column{head: "JOB"}, column{head: "REASON"}
		for i := range l.Skipped {
			ids.cells = append(ids.cells, t.clean(l.Skipped[i].JobID, 64))
			reasons.cells = append(reasons.cells, t.clean(l.Skipped[i].Reason, 200))
		}
		t.grid([]column{ids, reasons})
	}
	return t.print(w)
}

// columnsOf returns the columns of a list of jobs. Unknown values are dashes, since 0 would be a claim.
func (t *text) columnsOf(rows []view.JobLine) []column {
	of := func(head string, right bool, drop, least int, cell func(r *view.JobLine) string) column {
		c := column{head: head, right: right, drop: drop, least: least}
		for i := range rows {
			c.cells = append(c.cells, cell(&rows[i]))
		}
		return c
	}
	name := func(text func(r *view.JobLine) string) func(*view.JobLine) string {
		return func(r *view.JobLine) string { return orDash(t.clean(text(r), 24)) }
	}
	hours := func(v float64) string { return count(int64(math.Round(v))) }
	all := []column{of("JOB", false, 0, 0, func(r *view.JobLine) string { return t.clean(r.JobID, 64) })}
	if slices.ContainsFunc(rows, func(r view.JobLine) bool { return r.Restart > 0 }) {
		all = append(all, of("RESTART", true, 3, 0, func(r *view.JobLine) string { return fmt.Sprint(r.Restart) }))
	}
	all = append(all,
		of("STATE", false, 5, 0, name(func(r *view.JobLine) string { return r.State })),
		of("USER", false, 0, 6, name(func(r *view.JobLine) string { return r.User })),
		of("ACCOUNT", false, 8, 6, name(func(r *view.JobLine) string { return r.Account })),
		of("QUEUE", false, 9, 6, name(func(r *view.JobLine) string { return r.Queue })),
		of("NODES", true, 1, 0, func(r *view.JobLine) string { return dashOf0(int64(len(r.Nodes))) }),
		of("CORES", true, 2, 0, cores),
		of("TIME", true, 0, 0, func(r *view.JobLine) string {
			if r.TimeS <= 0 {
				return "-"
			}
			return clock(r.TimeS)
		}),
		of("BUSY", true, 0, 0, func(r *view.JobLine) string { return maybe(r.Busy, percent) }),
		of("SPREAD", true, 4, 0, func(r *view.JobLine) string { return maybe(r.Spread, points) }),
		of("WASTED h", true, 3, 0, func(r *view.JobLine) string { return maybe(r.WastedH, hours) }),
	)
	if slices.ContainsFunc(rows, func(r view.JobLine) bool { return r.GPUBusy != nil }) {
		all = append(all,
			of("GPU", true, 2, 0, func(r *view.JobLine) string { return maybe(r.GPUBusy, percent) }),
			of("GPU h", true, 3, 0, func(r *view.JobLine) string { return maybe(r.GPUWastedH, hours) }))
	}
	all = append(all,
		of("MEM", true, 7, 0, func(r *view.JobLine) string {
			return maybe(r.MemPerNode, func(v float64) string { return t.value(v, "B", false) })
		}),
		of("SEEN", true, 6, 0, func(r *view.JobLine) string { return maybe(r.Seen, percent) }),
	)
	all = append(all, t.sorted(rows)...)
	return append(all, t.worst(rows))
}

// sorted returns the columns of the values by which the list is sorted, unless another column shows them.
func (t *text) sorted(rows []view.JobLine) (all []column) {
	if len(rows) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(rows[0].Of)) {
		c := column{head: strings.ToUpper(t.clean(key, 70)), right: true}
		for i := range rows {
			c.cells = append(c.cells, maybe(rows[i].Of[key], threeDigits))
		}
		all = append(all, c)
	}
	return all
}

// worst returns the column of each job's worst finding. It is a dash if no rule was evaluated for the job.
func (t *text) worst(rows []view.JobLine) column {
	c := column{head: "WORST FINDING"}
	for i := range rows {
		cell, color := "-", ""
		r := &rows[i]
		switch f := r.Finding; {
		case f == nil && r.Judged && schemas.Over(r.State):
			cell = "none"
		case f == nil && r.Judged:
			cell = "none yet"
		case f != nil:
			cell, color = left(t.clean(f.Class, 4), 4)+" "+t.clean(f.Rule, 40), colorOf(f.Class)
		}
		c.cells, c.color = append(c.cells, cell), append(c.color, color)
	}
	return c
}

func cores(r *view.JobLine) string {
	if r.Cores == nil {
		return "-"
	}
	return strconv.FormatInt(*r.Cores, 10)
}

func maybe(v *float64, show func(float64) string) string {
	if v == nil || math.IsNaN(*v) {
		return "-"
	}
	return show(*v)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func dashOf0(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// Several writes a line for each job, and the totals of all their values together, with bounds.
func Several(w io.Writer, jobs []*view.Job, all *view.Job, s Style) error {
	t := &text{Style: s}
	rows := make([]view.JobLine, len(jobs))
	for i, j := range jobs {
		rows[i] = j.Line()
	}
	t.grid(t.columnsOf(rows))
	if all != nil {
		t.line()
		t.line("All ", plural(int64(len(jobs)), "job", "jobs"), " together")
		t.seen(all)
		t.uses(all)
		t.metrics(all, true)
	}
	return t.print(w)
}
