package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/analysis/topics"
)

// ListAsk selects and orders the listed jobs.
type ListAsk struct {
	Dir                  string    // the archive; empty: sink.dir
	Topic                bool      // brokers are asked for running jobs, and for jobs that the archive lacks
	Since                time.Time // the earliest end; zero: a day ago, and without brokers all of a month
	User, Account, Queue string    // empty: any
	Finding              string    // a rule that holds for the job; empty: any or none
	Rules                []string  // known rules, besides rules with a finding; nil: any
	Sort                 string    // empty: by start, the newest first
	Limit                int       // 0: all
}

var (
	// ErrSort is returned for an unknown order.
	ErrSort = errors.New("no order of jobs")
	// ErrRule is returned for an unknown rule.
	ErrRule = errors.New("no rule")
	// ErrNoMetric is returned if no listed job has the metric of the order.
	ErrNoMetric = errors.New("no job of the list has the metric")
)

// lineMetrics are the metrics behind the numbers of a line.
var lineMetrics = []string{"cpu_idle", "cpu_user", "acc_utilization", "mem_used", "job_mem_used"}

// LineMetrics are the metrics of which the numbers of a line of `weir jobs` are made.
func LineMetrics() []string { return slices.Clone(lineMetrics) }

// lister makes the lines of jobs.
type lister struct {
	viewer     Viewer
	intervalMs int64 // of the configuration
	ask        ListAsk
	types      *nodetypes.Types
	of         archive.Timeline[*view.JobLine] // nil: a job that the viewer may not see, perhaps a namesake
	all        []*view.JobLine
	by         order
	found      map[*view.JobLine]bool // jobs with the requested finding
	rules      map[string]bool        // rules with a finding
}

// LoadLines returns running, waiting and ended jobs that the viewer may see, with the numbers that `weir jobs` shows. A
// running job shows the numbers of its last interval, without wasted hours.
func LoadLines(ctx context.Context, cfg config.Config, v Viewer, a ListAsk) (*view.Lists, error) {
	by, err := orderOf(a.Sort)
	if err != nil {
		return nil, err
	}
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		return nil, err
	}
	if a.Dir != "" {
		cfg.Sink.Dir = a.Dir
	}
	l := &lister{
		viewer: v, intervalMs: cfg.Interval.Milliseconds(), ask: a, types: types, by: by,
		of: archive.Timeline[*view.JobLine]{}, found: map[*view.JobLine]bool{}, rules: map[string]bool{},
	}
	if a.Topic {
		limited, cancel := context.WithTimeout(ctx, topics.ReadTimeout)
		defer cancel()
		r, err := topics.Open(limited, cfg)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		if cfg.Machine, err = topics.Machine(limited, r, cfg); err != nil {
			return nil, err
		}
		if l.types, err = nodetypes.New(cfg.Machine); err != nil {
			return nil, err
		}
		if err := l.fromTopics(limited, r); err != nil {
			return nil, err
		}
	}
	if err := l.fromArchive(ctx, cfg.Sink.Dir); err != nil {
		return nil, err
	}
	if a.Finding != "" && a.Rules != nil && !l.rules[a.Finding] && !slices.Contains(a.Rules, a.Finding) {
		return nil, fmt.Errorf("%w %q: there are %s", ErrRule, a.Finding, strings.Join(a.Rules, ", "))
	}
	lists := l.lists()
	if by.metric != "" && !slices.ContainsFunc(lists.Rows, l.sorted) && slices.ContainsFunc(lists.Rows, hasNumbers) {
		return nil, fmt.Errorf("%w %s: `weir job ID --metrics all` shows those of a job", ErrNoMetric, by.metric)
	}
	return lists, nil
}

// sorted reports whether a line holds the value that the list is sorted by.
func (l *lister) sorted(line view.JobLine) bool { return l.by.value(&line) != nil }

// hasNumbers reports whether a line holds any number.
func hasNumbers(line view.JobLine) bool {
	return line.Busy != nil || line.Spread != nil || line.MemPerNode != nil
}

