package metrics

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/analysis/observations"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/selection"

	"github.com/weirhpc/weir/commands/archive"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// Values of --from that are no file.
const (
	fromArchive  = "archive"
	fromCounters = "counters"
)

// observationFlags select the observations that a command of `weir metrics` reads.
type observationFlags struct {
	cli.ConfigFlags
	dir, from, jobs, since, until string
	responses, statistics         []string
	withNodes                     bool // also count the nodes that measured each metric
}

func (f *observationFlags) Add(c *cobra.Command) {
	f.Reads = true // for the topics of a running weir up
	f.ConfigFlags.Add(c)
	flags := c.Flags()
	flags.StringVar(&f.from, "from", fromArchive, "read `WHERE`: archive, counters (the topic), or a file NAME.csv")
	flags.StringVar(&f.dir, "dir", "", "with --from archive: `DIR` of the archive (default: sink.dir)")
	flags.StringSliceVar(&f.responses, "response", nil,
		"explain `A,B`: metrics, columns of the CSV, or files with job_id,restart,interval_start,value")
	flags.StringVar(&f.jobs, "jobs", "",
		"only jobs that match `FILTER`: 4711,4712 or user=A,account=B,queue=C,name=D")
	flags.StringVar(&f.since, "since", "",
		"intervals since `TIME`: 7d ago, or a date of UTC (default: the archive's last 30 days)")
	flags.StringVar(&f.until, "until", "", "intervals before `TIME` (default: the end)")
	if !f.withNodes { // a list names its own
		flags.StringSliceVar(&f.statistics, "statistics", observations.Statistics(),
			"use this `LIST` of each metric: mean, deciles from d0 to d10")
	}
	cli.OfferFiles(c, "from", "csv", "gz")
	cli.OfferDirectories(c, "dir")
}

// table reads the observations. Metrics that the catalogue knows get their source and kind.
func (f *observationFlags) table(c *cobra.Command) (*selection.Table, config.Config, error) {
	ask, err := f.ask(time.Now())
	if err != nil {
		return nil, config.Config{}, cli.Usage(err)
	}
	var t *selection.Table
	var cfg config.Config
	switch f.from {
	case fromArchive, fromCounters:
		cfg, t, err = f.observe(c, ask)
	default:
		if cfg, err = f.Local(); err == nil {
			t, err = f.readFile(ask)
		}
	}
	if err != nil {
		return nil, cfg, err
	}
	describe(t, cfg, f.fromFile())
	return t, cfg, nil
}

// ask translates the flags. It reads the files of responses at once, so that a mistake in one shows before the archive
// is read.
func (f *observationFlags) ask(now time.Time) (a observations.Ask, err error) {
	if a.From, err = cli.TimeFlag("since", f.since, now); err != nil {
		return a, err
	}
	if a.To, err = cli.TimeFlag("until", f.until, now); err != nil {
		return a, err
	}
	if !a.From.IsZero() && !a.To.IsZero() && !a.From.Before(a.To) {
		return a, fmt.Errorf("--since %s must be before --until %s", f.since, f.until)
	}
	if a.Jobs, err = observations.ParseJobFilter(f.jobs); err != nil {
		return a, fmt.Errorf("--jobs: %w", err)
	}
	for _, s := range f.statistics {
		if !slices.Contains(observations.Statistics(), s) {
			return a, fmt.Errorf("--statistics %.40q: there are %s", s, strings.Join(observations.Statistics(), ", "))
		}
	}
	a.Statistics = f.statistics
	if f.withNodes {
		a.Statistics = append(observations.Statistics(), selection.StatisticNodes)
	}
	switch {
	case f.from == "":
		return a, errors.New("--from needs archive, counters or a file")
	case f.fromFile() && f.jobs != "":
		return a, errors.New("--jobs is for the archive and counters: a CSV has the rows that it has")
	}
	for i, r := range f.responses {
		if r == "" || slices.Contains(f.responses[:i], r) {
			return a, fmt.Errorf("--response %.80q: name each response once", r)
		}
		if !isTable(r) {
			a.Responses = append(a.Responses, r)
			continue
		}
		given, err := readResponse(r)
		if err != nil {
			return a, fmt.Errorf("--response %s: %w", r, err)
		}
		a.Given = append(a.Given, given)
	}
	return a, nil
}

// fromFile reports whether --from is a file.
func (f *observationFlags) fromFile() bool { return f.from != fromArchive && f.from != fromCounters }

