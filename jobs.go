package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
)

func newJobs() *cobra.Command {
	conf := configFlags{reads: true}
	var asJSON bool
	c := &cobra.Command{
		Use:   "jobs",
		Short: "Show the jobs: their state, and how complete their last interval is",
		Long: `Shows the jobs: their state, and how complete their last interval is.

NODES is how many of the job's nodes reported, and PARTS how many shares of a split job came. REASON is why a job is
skipped.`,
		Example: `  weir jobs
  weir jobs --json --config /etc/weir/weir.yaml`,
		Args: noArgs,
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
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

// printJobs shows - for what no summary has yet, since 0 would be a claim.
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
