package jobs

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis/topics"
	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
)

// NewTail returns the command weir tail.
func NewTail() *cobra.Command {
	conf := cli.ConfigFlags{Reads: true}
	var asJSON bool
	var from string
	var n int
	c := &cobra.Command{
		Use:   "tail TOPIC",
		Short: "Show the records of a topic as they come",
		Long: `Shows the committed records of a topic as they come, until Ctrl-C. Times are UTC.

TOPIC is one of these names, with or without the prefix: counters, routes, balance, triggers, topology-orders, partials,
job-summary, jobs, progress, merge-progress, rejects, findings, find-progress, find-state, facts, notices, schemas.

For a summary it prints the median of the first metrics, with the smallest and the largest value. Findings and jobs are
printed in words, other records as JSON.

An object of --json contains topic, partition, offset, timestamp, key, schema and value. The value of a Reject contains
the whole head in base64, and head_schema names the schema at the start of the head.`,
		Example: `  weir tail job-summary
  weir tail counters --from start -n 2 --json`,
		Args:      cli.OneArg("TOPIC", "job-summary"),
		ValidArgs: topicNames(),
		RunE: func(c *cobra.Command, args []string) error {
			if from != "start" && from != "end" {
				return cli.Usage(fmt.Errorf("--from %q must be start or end", from))
			}
			if n < 0 {
				return cli.Usage(fmt.Errorf("-n %d must not be negative", n))
			}
			cfg, err := conf.Load()
			if err != nil {
				return err
			}
			out, shown := c.OutOrStdout(), 0
			var failed error
			err = topics.Tail(c.Context(), cfg, args[0], from == "start", func(r topics.TailRecord) bool {
				if asJSON {
					failed = cli.PrintJSON(out, []topics.TailRecord{r})
				} else {
					failed = PrintRecord(out, r)
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
	conf.Add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.Flags().StringVar(&from, "from", "end", "begin at this `PLACE` of the topic: start or end")
	c.Flags().IntVarP(&n, "number", "n", 0, "end after `N` records (default 0: go on until Ctrl-C)")
	cli.Offer(c, "from", "start", "end")
	return c
}

// PrintRecord prints a record on one line. Unprintable bytes of the key are escaped, as a key may contain any.
func PrintRecord(w io.Writer, r topics.TailRecord) error {
	key, schema := "-", "-"
	if r.Key != nil {
		key = schemas.Printable(*r.Key)
	}
	if r.Schema != nil {
		schema = strings.TrimPrefix(*r.Schema, "weir.v1.")
	}
	_, err := fmt.Fprintf(w, "%d/%d  %s  %s  %s  %s\n",
		r.Partition, r.Offset, view.Clock(r.Timestamp), key, schema, r.Text())
	return err
}

// topicNames are the topics' names without a prefix.
func topicNames() (names []string) {
	for _, t := range schemas.Topics("", schemas.Sizes{}) {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}
