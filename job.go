package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/schemas"
)

func newJob() *cobra.Command {
	conf := configFlags{reads: true}
	var asJSON bool
	var n int
	c := &cobra.Command{
		Use:   "job ID",
		Short: "Show how a job used its hardware in its last intervals",
		Long: `Shows how a job used its hardware in its last intervals.

Each line is one metric in one interval. It has minimum, deciles, maximum, mean, count of values, method, and how many
of the job's nodes reported. The names of --json are the columns of the archive.

It reads the topic back in time until it has -n intervals of the job's last restart. If the topic has fewer, or a minute
is not enough to find them, it reports so on standard error. The archive may have the rest.`,
		Example: `  weir job host
  weir job 4711 -n 10 --json`,
		Args: oneArg("ID", "host"),
		RunE: func(c *cobra.Command, args []string) error {
			if !naming.Valid(args[0]) {
				return usageError{fmt.Errorf("job ID %q must match [A-Za-z0-9._:-]{1,64}", args[0])}
			}
			if n < 1 {
				return usageError{fmt.Errorf("-n %d must be at least 1", n)}
			}
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			rows, fewer, err := analysis.Job(c.Context(), cfg, args[0], n)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return fmt.Errorf("%s; `weir jobs` lists those that have any", fewer)
			}
			if fewer != "" {
				say(c.ErrOrStderr(), "weir: %s", fewer)
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), rows)
			}
			return printJob(c.OutOrStdout(), rows)
		},
	}
	conf.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.Flags().IntVarP(&n, "intervals", "n", 3, "show the last `N` intervals")
	return c
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
