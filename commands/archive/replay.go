package archive

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis/replay"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/derive"
	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
)

// errAbsent ends `weir replay` with status 1, after the rows of the other jobs.
var errAbsent = errors.New("the log has nothing of it in this time")

// replayFlags are the flags of `weir replay`.
type replayFlags struct {
	cli.ConfigFlags
	since, until, library, dir string
	jobs, metrics, definitions []string
	asJSON, asCollected        bool
}

// NewReplay returns the command weir replay.
func NewReplay() *cobra.Command {
	f := replayFlags{ConfigFlags: cli.ConfigFlags{Reads: true}}
	c := &cobra.Command{
		Use:   "replay",
		Short: "Fold history anew: exact deciles, other metrics, chosen jobs",
		Long: `Folds the log of counters anew, as far back as topic counters holds it.

All values of a split job are in the log, so its deciles are EXACT here, and not estimates. Records that came late
count in their interval, up to 64 intervals late. --as-collected leaves them out, as collect did.

--define computes a further metric, CPU by CPU, as NAME[:SCOPE[:UNIT]]=EXPRESSION. An expression consists of numbers,
names of metrics, + - * / **, comparisons, and, or, not, ?:, and the functions abs, ceil, exp, floor, log, log10, max,
min, round, sqrt. A name with dots or hyphens is written metric("a.name"). A missing value or a division by zero gives
no value. Jobs that were reduced on their node have no values in the log: their metrics are passed through, and nothing
is computed.

If several jobs have had an ID, it lists them, and ID@DATE names the one that began on a date.

A row is one metric of one job in one interval, as "weir job" shows it. --archive writes Parquet files into a new
directory, which docs/archive.md describes. It ends with status 1 if a chosen job is not found.`,
		Example: `  weir replay --job 4711 --since 2h
  weir replay --job 4711/1 --define 'ipc:core=instructions/cycles' --metric ipc --json
  weir replay --since 2026-11-21T08:00:00Z --until 2026-11-21T12:00:00Z --metrics library.yaml --archive ipc`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.Add(c)
	flags := c.Flags()
	flags.StringVar(&f.since, "since", "",
		"begin at this `TIME`, a date of UTC, or so long ago: 2026-11-21T08:00:00Z, 2026-11-21 or 2h")
	flags.StringVar(&f.until, "until", "", "end before this `TIME`, or so long ago")
	flags.StringArrayVar(&f.jobs, "job", nil,
		"fold job `ID`, ID/RESTART or ID@DATE, also _rest or _system; may be repeated (default: all)")
	flags.StringArrayVar(&f.metrics, "metric", nil, "show metric `NAME`; may be repeated (default: all)")
	flags.StringArrayVar(&f.definitions, "define", nil,
		"compute a metric by `DEFINITION`, such as ipc:core=instructions/cycles; may be repeated")
	flags.StringVar(&f.library, "metrics", "",
		"compute the metrics of YAML `FILE`: metrics: [{name, unit, scope, kind, expr}]")
	flags.StringVar(&f.dir, "archive", "", "write Parquet files into the new directory `DIR`")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object a line")
	flags.BoolVar(&f.asCollected, "as-collected", false, "leave out late records")
	cli.OfferFiles(c, "metrics", cli.YamlFiles...)
	cli.OfferDirectories(c, "archive")
	return c
}

// options reads the flags.
func (f *replayFlags) options(now time.Time) (o replay.Options, err error) {
	if f.asJSON && f.dir != "" {
		return o, errors.New("--json and --archive exclude each other: one prints the rows, the other writes files")
	}
	if o.Since, err = cli.TimeFlag("since", f.since, now); err != nil {
		return o, err
	}
	if o.Until, err = cli.TimeFlag("until", f.until, now); err != nil {
		return o, err
	}
	if f.until != "" && !o.Until.After(o.Since) {
		return o, fmt.Errorf("--until %s is not after --since %s", f.until, f.since)
	}
	for _, text := range f.jobs {
		job, err := replay.ParseChoice(text)
		if err != nil {
			return o, err
		}
		o.Jobs = append(o.Jobs, job)
	}
	if f.library != "" {
		file, err := os.Open(f.library)
		if err != nil {
			return o, fmt.Errorf("--metrics: %w", err)
		}
		defer func() { _ = file.Close() }() // nothing was written
		if o.Definitions, err = derive.ReadYAML(file); err != nil {
			return o, fmt.Errorf("--metrics %s: %w", f.library, err)
		}
	}
	for _, text := range f.definitions {
		d, err := derive.Parse(text)
		if err != nil {
			return o, err
		}
		o.Definitions = append(o.Definitions, d)
	}
	_, err = derive.Compile(o.Definitions) // before a broker is asked
	o.Metrics, o.AsCollected = f.metrics, f.asCollected
	return o, err
}

func (f *replayFlags) run(c *cobra.Command) error {
	o, err := f.options(time.Now())
	if err != nil {
		return cli.Usage(err)
	}
	cfg, err := f.Load()
	if err != nil {
		return err
	}
	o.Progress = progressTo(c.ErrOrStderr(), "replay")
	out := c.OutOrStdout()
	switch {
	case f.dir != "":
		return f.archive(c, cfg, o)
	case f.asJSON:
		return finishReplay(c, func() (*replay.Report, error) {
			return replay.Run(c.Context(), cfg, o, func(s *schemas.JobSummary) error {
				return cli.PrintJSON(out, s.Rows())
			})
		})
	}
	t := &replayTable{out: out}
	return finishReplay(c, func() (*replay.Report, error) {
		r, err := replay.Run(c.Context(), cfg, o, t.Add)
		return r, errors.Join(err, t.flush())
	})
}

// archive writes the rows into a directory of their own.
func (f *replayFlags) archive(c *cobra.Command, cfg config.Config, o replay.Options) error {
	o.Sketch = cfg.Collect.Sketch
	return finishReplay(c, func() (r *replay.Report, err error) {
		a, err := replay.NewArchive(c.Context(), f.dir, cfg.Sink.Dir, cfg.Prefix+schemas.TopicJobSummary)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, a.Close()) }()
		if r, err = replay.Run(c.Context(), cfg, o, a.Add); err != nil {
			return nil, err
		}
		files, err := a.Publish()
		if err == nil {
			cli.Say(c.OutOrStdout(), "%s: %d files with %d rows", filepath.Join(f.dir, "summaries"), files, r.Rows)
		}
		return r, err
	})
}

