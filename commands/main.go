package commands

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Main runs the program weir, and ends the process with its exit status.
func Main() {
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
