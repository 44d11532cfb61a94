// Package archive holds the commands that maintain the archive, check it against the topics, and query it: archive,
// audit, replay and sql.
package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"

	"github.com/weirhpc/weir/commands/cli"
)

// NewArchive returns the command weir archive.
func NewArchive() *cobra.Command {
	c := &cobra.Command{
		Use:   "archive",
		Short: "Compact, verify and measure the archive",
		Long: `Compacts, verifies and measures the archive, without any broker.

docs/archive.md describes the files, and what readers see while files are replaced.`,
		Example: `  weir archive compact --config /etc/weir/sink.yaml
  weir archive verify --dir weir-data/archive
  weir archive stats --dir weir-data/archive`,
		RunE: cli.NeedsSubcommand,
	}
	c.AddCommand(newCompact(), newTotals(), newVerify(), newStats())
	return c
}

// Flags select the archive. With --dir no configuration is needed.
type Flags struct {
	cli.ConfigFlags
	dir    string
	asJSON bool
}

// Add adds the flags to a command.
func (f *Flags) Add(c *cobra.Command) {
	f.Reads = true // for the prefix of a running weir up
	f.ConfigFlags.Add(c)
	c.Flags().StringVar(&f.dir, "dir", "", "`DIR` of the archive (default: sink.dir of the configuration)")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object a line")
	cli.OfferDirectories(c, "dir")
}

// Load returns the directory and the topic of the archive. It asks no broker.
func (f *Flags) Load() (dir, topic string, err error) {
	cfg, err := config.Load(f.Source(cli.EtcFile))
	if err != nil {
		return "", "", cli.Usage(err)
	}
	if dir = f.dir; dir == "" {
		dir = cfg.Sink.Dir
	}
	if dir, err = filepath.Abs(dir); err == nil {
		err = cli.Directory("sink.dir", dir)
	}
	if err != nil {
		return "", "", cli.Usage(err)
	}
	return dir, cfg.Prefix + schemas.TopicJobSummary, nil
}

// dates checks that the arguments are dates.
func dates(c *cobra.Command, args []string) error {
	for _, a := range args {
		if _, err := time.Parse(time.DateOnly, a); err != nil {
			return cli.Usage(fmt.Errorf("%s: DATE %q is not a date such as 2026-11-21", c.CommandPath(), a))
		}
	}
	return nil
}

// compactMemory is the soft memory limit of `weir compact`, in bytes: beyond it the garbage collector works harder.
const compactMemory = 88 << 20

func newCompact() *cobra.Command {
	var f Flags
	var wait time.Duration
	c := &cobra.Command{
		Use:   "compact [DATE...]",
		Short: "Make one file a partition and date out of many",
		Long: `Makes one file for each partition and date of the archive, out of the many that the sink writes.

A date is due when it has been over for 26 hours and every partition has files of a later date. It is due again when 32
files of late rows have come. Without DATE all due dates are compacted.

The certified summaries of the rows move into rollups, one for each hour, job and metric.

The new files are read back and compared before they replace the others. The old ones are kept in .stage/ for an hour,
and deleted by a later run. If a run is killed, the next one finishes or undoes it. Run it once an hour: deploy/systemd
contains a timer.

It ends with status 1 if a due date could not be compacted, and reports the remedy.`,
		Example: `  weir archive compact --config /etc/weir/sink.yaml
  weir archive compact 2026-11-21 --dir weir-data/archive`,
		Args: dates,
		RunE: func(c *cobra.Command, args []string) error {
			dir, topic, err := f.Load()
			if err != nil {
				return err
			}
			if wait < 0 {
				return cli.Usage(fmt.Errorf("--wait %v is negative: how long to wait for readers, such as 10m", wait))
			}
			debug.SetMemoryLimit(compactMemory)
			show := &compactReport{out: c.OutOrStdout(), asJSON: f.asJSON}
			return errors.Join(compact.Run(c.Context(), compact.Options{
				Dir: dir, Topic: topic, Dates: args, Wait: wait, Report: show.date,
				Progress: func(date string, partition int32, rows int64) {
					cli.Say(c.ErrOrStderr(), "%s: partition %d: %d rows read", date, partition, rows)
				},
			}), show.err)
		},
	}
	f.Add(c)
	c.Flags().DurationVar(&wait, "wait", time.Hour, "try for this `LENGTH` to get a date while readers hold it")
	return c
}

// compactReport prints each date as soon as it is compacted.
type compactReport struct {
	out    io.Writer
	asJSON bool
	err    error
}

