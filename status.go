package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

// errWrong ends `weir status` with status 1, after the report of what is wrong.
var errWrong = errors.New("something is wrong")

func newStatus() *cobra.Command {
	conf := configFlags{reads: true}
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Say how the installation is, and what is wrong with it",
		Long: `Reports how the installation is, and what is wrong with it.

It shows the last plan and Tick, and position, lag and owner of every partition. It shows how far the archive is, and
the fates of the records: all of them, and those of the last three closed intervals. Silent, late, misrouted and
routeless nodes are named. Times are UTC.

It ends with status 1 if something is wrong, and reports what mends it. Among what is wrong:

  - The owner of a partition commits nothing for three intervals, and 30 s at least, while records wait.
  - Records were rejected in the last five minutes.
  - Records were late or misrouted in each of the last three intervals.
  - In each of them, more than half of the records were of jobs that had ended.
  - The last three rows of a job lack nodes.
  - A node or the balancer has another interval.
  - The clock of a node is off by more than a tenth of the interval, against the broker's.`,
		Example: `  weir status
  weir status --json --config /etc/weir/weir.yaml`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			s, err := analysis.ReadStatus(c.Context(), cfg)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), []*analysis.Status{s})
			} else {
				err = printStatus(c.OutOrStdout(), s)
			}
			if err == nil && len(s.Wrong) > 0 {
				lines := make([]string, len(s.Wrong))
				for i, w := range s.Wrong {
					lines[i] = schemas.Printable(w)
				}
				err = fmt.Errorf("%w:\n  %s", errWrong, strings.Join(lines, "\n  "))
			}
			return err
		},
	}
	conf.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// hostlist returns the names as a hostlist that fits on a few lines of a terminal. There may be thousands.
func hostlist(names []string) string {
	const longest, shown = 400, 20
	text := topology.FoldHosts(names)
	if more := len(names) - shown; len(text) > longest && more > 0 {
		return fmt.Sprintf("%s and %d more: --json names all", topology.FoldHosts(names[:shown]), more)
	}
	return text
}

// stateOf is one word for the table. The reason is in the list of what is wrong.
func stateOf(p *analysis.PartitionStatus) string {
	switch {
	case p.Stopped, p.Replaced:
		return "stopped"
	case p.Behind:
		return "behind"
	}
	return ""
}

// printStatus shows the way of the data from top to bottom: plan, stages, archive, fates, nodes. What is not known is
// left out.
func printStatus(w io.Writer, s *analysis.Status) error {
	t := newTable(0)
	line := t.line
	if s.PlannedMs != nil {
		line("plan\tepoch %d, since %s", s.Epoch, view.Clock(*s.PlannedMs))
	}
	if s.TickMs != nil {
		age := time.Duration(*s.TickAgeMs) * time.Millisecond
		line("tick\t%s, ended %v ago", view.Clock(*s.TickMs), age.Round(100*time.Millisecond))
	}
	line("\nSTAGE\tPARTITION\tPOSITION\tLAG\tCLOSED\tOWNER\tSTATE")
	for _, p := range s.Partitions {
		closed := "-"
		if p.ClosedMs != nil {
			closed = view.Clock(*p.ClosedMs)
		}
		line("%s\t%d\t%d\t%d\t%s\t%s\t%s", p.Stage, p.Partition, p.Position, p.Lag, closed,
			orDash(p.Owner), stateOf(&p))
	}
	for _, p := range s.Sink {
		line("sink\t%d\t%d\t%d\t\t\t", p.Partition, p.Position, p.End-p.Position)
	}
	if len(s.Sink) == 0 {
		line("sink\t\t\t\t\t\tits archive is not seen from here")
	}
	line("\n\tSUMMARIZED\tREJECTED\tLATE\tDROPPED\tDUPLICATE\tMISROUTED\tENDED\tLOST")
	for _, stage := range []struct {
		name   string
		counts map[string]int64
	}{{"collect", s.Collect}, {"merge", s.Merge}, {"find", s.Find}} {
		c := stage.counts
		if c == nil {
			continue // find never ran
		}
		line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d", stage.name, c["summarized"], c["rejected"], c["late"], c["dropped"],
			c["duplicate"], c["misrouted"], c["ended"], c["lost"])
	}
	if len(s.Intervals) > 0 {
		line("\nINTERVAL\tEXPECTED\tSUMMARIZED\tLATE\tMISROUTED\tENDED")
	}
	for _, i := range s.Intervals {
		line("%s\t%d\t%d\t%d\t%d\t%d", view.Clock(i.IntervalStart), i.Expected, i.Summarized, i.Late, i.Misrouted,
			i.Ended)
	}
	for _, nodes := range []struct {
		what  string
		names []string
	}{
		{"silent nodes", s.Silent},
		{"late nodes", s.Late},
		{"misrouted nodes", s.Misrouted},
		{"routeless nodes", s.Routeless},
	} {
		if len(nodes.names) > 0 {
			line("%s\t%s", nodes.what, hostlist(nodes.names))
		}
	}
	if y := s.Synchrony; y != nil {
		line("\nsynchrony\t%.1f %% of %d nodes sampled within 0.6 s of the end of interval %s",
			share(y.InWindow), y.Nodes, view.Clock(y.IntervalStart))
	}
	return t.print(w)
}

// share is a percentage that one decimal shows: only all nodes are 100.0 %.
func share(of float64) float64 {
	if of < 1 {
		of = min(of, 0.999)
	}
	return 100 * of
}
