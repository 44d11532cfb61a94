package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/commands/cli"

	"github.com/weirhpc/weir/analysis/topics"
)

// totalsFlags select the totals.
type totalsFlags struct {
	Flags
	through          string
	interim, running bool
	wait             time.Duration
}

func newTotals() *cobra.Command {
	var f totalsFlags
	c := &cobra.Command{
		Use:   "totals [DATE...]",
		Short: "Make one row of each metric of a job over its whole life",
		Long: `Makes job_totals/: one row of each metric of a job over its whole life, by the date of the job's end.

A job gets totals once it is final: it has ended, collect and merge have closed its end, and its summaries are
archived. The brokers know that. For an archive without brokers, --through declares every job final that ended by then.

Without DATE, all dates with changed jobs or rows are made, and the others are left alone. Run it once an hour, after
"weir archive compact". Pseudo-jobs get no totals, nor do jobs that are missing in archive/jobs, because the archive
does not know their end.

--running prints the totals of running jobs so far, and writes nothing. It needs no brokers. The last rows of the topic
are missing until the sink archives them after sink.period.

It ends with status 1 if the totals of a date could not be made, and reports the remedy.`,
		Example: `  weir archive totals --config /etc/weir/sink.yaml
  weir archive totals 2026-11-21 --interim
  weir archive totals --dir archive --through 2026-11-22T00:00:00Z
  weir archive totals --running --json`,
		Args: dates,
		RunE: func(c *cobra.Command, args []string) error {
			if f.running {
				return f.printRunning(c, args)
			}
			return f.make(c, args)
		},
	}
	f.Add(c)
	c.Flags().StringVar(&f.through, "through", "",
		"declare the archive complete up to this `TIME`, such as 2026-11-22T00:00:00Z")
	c.Flags().BoolVar(&f.interim, "interim", false, "also make totals of jobs that ended and are not final")
	c.Flags().BoolVar(&f.running, "running", false, "print the totals so far of the jobs that run")
	c.Flags().DurationVar(&f.wait, "wait", time.Hour,
		"try for this `LENGTH` to replace a file while readers hold the archive")
	return c
}

// frontier returns the function that decides which jobs are final.
func (f *totalsFlags) frontier() (func(context.Context, totals.Archived) (totals.Frontier, error), error) {
	if f.through != "" {
		at, err := time.Parse(time.RFC3339, f.through)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--through %q is not a time such as 2026-11-22T00:00:00Z", f.through))
		}
		return func(context.Context, totals.Archived) (totals.Frontier, error) {
			return totals.Frontier{ThroughMs: at.UnixMilli(), Reason: "--through"}, nil
		}, nil
	}
	cfg, err := config.Load(f.Source(cli.EtcFile))
	if err != nil {
		return nil, cli.Usage(err)
	}
	if len(cfg.Kafka.Brokers) == 0 {
		return nil, cli.Usage(fmt.Errorf("%w: for an archive without brokers, --through TIME states which time it "+
			"has all intervals of", kafka.ErrNoBrokers))
	}
	return func(ctx context.Context, a totals.Archived) (totals.Frontier, error) {
		cl, err := topics.Connect(ctx, cfg, kafka.ReaderOpts()...)
		if err != nil {
			return totals.Frontier{}, err
		}
		defer cl.Close()
		return totals.Ask(ctx, cfg, cl, a)
	}, nil
}

// options returns the options that all readers of the archive's rows share.
func (f *totalsFlags) options(c *cobra.Command) (o totals.Options, err error) {
	o = totals.Options{Interim: f.interim, Wait: f.wait}
	if f.wait < 0 {
		return o, cli.Usage(fmt.Errorf("--wait %v is negative: how long to wait for readers, such as 10m", f.wait))
	}
	o.Dir, o.Topic, err = f.Load()
	o.Progress = func(date string, rows int64) {
		cli.Say(c.ErrOrStderr(), "%s: %d rows folded", date, rows)
	}
	return o, err
}

func (f *totalsFlags) make(c *cobra.Command, args []string) error {
	o, err := f.options(c)
	if err != nil {
		return err
	}
	ask, err := f.frontier()
	if err != nil {
		return err
	}
	var frontier totals.Frontier
	o.Dates = args
	o.Frontier = func(ctx context.Context, a totals.Archived) (_ totals.Frontier, err error) {
		frontier, err = ask(ctx, a)
		return frontier, err
	}
	show := &totalsReport{out: c.OutOrStdout(), asJSON: f.asJSON}
	o.Report = show.date
	err = totals.Run(c.Context(), o)
	if show.waiting > 0 && err == nil {
		cli.Say(c.ErrOrStderr(), "%d jobs ended and are not final yet: %s", show.waiting, waitsFor(frontier))
	}
	return errors.Join(err, show.err)
}

