package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

func archive(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
	return sink.Run(ctx, cfg, log, sink.NewMetrics(registry))
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

func newAcceptGap() *cobra.Command {
	var conf configFlags
	c := &cobra.Command{
		Use:   "accept-gap PARTITION",
		Short: "Go on behind summaries that cannot be archived",
		Long: `Adds an empty file to the archive that declares summaries of a partition lost. The sink goes on behind it. Three cases:

  - A file of the archive was deleted, and the sink reports a hole.
  - Retention deleted summaries from the topic before they were archived.
  - The sink waits at a record with an unknown schema, and no weir wrote that record. If a newer weir did, upgrade the sink
    instead: its rows would be lost. What lies before that record must be archived first, so let the sink run.

Run it with the sink's configuration, where sink.dir is the archive.

  weir sink accept-gap 3`,
		Args: oneArg("PARTITION", "0 --config /etc/weir/sink.yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			partition, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || partition < 0 {
				return usageError{fmt.Errorf("PARTITION %q is not a number of a partition", args[0])}
			}
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			return sink.AcceptGap(c.Context(), cfg, int32(partition), newLogger(c.ErrOrStderr(), cfg))
		},
	}
	conf.add(c)
	return c
}