// finishReplay runs a replay, and reports the conditions that a reader of its rows must know.
func finishReplay(c *cobra.Command, run func() (*replay.Report, error)) error {
	r, err := run()
	switch {
	case errors.Is(err, derive.ErrDefinition), errors.Is(err, replay.ErrUnknownMetric),
		errors.Is(err, replay.ErrDirectory):
		return cli.Usage(err)
	case err != nil:
		return err
	}
	errs := c.ErrOrStderr()
	for _, n := range r.Notes {
		cli.Say(errs, "weir replay: %s", n)
	}
	span := ""
	if r.From != nil {
		span = fmt.Sprintf(", from %s to %s", time.UnixMilli(*r.From).UTC().Format(time.RFC3339),
			time.UnixMilli(*r.To).UTC().Format(time.RFC3339))
	}
	cli.Say(errs, "weir replay: %d rows of %d summaries in %d intervals%s", r.Rows, r.Summaries, r.Intervals, span)
	if len(r.Absent) == 0 {
		return nil
	}
	var names []string
	for _, job := range r.Absent {
		names = append(names, job.String())
	}
	return fmt.Errorf("job %s: %w", strings.Join(names, ", "), errAbsent)
}

// replayTable shows the rows of each interval as a table.
type replayTable struct {
	out   io.Writer
	rows  []schemas.Row
	start int64
}

func (t *replayTable) Add(s *schemas.JobSummary) error {
	if s.IntervalStart != t.start {
		if err := t.flush(); err != nil {
			return err
		}
	}
	t.start, t.rows = s.IntervalStart, append(t.rows, s.Rows()...)
	return nil
}

func (t *replayTable) flush() error {
	if len(t.rows) == 0 {
		return nil
	}
	shown := cli.NewTable(tabwriter.AlignRight)
	cli.Say(t.out, "%s", view.Time(t.start).Format("2006-01-02 15:04:05 UTC"))
	shown.Line("JOB\tMETRIC\tUNIT\tMIN\tD1\tD2\tD3\tD4\tD5\tD6\tD7\tD8\tD9\tMAX\tMEAN\tCOUNT\tMETHOD\tNODES\t")
	for i := range t.rows {
		r := &t.rows[i]
		metric, unit, count := "-", "-", "-"
		if r.Metric != nil {
			metric, unit, count = *r.Metric, *r.Unit, strconv.FormatInt(*r.Count, 10)
		}
		var values strings.Builder
		for _, v := range []*float64{r.D0, r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9, r.D10, r.Mean} {
			values.WriteString(cli.Number(v) + "\t")
		}
		shown.Line("%s\t%s\t%s\t%v%s\t%s\t%d/%d\t", fmt.Sprintf("%s/%d", r.JobID, r.Restart), metric, unit,
			&values, count, r.Method, r.NodesReported, r.NodesExpected)
	}
	t.rows = t.rows[:0]
	return shown.Print(t.out)
}
