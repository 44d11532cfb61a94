package services

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

// NewCollect returns the command weir collect.
func NewCollect() *cobra.Command {
	return newService(&cobra.Command{
		Use:   "collect",
		Short: "Fold the counters into summaries",
		Long: `Folds the counters of jobs into summaries.

Several processes share the partitions of the topic counters. Start as many as you want, up to one for each partition.`,
		Example: `  weir collect --config /etc/weir/collect.yaml`,
	}, publishing(collect, schemas.TopicCounters, schemas.TopicProgress, schemas.TopicPartials, schemas.TopicJobSummary,
		schemas.TopicRejects))
}
