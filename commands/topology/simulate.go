package topology

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/simulated"

	"github.com/weirhpc/weir/commands/cli"
)

// simulateFlags measure a made-up network.
type simulateFlags struct {
	spec  string
	noise simulated.Noise
}

func (f *simulateFlags) flag() string { return "simulate" }

func (f *simulateFlags) Add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.spec, f.flag(), "", "measure a made-up network `NET`: "+
		strings.Join(simulated.Examples()[:2], ", ")+", … or a FILE of a network")
	flags.Float64Var(&f.noise.Sigma, "noise", 0, "with simulate: the standard deviation of ln(latency) is `S`")
	flags.Float64Var(&f.noise.Outliers, "outliers", 0, "with simulate: this `SHARE` of the latencies is up to five "+
		"times too long")
	flags.Float64Var(&f.noise.TickUs, "tick", 0, "with simulate: the clock has steps of `US` microseconds")
}

func (f *simulateFlags) open(c *cobra.Command) (latency.Measurer, func() error, error) {
	switch {
	case !(f.noise.Sigma >= 0 && f.noise.Sigma <= 2):
		return nil, nil, cli.Usage(fmt.Errorf("--noise %v must be 0 to 2", f.noise.Sigma))
	case !(f.noise.Outliers >= 0 && f.noise.Outliers <= 1):
		return nil, nil, cli.Usage(fmt.Errorf("--outliers %v must be 0 to 1", f.noise.Outliers))
	case !(f.noise.TickUs >= 0 && f.noise.TickUs <= 1e6):
		return nil, nil, cli.Usage(fmt.Errorf("--tick %v must be 0 to 1e6", f.noise.TickUs))
	}
	seed, err := c.Flags().GetUint64("seed")
	if err != nil {
		return nil, nil, err
	}
	net, err := f.network(c)
	if err != nil {
		return nil, nil, err
	}
	return simulated.Measurer(net, f.noise, seed), func() error { return nil }, nil
}

// network returns the network of a description or of a file.
func (f *simulateFlags) network(c *cobra.Command) (*network.Network, error) {
	if kind, _, _ := strings.Cut(f.spec, ":"); !strings.ContainsAny(kind, "./") {
		net, err := simulated.Parse(f.spec)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--simulate: %w", err))
		}
		return net, nil
	}
	net, err := readNetwork(c, f.spec)
	if err != nil {
		return nil, err
	}
	for _, l := range net.Links {
		if !(l.LatencyUs >= 0) {
			return nil, cli.Usage(fmt.Errorf("--simulate %s: each link needs a latency", f.spec))
		}
	}
	return net, nil
}
