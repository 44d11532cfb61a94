// Package commands is the command line of weir: the root command, and the process around it. The sub-commands live in
// the packages below, which share package cli.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/commands/admin"
	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/archive"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/jobs"
	"github.com/weirhpc/weir/commands/metrics"
	"github.com/weirhpc/weir/commands/services"
	"github.com/weirhpc/weir/commands/topology"
)

// Run is main without the process: it returns the exit status.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out, errs := cli.NewRelay(ctx, stdout), cli.NewRelay(ctx, stderr)
	defer errs.Close()
	begun := false
	root := NewRoot(&begun)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	out.Close() // the outputs, before an error is reported
	if name, is := strings.CutPrefix(fmt.Sprint(err), `unknown command "`); is && !begun {
		name, _, _ = strings.Cut(name, `"`)
		err = cli.UnknownCommand(root, name)
	}
	var usage cli.UsageError
	var status cli.StatusError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // the reader closed the pipe
		return cli.ExitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		report(errs, fmt.Errorf("interrupted: %w", err))
		return cli.ExitFailed
	case errors.As(err, &status):
		return int(status)
	case begun && errors.Is(err, config.ErrSilent): // a later try may succeed, so that systemd starts a service again
		report(errs, err)
		return cli.ExitFailed
	case !begun, errors.As(err, &usage):
		report(errs, err)
		return cli.ExitUsage
	default:
		report(errs, err)
		return cli.ExitFailed
	}
}

// report writes an error. The prefix "weir:" is left out if the text begins with the name of a command.
func report(w io.Writer, err error) {
	text := err.Error()
	if !strings.HasPrefix(text, "weir ") && !strings.HasPrefix(text, "weir:") {
		text = "weir: " + text
	}
	cli.Say(w, "%s", text)
}

// NewRoot returns the command weir weir.
func NewRoot(begun *bool) *cobra.Command {
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
			return cli.EmptyFlags(c)
		},
		DisableSuggestions: true, // cobra's suggestions take several lines, UnknownCommand one
	}
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion takes its place
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.Version = cli.VersionText()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.Flags().Bool("version", false, "report version, commit, Go version and platform")
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetHelpCommand(cli.NewHelp())
	root.AddGroup(&cobra.Group{ID: "use", Title: "Use:"}, &cobra.Group{ID: "service", Title: "Services:"},
		&cobra.Group{ID: "admin", Title: "Administration:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("use", services.NewUp(), jobs.NewJobs(), jobs.NewJob(), jobs.NewTop(), jobs.NewReport(),
		archive.NewReplay(), jobs.NewRules(), archive.NewSQL(), jobs.NewTail(),
		metrics.NewCatalogue(), services.NewReportMetric())
	add(
		"service",
		agent.NewAgent(),
		services.NewBalance(),
		services.NewCollect(),
		services.NewFind(),
		services.NewMerge(),
		services.NewSink(),
		services.NewSamples(),
		services.NewSimulate(),
		services.NewBroker(),
	)
	add("admin", admin.NewStatus(), archive.NewAudit(), admin.NewTopics(), topology.NewTopology(),
		archive.NewArchive(), admin.NewInit(), admin.NewCheck(), admin.NewSize(),
		newCompletion(), newMan())
	root.AddCommand(admin.NewCheckLock())
	return root
}
