package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/naming"
)

func newJobs() *cobra.Command {
	conf := configFlags{reads: true}
	var asJSON bool
	c := &cobra.Command{
		Use:   "jobs",
		Short: "Show the jobs: their state, and how complete their last interval is",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			rows, err := analysis.Jobs(c.Context(), cfg)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), rows)
			}
			return printJobs(c.OutOrStdout(), rows)
		},
	}
	conf.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	return c
}

func newJob() *cobra.Command {
	conf := configFlags{reads: true}
	var asJSON bool
	var n int
	c := &cobra.Command{
		Use:   "job ID",
		Short: "Show how a job used its hardware in its last intervals",
		Long: `Shows, for each metric and interval: the deciles (d0 is the minimum, d10 the maximum), mean, count of values, method
and how many of the job's nodes reported. With --json, one object a line; its names are the columns of the archive.

It reads the topic back in time until it has -n intervals of the job's last restart. Where the topic has fewer, or a minute
is not enough to find them, a line on standard error says so; the archive may have the rest.`,
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
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	c.Flags().IntVarP(&n, "intervals", "n", 3, "how many of the last intervals")
	return c
}

func newTail() *cobra.Command {
	conf := configFlags{reads: true}
	var asJSON bool
	var from string
	var n int
	c := &cobra.Command{
		Use:   "tail TOPIC",
		Short: "Show the records of a topic as they come",
		Long: `Shows the committed records of a topic, with or without the prefix: counters, routes, balance, partials, job-summary,
jobs, progress, merge-progress, rejects, schemas. With --json, one object a line: topic, partition, offset, timestamp,
key, schema, value. Of a Reject, the value has the whole head in base64, and in head_schema the name of the schema that it
begins with. It goes on until -n records were shown, or Ctrl-C.`,
		Args: oneArg("TOPIC", "job-summary"),
		RunE: func(c *cobra.Command, args []string) error {
			if from != "start" && from != "end" {
				return usageError{fmt.Errorf("--from %q must be start or end", from)}
			}
			if n < 0 {
				return usageError{fmt.Errorf("-n %d must not be negative", n)}
			}
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			out, shown := c.OutOrStdout(), 0
			var failed error
			err = analysis.Tail(c.Context(), cfg, args[0], from == "start", func(r analysis.TailRecord) bool {
				if asJSON {
					failed = printJSON(out, []analysis.TailRecord{r})
				} else {
					failed = printRecord(out, r)
				}
				shown++
				return failed == nil && (n == 0 || shown < n)
			})
			if err != nil {
				return err
			}
			return failed
		},
	}
	conf.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	c.Flags().StringVar(&from, "from", "end", "start or end of the topic")
	c.Flags().IntVarP(&n, "number", "n", 0, "end after this many records (0: never)")
	return c
}

// printJSON prints one object a line.
func printJSON[T any](w io.Writer, rows []T) error {
	e := json.NewEncoder(escaped{w})
	e.SetEscapeHTML(false)
	for i := range rows {
		if err := e.Encode(rows[i]); err != nil {
			return fmt.Errorf("printing JSON: %w", err)
		}
	}
	return nil
}

func printRecord(w io.Writer, r analysis.TailRecord) error {
	key, schema := "-", "-"
	if r.Key != nil {
		key = schemas.Printable(*r.Key)
	}
	if r.Schema != nil {
		schema = strings.TrimPrefix(*r.Schema, "weir.v1.")
	}
	_, err := fmt.Fprintf(w, "%d/%d  %s  %s  %s  %s\n", r.Partition, r.Offset, clock(r.Timestamp), key, schema, r.Text())
	return err
}

func printJobs(w io.Writer, rows []analysis.JobRow) error {
	t := newTable(0)
	t.line("JOB\tRESTART\tSTATE\tUSER\tINTERVAL\tMETHOD\tNODES\tPARTS\tMETRICS\tREASON")
	for _, r := range rows {
		interval, method, nodes, parts := "-", "-", "-", "-"
		if r.IntervalStart != nil {
			interval, method = clock(*r.IntervalStart), *r.Method
			nodes = fmt.Sprintf("%d/%d", *r.NodesReported, *r.NodesExpected)
			parts = fmt.Sprintf("%d/%d", *r.PartsReported, *r.Parts)
		}
		t.line("%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s", r.JobID, r.Restart, orDash(r.State), orDash(r.User),
			interval, method, nodes, parts, r.Metrics, r.Reason)
	}
	return t.print(w)
}

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
		t.line("%s\t%s\t%s\t%v%s\t%s\t%d/%d\t", clock(r.IntervalStart), metric, unit, &values, count, r.Method, r.NodesReported, r.NodesExpected)
	}
	return t.print(w)
}

func clock(ms int64) string { return time.UnixMilli(ms).Format(time.TimeOnly) }

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
