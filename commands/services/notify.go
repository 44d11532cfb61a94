package services

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis/topics"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/notify"
	"github.com/weirhpc/weir/schemas"
)

var errNoChannel = errors.New("no channel is on: set notify.sendmail, notify.webhook.url_file or " +
	"notify.admin_comment, or try --dry-run")

// NewNotify returns the command weir notify.
func NewNotify() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "notify",
		Short: "Write to the owners of jobs that wasted much",
		Long: `Writes to the owners of jobs that wasted much: by mail, a webhook, or a comment in Slurm's accounting.

When a job has ended, its owner gets one message with one thing to change. The job must have a finding that is certain
and HIGH, and cost at least notify.min_core_hours or notify.min_gpu_hours. A user hears of the same rule once in
notify.rule_every. With notify.digest: weekly there is one message for each user and week.

Nothing is on by itself: notify.sendmail, notify.webhook.url_file and notify.admin_comment are the channels. A mail goes
at most once, even if a process is killed. A second process stands by.`,
		Example: `  weir notify --config /etc/weir/notify.yaml --dry-run
  weir notify --config /etc/weir/notify.yaml`,
	}
	conf := cli.AsService(c)
	c.Flags().BoolVar(&dry, "dry-run", false,
		"print what would be sent about jobs of the last day, and send nothing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return conf.Serve(c, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
			facts, err := factsFor(cfg)
			if err := errors.Join(err, notify.Check(cfg)); err != nil {
				return cli.Usage(err)
			}
			if dry {
				return notify.Print(ctx, cfg, log, c.OutOrStdout(), facts)
			}
			if !notify.On(cfg) {
				return cli.Usage(errNoChannel)
			}
			run := func(
				ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer,
			) error {
				return notify.Run(ctx, cfg, log, notify.NewMetrics(registry), facts)
			}
			return checked(run, schemas.TopicFindings, schemas.TopicJobs, schemas.TopicNotices)(ctx, cfg, log)
		})
	}
	return c
}

// factsFor returns a function that reads what findings do not tell: the threads of a core, by facts about nodes and the
// configuration, and which rules are judged over a job's life.
func factsFor(cfg config.Config) (func(context.Context) (notify.Machine, error), error) {
	set, err := reading.RuleSet(cfg)
	if err := errors.Join(err, CheckMachine(cfg)); err != nil {
		return nil, err
	}
	lives := map[string]bool{}
	for i := range set.Rules {
		lives[set.Rules[i].ID] = set.Rules[i].Job
	}
	return func(ctx context.Context) (notify.Machine, error) {
		ctx, cancel := context.WithTimeout(ctx, topics.ReadTimeout)
		defer cancel()
		r, err := topics.Open(ctx, cfg)
		if err != nil {
			return notify.Machine{}, err
		}
		defer r.Close()
		known, err := topics.Machine(ctx, r, cfg)
		if err != nil {
			return notify.Machine{}, err
		}
		types, err := nodetypes.New(known)
		if err != nil {
			return notify.Machine{}, err
		}
		return notify.Machine{Threads: types.Threads, Life: func(rule string) bool { return lives[rule] }}, nil
	}, nil
}
