package commands

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirhpc/weir/producers"

	"github.com/weirhpc/weir/commands/cli"
)

// Main runs the program weir, and ends the process with its exit status.
func Main() {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		if err := producers.Slacken(); err != nil {
			cli.Say(os.Stderr, "weir: note: a cycle of the agent costs more: %v", err)
		}
	}
	// Writing to a closed pipe returns an error. It does not end the process.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endSignals(signal.Ignored)...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// endSignals returns the signals that end a process in order. SIGHUP is among them, so that the broker's log is closed
// even when the terminal closes. Under nohup SIGHUP is ignored, and stays so.
func endSignals(ignored func(os.Signal) bool) []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
