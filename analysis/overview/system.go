// Package overview reads the data of the whole machine: for a report of a time from the archive, and for frames of the
// newest intervals from the topics.
package overview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// Ask is a question about the whole machine.
type Ask struct {
	Dir             string
	From, To        time.Time        // zero: the archive's last thirty days
	machine.Options                  // without its times
	Set             *rules.Set       // its rules are properties; nil: none
	Now             func() time.Time // nil: the clock
}

// errEmptyArchive is returned if the archive contains no date.
var errEmptyArchive = errors.New("the archive has no date")

// defaultSpan is the length of a report without given times.
const defaultSpan = 30 * 24 * time.Hour

// Load reads the data of a report of the machine, from the archive alone.
func Load(ctx context.Context, cfg config.Config, a Ask) (*machine.Report, error) {
	if err := a.setSpan(); err != nil {
		return nil, err
	}
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		return nil, err
	}
	in := &machine.Input{Options: a.Options}
	in.MachineHour, in.MachineGPUs = machineCores(cfg.Machine), machineGPUs(cfg.Machine)
	if a.Set != nil {
		for i := range a.Set.Rules {
			r := &a.Set.Rules[i]
			in.Rules = append(in.Rules, machine.Rule{ID: r.ID, Title: r.Title, Needs: r.Needs})
		}
	}
	first, last := archive.DateAt(a.FromMs), archive.DateAt(a.ToMs-1)
	of, err := a.jobs(ctx, first, last, types)
	if err == nil {
		err = a.totals(ctx, first, last, in.Rules, of)
	}
	if err == nil && a.Set != nil {
		in.Found, in.Judged, err = a.findings(ctx, of)
	}
	if err != nil {
		return nil, err
	}
	for _, namesakes := range of {
		for _, j := range namesakes {
			in.Jobs = append(in.Jobs, *j.Of)
		}
	}
	if in.Hours, err = a.hours(ctx, first, last, "cpu_idle"); err != nil {
		return nil, err
	}
	if in.GPUHours, err = a.gpuHours(ctx, first, last); err != nil {
		return nil, err
	}
	if in.Energy, err = a.energy(ctx, first, last); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(cfg.Machine, func(t config.NodeType) bool { return t.ThreadsPerCore > 1 }) {
		in.Held, err = a.held(ctx, first, last, types.Threads)
	}
	return machine.Compute(in), err
}

// setSpan sets the times of the report, in whole hours like the core-hours of the archive. Time before the archive's
// first date or in the future does not count as missed.
func (a *Ask) setSpan() error {
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	oldest, newest, err := endsOf(a.Dir)
	if err != nil {
		return err
	}
	if a.To.IsZero() {
		a.To = newest.AddDate(0, 0, 1)
	}
	if a.From.IsZero() {
		if a.From = a.To.Add(-defaultSpan); a.From.Before(oldest) && oldest.Before(a.To) {
			a.From = oldest
		}
	}
	if !a.From.Before(a.To) {
		return fmt.Errorf("--from %s must be before --to %s", a.From.UTC().Format(time.RFC3339),
			a.To.UTC().Format(time.RFC3339))
	}
	a.FromMs = a.From.Truncate(time.Hour).UnixMilli()
	a.ToMs = min(a.To.Add(time.Hour-1).Truncate(time.Hour).UnixMilli(), max(now().UnixMilli(), a.FromMs+1))
	return nil
}

// endsOf are the oldest and the newest date of the summaries and the jobs.
func endsOf(dir string) (oldest, newest time.Time, err error) {
	for _, table := range []string{"jobs", "summaries"} {
		first, last, err := archive.Ends(dir, table)
		if err != nil {
			return oldest, newest, err
		}
		if at, err := time.Parse(time.DateOnly, first); err == nil && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
		if at, err := time.Parse(time.DateOnly, last); err == nil && at.After(newest) {
			newest = at
		}
	}
	if newest.IsZero() {
		err = fmt.Errorf("%w: %s: set sink.dir, or --dir, to the sink's directory", errEmptyArchive, dir)
	}
	return oldest, newest, err
}

// machineGPUs returns the GPUs of the machine, or 0 if the nodes or the GPUs of a type are not configured.
func machineGPUs(types []config.NodeType) (gpus float64) {
	for _, t := range types {
		nodes, err := topology.ExpandHosts(t.Nodes)
		if err != nil || len(nodes) == 0 || t.GPUs == nil {
			return 0
		}
		gpus += float64(len(nodes) * *t.GPUs)
	}
	return gpus
}

// machineCores returns the logical CPUs of the machine, or 0 if the nodes or the CPUs of a type are not configured.
func machineCores(types []config.NodeType) (cores float64) {
	for _, t := range types {
		nodes, err := topology.ExpandHosts(t.Nodes)
		if err != nil || len(nodes) == 0 || t.CPUs <= 0 {
			return 0
		}
		cores += float64(len(nodes) * t.CPUs)
	}
	return cores
}

func (a *Ask) jobs(ctx context.Context, first, last string, types *nodetypes.Types) (
	archive.Timeline[*machine.Job], error,
) {
	of := archive.Timeline[*machine.Job]{}
	return of, archive.EachJob(ctx, a.Dir, first, last, func(r *jobs.Row) error {
		if r.End < a.FromMs || r.End >= a.ToMs {
			return nil
		}
		j := &machine.Job{
			JobKey: archive.KeyOf(r),
			User:   r.User, Account: r.Account, Queue: r.Queue,
			StartMs: -1, EndMs: r.End, Type: types.Of(r.Nodes), Means: map[string]machine.Mean{},
		}
		if r.Cores != nil {
			j.Cores = *r.Cores
		}
		if r.Gpus != nil {
			j.GPUs = int64(*r.Gpus)
		}
		if r.Start != nil {
			j.StartMs = *r.Start
		}
		of.Add(j.JobKey, r.Life(), j)
		return nil
	})
}

