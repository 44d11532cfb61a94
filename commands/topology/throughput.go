package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/schedule"
	"github.com/weirhpc/weir/topology/discovery/simulated"

	"github.com/weirhpc/weir/commands/cli"
)

// throughputWays returns the ways to measure throughput. Their Measurer is a latency.ThroughputMeasurer too.
func throughputWays() []measureWay {
	return []measureWay{
		&rendezvousFlags{},
	}
}

// throughputFlags are the flags of weir topology throughput, without the flags of the ways.
type throughputFlags struct {
	networkOut
	ways              []measureWay
	network, simulate string
	options           schedule.ThroughputOptions
	asJSON            bool
}

func newTopologyThroughput() *cobra.Command {
	f := throughputFlags{ways: throughputWays()}
	c := &cobra.Command{
		Use:   "throughput",
		Short: "Measure the throughput of each link of a network",
		Long: `Measures the throughput of each link of a network, and writes the network with it.

Links that do not share a node are measured at the same time. Nodes of a switch send in pairs, and the faster ones
prove the rate of the slower ones. This takes three to five rounds for all switches. Links between switches are filled
by as many nodes as possible, from the leaves up. A link may be faster than its nodes can send. In that case the report
prints "at least".

The network's file contains the links of weir topology build. Its nodes are the ones that take part.`,
		Example: `  weir topology throughput --network tree.tgf --simulate truth.tgf
  weir topology throughput --network tree.tgf --simulate truth.tgf --both --switches --out throughput.tgf
  weir topology throughput --network tree.tgf --rendezvous login1:7117 --secret-file secret`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return f.run(c)
		},
	}
	f.addOut(c, network.TGF)
	for _, w := range f.ways {
		w.Add(c)
	}
	flags := c.Flags()
	flags.StringVar(&f.network, "network", "", "measure the network of `FILE`")
	flags.StringVar(&f.simulate, "simulate", "", "measure a simulated network: that in `FILE`, with throughputs")
	flags.Int64Var(&f.options.Transfer.Bytes, "transfer", 64_000_000, "each pair sends `N` bytes")
	flags.BoolVar(&f.options.Transfer.Both, "both", false, "send in both directions at the same time")
	flags.BoolVar(&f.options.Sequential, "sequential", false, "measure one pair of a switch at a time")
	flags.BoolVar(&f.options.Switches, "switches", false, "also measure each switch with all its links in use")
	flags.BoolVar(&f.options.Hidden, "hidden", false, "also look for links that latencies do not show: "+
		"two rounds a pair")
	flags.BoolVar(&f.asJSON, "json", false, "print the results as one JSON object, and no network")
	cli.OfferFiles(c, "network", networkFiles...)
	cli.OfferFiles(c, "simulate", networkFiles...)
	return c
}

func (f *throughputFlags) check(c *cobra.Command) error {
	ways := 0
	names := []string{"--simulate"}
	for _, w := range f.ways {
		names = append(names, "--"+w.flag())
		if c.Flags().Changed(w.flag()) {
			ways++
		}
	}
	if f.simulate != "" {
		ways++
	}
	switch {
	case f.network == "":
		return cli.Usage(errors.New("--network is needed: the network of weir topology build"))
	case ways != 1:
		return cli.Usage(fmt.Errorf("choose how to measure with one of %s", strings.Join(names, ", ")))
	case f.options.Transfer.Bytes < 1:
		return cli.Usage(fmt.Errorf("--transfer %d must be at least 1", f.options.Transfer.Bytes))
	}
	return f.checkOut(c)
}

func (f *throughputFlags) run(c *cobra.Command) (err error) {
	n, err := readNetwork(c, f.network)
	if err != nil {
		return err
	}
	m, end, err := f.open(c)
	if err != nil || m == nil { // nil in a peer, which has served already
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	byName, err := newByName(n.Names[:n.Nodes], m)
	if err != nil {
		return cli.Usage(err)
	}
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt)
	defer stop()
	report, err := schedule.Throughput(ctx, n, byName, f.options)
	sayWarnings(c.ErrOrStderr(), m)
	if err != nil {
		return fmt.Errorf("measuring the throughput: %w", err)
	}
	if f.asJSON {
		return cli.PrintJSON(c.OutOrStdout(), []throughputJSON{throughputOf(report)})
	}
	describeThroughput(c.ErrOrStderr(), throughputOf(report))
	return f.write(c, func(w io.Writer) error { return report.Network.Write(w, cmp.Or(f.format, network.TGF)) })
}

// open returns the measurer that the flags select. It is nil in a process that only served another process.
func (f *throughputFlags) open(c *cobra.Command) (m latency.ThroughputMeasurer, end func() error, err error) {
	if f.simulate != "" {
		truth, err := readNetwork(c, f.simulate)
		if err != nil {
			return nil, nil, err
		}
		traffic, err := simulated.NewTraffic(truth)
		if err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--simulate %s: %w", f.simulate, err))
		}
		return traffic, func() error { return nil }, nil
	}
	for _, w := range f.ways {
		if !c.Flags().Changed(w.flag()) {
			continue
		}
		opened, end, err := w.open(c)
		if err != nil || opened == nil {
			return nil, end, err
		}
		m, ok := opened.(latency.ThroughputMeasurer)
		if !ok {
			return nil, nil, errors.Join(fmt.Errorf("--%s measures no throughput", w.flag()), end())
		}
		return m, end, nil
	}
	return nil, nil, errors.New("no way to measure was given")
}

