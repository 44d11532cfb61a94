package reading

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/balancer/scheduler"
	"github.com/weirhpc/weir/producers"

	"github.com/weirhpc/weir/commands/cli"
)

const (
	mixTest, mixSuperMUC = "test", "supermuc"
	maxClients           = 10_000
)

// simulatedMachine is the size of a machine that exists, or may some day. Only its CPUs count: GPUs are not simulated.
type simulatedMachine struct {
	name         string
	nodes, cores int
}

// simulatedMachines returns the machines of --machine.
func simulatedMachines() []simulatedMachine {
	return []simulatedMachine{
		{"supermuc", 9288, 16}, // phase 1: thin nodes, as in the PerSyst paper
		{"frontier", 9408, 64},
		{"elcapitan", 11_136, 96},
		{"ten-million", 78_125, 128}, // 10,000,000 cores
	}
}

func machineNames() (names []string) {
	for _, m := range simulatedMachines() {
		names = append(names, m.name)
	}
	return names
}

// LoadFlags describe the simulated nodes. A command offers some of them.
type LoadFlags struct {
	Nodes, Cores, metrics int
	mix, machine          string
}

// Add gives a command the flags that describe the simulated nodes, except for their number.
func (f *LoadFlags) Add(c *cobra.Command) {
	flags := c.Flags()
	flags.IntVar(&f.Cores, "cores", 0,
		"logical CPUs of a simulated node: `N`, 1 to 256 (default: 16; always 32 with --mix test)")
	flags.StringVar(&f.mix, "mix", "",
		"`KIND` of jobs and values: test or supermuc (default: test, or supermuc with --machine)")
	flags.StringVar(&f.machine, "machine", "",
		"simulate a whole `MACHINE`: supermuc, frontier, elcapitan or ten-million")
	cli.Offer(c, "mix", mixTest, mixSuperMUC)
	cli.Offer(c, "machine", machineNames()...)
}

// AddMetrics adds the flags that shape metrics.
func (f *LoadFlags) AddMetrics(c *cobra.Command) {
	c.Flags().IntVar(&f.metrics, "metrics", 0,
		"metrics of a simulated node: `N`, 1 to 200 (default: 37; at most 10 with --mix test)")
}

// Resolve checks the flags of a command, and fills those not given. The parameter flag is the name of the command's own
// flag for the number of nodes. Without nodes nothing is simulated.
func (f *LoadFlags) Resolve(c *cobra.Command, flag string) error {
	if err := f.useMachine(c, flag); err != nil {
		return cli.Usage(err)
	}
	if f.Nodes == 0 && flag != "nodes" {
		for _, name := range []string{"cores", "metrics", "mix"} {
			if c.Flags().Changed(name) {
				return cli.Usage(fmt.Errorf("--%s is for simulated nodes: add --%s N or --machine MACHINE",
					name, flag))
			}
		}
		return nil
	}
	if err := checkSimulated(flag, f.Nodes); err != nil {
		return err
	}
	cores, metrics := producers.SimulatedCPUs, producers.TestMetrics
	if f.mix == mixSuperMUC {
		cores, metrics = producers.LoadCores, producers.LoadMetrics
	}
	if !c.Flags().Changed("cores") {
		f.Cores = cmp.Or(f.Cores, cores)
	}
	if !c.Flags().Changed("metrics") {
		f.metrics = cmp.Or(f.metrics, metrics)
	}
	if err := f.check(); err != nil {
		return cli.Usage(err)
	}
	return nil
}

