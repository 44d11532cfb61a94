package analysis

import (
	"context"
	"time"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"
)

// EachInterval calls fn with every interval of lives of jobs in the archive in dir. One job comes after the other, in
// the order of its intervals. An interval has those of the metrics that were measured in it, and is valid until fn
// returns. The lock of the archive is held meanwhile.
func EachInterval(ctx context.Context, cfg config.Config, dir string, keys []schemas.JobKey, metrics []string,
	fn func(rules.Job, *rules.Interval) error,
) error {
	if dir == "" {
		dir = cfg.Sink.Dir
	}
	types, err := rules.NewTypes(cfg.Machine)
	if err != nil {
		return err
	}
	lives, first, last, err := livesOf(ctx, dir, keys)
	if err != nil {
		return err
	}
	wanted, among := map[schemas.JobKey]bool{}, map[string]bool{}
	for _, k := range keys {
		wanted[k] = true
	}
	for _, m := range metrics {
		among[m] = true
	}
	q := archive.Query{First: first, Last: last, Jobs: wanted}
	if len(keys) == 1 {
		q.Job = keys[0].JobID
	}
	return sink.Reading(ctx, dir, func() error {
		x, err := archive.Open(ctx, dir, q)
		if err != nil {
			return err
		}
		defer x.Close()
		for _, k := range keys {
			job := rules.Job{
				Key: k, Cluster: cfg.Cluster, StartMs: -1, EndMs: -1, LimitS: -1, MemRequested: -1, Cores: -1, Gpus: -1,
			}
			if row := lives[k]; row != nil {
				job = rules.JobOf(row.Cluster, jobOf(row), types)
			}
			if err := eachOf(ctx, x, job, among, cfg.Find.Possible, fn); err != nil {
				return err
			}
		}
		return nil
	})
}

// livesOf returns the jobs of the archive with these keys, and the dates that may have their summaries.
func livesOf(ctx context.Context, dir string, keys []schemas.JobKey,
) (found map[schemas.JobKey]*jobs.Row, first, last string, err error) {
	wanted := map[schemas.JobKey]bool{}
	for _, k := range keys {
		wanted[k] = true
	}
	found = map[schemas.JobKey]*jobs.Row{}
	var lives []archive.Life
	err = archive.EachJob(ctx, dir, "", "", func(r *jobs.Row) error {
		k := schemas.JobKey{JobID: r.JobID, Restart: r.Restart}
		if !wanted[k] {
			return nil
		}
		row := *r
		found[k] = &row
		life := archive.Life{Restart: r.Restart, End: time.UnixMilli(r.End)}
		if r.Start != nil && *r.Start > 0 {
			start := time.UnixMilli(*r.Start)
			life.Start = &start
		}
		lives = append(lives, life)
		return nil
	})
	if len(found) == len(wanted) {
		first, last = archive.Dates(lives, time.Now())
	}
	return found, first, last, err
}

// eachOf calls fn with every interval of a life, date by date. The rows of a date are in memory.
func eachOf(ctx context.Context, x *archive.Index, job rules.Job, among map[string]bool, possible bool,
	fn func(rules.Job, *rules.Interval) error,
) error {
	var iv rules.Interval
	for _, date := range x.Dates(job.Key) {
		of := map[int64][]schemas.Row{}
		err := x.Rows(ctx, job.Key, func(w archive.Wanted) archive.Columns {
			switch {
			case w.Date != date:
				return archive.None
			case among[w.Metric]:
				return archive.Plain
			}
			return archive.Bare // other metrics tell which intervals there are
		}, func(rows []schemas.Row) error {
			for i := range rows {
				at := rows[i].IntervalStart
				if sane(&rows[i]) && (rows[i].Metric != nil || len(of[at]) == 0) {
					of[at] = append(of[at], rows[i])
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, start := range sortedKeys(of) {
			rules.FromRows(of[start], possible, &iv)
			if err := fn(job, &iv); err != nil {
				return err
			}
		}
	}
	return nil
}

// History evaluates rules over the jobs of the archive in dir that ended since a time. It calls fn with the final
// findings of each job. The jobs come by the date of their end. It finds what the service finds that watches them live.
func History(ctx context.Context, cfg config.Config, dir string, set *rules.Set, since time.Time,
	fn func(rules.Job, []schemas.Finding) error,
) (judged int, err error) {
	if dir == "" {
		dir = cfg.Sink.Dir
	}
	var keys []schemas.JobKey
	err = archive.EachJob(ctx, dir, since.UTC().Format(time.DateOnly), "", func(r *jobs.Row) error {
		if r.End >= since.UnixMilli() {
			keys = append(keys, schemas.JobKey{JobID: r.JobID, Restart: r.Restart})
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	metrics := map[string]bool{}
	for i := range set.Rules {
		for _, m := range set.Rules[i].Reads() {
			metrics[m] = true
		}
	}
	h := historian{set: set, possible: cfg.Find.Possible, fn: fn}
	for from := 0; from < len(keys); from += historyJobs {
		err := EachInterval(ctx, cfg, dir, keys[from:min(len(keys), from+historyJobs)], sortedKeys(metrics), h.add)
		if err != nil {
			return h.judged, err
		}
	}
	return h.judged, h.end()
}

// historyJobs is how many jobs are looked for at a time. Where their rows lie is in memory.
const historyJobs = 5000

// historian watches one job after the other.
type historian struct {
	set      *rules.Set
	possible bool
	fn       func(rules.Job, []schemas.Finding) error
	job      rules.Job
	watch    *rules.Watch
	judged   int
}

func (h *historian) add(j rules.Job, iv *rules.Interval) error {
	if h.watch == nil || h.job.Key != j.Key {
		if err := h.end(); err != nil {
			return err
		}
		h.job, h.watch = j, h.set.NewWatch(j, h.possible)
	}
	if h.watch.Add(iv) {
		h.watch.Due(nil) // what was written on the way; the final ones follow
	}
	return nil
}

// end gives away the final findings of the job that is watched.
func (h *historian) end() error {
	if h.watch == nil {
		return nil
	}
	found := h.watch.End(nil)
	h.watch = nil
	h.judged++
	return h.fn(h.job, found)
}
