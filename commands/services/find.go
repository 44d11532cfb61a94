package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/jobs"
	"github.com/weirhpc/weir/commands/reading"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/processors/find"
	"github.com/weirhpc/weir/schemas"
)

var errOneUse = errors.New("give one of a rule, --live and --like JOB: `weir find --help` has examples")

// NewFind returns the command weir find.
func NewFind() *cobra.Command {
	var f jobs.FindFlags
	c := &cobra.Command{
		Use:   "find [RULE]",
		Short: "Find jobs by the rules, or jobs like another one",
		Long: `Finds jobs by the rules, or jobs like another one.

With --live it is a service. It evaluates the rules for every running job, and writes the findings to the topic
findings. Several processes share its partitions; one that gets none stands by.

With a rule it evaluates that rule over the archive, so that you can try it before it is switched on. With --like it
lists the jobs with the most similar measurements.`,
		Example: `  weir find --live --config /etc/weir/find.yaml
  weir find idle-cores --since 90d
  weir find --like 184223 --limit 10`,
	}
	conf := cli.AsService(c)
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%w, not %d arguments", errOneUse, len(args))
		}
		return nil
	}
	flags := c.Flags()
	flags.BoolVar(&f.Live, "live", false, "run as a service: watch the jobs that run")
	flags.StringVar(&f.Like, "like", "", "list the jobs that are most like this `JOB`: ID or ID@DATE")
	flags.StringVar(&f.Since, "since", "90d",
		"rule or --like: jobs that ended since `TIME`, or this long before now or JOB")
	flags.StringVar(&f.Queue, "queue", "", "with --like: jobs of this `QUEUE` alone")
	flags.IntVar(&f.Limit, "limit", 20, "with --like: `N` jobs at most")
	flags.StringVar(&f.Rules, "rules", "", "with a rule: `FILE` or directory with it (default: find.rules)")
	flags.StringVar(&f.Dir, "dir", "", "with a rule or --like: archive `DIR` (default: sink.dir)")
	flags.BoolVar(&f.Possible, "possible", false, "with a rule: findings too that bounds do not prove")
	flags.BoolVar(&f.JSON, "json", false, "with a rule or --like: print one JSON object a line")
	cli.OfferFiles(c, "rules", cli.YamlFiles...)
	cli.OfferDirectories(c, "dir")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			f.Rule = args[0]
		}
		return runFind(c, conf, &f)
	}
	return c
}

// CheckSiteRules returns nil if the rules of the site can be used.
func CheckSiteRules(cfg config.Config) error {
	_, err := reading.RuleSet(cfg)
	return err
}

// findLive compiles the rules before it asks a broker: a wrong rule needs a person, and is reported at once.
func findLive(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	set, err := reading.RuleSet(cfg)
	if err := errors.Join(err, CheckMachine(cfg)); err != nil {
		return cli.Usage(err)
	}
	run := func(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
		return find.Run(ctx, cfg, log, processors.NewMetrics(registry), set)
	}
	return publishing(run, schemas.TopicJobSummary, schemas.TopicJobs, schemas.TopicProgress,
		schemas.TopicMergeProgress, schemas.TopicFindings, schemas.TopicFindProgress,
		schemas.TopicFindState)(ctx, cfg, log)
}

// runFind runs the one of the three uses of `weir find` that the flags select.
func runFind(c *cobra.Command, conf *cli.ConfigFlags, f *jobs.FindFlags) error {
	uses := 0
	for _, asked := range []bool{f.Live, f.Like != "", f.Rule != ""} {
		if asked {
			uses++
		}
	}
	if uses != 1 {
		return cli.Usage(errOneUse)
	}
	if f.Live {
		return conf.Serve(c, findLive)
	}
	conf.Reads = true
	load := conf.Load
	if f.Dir != "" {
		load = conf.Local
	}
	cfg, err := load()
	if err != nil {
		return err
	}
	if f.Like != "" {
		return jobs.FindLike(c.Context(), cfg, f, c.OutOrStdout())
	}
	return jobs.FindHistory(c.Context(), cfg, f, c.OutOrStdout())
}
