package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/discover"
	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands/cli"
)

// Methods of discovery.
const (
	methodWeir   = "weir"
	methodThesis = "thesis"
)

var buildMethods = []string{methodWeir, methodThesis}

// buildFlags are the flags of weir topology build.
type buildFlags struct {
	networkOut
	matrix, method string
	epsilon        float64
}

func newTopologyBuild() *cobra.Command {
	var f buildFlags
	c := &cobra.Command{
		Use:   "build",
		Short: "Find the network behind a file of latencies",
		Long: `Finds the network behind a file of latencies, and reports the confidence in it.

The file is a matrix: square, with or without names, or its upper triangle. Or it has a line "a,b,latency_us" for each
two nodes, below that heading. An empty field is a pair that was not measured. Several lines of a pair are repeats.

The network is a tree of switches, or links between the nodes: a ring, a torus, a hypercube, a dragonfly. It comes in
one of these forms:

  parens  a tree as nested parentheses: ((0,1),(2,3))
  edges   a line for each link: 0 7
  tgf     Trivial Graph Format, with the latencies of the links
  yaml    a tree for balance.tree_file
  conf    a tree as Slurm's topology.conf
  json    all that is known, with the confidence

Nodes without names are numbered from 0. The confidence goes to standard error, with the reasons for doubts. "thesis"
is the original method, with one tolerance: it is exact on clean data.`,
		Example: `  weir topology build --matrix latencies.csv
  weir topology build --matrix latencies.csv --out tree.yaml
  weir topology build --matrix latencies.csv --method thesis --epsilon .05 --format tgf`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return f.run(c)
		},
	}
	f.addOut(c, "parens or edges")
	flags := c.Flags()
	flags.StringVar(&f.matrix, "matrix", "", "read the latencies of `FILE`, in microseconds")
	flags.StringVar(&f.method, "method", methodWeir, "use `METHOD` weir or thesis")
	flags.Float64Var(&f.epsilon, "epsilon", discover.LiteralEpsilon, "with thesis: latencies are equal within this "+
		"`SHARE`")
	cli.OfferFiles(c, "matrix", "csv")
	cli.Offer(c, "method", buildMethods...)
	return c
}

func (f *buildFlags) check(c *cobra.Command) error {
	switch {
	case f.matrix == "":
		return cli.Usage(errors.New("--matrix is missing: a file of latencies, such as measure --out writes"))
	case !slices.Contains(buildMethods, f.method):
		return cli.Usage(fmt.Errorf("--method %.40q must be weir or thesis", f.method))
	case !(f.epsilon > 0 && f.epsilon < 1):
		return cli.Usage(fmt.Errorf("--epsilon %v must be above 0 and below 1", f.epsilon))
	case c.Flags().Changed("epsilon") && f.method != methodThesis:
		return cli.Usage(errors.New("--epsilon is for --method thesis: weir needs no tolerance"))
	}
	return f.checkOut(c)
}

func (f *buildFlags) run(c *cobra.Command) error {
	m, err := readMatrix(c, f.matrix)
	if err != nil {
		return err
	}
	r, err := f.build(m)
	if err != nil {
		return err
	}
	sayResult(c.ErrOrStderr(), r)
	if f.format == "" {
		if f.format = network.Edges; r.Network.IsTree() {
			f.format = network.Parens
		}
	}
	return f.write(c, func(w io.Writer) error { return writeResult(w, r, f.format) })
}

func (f *buildFlags) build(m *latency.Matrix) (discover.Result, error) {
	if f.method == methodThesis {
		return discover.Literal(m, f.epsilon)
	}
	return discover.Build(m)
}

// readMatrix reads the latencies of a file, and reports its oddities.
func readMatrix(c *cobra.Command, file string) (*latency.Matrix, error) {
	m, err := latency.ReadFile(file)
	if err != nil {
		return nil, cli.Usage(err)
	}
	for _, one := range m.Warnings() {
		cli.Say(c.ErrOrStderr(), "weir topology: %s: %s", file, one)
	}
	return m, nil
}

// sayResult reports the kind of a network, and the confidence in it.
func sayResult(w io.Writer, r discover.Result) {
	n, how := r.Network, r.Confidence
	text := fmt.Sprintf("%s of %d nodes", r.Kind, n.Nodes)
	if switches := len(n.Names) - n.Nodes; switches > 0 {
		text += fmt.Sprintf(" and %s", counted(switches, "switch", "switches"))
	}
	if r.Offsets {
		text += ", whose nodes differ by an offset"
	}
	text += ", confidence " + how.Level
	if !math.IsNaN(how.Residual) {
		text += fmt.Sprintf(": latencies differ from the network's by %.2g %%", 100*how.Residual)
		if how.Noise > 0 {
			text += fmt.Sprintf(", noise alone makes %.2g %%", 100*how.Noise)
		}
	}
	if how.Margin > 0 && !math.IsInf(how.Margin, 0) {
		text += fmt.Sprintf("; the weakest switch saves %.3g nats", how.Margin)
	}
	cli.Say(w, "weir topology: %s", text)
	for _, reason := range how.Reasons {
		cli.Say(w, "weir topology: doubtful: %s", reason)
	}
}

// counted returns a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// builtJSON is the form json of a result. Network is the rest of the object.
type builtJSON struct {
	Kind       string              `json:"kind"`
	Offsets    bool                `json:"offsets"`
	Confidence discover.Confidence `json:"confidence"`
	Suspects   [][2]string         `json:"suspects"` // pairs worth measuring again, worst first
}

// writeResult writes a network in a form. The form json includes the confidence.
func writeResult(w io.Writer, r discover.Result, form string) error {
	if form != network.JSON {
		return r.Network.Write(w, form)
	}
	b := builtJSON{Kind: r.Kind, Offsets: r.Offsets, Confidence: r.Confidence, Suspects: [][2]string{}}
	for _, x := range []*float64{&b.Confidence.Margin, &b.Confidence.Residual, &b.Confidence.Noise} {
		if math.IsNaN(*x) || math.IsInf(*x, 0) {
			*x = 0 // not known
		}
	}
	if b.Confidence.Reasons == nil {
		b.Confidence.Reasons = []string{}
	}
	for _, p := range r.Suspects {
		b.Suspects = append(b.Suspects, [2]string{r.Network.Names[p.A], r.Network.Names[p.B]})
	}
	whole := map[string]any{}
	for _, part := range []any{r.Network, b} {
		text, err := json.Marshal(part)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &whole); err != nil {
			return err
		}
	}
	return cli.PrintJSON(w, []map[string]any{whole})
}