// byName measures pairs of a network by a measurer that numbers its nodes in another order.
type byName struct {
	latency.ThroughputMeasurer
	numbers []int // the measurer's number of each node of the network
}

func newByName(nodes []string, m latency.ThroughputMeasurer) (*byName, error) {
	number := map[string]int{}
	for i, name := range m.Names() {
		number[name] = i
	}
	b := &byName{ThroughputMeasurer: m}
	for _, name := range nodes {
		i, ok := number[name]
		if !ok {
			return nil, fmt.Errorf("node %s of the network does not take part in the measurement", name)
		}
		b.numbers = append(b.numbers, i)
	}
	return b, nil
}

// MeasureThroughput measures a round in the measurer's numbers.
func (b *byName) MeasureThroughput(
	ctx context.Context, round []latency.Pair, transfer latency.Transfer,
) ([]float64, error) {
	renamed := make([]latency.Pair, len(round))
	for i, p := range round {
		from, to := b.numbers[p.A], b.numbers[p.B]
		renamed[i] = latency.Pair{A: min(from, to), B: max(from, to)}
	}
	return b.ThroughputMeasurer.MeasureThroughput(ctx, renamed, transfer)
}

// throughputJSON is the result with the names of nodes and switches. Unknown values are null.
type throughputJSON struct {
	Rounds    int                  `json:"rounds"`
	Links     []linkThroughputJSON `json:"links"`
	Switches  []switchRateJSON     `json:"switches"`
	Blocking  []string             `json:"blocking"`
	Hidden    [][2]string          `json:"hidden"`
	Bisection *float64             `json:"bisection_mb_per_s"`
}

// linkThroughputJSON is the throughput of a link.
type linkThroughputJSON struct {
	A          string   `json:"a"`
	B          string   `json:"b"`
	Throughput *float64 `json:"mb_per_s"`
	AtLeast    bool     `json:"at_least"`
}

// switchRateJSON is the rate through a switch with all its links in use.
type switchRateJSON struct {
	Name       string   `json:"name"`
	Throughput *float64 `json:"mb_per_s"`
}

func throughputOf(r *schedule.ThroughputReport) throughputJSON {
	name := func(v int) string { return cmp.Or(r.Network.Names[v], fmt.Sprintf("switch%d", v-r.Network.Nodes+1)) }
	t := throughputJSON{
		Rounds: r.Rounds, Links: []linkThroughputJSON{}, Switches: []switchRateJSON{}, Blocking: []string{},
		Hidden: [][2]string{},
	}
	for _, l := range r.Network.Links {
		t.Links = append(t.Links, linkThroughputJSON{A: name(l.A), B: name(l.B), Throughput: defined(l.Throughput)})
	}
	for _, i := range r.AtLeast {
		t.Links[i].AtLeast = true
	}
	for _, s := range r.Switches {
		t.Switches = append(t.Switches, switchRateJSON{Name: name(s.Switch), Throughput: defined(s.Throughput)})
	}
	for _, s := range r.Blocking {
		t.Blocking = append(t.Blocking, name(s))
	}
	for _, p := range r.Hidden {
		t.Hidden = append(t.Hidden, [2]string{name(p.A), name(p.B)})
	}
	if bisection, err := schedule.Bisection(r.Network); err == nil {
		t.Bisection = defined(bisection)
	}
	return t
}

// describeThroughput reports the results that a network's file cannot hold.
func describeThroughput(w io.Writer, t throughputJSON) {
	cli.Say(w, "weir topology: %d links in %d rounds", len(t.Links), t.Rounds)
	if t.Bisection != nil {
		cli.Say(w, "weir topology: bisection bandwidth %.5g MB/s", *t.Bisection)
	}
	for _, s := range t.Switches {
		rate := math.NaN()
		if s.Throughput != nil {
			rate = *s.Throughput
		}
		cli.Say(w, "weir topology: %s carries %.5g MB/s with all links in use", s.Name, rate)
	}
	if len(t.Blocking) > 0 {
		cli.Say(w, "weir topology: cannot carry all their nodes at once: %s", strings.Join(t.Blocking, ", "))
	}
	for _, pair := range t.Hidden {
		cli.Say(w, "weir topology: %s and %s: their rate does not depend on the path; there may be a direct link",
			pair[0], pair[1])
	}
	var open, unknown []string
	for _, l := range t.Links {
		switch {
		case l.Throughput == nil:
			unknown = append(unknown, l.A+" - "+l.B)
		case l.AtLeast:
			open = append(open, l.A+" - "+l.B)
		}
	}
	if len(open) > 0 {
		cli.Say(w, "weir topology: at least this fast, for no faster partner has shown more: %s",
			strings.Join(open, ", "))
	}
	if len(unknown) > 0 {
		cli.Say(w, "weir topology: not measured: %s", strings.Join(unknown, ", "))
	}
}