func (r *compactReport) date(d compact.Date) {
	if r.err != nil {
		return
	}
	if r.asJSON {
		r.err = cli.PrintJSON(r.out, []compact.Date{d})
		return
	}
	switch d.State {
	case compact.Compacted:
		_, r.err = fmt.Fprintf(r.out, "%s: %d files became %d: %d rows, %s became %s, in %v\n", d.Date, d.FilesBefore,
			d.FilesAfter, d.Rows, megabytes(d.BytesBefore), megabytes(d.BytesAfter),
			time.Duration(d.Seconds*float64(time.Second)).Round(10*time.Millisecond))
	default:
		_, r.err = fmt.Fprintf(r.out, "%s: %s: %s\n", d.Date, d.State, schemas.Printable(d.Reason))
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

func newVerify() *cobra.Command {
	var f Flags
	c := &cobra.Command{
		Use:   "verify [DATE...]",
		Short: "Read the archive and check it against its checksums and counts",
		Long: `Reads all files of the archive, and compares them with their checksums and counts.

Every page carries a checksum, every file its number of rows and their order, and a compacted file a hash of its rows.
The chain of each partition must have no hole and no overlap. The rollups must contain each row of the compacted files
once. Jobs and findings must be of their date. Totals are made anew and compared. Without DATE all dates are read.

It ends with status 1 if something is wrong, and reports the remedy.`,
		Example: `  weir archive verify --config /etc/weir/sink.yaml
  weir archive verify 2026-11-21 --json --dir weir-data/archive`,
		Args: dates,
		RunE: func(c *cobra.Command, args []string) error {
			dir, topic, err := f.Load()
			if err != nil {
				return err
			}
			return verifyArchive(c.Context(), c.OutOrStdout(), dir, topic, args, f.asJSON)
		},
	}
	f.Add(c)
	return c
}

func verifyArchive(ctx context.Context, out io.Writer, dir, topic string, dates []string, asJSON bool) error {
	var failed error
	err := compact.Verify(ctx, dir, topic, dates, func(v compact.Verified) {
		if failed != nil {
			return
		}
		if asJSON {
			failed = cli.PrintJSON(out, []compact.Verified{v})
			return
		}
		state := "whole"
		if len(v.Faults) > 0 {
			state = fmt.Sprintf("%d faults", len(v.Faults))
		}
		if v.Rollups > 0 {
			state += fmt.Sprintf(", with %d rollups", v.Rollups)
		}
		if v.Jobs > 0 {
			state += fmt.Sprintf(", %d jobs", v.Jobs)
		}
		if v.Findings > 0 {
			state += fmt.Sprintf(", %d findings", v.Findings)
		}
		_, failed = fmt.Fprintf(out, "%s: %d files, %d rows: %s\n", cli.OrDash(v.Date), v.Files, v.Rows, state)
		for _, fault := range v.Faults {
			cli.Say(out, "  %s", schemas.Printable(fault))
		}
	})
	if err == nil || errors.Is(err, compact.ErrWrong) {
		err = cmp.Or(verifyTotals(ctx, out, dir, topic, dates, asJSON), err)
	}
	return errors.Join(err, failed)
}

func newStats() *cobra.Command {
	var f Flags
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show files, rows and bytes of each date of the archive",
		Long: `Shows how many files, rows and bytes each date of the archive has.

SMALL counts the files of the sink, COMPACTED the files of "weir archive compact", and GENERATION the compactions of
the date. BAD counts unreadable summaries, and GAPS summaries that were accepted as lost. ROLLUPS are hours of a metric
of a job. JOBS counts the jobs that ended on the date, and TOTALS their metrics. Only footers are read.`,
		Example: `  weir archive stats --config /etc/weir/sink.yaml
  weir archive stats --json --dir weir-data/archive`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, topic, err := f.Load()
			if err != nil {
				return err
			}
			all, err := statsOf(c.Context(), dir, topic)
			if err != nil {
				return err
			}
			if f.asJSON {
				return cli.PrintJSON(c.OutOrStdout(), all)
			}
			return printStats(c.OutOrStdout(), all)
		},
	}
	f.Add(c)
	return c
}

func printStats(w io.Writer, all []archiveStats) error {
	t := cli.NewTable(0)
	t.Line("DATE\tSMALL\tCOMPACTED\tGENERATION\tROWS\tSIZE\tBYTES/ROW\tBAD\tGAPS\tDAMAGED\tROLLUPS\tJOBS\tTOTALS")
	line := func(s archiveStats) {
		perRow := "-"
		if s.Rows > 0 {
			perRow = fmt.Sprintf("%.1f", float64(s.Bytes)/float64(s.Rows))
		}
		t.Line("%s\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d", s.Date, s.Small, s.Compacted, s.Generation, s.Rows,
			megabytes(s.Bytes), perRow, s.Undecodable, s.Gaps, s.Damaged, s.Rollups, s.Jobs, s.Totals)
	}
	sum := archiveStats{DateStats: compact.DateStats{Date: "total"}}
	for _, s := range all {
		line(s)
		sum.Small, sum.Compacted = sum.Small+s.Small, sum.Compacted+s.Compacted
		sum.Generation = max(sum.Generation, s.Generation)
		sum.Rows, sum.Bytes, sum.Undecodable = sum.Rows+s.Rows, sum.Bytes+s.Bytes, sum.Undecodable+s.Undecodable
		sum.Gaps, sum.Damaged = sum.Gaps+s.Gaps, sum.Damaged+s.Damaged
		sum.Rollups, sum.RollupBytes = sum.Rollups+s.Rollups, sum.RollupBytes+s.RollupBytes
		sum.Jobs, sum.JobBytes = sum.Jobs+s.Jobs, sum.JobBytes+s.JobBytes
		sum.Findings, sum.FindingBytes = sum.Findings+s.Findings, sum.FindingBytes+s.FindingBytes
		sum.Totals += s.Totals
	}
	line(sum)
	return t.Print(w)
}
