package topology

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/discover"
	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/measure"
	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands/cli"
)

// measureWay is one way to measure latencies. It adds its flags to the command.
type measureWay interface {
	Add(c *cobra.Command)

	// flag returns the name of the flag that chooses this way.
	flag() string

	// open begins to measure. The returned function ends it. A nil Measurer means that this process has served a
	// campaign of another process, which is over.
	open(c *cobra.Command) (m latency.Measurer, end func() error, err error)
}

// measureWays returns the ways to measure. The command wants the flag of one of them.
func measureWays() []measureWay {
	meeting := &rendezvousFlags{}
	return []measureWay{
		&agentsFlags{meeting: meeting},
		meeting,
		&simulateFlags{},
		&threadsFlags{},
	}
}

// measureFlags are the flags of weir topology measure, without the flags of the ways.
type measureFlags struct {
	ways                          []measureWay
	out, journal, network, method string
	passes                        int
	sequential, asJSON            bool
	seed                          uint64
	Budget                        measure.Budget
}

func newTopologyMeasure() *cobra.Command {
	f := measureFlags{ways: measureWays()}
	c := &cobra.Command{
		Use:   "measure",
		Short: "Measure the latencies between nodes or processors, and find the network behind them",
		Long: `Measures latencies between nodes, or between the processors of this node.

It finds the network behind them too.

Up to 500 nodes, each pair is measured three times, in rounds in which no node is in two pairs. The lowest latency of a
pair counts. Pairs that do not fit the network are measured again. Above 500 nodes, each node is measured with a few
others only, chosen by the results so far. This finds trees of switches and no other networks.

The latencies are for weir topology build, stats and correct. --network writes the network. --journal keeps each latency
at once: after Ctrl-C, or a crash, the same command goes on from there.

On a machine with running jobs, --packets-per-second and --share limit the load of the measurement on a node.

With --agents, the agents with agent.topology.enabled take part. An order on topic topology-orders calls them. They
also keep the limits of their own configuration. Without --nodes and --on, it begins once nobody has come for ten
seconds. --nodes, --hosts, --wait, --bytes, --trips and --batches apply as with --rendezvous.`,
		Example: `  weir topology measure --threads --out latencies.csv
  weir topology measure --agents --network tree.yaml --out latencies.csv
  weir topology measure --simulate tree:4x8x8 --noise .05 --network tree.yaml --out latencies.csv
  weir topology measure --simulate tree:10x25x40 --journal journal.csv --json`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	for _, w := range f.ways {
		w.Add(c)
	}
	flags.StringVar(&f.out, "out", "", "write the latencies to `FILE` (default: standard output, unless --json)")
	flags.StringVar(&f.network, "network", "",
		"write the network to `FILE`: .tree, .edges, .tgf, .yaml, .conf or .json")
	flags.StringVar(&f.journal, "journal", "", "keep each latency in `FILE`, and go on from its contents")
	flags.StringVar(&f.method, "method", "", "measure `METHOD` "+measure.MethodAll+" pairs or "+measure.MethodAdaptive+
		" (default: all up to 500 nodes)")
	flags.IntVar(&f.passes, "passes", 0, fmt.Sprintf("measure each pair `N` times, all pairs before any again "+
		"(default: %d, adaptive 1)", measure.DefaultPasses))
	flags.BoolVar(&f.sequential, "sequential", false, "measure one pair at a time")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of random choices, `N`")
	flags.Float64Var(&f.Budget.PacketsPerSecond, "packets-per-second", 0, "each node sends at most `N` packets a "+
		"second (default: no limit)")
	flags.Float64Var(&f.Budget.Share, "share", 0, "measure during this `SHARE` of the time, 0 to 1 (default: no limit)")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	cli.Offer(c, "method", measure.MethodAll, measure.MethodAdaptive)
	cli.OfferFiles(c, "out", "csv")
	cli.OfferFiles(c, "journal", "csv")
	cli.OfferFiles(c, "network", networkFiles...)
	return c
}

// way returns the way that a flag selects.
func (f *measureFlags) way(c *cobra.Command) (measureWay, error) {
	var names []string
	var chosen []measureWay
	for _, w := range f.ways {
		names = append(names, "--"+w.flag())
		if c.Flags().Changed(w.flag()) {
			chosen = append(chosen, w)
		}
	}
	if len(chosen) != 1 {
		return nil, cli.Usage(fmt.Errorf("choose how to measure with one of %s", strings.Join(names, ", ")))
	}
	return chosen[0], nil
}

func (f *measureFlags) check() error {
	switch {
	case !slices.Contains([]string{"", measure.MethodAll, measure.MethodAdaptive}, f.method):
		return fmt.Errorf("--method %.40q must be %s or %s", f.method, measure.MethodAll, measure.MethodAdaptive)
	case f.passes < 0:
		return fmt.Errorf("--passes %d must be at least 1", f.passes)
	case !(f.Budget.PacketsPerSecond >= 0):
		return fmt.Errorf("--packets-per-second %v must be at least 0", f.Budget.PacketsPerSecond)
	case !(f.Budget.Share >= 0 && f.Budget.Share <= 1):
		return fmt.Errorf("--share %v must be 0 to 1", f.Budget.Share)
	}
	_, err := f.form()
	return err
}

// form returns the form of the network's file; "" if no file is written.
func (f *measureFlags) form() (string, error) {
	ending := strings.TrimPrefix(filepath.Ext(f.network), ".")
	switch {
	case f.network == "":
		return "", nil
	case !slices.Contains(networkFiles, ending):
		return "", fmt.Errorf("--network %.200q must end with one of .%s", f.network, strings.Join(networkFiles, ", ."))
	case ending == "yml":
		return network.YAML, nil
	case ending == "tree":
		return network.Parens, nil
	}
	return ending, nil
}

func (f *measureFlags) run(c *cobra.Command) error {
	way, err := f.way(c)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return cli.Usage(err)
	}
	m, end, err := way.open(c)
	if err != nil || m == nil {
		return err
	}
	out, err := f.Campaign(c, m)
	if err := errors.Join(err, end()); err != nil {
		return err
	}
	if err := f.write(c, out); err != nil {
		return err
	}
	return f.print(c, out)
}

