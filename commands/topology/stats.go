package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/topology/discovery/latency"

	"github.com/weirhpc/weir/commands/cli"
)

// statsFlags are the flags of weir topology stats.
type statsFlags struct {
	histogram, asJSON bool
	bins              int
	success           []float64
}

// matrixStats are the statistics of a matrix, and its deviation from another one.
type matrixStats struct {
	Nodes     int                `json:"nodes"`
	Pairs     int                `json:"pairs"`
	Missing   int                `json:"missing"`
	Latency   latency.Summary    `json:"latency_us"`
	TickUs    float64            `json:"tick_us,omitempty"`
	Noise     float64            `json:"noise,omitempty"`
	Deviation *latency.Deviation `json:"deviation_us,omitempty"`
	Histogram []latency.Bin      `json:"histogram,omitempty"`
	Success   []successStats     `json:"success,omitempty"`
}

// successStats is the probability that all pairs are measured well.
type successStats struct {
	Pair float64 `json:"pair"` // of one pair
	All  float64 `json:"all"`
}

func newTopologyStats() *cobra.Command {
	var f statsFlags
	c := &cobra.Command{
		Use:   "stats FILE [OTHER]",
		Short: "Describe measured latencies, and how two measurements differ",
		Long: `Describes the latencies of a file by five numbers and the mean, in microseconds.

With a second file of the same nodes it reports the difference, pair by pair: mean deviation (MD), mean absolute
deviation (MAD), quadratic mean deviation (QMD) and the largest deviation (MAXD). Each is the first file minus the
second.

The noise is the standard deviation of ln(latency) between repeats of a pair. It is known if the file has repeats, or
both directions. The tick is the step of a clock that is too coarse.`,
		Example: `  weir topology stats latencies.csv --histogram
  weir topology stats monday.csv tuesday.csv
  weir topology stats latencies.csv --success .999,.9999`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.Usage(errors.New("weir topology stats wants one file of latencies, or two to compare"))
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []cobra.Completion{"csv"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	flags := c.Flags()
	flags.BoolVar(&f.histogram, "histogram", false, "draw how often each latency is there")
	flags.IntVar(&f.bins, "bins", 40, "the histogram has `N` rows, 1 to 1000")
	flags.Float64SliceVar(&f.success, "success", nil, "the probability that all pairs are right if one is with "+
		"probability `P,Q`")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return c
}

func (f *statsFlags) run(c *cobra.Command, files []string) error {
	if f.bins < 1 || f.bins > 1000 {
		return cli.Usage(fmt.Errorf("--bins %d must be 1 to 1000", f.bins))
	}
	for _, p := range f.success {
		if !(p > 0 && p <= 1) {
			return cli.Usage(fmt.Errorf("--success %v must be above 0 and at most 1", p))
		}
	}
	first, err := readMatrix(c, files[0])
	if err != nil {
		return err
	}
	s := f.describe(first)
	if len(files) == 2 {
		second, err := readMatrix(c, files[1])
		if err != nil {
			return err
		}
		d, err := latency.Deviate(first, second)
		if err != nil {
			return cli.Usage(fmt.Errorf("comparing %s with %s: %w", files[0], files[1], err))
		}
		if d.Pairs == 0 {
			return cli.Usage(fmt.Errorf("%s and %s have no measured pair in common", files[0], files[1]))
		}
		s.Deviation = &d
	}
	if f.asJSON {
		return json.NewEncoder(c.OutOrStdout()).Encode(s)
	}
	return s.write(c.OutOrStdout())
}

func (f *statsFlags) describe(m *latency.Matrix) *matrixStats {
	values, all := m.Values(), m.Len()*(m.Len()-1)/2
	s := &matrixStats{
		Nodes: m.Len(), Pairs: len(values), Missing: all - len(values), Latency: latency.Describe(values),
		TickUs: m.Tick(), Noise: m.Noise,
	}
	if f.histogram {
		s.Histogram = latency.Histogram(values, f.bins)
	}
	for _, p := range f.success {
		s.Success = append(s.Success, successStats{p, latency.Success(p, m.Len())})
	}
	return s
}

// write writes the statistics for a person.
func (s *matrixStats) write(w io.Writer) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s"+format+"\n", append([]any{name}, args...)...)
	}
	line("nodes", "%d", s.Nodes)
	line("pairs", "%d measured, %d missing", s.Pairs, s.Missing)
	l := s.Latency
	line("latency (µs)", "%10s %10s %10s %10s %10s %10s", "min", "25 %", "median", "75 %", "max", "mean")
	line("", "%10s %10s %10s %10s %10s %10s",
		us(l.Min), us(l.LowerQuartile), us(l.Median), us(l.UpperQuartile), us(l.Max), us(l.Mean))
	if s.Noise > 0 {
		line("noise", "%.2g %% between repeats of a pair", 100*s.Noise)
	} else {
		line("noise", "not known: the file has no repeats")
	}
	if s.TickUs > 0 {
		line("tick", "%s µs: a coarse clock, or made-up latencies", us(s.TickUs))
	}
	if d := s.Deviation; d != nil {
		line("deviation (µs)", "MD %s, MAD %s, QMD %s, MAXD %s (%s and %s), of %d pairs",
			us(d.Mean), us(d.MeanAbsolute), us(d.QuadraticMean), us(d.Max), d.A, d.B, d.Pairs)
	}
	for _, p := range s.Success {
		line("success", "%.3g %% that all pairs are right, if one is with %.6g %%", 100*p.All, 100*p.Pair)
	}
	s.draw(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// draw draws the histogram: a row for each range of latencies. Empty ranges next to each other are one row.
func (s *matrixStats) draw(b *strings.Builder) {
	const width = 50
	most := 1
	for _, bin := range s.Histogram {
		most = max(most, bin.Count)
	}
	gap := false
	for _, bin := range s.Histogram {
		if bin.Count == 0 {
			if !gap {
				fmt.Fprintf(b, "%10s\n", "…")
			}
			gap = true
			continue
		}
		gap = false
		bar := strings.Repeat("#", int(math.Ceil(float64(width*bin.Count)/float64(most))))
		fmt.Fprintf(b, "%10s µs %8d %s\n", us(bin.FromUs), bin.Count, bar)
	}
}

// us writes microseconds with five digits.
func us(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }
