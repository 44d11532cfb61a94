package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka"
)

// NewRoot returns the root command of a program. It sets begun once a command runs.
type NewRoot func(begun *bool) *cobra.Command

// Main runs a program, and ends the process with its exit status.
func Main(root NewRoot) {
	// Writing to a closed pipe returns an error. It does not end the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), EndSignals(signal.Ignored)...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(Run(ctx, root, os.Args[1:], os.Stdout, os.Stderr))
}

// EndSignals returns the signals that end a process in order. SIGHUP is among them, so that the broker's log is closed
// even when the terminal closes. Under nohup SIGHUP is ignored, and stays so.
func EndSignals(ignored func(os.Signal) bool) []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// Run is Main without the process: it returns the exit status.
func Run(ctx context.Context, newRoot NewRoot, args []string, stdout, stderr io.Writer) int {
	out, errs := NewRelay(ctx, stdout), NewRelay(ctx, stderr)
	defer errs.Close()
	begun := false
	root := newRoot(&begun)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	out.Close() // the outputs, before an error is reported
	if name, is := strings.CutPrefix(fmt.Sprint(err), `unknown command "`); is && !begun {
		name, _, _ = strings.Cut(name, `"`)
		err = UnknownCommand(root, name)
	}
	report := func(err error) { report(errs, root.Name(), err) }
	var usage UsageError
	var status StatusError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // the reader closed the pipe
		return ExitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		report(fmt.Errorf("interrupted: %w", err))
		return ExitFailed
	case errors.As(err, &status):
		return int(status)
	case begun && errors.Is(err, config.ErrSilent): // a later try may succeed, so that systemd starts a service again
		report(err)
		return ExitFailed
	case !begun, errors.As(err, &usage), errors.Is(err, kafka.ErrNoBrokers):
		report(err)
		return ExitUsage
	default:
		report(err)
		return ExitFailed
	}
}

// report writes an error. The program's name stands before it, unless the text begins with the name of a command.
func report(w io.Writer, program string, err error) {
	text := err.Error()
	if !strings.HasPrefix(text, program+" ") && !strings.HasPrefix(text, program+":") {
		text = program + ": " + text
	}
	Say(w, "%s", text)
}

// VersionUsage is the help of --version.
const VersionUsage = "report version, commit, Go version and platform"

// AsRoot makes a command the root of a program: its errors are reported by Run.
func AsRoot(root *cobra.Command, begun *bool) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		*begun = true
		return EmptyFlags(c)
	}
	root.DisableSuggestions = true // cobra's suggestions take several lines, UnknownCommand one
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(FlagError)
}
