package services

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
	"github.com/weirhpc/weir/commands/reading"
)

// NewSimulate returns the command weir simulate.
func NewSimulate() *cobra.Command {
	var f reading.LoadFlags
	clients, requestPerNode := 1, false
	c := newService(&cobra.Command{
		Use:   "simulate",
		Short: "Run simulated nodes",
		Long: `Runs simulated nodes, which publish made-up counters by the agent's own code.

The balancer must plan for the same number of nodes, with the same cores and mix: weir balance --simulate N.

With --mix supermuc the values follow counters recorded on a real machine, and the jobs follow SuperMUC in number and
size. --machine sets nodes, cores and metrics of a whole machine: supermuc 9288 nodes of 16 cores, frontier 9408 of 64,
elcapitan 11136 of 96, ten-million 78125 of 128. GPUs are not simulated.

By default nodes share one Kafka client, so that records of many nodes leave in one request. Real nodes do not: each
agent sends requests of its own. --request-per-node imitates that, one node after the other in each of --clients.`,
		Example: `  weir simulate --nodes 1000 --config /etc/weir/weir.yaml
  weir simulate --machine supermuc --clients 500 --request-per-node --config /etc/weir/weir.yaml`,
	}, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		load := f.Load()
		load.Clients, load.RequestPerNode = clients, requestPerNode
		return producers.SimulateLoad(ctx, inuse.WithList(cfg, log), f.Names(), load, log)
	})
	flags := c.Flags()
	flags.IntVar(&f.Nodes, "nodes", 0, "simulate `N` nodes, 16 to 100000; it, or --machine, must be given")
	f.Add(c)
	f.AddMetrics(c)
	flags.IntVar(&clients, "clients", clients,
		"divide the nodes among `N` Kafka clients with own connections, 1 to 10000")
	flags.BoolVar(&requestPerNode, "request-per-node", false,
		"send each node's records in requests of their own, a node after the other in each client")
	c.AddCommand(newSimulateBalancer(), newSimulateArchive())
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if err := f.Resolve(c, "nodes"); err != nil {
			return err
		}
		return reading.CheckClients(clients, f.Nodes)
	}
	return c
}

func newSimulateBalancer() *cobra.Command {
	f := assign.Comparison{}
	c := &cobra.Command{
		Use:   "balancer",
		Short: "Compare the balancer's algorithms on a synthetic SuperMUC",
		Long: `Compares the balancer's algorithms on random jobs of a synthetic machine.

The machine follows tables 1 and 2 of the PerSyst paper: 9,288 nodes in 18 islands, 216 collectors, 12 SyncAgents, 185
exclusive jobs. The algorithms are PerSyst's to the letter, their near-linear form, and weir's own. Each plans with
PerSyst's l_max and with the l_max of a Kafka partition. docs/balancer.md lists the choices that the paper leaves open.

It touches no broker. The same seed gives the same numbers, except for the times.`,
		Example: `  weir simulate balancer --snapshots 10 --seed 7`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Snapshots < 1 || f.Snapshots > 10_000 {
				return cli.Usage(fmt.Errorf("--snapshots %d must be 1 to 10000", f.Snapshots))
			}
			if !(f.Churn >= 0 && f.Churn <= 1) { // also refuses NaN
				return cli.Usage(fmt.Errorf("--churn %v must be 0 to 1", f.Churn))
			}
			return f.Run(c.Context(), c.OutOrStdout())
		},
	}
	c.Flags().Uint64Var(&f.Seed, "seed", 1, "`SEED` of the random jobs")
	c.Flags().IntVar(&f.Snapshots, "snapshots", 30, "average over `N` sets of jobs, 1 to 10000")
	c.Flags().Float64Var(&f.Churn, "churn", 0.02, "`FRACTION` of the jobs that end between two intervals, 0 to 1")
	return c
}
