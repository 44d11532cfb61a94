package services

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/commands/cli"
)

// NewSamples returns the command weir samples.
func NewSamples() *cobra.Command {
	return newOptional(&cobra.Command{
		Use:   "samples",
		Short: "Archive the values of all cores for a while",
		Long: `Archives the values that agents send, core by core, as Parquet files, every record once.

The files are below samples/ in sink.dir. They are for looking at a few days core by core, in SQL. A date is deleted
samples.retention (72h) after its end. samples.metrics names the metrics to keep: all metrics of a large machine take
hundreds of gigabytes a day.

It is optional, and may be off for a week. It goes on where it ended, or where the topic now begins, and records the
gap between the two. At its first start it reads everything in the topic, but at most samples.retention.

Jobs of one node that are reduced on their node have no values. balance.local_max: -1 gets them for all jobs.`,
		Example: `  weir samples --config /etc/weir/samples.yaml
  weir samples --config /etc/weir/samples.yaml --since 1h`,
	}, "samples.retention",
		func(ctx context.Context, cfg config.Config, since time.Duration, log *slog.Logger,
			registry prometheus.Registerer,
		) error {
			return sink.RunSamples(ctx, cfg, since, log, sink.NewSamplesMetrics(registry))
		})
}

// NewNodes returns the command weir nodes.
func NewNodes() *cobra.Command {
	return newOptional(&cobra.Command{
		Use:   "nodes",
		Short: "Archive how each node of each job did, by the hour",
		Long: `Archives how each node of each job did in an hour, as Parquet files, every record once.

A row has the mean, the smallest and the largest value of a metric of a job for each of its nodes.

The files are below nodes/ in sink.dir. weir job makes its table by node of them, for jobs of more than three nodes. A
date is deleted nodes.retention (720h) after its end. nodes.metrics names the metrics to keep: those of the table.

It is optional, and may be off for a while. It goes on where it ended, or where the topic now begins, and records the
gap between the two. At its first start it reads everything in the topic, but at most nodes.retention. A file ends
sink.period after its first record, so a job that runs has numbers up to then.`,
		Example: `  weir nodes --config /etc/weir/nodes.yaml
  weir nodes --config /etc/weir/nodes.yaml --since 1h`,
	}, "nodes.retention",
		func(ctx context.Context, cfg config.Config, since time.Duration, log *slog.Logger,
			registry prometheus.Registerer,
		) error {
			return sink.RunNodes(ctx, cfg, since, log, sink.NewNodesMetrics(registry))
		})
}

// newOptional returns the command of a service that keeps another table of topic counters for a while.
func newOptional(c *cobra.Command, retention string,
	run func(context.Context, config.Config, time.Duration, *slog.Logger, prometheus.Registerer) error,
) *cobra.Command {
	var since time.Duration
	serve := checked(
		func(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
			return run(ctx, cfg, since, log, registry)
		}, schemas.TopicCounters)
	c = newService(c, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		if err := cli.Directory("sink.dir", cfg.Sink.Dir); err != nil {
			return cli.Usage(err)
		}
		if since < 0 {
			return cli.Usage(fmt.Errorf("--since %v is negative: how far back to begin, such as 1h", since))
		}
		return serve(ctx, cfg, log)
	})
	c.Flags().Var((*cli.Age)(&since), "since",
		"pass records that are older than this `DURATION` at the start (default: "+retention+")")
	return c
}
