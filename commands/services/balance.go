package services

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// NewBalance returns the command weir balance.
func NewBalance() *cobra.Command {
	var plan planFlags
	var load reading.LoadFlags
	c := &cobra.Command{
		Use:   "balance",
		Short: "Plan who sends what where, and close the intervals",
		Long: `Plans who sends what where, and closes the intervals.

The balancer takes its jobs from Slurm (balance.slurm), a drop directory (balance.drop_dir) or a file
(balance.jobs_file). The nodes come from balance.tree_file, otherwise from balance.nodes, otherwise from Slurm. A
second balancer stands by.`,
		Example: `  weir balance --config /etc/weir/balance.yaml
  weir balance --plan --jobs jobs.yaml --tree tree.yaml --collectors 8 --l-max 1000
  weir balance --explain 4711 --config /etc/weir/balance.yaml`,
	}
	conf := cli.AsService(c)
	plan.Add(c)
	c.Long += planHelp
	c.Flags().IntVar(&load.Nodes, "simulate", 0,
		"plan for `N` simulated nodes and their jobs too, 16 to 100000 (default: none; see weir simulate)")
	load.Add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := load.Resolve(c, "simulate"); err != nil {
			return err
		}
		if plan.wanted() {
			return plan.show(c, conf)
		}
		if err := plan.unused(c); err != nil {
			return err
		}
		return conf.Serve(c, balanceOf(load))
	}
	return c
}

// balanceOf returns the balancer as a service. Simulated nodes are balanced too.
func balanceOf(load reading.LoadFlags) cli.Serve {
	run := publishing(func(
		ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer,
	) error {
		return balance(ctx, cfg, load, log, registry)
	}, schemas.TopicCounters, schemas.TopicRoutes, schemas.TopicJobs, schemas.TopicBalance, schemas.TopicProgress)
	return func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		// Files first: a wrong name is reported at once, even while the brokers are away.
		if err := errors.Join(unlessSilent(log, cli.Readable("balance.jobs_file", cfg.Balance.JobsFile)),
			unlessSilent(log, cli.Directory("balance.drop_dir", cfg.Balance.DropDir)), CheckTree(cfg),
			scheduler.CheckCPUIDs(cfg)); err != nil {
			return cli.Usage(err)
		}
		return run(ctx, cfg, log)
	}
}

// unlessSilent returns the error of a job list, unless its file system hangs. In that case the balancer starts, and
// closes intervals by the earlier Routes.
func unlessSilent(log *slog.Logger, err error) error {
	if errors.Is(err, config.ErrSilent) {
		log.Warn("list of jobs does not answer: the balancer goes on without it", "err", err)
		return nil
	}
	return err
}

// balance gathers the machine and the sources of jobs, and runs the balancer on them. If a setting is missing, the
// error is a usage error that names the settings to choose from.
func balance(
	ctx context.Context, cfg config.Config, load reading.LoadFlags, log *slog.Logger, registry prometheus.Registerer,
) error {
	sources, slurm := schedulers(ctx, cfg)
	nodes := append(load.Names(), cfg.Balance.Nodes...)
	if len(nodes) == 0 && cfg.Balance.TreeFile == "" && slurm != nil {
		if nodes = machine(ctx, cfg, slurm, log); nodes == nil {
			return nil
		}
	}
	tree, err := treeOf(cfg, nodes)
	if err != nil {
		return cli.Usage(err)
	}
	for _, w := range tree.Warnings() {
		log.Warn("tree file is not used as it is", "file", cfg.Balance.TreeFile, "reason", w)
	}
	if load.Nodes > 0 {
		sources = append(sources, load.Jobs(cfg.Interval))
		cfg.Balance.LMax, cfg.Balance.LDist = load.Limits(cfg.Balance.LMax, cfg.Balance.LDist)
	}
	if len(sources) == 0 {
		return cli.Usage(errors.New("nothing says which jobs run where: " +
			"set balance.slurm.enabled, balance.drop_dir or balance.jobs_file"))
	}
	if len(tree.Nodes()) == 0 {
		return cli.Usage(errors.New("balance.tree_file and balance.nodes are empty: name the nodes of the machine"))
	}
	return balancer.Run(ctx, cfg, tree, scheduler.Join(sources...), log, balancer.NewMetrics(registry))
}

// machine waits until Slurm reports the machine's nodes. It returns nil if ctx ends before.
func machine(ctx context.Context, cfg config.Config, slurm *scheduler.SlurmSource, log *slog.Logger) []string {
	var trouble retry.Trouble
	for {
		if nodes := slurm.Nodes(); len(nodes) > 0 {
			return nodes
		}
		reason := "it has none"
		if _, faults := slurm.Jobs(time.Now()); len(faults) > 0 {
			reason = faults[0].Reason
		}
		if trouble.Worth(errors.New(reason), time.Now()) {
			log.Warn("waiting for Slurm's list of nodes, "+
				"since balance.tree_file and balance.nodes are empty",
				"reason", reason)
		}
		if !retry.Pause(ctx, cfg.Balance.Slurm.Poll) {
			return nil
		}
	}
}

// schedulers returns the sources of jobs, and in addition Slurm if it is among them.
func schedulers(ctx context.Context, cfg config.Config) (sources []scheduler.Source, slurm *scheduler.SlurmSource) {
	if cfg.Balance.Slurm.Enabled {
		slurm = scheduler.StartSlurm(ctx, cfg)
	}
	switch drops := cfg.Balance.DropDir != ""; {
	case slurm != nil && drops:
		sources = append(sources, scheduler.Timed(slurm, scheduler.StartDropDir(ctx, cfg)))
	case slurm != nil:
		sources = append(sources, slurm)
	case drops:
		sources = append(sources, scheduler.StartDropDir(ctx, cfg))
	}
	if cfg.Balance.JobsFile != "" {
		file := scheduler.NewFileSource(cfg.Balance.JobsFile)
		file.Jobs(time.Now()) // wait for a slow file now, not when the first plan is due
		sources = append(sources, file)
	}
	return sources, slurm
}
