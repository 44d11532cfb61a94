package topology

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/topology/discovery/measure"
	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands/cli"
)

// sysfsName is the argument for the network of this host's processors, as Linux describes it.
const sysfsName = "sysfs"

func newTopologyDiff() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two networks: status 1 if they differ",
		Long: `Compares two networks. The status is 1 if they differ, and 2 if they could not be compared.

A and B are files in any form: those of build, balance.tree_file, Slurm's topology.conf and topology.yaml. "-" is
standard input. "` + sysfsName + `" is what Linux says of this host's processors, cpu0 and so on.

Two trees are the same if their switches divide the nodes in the same ways. Names of switches, latencies, the order of
nodes and the place of the top do not count. Switches are compared for the nodes that both trees have.`,
		Example: `  weir topology diff tree.yaml /etc/slurm/topology.conf
  weir topology diff sysfs cores.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usage(fmt.Errorf("%[1]s takes two arguments, A and B: for example `%[1]s tree.yaml "+
					"/etc/slurm/topology.conf`", c.CommandPath()))
			}
			return nil
		},
		ValidArgsFunction: networkArgs,
		RunE: func(c *cobra.Command, args []string) error {
			var both [2]*network.Network
			for i, name := range args {
				n, err := diffSide(c, name)
				if err != nil {
					return err
				}
				both[i] = n
			}
			d := network.Compare(both[0], both[1])
			var err error
			if asJSON {
				err = cli.PrintJSON(c.OutOrStdout(), []*network.Differences{d})
			} else {
				err = printDifferences(c.OutOrStdout(), d, args, both[0].Nodes)
			}
			if err == nil && !d.None() {
				return cli.StatusError(cli.ExitFailed)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// diffSide reads one of the two networks.
func diffSide(c *cobra.Command, name string) (*network.Network, error) {
	if name == sysfsName {
		n, warnings, err := measure.Sysfs("/sys")
		for _, one := range warnings {
			cli.Say(c.ErrOrStderr(), "weir topology: %s: %s", sysfsName, one)
		}
		return n, err
	}
	return readNetwork(c, name)
}

// printDifferences prints a line for each difference.
func printDifferences(w io.Writer, d *network.Differences, names []string, nodes int) error {
	t := cli.NewTable(0)
	if d.None() {
		t.Line("%s and %s are the same network of %d nodes", names[0], names[1], nodes)
		return t.Print(w)
	}
	for i, side := range []network.Side{d.OnlyA, d.OnlyB} {
		name, other := names[i], names[1-i]
		if len(side.Nodes) > 0 {
			t.Line("only in %s: nodes %s", name, topology.FoldHosts(side.Nodes))
		}
		for _, g := range side.Switches {
			text := fmt.Sprintf("only in %s: switch %s with %s", name, g.Switch, topology.FoldHosts(g.Nodes))
			if len(g.Nearest) > 0 {
				text += fmt.Sprintf("; nearest in %s: %s", other, topology.FoldHosts(g.Nearest))
			}
			t.Line("%s", text)
		}
		for _, l := range side.Links {
			t.Line("only in %s: link between %s and %s", name, l[0], l[1])
		}
	}
	if d.Other {
		t.Line("the links between switches differ")
	}
	return t.Print(w)
}
