// Package admin holds the commands of an administrator: writing and checking a configuration, creating topics, sizing
// an installation, and its status.
package admin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/notify"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
	"github.com/weirhpc/weir/commands/services"
)

// NewCheck makes the command that an administrator runs before a service sees the file. It asks no broker, because the
// file is often written first.
func NewCheck() *cobra.Command {
	conf := cli.ConfigFlags{Reads: true}
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate a configuration and print it as it takes effect",
		Long: `Validates a configuration and the files that it names, and prints it as it takes effect.

It asks no broker, and ends with status 2 if anything is wrong. An unknown metric in agent.metrics_file is an error; a
missing metric that is in use gets a note on standard error. So does each file that other users may read or change
although weir relies on it: the configuration, passwords and keys, programs and their directories, lists, files of
metrics, the archive.

If sink.dir exists and is writable, it tests the file system for the archive's needs: hard links, flock(2) between two
processes of this host, the exchange of two directories, and one file system for .stage and summaries. It leaves
nothing behind. Missing hard links are an error, because no sink works without them. The others get a note on standard
error.`,
		Example: `  weir check --config /etc/weir/collect.yaml`,
		Args:    cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.Load()
			if err != nil {
				return err
			}
			if len(cfg.Kafka.Brokers) == 0 && cfg.Console.Address == "" { // a relay asks none
				return cli.Usage(kafka.ErrNoBrokers)
			}
			open := exposed(cfg, named{key: "--config", path: conf.Found, runs: true})
			if err := checkFiles(cfg); err != nil {
				return cli.Usage(err)
			}
			listed, err := inuse.CheckList(cfg)
			for _, note := range append(open, listed...) {
				cli.Say(c.ErrOrStderr(), "weir: note: %s", note)
			}
			if err != nil {
				return cli.Usage(err)
			}
			notes, err := sink.Probe(c.Context(), cfg.Sink.Dir, func(path string) error {
				return lockBeside(c.Context(), path)
			})
			for _, note := range notes {
				cli.Say(c.ErrOrStderr(), "weir: note: %s", note)
			}
			if err != nil {
				return cli.Usage(fmt.Errorf("sink.dir: %w", err))
			}
			text, err := cfg.YAML()
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	conf.Add(c)
	return c
}

// Answers of `weir check-lock`.
const (
	lockTaken = "taken"
	lockHeld  = "held"
)

// lockBeside tries to take a lock in another process, since the locks of the archive must keep processes out.
func lockBeside(ctx context.Context, path string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	out, err := exec.CommandContext(ctx, self, "check-lock", path).Output()
	switch text := strings.TrimSpace(string(out)); {
	case err != nil:
		return fmt.Errorf("starting this program again: %w", err)
	case text == lockHeld:
		return sink.ErrLocked
	case text != lockTaken:
		return fmt.Errorf("starting this program again: it reported %q", text)
	}
	return nil
}

// NewCheckLock makes the command that weir check starts as its second process.
func NewCheckLock() *cobra.Command {
	return &cobra.Command{
		Use: "check-lock PATH", Short: "Try a lock beside weir check", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			lock, err := sink.TakeLock(c.Context(), args[0], true, 0)
			if errors.Is(err, sink.ErrLocked) {
				cli.Say(c.OutOrStdout(), lockHeld)
				return nil
			}
			if err != nil {
				return err
			}
			lock.Unlock()
			cli.Say(c.OutOrStdout(), lockTaken)
			return nil
		},
	}
}

// checkFiles returns nil if all files that the configuration names can be used.
func checkFiles(cfg config.Config) error {
	return errors.Join(kafka.CheckFiles(cfg.Kafka, time.Now()), kafka.CheckRegistryFiles(cfg.Registry),
		services.CheckJobs("balance.jobs_file", cfg.Balance.JobsFile), services.CheckTree(cfg), agent.CheckAgent(cfg),
		scheduler.CheckCPUIDs(cfg), services.CheckMachine(cfg), services.CheckSiteRules(cfg),
		cli.Directory("balance.drop_dir", cfg.Balance.DropDir), cli.Directory("sink.dir", cfg.Sink.Dir),
		checkCommands(cfg), services.CheckConsole(cfg), notify.Check(cfg),
		source.CheckReportDir(cfg.Agent))
}

// checkCommands returns an error if this user may not run the commands of the agent's sources. The agent itself starts
// without them, since a missing command costs only its own values.
func checkCommands(cfg config.Config) (err error) {
	for i, s := range cfg.Agent.Sources {
		if len(s.Exec) > 0 {
			if _, cause := exec.LookPath(s.Exec[0]); cause != nil {
				err = errors.Join(err, fmt.Errorf("agent.sources[%d].exec: %w", i, cause))
			}
		}
	}
	return err
}
