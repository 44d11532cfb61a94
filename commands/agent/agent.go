// Package agent holds the command that measures a node, and its one-shot modes for an administrator.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/producers"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
)

// NewAgent returns the command weir agent.
func NewAgent() *cobra.Command { return newAgent("agent", "weir agent") }

// NewProgram returns the root command of the program weir-agent, which is weir agent without the rest of weir.
func NewProgram(begun *bool) *cobra.Command {
	root := newAgent("weir-agent", "weir-agent")
	cli.AsRoot(root, begun)
	root.Flags().Bool("version", false, cli.VersionUsage)
	run := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		// cobra's own version is a text/template, with which the linker keeps every exported method of the program.
		if shows, err := c.Flags().GetBool("version"); err != nil || !shows {
			return errors.Join(err, run(c, args))
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "%s %s\n", c.Name(), cli.VersionText())
		return err
	}
	// As in weir: the agent starts this program as `topology peer`.
	parts := &cobra.Command{Use: "topology", Hidden: true, RunE: cli.NeedsSubcommand}
	parts.AddCommand(NewPeer())
	root.AddCommand(parts)
	root.SetHelpCommand(&cobra.Command{
		Use: "help", Hidden: true, Args: cli.NoArgs, RunE: func(*cobra.Command, []string) error { return root.Help() },
	})
	return root
}

// newAgent returns the command of both programs. line is how it is called.
func newAgent(name, line string) *cobra.Command {
	var prints, checks, asJSON bool
	var report string
	c := &cobra.Command{
		Use:   name,
		Short: "Sample this node's counters and send them",
		Long: `Samples this node's counters at every interval boundary, and sends them.

A Route of the balancer names the jobs of this node and their partitions. The agent listens on nothing. With
agent.topology.enabled, a process beside it listens while weir topology measure --agents runs. It needs CAP_PERFMON for
perf events, but not root. While Kafka is away it goes on in constant memory, and drops the oldest intervals. A source
that hangs loses only its own values. With agent.metrics_file the agent measures the metrics on that list, and those in
use by rules and reports.

--once and --check need neither Kafka nor a configuration. --once reads this host twice, one interval apart, and prints
the values of the interval (WEIR_INTERVAL=1s makes it short). --check reads every source 20 times, and prints the cost
of a reading in microseconds, median and maximum, of CPU time and of wall time. Then it lists the metrics that this
host lacks. The library perf-utils counts the perf events too, and a note on standard error names each disagreement.

--check --report FILE also reads every source twice, one interval apart, and writes what a site sends about hardware on
which weir was not tried: the models of CPU, GPUs and network adapters, what was read and what failed, and the raw
values of both readings. It contains no names of hosts or users, no addresses and no serial numbers. With the file - the
report is printed in place of the costs.`,
		Example: "  " + line + ` --config /etc/weir/agent.yaml
  ` + line + ` --once
  ` + line + ` --check
  ` + line + ` --check --report node.json`,
	}
	conf := cli.AsService(c)
	c.Flags().BoolVar(&prints, "once", false, "print one interval of this host and end")
	c.Flags().BoolVar(&checks, "check", false, "print the cost of each source on this host and end")
	c.Flags().BoolVar(&asJSON, "json", false, "with --once or --check: print one JSON object a line")
	c.Flags().StringVar(&report, "report", "", "with --check: write a report of this hardware to `FILE`; - is the "+
		"standard output")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := checkFlags(prints, checks, asJSON, report); err != nil {
			return cli.Usage(err)
		}
		if !prints && !checks {
			return conf.Serve(c, runAgent)
		}
		cfg, err := conf.Local()
		if err == nil {
			cfg, err = WithPeaks(cfg)
		}
		if err == nil {
			cfg = inuse.WithList(cfg, cli.NewLogger(c.ErrOrStderr(), cfg))
			err = CheckAgent(cfg)
		}
		switch {
		case err != nil:
			return cli.Usage(err)
		case prints:
			return once(c, cfg, asJSON)
		}
		return checkSources(c, cfg, asJSON, report)
	}
	return c
}

// checkFlags returns an error if the flags of the one-shot modes exclude each other.
func checkFlags(prints, checks, asJSON bool, report string) error {
	switch {
	case prints && checks || asJSON && !prints && !checks:
		return errOneOf
	case report != "" && !checks || report == toStdout && asJSON:
		return errReport
	}
	return nil
}

func runAgent(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	cfg, err := WithPeaks(cfg)
	if err == nil {
		err = CheckAgent(cfg)
	}
	if err == nil {
		err = restrain(cfg.Agent)
	}
	if err != nil {
		return cli.Usage(err)
	}
	cfg = inuse.WithList(cfg, log)
	go dropStartPages(ctx, log)
	return producers.Run(ctx, cfg, log)
}

// CheckAgent returns an error if a path of the agent's keys is missing, or if a metric of the site cannot be computed.
// Without /proc the agent would have nothing to send.
func CheckAgent(cfg config.Config) error {
	_, err := os.Stat(filepath.Join(cfg.Agent.ProcPath, "stat"))
	if err != nil {
		err = fmt.Errorf("agent.proc_path %q is no mount of procfs: %w", cfg.Agent.ProcPath, err)
	}
	return errors.Join(err, cli.Directory("agent.state_dir", cfg.Agent.StateDir), producers.Check(cfg.Agent))
}

// WithPeaks returns the configuration with the peaks of the agent's node. agent.peak_flops and agent.peak_mem_bw come
// first. If they are not set, the peaks come from the node's type.
func WithPeaks(cfg config.Config) (config.Config, error) {
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		return cfg, err
	}
	t := types.Of([]string{cfg.Agent.Node})
	cfg.Agent.PeakFlops = cmp.Or(cfg.Agent.PeakFlops, t.PeakFlops)
	cfg.Agent.PeakMemBW = cmp.Or(cfg.Agent.PeakMemBW, t.PeakMemBW)
	return cfg, nil
}
