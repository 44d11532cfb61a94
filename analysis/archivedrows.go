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
)

// gapsAmong is the factor by which the archive is read further back than the last intervals need, since some may be
// missing.
const gapsAmong = 4

// archivedRows returns rows of one life. lives are all lives of the job, and of is the span of this one: rows outside
// it may belong to namesakes.
func archivedRows(ctx context.Context, key schemas.JobKey, lives []archive.Life, of span, a Ask, n int) (
	rows []schemas.Row, err error,
) {
	q := archive.Query{Job: key.JobID}
	if a.Metrics != nil && !slices.Contains(a.Metrics, AllMetrics) {
		q.Metric = func(name string) bool { return slices.Contains(a.Metrics, name) }
	}
	q.First, q.Last = archive.Dates(lives, time.Now())
	err = sink.Reading(ctx, a.Dir, func() error {
		rows, err = readRows(ctx, a, q, key, of, n)
		return err
	})
	if err == nil && len(rows) == 0 {
		of := ""
		if q.Metric != nil {
			of = " with metric " + strings.Join(a.Metrics, ", ")
		}
		err = fmt.Errorf("%w%s there: %s in the archive %s", ErrNoInterval, of, key.JobID, a.Dir)
	}
	return rows, err
}

// readRows reads the rows. The caller holds the lock of the archive.
func readRows(ctx context.Context, a Ask, q archive.Query, key schemas.JobKey, of span, n int) (
	rows []schemas.Row, err error,
) {
	x, err := archive.Open(ctx, a.Dir, q)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	_, lastMs, intervalMs, err := x.Extent(key)
	if err != nil {
		return nil, err
	}
	fromMs, toMs := of.from, of.to
	if !a.To.IsZero() {
		toMs = min(toMs, a.To.UnixMilli())
	}
	if !a.From.IsZero() {
		fromMs = max(fromMs, a.From.UnixMilli())
	} else if n > 0 {
		fromMs = max(fromMs, min(lastMs, toMs)-gapsAmong*int64(n)*intervalMs)
	}
	plain := func(archive.Wanted) archive.Columns { return archive.Plain }
	err = x.Rows(ctx, key, plain, func(some []schemas.Row) error {
		for i := range some {
			if at := some[i].IntervalStart; fromMs <= at && at < toMs {
				rows = append(rows, some[i])
			}
		}
		return nil
	})
	slices.SortStableFunc(rows, func(a, b schemas.Row) int {
		return cmp.Or(cmp.Compare(a.IntervalStart, b.IntervalStart),
			cmp.Compare(archive.MetricOf(a), archive.MetricOf(b)))
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
