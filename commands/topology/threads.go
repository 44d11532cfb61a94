package topology

import (
	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/measure"

	"github.com/weirhpc/weir/commands/cli"
)

// threadsFlags measure between the processors of this node.
type threadsFlags struct{ wanted bool }

func (f *threadsFlags) flag() string { return "threads" }

func (f *threadsFlags) Add(c *cobra.Command) {
	c.Flags().BoolVar(&f.wanted, f.flag(), false,
		"measure between the processors of this node that this process may use")
}

func (f *threadsFlags) open(*cobra.Command) (latency.Measurer, func() error, error) {
	cpus, err := measure.Affinity()
	if err != nil {
		return nil, nil, err
	}
	threads, err := measure.NewThreads(cpus)
	if err != nil {
		return nil, nil, cli.Usage(err)
	}
	return threads, func() error { return nil }, nil
}
