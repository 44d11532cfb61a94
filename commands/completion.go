package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/commands/cli"
)

// shells are the shells for which weir can write a completion.
var shells = []string{"bash", "zsh", "fish"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Write a script that completes weir's commands and options in a shell",
		Long: `Writes a script that completes weir's commands and options in a shell: bash, zsh or fish.

The shell reads the script at its next start. Bash needs the package bash-completion. Completion offers fixed values
only, such as the names of topics, and asks no broker.`,
		Example: `  weir completion bash > /etc/bash_completion.d/weir
  weir completion zsh > /usr/local/share/zsh/site-functions/_weir
  weir completion fish > ~/.config/fish/completions/weir.fish`,
		Args: func(c *cobra.Command, args []string) error {
			if err := cli.OneArg("SHELL", "bash")(c, args); err != nil {
				return err
			}
			if !slices.Contains(shells, args[0]) {
				return cli.Usage(fmt.Errorf("shell %q must be one of %s: for example `weir completion bash`",
					args[0], strings.Join(shells, ", ")))
			}
			return nil
		},
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			const described = true
			switch out := c.OutOrStdout(); args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(out, described)
			case "zsh":
				return c.Root().GenZshCompletion(out)
			default:
				return c.Root().GenFishCompletion(out, described)
			}
		},
	}
}
