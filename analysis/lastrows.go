package analysis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/table"
)

// LastRows returns rows of the last intervals of a job in the topic, as topics.Job does, without rows of its namesakes.
// If there are fewer intervals, why is the reason.
func (s *Sources) LastRows(ctx context.Context, name string, intervals int) (
	rows []schemas.Row, why string, err error,
) {
	id, mine, err := s.job(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if len(mine) == 0 && !s.viewer.All {
		return nil, "", fmt.Errorf("%w: %s", ErrNoJob, id)
	}
	known, of := map[schemas.JobKey]*schemas.Job{}, Lives{mine: mine, all: s.lives[id]}
	for _, l := range mine {
		known[l.Identity()] = l.Job
	}
	records := func(context.Context) (map[schemas.JobKey]*schemas.Job, error) { return known, nil }
	return s.reader().NewestRows(ctx, id, intervals, func(m *schemas.JobSummary) bool {
		j := known[schemas.JobKey{JobID: id, Restart: m.Restart}]
		return of.Has(m.Restart, m.IntervalStart) && s.viewer.MayAt(j, m.IntervalStart+m.IntervalMs-1)
	}, records)
}

// gapsAmong is the factor by which the archive is read further back than the last intervals need, since some may be
// missing.
const gapsAmong = 4

// ArchivedRows returns rows of a life of a job in the archive, by interval and metric. They are the rows of the last n
// intervals before a.To and from a.From on, if these are set, or of all such intervals if n is 0. The error is
// ErrNoInterval if the archive contains no interval of the job.
func (s *Sources) ArchivedRows(ctx context.Context, name string, a Ask, n int) (rows []schemas.Row, err error) {
	c, err := s.life(ctx, name, a.Restart)
	if err != nil {
		return nil, err
	}
	dir, q, with := s.cfg.Sink.Dir, archive.Query{Job: c.key.JobID}, ""
	if a.Metrics != nil && !slices.Contains(a.Metrics, AllMetrics) {
		q.Metric = func(name string) bool { return slices.Contains(a.Metrics, name) }
		with = " with metric " + strings.Join(a.Metrics, ", ")
	}
	var lives []table.Life
	for _, l := range c.known {
		lives = append(lives, l.when())
	}
	q.First, q.Last = archive.Dates(lives, time.Now())
	err = sink.Reading(ctx, dir, func() error {
		x, err := archive.Open(ctx, dir, q)
		if err != nil {
			return err
		}
		defer x.Close()
		rows, err = c.rows(ctx, x, a, n)
		return err
	})
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%w%s there: %s in the archive %s", ErrNoInterval, with, c.key.JobID, dir)
	}
	return rows, err
}

// rows reads the rows of the life.
func (c *chosen) rows(ctx context.Context, x *archive.Index, a Ask, n int) (rows []schemas.Row, err error) {
	_, lastMs, intervalMs, err := x.Extent(c.key)
	if err != nil {
		return nil, err
	}
	fromMs, toMs := c.span.from, c.span.to
	if !a.To.IsZero() {
		toMs = min(toMs, a.To.UnixMilli())
	}
	if !a.From.IsZero() {
		fromMs = max(fromMs, a.From.UnixMilli())
	} else if n > 0 {
		fromMs = max(fromMs, min(lastMs, toMs)-gapsAmong*int64(n)*intervalMs)
	}
	plain := func(archive.Wanted) archive.Columns { return archive.Plain }
	err = x.Rows(ctx, c.key, plain, func(some []schemas.Row) error {
		for i := range some {
			if at := some[i].IntervalStart; fromMs <= at && at < toMs {
				rows = append(rows, some[i])
			}
		}
		return nil
	})
	slices.SortStableFunc(rows, func(a, b schemas.Row) int {
		return cmp.Or(cmp.Compare(a.IntervalStart, b.IntervalStart),
			cmp.Compare(archive.MetricOf(&a), archive.MetricOf(&b)))
	})
	intervals := 0
	for i := len(rows) - 1; i >= 0 && n > 0; i-- {
		if i == len(rows)-1 || rows[i].IntervalStart != rows[i+1].IntervalStart {
			if intervals++; intervals > n {
				return rows[i+1:], err
			}
		}
	}
	return rows, err
}
