package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// printIntervals prints the rows of each job's last intervals.
func (f *jobFlags) printIntervals(c *cobra.Command, cfg config.Config, ids []string) error {
	var wanted []string
	if f.metrics != "" && f.metrics != "all" {
		wanted = strings.Split(f.metrics, ",")
	}
	var all []schemas.Row
	for _, id := range ids {
		rows, fewer, err := analysis.Job(c.Context(), cfg, id, f.last)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("%s; `weir jobs` lists those that have any", fewer)
		}
		if fewer != "" {
			say(c.ErrOrStderr(), "weir: %s", fewer)
		}
		all = append(all, slices.DeleteFunc(rows, func(r schemas.Row) bool {
			return wanted != nil && (r.Metric == nil || !slices.Contains(wanted, *r.Metric))
		})...)
	}
	if f.asJSON || f.asCSV {
		return printRows(c.OutOrStdout(), f.asCSV, all)
	}
	return printJob(c.OutOrStdout(), all)
}

// printJob shows a row for each metric. An interval without metrics has a row too, so that nobody takes it for missing.
func printJob(w io.Writer, rows []schemas.Row) error {
	t := newTable(tabwriter.AlignRight)
	t.line("INTERVAL\tMETRIC\tUNIT\tMIN\tD1\tD2\tD3\tD4\tD5\tD6\tD7\tD8\tD9\tMAX\tMEAN\tCOUNT\tMETHOD\tNODES\t")
	for _, r := range rows {
		metric, unit, count := "-", "-", "-"
		if r.Metric != nil {
			metric, unit, count = *r.Metric, *r.Unit, strconv.FormatInt(*r.Count, 10)
		}
		var values strings.Builder
		for _, v := range []*float64{r.D0, r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9, r.D10, r.Mean} {
			values.WriteString(number(v) + "\t")
		}
		t.line("%s\t%s\t%s\t%v%s\t%s\t%d/%d\t", clock(r.IntervalStart), metric, unit, &values, count,
			r.Method, r.NodesReported, r.NodesExpected)
	}
	return t.print(w)
}
