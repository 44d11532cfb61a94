package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers"
)

func newAgent() *cobra.Command {
	return newService(&cobra.Command{
		Use:   "agent",
		Short: "Sample this node's counters and send them",
		Long: `Samples this node's counters at every interval boundary, and sends them.

Its Route names the jobs of this node and their partitions. It listens on nothing. It needs no root, but CAP_PERFMON
for perf events. While Kafka is away it goes on, its memory does not grow, and it drops the oldest intervals.`,
		Example: `  weir agent --config /etc/weir/agent.yaml`,
	}, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		if err := checkAgent(cfg); err != nil {
			return usageError{err}
		}
		go dropStartPages(ctx, log)
		return producers.Run(ctx, cfg, log)
	})
}

// checkAgent returns nil if an agent finds what its keys name. Without /proc it would have nothing to send.
func checkAgent(cfg config.Config) error {
	_, err := os.Stat(filepath.Join(cfg.Agent.ProcPath, "stat"))
	if err != nil {
		err = fmt.Errorf("agent.proc_path %q is no mount of procfs: %w", cfg.Agent.ProcPath, err)
	}
	return errors.Join(err, directory("agent.state_dir", cfg.Agent.StateDir))
}
