package archive

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/table"
)

// Life is a restart of a job that has ended.
type Life struct {
	Cluster string
	Restart int32
	Start   *time.Time // nil if the scheduler does not report it
	End     time.Time
}

// time returns the life in milliseconds.
func (l Life) time() table.Life {
	to := l.End.UnixMilli()
	if l.Start == nil {
		return table.Life{From: to - 1, To: to}
	}
	return table.Life{From: l.Start.UnixMilli(), To: to}
}

// point is a metric of a job in an interval.
type point struct {
	Cluster  string
	Restart  int32
	Interval time.Time
	Values   []*float64 // of the requested columns; nil if there is none
}

// Lives returns the lives of a job in the archive in dir, the first one first.
func Lives(ctx context.Context, dir, job string) ([]Life, error) {
	return collect(ctx, dir, "jobs", "", "", func(f *file) (lives []Life, err error) {
		err = f.rows(job, "", []string{"cluster", "restart", "start", "end"}, func(v []parquet.Value) {
			l := Life{Cluster: v[0].Clone().String(), Restart: v[1].Int32(), End: utc(v[3])}
			if !v[2].IsNull() {
				start := utc(v[2])
				l.Start = &start
			}
			lives = append(lives, l)
		})
		return lives, err
	}, func(a, b Life) int { return cmp.Or(a.End.Compare(b.End), cmp.Compare(a.Restart, b.Restart)) })
}

// series returns columns of a metric of a job, interval by interval. It reads the dates that the job's lives name.
func series(ctx context.Context, dir, job, metric string, columns ...string) ([]point, error) {
	lives, err := Lives(ctx, dir, job)
	if err != nil {
		return nil, err
	}
	var times []table.Life
	for _, l := range lives {
		times = append(times, l.time())
	}
	first, last := Dates(times, time.Now())
	want := append([]string{"cluster", "restart", "interval_start"}, columns...)
	return collect(ctx, dir, "summaries", first, last, func(f *file) (points []point, err error) {
		err = f.rows(job, metric, want, func(v []parquet.Value) {
			p := point{Cluster: v[0].Clone().String(), Restart: v[1].Int32(), Interval: utc(v[2])}
			for _, v := range v[3:] {
				p.Values = append(p.Values, number(v))
			}
			points = append(points, p)
		})
		return points, err
	}, func(a, b point) int {
		return cmp.Or(a.Interval.Compare(b.Interval), strings.Compare(a.Cluster, b.Cluster),
			cmp.Compare(a.Restart, b.Restart))
	})
}

// utc returns a time of a column, which is in milliseconds.
func utc(v parquet.Value) time.Time { return time.UnixMilli(v.Int64()).UTC() }

func number(v parquet.Value) *float64 {
	var n float64
	switch v.Kind() {
	case parquet.Double:
		n = v.Double()
	case parquet.Int32:
		n = float64(v.Int32())
	case parquet.Int64:
		n = float64(v.Int64())
	default:
		return nil
	}
	return &n
}

// collect reads the files of a table from one date to another under the lock, and sorts the results.
func collect[T any](ctx context.Context, dir, table, first, last string, read func(*file) ([]T, error),
	compare func(a, b T) int,
) (all []T, err error) {
	err = sink.Reading(ctx, dir, func() error {
		paths, err := filesOf(dir, table, first, last)
		if err != nil {
			return err
		}
		found, err := parallel(ctx, paths, read)
		all = slices.Concat(found...)
		return err
	})
	slices.SortFunc(all, compare)
	return all, err
}
