package archive

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis/audit"
	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/commands/cli"
)

// errDiffers ends `weir audit` with status 1, after the report.
var errDiffers = errors.New("the accounts do not close")

// NewAudit returns the command weir audit.
func NewAudit() *cobra.Command {
	conf := cli.ConfigFlags{Reads: true}
	var asJSON bool
	o := audit.Options{Partition: -1}
	var since time.Duration
	var partition int
	c := &cobra.Command{
		Use:   "audit",
		Short: "Close the accounts: recompute from the log, and compare with summaries and archive",
		Long: `Closes the accounts of a running installation.

It folds the log of counters anew, by code of its own, and compares:

  - The fates of all records with those that Progress counts, and the numbers of each agent's records with its Gaps.
  - Every summary with the records that it was made of. Exact numbers must be exact. A bracket must hold the true
    decile. Split jobs too.
  - Every rejected record with topic rejects.
  - Every row of the archive with the topic, and the chain of files. The archive must be visible in sink.dir, unless
    --no-archive leaves it out.
  - One record in a hundred with its decoding by goavro, which shares no code with weir's codec, field by field. With
    --full every record.

It audits the intervals that all topics still hold, up to the committed positions. It only reads. If anything differs,
it names the place and ends with status 1.

It holds the records of the open intervals in memory, not the whole log. --since bounds the time, and --partition
audits one partition of counters without split jobs, agents and archive.`,
		Example: `  weir audit
  weir audit --since 1h --json --config /etc/weir/weir.yaml
  weir audit --since 10m --full`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = progressTo(c.ErrOrStderr(), "audit")
			if c.Flags().Changed("partition") {
				if partition < 0 || partition > math.MaxInt32 {
					return cli.Usage(fmt.Errorf("--partition %d is not the number of a partition", partition))
				}
				o.Partition = int32(partition)
			}
			if c.Flags().Changed("since") {
				if since <= 0 {
					return cli.Usage(fmt.Errorf("--since %v must be more than 0", since))
				}
				o.Since = time.Now().Add(-since)
			}
			cfg, err := conf.Load()
			if err != nil {
				return err
			}
			return runAudit(c, cfg, o, asJSON)
		},
	}
	conf.Add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().Var((*cli.Age)(&since), "since",
		"audit the intervals of this last `TIME`, such as 1h (default: all that the topics hold)")
	c.Flags().BoolVar(&o.NoArchive, "no-archive", false, "leave the archive out: it is not seen from here")
	c.Flags().BoolVar(&o.Full, "full", false, "decode every record twice, not one in a hundred")
	c.Flags().IntVar(&partition, "partition", 0, "audit partition `N` of counters alone (default: all)")
	return c
}

func runAudit(c *cobra.Command, cfg config.Config, o audit.Options, asJSON bool) error {
	r, err := audit.Run(c.Context(), cfg, o)
	switch {
	case errors.Is(err, audit.ErrNoPartition):
		return cli.Usage(err)
	case err != nil:
		return err
	case asJSON:
		err = cli.PrintJSON(c.OutOrStdout(), []*audit.Report{r})
	default:
		err = printAudit(c.OutOrStdout(), r)
	}
	if err == nil && r.Found > 0 {
		err = fmt.Errorf("%w: differences: %d", errDiffers, r.Found)
	}
	return err
}

// progressTo returns a function that reports how far a long audit is.
func progressTo(w io.Writer, command string) func(read, all, interval int64) {
	return func(read, all, interval int64) {
		at := ""
		if interval > 0 {
			at = ", at interval " + audit.Instant(interval)
		}
		cli.Say(w, "weir %s: %d of %d offsets read%s", command, read, all, at)
	}
}

// shownDifferences is how many differences the table shows.
const shownDifferences = 20

func printAudit(w io.Writer, r *audit.Report) error {
	t := cli.NewTable(0)
	from, to := "the first record", "-"
	if r.FromMs != nil {
		from = audit.Instant(*r.FromMs)
	}
	if r.ToMs != nil {
		to = audit.Instant(*r.ToMs)
	}
	t.Line("intervals\tfrom %s to %s", from, to)
	t.Line("\nSTAGE\tPARTITION\tPOSITION\tRECORDS\tSUMMARIZED\tLATE\tDROPPED\tDUPLICATE\tMISROUTED\tENDED\t" +
		"REJECTED\tOPEN")
	for _, a := range r.Partitions {
		f := a.Fates
		t.Line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d", a.Stage, a.Partition, a.Position, a.Records,
			f.Summarized, f.Late, f.Dropped, f.Duplicate, f.Misrouted, f.Ended, f.Rejected, a.Open)
	}
	if len(r.Archive) > 0 {
		t.Line("\nARCHIVE\tPARTITION\tPOSITION\tFILES\tCOMPARED\tSUMMARIES\tROWS\tGAPS\tLAG")
	}
	for _, c := range r.Archive {
		t.Line("sink\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d",
			c.Partition, c.Next, c.Files, c.Compared, c.Summaries, c.Rows, c.Gaps, c.End-c.Next)
	}
	var records, gaps, missing int64
	for _, run := range r.Runs {
		records, gaps, missing = records+run.Records, gaps+run.Gaps, missing+run.Missing
	}
	t.Line("\nagents\t%d runs: %d records acknowledged, %d given up and reported in Gaps, %d missing",
		len(r.Runs), records, gaps, missing)
	s := r.Summaries
	t.Line("summaries\t%d recomputed: %d NODE, %d EXACT, %d ESTIMATED with %d brackets; %d in flight",
		s.Recomputed, s.Node, s.Exact, s.Estimated, s.Brackets, s.InFlight)
	t.Line("certified\t%d summaries of metrics compared with the values", s.Certified)
	t.Line("shares\t%d of split jobs", s.Shares)
	t.Line("rejects\t%d rejected records found on topic rejects", r.Rejects)
	t.Line("decoded\t%d of %d records twice, by weir and by goavro", r.Decoded.Twice, r.Decoded.Read)
	for _, n := range r.Notes {
		t.Line("note\t%s", n)
	}
	for i := range r.Differences[:min(len(r.Differences), shownDifferences)] {
		t.Line("differs\t%s", r.Differences[i].String())
	}
	switch more := r.Found - shownDifferences; {
	case r.Found == 0:
		t.Line("\nThe accounts close.")
	case more > 0:
		t.Line("differs\tand %d more: --json lists up to 1,000", more)
	}
	return t.Print(w)
}
