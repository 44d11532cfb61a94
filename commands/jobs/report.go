package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"

	system "github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/report/usage"

	"github.com/weirhpc/weir/commands/archive"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"

	"github.com/weirhpc/weir/analysis/overview"
)

// NewReport returns the command weir report.
func NewReport() *cobra.Command {
	c := &cobra.Command{
		Use:   "report",
		Short: "Report on the machine, a user or an account over days or months",
		Long:  "Reports on the machine, a user or an account over days or months, from the archive.",
		Example: `  weir report system --from 2026-10-01 --to 2026-11-01
  weir report user alice --month 2026-11`,
		RunE: cli.NeedsSubcommand,
	}
	c.AddCommand(newReportSystem(), newReportUsage(usage.User), newReportUsage(usage.Account))
	return c
}

// systemFlags are the flags of weir report system.
type systemFlags struct {
	reading.ReadFlags
	reading.StyleFlags
	from, to, html string
	options        system.Options
}

func newReportSystem() *cobra.Command {
	var f systemFlags
	c := &cobra.Command{
		Use:   "system",
		Short: "Report how well the machine was used, by size, user and account",
		Long: `Reports how well the machine was used, by size, user and account.

It reads the archive only. It counts jobs that ended between --from and --to; dates are UTC, and times are whole hours.
Small and short jobs are left out as tests. Cores are busy, wasted (idle in a job), free (in no job), or not seen; for
these numbers tests count too. The number of cores comes from "machine" in the configuration.

Sizes are powers of two. A user is named if more than 75 % of the jobs are above or below the middle half of their
size. Suggestions for tuning are ranked by core-hours times severity of the findings. --json and --csv contain all
numbers.`,
		Example: `  weir report system
  weir report system --from 2026-10-01 --to 2026-11-01 --without-queue test,devel
  weir report system --dir weir-data/archive --html machine.html`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			style, out, err := f.Style(c)
			if err != nil {
				return err
			}
			r, err := f.read(c)
			switch {
			case err != nil:
				return err
			case f.html != "":
				return systemPage(f.html, r)
			case f.AsJSON || f.AsCSV:
				return cli.PrintRows(c.OutOrStdout(), f.CSVFlags, r.Rows())
			}
			return term.System(out, r, style)
		},
	}
	f.ReadFlags.Add(c)
	f.StyleFlags.Add(c)
	c.Flags().StringVar(&f.from, "from", "",
		"jobs that ended since `TIME`: a date of UTC, or 90d ago (default: the archive's last 30 days)")
	c.Flags().StringVar(&f.to, "to", "", "jobs that ended before `TIME` (default: the end of the archive)")
	c.Flags().StringVar(&f.html, "html", "", "write a page to `FILE`, which any browser shows")
	c.Flags().Int64Var(&f.options.MinCores, "min-cores", 8, "leave out jobs with less than `N` cores")
	c.Flags().DurationVar(&f.options.MinTime, "min-time", 10*time.Minute,
		"leave out jobs that ran for `LENGTH` or less")
	c.Flags().StringSliceVar(&f.options.WithoutQueues, "without-queue", []string{"test", "devel", "debug"},
		"leave out jobs of queues `Q`, with commas between them")
	cli.OfferFiles(c, "html", "html")
	return c
}

// read returns the report. It reads the archive only, so no broker needs to answer.
func (f *systemFlags) read(c *cobra.Command) (*system.Report, error) {
	ask, err := f.ask(time.Now())
	if err != nil {
		return nil, cli.Usage(err)
	}
	cfg, dir, err := archiveAlone(&f.ReadFlags)
	if err != nil {
		return nil, err
	}
	ask.Dir = dir
	if ask.Set, err = reading.RuleSet(cfg); err != nil {
		return nil, cli.Usage(err)
	}
	return overview.Load(c.Context(), cfg, ask)
}

// archiveAlone returns the configuration, and the directory of the archive. It needs no brokers.
func archiveAlone(f *reading.ReadFlags) (cfg config.Config, dir string, err error) {
	if f.Dir != "" {
		cfg, err = f.Load()
		return cfg, f.Dir, err
	}
	archive := archive.Flags{ConfigFlags: f.ConfigFlags}
	if dir, _, err = archive.Load(); err != nil {
		return cfg, "", err
	}
	cfg, err = f.Local()
	return cfg, dir, err
}

func (f *systemFlags) ask(now time.Time) (a overview.Ask, err error) {
	switch {
	case f.Exclusive() != nil:
		return a, f.Exclusive()
	case f.html != "" && (f.AsJSON || f.AsCSV):
		return a, errors.New("--html, --json and --csv: name one of them")
	case f.options.MinCores < 0:
		return a, fmt.Errorf("--min-cores %d must be at least 0", f.options.MinCores)
	case f.options.MinTime < 0:
		return a, fmt.Errorf("--min-time %v must be at least 0", f.options.MinTime)
	}
	a.Options = f.options
	if a.From, err = cli.TimeFlag("from", f.from, now); err != nil {
		return a, err
	}
	if a.To, err = cli.TimeFlag("to", f.to, now); err != nil {
		return a, err
	}
	if !a.From.IsZero() && !a.To.IsZero() && !a.From.Before(a.To) {
		return a, fmt.Errorf("--from %s must be before --to %s", f.from, f.to)
	}
	return a, nil
}
