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

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/schemas"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1 // something went wrong
	exitUsage  = 2 // wrong usage or configuration: nothing began
)

func main() {
	// Writing to a closed pipe returns an error. It does not end the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endSignals(signal.Ignored)...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// endSignals are the signals that end a process in order. SIGHUP is one: the broker's log is closed even if the
// terminal is. Under nohup it is ignored, and stays so.
func endSignals(ignored func(os.Signal) bool) []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// usageError is a mistake of the caller, on the command line or in the configuration.
type usageError struct{ error }

// Unwrap returns what was wrong.
func (e usageError) Unwrap() error { return e.error }

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out, errs := newRelay(ctx, stdout), newRelay(ctx, stderr)
	defer errs.close()
	begun := false
	root := newRoot(&begun)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	out.close() // before any error is reported
	if name, is := strings.CutPrefix(fmt.Sprint(err), `unknown command "`); is && !begun {
		name, _, _ = strings.Cut(name, `"`)
		err = unknownCommand(root, name)
	}
	var usage usageError
	var status statusError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // the reader closed the pipe
		return exitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		report(errs, fmt.Errorf("interrupted: %w", err))
		return exitFailed
	case errors.As(err, &status):
		return int(status)
	case begun && errors.Is(err, config.ErrSilent): // a later try may succeed, so that systemd starts a service again
		report(errs, err)
		return exitFailed
	case !begun, errors.As(err, &usage):
		report(errs, err)
		return exitUsage
	default:
		report(errs, err)
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
		Example: `  weir up
  weir jobs
  weir job host`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			*begun = true
			return emptyFlags(c)
		},
		DisableSuggestions: true, // they have several lines; unknownCommand has one
	}
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion takes its place
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.Version = versionText()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.Flags().Bool("version", false, "report version, commit, Go version and platform")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.AddGroup(&cobra.Group{ID: "use", Title: "Use:"}, &cobra.Group{ID: "service", Title: "Services:"},
		&cobra.Group{ID: "admin", Title: "Administration:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("use", newUp(), newJobs(), newJob(), newTop(), newReport(), newReplay(), newRules(), newSQL(), newTail(),
		newCatalogue(), newReportMetric())
	add(
		"service",
		newAgent(),
		newBalance(),
		newCollect(),
		newFind(),
		newMerge(),
		newSink(),
		newSamples(),
		newSimulate(),
		newBroker(),
	)
	add("admin", newStatus(), newAudit(), newTopics(), newTopology(), newArchive(), newInit(), newCheck(), newSize(),
		newCompletion(), newMan())
	root.AddCommand(newCheckLock())
	return root
}

// Values that the shell offers.
var (
	logLevels = []string{"debug", "info", "warn", "error"}
	yamlFiles = []string{"yaml", "yml"}
)

// etcFile is the machine's configuration.
const etcFile = "/etc/weir/weir.yaml"

// configFlags is the flag --config of a command.
type configFlags struct {
	file    string
	found   string // the file that was read; empty where there is none
	reads   bool   // it only reads topics: without a configuration it asks the `weir up` of this directory
	command *cobra.Command
}

func (f *configFlags) add(c *cobra.Command) {
	f.command = c
	usage := "configuration `FILE` (default: " + etcFile + ")"
	if f.reads {
		usage = "configuration `FILE` (default: " + etcFile + ", else that of weir up: " + config.RunningFile + ")"
	}
	c.Flags().StringVar(&f.file, "config", "", usage)
	offerFiles(c, "config", yamlFiles...)
}

// source returns where the configuration comes from: the named file, else the machine's, else a running weir up. If
// there is a RunningFile that does not count, source reports why.
func (f *configFlags) source(etc string) config.Source {
	src := config.Source{File: f.file, Environ: os.Environ(), Flags: f.command.Flags(), Defaults: config.Default()}
	if f.file != "" {
		return src
	}
	var ignored error
	switch _, err := os.Stat(etc); {
	case err == nil, errors.Is(err, fs.ErrPermission):
		src.File, ignored = etc, fmt.Errorf("%s comes first", etc)
	case !f.reads:
		ignored = errors.New("this command needs a whole configuration")
	default:
		var dir string
		if dir, ignored = syscall.Getwd(); ignored == nil { // not os.Getwd, whose path may have symbolic links
			src.Defaults, ignored = config.Running(dir, os.Geteuid(), src.Defaults)
		}
	}
	if _, err := os.Lstat(config.RunningFile); ignored != nil && (err == nil || errors.Is(err, fs.ErrPermission)) {
		say(f.command.ErrOrStderr(), "weir: %s is ignored: %s: if you trust it, name it with --config %[1]s",
			config.RunningFile, schemas.Printable(ignored.Error()))
	}
	return src
}

// local loads the configuration of a command that asks no broker. Nothing need be configured.
func (f *configFlags) local() (config.Config, error) {
	cfg, _, err := f.read()
	return cfg, err
}

// read loads the configuration, and returns its file: empty where there is none.
func (f *configFlags) read() (cfg config.Config, file string, err error) {
	src := f.source(etcFile)
	src.Keys = map[string]string{"log-level": "log_level"}
	f.found = src.File
	if cfg, err = config.Load(src); err != nil {
		return cfg, src.File, usageError{err}
	}
	return cfg, src.File, nil
}

func (f *configFlags) load() (config.Config, error) {
	cfg, file, err := f.read()
	if err != nil {
		return cfg, err
	}
	// A certificate that is not valid yet needs no person. Until then brokers refuse it, and that is logged.
	if err := kafka.CheckFiles(cfg.Kafka, time.Now()); err != nil && !errors.Is(err, kafka.ErrNotYetValid) {
		return cfg, usageError{err}
	}
	if len(cfg.Kafka.Brokers) == 0 && file == "" {
		remedy := "name one with --config FILE"
		if f.reads {
			remedy = "start `weir up` here first, or " + remedy
		}
		return cfg, usageError{errors.New("no configuration: " + remedy)}
	}
	return cfg, nil
}

// newLogger makes the log of a process. It explains why a broker refuses the client.
func newLogger(w io.Writer, cfg config.Config) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, is := a.Value.Any().(error); is {
			a.Value = slog.StringValue(kafka.Explain(cfg.Kafka, err).Error())
		}
		return a
	}}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err == nil { // Validate has checked it
		opts.Level = level
	}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(escaped{w}, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