// waitsFor returns the reason that jobs are not final.
func waitsFor(f totals.Frontier) string {
	if f.ThroughMs < 0 {
		return f.Reason
	}
	text := fmt.Sprintf("all intervals are closed up to %s (%s)",
		time.UnixMilli(f.ThroughMs).UTC().Format(time.RFC3339), f.Reason)
	if len(f.Waiting) > 0 {
		text += fmt.Sprintf(", and %d jobs have summaries that are not archived yet", len(f.Waiting))
	}
	return text
}

// totalsReport prints each date as soon as its totals are made.
type totalsReport struct {
	out     io.Writer
	asJSON  bool
	waiting int
	err     error
}

func (r *totalsReport) date(d totals.Date) {
	r.waiting += d.Waiting
	switch {
	case r.err != nil:
	case r.asJSON:
		r.err = cli.PrintJSON(r.out, []totals.Date{d})
	case d.State == totals.Written:
		_, r.err = fmt.Fprintf(r.out, "%s: %d jobs, %d totals, %s, in %v\n", d.Date, d.Jobs, d.Rows, megabytes(d.Bytes),
			time.Duration(d.Seconds*float64(time.Second)).Round(10*time.Millisecond))
	case d.Reason != "":
		_, r.err = fmt.Fprintf(r.out, "%s: %s: %s\n", d.Date, d.State, schemas.Printable(d.Reason))
	default:
		_, r.err = fmt.Fprintf(r.out, "%s: %s: %d totals\n", d.Date, d.State, d.Rows)
	}
}

func (f *totalsFlags) printRunning(c *cobra.Command, args []string) error {
	if len(args) > 0 || f.interim || f.through != "" {
		return cli.Usage(errors.New(
			"--running prints all jobs that run: it goes without DATE, --interim and --through"))
	}
	o, err := f.options(c)
	if err != nil {
		return err
	}
	t := cli.NewTable(0)
	t.Line("JOB\tRESTART\tMETRIC\tUNIT\tSINCE\tMEASURED\tMEAN\tMIN\tMEDIAN\tMAX\tCOMPLETE\tLOWEST\tSHARE")
	until, err := totals.Running(c.Context(), o, func(r *totals.Total) error {
		if f.asJSON {
			return cli.PrintJSON(c.OutOrStdout(), []*totals.Total{r})
		}
		t.Line("%s\t%d\t%s\t%s\t%s\t%v\t%s\t%s\t%s\t%s\t%s\t%s\t%s", r.JobID, r.Restart, text(r.Metric), text(r.Unit),
			time.UnixMilli(r.Start).UTC().Format(time.RFC3339),
			time.Duration(r.MeasuredS*float64(time.Second)).Round(time.Second), cli.Number(r.Mean), cli.Number(r.Min),
			cli.Number(r.D5), cli.Number(r.Max), cli.Number(r.Completeness),
			text(r.LowNode), cli.Number(r.LowNodeShare))
		return nil
	})
	if err == nil && !f.asJSON {
		err = t.Print(c.OutOrStdout())
	}
	if err == nil && until > 0 {
		cli.Say(c.ErrOrStderr(), "up to %s: later rows are not archived yet, which takes up to sink.period",
			time.UnixMilli(until).UTC().Format(time.RFC3339))
	}
	return err
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// archiveStats are the numbers of a date, together with the totals of jobs that ended on it.
type archiveStats struct {
	compact.DateStats
	Totals      int64 `json:"totals"`
	TotalsBytes int64 `json:"totals_bytes"`
}

// statsOf returns the numbers of each date, oldest first.
func statsOf(ctx context.Context, dir, topic string) (all []archiveStats, err error) {
	dates, err := compact.Stats(ctx, dir, topic)
	if err != nil {
		return nil, err
	}
	sizes, err := totals.Sizes(dir)
	if err != nil {
		return nil, err
	}
	for _, s := range dates {
		all = append(all, archiveStats{s, sizes[s.Date].Rows, sizes[s.Date].Bytes})
		delete(sizes, s.Date)
	}
	for date, s := range sizes { // dates without rows: they were deleted
		all = append(all, archiveStats{compact.DateStats{Date: date}, s.Rows, s.Bytes})
	}
	slices.SortFunc(all, func(a, b archiveStats) int { return strings.Compare(a.Date, b.Date) })
	return all, nil
}

// verifyTotals makes totals anew, and prints which differ.
func verifyTotals(ctx context.Context, out io.Writer, dir, topic string, dates []string, asJSON bool) error {
	var failed error
	err := totals.Verify(ctx, dir, topic, dates, func(v totals.Verified) {
		if failed != nil {
			return
		}
		if asJSON {
			failed = cli.PrintJSON(out, []totals.Verified{v})
			return
		}
		state := "whole"
		switch {
		case len(v.Faults) > 0:
			state = fmt.Sprintf("%d faults", len(v.Faults))
		case v.Outdated:
			state = "not compared, since jobs or rows changed: `weir archive totals` makes them anew"
		}
		_, failed = fmt.Fprintf(out, "%s: %d totals: %s\n", v.Date, v.Rows, state)
		for _, fault := range v.Faults {
			cli.Say(out, "  %s", schemas.Printable(fault))
		}
	})
	return errors.Join(err, failed)
}