// totals reads the means of the metrics that figures and rules need.
func (a *Ask) totals(
	ctx context.Context, first, last string, props []machine.Rule, of archive.Timeline[*machine.Job],
) error {
	metrics := machine.Metrics()
	for _, r := range props {
		metrics = append(metrics, r.Needs...)
	}
	slices.Sort(metrics)
	metrics = slices.Compact(metrics)
	return archive.EachTotal(ctx, a.Dir, first, last, metrics, func(t *totals.Total) error {
		j, is := of.OfTotal(t)
		if !is || t.Metric == nil || t.Mean == nil || t.NodesReportedSum == 0 {
			return nil
		}
		j.Means[*t.Metric] = machine.Mean{Mean: *t.Mean, PerNode: float64(t.Count) / float64(t.NodesReportedSum)}
		return nil
	})
}

// findings reads the certain findings that held to the end of their jobs, and reports whether the archive contains any
// finding. A finding is filed under the date of the last interval that a rule looked at, which may be any date of the
// job's life.
func (a *Ask) findings(ctx context.Context, of archive.Timeline[*machine.Job]) (
	found []machine.Found, judged bool, err error,
) {
	_, newest, err := archive.Ends(a.Dir, "findings")
	if err != nil || newest == "" {
		return nil, false, err
	}
	from, to := a.FromMs, a.ToMs+24*3_600_000 // an interval may end after the job
	for _, namesakes := range of {
		for _, j := range namesakes {
			if at := j.Of.StartMs; at >= 0 { // without a start it does not count
				from = min(from, at)
			}
		}
	}
	err = archive.EachFinding(ctx, a.Dir, archive.DateAt(from), archive.DateAt(to), "", func(f *schemas.Finding) error {
		j, is := of.At(f.Job(), f.AsOf)
		if !is || f.Certainty != schemas.Certain || f.State != schemas.FindingOpen {
			return nil
		}
		found = append(found, machine.Found{
			JobKey: j.JobKey, StartMs: j.StartMs, Rule: f.Rule, Severity: f.Severity,
		})
		return nil
	})
	return found, true, err
}

// hours reads the hours of the whole machine and of its part outside of jobs. The mean of the metric is the idle share.
func (a *Ask) hours(ctx context.Context, first, last, metric string) (all []machine.Hour, err error) {
	read, err := archive.Spans(ctx, a.Dir, first, last, metric, schemas.JobSystem, schemas.JobRest)
	for _, h := range read {
		if at := h.Start.UnixMilli(); at >= a.FromMs && at < a.ToMs {
			all = append(all, machine.Hour{
				StartMs: at, Rest: h.Job == schemas.JobRest, Hours: h.Hours, IdleCoreHours: h.Hours * h.Mean,
			})
		}
	}
	return all, err
}

// gpuHours is hours for GPUs.
func (a *Ask) gpuHours(ctx context.Context, first, last string) ([]machine.Hour, error) {
	all, err := a.hours(ctx, first, last, "acc_utilization")
	for i := range all { // the metric is the busy share
		all[i].IdleCoreHours = max(0, all[i].Hours-all[i].IdleCoreHours)
	}
	return all, err
}

// energy reads the energy of the whole machine. If the power of nodes was not measured, it is that of their parts.
func (a *Ask) energy(ctx context.Context, first, last string) (machine.Energy, error) {
	var e view.Energy
	for _, metric := range view.PowerMetrics() {
		read, err := archive.Spans(ctx, a.Dir, first, last, metric, schemas.JobSystem)
		if err != nil {
			return machine.Energy{}, err
		}
		for _, h := range read {
			if at := h.Start.UnixMilli(); at >= a.FromMs && at < a.ToMs {
				e.Add(metric, h.Mean, 1, 3600*h.Hours)
			}
		}
		if _, of, ok := e.Joules(); ok && of == "nodes" {
			break
		}
	}
	joules, of, _ := e.Joules()
	return machine.Energy{Joules: joules, Of: of}, nil
}

// held reads the activity of each job's cores on each date. It takes longer than hours, and only idle threads need it.
// The nodes of a job are known once it has ended.
func (a *Ask) held(
	ctx context.Context, first, last string, threads func([]string) int,
) (all []machine.Held, err error) {
	of := archive.Timeline[int]{}
	err = archive.EachJob(ctx, a.Dir, first, "", func(r *jobs.Row) error {
		of.Add(archive.KeyOf(r), r.Life(), threads(r.Nodes))
		return nil
	})
	if err != nil {
		return nil, err
	}
	read, err := archive.Spans(ctx, a.Dir, first, last, "cpu_idle")
	type day struct {
		schemas.JobKey
		date string
	}
	at := map[day]int{} // in all
	for _, h := range read {
		ms, key := h.Start.UnixMilli(), schemas.JobKey{JobID: h.Job, Restart: h.Restart}
		if ms < a.FromMs || ms >= a.ToMs || h.Job == schemas.JobSystem || h.Job == schemas.JobRest {
			continue
		}
		n, known := of.At(key, ms)
		if !known {
			n = threads(nil)
		}
		d := day{key, archive.DateAt(ms)}
		i, has := at[d]
		if !has {
			i, all = len(all), append(all, machine.Held{StartMs: ms, Threads: n})
			at[d] = i
		}
		all[i].Hours += h.Hours
		all[i].IdleCoreHours += h.Hours * h.Mean
	}
	return all, err
}
