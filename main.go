// Command weir is continuous job performance monitoring for supercomputers. Its sub-commands only wire the parts
// together; each part is a package of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/config"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1 // something went wrong
	exitUsage  = 2 // wrong usage or configuration: nothing was begun
)

func main() {
	// SIGHUP too: a terminal that is closed is no reason to leave the broker's log open. A pipe that is closed is an error
	// of writing, not the end of the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// usageError is an error of the caller's: the command line or the configuration.
type usageError struct{ error }

// Unwrap returns what was wrong.
func (e usageError) Unwrap() error { return e.error }

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	begun := false
	root := newRoot(&begun)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if name, is := strings.CutPrefix(fmt.Sprint(err), `unknown command "`); is && !begun {
		name, _, _ = strings.Cut(name, `"`)
		err = unknownCommand(root, name)
	}
	var usage usageError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // whoever read it has seen enough
		return exitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		report(stderr, fmt.Errorf("interrupted: %w", err))
		return exitFailed
	case !begun, errors.As(err, &usage):
		report(stderr, err)
		return exitUsage
	default:
		report(stderr, err)
		return exitFailed
	}
}

// report writes an error, with our name before it unless it begins with that of the command.
func report(w io.Writer, err error) {
	text := err.Error()
	if !strings.HasPrefix(text, "weir ") && !strings.HasPrefix(text, "weir:") {
		text = "weir: " + text
	}
	say(w, "%s", text)
}

func newRoot(begun *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Continuous job performance monitoring for supercomputers",
		Long: `weir measures how well every job uses its hardware, all the time, on the whole machine.

Begin with "weir up": it runs everything in this process, on this machine's real counters.`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			*begun = true
			return emptyFlags(c)
		},
		DisableSuggestions: true, // of several lines
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.AddGroup(&cobra.Group{ID: "use", Title: "Use:"}, &cobra.Group{ID: "service", Title: "Services:"}, &cobra.Group{ID: "admin", Title: "Administration:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("use", newUp(), newJobs(), newJob(), newTail())
	add("service", newAgent(), newBalance(), newCollect(), newMerge(), newSink(), newSimulate(), newBroker())
	add("admin", newStatus(), newTopics(), newCheck())
	return root
}

// configFlags are the flags by which a command is told its configuration.
type configFlags struct {
	file  string
	flags *pflag.FlagSet
}

// defaultFiles are where a command looks for its configuration when it is not told: what `weir up` left in this
// directory, then the machine's.
func defaultFiles() []string { return []string{"weir-data/weir.yaml", "/etc/weir/weir.yaml"} }

func (f *configFlags) add(c *cobra.Command) {
	f.flags = c.Flags()
	c.Flags().StringVar(&f.file, "config", "", "configuration `FILE` (default: weir-data/weir.yaml, then /etc/weir/weir.yaml)")
}

// configFile returns the file that was named, else the first of the default ones that is there; empty where none is.
func configFile(named string) string {
	if named != "" {
		return named
	}
	for _, candidate := range defaultFiles() {
		if _, err := os.Stat(candidate); err == nil || errors.Is(err, fs.ErrPermission) {
			return candidate
		}
	}
	return ""
}

func (f *configFlags) load() (config.Config, error) {
	file := configFile(f.file)
	cfg, err := config.Load(config.Source{
		File: file, Environ: os.Environ(), Flags: f.flags, Keys: map[string]string{"log-level": "log_level"}, Defaults: config.Default(),
	})
	if err != nil {
		return cfg, usageError{err}
	}
	// A certificate that is not valid yet becomes valid without a hand: brokers refuse it until then, and that is logged.
	if err := cfg.Kafka.CheckFiles(time.Now()); err != nil && !errors.Is(err, config.ErrNotYetValid) {
		return cfg, usageError{err}
	}
	if len(cfg.Kafka.Brokers) == 0 && file == "" {
		return cfg, usageError{errors.New("no configuration: start `weir up` here first, or name one with --config FILE")}
	}
	return cfg, nil
}

// newLogger makes the log of a process. It explains what a Kafka client says about being refused.
func newLogger(w io.Writer, cfg config.Config) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, is := a.Value.Any().(error); is {
			a.Value = slog.StringValue(cfg.Kafka.Explain(err).Error())
		}
		return a
	}}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err == nil { // Validate has checked it
		opts.Level = level
	}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
