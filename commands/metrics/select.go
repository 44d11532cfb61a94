package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/inuse"
	"github.com/weirhpc/weir/commands/reading"
)

// Methods and models of a selection.
const (
	methodForward  = "forward"
	methodLiteral  = "literal"
	methodCoverage = "coverage"
	modelLinear    = "linear"
	modelQuadratic = "quadratic"
)

var (
	methods = []string{methodForward, methodLiteral, methodCoverage}
	models  = []string{modelLinear, modelQuadratic}
)

// selectFlags are the flags of weir metrics select.
type selectFlags struct {
	observationFlags
	reading.StyleFlags
	method, model, previous, out, report, cost string
	keep, main                                 []string
	threshold, coverage, canary, fToRemove     float64
	max                                        int
	seed                                       uint64
	asJSON, dropAliased, perBlock              bool
}

func newMetricsSelect() *cobra.Command {
	var f selectFlags
	c := &cobra.Command{
		Use:   "select",
		Short: "Select the metrics worth measuring, and say what is lost without the others",
		Long: `Selects the metrics worth measuring, and reports what is lost without the others.

A response is the quantity to explain: a rate that the application reported, or a file of values. "forward" takes the
smallest set of metrics that predicts it on unseen stretches of time. Then it adds metrics until each dropped one can
be predicted from the kept ones. "coverage" does only that, and needs no response. "literal" is the method of Yang,
Schopf, Dumitrescu and Foster as published, for comparison: it stops if its regression is not defined.

For each dropped metric the report names its representative, and its R² on held-out rows. It lists the saving for each
source of this host. A metric that shares its source with a kept one saves no reading. If the metrics do not predict
the response, nothing is dropped.

Metrics in use by rules, derived metrics and reports are kept, with the reason. --out writes the list for the agents.
docs/selection.md explains all numbers.`,
		Example: `  weir metrics select --response app_rate --out metrics.yaml
  weir metrics select --method coverage --since 7d --report selection
  weir metrics select --from run.csv --response y --method literal --threshold .95 --model linear --json`,
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
	flags.StringVar(&f.method, "method", "", "use `METHOD` "+strings.Join(methods, ", ")+
		" (default: forward, without --response coverage)")
	flags.StringVar(&f.model, "model", modelLinear, "terms are values, or squares too: `MODEL` is "+
		strings.Join(models, ", "))
	flags.Float64Var(&f.threshold, "threshold", .95, "one metric stands for another above this correlation `R`, 0 to 1")
	flags.Float64Var(&f.coverage, "coverage", .9, "R² of each dropped metric from those kept, `R2`; 0: none is "+
		"kept for it")
	flags.IntVar(&f.max, "max", 0, "keep at most `N` metrics for the response (default: as many as pay)")
	flags.StringSliceVar(&f.keep, "keep", nil, "keep these metrics: `A,B`, or patterns such as cpu_*")
	flags.StringSliceVar(&f.main, "main", nil, "compare with the list `A,B`, or patterns, that a person would take")
	flags.StringVar(&f.previous, "previous", "", "prefer metrics of the list in `FILE` where others are as good")
	flags.StringVar(&f.cost, "cost", "", "costs of sources: `FILE` of weir agent --check --json on a compute node "+
		"(default: measured here)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the halves and draws, `N`")
	flags.Float64Var(&f.fToRemove, "f-to-remove", 2, "with literal: terms with an F below this `F` are removed")
	flags.BoolVar(&f.dropAliased, "drop-aliased", false, "with literal: leave out columns that others add up to")
	flags.BoolVar(&f.perBlock, "per-block", false, "with literal: correlations of blocks, averaged")
	flags.StringVar(&f.out, "out", "", "write the list for agent.metrics_file to `FILE`, such as metrics.yaml")
	flags.Float64Var(&f.canary, "canary", .02, "with --out: this `SHARE` of the nodes goes on measuring everything")
	flags.StringVar(&f.report, "report", "", "write the report as text, JSON and CSV into `DIR`")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object a line")
	cli.Offer(c, "method", methods...)
	cli.Offer(c, "model", models...)
	cli.OfferFiles(c, "previous", cli.YamlFiles...)
	cli.OfferFiles(c, "out", cli.YamlFiles...)
	cli.OfferFiles(c, "cost", "json")
	cli.OfferDirectories(c, "report")
	return c
}

// check refuses flags that contradict each other or are out of range.
func (f *selectFlags) check() error {
	if f.method == "" {
		f.method = methodForward
		if len(f.responses) == 0 {
			f.method = methodCoverage
		}
	}
	switch {
	case !slices.Contains(methods, f.method):
		return fmt.Errorf("--method %.40q must be one of %s", f.method, strings.Join(methods, ", "))
	case !slices.Contains(models, f.model):
		return fmt.Errorf("--model %.40q must be one of %s", f.model, strings.Join(models, ", "))
	case !(f.threshold >= 0 && f.threshold <= 1):
		return fmt.Errorf("--threshold %v must be 0 to 1", f.threshold)
	case !(f.coverage >= 0 && f.coverage < 1):
		return fmt.Errorf("--coverage %v must be 0 to 1, and below 1", f.coverage)
	case !(f.canary >= 0 && f.canary <= 1):
		return fmt.Errorf("--canary %v must be 0 (no node) to 1 (all nodes)", f.canary)
	case f.threshold == 0 && f.method != methodLiteral:
		return errors.New("--threshold 0 makes all metrics one: it must be above 0")
	case !(f.fToRemove >= 0):
		return fmt.Errorf("--f-to-remove %v must be at least 0", f.fToRemove)
	case f.max < 0:
		return fmt.Errorf("--max %d must be at least 0", f.max)
	case f.method == methodCoverage && len(f.responses) > 0:
		return errors.New("--method coverage explains no response: leave --response out, or the method")
	case f.method == methodCoverage && f.coverage == 0:
		return errors.New("--coverage 0 with --method coverage would keep nothing")
	case f.method != methodCoverage && len(f.responses) == 0:
		return fmt.Errorf("--method %s needs --response: a metric, a column of the CSV, or a file; without one, "+
			"--method coverage chooses", f.method)
	case f.method == methodLiteral && (f.out != "" || f.report != ""):
		return errors.New("--out and --report are for forward and coverage: literal does not say what is lost")
	case f.method != methodLiteral && (f.dropAliased || f.perBlock):
		return errors.New("--drop-aliased and --per-block are for --method literal")
	}
	for _, p := range slices.Concat(f.keep, f.main) {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("--keep, --main: %.80q is no pattern: %w", p, cmp.Or(err, errEmpty))
		}
	}
	if f.out != "" {
		return mayReplace(f.out)
	}
	return nil
}

