package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/processors"
	"github.com/weirhpc/weir/schemas"
)

func collect(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
	return processors.Collect(ctx, cfg, log, processors.NewMetrics(registry))
}

func newCollect() *cobra.Command {
	return newService("collect", "Fold the counters into summaries", `Folds partitions of counters. Start as many as wanted, up to one a partition: they share the partitions among them.`,
		checked(collect, schemas.TopicCounters, schemas.TopicProgress, schemas.TopicPartials, schemas.TopicJobSummary, schemas.TopicRejects))
}
