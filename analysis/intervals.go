package analysis

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/rules"
)

// History evaluates rules over the jobs of the archive in dir that ended since a time. It calls fn with the final
// findings of each job. The jobs come by the date of their end. They equal the findings of a service that watches the
// same jobs live. The lock of the archive is not held while rules and fn run.
func History(ctx context.Context, cfg config.Config, dir string, set *rules.Set, since time.Time,
	fn func(rules.Job, []schemas.Finding) error,
) (judged int, err error) {
	types, err := rules.NewTypes(cfg.Machine)
	if err != nil {
		return 0, err
	}
	h := historian{
		dir: cmp.Or(dir, cfg.Sink.Dir), set: set, possible: cfg.Find.Possible, fn: fn, reads: map[string]bool{},
	}
	for i := range set.Rules {
		for _, m := range set.Rules[i].Reads() {
			h.reads[m] = true
		}
	}
	dates, err := jobs.Dates(h.dir)
	if err != nil {
		return 0, err
	}
	var some []rules.Job
	for _, date := range dates {
		if date < archive.DateAt(since.UnixMilli()) {
			continue
		}
		err := archive.EachJob(ctx, h.dir, date, date, func(r *jobs.Row) error {
			if r.End >= since.UnixMilli() {
				some = append(some, rules.JobOf(r.Cluster, archive.JobOf(r), types))
			}
			return nil
		})
		if err != nil {
			return h.judged, err
		}
		for len(some) >= historyJobs {
			if err := h.jobs(ctx, some[:historyJobs]); err != nil {
				return h.judged, err
			}
			some = slices.Clone(some[historyJobs:])
		}
	}
	err = h.jobs(ctx, some)
	return h.judged, err
}

// historyJobs is the number of jobs that are located in the archive at a time. The positions of their rows are held in
// memory.
const historyJobs = 5000

// historian watches one job after the other.
type historian struct {
	dir      string
	set      *rules.Set
	possible bool
	reads    map[string]bool // metrics that rules name
	fn       func(rules.Job, []schemas.Finding) error
	judged   int
}

// jobs looks for the rows of some jobs, and watches them.
func (h *historian) jobs(ctx context.Context, some []rules.Job) error {
	if len(some) == 0 {
		return nil
	}
	q := archive.Query{Jobs: map[schemas.JobKey]bool{}}
	var lives []archive.Life
	for i := range some {
		q.Jobs[some[i].Key] = true
		life := archive.Life{End: time.UnixMilli(some[i].EndMs)}
		if some[i].StartMs > 0 {
			start := time.UnixMilli(some[i].StartMs)
			life.Start = &start
		}
		lives = append(lives, life)
	}
	q.First, q.Last = archive.Dates(lives, time.Now())
	if len(some) == 1 {
		q.Job = some[0].Key.JobID
	}
	var x *archive.Index
	err := sink.Reading(ctx, h.dir, func() (err error) { x, err = archive.Open(ctx, h.dir, q); return err })
	if err != nil {
		return err
	}
	defer x.Close()
	for i := range some {
		if err := h.life(ctx, x, some[i]); err != nil {
			return err
		}
	}
	return nil
}

// life watches every interval of a job, date by date, and passes its final findings to fn. A job without intervals is
// not counted.
func (h *historian) life(ctx context.Context, x *archive.Index, job rules.Job) error {
	dates := x.Dates(job.Key)
	if len(dates) == 0 {
		return nil
	}
	watch, some := h.set.NewWatch(job, h.possible), false
	var iv rules.Interval
	for _, date := range dates {
		of, err := h.date(ctx, x, job.Key, date)
		if err != nil {
			return err
		}
		for _, start := range sortedKeys(of) {
			if job.StartMs > 0 && start+of[start][0].IntervalMs <= job.StartMs || job.EndMs > 0 && start >= job.EndMs {
				continue // of a namesake
			}
			some = true
			rules.FromRows(of[start], h.possible, &iv)
			if watch.Add(&iv) {
				watch.Due(nil) // interim findings are discarded; the final ones follow
			}
		}
	}
	if !some {
		return nil
	}
	h.judged++
	return h.fn(job, watch.End(nil))
}

// date returns the rows of a job on a date, by interval. They are looked for again if the date was compacted meanwhile.
func (h *historian) date(ctx context.Context, x *archive.Index, key schemas.JobKey, date string,
) (map[int64][]schemas.Row, error) {
	of, err := h.rows(ctx, x, key, date)
	if !errors.Is(err, fs.ErrNotExist) {
		return of, err
	}
	err = sink.Reading(ctx, h.dir, func() error {
		anew, err := archive.Open(ctx, h.dir, archive.Query{First: date, Last: date, Job: key.JobID})
		if err != nil {
			return err
		}
		defer anew.Close()
		of, err = h.rows(ctx, anew, key, date)
		return err
	})
	return of, err
}

// rows returns the rows of a job on a date, by interval. If an interval lacks the metrics that rules name, one row of
// another metric still shows that it exists.
func (h *historian) rows(ctx context.Context, x *archive.Index, key schemas.JobKey, date string,
) (of map[int64][]schemas.Row, err error) {
	of = map[int64][]schemas.Row{}
	err = x.Rows(ctx, key, func(w archive.Wanted) archive.Columns {
		switch {
		case w.Date != date:
			return archive.None
		case h.reads[w.Metric]:
			return archive.Plain
		}
		return archive.Bare
	}, func(rows []schemas.Row) error {
		for i := range rows {
			at := rows[i].IntervalStart
			if archive.Sane(&rows[i]) && (rows[i].Metric != nil || len(of[at]) == 0) {
				of[at] = append(of[at], rows[i])
			}
		}
		return nil
	})
	return of, err
}
