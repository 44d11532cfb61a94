package commands

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/weirhpc/weir/commands/cli"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of weir and all its commands",
		Long: `Writes the manual pages of weir and all its commands.

DIR is made if it does not exist. Each page contains the text of --help. Its date is today's, or SOURCE_DATE_EPOCH
(seconds since 1970), with which the same program writes the same bytes.`,
		Example: `  weir man /usr/local/share/man/man1`,
		Args:    cli.OneArg("DIR", "/usr/local/share/man/man1"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return cli.Usage(fmt.Errorf("making DIR: %w", err))
			}
			root := c.Root()
			root.DisableAutoGenTag = true // the page is about weir, not about its generator
			if err := doc.GenManTree(root, &doc.GenManHeader{Source: "weir", Manual: "weir"}, args[0]); err != nil {
				return fmt.Errorf("writing manual pages: %w", err)
			}
			cli.Say(c.OutOrStdout(), "manual pages of section 1 in %s", args[0])
			return nil
		},
	}
}
