package jobs

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"

	"github.com/weirhpc/weir/report/compare"
	pages "github.com/weirhpc/weir/report/page"
	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// compareFlags are the flags of weir compare.
type compareFlags struct {
	asker
	reading.ReadFlags
	reading.StyleFlags
	html   string
	anyway bool
}

// NewCompare returns the command weir compare.
func NewCompare() *cobra.Command { return direct(newCompare) }

func newCompare(by asker) *cobra.Command {
	f := compareFlags{asker: by}
	c := &cobra.Command{
		Use:   "compare A B",
		Short: "Show two jobs side by side, and what changed from one to the other",
		Long: `Shows two jobs side by side, and what changed from one to the other.

Jobs are named as for "weir job". It lists the requests, the time, core-hours, GPU-hours and the measured energy of both
jobs; a * marks the lines that differ. Then it lists the metrics that changed, the largest effect first, and the
findings that appeared and went away.

A metric has changed if the bounds of a decile do not overlap, or if the means differ, by at least 2 points of a share
or 2 % of the value. AT is the decile with the largest difference, or the mean. Deciles are exact, or have bounds that
hold for certain, so estimates never make a change. A change is certain for the values that were measured. It does not
show that the next run changes as well: two runs of one program differ by chance too.

Jobs are not comparable if they ran on different clusters or node types, have not ended, have fewer than 30 measured
intervals, or have no metric in common. --anyway compares them nevertheless.

It reads the totals of jobs that have ended from the archive, and the intervals of other jobs. --json and --csv contain
all metrics, with the bounds of the decile.`,
		Example: `  weir compare 4711 4712
  weir compare 184300_7 184300_8 --json
  weir compare nightly@2026-11-20 nightly@2026-11-21 --html nightly.html`,
		Args: twoJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return cli.Usage(err)
			}
			return f.run(c, separate(args))
		},
	}
	f.Given = by.cfg
	f.ReadFlags.Add(c)
	f.Define(c)
	c.Flags().StringVar(&f.html, "html", "", "write a page with figures into `FILE`, for a browser")
	c.Flags().BoolVar(&f.anyway, "anyway", false, "compare jobs that are not comparable")
	cli.OfferFiles(c, "html", "html")
	return c
}

// twoJobs checks arguments that are two jobs.
func twoJobs(c *cobra.Command, args []string) error {
	if err := jobIDs(c, args); len(args) > 0 && err != nil {
		return err
	}
	if n := len(separate(args)); n != 2 {
		return cli.Usage(fmt.Errorf("%s takes two jobs, such as `weir compare 4711 4712`: there are %d",
			c.CommandPath(), n))
	}
	return nil
}

func (f *compareFlags) check() error {
	if f.html != "" && (f.AsJSON || f.AsCSV) {
		return errors.New("--html, --json and --csv: name one of them")
	}
	return f.Exclusive()
}

func (f *compareFlags) run(c *cobra.Command, args []string) error {
	style, out, err := f.Style(c)
	if err != nil {
		return err
	}
	cfg, err := f.Load()
	if err != nil {
		return err
	}
	set, err := reading.RuleSet(cfg)
	if err != nil {
		return err
	}
	ask := analysis.Ask{Metrics: []string{analysis.AllMetrics}, MaxBins: 1, Restart: -1}
	if ask.Dir, ask.Topic, err = f.Where(c, cfg); err != nil {
		return err
	}
	sources, err := analysis.Open(c.Context(), cfg, f.viewer, ask, numbers(args)...)
	if err != nil {
		return err
	}
	defer sources.Close()
	var jobs [2]*view.Job
	for i, arg := range args {
		ids, err := taskIDs(c.Context(), sources, []string{arg})
		if err != nil {
			return err
		}
		if len(ids) != 1 {
			return cli.Usage(fmt.Errorf("%s is %d jobs: name one of them, such as %s", arg, len(ids), ids[0]))
		}
		if jobs[i], err = sources.Brief(c.Context(), set, ids[0], ask); err != nil {
			return err
		}
	}
	both := compare.Jobs(jobs[0], jobs[1], set)
	if f.anyway {
		both.Anyway()
	}
	switch {
	case f.html != "":
		return writePage(f.html, func(w io.Writer) error {
			return pages.Compared(w, both, pages.Options{Now: time.Now(), Version: cli.VersionText()})
		})
	case f.AsJSON || f.AsCSV:
		return cli.PrintRows(out, f.CSVFlags, both.Rows())
	}
	return term.Compared(out, both, style)
}
