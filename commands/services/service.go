// Package services holds the commands that run a part of weir until they are interrupted, alone or all together in
// `weir up`, and the commands that feed them.
package services

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/retry"
)

// metered is the function that runs a part and adds its metrics to the registry.
type metered func(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error

// newService completes the command of a part that runs as a process of its own.
func newService(c *cobra.Command, run cli.Serve) *cobra.Command {
	conf := cli.AsService(c)
	c.RunE = func(c *cobra.Command, _ []string) error { return conf.Serve(c, run) }
	return c
}

// checked exports the metrics of a part, and runs the part once brokers and topics are in order. The agent is not
// checked: it may not describe topics, and listens on nothing.
func checked(run metered, topics ...string) cli.Serve {
	return checkedWith(needsNothing, run, topics...)
}

// publishing is checked for a part that writes public topics. It reads the registry's ids if topics.wire needs them.
func publishing(run metered, topics ...string) cli.Serve {
	return checkedWith(kafka.WithRegistryIDs, run, topics...)
}

// needsNothing completes the configuration of a part that needs nothing more.
func needsNothing(_ context.Context, cfg config.Config) (config.Config, error) { return cfg, nil }

func checkedWith(
	complete func(context.Context, config.Config) (config.Config, error), run metered, topics ...string,
) cli.Serve {
	return func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		registry := newRegistry()
		stop, err := serveMetrics(ctx, cfg.Metrics.Listen, registry, log)
		if err != nil {
			return err
		}
		defer stop()
		var trouble retry.Trouble
		for tries := 1; ; tries++ {
			full := cfg
			err := checkTopics(ctx, cfg, log, topics)
			if err == nil {
				full, err = complete(ctx, cfg)
			}
			switch {
			case ctx.Err() != nil:
				return nil // asked to end during the check, which is no error
			case err == nil:
				return run(ctx, full, log, registry)
			case errors.Is(err, kafka.ErrTopics), errors.Is(err, kafka.ErrOldBroker),
				errors.Is(err, kafka.ErrNoBrokers):
				return err
			case trouble.Worth(err, time.Now()):
				log.Warn("brokers are away or refuse this client, trying again", "err", err)
			}
			if !retry.Pause(ctx, retry.Backoff(tries, cfg.BackoffCap)) {
				return nil
			}
		}
	}
}
