package topology

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands/cli"
)

// correctFlags are the flags of weir topology correct.
type correctFlags struct {
	networkOut
	network, matrix string
	message         network.Message
	asJSON          bool
}

func newTopologyCorrect() *cobra.Command {
	var f correctFlags
	c := &cobra.Command{
		Use:   "correct",
		Short: "Compute the latency of each link from the latencies between nodes",
		Long: `Computes the latency of each link from the latencies between nodes, by least squares over all pairs.

--bytes first subtracts the time of the message itself, by the throughput in the network's file: the slowest link of a
path counts, or with --store-and-forward each link. A pair with several paths of about the same length is left out.

The relative RMS measures how well the links explain the latencies. Compare it with the noise of repeated measurements.
R² is shown too, but a wrong network may have a high R², and the right network with a single switch a low one.`,
		Example: `  weir topology correct --network tree.tgf --matrix latencies.csv --out corrected.tgf
  weir topology correct --network throughput.tgf --matrix latencies.csv --bytes 4096`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return f.run(c)
		},
	}
	f.addOut(c, network.TGF)
	flags := c.Flags()
	flags.StringVar(&f.network, "network", "", "correct the network of `FILE`")
	flags.StringVar(&f.matrix, "matrix", "", "read the latencies of `FILE`, in microseconds")
	flags.Float64Var(&f.message.Bytes, "bytes", 0, "each message had `N` bytes (default: its time does not count)")
	flags.BoolVar(&f.message.StoreAndForward, "store-and-forward", false, "each link sends the message anew")
	flags.BoolVar(&f.asJSON, "json", false, "print how well links explain latencies as one JSON object, and no network")
	cli.OfferFiles(c, "network", networkFiles...)
	cli.OfferFiles(c, "matrix", "csv")
	return c
}

func (f *correctFlags) check(c *cobra.Command) error {
	switch {
	case f.network == "" || f.matrix == "":
		return cli.Usage(errors.New("--network and --matrix are needed: the network of build, and its latencies"))
	case !(f.message.Bytes >= 0) || math.IsInf(f.message.Bytes, 0):
		return cli.Usage(fmt.Errorf("--bytes %v must be at least 0", f.message.Bytes))
	case f.message.StoreAndForward && f.message.Bytes == 0:
		return cli.Usage(errors.New("--store-and-forward needs --bytes"))
	}
	return f.checkOut(c)
}

func (f *correctFlags) run(c *cobra.Command) error {
	n, err := readNetwork(c, f.network)
	if err != nil {
		return err
	}
	m, err := readMatrix(c, f.matrix)
	if err != nil {
		return err
	}
	r, err := network.Correct(n, m, f.message)
	if err != nil {
		return err
	}
	if f.asJSON {
		return cli.PrintJSON(c.OutOrStdout(), []correctedJSON{correctedOf(r)})
	}
	cli.Say(c.ErrOrStderr(), "weir topology: %d pairs, relative RMS %.3g %%, R² %.3f, adjusted %.3f", r.Pairs,
		100*r.RelativeRMS, r.R2, r.AdjustedR2)
	if r.Ambiguous > 0 {
		cli.Say(c.ErrOrStderr(), "weir topology: %d pairs are left out: they have several paths about as short",
			r.Ambiguous)
	}
	if open := openLinks(r); len(open) > 0 {
		cli.Say(c.ErrOrStderr(), "weir topology: only sums are known of these links: %s", strings.Join(open, ", "))
	}
	return f.write(c, func(w io.Writer) error { return r.Network.Write(w, cmp.Or(f.format, network.TGF)) })
}

// correctedJSON is the fit of links to latencies. Undefined values are null.
type correctedJSON struct {
	Pairs        int      `json:"pairs"`
	Ambiguous    int      `json:"ambiguous"`
	R2           *float64 `json:"r2"`
	AdjustedR2   *float64 `json:"adjusted_r2"`
	RelativeRMS  float64  `json:"relative_rms"`
	Undetermined []string `json:"undetermined"`
}

func correctedOf(r *network.Correction) correctedJSON {
	return correctedJSON{
		Pairs: r.Pairs, Ambiguous: r.Ambiguous, R2: defined(r.R2), AdjustedR2: defined(r.AdjustedR2),
		RelativeRMS: r.RelativeRMS, Undetermined: openLinks(r),
	}
}

// defined returns nil for NaN, which JSON cannot represent.
func defined(x float64) *float64 {
	if math.IsNaN(x) {
		return nil
	}
	return &x
}

// openLinks names the links that the latencies do not determine.
func openLinks(r *network.Correction) []string {
	links := []string{}
	for _, i := range r.Undetermined {
		l := r.Network.Links[i]
		links = append(links, r.Network.Names[l.A]+" - "+r.Network.Names[l.B])
	}
	return links
}
