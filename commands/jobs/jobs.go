// Package jobs holds the commands that show jobs: lists, reports, pages, findings, rules and live views. They read the
// archive, the topics or both.
package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/analysis/topics"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/term"
	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/reading"
)

// jobsFlags are the flags of weir jobs.
type jobsFlags struct {
	asker
	reading.ReadFlags
	reading.StyleFlags
	sort, user, account, queue, finding, since string
	limit                                      int
}

// NewJobs returns the command weir jobs.
func NewJobs() *cobra.Command {
	c := direct(newJobs)
	cli.Offer(c, "sort", analysis.Sorts()...)
	return c
}

func newJobs(by asker) *cobra.Command {
	f := jobsFlags{asker: by}
	c := &cobra.Command{
		Use:   "jobs",
		Short: "Show the jobs: how well they use their cores, and the worst problem of each",
		Long: `Shows the jobs: how well they use their cores, and the worst problem of each.

BUSY is the share of cores that work, and WASTED h the measured core-hours of the others. A core is a logical CPU, and
counts as busy beside a busy thread of the same core. GPU is the mean utilization of the GPUs, and GPU h the GPU-hours
without work. A job with GPUs wastes its idle cores only by the share of its GPUs that idle: nobody else could use cores
beside a GPU that works. SPREAD is the difference between the ninth and the first decile of cpu_user, in points. MEM is
the most memory that a node used. SEEN is the measured share of the job. A narrow terminal shows fewer columns. Unknown
values are dashes.

WORST FINDING is the class and the rule of the worst finding. "none" means that the rules found nothing in a job that
has ended, and "none yet" that it still runs. A dash means that no rule was evaluated: the job was not measured, or no
job at all has a finding, as without "weir find --live".

Jobs are listed by their start, unless --sort names another order. It accepts any decile of a metric, from d0 to d10. A
running job shows the numbers of its last interval, and no wasted hours.

Without --since it lists jobs that run, wait or are skipped, and jobs that ended in the last 24 hours. From an archive
alone it lists the jobs of the last 30 days. REASON is the reason that a job is skipped. --json adds the last interval
of each job, and its completeness. Slurm's waiting jobs are not among them, since weir asks for jobs that hold nodes:
"squeue --states=PENDING" lists them with their reasons.`,
		Example: `  weir jobs
  weir jobs --sort wasted --since 2026-11-01 --limit 20
  weir jobs --sort flops_any.d5 --account phys-a --dir weir-data/archive
  weir jobs --json --config /etc/weir/weir.yaml`,
		Args: cli.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ask, err := f.ask(time.Now())
			if err != nil {
				return cli.Usage(err)
			}
			return f.run(c, ask)
		},
	}
	f.Given = by.cfg
	f.ReadFlags.Add(c)
	f.Define(c)
	c.Flags().StringVar(&f.sort, "sort", "", "worst `KEY` first: "+strings.Join(analysis.Sorts(), ", ")+
		", METRIC.d5, METRIC.mean")
	c.Flags().StringVar(&f.user, "user", "", "only jobs of user `NAME`")
	c.Flags().StringVar(&f.account, "account", "", "only jobs of account `NAME`")
	c.Flags().StringVar(&f.queue, "queue", "", "only jobs of queue `NAME`")
	c.Flags().StringVar(&f.finding, "finding", "", "only jobs for which `RULE` holds")
	c.Flags().StringVar(&f.since, "since", "", "jobs that ran since `TIME`: 24h or 7d ago, or a date of UTC")
	c.Flags().IntVar(&f.limit, "limit", 0, "at most `N` jobs (default: all)")
	return c
}

// ask translates the flags into a request to the archive and the topics.
func (f *jobsFlags) ask(now time.Time) (a analysis.ListAsk, err error) {
	a = analysis.ListAsk{
		User: f.user, Account: f.account, Queue: f.queue, Finding: f.finding, Sort: f.sort, Limit: f.limit,
	}
	if f.limit < 0 {
		return a, fmt.Errorf("--limit %d must be at least 0", f.limit)
	}
	if err := f.Exclusive(); err != nil {
		return a, err
	}
	a.Since, err = cli.TimeFlag("since", f.since, now)
	return a, err
}

