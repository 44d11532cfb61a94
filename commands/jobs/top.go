package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"

	system "github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/report/term"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
	"github.com/weirhpc/weir/commands/reading"

	"github.com/weirhpc/weir/analysis/overview"
)

// topFlags are the flags of weir top.
type topFlags struct {
	cli.ConfigFlags
	reading.StyleFlags
	once                      bool
	user, queue, metric, sort string
}

// NewTop returns the command weir top.
func NewTop() *cobra.Command {
	c := direct(newTop)
	cli.Offer(c, "sort", term.TopSorts...)
	return c
}

func newTop(by asker) *cobra.Command {
	f := topFlags{ConfigFlags: cli.ConfigFlags{Reads: true, Given: by.cfg}}
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch the machine and its jobs, interval by interval",
		Long: `Watches the machine and its jobs, interval by interval.

BUSY is the share of a job's cores that work, and GPU the mean utilization of its GPUs. SPREAD is the difference between
the ninth and the first decile of cpu_user, in points. The band shows the deciles of one metric over the cores of the
job. FINDING is the worst open finding; "weir job ID" explains it.

Key ? explains the keys. The screen changes once an interval. With --once, or if the output is not a terminal, it
prints the newest interval.`,
		Example: `  weir top
  weir top --once --user alice --sort busy
  weir top --metric mem_bw --config /etc/weir/weir.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			style, out, err := f.Style(c)
			if err == nil {
				err = f.check()
			}
			if err != nil {
				return err
			}
			cfg, err := f.Load()
			if err != nil {
				return err
			}
			o := term.TopOptions{
				Style: style, User: f.user, Queue: f.queue, Metric: f.metric, Sort: f.sort,
				Late: 2*cfg.Interval + usualDelay,
			}
			if f.once || !cli.IsTerminal(cli.OutputFile(c.OutOrStdout())) || !cli.IsTerminal(os.Stdin) {
				return topOnce(c.Context(), out, cfg, by.viewer, o)
			}
			return topScreen(c.Context(), cfg, by.viewer, o)
		},
	}
	f.ConfigFlags.Add(c)
	f.Define(c)
	c.Flags().BoolVar(&f.once, "once", false, "print the newest interval, and end")
	c.Flags().StringVar(&f.user, "user", "", "only jobs of user `NAME`")
	c.Flags().StringVar(&f.queue, "queue", "", "only jobs of queue `NAME`")
	c.Flags().StringVar(&f.metric, "metric", inuse.TopMetric, "show the deciles of `METRIC`")
	c.Flags().StringVar(&f.sort, "sort", term.TopSorts[0], "sort by `KEY`: "+strings.Join(term.TopSorts, ", "))
	return c
}

func (f *topFlags) check() error {
	switch {
	case !slices.Contains(term.TopSorts, f.sort):
		return cli.Usage(fmt.Errorf("--sort %q must be one of %s", f.sort, strings.Join(term.TopSorts, ", ")))
	case !naming.Valid(f.metric):
		return cli.Usage(fmt.Errorf("--metric %q must match [A-Za-z0-9._:-]{1,64}", f.metric))
	}
	return nil
}

// usualDelay is a generous bound for the time between the end of an interval and its summary.
const usualDelay = 10 * time.Second

func topOnce(ctx context.Context, w io.Writer, cfg config.Config, v analysis.Viewer, o term.TopOptions) error {
	frame, err := overview.NewestFrame(ctx, cfg, v.MayAt)
	if err != nil {
		return err
	}
	// The columns of a metric that is not there would be empty, as if no job had been measured.
	known := map[string]bool{}
	for _, name := range frame.Metrics {
		known[name] = true
	}
	if len(known) > 0 && !known[o.Metric] && o.Metric != inuse.TopMetric {
		near := naming.Nearest(o.Metric, known)
		return cli.Usage(fmt.Errorf("the newest interval has no metric %s%s", o.Metric, near))
	}
	return term.TopOnce(w, frame, o)
}

// errQuit ends the reader when the person quits.
var errQuit = errors.New("quit")

// topScreen shows frames until the person quits, or the reader ends.
func topScreen(ctx context.Context, cfg config.Config, v analysis.Viewer, o term.TopOptions) error {
	screen, err := term.NewScreen()
	if err != nil {
		return err
	}
	frames := make(chan *system.Frame)
	group, ctx := errgroup.WithContext(ctx)
	var failed error // the screen ends with the frames: its errQuit may arrive before the reader's error
	group.Go(func() error {
		defer close(frames)
		defer usable(screen.Fini)
		err := overview.FollowFrames(ctx, cfg, v.MayAt, func(f *system.Frame) bool {
			select {
			case frames <- f:
				return true
			case <-ctx.Done():
				return false
			}
		})
		if ctx.Err() == nil {
			failed = err
		}
		return err
	})
	group.Go(func() error {
		if err := term.Top(ctx, screen, frames, o); err != nil {
			return err
		}
		return errQuit
	})
	if err := group.Wait(); !errors.Is(err, errQuit) {
		return err
	}
	return failed
}

// usable gives the terminal back before a panic of the reader ends the process: its report would not be seen.
func usable(fini func()) {
	if p := recover(); p != nil {
		fini()
		panic(p)
	}
}
