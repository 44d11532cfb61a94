package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"
)

func newBalance() *cobra.Command {
	simulate := 0
	serve := checked(func(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
		return balance(ctx, cfg, simulate, log, registry)
	}, schemas.TopicCounters, schemas.TopicRoutes, schemas.TopicJobs, schemas.TopicBalance, schemas.TopicProgress)
	c := newService("balance", "Plan who sends what where, and close the intervals", `The balancer: it takes the jobs of Slurm (balance.slurm), of a drop directory (balance.drop_dir) or of balance.jobs_file, on the
nodes of balance.tree_file (or balance.nodes, or Slurm's). A second one stands by.`, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		// Before the brokers are asked, which may be away: a wrong name shows at once.
		if err := errors.Join(readable("balance.jobs_file", cfg.Balance.JobsFile),
			directory("balance.drop_dir", cfg.Balance.DropDir), checkTree(cfg), scheduler.CheckCPUIDs(cfg)); err != nil {
			return usageError{err}
		}
		return serve(ctx, cfg, log)
	})
	c.Flags().IntVar(&simulate, "simulate", 0, "plan for `N` simulated nodes and their jobs too (see weir simulate)")
	addPlan(c)
	c.PreRunE = func(*cobra.Command, []string) error {
		if simulate == 0 {
			return nil
		}
		return checkSimulated("simulate", simulate)
	}
	return c
}

func balance(ctx context.Context, cfg config.Config, simulate int, log *slog.Logger, registry prometheus.Registerer) error {
	sources, slurm := schedulers(ctx, cfg)
	nodes := append(producers.SimulatedNodes(simulate), cfg.Balance.Nodes...)
	if len(nodes) == 0 && cfg.Balance.TreeFile == "" && slurm != nil {
		if nodes = machine(ctx, cfg, slurm, log); nodes == nil {
			return nil
		}
	}
	tree, err := treeOf(cfg, nodes)
	if err != nil {
		return usageError{err}
	}
	for _, w := range tree.Warnings() {
		log.Warn("tree file is not used as it is", "file", cfg.Balance.TreeFile, "reason", w)
	}
	if simulate > 0 {
		sources = append(sources, scheduler.NewSimulated(producers.SimulatedNodes(simulate), cfg.Interval))
		cfg.Balance.LMax, cfg.Balance.LDist = simulatedLimits(simulate)
	}
	if len(sources) == 0 {
		return usageError{errors.New("nothing says which jobs run where: set balance.slurm.enabled, balance.drop_dir or balance.jobs_file")}
	}
	if len(tree.Nodes()) == 0 {
		return usageError{errors.New("balance.tree_file and balance.nodes are empty: name the nodes of the machine")}
	}
	return balancer.Run(ctx, cfg, tree, scheduler.Join(sources...), log, balancer.NewMetrics(registry))
}

// treeOf returns the tree of the machine: that of balance.tree_file, or a flat one of the nodes.
func treeOf(cfg config.Config, nodes []string) (*topology.Tree, error) {
	if cfg.Balance.TreeFile == "" {
		return topology.Flat(nodes), nil
	}
	return topology.ReadFile(cfg.Balance.TreeFile)
}

// machine waits until Slurm says which nodes there are; nil if ctx ends before.
func machine(ctx context.Context, cfg config.Config, slurm *scheduler.SlurmSource, log *slog.Logger) []string {
	var trouble kafka.Trouble
	for {
		if nodes := slurm.Nodes(); len(nodes) > 0 {
			return nodes
		}
		reason := "it has none"
		if _, faults := slurm.Jobs(time.Now()); len(faults) > 0 {
			reason = faults[0].Reason
		}
		if trouble.Worth(errors.New(reason), time.Now()) {
			log.Warn("waiting for Slurm to say which nodes there are, since balance.tree_file and balance.nodes are empty", "reason", reason)
		}
		if !kafka.Pause(ctx, cfg.Balance.Slurm.Poll) {
			return nil
		}
	}
}

// schedulers returns where the jobs come from, and Slurm by itself if it is one of these.
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
		sources = append(sources, scheduler.NewFileSource(cfg.Balance.JobsFile))
	}
	return sources, slurm
}
