package topology

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/commands/cli"
)

func newTopologyShow() *cobra.Command {
	var picture string
	var ascii bool
	c := &cobra.Command{
		Use:   "show FILE",
		Short: "Draw a network",
		Long: `Draws a network: a tree with the nodes of each switch, or the links of each node. --svg draws a picture.

FILE is an output of build, join or correct, or Slurm's topology.conf or topology.yaml. "-" is standard input.
Latencies are in microseconds, one way, if the file contains them.`,
		Example: `  weir topology show tree.yaml
  weir topology show /etc/slurm/topology.conf --svg tree.svg`,
		Args:              cli.OneArg("FILE", "tree.yaml"),
		ValidArgsFunction: networkArgs,
		RunE: func(c *cobra.Command, args []string) error {
			n, err := readNetwork(c, args[0])
			switch {
			case err != nil:
				return err
			case picture == "-":
				return n.WriteSVG(c.OutOrStdout())
			case picture != "":
				return cli.WriteWhole("--svg", picture, n.WriteSVG)
			}
			return n.Draw(c.OutOrStdout(), ascii || !cli.IsUTF8(os.Getenv))
		},
	}
	c.Flags().StringVar(&picture, "svg", "", "write a picture to `FILE`, or to standard output with -")
	c.Flags().BoolVar(&ascii, "ascii", false, "draw with ASCII alone (default: if the locale is not UTF-8)")
	cli.OfferFiles(c, "svg", "svg")
	return c
}
