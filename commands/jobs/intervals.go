package jobs

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
)

// printIntervals prints the rows of each job's last intervals. If several jobs are asked for, it reports those without
// any.
func (f *jobFlags) printIntervals(c *cobra.Command, sources *analysis.Sources, ids []string, ask analysis.Ask) error {
	var all []schemas.Row
	var short []string
	err := eachJob(c, ids, func(id string) error {
		rows, fewer, err := f.jobIntervals(c, sources, id, ask)
		if err == nil && fewer != "" {
			short = append(short, fewer)
		}
		all = append(all, slices.DeleteFunc(rows, func(r schemas.Row) bool {
			return ask.Metrics != nil && !slices.Contains(ask.Metrics, analysis.AllMetrics) &&
				(r.Metric == nil || !slices.Contains(ask.Metrics, *r.Metric))
		})...)
		return err
	})
	if err != nil {
		return err
	}
	sayFirst(c, short, "have fewer intervals")
	if err := sayMissing(c, ask.Metrics, func(name string) bool {
		return slices.ContainsFunc(all, func(r schemas.Row) bool { return r.Metric != nil && *r.Metric == name })
	}); err != nil {
		return err
	}
	if f.AsJSON || f.AsCSV {
		return cli.PrintRows(c.OutOrStdout(), f.CSVFlags, all)
	}
	return PrintJob(c.OutOrStdout(), all)
}

// jobIntervals returns the last rows of a job, or all rows of the requested span of the archive. If they are fewer than
// requested, fewer is the reason.
func (f *jobFlags) jobIntervals(
	c *cobra.Command, sources *analysis.Sources, id string, ask analysis.Ask,
) (rows []schemas.Row, fewer string, err error) {
	if !ask.Topic {
		n := f.last
		if (f.from != "" || f.to != "") && !f.limited(c) {
			n = 0
		}
		rows, err = sources.ArchivedRows(c.Context(), id, ask, n)
		return rows, "", err
	}
	rows, fewer, err = sources.LastRows(c.Context(), id, f.last)
	if err == nil && len(rows) == 0 {
		err = noRowsError{fewer}
	}
	return rows, fewer, err
}

// noRowsError is returned for a job without intervals in the topic. It contains the reason.
type noRowsError struct{ why string }

func (e noRowsError) Error() string { return e.why + "; `weir jobs` lists the jobs with intervals" }

func (e noRowsError) Unwrap() error { return analysis.ErrNoInterval }

// PrintJob prints a row for each metric. An interval without metrics gets a row too, so that nobody takes it for
// missing. If the rows belong to several jobs, lives or days, a column is added for each of these.
func PrintJob(w io.Writer, rows []schemas.Row) error {
	t := cli.NewTable(tabwriter.AlignRight)
	several := slices.ContainsFunc(rows, func(r schemas.Row) bool { return r.JobID != rows[0].JobID })
	lives := slices.ContainsFunc(rows, func(r schemas.Row) bool { return r.Restart != rows[0].Restart })
	days := slices.ContainsFunc(rows, func(r schemas.Row) bool { return day(r) != day(rows[0]) })
	head := ""
	if several || lives {
		head = "JOB\t"
	}
	if lives {
		head += "RESTART\t"
	}
	t.Line(head + "INTERVAL\tMETRIC\tUNIT\tMIN\tD1\tD2\tD3\tD4\tD5\tD6\tD7\tD8\tD9\tMAX\tMEAN\tCOUNT\tMETHOD\tNODES\t")
	for _, r := range rows {
		metric, unit, count := "-", "-", "-"
		if r.Metric != nil {
			metric, unit, count = *r.Metric, *r.Unit, strconv.FormatInt(*r.Count, 10)
		}
		var values strings.Builder
		for _, v := range []*float64{r.D0, r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9, r.D10, r.Mean} {
			values.WriteString(cli.Number(v) + "\t")
		}
		var start strings.Builder // line takes its tabs as they are
		if several || lives {
			start.WriteString(schemas.Printable(r.JobID) + "\t")
		}
		if lives {
			start.WriteString(strconv.Itoa(int(r.Restart)) + "\t")
		}
		if days {
			start.WriteString(day(r) + "T")
		}
		start.WriteString(view.Clock(r.IntervalStart))
		t.Line("%v\t%s\t%s\t%v%s\t%s\t%d/%d\t", &start, metric, unit, &values, count,
			r.Method, r.NodesReported, r.NodesExpected)
	}
	return t.Print(w)
}

// day is the date of a row's start.
func day(r schemas.Row) string { return view.Time(r.IntervalStart).Format(time.DateOnly) }
