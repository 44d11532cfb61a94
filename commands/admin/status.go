package admin

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis/status"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
)

// errWrong ends `weir status` with status 1, after the report.
var errWrong = errors.New("something is wrong")

// NewStatus returns the command weir status.
func NewStatus() *cobra.Command {
	conf := cli.ConfigFlags{Reads: true}
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the installation, and everything that is wrong with it",
		Long: `Reports the state of the installation, and everything that is wrong with it.

The first line is the verdict. Four lines follow: the plan and the last Tick, the nodes of the last closed interval,
the partitions, and the archive. A fifth names rules that lack a fact about nodes. --all adds position, lag and owner of
every partition, the fates of all records, and the names of silent, late, misrouted and routeless nodes. Times are UTC.
Surplus counts the metrics that were left out since the beginning, because a summary holds at most 1,024.

It ends with status 1 if something is wrong, and reports the remedy. These things are wrong, among others:

  - The owner of a partition commits nothing for three intervals, and 30 s at least, while records wait.
  - Records were rejected in the last five minutes.
  - Records were late or misrouted in each of the last three intervals.
  - In each of them, more than half of the records were of jobs that had ended.
  - The last three rows of a job lack nodes.
  - A node or the balancer has another interval.
  - The balancer cannot read a list of jobs.
  - The clock of a node is off by more than a tenth of the interval, against the broker's.`,
		Example: `  weir status
  weir status --all
  weir status --json --config /etc/weir/status.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.Load()
			if err != nil {
				return err
			}
			s, err := status.Read(c.Context(), cfg)
			if err != nil {
				return err
			}
			m := &machineReport{}
			if s.Facts != nil {
				if known, err := machineOf(cfg, s.Facts); err == nil { // `weir check` reports a wrong configuration
					m = known
				}
			}
			s.Blind = append(s.Blind, m.blind()...)
			if asJSON {
				err = cli.PrintJSON(c.OutOrStdout(), []*status.Status{s})
			} else {
				err = printVerdict(c.OutOrStdout(), s, cfg.Cluster, m.shortBlind())
				if err == nil && all {
					cli.Say(c.OutOrStdout(), "")
					err = PrintStatus(c.OutOrStdout(), s)
				}
			}
			if err == nil && len(s.Wrong) > 0 {
				err = fmt.Errorf("%w:\n  %s", errWrong, strings.Join(wrongLines(s.Wrong, all || asJSON), "\n  "))
			}
			return err
		},
	}
	conf.Add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&all, "all", false, "print every partition, all fates and the names of nodes too")
	return c
}

// wrongLines returns the list of faults for a terminal. Unless all is set, a long list is cut.
func wrongLines(wrong []string, all bool) []string {
	const most = 10
	var lines []string
	for i, w := range wrong {
		if i == most && !all && len(wrong) > most+1 {
			return append(lines, fmt.Sprintf("and %d more: --all names them", len(wrong)-most))
		}
		lines = append(lines, schemas.Printable(w))
	}
	return lines
}

// printVerdict shows in five lines whether something is wrong, and the numbers that matter most. A sixth line warns of
// rules that are not evaluated.
func printVerdict(w io.Writer, s *status.Status, cluster, blind string) error {
	t := cli.NewTable(0)
	switch n := len(s.Wrong); n {
	case 0:
		t.Line("OK\t%s: nothing is wrong", cluster)
	case 1:
		t.Line("WRONG\t%s: one thing is wrong", cluster)
	default:
		t.Line("WRONG\t%s: %d things are wrong", cluster, n)
	}
	plan, tick := "none was published", "no Tick yet"
	if s.PlannedMs != nil {
		plan = fmt.Sprintf("epoch %d since %s", s.Epoch, view.Clock(*s.PlannedMs))
	}
	if s.TickMs != nil {
		age := time.Duration(*s.TickAgeMs) * time.Millisecond
		tick = fmt.Sprintf("last Tick %s, ended %v ago", view.Clock(*s.TickMs), age.Round(100*time.Millisecond))
	}
	t.Line("plan\t%s; %s", plan, tick)
	records := "no interval is closed"
	if n := len(s.Intervals); n > 0 {
		last := s.Intervals[n-1]
		records = fmt.Sprintf("%d of %d records in %s", last.Summarized, last.Expected, view.Clock(last.IntervalStart))
	}
	rejected := int64(0)
	for _, r := range s.Rejects {
		rejected += r.Count
	}
	t.Line("nodes\t%s; silent %d, late %d, misrouted %d, routeless %d; rejected %d in 5 min", records, len(s.Silent),
		len(s.Late), len(s.Misrouted), len(s.Routeless), rejected)
	folding := foldingLine(s.Partitions)
	if n := s.Collect["surplus"] + s.Merge["surplus"]; n > 0 {
		folding += fmt.Sprintf("; surplus %d", n)
	}
	t.Line("folding\t%s", folding)
	t.Line("archive\t%s", archiveLine(s.Sink))
	if blind != "" {
		t.Line("rules\t%s", blind)
	}
	return t.Print(w)
}

// foldingLine counts the partitions of each stage that keep up, and names the one with the largest lag.
func foldingLine(partitions []status.Partition) string {
	var stages []string
	all, good := map[string]int{}, map[string]int{}
	var worst *status.Partition
	for i := range partitions {
		p := &partitions[i]
		if all[p.Stage] == 0 {
			stages = append(stages, p.Stage)
		}
		all[p.Stage]++
		if stateOf(p) == "" && p.Owner != "" {
			good[p.Stage]++
		}
		if worst == nil || p.Lag > worst.Lag {
			worst = p
		}
	}
	if worst == nil {
		return "no partition"
	}
	for i, stage := range stages {
		stages[i] = fmt.Sprintf("%s %d of %d", stage, good[stage], all[stage])
	}
	return fmt.Sprintf("%s partitions keep up; largest lag %d (%s %d)",
		strings.Join(stages, ", "), worst.Lag, worst.Stage, worst.Partition)
}

// archiveLine counts the partitions that the archive keeps up with.
func archiveLine(partitions []status.SinkPartition) string {
	if len(partitions) == 0 {
		return "not seen from here"
	}
	good, lag := 0, int64(0)
	for _, p := range partitions {
		if !p.Behind && !p.Replaced && p.Waits == nil {
			good++
		}
		lag = max(lag, p.End-p.Position)
	}
	return fmt.Sprintf("%d of %d partitions keep up; largest lag %d", good, len(partitions), lag)
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

// stateOf returns one word for the table. The list of faults has the reason.
func stateOf(p *status.Partition) string {
	switch {
	case p.Stopped, p.Replaced:
		return "stopped"
	case p.Behind:
		return "behind"
	}
	return ""
}

// PrintStatus shows the stages in the order in which data flows: stages, archive, jobs, nodes. Unknown values are left
// out.
func PrintStatus(w io.Writer, s *status.Status) error {
	t := cli.NewTable(0)
	line := t.Line
	line("STAGE\tPARTITION\tPOSITION\tLAG\tCLOSED\tOWNER\tSTATE")
	for _, p := range s.Partitions {
		closed := "-"
		if p.ClosedMs != nil {
			closed = view.Clock(*p.ClosedMs)
		}
		line("%s\t%d\t%d\t%d\t%s\t%s\t%s", p.Stage, p.Partition, p.Position, p.Lag, closed,
			cli.OrDash(p.Owner), stateOf(&p))
	}
	for _, p := range s.Sink {
		line("sink\t%d\t%d\t%d\t\t\t", p.Partition, p.Position, p.End-p.Position)
	}
	if len(s.Sink) == 0 {
		line("sink\t\t\t\t\t\tits archive is not seen from here")
	}
	line("\n\tSUMMARIZED\tREJECTED\tLATE\tDROPPED\tDUPLICATE\tMISROUTED\tENDED\tLOST\tSURPLUS")
	for _, stage := range []struct {
		name   string
		counts map[string]int64
	}{{"collect", s.Collect}, {"merge", s.Merge}, {"find", s.Find}} {
		c := stage.counts
		if c == nil {
			continue // find never ran
		}
		line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d", stage.name, c["summarized"], c["rejected"], c["late"],
			c["dropped"], c["duplicate"], c["misrouted"], c["ended"], c["lost"], c["surplus"])
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
	return t.Print(w)
}

// share is a percentage that one decimal shows: only all nodes are 100.0 %.
func share(of float64) float64 {
	if of < 1 {
		of = min(of, 0.999)
	}
	return 100 * of
}
