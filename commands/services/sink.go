package services

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/findings"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/commands/cli"
)

// archive writes summaries, jobs and findings into the archive. Trouble with jobs and findings never ends it.
func archive(ctx context.Context, cfg config.Config, log *slog.Logger, registry prometheus.Registerer) error {
	aside, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { jobs.Run(aside, cfg, log, jobs.NewMetrics(registry)) })
	running.Go(func() { findings.Run(aside, cfg, log, findings.NewMetrics(registry)) })
	defer running.Wait()
	defer end()
	return sink.Run(ctx, cfg, log, sink.NewMetrics(registry))
}

// NewSink returns the command weir sink.
func NewSink() *cobra.Command {
	serve := checked(archive, schemas.TopicJobSummary)
	c := newService(&cobra.Command{
		Use:   "sink",
		Short: "Archive the summaries, the jobs and the findings as Parquet",
		Long: `Archives the summaries as Parquet files below sink.dir, every summary once.

Jobs that have ended go to jobs/ there, and their last findings to findings/. A second process on the same directory
stands by. If both write the same file, one of them wins.`,
		Example: `  weir sink --config /etc/weir/sink.yaml`,
	}, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
		if err := cli.Directory("sink.dir", cfg.Sink.Dir); err != nil {
			return cli.Usage(err)
		}
		return serve(ctx, cfg, log)
	})
	c.AddCommand(newAcceptGap())
	return c
}

func newAcceptGap() *cobra.Command {
	var conf cli.ConfigFlags
	c := &cobra.Command{
		Use:   "accept-gap PARTITION",
		Short: "Go on behind summaries that cannot be archived",
		Long: `Declares summaries of a partition lost, by an empty file in the archive.

The sink goes on behind that file. There are three cases for it:

  - A file of the archive was deleted, and the sink reports a hole.
  - Retention deleted summaries from the topic before they were archived.
  - The sink waits at a record with an unknown schema, and no weir wrote that record. If a newer weir wrote it, upgrade
    the sink instead: otherwise its rows are lost. Let the sink run first, so that it archives what lies before.

Run it with the sink's configuration, where sink.dir is the archive.`,
		Example: `  weir sink accept-gap 3 --config /etc/weir/sink.yaml`,
		Args:    cli.OneArg("PARTITION", "0 --config /etc/weir/sink.yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			partition, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || partition < 0 {
				return cli.Usage(fmt.Errorf("PARTITION %q is not a number of a partition", args[0]))
			}
			cfg, err := conf.Load()
			if err != nil {
				return err
			}
			return sink.AcceptGap(c.Context(), cfg, int32(partition), cli.NewLogger(c.ErrOrStderr(), cfg))
		},
	}
	conf.Add(c)
	return c
}
