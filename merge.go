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

func merge(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
	return processors.Merge(ctx, cfg, log, processors.NewMetrics(registry))
}

func newMerge() *cobra.Command {
	return newService("merge", "Merge the shares of jobs that are spread over several collectors",
		`Folds partitions of partials. A second one stands by, or shares the partitions where there are several.`,
		checked(merge, schemas.TopicPartials, schemas.TopicMergeProgress, schemas.TopicJobSummary, schemas.TopicRejects))
}
