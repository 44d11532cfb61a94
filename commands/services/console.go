package services

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/console"
	"github.com/weirhpc/weir/kafka"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/jobs"
	"github.com/weirhpc/weir/commands/reading"
)

// NewConsole returns the command weir console.
func NewConsole() *cobra.Command {
	var relay bool
	c := &cobra.Command{
		Use:   "console",
		Short: "Show job owners their own jobs on login nodes",
		Long: `Shows job owners their own jobs on login nodes, without a password, an archive or brokers there.

It runs beside the archive, as a user who may read it, and answers the questions of relays. On each login node, a relay
(--relay) listens on a Unix socket, where the kernel names the user who asks. It forwards the question over TLS, and
both sides prove their names by certificates. On such a node, "weir job", "weir jobs" and "weir top --once" ask the
relay, if they can read no archive and know no broker.

A user sees own jobs, and the jobs of accounts in console.leaders. Users in console.support see all jobs. Each user may
ask 2 questions at a time and 60 a minute. Each question is a line of the log.`,
		Example: `  weir console --config /etc/weir/console.yaml
  weir console --relay --config /etc/weir/relay.yaml`,
	}
	conf := cli.AsServer(c)
	c.Flags().BoolVar(&relay, "relay", false, "be the relay of a login node, for console.address")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := conf.Load()
		if err != nil {
			return err
		}
		check, run := checkConsole, runConsole
		if relay {
			check, run = CheckRelay, runRelay
		}
		if err := check(cfg); err != nil {
			return cli.Usage(err)
		}
		cli.NeverWait(c.OutOrStdout(), c.ErrOrStderr())
		return kafka.Explain(cfg.Kafka, run(c.Context(), cfg, cli.NewLogger(c.ErrOrStderr(), cfg)))
	}
	return c
}

// CheckConsole returns nil if the configuration is of no console, or of one that can run here.
func CheckConsole(cfg config.Config) error {
	switch {
	case cfg.Console.Address != "":
		return CheckRelay(cfg)
	case cfg.Console.Listen != "":
		return checkConsole(cfg)
	}
	return nil
}

// CheckRelay returns nil if a relay can run with the configuration.
func CheckRelay(cfg config.Config) error {
	if cfg.Console.Address == "" {
		return errors.New("console.address is empty: a relay needs host:port of weir console")
	}
	return console.CheckFiles(cfg.Console.TLS, time.Now())
}

// checkConsole looks at everything that a question needs, so that a fault is found at the start and not by a user.
func checkConsole(cfg config.Config) error {
	switch {
	case cfg.Console.Listen == "":
		return errors.New("console.listen is empty: name host:port where relays reach it")
	case len(cfg.Console.Relays) == 0:
		return errors.New("console.relays is empty: no relay would be accepted")
	}
	_, err := reading.RuleSet(cfg)
	return errors.Join(console.CheckFiles(cfg.Console.TLS, time.Now()), err, CheckMachine(cfg),
		cli.Directory("sink.dir", cfg.Sink.Dir), analysis.Readable(cfg.Sink.Dir))
}

func runConsole(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	registry := newRegistry()
	stop, err := serveMetrics(ctx, cfg.Metrics.Listen, registry, log)
	if err != nil {
		return err
	}
	defer stop()
	return console.Serve(ctx, cfg.Console, jobs.Ask(cfg), log, console.NewMetrics(registry))
}

func runRelay(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	stop, err := serveMetrics(ctx, cfg.Metrics.Listen, newRegistry(), log)
	if err != nil {
		return err
	}
	defer stop()
	if err := console.Relay(ctx, cfg.Console, log); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	return nil
}