// since returns the earliest end of listed jobs. Without brokers, the archive is the only clock.
func (l *lister) since(dir string) (time.Time, error) {
	switch {
	case !l.ask.Since.IsZero():
		return l.ask.Since, nil
	case l.ask.Topic:
		return time.Now().Add(-24 * time.Hour), nil
	}
	dates, err := jobs.Dates(dir)
	if err != nil || len(dates) == 0 {
		return time.Time{}, err
	}
	last, err := time.Parse(time.DateOnly, dates[len(dates)-1])
	return last.AddDate(0, 0, -30), err
}

// wanted reports whether a job is listed.
func (l *lister) wanted(j *schemas.Job) bool {
	is := func(want, has string) bool { return want == "" || want == has }
	return is(l.ask.User, j.User) && is(l.ask.Account, j.Account) && is(l.ask.Queue, j.Queue)
}

// fromTopics reads the jobs that the scheduler knows, the last interval of the running ones, and the findings.
func (l *lister) fromTopics(ctx context.Context, r *topics.Reader) error {
	since, err := l.since("")
	if err != nil {
		return err
	}
	known, err := r.Jobs(ctx)
	if err != nil {
		return err
	}
	for _, j := range known {
		over := schemas.Over(j.State)
		if !l.hide(j) && l.wanted(j) && (!over || j.End != nil && *j.End >= since.UnixMilli()) {
			l.line(r.Config.Cluster, j)
		}
	}
	last, err := r.LastSummaries(ctx, func(s *schemas.JobSummary) *schemas.JobSummary { return s })
	if err != nil {
		return err
	}
	for _, s := range last {
		line, is := l.of.At(schemas.JobKey{JobID: s.JobID, Restart: s.Restart}, s.IntervalStart)
		if !is || !l.sees(line, s.IntervalStart+s.IntervalMs-1) || schemas.Over(line.State) {
			continue
		}
		line.Cluster = s.Cluster
		if s.NodesExpected > 0 {
			seen := float64(s.NodesReported) / float64(s.NodesExpected)
			line.Seen = &seen
		}
		for i := range s.Metrics {
			m := &s.Metrics[i]
			var d [11]*float64
			if m.Deciles != nil && len(*m.Deciles) == len(d) {
				for k := range d {
					d[k] = &(*m.Deciles)[k]
				}
			}
			l.numbers(line, m.Name, m.Mean, d)
		}
	}
	return r.Findings(ctx, func(f *schemas.Finding) { l.finding(f) })
}

