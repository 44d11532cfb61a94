package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// topicsOf is the table of topics of a configuration.
func topicsOf(cfg config.Config) []schemas.Topic {
	return schemas.Topics(cfg.Prefix, schemas.Sizes{
		Collectors: cfg.Collectors, Routes: cfg.Partitions.Routes, Partials: cfg.Partitions.Partials, JobSummary: cfg.Partitions.JobSummary,
		Replication: cfg.Topics.Replication, CountersRetention: cfg.Topics.CountersRetention,
		SummaryRetention: cfg.Topics.SummaryRetention, SegmentBytes: cfg.Topics.SegmentBytes,
	})
}

func createTopics(ctx context.Context, cfg config.Config) error {
	cl, err := analysis.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := schemas.CreateTopics(ctx, cl, topicsOf(cfg)); err != nil {
		return err
	}
	return schemas.CheckTopics(ctx, kadm.NewClient(cl), topicsOf(cfg))
}

func checkTopics(ctx context.Context, cfg config.Config) error {
	cl, err := analysis.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer cl.Close()
	return schemas.CheckTopics(ctx, kadm.NewClient(cl), topicsOf(cfg))
}

// needsSubcommand is what a command does that only groups others.
func needsSubcommand(c *cobra.Command, args []string) error {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return usageError{fmt.Errorf("%s %s: name one of its commands: %s", c.CommandPath(), strings.Join(args, " "), strings.Join(names, ", "))}
}

func newTopics() *cobra.Command {
	topics := &cobra.Command{Use: "topics", Short: "Make the topics, or check them", RunE: needsSubcommand}
	command := func(use, short, done string, act func(ctx context.Context, cfg config.Config) error) *cobra.Command {
		var conf configFlags
		c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			if err := act(c.Context(), cfg); err != nil {
				return err
			}
			say(c.OutOrStdout(), "%d topics with prefix %s %s", len(topicsOf(cfg)), cfg.Prefix, done)
			return nil
		}}
		conf.add(c)
		return c
	}
	topics.AddCommand(
		command("create", "Make the topics that are missing, and give all the settings that correctness needs", "are there", createTopics),
		command("check", "Compare the topics with what correctness needs", "are as they should be", checkTopics),
	)
	return topics
}

func newCheck() *cobra.Command {
	var conf configFlags
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate a configuration and print it as it takes effect",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			text, err := cfg.YAML()
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	conf.add(c)
	return c
}

func newAcceptGap() *cobra.Command {
	var conf configFlags
	c := &cobra.Command{
		Use:   "accept-gap PARTITION",
		Short: "Go on where retention took summaries before they were archived",
		Long: `The sink stops where its chain of files ends before the first summary that the topic still has. This adds an empty file
that says so to the chain; the sink then goes on behind the gap.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			partition, err := strconv.ParseInt(args[0], 10, 32)
			if err != nil || partition < 0 {
				return usageError{fmt.Errorf("PARTITION %q is not a number of a partition", args[0])}
			}
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			return sink.AcceptGap(c.Context(), cfg, int32(partition), newLogger(c.ErrOrStderr(), cfg.LogLevel))
		},
	}
	conf.add(c)
	return c
}
