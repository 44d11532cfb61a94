package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/balancer"
	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/producers"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/topology"
)

// serve is a part of weir that runs until its context ends.
type serve func(ctx context.Context, cfg config.Config, log *slog.Logger) error

// metered is a part that shows metrics.
type metered func(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error

// newService makes the command of a part that runs as a process of its own.
func newService(use, short, long string, run serve) *cobra.Command {
	var conf configFlags
	c := &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + `It waits for brokers that are away or refuse it, which it says once, and ends at SIGTERM or Ctrl-C. Exit status: 0 when it
was asked to end, 1 when it cannot go on and said why, 2 when the command line or the configuration is wrong.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			if len(cfg.Kafka.Brokers) == 0 {
				return usageError{kafka.ErrNoBrokers}
			}
			neverWait(c.OutOrStdout(), c.ErrOrStderr())
			return kafka.Explain(cfg.Kafka, run(c.Context(), cfg, newLogger(c.ErrOrStderr(), cfg)))
		},
	}
	conf.add(c)
	c.Flags().String("log-level", "", "debug, info, warn or error (default: log_level of the configuration)")
	return c
}

// checked refuses to run a part while the brokers or its topics are not as it needs them, and shows its metrics. The agent
// does without: it may not ask, and listens on nothing.
func checked(run metered, topics ...string) serve {
	return func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		registry := newRegistry()
		stop, err := serveMetrics(ctx, cfg.Metrics.Listen, registry, log)
		if err != nil {
			return err
		}
		defer stop()
		var trouble kafka.Trouble
		for tries := 1; ; tries++ {
			err := checkTopics(ctx, cfg, log, topics)
			switch {
			case ctx.Err() != nil:
				return nil // it ended while we asked: nothing went wrong
			case err == nil:
				return run(ctx, cfg, log, registry)
			case errors.Is(err, kafka.ErrTopics), errors.Is(err, kafka.ErrOldBroker), errors.Is(err, kafka.ErrNoBrokers):
				return err
			case trouble.Worth(err, time.Now()):
				log.Warn("brokers are away or refuse us, trying again", "err", err)
			}
			if !kafka.Pause(ctx, kafka.Backoff(tries, cfg.BackoffCap)) {
				return nil
			}
		}
	}
}

func newAgent() *cobra.Command {
	return newService("agent", "Sample this node's counters and send them", `The node agent: it reads all its sources at every interval boundary, and sends what its route says. It listens on nothing,
needs no root (CAP_PERFMON for perf events), and Kafka being away neither blocks nor grows nor ends it.`, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		if err := checkAgent(cfg); err != nil {
			return usageError{err}
		}
		return producers.Run(ctx, cfg, log)
	})
}

func collect(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
	return processors.Collect(ctx, cfg, log, processors.NewMetrics(registry))
}

func merge(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
	return processors.Merge(ctx, cfg, log, processors.NewMetrics(registry))
}

func archive(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
	return sink.Run(ctx, cfg, log, sink.NewMetrics(registry))
}

func newCollect() *cobra.Command {
	return newService("collect", "Fold the counters into summaries", `Folds partitions of counters. Start as many as wanted, up to one a partition: they share the partitions among them.`,
		checked(collect, schemas.TopicCounters, schemas.TopicProgress, schemas.TopicPartials, schemas.TopicJobSummary, schemas.TopicRejects))
}

func newMerge() *cobra.Command {
	return newService("merge", "Merge the shares of jobs that are spread over several collectors",
		`Folds partitions of partials. A second one stands by, or shares the partitions where there are several.`,
		checked(merge, schemas.TopicPartials, schemas.TopicMergeProgress, schemas.TopicJobSummary, schemas.TopicRejects))
}

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

// readable returns nil if the file of a key can be read, or none is named. What a job file holds may be mended while the
// balancer runs; that it is there at the start shows that the name is right.
func readable(key, path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s %s: not a regular file", key, path), err)
	}
	return nil
}

// directory returns nil if a key names a directory, or nothing that is there.
func directory(key, path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "", errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", key, err)
	case !info.IsDir():
		return fmt.Errorf("%s %s: not a directory", key, path)
	}
	return nil
}

// checkAgent returns nil if an agent finds what its keys name. Without /proc it would have nothing to send.
func checkAgent(cfg config.Config) error {
	_, err := os.Stat(filepath.Join(cfg.Agent.ProcPath, "stat"))
	if err != nil {
		err = fmt.Errorf("agent.proc_path %q is no mount of procfs: %w", cfg.Agent.ProcPath, err)
	}
	return errors.Join(err, directory("agent.state_dir", cfg.Agent.StateDir))
}

// checkJobs returns nil if the job file of a key or flag holds jobs, or none is named. A fault in one job does not count.
func checkJobs(key, path string) error {
	if err := readable(key, path); path == "" || err != nil {
		return err
	}
	_, faults := scheduler.NewFileSource(path).Jobs(time.Now())
	if err := unreadable(faults); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// treeOf returns the tree of the machine: that of balance.tree_file, or a flat one of the nodes.
func treeOf(cfg config.Config, nodes []string) (*topology.Tree, error) {
	if cfg.Balance.TreeFile == "" {
		return topology.Flat(nodes), nil
	}
	return topology.ReadFile(cfg.Balance.TreeFile)
}

// checkTree returns nil if the tree can be read, or no file is named.
func checkTree(cfg config.Config) error {
	if _, err := treeOf(cfg, nil); err != nil {
		return fmt.Errorf("balance.tree_file: %w", err)
	}
	return nil
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

// simulatedLimits are so small that one of the simulated jobs has to be split, and no other.
func simulatedLimits(nodes int) (lMax, lDist int) {
	lMax = max(2, nodes/4)
	return lMax, max(1, lMax*9/10)
}

func newSimulate() *cobra.Command {
	nodes := 0
	c := newService("simulate", "Run simulated nodes", `Simulated nodes that measure a machine that is not there, through the agent's own publishing code. The balancer has to plan for
them: weir balance --simulate N.`, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		return producers.Simulate(ctx, cfg, producers.SimulatedNodes(nodes), log)
	})
	c.Flags().IntVar(&nodes, "nodes", 0, "`N` nodes, 16 to 100000")
	c.AddCommand(newSimulateBalancer())
	c.PreRunE = func(*cobra.Command, []string) error { return checkSimulated("nodes", nodes) }
	return c
}

func newSink() *cobra.Command {
	serve := checked(archive, schemas.TopicJobSummary)
	c := newService("sink", "Archive the summaries as Parquet", `Writes the topic of summaries to sink.dir, every summary once. A second one on the same directory stands by: of two that write
the same file one wins.`, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		if err := directory("sink.dir", cfg.Sink.Dir); err != nil {
			return usageError{err}
		}
		return serve(ctx, cfg, log)
	})
	c.AddCommand(newAcceptGap())
	return c
}

func newBroker() *cobra.Command {
	var data, listen, ready string
	c := &cobra.Command{
		Use:   "broker",
		Short: "Run the embedded broker as a process of its own",
		Long: `A Kafka broker for trying weir without Kafka: one node, no replicas. It keeps its data through a clean stop, not through
kill -9. Make the topics with weir topics create, with topics.replication 1.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := checkAddress("listen", listen); err != nil {
				return err
			}
			b, err := startBroker(data, listen)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, b.Close()) }()
			neverWait(c.OutOrStdout(), c.ErrOrStderr())
			say(c.OutOrStdout(), "broker    %s", b.Addr())
			if ready != "" {
				if err := os.WriteFile(ready, []byte(b.Addr()+"\n"), 0o644); err != nil {
					return fmt.Errorf("writing --ready-file: %w", err)
				}
			}
			<-c.Context().Done()
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", "weir-broker", "`DIR` for its log")
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:9092", "`ADDR` where it listens")
	c.Flags().StringVar(&ready, "ready-file", "", "write the address to this `FILE` once it listens")
	return c
}