// useMachine sets the nodes, the cores and the mix of a --machine. Without --machine it only sets the mix.
func (f *LoadFlags) useMachine(c *cobra.Command, flag string) error {
	given := c.Flags().Changed("machine")
	if !c.Flags().Changed("mix") {
		f.mix = mixTest
		if given {
			f.mix = mixSuperMUC
		}
	}
	switch {
	case f.mix != mixTest && f.mix != mixSuperMUC:
		return fmt.Errorf("--mix %q must be %s or %s", f.mix, mixTest, mixSuperMUC)
	case !given:
		return nil
	}
	for _, m := range simulatedMachines() {
		if m.name != f.machine {
			continue
		}
		if f.mix == mixTest {
			return fmt.Errorf("--machine %s has more cores than the nodes of --mix test: leave --mix out", f.machine)
		}
		if !c.Flags().Changed(flag) {
			f.Nodes = m.nodes
		}
		if !c.Flags().Changed("cores") {
			f.Cores = m.cores
		}
		return nil
	}
	return fmt.Errorf("--machine %q must be one of %s", f.machine, strings.Join(machineNames(), ", "))
}

// check returns an error if such nodes cannot be simulated.
func (f *LoadFlags) check() error {
	maxMetrics, hint := producers.MaxMetrics, ""
	if f.mix == mixTest {
		maxMetrics, hint = producers.TestMetrics, ", or more with --mix supermuc"
	}
	switch {
	case f.mix == mixTest && f.Cores != producers.SimulatedCPUs:
		return fmt.Errorf("--cores %d: the nodes of --mix test have %d: add --mix supermuc",
			f.Cores, producers.SimulatedCPUs)
	case f.Cores < 1 || f.Cores > producers.MaxCores:
		return fmt.Errorf("--cores %d must be 1 to %d", f.Cores, producers.MaxCores)
	case f.metrics < 1 || f.metrics > maxMetrics:
		return fmt.Errorf("--metrics %d must be 1 to %d%s", f.metrics, maxMetrics, hint)
	}
	return nil
}

// Limits returns the limits for the simulated jobs. Those of the test mix are so small that exactly one of its jobs is
// split. For any other mix, and without simulated nodes, Limits returns its arguments, the limits of the configuration.
func (f *LoadFlags) Limits(lMax, lDist int) (most, dist int) {
	if f.Nodes > 0 && f.mix == mixTest {
		return simulatedLimits(f.Nodes)
	}
	return lMax, lDist
}

// Names are the simulated nodes.
func (f *LoadFlags) Names() []string { return producers.SimulatedNodes(f.Nodes) }

// Jobs returns the source of the jobs on the simulated nodes.
func (f *LoadFlags) Jobs(interval time.Duration) scheduler.Source {
	if f.mix == mixSuperMUC {
		return scheduler.NewSuperMUC(f.Names(), f.Cores, interval)
	}
	return scheduler.NewSimulated(f.Names(), interval)
}

// Load returns the properties of the simulated nodes.
func (f *LoadFlags) Load() producers.Load {
	return producers.Load{SuperMUC: f.mix == mixSuperMUC, Cores: f.Cores, Metrics: f.metrics}
}

// CheckClients returns nil if so many nodes can have so many Kafka clients.
func CheckClients(clients, nodes int) error {
	switch {
	case clients < 1 || clients > maxClients:
		return cli.Usage(fmt.Errorf("--clients %d must be 1 to %d", clients, maxClients))
	case clients > nodes:
		return cli.Usage(fmt.Errorf("--clients %d: each needs a node, and there are %d", clients, nodes))
	}
	return nil
}

// simulatedLimits are so small that exactly one of the simulated jobs is split.
func simulatedLimits(nodes int) (lMax, lDist int) {
	lMax = max(2, nodes/4)
	return lMax, max(1, lMax*9/10)
}

// checkSimulated returns nil if n is a possible number of simulated nodes.
func checkSimulated(flag string, n int) error {
	if n < scheduler.MinSimulated || n > maxSimulated {
		return cli.Usage(fmt.Errorf("--%s %d: at least %d nodes are needed for jobs that take all paths, "+
			"and at most %d may be", flag, n, scheduler.MinSimulated, maxSimulated))
	}
	return nil
}

// maxSimulated is the largest number of simulated nodes in one process.
const maxSimulated = 100_000
