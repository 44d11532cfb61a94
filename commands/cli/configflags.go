// Package cli is the common ground of all commands: the flags for configuration, CSV, style and time, usage errors and
// exit statuses, the log, and outputs that are safe for a terminal.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// EtcFile is the machine's configuration.
const EtcFile = "/etc/weir/weir.yaml"

// ConfigFlags is the flag --config of a command.
type ConfigFlags struct {
	File    string
	Found   string // the file that was read; empty if none was
	Reads   bool   // the command only reads topics: without a configuration it uses the `weir up` of this directory
	Command *cobra.Command
	Given   *config.Config // of a service that runs the command; nil: the command reads one

	ignored error // why a RunningFile does not count
}

// Add adds the flag to a command.
func (f *ConfigFlags) Add(c *cobra.Command) {
	f.Command = c
	usage := "configuration `FILE` (default: " + EtcFile + ")"
	if f.Reads {
		usage = "configuration `FILE` (default: " + EtcFile + ", else that of weir up: " + config.RunningFile + ")"
	}
	c.Flags().StringVar(&f.File, "config", "", usage)
	OfferFiles(c, "config", YamlFiles...)
}

// Source returns the place of the configuration: the named file, otherwise the machine's, otherwise a running `weir
// up`. If a RunningFile exists but does not count, the flags keep the reason.
func (f *ConfigFlags) Source(etc string) config.Source {
	src := config.Source{File: f.File, Environ: os.Environ(), Flags: f.Command.Flags(), Defaults: config.Default()}
	if f.File != "" {
		return src
	}
	var ignored error
	switch _, err := os.Stat(etc); {
	case err == nil, errors.Is(err, fs.ErrPermission):
		src.File, ignored = etc, fmt.Errorf("%s comes first", etc)
	case !f.Reads:
		ignored = errors.New("this command needs a whole configuration")
	default:
		var dir string
		if dir, ignored = syscall.Getwd(); ignored == nil { // unlike os.Getwd, without symbolic links
			src.Defaults, ignored = config.Running(dir, os.Geteuid(), src.Defaults)
		}
	}
	if _, err := os.Lstat(config.RunningFile); err == nil || errors.Is(err, fs.ErrPermission) {
		f.ignored = ignored
	}
	return src
}

// ReportIgnored names a RunningFile that does not count, if its brokers could be wanted.
func (f *ConfigFlags) ReportIgnored(cfg config.Config) {
	if f.ignored == nil || !f.Reads && len(cfg.Kafka.Brokers) > 0 {
		return
	}
	Say(f.Command.ErrOrStderr(), "weir: %s is ignored: %s: if you trust it, name it with --config %[1]s",
		config.RunningFile, schemas.Printable(f.ignored.Error()))
}

// Local loads the configuration of a command that asks no broker. It may be empty.
func (f *ConfigFlags) Local() (config.Config, error) {
	cfg, _, err := f.read()
	return cfg, err
}

// read loads the configuration, and returns its file, which is empty if there is none.
func (f *ConfigFlags) read() (cfg config.Config, file string, err error) {
	src := f.Source(EtcFile)
	src.Keys = map[string]string{"log-level": "log_level"}
	f.Found = src.File
	if cfg, err = config.Load(src); err != nil {
		return cfg, src.File, UsageError{err}
	}
	return cfg, src.File, nil
}

// Load reads the configuration of a command that asks brokers.
func (f *ConfigFlags) Load() (config.Config, error) {
	if f.Given != nil {
		return *f.Given, nil
	}
	cfg, file, err := f.read()
	if err != nil {
		return cfg, err
	}
	f.ReportIgnored(cfg)
	// A certificate that is not valid yet needs no person. Until then brokers refuse it, and that is logged.
	if err := kafka.CheckFiles(cfg.Kafka, time.Now()); err != nil && !errors.Is(err, kafka.ErrNotYetValid) {
		return cfg, UsageError{err}
	}
	if len(cfg.Kafka.Brokers) == 0 && file == "" {
		remedy := "name one with --config FILE"
		if f.Reads {
			remedy = "start `weir up` here first, or " + remedy
		}
		return cfg, UsageError{errors.New("no configuration: " + remedy)}
	}
	return cfg, nil
}

// Serve is a part of weir that runs until its context ends.
type Serve func(ctx context.Context, cfg config.Config, log *slog.Logger) error

// Serve runs a part until the command's context ends.
func (f *ConfigFlags) Serve(c *cobra.Command, run Serve) error {
	cfg, err := f.Load()
	if err != nil {
		return err
	}
	if len(cfg.Kafka.Brokers) == 0 {
		return UsageError{kafka.ErrNoBrokers}
	}
	NeverWait(c.OutOrStdout(), c.ErrOrStderr())
	return kafka.Explain(cfg.Kafka, run(c.Context(), cfg, NewLogger(c.ErrOrStderr(), cfg)))
}

const (
	waitHelp = `

It waits for brokers that are away or refuse it, and logs that once. It ends at SIGTERM or Ctrl-C. Exit status:`
	endHelp = `

It ends at SIGTERM or Ctrl-C. Exit status:`
	statusHelp = `

  - 0: it was asked to end
  - 1: it cannot go on, and reports why
  - 2: the command line or the configuration is wrong`
)

// AsService gives a command the help and the flags that all services share. Its RunE is set by the caller.
func AsService(c *cobra.Command) *ConfigFlags { return asService(c, waitHelp) }

// AsServer is AsService for a command that waits for no broker.
func AsServer(c *cobra.Command) *ConfigFlags { return asService(c, endHelp) }

func asService(c *cobra.Command, help string) *ConfigFlags {
	conf := &ConfigFlags{}
	c.Long += help + statusHelp
	c.Args = NoArgs
	conf.Add(c)
	c.Flags().String("log-level", "",
		"`LEVEL` of the log: debug, info, warn or error (default: log_level of the configuration)")
	Offer(c, "log-level", LogLevels...)
	return conf
}

// Directory returns nil if the path of a key is a directory, or does not exist.
func Directory(key, path string) error {
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

// Readable returns an error if the file of a key cannot be read. No file is no error. It is checked at the start only:
// a person may correct the text of a job file while the balancer runs, but a file that is missing at the start is a
// wrong name.
func Readable(key, path string) error {
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