// fromArchive reads jobs, totals and findings of the archive.
func (l *lister) fromArchive(ctx context.Context, dir string) error {
	since, err := l.since(dir)
	if err != nil {
		return err
	}
	first := since.UTC().Format(time.DateOnly)
	err = archive.EachJob(ctx, dir, first, "", func(r *jobs.Row) error {
		j := archive.JobOf(r)
		if l.hide(j) || r.End < since.UnixMilli() || !l.wanted(j) {
			return nil
		}
		for _, m := range l.of[j.Identity()] {
			if m.When.Same(r.Life()) {
				if m.Of != nil {
					m.Of.Cluster = r.Cluster
				}
				return nil
			}
		}
		l.line(r.Cluster, j)
		return nil
	})
	if err != nil {
		return err
	}
	metrics := slices.Clone(lineMetrics)
	if l.by.metric != "" {
		metrics = append(metrics, l.by.metric)
	}
	columns := []string{
		"job_id", "restart", "metric", "start", "end", "intervals_measured", "measured_s", "nodes_expected_sum",
		"nodes_reported_sum", "count", "mean",
		"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10",
	}
	err = archive.EachTotalOf(ctx, dir, first, "", metrics, columns, func(t *totals.Total) error {
		line, is := l.of.OfTotal(t)
		if is && l.sees(line, t.Start+l.intervalMs-1) && l.sees(line, t.End-1) && schemas.Over(line.State) {
			l.total(line, t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return archive.EachFinding(ctx, dir, l.findingsFrom(since), "", "", func(f *schemas.Finding) error {
		l.finding(f)
		return nil
	})
}

// findingsFrom returns the first date on which findings of the listed jobs may lie. A finding is filed under the date
// of the last interval that its rule looked at, and a job may run long after that.
func (l *lister) findingsFrom(since time.Time) string {
	first := since.UnixMilli()
	for _, line := range l.all {
		began := line.Start
		if began == nil {
			began = line.Submit
		}
		switch {
		case !schemas.Over(line.State): // its findings are not archived yet
		case began == nil || *began <= 0:
			return ""
		default:
			first = min(first, *began)
		}
	}
	return archive.DateAt(first)
}

// hide reports whether the viewer may not see a job. Its time stays known, so that no line takes its numbers.
func (l *lister) hide(j *schemas.Job) bool {
	if l.viewer.May(j) {
		return false
	}
	l.of.Add(j.Identity(), life{Job: j}.when(), nil)
	return true
}

// sees reports whether the viewer may see a measurement of a time that belongs to a line. A nil line is hidden.
func (l *lister) sees(line *view.JobLine, ms int64) bool {
	return line != nil && l.viewer.MayAt(&line.Job, ms)
}

// line adds a job.
func (l *lister) line(cluster string, j *schemas.Job) {
	line := &view.JobLine{Job: *j, Cluster: cluster, Of: map[string]*float64{}}
	if j.Start != nil && *j.Start > 0 {
		end := time.Now().UnixMilli()
		if j.End != nil && schemas.Over(j.State) {
			end = *j.End
		}
		line.TimeS = float64(max(0, end-*j.Start)) / 1000
	}
	l.of.Add(j.Identity(), life{Job: j}.when(), line)
	l.all = append(l.all, line)
}

// total sets the numbers of a line from a total of an ended job.
func (l *lister) total(line *view.JobLine, t *totals.Total) {
	if t.Metric == nil {
		return
	}
	if t.NodesExpectedSum > 0 && line.Seen == nil {
		seen := float64(t.NodesReportedSum) / float64(t.NodesExpectedSum)
		line.Seen = &seen
	}
	l.numbers(line, *t.Metric, t.Mean, t.Deciles())
	if t.IntervalsMeasured > 0 {
		line.Waste(*t.Metric, t.Count, t.MeasuredS/float64(t.IntervalsMeasured))
	}
}

// numbers sets the numbers of a line that come from one metric, and the number by which the list is sorted.
func (l *lister) numbers(line *view.JobLine, metric string, mean *float64, d [11]*float64) {
	line.Take(metric, mean, d, l.types.Of(line.Nodes))
	if metric == l.by.metric {
		if line.Of[l.ask.Sort] = mean; l.by.decile >= 0 {
			line.Of[l.ask.Sort] = d[l.by.decile]
		}
	}
}

// finding takes a finding that holds. A line shows the worst.
func (l *lister) finding(f *schemas.Finding) {
	l.rules[f.Rule] = true
	line, is := l.of.At(f.Job(), f.AsOf)
	if !is || !l.sees(line, f.AsOf+f.IntervalMs-1) || f.State != schemas.FindingOpen {
		return
	}
	if f.Rule == l.ask.Finding {
		l.found[line] = true
	}
	if line.Finding == nil || worstFirst([]schemas.Finding{*line.Finding, *f})[0].Rule == f.Rule {
		worst := *f
		line.Finding = &worst
	}
}

// lists returns the lines in their order.
func (l *lister) lists() *view.Lists {
	lists := &view.Lists{}
	finds := len(l.rules) > 0 // rules look at jobs at all, perhaps at others than these
	for _, line := range l.all {
		line.Judged = line.Finding != nil || finds && line.Seen != nil
		switch {
		case l.ask.Finding != "" && !l.found[line]:
		case line.State == schemas.StateSkipped:
			lists.Skipped = append(lists.Skipped, *line)
		default:
			lists.Rows = append(lists.Rows, *line)
		}
	}
	slices.SortFunc(lists.Skipped, byID)
	slices.SortFunc(lists.Rows, l.by.compare)
	if l.ask.Limit > 0 {
		lists.Rows = lists.Rows[:min(len(lists.Rows), l.ask.Limit)]
		lists.Skipped = lists.Skipped[:min(len(lists.Skipped), l.ask.Limit-len(lists.Rows))]
	}
	return lists
}

func byID(a, b view.JobLine) int {
	start := func(l *view.JobLine) int64 { return life{Job: &l.Job}.when().From }
	return cmp.Or(strings.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart),
		cmp.Compare(start(&a), start(&b)))
}