func (f *jobsFlags) run(c *cobra.Command, ask analysis.ListAsk) error {
	style, out, err := f.Style(c)
	if err != nil {
		return err
	}
	cfg, err := f.Load()
	if err != nil {
		return err
	}
	if ask.Dir, ask.Topic, err = f.Where(c, cfg); err != nil {
		return err
	}
	if f.finding != "" {
		set, err := reading.RuleSet(cfg)
		if err != nil {
			return err
		}
		for i := range set.Rules {
			ask.Rules = append(ask.Rules, set.Rules[i].ID)
		}
	}
	lists, err := analysis.LoadLines(c.Context(), cfg, f.viewer, ask)
	switch {
	case errors.Is(err, analysis.ErrSort):
		return cli.Usage(fmt.Errorf("--sort: %w", err))
	case errors.Is(err, analysis.ErrRule):
		return cli.Usage(fmt.Errorf("--finding: %w", err))
	}
	if err != nil {
		return err
	}
	if !f.AsJSON && !f.AsCSV {
		return term.Jobs(out, lists, style)
	}
	last, err := lastIntervals(c.Context(), cfg, f.viewer, ask)
	if err != nil {
		return err
	}
	return cli.PrintRows(c.OutOrStdout(), f.CSVFlags, jobLines(lists, last, f.chosen()))
}

// chosen reports whether the flags select some jobs only.
func (f *jobsFlags) chosen() bool {
	return f.limit > 0 || cmp.Or(f.user, f.account, f.queue, f.finding, f.since) != ""
}

// lastIntervals returns the last summary of each job in the topic that the viewer may see, or nothing if no broker is
// asked.
func lastIntervals(ctx context.Context, cfg config.Config, v analysis.Viewer, ask analysis.ListAsk) (
	[]topics.JobRow, error,
) {
	if !ask.Topic {
		return nil, nil
	}
	return topics.Jobs(ctx, cfg, v.MayAt)
}

// jobLine is a job for programs. Unknown values are null.
type jobLine struct {
	topics.JobRow
	Account    string              `json:"account"`
	Queue      string              `json:"queue"`
	Nodes      *int                `json:"nodes"`
	Cores      *int64              `json:"cores"`
	TimeS      *float64            `json:"time_s"`
	Busy       *float64            `json:"busy"`
	Spread     *float64            `json:"spread"`
	WastedH    *float64            `json:"wasted_h"`
	GPUBusy    *float64            `json:"gpu_busy"`
	GPUWastedH *float64            `json:"gpu_wasted_h"`
	MemPerNode *float64            `json:"mem_per_node"`
	Seen       *float64            `json:"seen"`
	Finding    *string             `json:"finding"`
	Class      *string             `json:"class"`
	Severity   *float64            `json:"severity"`
	Of         map[string]*float64 `json:"of"` // the values by which --sort orders
}

// jobLines joins the listed jobs with their last intervals. If all jobs are wanted, jobs with an interval but without a
// record come last: the pseudo-jobs, and jobs that the topic has forgotten.
func jobLines(lists *view.Lists, last []topics.JobRow, chosen bool) []jobLine {
	interval := map[schemas.JobKey]topics.JobRow{}
	for _, r := range last {
		interval[schemas.JobKey{JobID: r.JobID, Restart: r.Restart}] = r
	}
	lines := make([]jobLine, 0, len(lists.Rows)+len(lists.Skipped))
	for _, l := range slices.Concat(lists.Rows, lists.Skipped) {
		row, known := interval[l.Identity()]
		if !known {
			row = topics.JobRow{JobID: l.JobID, Restart: l.Restart}
		}
		delete(interval, l.Identity())
		row.State, row.Reason, row.User, row.Name = l.State, l.Reason, l.User, l.Name
		lines = append(lines, lineOf(row, &l))
	}
	for _, r := range last {
		if _, left := interval[schemas.JobKey{JobID: r.JobID, Restart: r.Restart}]; left && !chosen {
			lines = append(lines, jobLine{JobRow: r})
		}
	}
	return lines
}

func lineOf(row topics.JobRow, l *view.JobLine) jobLine {
	line := jobLine{
		JobRow: row, Account: l.Account, Queue: l.Queue, Cores: l.Cores, Busy: finite(l.Busy), Spread: finite(l.Spread),
		WastedH: finite(l.WastedH), GPUBusy: finite(l.GPUBusy), GPUWastedH: finite(l.GPUWastedH),
		MemPerNode: finite(l.MemPerNode), Seen: finite(l.Seen),
	}
	if n := len(l.Nodes); n > 0 {
		line.Nodes = &n
	}
	if l.TimeS > 0 {
		line.TimeS = &l.TimeS
	}
	if f := l.Finding; f != nil {
		line.Finding, line.Class, line.Severity = &f.Rule, &f.Class, &f.Severity
	}
	for key, v := range l.Of {
		if line.Of == nil {
			line.Of = map[string]*float64{}
		}
		line.Of[key] = finite(v)
	}
	return line
}

// finite returns nil for numbers that JSON cannot represent.
func finite(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	return v
}
