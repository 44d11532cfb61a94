package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"runtime"
	"slices"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"
)

// EachJob calls fn with every job that ended from one date to another, in the order of dates and files. It takes the
// lock of the archive.
func EachJob(ctx context.Context, dir, from, to string, fn func(*jobs.Row) error) error {
	return each(ctx, dir, "jobs", from, to, nil, every, fn)
}

// EachNamed calls fn with every life of the jobs with these IDs, and of the tasks of the arrays with these IDs, of any
// date. It opens each file of the table, and reads only pages that may hold such an ID by their bounds.
func EachNamed(ctx context.Context, dir string, ids []string, fn func(*jobs.Row) error) error {
	return each(ctx, dir, "jobs", "", "", nil, named(ids), fn)
}

// EachTotal calls fn with the totals of the jobs that ended from one date to another. They are of some metrics, or of
// all if none is named. Bounds of the deciles, which are lists, are left out.
func EachTotal(ctx context.Context, dir, from, to string, metrics []string, fn func(*totals.Total) error) error {
	return EachTotalOf(ctx, dir, from, to, metrics, nil, fn)
}

// EachTotalOf is EachTotal for some columns. The others are empty.
func EachTotalOf(ctx context.Context, dir, from, to string, metrics, columns []string,
	fn func(*totals.Total) error,
) error {
	only := columnsOf[totals.Total](columns)
	if columns == nil {
		only = slices.DeleteFunc(only, func(c column) bool { return c.name == "lo" || c.name == "hi" })
	}
	choose := every
	if len(metrics) > 0 {
		choose = ofMetrics(metrics)
	}
	return each(ctx, dir, "job_totals", from, to, only, choose, fn)
}

// Totals returns the totals of a life of a job that ended from one date to another, with their bounds.
func Totals(ctx context.Context, dir, from, to string, key schemas.JobKey) (all []totals.Total, err error) {
	err = each(ctx, dir, "job_totals", from, to, nil, ofJob(key.JobID), func(t *totals.Total) error {
		if t.Restart == key.Restart {
			all = append(all, *t)
		}
		return nil
	})
	return all, err
}

// Hours are the rollups of a life of a job.
type Hours struct {
	Of []compact.Rollup
	// Has names the small files that the rollups of a date cover. Each date in it has rollups.
	Has map[string]map[string]bool
}

// HoursOf returns the rollups of a life on the dates from one to another. The caller holds the lock of the archive. Of
// some metrics they have no certified summaries.
func HoursOf(ctx context.Context, dir, from, to string, key schemas.JobKey,
	want func(metric string) (rows, certified bool),
) (h Hours, err error) {
	h.Has = map[string]map[string]bool{}
	plain, all := withoutCertified[compact.Rollup](), columnsOf[compact.Rollup](nil)
	paths, err := filesOf(dir, "rollups", from, to)
	if err != nil {
		return h, err
	}
	type part struct {
		hours []compact.Rollup
		has   map[string]bool
	}
	parts, err := parallel(ctx, paths, func(f *file) (p part, err error) {
		if p.has, err = f.inputs(); err != nil {
			return p, err
		}
		q := Query{Job: key.JobID, Metric: func(m string) bool { rows, _ := want(m); return rows }}
		for _, g := range f.RowGroups() {
			pieces, err := f.pieces(g, &q)
			if err != nil {
				return p, err
			}
			for _, c := range pieces {
				if c.restart != key.Restart {
					continue
				}
				columns := plain
				if _, certified := want(c.metric); certified {
					columns = all
				}
				rows, err := readTable[compact.Rollup](f, g, []span{c.span}, columns, newSlab())
				if err != nil {
					return p, err
				}
				p.hours = append(p.hours, rows...)
			}
		}
		return p, nil
	})
	for i, p := range parts {
		h.Of = append(h.Of, p.hours...)
		h.Has[dateOf(paths[i])] = p.has
	}
	return h, err
}

// inputs returns the names of the small files that rollups were made of.
func (f *file) inputs() (map[string]bool, error) {
	text, _ := f.Lookup("weir.inputs")
	var names []string
	if text != "" {
		if err := json.Unmarshal([]byte(text), &names); err != nil {
			return nil, err
		}
	}
	has := map[string]bool{}
	for _, n := range names {
		has[n] = true
	}
	return has, nil
}

// chooser returns the rows of a row group that are wanted.
type chooser func(f *file, g parquet.RowGroup) ([]span, error)

func every(_ *file, g parquet.RowGroup) ([]span, error) { return []span{{0, g.NumRows()}}, nil }

func ofJob(job string) chooser {
	return func(f *file, g parquet.RowGroup) ([]span, error) { return f.find(g, job, "") }
}

// named chooses the rows of jobs and arrays, each once.
func named(ids []string) chooser {
	return func(f *file, g parquet.RowGroup) (spans []span, err error) {
		all := []span{{0, g.NumRows()}}
		for _, name := range []string{"job_id", "array_job"} {
			chunk := f.chunk(g, name)
			for _, id := range ids {
				found, err := find(chunk, g.NumRows(), all, parquet.ByteArrayValue([]byte(id)))
				if err != nil {
					return nil, err
				}
				spans = append(spans, found...)
			}
		}
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		var once []span
		for _, s := range spans {
			if last := len(once) - 1; last >= 0 && s.from <= once[last].to {
				once[last].to = max(once[last].to, s.to)
			} else {
				once = append(once, s)
			}
		}
		return once, nil
	}
}

func ofMetrics(metrics []string) chooser {
	return func(f *file, g parquet.RowGroup) ([]span, error) {
		pieces, err := refine(f.chunk(g, "metric"), []piece{{span: span{0, g.NumRows()}}},
			func(p *piece, v parquet.Value) bool { return p.null == v.IsNull() && p.metric == string(v.ByteArray()) },
			func(p *piece, v parquet.Value) { p.null, p.metric = v.IsNull(), string(v.ByteArray()) })
		var spans []span
		for _, p := range pieces {
			if !p.null && slices.Contains(metrics, p.metric) {
				spans = append(spans, p.span)
			}
		}
		return spans, err
	}
}

// each reads the files of a table from one date to another side by side, and hands their rows on in order. only may be
// nil: all columns.
func each[R any](ctx context.Context, dir, table, from, to string, only []column, choose chooser,
	fn func(*R) error,
) error {
	if only == nil {
		only = columnsOf[R](nil)
	}
	return sink.Reading(ctx, dir, func() error {
		paths, err := filesOf(dir, table, from, to)
		if err != nil {
			return err
		}
		return inTurn(ctx, len(paths), func(i int) (rows []R, err error) {
			err = (&handle{path: paths[i]}).use(func(f *file) error {
				for _, g := range f.RowGroups() {
					spans, err := choose(f, g)
					if err != nil {
						return err
					}
					of, err := readTable[R](f, g, spans, only, newSlab())
					if err != nil {
						return err
					}
					rows = append(rows, of...)
				}
				return nil
			})
			return rows, err
		}, func(_ int, rows []R) error {
			for i := range rows {
				if err := fn(&rows[i]); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// parallel reads files side by side, and returns the result of each.
func parallel[T any](ctx context.Context, paths []string, read func(*file) (T, error)) ([]T, error) {
	found := make([]T, len(paths))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f, err := open(path)
			if err != nil {
				return err
			}
			defer f.close()
			return f.fault(f.guard(func() (err error) { found[i], err = read(f); return err }))
		})
	}
	return found, group.Wait()
}
