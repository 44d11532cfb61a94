package jobs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/analysis"

	"github.com/weirhpc/weir/naming"

	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// jobFlags are the flags of weir job.
type jobFlags struct {
	asker
	reading.ReadFlags
	reading.StyleFlags
	last                    int
	restart                 int32
	metrics, from, to       string
	html, correlate         string
	totals, findings, rules bool
	nodes                   bool
}

// NewJob returns the command weir job.
func NewJob() *cobra.Command { return direct(newJob) }

func newJob(by asker) *cobra.Command {
	f := jobFlags{asker: by}
	c := &cobra.Command{
		Use:   "job ID...",
		Short: "Show how well a job used its hardware, and what its user may change",
		Long: `Shows how well a job used its hardware, and what its user may change.

Bars compare the job with the capabilities of its nodes. Each metric has a line: deciles of its whole life, their band,
and the median over time. A band runs from 0 to 100 % for a share, otherwise from the smallest to the largest value. In
it, dots lead to the extremes, a line runs from the first to the ninth decile, and a mark is the median. A
table by node has the worst ten: the share of busy cores, the largest memory, GPUs, and network. Notes name problems,
with the line of the job script to change. Times are UTC, as in all reports.

It reads the archive, and then the topic past the archive's end. On a login node with neither, it asks the site's
console, which shows you your own jobs. Several jobs get a line each, followed by the totals of all their values
together. 184300_[1-60] are tasks of the job array 184300, and 184300 alone means all of them. Tasks, steps and parts
may be typed as squeue and sacct print them: 184300_7, 4711.batch, 4711+1. If several jobs have had an ID, it lists
them, and ID@DATE selects the one that began on a date.

--last shows the rows of the last intervals, one metric a line, and --json and --csv print them for programs. The names
are the columns of the archive. The rows come from the topic, or with --dir from the archive, with a span given by
--from and --to.`,
		Example: `  weir job host
  weir job 4711 -n 10 --json
  weir job 4711 4712 184300_[1-60]
  weir job nightly@2026-11-20
  weir job 4711 --dir weir-data/archive --width 120
  weir job 4711 --html 4711.html
  weir job 4711 --metrics cpu_user,mem_bw --from 2026-11-20 --to 2026-11-21T06:00:00+01:00`,
		Args: jobIDs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return cli.Usage(err)
			}
			return f.run(c, args)
		},
	}
	f.Given = by.cfg
	f.ReadFlags.Add(c)
	f.Define(c)
	c.Flags().IntVarP(&f.last, "last", "n", 3, "show the rows of the last `N` intervals")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "intervals" { // the earlier name of --last
			name = "last"
		}
		return pflag.NormalizedName(name)
	})
	c.Flags().Int32Var(&f.restart, "restart", -1, "show this life of the job: restart `N` (default: the last)")
	c.Flags().Lookup("restart").DefValue = "0" // the help does not show -1
	c.Flags().StringVar(&f.html, "html", "", "write a page with figures into `FILE`, for a browser")
	c.Flags().StringVar(&f.metrics, "metrics", "",
		"show these metrics: `A,B` or all (default: the most informative ones)")
	c.Flags().StringVar(&f.from, "from", "",
		"show measurements from `TIME` on: a date of UTC, a time such as 2026-11-21T06:00:00Z, or 7d ago")
	c.Flags().StringVar(&f.to, "to", "", "show measurements before `TIME`")
	c.Flags().StringVar(&f.correlate, "correlate", "", "show how the means of two metrics move together: `A,B`")
	c.Flags().BoolVar(&f.totals, "totals", false, "show all deciles of the whole life, with their bounds")
	c.Flags().BoolVar(&f.findings, "findings", false, "show all that is known of each finding")
	c.Flags().BoolVar(&f.nodes, "nodes", false, "show a line for each node, the worst first")
	c.Flags().BoolVar(&f.rules, "rules", false, "show the result of each rule, or why it was not evaluated")
	cli.OfferFiles(c, "html", "html")
	return c
}

// jobIDs checks arguments that are jobs, or tasks of a job array.
func jobIDs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.OneArg("ID", "host")(c, args)
	}
	for _, a := range separate(args) {
		if _, _, _, err := arrayTasks(a); err != nil {
			return cli.Usage(err)
		}
	}
	return nil
}

// check refuses flags that contradict each other.
func (f *jobFlags) check(c *cobra.Command) error {
	modes := 0
	for _, asked := range []bool{f.totals, f.findings, f.rules, f.nodes, f.correlate != "", f.html != ""} {
		if asked {
			modes++
		}
	}
	switch {
	case f.last < 1:
		return fmt.Errorf("-n %d must be at least 1", f.last)
	case f.Exclusive() != nil:
		return f.Exclusive()
	case modes > 1:
		return errors.New("--totals, --findings, --nodes, --rules, --correlate and --html: name one of them")
	case modes > 0 && f.limited(c):
		return errors.New("--last is for the rows of intervals, and for nothing else")
	case (f.rules || f.html != "") && (f.AsJSON || f.AsCSV):
		return errors.New("--rules and --html are for people: --findings --json has what holds")
	case f.correlate != "":
		_, _, err := pairOf(f.correlate)
		return err
	case f.restart < 0 && c.Flags().Changed("restart"):
		return fmt.Errorf("--restart %d must be at least 0", f.restart)
	}
	return nil
}

// limited reports whether the user asked for a number of intervals.
func (f *jobFlags) limited(c *cobra.Command) bool {
	return c.Flags().Changed("last")
}