// write writes the latencies and the network.
func (f *measureFlags) write(c *cobra.Command, o *measure.Outcome) error {
	form := latency.Square
	if o.Method == measure.MethodAdaptive {
		form = latency.Pairs // most pairs are not measured
	}
	latencies := networkOut{out: f.out}
	if f.out != "" || !f.asJSON {
		if err := latencies.write(c, func(w io.Writer) error { return o.Matrix.Write(w, form) }); err != nil {
			return err
		}
	}
	networkForm, err := f.form()
	if err != nil || networkForm == "" {
		return err
	}
	return cli.WriteWhole("--network", f.network, func(w io.Writer) error {
		return writeResult(w, o.Result, networkForm)
	})
}

// Campaign measures, and shows its progress.
func (f *measureFlags) Campaign(c *cobra.Command, m latency.Measurer) (*measure.Outcome, error) {
	campaign := measure.Campaign{
		Measurer: m, Journal: f.journal, Method: f.method, Passes: f.passes, Sequential: f.sequential, Seed: f.seed,
		Budget: f.Budget,
	}
	shown := progressLine{to: c.ErrOrStderr(), terminal: cli.IsTerminal(cli.OutputFile(c.ErrOrStderr()))}
	campaign.Progress = shown.show
	out, err := campaign.Run(c.Context())
	shown.end()
	if err != nil {
		sayWarnings(c.ErrOrStderr(), m)
	}
	if cause := context.Cause(c.Context()); errors.Is(err, context.DeadlineExceeded) && cause != nil {
		err = cause // the time of --for is over
	}
	if errors.Is(err, context.Canceled) && f.journal != "" {
		return nil, fmt.Errorf("%w: %s keeps the measurements, and the same command goes on", err, f.journal)
	}
	return out, err
}

