package metrics

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pages "github.com/weirhpc/weir/report/page"
	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// compareFlags are the flags of weir metrics compare.
type compareFlags struct {
	observationFlags
	reading.StyleFlags
	models, main         []string
	chunks, train, draws int
	seed                 uint64
	report               string
	asJSON               bool
}

func newMetricsCompare() *cobra.Command {
	var f compareFlags
	c := &cobra.Command{
		Use:   "compare",
		Short: "Compare ways to select metrics, as in the figures of the paper",
		Long: `Compares ways to select metrics, as figures 2 to 6 of Yang, Schopf, Dumitrescu and Foster do.

The observations are cut into chunks: equal stretches of time, or jobs if there are enough. The first chunks choose
metrics, and the others verify them. "literal" is the method as published, at its best threshold. RAND takes the same
number of random metrics. MAIN takes the metrics of --main. "forward" is the method of weir metrics select.

Each R² is given three times. IN-SAMPLE is fitted on the same rows, as in the paper: noise reaches it too. ADJUSTED
subtracts the R² of noise. HELD-OUT predicts rows that no fit has used. Figures 2 and 3 show the linear model, figures
4 and 5 the quadratic one; if chunks are jobs, figure 5 becomes figure 6.`,
		Example: `  weir metrics compare --response steps_per_second --report comparison
  weir metrics compare --from run.csv --response y --main cpu_user,mem_free --json
  weir metrics compare --from run.csv --response y --model linear --chunks 12 --train 1`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return cli.Usage(err)
			}
			return f.run(c)
		},
	}
	f.observationFlags.Add(c)
	f.StyleFlags.Add(c)
	flags := c.Flags()
	flags.StringSliceVar(&f.models, "model", models, "terms are values, or squares too: `LIST` of "+
		strings.Join(models, " and "))
	flags.StringSliceVar(&f.main, "main", nil, "metrics that a person would take: `A,B`, or patterns such as cpu_*")
	flags.IntVar(&f.chunks, "chunks", 12, "cut the observations into `N` chunks, 2 to 48")
	flags.IntVar(&f.train, "train", 0, "the first `N` chunks choose metrics (default: half of them; the paper has 1)")
	flags.IntVar(&f.draws, "draws", 20, "RAND is the mean of `N` random sets, 1 to 1000")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the draws, `N`")
	flags.StringVar(&f.report, "report", "", "write the comparison as text, JSON and SVG into `DIR`")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object a line, for each model")
	cli.Offer(c, "model", models...)
	cli.OfferDirectories(c, "report")
	return c
}

// check refuses flags that are out of range.
func (f *compareFlags) check() error {
	switch {
	case len(f.responses) != 1:
		return fmt.Errorf("--response must name one response, a metric, a column of the CSV, or a file: it names %d",
			len(f.responses))
	case len(f.models) == 0:
		return errors.New("--model needs " + strings.Join(models, ", ") + " or both")
	case f.chunks < 2 || f.chunks > 48:
		return fmt.Errorf("--chunks %d must be 2 to 48", f.chunks)
	case f.train < 0 || f.train >= f.chunks:
		return fmt.Errorf("--train %d must be 1 to %d, so that a chunk is left to verify", f.train, f.chunks-1)
	case f.draws < 1 || f.draws > 1000:
		return fmt.Errorf("--draws %d must be 1 to 1000", f.draws)
	}
	for i, m := range f.models {
		if !slices.Contains(models, m) || slices.Contains(f.models[:i], m) {
			return fmt.Errorf("--model %.40q: name each of %s once", m, strings.Join(models, ", "))
		}
	}
	for _, p := range f.main {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("--main %.80q is no pattern", p)
		}
	}
	return nil
}

func (f *compareFlags) run(c *cobra.Command) error {
	style, out, err := f.Style(c)
	if err != nil {
		return err
	}
	t, _, err := f.table(c)
	if err != nil {
		return err
	}
	o := selection.CompareOptions{Select: selection.Defaults(), Chunks: f.chunks, Train: f.train, Draws: f.draws}
	o.Select.Seed = f.seed
	if o.Main, err = matching(t.Names(), f.main, "--main"); err != nil {
		return err
	}
	all, err := worked(c, t, func() (all []*selection.Comparison, err error) {
		for _, model := range f.models {
			o.Select.Quadratic = model == modelQuadratic
			one, err := selection.Compare(t, o)
			if err != nil {
				return nil, fmt.Errorf("comparing: %w", err)
			}
			one.Warnings = append(one.Warnings, t.Notes...)
			all = append(all, one)
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := writeComparison(f.report, all); err != nil {
			return err
		}
	}
	if f.asJSON {
		return cli.PrintJSON(c.OutOrStdout(), all)
	}
	return term.Comparison(out, all, style)
}

// writeComparison writes the comparison into a directory: for people, for programs, and a picture of each model.
func writeComparison(dir string, all []*selection.Comparison) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	write := func(name string, fn func(io.Writer) error) error {
		return cli.WriteWhole("--report", filepath.Join(dir, name), fn)
	}
	err := errors.Join(
		write("comparison.txt", func(w io.Writer) error {
			return term.Comparison(w, all, term.Style{Width: cli.TableWidth})
		}),
		write("comparison.json", func(w io.Writer) error { return writeIndented(w, all) }),
	)
	for _, one := range all {
		err = errors.Join(err, write(one.Model+".svg", func(w io.Writer) error {
			_, err := io.WriteString(w, pages.Comparison(one))
			return err
		}))
	}
	return err
}
