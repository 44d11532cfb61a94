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

func merge(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
	return processors.Merge(ctx, cfg, log, processors.NewMetrics(registry))
}

// NewMerge returns the command weir merge.
func NewMerge() *cobra.Command {
	return newService(&cobra.Command{
		Use:   "merge",
		Short: "Merge the shares of jobs that are spread over several collectors",
		Long: `Merges the shares of jobs that are spread over several collectors.

It folds the topic partials. Several processes share its partitions; one that gets none stands by.`,
		Example: `  weir merge --config /etc/weir/merge.yaml`,
	}, publishing(merge, schemas.TopicPartials, schemas.TopicMergeProgress, schemas.TopicJobSummary,
		schemas.TopicRejects))
}
