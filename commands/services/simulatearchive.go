package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"

	"github.com/weirhpc/weir/simulate"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// monthProgress is the time between two progress reports of a long simulation.
const monthProgress = 5 * time.Second

func newSimulateArchive() *cobra.Command {
	o := simulate.Options{}
	var from string
	var asJSON bool
	c := &cobra.Command{
		Use:   "archive DIR",
		Short: "Write the archive of a made-up month",
		Long: `Writes the archive of a made-up machine to DIR, so that you can try the analyses.

With --jobs habits, six users with different habits submit jobs for a month. One node is slow. The measurements go
through the folds of collect and merge, and into the sink's files. No broker is needed. The same flags make the same
rows.

With --jobs healthy, no rule finds anything in the jobs, although each comes close in some. --jobs problems adds two
jobs for each rule, a small and a large one, in which it must find something. The nodes have 64 CPUs, and four more
nodes have GPUs. DIR/weir.yaml is the configuration of that machine: commands read it with --config.`,
		Example: `  weir simulate archive month
  weir simulate archive week --days 7 --nodes 64 --seed 2
  weir simulate archive machine --jobs problems --interval 5m --period 1h`,
		Args: cli.OneArg("DIR", "month"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkMonth(&o, from); err != nil {
				return err
			}
			defaults := config.Default()
			o.Dir, o.Cluster, o.Topic = args[0], "simulated", defaults.Prefix+schemas.TopicJobSummary
			o.JobsTopic, o.Sketch = defaults.Prefix+schemas.TopicJobs, defaults.Collect.Sketch
			if err := withRules(&o, defaults); err != nil {
				return err
			}
			next := time.Now().Add(monthProgress)
			o.Progress = func(at time.Time, rows int64) {
				if now := time.Now(); now.After(next) {
					next = now.Add(monthProgress)
					cli.Say(c.ErrOrStderr(), "%s: %d rows written", at.UTC().Format(time.DateOnly), rows)
				}
			}
			made, err := simulate.Write(c.Context(), o)
			if errors.Is(err, simulate.ErrThere) {
				return cli.Usage(fmt.Errorf("%w: choose another DIR", err))
			}
			if err != nil {
				return fmt.Errorf("%w; %s has a part of the month: delete it, and begin again", err, o.Dir)
			}
			if asJSON {
				return cli.PrintJSON(c.OutOrStdout(), []simulate.Made{made})
			}
			return printMade(c.OutOrStdout(), o.Dir, &made)
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "2026-01-01", "first `DATE`, in UTC")
	f.IntVar(&o.Days, "days", 30, "simulate `N` days, 1 to 400")
	f.IntVar(&o.Nodes, "nodes", 16, "simulate `N` nodes, 8 to 1000")
	f.DurationVar(&o.Interval, "interval", time.Minute, "`LENGTH` of an interval; it divides an hour")
	f.DurationVar(&o.Period, "period", 5*time.Minute, "`LENGTH` of a file, as sink.period")
	f.IntVar(&o.Partitions, "partitions", 2, "`N` partitions of job-summary, 1 to 64")
	f.Uint64Var(&o.Seed, "seed", 1, "`SEED` of jobs and values")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	offerMixes(c, &o)
	return c
}

func offerMixes(c *cobra.Command, o *simulate.Options) {
	c.Flags().StringVar(&o.Jobs, "jobs", simulate.Habits, "`MIX` of jobs: habits, healthy or problems")
	cli.Offer(c, "jobs", simulate.Habits, simulate.Healthy, simulate.Problems)
}

// printMade prints the size of the archive, and the solution: the jobs with planted problems.
func printMade(w io.Writer, dir string, made *simulate.Made) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d days, %d jobs, %d rows in %d files\n",
		filepath.Clean(dir), made.Days, made.Jobs, made.Rows, made.Files)
	for _, p := range made.Planted {
		fmt.Fprintf(&b, "planted: %s in job %s\n", p.Rule, p.JobID)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// withRules lets the shipped rules judge the jobs as weir find would, and writes their findings.
func withRules(o *simulate.Options, defaults config.Config) (err error) {
	if o.Jobs == simulate.Habits {
		return nil
	}
	topic := defaults.Prefix + schemas.TopicFindings
	o.Findings = func(ctx context.Context, all []schemas.Finding) error {
		return findings.Write(ctx, o.Dir, topic, all)
	}
	o.Rules, err = reading.RuleSet(defaults)
	return err
}

func checkMonth(o *simulate.Options, from string) (err error) {
	o.From, err = time.Parse(time.DateOnly, from)
	switch {
	case err != nil:
		err = fmt.Errorf("--from %q is not a date such as 2026-01-01", from)
	case o.From.Year() < 2000 || o.From.Year() > 2090:
		err = fmt.Errorf("--from %s must be a date of the years 2000 to 2090", from)
	case o.Days < 1 || o.Days > 400:
		err = fmt.Errorf("--days %d must be 1 to 400", o.Days)
	case o.Nodes < 8 || o.Nodes > 1000:
		err = fmt.Errorf("--nodes %d must be 8 to 1000", o.Nodes)
	case !slices.Contains([]string{simulate.Habits, simulate.Healthy, simulate.Problems}, o.Jobs):
		err = fmt.Errorf("--jobs %q must be habits, healthy or problems", o.Jobs)
	case o.Jobs != simulate.Habits && o.Nodes < 16:
		err = fmt.Errorf("--nodes %d must be at least 16 with --jobs %s", o.Nodes, o.Jobs)
	case o.Interval < time.Second || time.Hour%o.Interval != 0:
		err = fmt.Errorf("--interval %v must divide an hour, and be a second at least", o.Interval)
	case o.Period < time.Second || o.Period > time.Hour || time.Hour%o.Period != 0:
		err = fmt.Errorf("--period %v must divide an hour, and be a second at least", o.Period)
	case o.Partitions < 1 || o.Partitions > 64:
		err = fmt.Errorf("--partitions %d must be 1 to 64", o.Partitions)
	}
	if err != nil {
		return cli.Usage(err)
	}
	return nil
}
