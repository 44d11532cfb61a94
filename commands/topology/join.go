package topology

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands/cli"
)

// joinFlags are the flags of weir topology join.
type joinFlags struct {
	networkOut
	external, measured string
}

func newTopologyJoin() *cobra.Command {
	var f joinFlags
	c := &cobra.Command{
		Use:   "join BETWEEN INSIDE...",
		Short: "Join the network between nodes with those within them",
		Long: `Joins the network between nodes with those within them. A processor is called NODE:PROCESSOR.

BETWEEN is the network of the nodes. INSIDE is the network of the processors of each node, or NODE=FILE for one node.
If INSIDE contains a node with the name of --external, that node is the way out. Otherwise the top of the tree is.

The latencies between nodes include the way to the processor that measured them. With --measured that way is
subtracted.`,
		Example: `  weir topology join nodes.tgf cores.tgf --measured cpu0 --out machine.tgf
  weir topology join nodes.tgf cores.tgf gpu1=big.tgf gpu2=big.tgf`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usage(fmt.Errorf("%[1]s takes the network between nodes and one within them: for example "+
					"`%[1]s nodes.tgf cores.tgf`", c.CommandPath()))
			}
			return nil
		},
		ValidArgsFunction: networkArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.checkOut(c); err != nil {
				return err
			}
			return f.run(c, args)
		},
	}
	f.addOut(c, network.TGF)
	c.Flags().StringVar(&f.external, "external", "external", "`NAME` of the way out within a node")
	c.Flags().StringVar(&f.measured, "measured", "", "`PROCESSOR` that measured the latencies between nodes, such as "+
		"cpu0")
	return c
}

func (f *joinFlags) run(c *cobra.Command, args []string) error {
	between, err := readNetwork(c, args[0])
	if err != nil {
		return err
	}
	inside := map[string]network.Inside{}
	known := map[string]bool{}
	for _, name := range between.Names[:between.Nodes] {
		known[name] = true
	}
	for _, arg := range args[1:] {
		node, file, one := strings.Cut(arg, "=")
		if !one {
			file = arg
		}
		n, err := readNetwork(c, file)
		if err != nil {
			return err
		}
		in := network.Inside{Network: n, External: f.external, Measured: f.measured}
		switch {
		case one && !known[node]:
			return cli.Usage(fmt.Errorf("%s: %s has no node %.80q", arg, args[0], node))
		case one:
			inside[node] = in
			continue
		}
		for name := range known {
			if _, named := inside[name]; !named {
				inside[name] = in
			}
		}
	}
	joined, clamped, err := network.Join(between, inside)
	if err != nil {
		return cli.Usage(err)
	}
	if clamped > 0 {
		cli.Say(c.ErrOrStderr(), "weir topology: %d links would have a latency below 0, and have 0: did --measured "+
			"measure the latencies between nodes?", clamped)
	}
	return f.write(c, func(w io.Writer) error { return joined.Write(w, cmp.Or(f.format, network.TGF)) })
}
