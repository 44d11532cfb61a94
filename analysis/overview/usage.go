package overview

import (
	"context"
	"slices"
	"time"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/usage"
	"github.com/weirhpc/weir/report/view"
)

// UsageAsk is a question about the jobs of a user or an account that ended in a month.
type UsageAsk struct {
	Dir        string
	Kind, Name string                  // usage.User or usage.Account
	Month      time.Time               // the first moment of a month in UTC
	Now        time.Time               // of the clock
	May        func(*schemas.Job) bool // analysis.Viewer.May: no other job counts
}

// Usage reads the data of a month of a user or an account, and of the months before: jobs, totals and findings of the
// archive alone.
func Usage(ctx context.Context, cfg config.Config, a UsageAsk) (*usage.Report, error) {
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		return nil, err
	}
	in := &usage.Input{Kind: a.Kind, Name: a.Name, Month: a.Month}
	from, to := a.Month.AddDate(0, -usage.MonthsBefore, 0), a.Month.AddDate(0, 1, 0)
	if a.Now.Before(to) {
		in.Until = a.Now
	}
	if _, newest, err := archive.Ends(a.Dir, "jobs"); err != nil {
		return nil, err
	} else if newest != "" {
		in.Newest, _ = time.Parse(time.DateOnly, newest)
	}
	first, last := archive.DateAt(from.UnixMilli()), archive.DateAt(to.UnixMilli()-1)
	of := archive.Timeline[*usage.Job]{}
	var all []*usage.Job
	err = archive.EachJob(ctx, a.Dir, first, last, func(r *jobs.Row) error {
		j := archive.JobOf(r)
		if !a.asks(j) {
			return nil
		}
		one := &usage.Job{JobLine: view.JobLine{Job: *j, Cluster: r.Cluster}}
		if j.Start != nil && *j.Start > 0 {
			one.TimeS = float64(max(0, r.End-*j.Start)) / 1000
		}
		of.Add(archive.KeyOf(r), r.Life(), one)
		all = append(all, one)
		return nil
	})
	if err == nil {
		err = usageTotals(ctx, a.Dir, first, last, of, types)
	}
	if err == nil {
		in.Judged, err = usageFindings(ctx, a.Dir, of, all, to)
	}
	for _, j := range all {
		in.Jobs = append(in.Jobs, *j)
	}
	return usage.Compute(in), err
}

// asks reports whether the question is about a job.
func (a *UsageAsk) asks(j *schemas.Job) bool {
	owner := j.User
	if a.Kind == usage.Account {
		owner = j.Account
	}
	return owner == a.Name && a.May(j)
}

// usageTotals reads the use and the power of the jobs.
func usageTotals(ctx context.Context, dir, first, last string, of archive.Timeline[*usage.Job],
	types *nodetypes.Types,
) error {
	if len(of) == 0 {
		return nil
	}
	metrics := append([]string{"cpu_idle", "acc_utilization"}, view.PowerMetrics()...)
	columns := []string{
		"job_id", "restart", "metric", "start", "end", "intervals_measured", "measured_s", "count", "mean",
	}
	return archive.EachTotalOf(ctx, dir, first, last, metrics, columns, func(t *totals.Total) error {
		j, is := of.OfTotal(t)
		if !is || t.Metric == nil || t.Mean == nil || t.IntervalsMeasured == 0 {
			return nil
		}
		interval := t.MeasuredS / float64(t.IntervalsMeasured)
		switch *t.Metric {
		case "cpu_idle":
			j.CoresMeasuredH = float64(t.Count) * interval / 3600
		case "acc_utilization":
			j.GPUsMeasuredH = float64(t.Count) * interval / 3600
		}
		j.Take(*t.Metric, t.Mean, [11]*float64{}, types.Of(j.Nodes))
		j.Waste(*t.Metric, t.Count, interval)
		j.Energy.Add(*t.Metric, *t.Mean, t.Count, interval)
		return nil
	})
}

// usageFindings reads the certain findings that held to the end of the jobs, and reports whether the archive contains
// any finding.
func usageFindings(ctx context.Context, dir string, of archive.Timeline[*usage.Job], all []*usage.Job, to time.Time) (
	judged bool, err error,
) {
	_, newest, err := archive.Ends(dir, "findings")
	if err != nil || newest == "" || len(all) == 0 {
		return newest != "", err
	}
	from := to.UnixMilli()
	for _, j := range all {
		began := *j.End
		if j.Start != nil && *j.Start > 0 {
			began = *j.Start
		}
		from = min(from, began)
	}
	last := archive.DateAt(to.UnixMilli() + 24*3_600_000) // an interval may end after the job
	return true, archive.EachFinding(ctx, dir, archive.DateAt(from), last, "", func(f *schemas.Finding) error {
		j, is := of.At(f.Job(), f.AsOf)
		if is && f.Certainty == schemas.Certain && f.State == schemas.FindingOpen &&
			!slices.ContainsFunc(j.Findings, func(o schemas.Finding) bool { return o.Rule == f.Rule }) {
			j.Findings = append(j.Findings, *f)
		}
		return nil
	})
}
