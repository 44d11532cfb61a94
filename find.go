package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/schemas"
)

// findFlags are the flags of the three uses of `weir find`.
type findFlags struct {
	live           bool
	like           string // job
	rule           string // the argument
	since, queue   string
	dir, rules     string
	possible, json bool
	limit          int
}

var errOneUse = errors.New("give one of a rule, --live and --like JOB: `weir find --help` has examples")

func newFind() *cobra.Command {
	var f findFlags
	c := &cobra.Command{
		Use:   "find [RULE]",
		Short: "Find jobs by the rules, or jobs like another one",
		Long: `Finds jobs by the rules, or jobs like another one.

With --live it is a service. It watches every job that runs by the rules, and writes what it finds to the topic
findings. Several processes share its partitions; one that gets none stands by.

With a rule it evaluates that rule over the archive, so that a rule can be tried before it is switched on. With --like
it lists the jobs whose measurements are most like those of a job.`,
		Example: `  weir find --live --config /etc/weir/find.yaml
  weir find idle-cores --since 90d
  weir find --like 184223 --limit 10`,
	}
	conf := asService(c)
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%w, not %d arguments", errOneUse, len(args))
		}
		return nil
	}
	flags := c.Flags()
	flags.BoolVar(&f.live, "live", false, "run as a service: watch the jobs that run")
	flags.StringVar(&f.like, "like", "", "list the jobs that are most like this `JOB`: ID or ID@DATE")
	flags.StringVar(&f.since, "since", "90d",
		"with a rule or --like: jobs that ended since `TIME`: 90d ago, or a date of UTC")
	flags.StringVar(&f.queue, "queue", "", "with --like: jobs of this `QUEUE` alone")
	flags.IntVar(&f.limit, "limit", 20, "with --like: `N` jobs at most")
	flags.StringVar(&f.rules, "rules", "", "with a rule: `FILE` or directory with it (default: find.rules)")
	flags.StringVar(&f.dir, "dir", "", "with a rule or --like: archive `DIR` (default: sink.dir)")
	flags.BoolVar(&f.possible, "possible", false, "with a rule: findings too that bounds do not prove")
	flags.BoolVar(&f.json, "json", false, "with a rule or --like: print one JSON object a line")
	offerFiles(c, "rules", yamlFiles...)
	offerDirectories(c, "dir")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			f.rule = args[0]
		}
		return f.run(c, conf)
	}
	return c
}

// run does the one of the three things that the flags ask for.
func (f *findFlags) run(c *cobra.Command, conf *configFlags) error {
	uses := 0
	for _, asked := range []bool{f.live, f.like != "", f.rule != ""} {
		if asked {
			uses++
		}
	}
	if uses != 1 {
		return usageError{errOneUse}
	}
	if f.live {
		return conf.serve(c, findLive)
	}
	conf.reads = true
	load := conf.load
	if f.dir != "" {
		load = conf.local
	}
	cfg, err := load()
	if err != nil {
		return err
	}
	if f.like != "" {
		return findLike(c.Context(), cfg, f, c.OutOrStdout())
	}
	return findHistory(c.Context(), cfg, f, c.OutOrStdout())
}

// checkSiteRules returns nil if the rules of the site can be used.
func checkSiteRules(cfg config.Config) error {
	_, err := ruleSet(cfg)
	return err
}

// findLive compiles the rules before it asks a broker: a wrong rule needs a person.
func findLive(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	set, err := ruleSet(cfg)
	if err := errors.Join(err, checkMachine(cfg)); err != nil {
		return usageError{err}
	}
	run := func(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
		return processors.Find(ctx, cfg, log, processors.NewMetrics(registry), set)
	}
	return publishing(run, schemas.TopicJobSummary, schemas.TopicJobs, schemas.TopicProgress,
		schemas.TopicMergeProgress, schemas.TopicFindings, schemas.TopicFindProgress,
		schemas.TopicFindState)(ctx, cfg, log)
}