// rows reports whether the rows of intervals are wanted.
func (f *jobFlags) rows(c *cobra.Command) bool {
	return f.limited(c) || (f.AsJSON || f.AsCSV) && !f.totals && !f.findings && !f.nodes && f.correlate == ""
}

func (f *jobFlags) run(c *cobra.Command, args []string) error {
	args = separate(args)
	ask, err := f.ask(time.Now())
	if err != nil {
		return cli.Usage(err)
	}
	cfg, err := f.Load()
	if err != nil {
		return err
	}
	style, out, err := f.Style(c)
	if err != nil {
		return err
	}
	if ask.Dir, ask.Topic, err = f.Where(c, cfg); err != nil {
		return err
	}
	if f.rows(c) && ask.Topic && (f.from != "" || f.to != "" || f.restart >= 0) {
		return cli.Usage(errors.New("the topic holds the last rows only: name the archive with --dir, " +
			"or leave --from, --to and --restart out"))
	}
	sources, err := analysis.Open(c.Context(), cfg, f.viewer, ask, numbers(args)...)
	if err != nil {
		return err
	}
	defer sources.Close()
	ids, err := taskIDs(c.Context(), sources, args)
	if err != nil {
		return err
	}
	if f.rows(c) {
		return f.printIntervals(c, sources, ids, ask)
	}
	if f.correlate != "" {
		return jobCorrelation(c.Context(), sources, ids, f.correlate, ask, f.CSVFlags, f.AsJSON, out)
	}
	set, err := reading.RuleSet(cfg)
	if err != nil {
		return err
	}
	if f.html != "" {
		ask.MaxBins = pageBins
	}
	jobs, err := loadJobs(c, sources, set, ids, ask)
	if err != nil {
		return err
	}
	if err := sayMissing(c, ask.Metrics, func(name string) bool {
		return slices.ContainsFunc(jobs, func(j *view.Job) bool { return j.Find(name) != nil })
	}); err != nil {
		return err
	}
	if f.html != "" {
		cfg.Machine = sources.Machine()
		return jobsPage(c.Context(), cfg, f.viewer, ask, f.html, jobs)
	}
	return f.show(out, style, set, jobs)
}

// sayMissing reports requested metrics that no job measured. It returns an error if none of them was measured.
func sayMissing(c *cobra.Command, asked []string, has func(string) bool) error {
	missing := slices.DeleteFunc(slices.Clone(asked), func(m string) bool { return m == analysis.AllMetrics || has(m) })
	if len(missing) == 0 {
		return nil
	}
	err := fmt.Errorf("%w %s; --metrics all shows the measured ones", errNoSuchMetric, strings.Join(missing, ", "))
	if len(missing) == len(asked) {
		return err
	}
	cli.Say(c.ErrOrStderr(), "weir: %v", err)
	return nil
}

var errNoSuchMetric = errors.New("the job has no metric")

// show writes the requested part of the jobs to the reader's terminal, or for programs.
func (f *jobFlags) show(out io.Writer, style term.Style, set *rules.Set, jobs []*view.Job) error {
	switch {
	case f.totals && (f.AsJSON || f.AsCSV):
		return printEach(out, f.CSVFlags, jobs, totalRows)
	case f.findings && (f.AsJSON || f.AsCSV):
		return printEach(out, f.CSVFlags, jobs, findingRows)
	case f.nodes && (f.AsJSON || f.AsCSV):
		return printEach(out, f.CSVFlags, jobs, nodeRows)
	case f.nodes:
		return each(out, jobs, style, term.Nodes)
	case f.totals:
		return each(out, jobs, style, term.Totals)
	case f.findings:
		return each(out, jobs, style, term.Findings)
	case f.rules:
		return each(out, jobs, style, func(w io.Writer, j *view.Job, s term.Style) error {
			return term.Rules(w, j, set.Rules, s)
		})
	case len(jobs) == 1:
		return term.Job(out, jobs[0], style)
	}
	all, err := view.Merge(jobs)
	if err != nil {
		return fmt.Errorf("merging the jobs: %w", err)
	}
	return term.Several(out, jobs, all, style)
}

// ask translates the flags into a request to the archive and the topic.
func (f *jobFlags) ask(now time.Time) (a analysis.Ask, err error) {
	a = analysis.Ask{Restart: f.restart, MaxBins: 120}
	if f.metrics != "" {
		a.Metrics = strings.Split(f.metrics, ",")
		for _, m := range a.Metrics {
			if !naming.Valid(m) {
				return a, fmt.Errorf("--metrics %q must be names of metrics, with commas between them, or all",
					f.metrics)
			}
		}
	}
	if a.From, err = cli.TimeFlag("from", f.from, now); err == nil {
		a.To, err = cli.TimeFlag("to", f.to, now)
	}
	if err == nil && !a.To.IsZero() && !a.To.After(a.From) {
		err = fmt.Errorf("--to %s is not after --from %s", f.to, f.from)
	}
	return a, err
}

// each writes a text for each job, with an empty line between them.
func each(w io.Writer, jobs []*view.Job, s term.Style, show func(io.Writer, *view.Job, term.Style) error) error {
	for i, j := range jobs {
		if len(jobs) > 1 {
			head := "Job " + j.JobID + "\n"
			if i > 0 {
				head = "\n" + head
			}
			if _, err := io.WriteString(w, head); err != nil {
				return err
			}
		}
		if err := show(w, j, s); err != nil {
			return err
		}
	}
	return nil
}
