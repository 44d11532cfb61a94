// Package commands is the command line of weir: the root command, and the process around it. The sub-commands live in
// the packages below, which share package cli.
package commands

import (
	"context"
	"io"

	"github.com/spf13/cobra"

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
	return cli.Run(ctx, NewRoot, args, stdout, stderr)
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
	}
	cli.AsRoot(root, begun)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.Version = cli.VersionText()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.Flags().Bool("version", false, cli.VersionUsage)
	root.SetHelpCommand(cli.NewHelp())
	root.AddGroup(&cobra.Group{ID: "use", Title: "Use:"}, &cobra.Group{ID: "service", Title: "Services:"},
		&cobra.Group{ID: "admin", Title: "Administration:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("use", services.NewUp(), jobs.NewJobs(), jobs.NewJob(), jobs.NewCompare(), jobs.NewTop(), jobs.NewReport(),
		archive.NewReplay(), jobs.NewRules(), archive.NewSQL(), jobs.NewTail(),
		metrics.NewCatalogue(), services.NewReportMetric())
	add(
		"service",
		agent.NewAgent(),
		services.NewBalance(),
		services.NewCollect(),
		services.NewConsole(),
		services.NewFind(),
		services.NewMerge(),
		services.NewNotify(),
		services.NewSink(),
		services.NewSamples(),
		services.NewNodes(),
		services.NewSimulate(),
		services.NewBroker(),
	)
	add("admin", admin.NewStatus(), admin.NewMachine(), archive.NewAudit(), admin.NewTopics(), topology.NewTopology(),
		archive.NewArchive(), admin.NewInit(), admin.NewCheck(), admin.NewSize(),
		newCompletion(), newMan())
	root.AddCommand(admin.NewCheckLock())
	return root
}
