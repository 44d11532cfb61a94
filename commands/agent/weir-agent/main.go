// Command weir-agent is `weir agent` for compute nodes: the same code, linked without the rest of weir.
package main

import (
	"os"

	"github.com/weirhpc/weir/producers"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
)

func main() {
	if err := producers.Slacken(); err != nil {
		cli.Say(os.Stderr, "weir-agent: note: a cycle costs more: %v", err)
	}
	cli.Main(agent.NewProgram)
}
