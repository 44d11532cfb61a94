// Package topology holds the commands that discover the network between nodes: measuring latencies and throughput,
// building a network from them, and comparing networks.
package topology

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
)

// NewTopology returns the command weir topology.
func NewTopology() *cobra.Command {
	c := &cobra.Command{
		Use:   "topology",
		Short: "Find the network behind latencies: its switches and links",
		Long: `Finds the network behind latencies: its switches and links.

"measure" measures the latencies between nodes, or between the processors of a node. "build" finds the network behind a
file of latencies. "diff" compares it with the file of a scheduler, and "show" draws it. The balancer reads it as
balance.tree_file. docs/topology.md explains all of it.`,
		Example: `  weir topology build --matrix latencies.csv --format yaml --out tree.yaml
  weir topology diff tree.yaml /etc/slurm/topology.conf
  weir topology show tree.yaml --svg tree.svg`,
		Args: cli.NoArgs,
	}
	c.AddCommand(newTopologyMeasure(), agent.NewPeer(), newTopologyBuild(), newTopologyShow(), newTopologyDiff(),
		newTopologyJoin(), newTopologyCorrect(), newTopologyThroughput(), newTopologyStats())
	return c
}

// networkFiles are the endings of the files of networks.
var networkFiles = []string{"yaml", "yml", "conf", "tgf", "json", "tree", "edges"}

// networkArgs completes arguments that are files of networks.
func networkArgs(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return networkFiles, cobra.ShellCompDirectiveFilterFileExt
}

// networkOut are the flags of commands that write a network.
type networkOut struct{ format, out string }

// addOut adds the flags. The parameter usual describes, for the help, the form that is used if neither flag names one.
func (f *networkOut) addOut(c *cobra.Command, usual string) {
	c.Flags().StringVar(&f.format, "format", "", "write `FORM` "+strings.Join(network.Forms(), "|")+
		" (default: by --out, else "+usual+")")
	c.Flags().StringVar(&f.out, "out", "", "write to `FILE` (default: standard output)")
	cli.Offer(c, "format", network.Forms()...)
	cli.OfferFiles(c, "out", networkFiles...)
}

// checkOut derives the form from the file's ending, and refuses unknown forms. It leaves the form empty if no flag
// names one.
func (f *networkOut) checkOut(c *cobra.Command) error {
	if !c.Flags().Changed("format") {
		ending := strings.TrimPrefix(filepath.Ext(f.out), ".")
		switch {
		case ending == "yml":
			f.format = network.YAML
		case ending == "tree":
			f.format = network.Parens
		case slices.Contains(network.Forms(), ending):
			f.format = ending
		default:
			return nil
		}
	}
	if !slices.Contains(network.Forms(), f.format) {
		return cli.Usage(fmt.Errorf("--format %.40q must be one of %s", f.format, strings.Join(network.Forms(), ", ")))
	}
	return nil
}

// write writes to the file or to standard output.
func (f *networkOut) write(c *cobra.Command, write func(io.Writer) error) error {
	if f.out == "" {
		return write(c.OutOrStdout())
	}
	return cli.WriteWhole("--out", f.out, write)
}

// readNetwork reads the network that an argument or a flag names. "-" is standard input.
func readNetwork(c *cobra.Command, name string) (*network.Network, error) {
	var n *network.Network
	var err error
	if name == "-" {
		if n, err = network.Read(c.InOrStdin()); err != nil {
			err = fmt.Errorf("reading the network of standard input: %w", err)
		}
	} else {
		n, err = network.ReadFile(name)
	}
	if err != nil {
		return nil, cli.Usage(err)
	}
	return n, nil
}