// progressLine shows the progress of a campaign: in one line of a terminal, otherwise in a line each 10 s.
type progressLine struct {
	to       io.Writer
	terminal bool
	shown    time.Time
	any      bool
}

func (l *progressLine) show(p measure.Progress) {
	every := 10 * time.Second
	if l.terminal {
		every = 200 * time.Millisecond
	}
	now := time.Now()
	if l.shown.IsZero() && !l.terminal {
		l.shown = now
	}
	if now.Sub(l.shown) < every {
		return
	}
	l.shown, l.any = now, true
	text := fmt.Sprintf("weir topology: %s: %d pairs in %d rounds", p.Phase, p.Pairs, p.Rounds)
	if p.Of > p.Pairs {
		text += fmt.Sprintf(", %d %%", 100*p.Pairs/p.Of)
	}
	if p.Lost > 0 {
		text += fmt.Sprintf(", %d lost", p.Lost)
	}
	if l.terminal {
		_, _ = fmt.Fprintf(l.to, "\r\x1b[K%s", text)
		return
	}
	cli.Say(l.to, "%s", text)
}

// end ends the line of a terminal.
func (l *progressLine) end() {
	if l.terminal && l.any {
		_, _ = fmt.Fprint(l.to, "\r\x1b[K")
	}
}

// measured is the JSON object of --json.
type measured struct {
	Nodes      int                 `json:"nodes"`
	Switches   int                 `json:"switches"`
	Links      int                 `json:"links"`
	Kind       string              `json:"kind"`
	Method     string              `json:"method"`
	Pairs      int                 `json:"pairs"`
	Lost       int                 `json:"lost"`
	Replayed   int                 `json:"replayed"`
	Rounds     int                 `json:"rounds"`
	Seconds    float64             `json:"seconds"`
	Spent      measure.Spent       `json:"spent"`
	Warnings   []string            `json:"warnings"`
	Confidence discover.Confidence `json:"confidence"`
}

func measuredOf(o *measure.Outcome) measured {
	n := o.Result.Network
	return measured{
		Nodes: n.Nodes, Switches: len(n.Names) - n.Nodes, Links: len(n.Links), Kind: o.Result.Kind, Method: o.Method,
		Pairs: o.Pairs, Lost: o.Lost, Replayed: o.Replayed, Rounds: o.Rounds, Seconds: o.Elapsed.Seconds(),
		Spent: o.Spent, Warnings: append([]string{}, o.Warnings...), Confidence: knownNumbers(o.Result.Confidence),
	}
}

// knownNumbers replaces NaN and infinities by 0, as JSON cannot represent them.
func knownNumbers(c discover.Confidence) discover.Confidence {
	for _, x := range []*float64{&c.Margin, &c.Residual, &c.Noise} {
		if math.IsNaN(*x) || math.IsInf(*x, 0) {
			*x = 0
		}
	}
	c.Reasons = append([]string{}, c.Reasons...)
	return c
}

// print prints the outcome.
func (f *measureFlags) print(c *cobra.Command, o *measure.Outcome) error {
	m := measuredOf(o)
	if f.asJSON {
		return cli.PrintJSON(c.OutOrStdout(), []measured{m})
	}
	to := c.ErrOrStderr()
	for _, w := range m.Warnings {
		cli.Say(to, "weir topology: %s", w)
	}
	sayResult(to, o.Result)
	cli.Say(to, "weir topology: %d measurements in %s and %.1f s", m.Pairs,
		counted(m.Rounds, "round", "rounds"), m.Seconds)
	if f.Budget != (measure.Budget{}) {
		cli.Say(to, "weir topology: the busiest node sent %.0f packets a second; rounds took %.0f %% of the time",
			m.Spent.PacketsPerSecond, 100*m.Spent.Share)
	}
	return nil
}