var errEmpty = errors.New("it is empty")

func (f *selectFlags) run(c *cobra.Command) error {
	style, out, err := f.Style(c)
	if err != nil {
		return err
	}
	previous, cpu, err := f.read()
	if err != nil {
		return err
	}
	t, cfg, err := f.table(c)
	if err != nil {
		return err
	}
	if f.method == methodLiteral {
		return f.literal(c, t)
	}
	uses, err := inuse.InUse(cfg)
	if err != nil {
		return cli.Usage(err)
	}
	used := map[string][]string{}
	for _, u := range uses {
		used[u.Name] = u.By
	}
	costs := hostCosts{cpu: cpu, from: f.cost}
	if cpu == nil && known(t) {
		if costs, err = measureCosts(c.Context(), cfg); err != nil {
			return err
		}
	}
	var drift *selection.Drift
	r, err := worked(c, t, func() (*selection.Report, error) {
		r, o, err := f.selected(t, cfg, used, previous, &costs)
		if err == nil && f.out != "" {
			drift, err = selection.NewDrift(t, o, r.Selection)
		}
		return r, err
	})
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := writeReport(f.report, r); err != nil {
			return err
		}
	}
	if f.asJSON {
		err = cli.PrintJSON(c.OutOrStdout(), []*selection.Report{r})
	} else {
		err = term.Selection(out, r, style)
	}
	if err != nil || f.out == "" {
		return err
	}
	if len(r.Responses) > 0 && !r.Predictable {
		cli.Say(c.ErrOrStderr(), "weir metrics: %s is not written: nothing is dropped", f.out)
		return nil
	}
	l := listOf(r, used, cfg)
	l.Drift = driftOf(l, drift)
	return f.write(c, l, r.Warnings)
}

