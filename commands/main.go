package commands

import (
	"os"

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
	cli.Main(NewRoot)
}
