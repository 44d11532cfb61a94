package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/sink"
)

// readable returns nil if the file of a key can be read, or none is named. A person may mend the text of a job file
// while the balancer runs. A file that is missing at the start is a wrong name.
func readable(key, path string) error {
	if path == "" {
		return nil
	}
	info, err := config.Answer(path, func() (fs.FileInfo, error) {
		file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer would never open
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // nothing was written
		return file.Stat()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s %s: not a regular file", key, path)
	}
	return nil
}

// directory returns nil if a key names a directory, or nothing that is there.
func directory(key, path string) error {
	if path == "" {
		return nil
	}
	info, err := config.Answer(path, func() (fs.FileInfo, error) { return os.Stat(path) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", key, err)
	case !info.IsDir():
		return fmt.Errorf("%s %s: not a directory", key, path)
	}
	return nil
}

// checkJobs returns nil if the job file of a key or flag holds jobs, or none is named. Faults of single jobs do not
// count.
func checkJobs(key, path string) error {
	if err := readable(key, path); path == "" || err != nil {
		return err
	}
	_, faults := scheduler.NewFileSource(path).Jobs(time.Now())
	if err := unreadable(faults); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// checkTree returns nil if the tree can be read, or no file is named.
func checkTree(cfg config.Config) error {
	if _, err := treeOf(cfg, nil); err != nil {
		return fmt.Errorf("balance.tree_file: %w", err)
	}
	return nil
}

// newCheck makes the command that an administrator runs before a service sees the file. It asks no broker, because the
// file is often written first.
func newCheck() *cobra.Command {
	conf := configFlags{reads: true}
	c := &cobra.Command{
		Use:   "check",
		Short: "Validate a configuration and print it as it takes effect",
		Long: `Validates a configuration and the files that it names, and prints it as it takes effect.

It asks no broker. It ends with status 2 if anything is wrong. Names of agent.metrics_file that no metric has are wrong;
metrics in use that it lacks get a note on standard error. So does each file that other users may read or change, though
weir relies on it: the configuration, passwords and keys, programs and their directories, lists, files of metrics, the
archive.

If sink.dir is there and can be written to, it tries what the archive needs of that file system: hard links, flock(2)
between two processes of this host, the exchange of two directories, and one file system for .stage and summaries. It
leaves nothing behind. Without hard links no sink works: that is wrong. The others get a note on standard error.`,
		Example: `  weir check --config /etc/weir/collect.yaml`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := conf.load()
			if err != nil {
				return err
			}
			if len(cfg.Kafka.Brokers) == 0 {
				return usageError{kafka.ErrNoBrokers}
			}
			open := exposed(cfg, named{key: "--config", path: conf.found, runs: true})
			if err := checkFiles(cfg); err != nil {
				return usageError{err}
			}
			listed, err := checkList(cfg)
			for _, note := range append(open, listed...) {
				say(c.ErrOrStderr(), "weir: note: %s", note)
			}
			if err != nil {
				return usageError{err}
			}
			notes, err := sink.Probe(c.Context(), cfg.Sink.Dir, func(path string) error {
				return lockBeside(c.Context(), path)
			})
			for _, note := range notes {
				say(c.ErrOrStderr(), "weir: note: %s", note)
			}
			if err != nil {
				return usageError{fmt.Errorf("sink.dir: %w", err)}
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

// What weir check-lock reports.
const (
	lockTaken = "taken"
	lockHeld  = "held"
)

// lockBeside tries to take a lock in another process.
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

// newCheckLock makes the command that weir check starts as its second process.
func newCheckLock() *cobra.Command {
	return &cobra.Command{
		Use: "check-lock PATH", Short: "Try a lock beside weir check", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			lock, err := sink.TakeLock(c.Context(), args[0], true, 0)
			if errors.Is(err, sink.ErrLocked) {
				say(c.OutOrStdout(), lockHeld)
				return nil
			}
			if err != nil {
				return err
			}
			lock.Unlock()
			say(c.OutOrStdout(), lockTaken)
			return nil
		},
	}
}

// checkFiles returns nil if all files that the configuration names can be used.
func checkFiles(cfg config.Config) error {
	return errors.Join(kafka.CheckFiles(cfg.Kafka, time.Now()), kafka.CheckRegistryFiles(cfg.Registry),
		checkJobs("balance.jobs_file", cfg.Balance.JobsFile), checkTree(cfg), checkAgent(cfg),
		scheduler.CheckCPUIDs(cfg), checkMachine(cfg), checkSiteRules(cfg),
		directory("balance.drop_dir", cfg.Balance.DropDir), directory("sink.dir", cfg.Sink.Dir), checkCommands(cfg),
		source.CheckReportDir(cfg.Agent))
}

// checkCommands returns nil if this user may run the commands of the agent's sources. The agent itself starts without
// them, since one that is missing costs its own values only.
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

// unreadable returns the fault of a list of jobs as a whole, or nil.
func unreadable(faults []scheduler.Fault) error {
	for _, f := range faults {
		if f.JobID == "" && !f.Followed {
			return errors.New(f.Reason)
		}
	}
	return nil
}