// read reads the files that flags name.
func (f *selectFlags) read() (previous []string, cpu map[string]float64, err error) {
	if f.previous != "" {
		l, err := config.ReadMetricList(f.previous)
		if err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--previous: %w", err))
		}
		previous = l.Keep
	}
	if f.cost != "" {
		if cpu, err = readCosts(f.cost); err != nil {
			return nil, nil, cli.Usage(fmt.Errorf("--cost %s: %w", f.cost, err))
		}
	}
	return previous, cpu, nil
}

// literal prints the metrics that the published method selects for each response.
func (f *selectFlags) literal(c *cobra.Command, t *selection.Table) error {
	o := selection.LiteralOptions{
		Threshold: f.threshold, FToRemove: f.fToRemove, Quadratic: f.model == modelQuadratic,
		DropAliased: f.dropAliased, PerBlock: f.perBlock,
	}
	var failed error
	for i, response := range t.Responses {
		l, err := worked(c, t, func() (*selection.Literal, error) { return selection.SelectLiteral(t, i, o) })
		if l == nil || c.Context().Err() != nil {
			return err
		}
		failed = errors.Join(failed, err)
		if f.asJSON {
			if err := cli.PrintJSON(c.OutOrStdout(), []*selection.Literal{l}); err != nil {
				return err
			}
			continue
		}
		if err := printLiteral(c.OutOrStdout(), response.Name, l, t.Notes, err != nil); err != nil {
			return err
		}
	}
	return failed
}

// worked runs a long computation in a goroutine, so that Ctrl-C ends the command at once.
func worked[T any](c *cobra.Command, t *selection.Table, work func() (T, error)) (T, error) {
	type result struct {
		of  T
		err error
	}
	if cells := t.Rows() * len(t.Metrics); cells > 1_000_000 {
		cli.Say(c.ErrOrStderr(), "weir metrics: selecting among %d metrics over %d rows", len(t.Metrics), t.Rows())
	}
	done := make(chan result, 1)
	go func() {
		of, err := work()
		done <- result{of, err}
	}()
	select {
	case r := <-done:
		return r.of, r.err
	case <-c.Context().Done():
		var none T
		return none, fmt.Errorf("selecting: %w", context.Cause(c.Context()))
	}
}

// selected selects metrics, and gathers the facts that a person weighs before following the selection.
func (f *selectFlags) selected(t *selection.Table, cfg config.Config, used map[string][]string, previous []string,
	costs *hostCosts,
) (r *selection.Report, o selection.Options, err error) {
	o, kept, main, err := f.options(t, cfg, used)
	if err != nil {
		return nil, o, err
	}
	o.Previous = previous
	if f.cost != "" { // measured costs differ from run to run, and must not change the choice
		o.Cost = costs.cpu
	}
	s, err := selection.Select(t, o)
	if err != nil {
		return nil, o, err
	}
	r = &selection.Report{
		From: f.from, Method: f.method, Model: f.model, Threshold: f.threshold, Seed: f.seed, Coverage: f.coverage,
		Notes: t.Notes, Selection: s,
	}
	for _, k := range s.Kept {
		if k.Tier == selection.TierInUse {
			if r.InUse == nil {
				r.InUse = map[string][]string{}
			}
			r.InUse[k.Name] = kept[k.Name]
		}
	}
	if len(t.Responses) > 0 {
		literal := selection.LiteralOptions{Threshold: f.threshold, FToRemove: f.fToRemove, Quadratic: o.Quadratic}
		if r.Rivals, err = selection.Rivals(t, o, s, literal, main); err != nil {
			return nil, o, err
		}
	}
	if len(s.Kept) == 0 || !s.Predictable && len(t.Responses) > 0 {
		return r, o, nil // nothing is dropped, so nothing is saved
	}
	list := listOf(r, used, cfg)
	keeps := func(name string) bool { return list.Measures("", name) }
	r.Cost = costs.of(t, cfg, keeps)
	if known(t) {
		r.Warnings = append(r.Warnings, unjudged(t, cfg, keeps)...)
	}
	if len(t.Responses) > 0 && known(t) && t.Rows()*len(t.Metrics) <= frontierCells {
		o.Cost = costs.cpu
		r.Frontier = selection.Frontier(t, o, s)
	}
	return r, o, nil
}
