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
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/table"

	"github.com/weirhpc/weir/rules"
)

// History evaluates rules over the jobs of the archive in dir that ended since a time, and that the viewer may see. It
// calls fn with the final findings of each job. The jobs come by the date of their end. They equal the findings of a
// service that watches the same jobs live. The lock of the archive is not held while rules and fn run.
func History(ctx context.Context, cfg config.Config, v Viewer, dir string, set *rules.Set, since time.Time,
	fn func(rules.Job, []schemas.Finding) error,
) (judged int, err error) {
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		return 0, err
	}
	h := historian{
		dir: cmp.Or(dir, cfg.Sink.Dir), set: set, possible: cfg.Find.Possible, fn: fn, reads: set.Reads(),
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
			if j := archive.JobOf(r); r.End >= since.UnixMilli() && v.May(j) {
				some = append(some, rules.JobOf(r.Cluster, j, types))
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
	var lives []table.Life
	for i := range some {
		q.Jobs[some[i].Key] = true
		lives = append(lives, lifeOf(&some[i]))
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

// lifeOf returns when a job of the archive ran.
func lifeOf(j *rules.Job) table.Life {
	if j.StartMs > 0 {
		return table.Life{From: j.StartMs, To: j.EndMs}
	}
	return table.Life{From: j.EndMs - 1, To: j.EndMs}
}

// life watches every interval of a job, date by date, and passes its final findings to fn. A job without intervals is
// not counted.
func (h *historian) life(ctx context.Context, x *archive.Index, job rules.Job) error {
	w := &watcher{
		job: func() rules.Job { return job }, possible: h.possible, set: h.set, reads: h.reads,
		of: map[int64]*rules.Interval{},
	}
	for _, date := range x.Dates(job.Key) {
		if err := h.date(ctx, x, w, &job, date); err != nil {
			return err
		}
		w.fold()
	}
	if w.came == 0 {
		return nil
	}
	h.judged++
	return h.fn(job, w.end(false))
}

// date hands the rows of a job on a date over. They are looked for again if the date was compacted meanwhile.
func (h *historian) date(ctx context.Context, x *archive.Index, w *watcher, job *rules.Job, date string) error {
	err := h.rows(ctx, x, w, job, date)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	clear(w.of)
	return sink.Reading(ctx, h.dir, func() error {
		anew, err := archive.Open(ctx, h.dir, archive.Query{First: date, Last: date, Job: job.Key.JobID})
		if err != nil {
			return err
		}
		defer anew.Close()
		return h.rows(ctx, anew, w, job, date)
	})
}

// rows hands the rows of a job on a date over, without rows of its namesakes. If an interval lacks the metrics that
// rules name, a row of another metric still shows that it exists.
func (h *historian) rows(ctx context.Context, x *archive.Index, w *watcher, job *rules.Job, date string) error {
	return x.Rows(ctx, job.Key, func(of archive.Wanted) archive.Columns {
		switch {
		case of.Date != date:
			return archive.None
		case h.reads[of.Metric]:
			return archive.Plain
		}
		return archive.Bare
	}, func(rows []schemas.Row) error {
		for i := range rows {
			r := &rows[i]
			if archive.Sane(r) && r.IntervalStart+r.IntervalMs > job.StartMs &&
				(job.EndMs <= 0 || r.IntervalStart < job.EndMs) {
				w.add(r, archive.MetricOf(r))
			}
		}
		return nil
	})
}