// isTable reports whether a response is a file.
func isTable(name string) bool {
	return strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, ".csv.gz")
}

// readResponse reads a file of responses. The file's name is the name of the response.
func readResponse(file string) (given observations.Given, err error) {
	in, done, err := openTable(file)
	if err != nil {
		return given, err
	}
	defer done()
	given.Name, _, _ = strings.Cut(filepath.Base(file), ".csv")
	given.Values, given.Notes, err = selection.ReadResponse(in)
	return given, err
}

// readFile reads the observations of a CSV.
func (f *observationFlags) readFile(ask observations.Ask) (*selection.Table, error) {
	in, done, err := openTable(f.from)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--from %s: %w", f.from, err))
	}
	defer done()
	t, err := selection.ReadCSV(in, ask.Responses)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.from, err)
	}
	if !ask.From.IsZero() || !ask.To.IsZero() {
		t.Between(ask.From, ask.To)
	}
	return t, observations.Join(t, ask.Given, nil)
}

// openTable opens a CSV, which may be compressed by gzip. Standard input is a dash.
func openTable(file string) (in io.Reader, done func(), err error) {
	done = func() {}
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, naming.Pathless(err)
		}
		in, done = f, func() { _ = f.Close() }
	} else {
		in = os.Stdin
	}
	buffered := bufio.NewReader(in)
	if head, err := buffered.Peek(2); err == nil && bytes.Equal(head, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(buffered)
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("unpacking: %w", err)
		}
		return unpacked, done, nil
	}
	return buffered, done, nil
}

// observe reads the archive or the topic counters.
func (f *observationFlags) observe(c *cobra.Command, ask observations.Ask) (
	cfg config.Config, t *selection.Table, err error,
) {
	show := progress{out: c.ErrOrStderr(), now: time.Now}
	ask.Progress = show.step
	if f.from == fromCounters {
		if f.dir != "" {
			return cfg, nil, cli.Usage(errors.New("--dir is for --from archive"))
		}
		if cfg, err = f.Load(); err != nil {
			return cfg, nil, err
		}
		t, err = observations.Counters(c.Context(), cfg, ask)
		return cfg, t, err
	}
	if ask.Dir, cfg, err = f.archiveDir(); err != nil {
		return cfg, nil, err
	}
	t, err = observations.Archive(c.Context(), ask)
	return cfg, t, err
}

// archiveDir returns the archive that is read. No broker is asked.
func (f *observationFlags) archiveDir() (dir string, cfg config.Config, err error) {
	cfg, err = f.Local()
	if err != nil {
		return "", cfg, err
	}
	read := reading.ReadFlags{ConfigFlags: f.ConfigFlags, Dir: f.dir}
	if f.dir != "" {
		_, err = read.Load()
		return read.Dir, cfg, err
	}
	archive := archive.Flags{ConfigFlags: f.ConfigFlags}
	if dir, _, err = archive.Load(); err != nil {
		return "", cfg, err
	}
	return dir, cfg, analysis.Readable(dir)
}

// describe adds the catalogue's source and kind to the metrics. Unless others is set, it removes metrics of the archive
// that agents do not measure: jobs reported them, and agents cannot drop them. The columns of a file all stay.
func describe(t *selection.Table, cfg config.Config, others bool) {
	known := map[string]source.Metric{}
	for _, m := range source.Catalogue(cfg.Agent) {
		known[m.Name] = m
	}
	for i := range t.Metrics {
		m := &t.Metrics[i]
		m.Source, m.Kind = known[m.Name].Source, string(known[m.Name].Kind)
	}
	before := len(t.Metrics)
	t.Metrics = slices.DeleteFunc(t.Metrics, func(m selection.Metric) bool { return !others && m.Source == "" })
	if left := before - len(t.Metrics); left > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d metrics left out that are not of the catalogue: jobs reported "+
			"them, or another configuration has them", left))
	}
}

// progressEvery is the time between two progress reports.
const progressEvery = 2 * time.Second

// progress reports the state of a long command on standard error.
type progress struct {
	out  io.Writer
	now  func() time.Time
	last time.Time
}

// step reports a step, at most one in progressEvery. The first is never reported, so that short commands print none.
func (p *progress) step(text string) {
	now := p.now()
	if p.last.IsZero() {
		p.last = now
	}
	if now.Sub(p.last) >= progressEvery {
		p.last = now
		cli.Say(p.out, "weir metrics: %s", text)
	}
}
