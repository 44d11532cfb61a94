package archive

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/schemas"
)

// Query says which summaries are wanted. A bound that is empty is none.
type Query struct {
	First, Last string                       // dates
	Job         string                       // its id; empty: all jobs in Jobs
	Jobs        map[schemas.JobKey]bool      // nil: all
	Metric      func(name string) bool       // nil: all; a row without a metric is always wanted
	File        func(date, name string) bool // nil: all
}

// Index knows where the rows of jobs lie in the archive, so that each is read by column without looking for it again.
// The caller holds the lock of the archive from Open to Close.
type Index struct {
	files []*handle
	runs  map[schemas.JobKey][]run
}

// run is rows of one metric of a job that follow each other in a file, by interval.
type run struct {
	piece
	file  *handle
	group int
}

// piece is rows of a row group that have the same key.
type piece struct {
	span
	job     string
	restart int32
	metric  string
	null    bool // a row without a metric
}

// handle is a file that has rows of a job.
type handle struct {
	date, path string
	open       *file // nil: it is opened for each use
}

// keptOpen is how many files stay open. A process may have 1,024 of them.
const keptOpen = 400

// Open finds the rows of jobs in the dates of a query. Files of summaries are looked at side by side.
func Open(ctx context.Context, dir string, q Query) (*Index, error) {
	paths, err := filesOf(dir, "summaries", q.First, q.Last)
	if err != nil {
		return nil, err
	}
	x := &Index{runs: map[schemas.JobKey][]run{}}
	if q.File != nil {
		paths = slices.DeleteFunc(paths, func(p string) bool { return !q.File(dateOf(p), filepath.Base(p)) })
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	found := make([][]run, len(paths))
	var mu sync.Mutex
	kept := 0
	for i, path := range paths {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			f, err := open(path)
			if err != nil {
				return err
			}
			h := &handle{date: dateOf(path), path: path}
			if found[i], err = f.runs(h, &q); err != nil || len(found[i]) == 0 {
				f.close()
				return f.fault(err)
			}
			mu.Lock()
			defer mu.Unlock()
			x.files = append(x.files, h)
			if kept++; kept <= keptOpen {
				h.open = f
			} else {
				f.close()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		x.Close()
		return nil, err
	}
	for _, of := range found {
		for _, r := range of {
			key := schemas.JobKey{JobID: r.job, Restart: r.restart}
			x.runs[key] = append(x.runs[key], r)
		}
	}
	return x, nil
}

// dateOf returns the date whose directory has a file.
func dateOf(path string) string {
	return strings.TrimPrefix(filepath.Base(filepath.Dir(path)), "date=")
}

// Close closes the files.
func (x *Index) Close() {
	for _, h := range x.files {
		if h.open != nil {
			h.open.close()
		}
	}
}

// Jobs returns the lives that have rows, by id and restart.
func (x *Index) Jobs() (keys []schemas.JobKey) {
	for k := range x.runs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b schemas.JobKey) int {
		if a.JobID != b.JobID {
			return strings.Compare(a.JobID, b.JobID)
		}
		return int(a.Restart - b.Restart)
	})
	return keys
}

// Metrics returns the metrics that a life has rows of.
func (x *Index) Metrics(key schemas.JobKey) (names []string) {
	has := map[string]bool{}
	for _, r := range x.runs[key] {
		if !r.null && !has[r.metric] {
			has[r.metric] = true
			names = append(names, r.metric)
		}
	}
	slices.Sort(names)
	return names
}

// Dates returns the dates at which a life has rows, the first one first.
func (x *Index) Dates(key schemas.JobKey) (dates []string) {
	for _, r := range x.runs[key] {
		if len(dates) == 0 || dates[len(dates)-1] != r.file.date {
			dates = append(dates, r.file.date)
		}
	}
	slices.Sort(dates)
	return slices.Compact(dates)
}

// Extent returns when the first interval of a life begins and the last one ends, and how long one is: the shortest,
// should they differ. All are 0 without rows.
func (x *Index) Extent(key schemas.JobKey) (firstMs, lastMs, intervalMs int64, err error) {
	seen := map[string]string{} // the metric that is looked at, by file
	columns := columnsOf[schemas.Row]([]string{"interval_start", "interval_ms"})
	for _, r := range x.runs[key] {
		name, is := seen[r.file.path]
		if is && name != r.metric {
			continue
		}
		seen[r.file.path] = r.metric
		ends := []span{{r.from, r.from + 1}}
		if r.to-r.from > 1 {
			ends = append(ends, span{r.to - 1, r.to})
		}
		err := r.file.use(func(f *file) error {
			rows, err := readTable[schemas.Row](f, f.RowGroups()[r.group], ends, columns, newSlab())
			for i := range rows {
				at, length := rows[i].IntervalStart, rows[i].IntervalMs
				if intervalMs == 0 {
					firstMs, lastMs, intervalMs = at, at+length, length
				}
				firstMs, lastMs, intervalMs = min(firstMs, at), max(lastMs, at+length), min(intervalMs, length)
			}
			return err
		})
		if err != nil {
			return 0, 0, 0, err
		}
	}
	return firstMs, lastMs, intervalMs, nil
}

// use runs fn with the file open.
func (h *handle) use(fn func(*file) error) error {
	f := h.open
	if f == nil {
		var err error
		if f, err = open(h.path); err != nil {
			return err
		}
		defer f.close()
	}
	return f.fault(f.guard(func() error { return fn(f) }))
}

// withoutCertified returns the columns of a row but those of certified summaries.
func withoutCertified[R any]() []column {
	return slices.DeleteFunc(columnsOf[R](nil), func(c column) bool { return slices.Contains(certifiedColumns, c.name) })
}

// certifiedColumns are those of certified summaries, which are most of a row.
var certifiedColumns = []string{
	"eps", "order_statistics", "knot_values", "knot_ranks", "atom_values", "atom_counts",
}

// Wanted is rows that a reader may want. A row without a metric has an empty name.
type Wanted struct{ Metric, Date, File string }

// Columns say how much of a row is read.
type Columns int

// Columns of a row.
const (
	None      Columns = iota
	Bare              // of which interval it is, and how many nodes reported: no metric
	Plain             // all but the certified summary
	Certified         // all
)

// Rows hands the rows of a life on, each time of one metric in a file, in the order of their intervals. The files come
// in the order of their dates and names. The rows are read side by side, and fn is called by one goroutine at a time. It
// may keep them.
func (x *Index) Rows(ctx context.Context, key schemas.JobKey, want func(Wanted) Columns,
	fn func(rows []schemas.Row) error,
) error {
	columns := map[Columns][]column{
		Bare: columnsOf[schemas.Row]([]string{
			"cluster", "job_id", "restart", "interval_start", "interval_ms", "nodes_expected", "nodes_reported",
		}),
		Plain: withoutCertified[schemas.Row](), Certified: columnsOf[schemas.Row](nil),
	}
	batches := x.batches(key, want)
	return inTurn(ctx, len(batches), func(i int) (rows []schemas.Row, err error) {
		b := &batches[i]
		err = b.file.use(func(f *file) (err error) {
			rows, err = readTable[schemas.Row](f, f.RowGroups()[b.group], b.spans, columns[b.columns], newSlab())
			return err
		})
		return rows, err
	}, func(i int, rows []schemas.Row) error {
		for _, s := range batches[i].spans {
			if err := fn(rows[:s.to-s.from]); err != nil {
				return err
			}
			rows = rows[s.to-s.from:]
		}
		return nil
	})
}

// inTurn makes n things side by side, and hands them on one after the other.
func inTurn[T any](ctx context.Context, n int, produce func(i int) (T, error), take func(i int, made T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	turn := make(chan struct{})
	close(turn)
	for i := range n {
		mine, next := turn, make(chan struct{})
		turn = next
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			made, err := produce(i)
			if err != nil {
				return err
			}
			select {
			case <-mine:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := take(i, made); err != nil {
				return err
			}
			close(next)
			return nil
		})
	}
	return group.Wait()
}

// batch is runs of a row group that are read together, since they may share pages.
type batch struct {
	file    *handle
	group   int
	columns Columns
	spans   []span
}

// batchRows bounds the rows of a batch, unless one run has more.
const batchRows = 16 << 10

func (x *Index) batches(key schemas.JobKey, want func(Wanted) Columns) (all []batch) {
	at := map[Columns]int{} // where the last batch of such rows is
	for _, r := range x.runs[key] {
		columns := want(Wanted{r.metric, r.file.date, filepath.Base(r.file.path)})
		if columns == None {
			continue
		}
		if i, has := at[columns]; has && all[i].file == r.file && all[i].group == r.group {
			n := r.to - r.from
			for _, s := range all[i].spans {
				n += s.to - s.from
			}
			if n <= batchRows {
				all[i].spans = append(all[i].spans, r.span)
				continue
			}
		}
		at[columns] = len(all)
		all = append(all, batch{r.file, r.group, columns, []span{r.span}})
	}
	return all
}

// runs returns the runs of the jobs that are wanted.
func (f *file) runs(h *handle, q *Query) (all []run, err error) {
	err = f.guard(func() error {
		for i, group := range f.RowGroups() {
			pieces, err := f.pieces(group, q)
			if err != nil {
				return err
			}
			for _, p := range pieces {
				all = append(all, run{p, h, i})
			}
		}
		return nil
	})
	return all, err
}

// pieces divides a row group by job, restart and metric.
func (f *file) pieces(group parquet.RowGroup, q *Query) (pieces []piece, err error) {
	texts := newSlab()
	if q.Job != "" {
		spans, err := f.find(group, q.Job, "")
		if err != nil {
			return nil, err
		}
		for _, s := range spans {
			pieces = append(pieces, piece{span: s, job: q.Job})
		}
	} else {
		pieces, err = refine(f.chunk(group, "job_id"), []piece{{span: span{0, group.NumRows()}}},
			func(p *piece, v parquet.Value) bool { return p.job == string(v.ByteArray()) },
			func(p *piece, v parquet.Value) { p.job = *texts.text(v) })
		if err != nil {
			return nil, err
		}
	}
	pieces, err = refine(f.chunk(group, "restart"), pieces,
		func(p *piece, v parquet.Value) bool { return p.restart == v.Int32() },
		func(p *piece, v parquet.Value) { p.restart = v.Int32() })
	if err != nil {
		return nil, err
	}
	if q.Jobs != nil {
		pieces = slices.DeleteFunc(pieces, func(p piece) bool {
			return !q.Jobs[schemas.JobKey{JobID: p.job, Restart: p.restart}]
		})
	}
	pieces, err = refine(f.chunk(group, "metric"), pieces,
		func(p *piece, v parquet.Value) bool { return p.null == v.IsNull() && p.metric == string(v.ByteArray()) },
		func(p *piece, v parquet.Value) {
			if p.null = v.IsNull(); !p.null {
				p.metric = *texts.text(v)
			}
		})
	return slices.DeleteFunc(pieces, func(p piece) bool {
		return !p.null && q.Metric != nil && !q.Metric(p.metric)
	}), err
}

// refine divides pieces where a further column changes. A file without the column has nothing to divide.
func refine(chunk *parquet.FileColumnChunk, pieces []piece, same func(*piece, parquet.Value) bool,
	set func(*piece, parquet.Value),
) (fine []piece, err error) {
	if chunk == nil {
		return pieces, nil
	}
	spans := make([]span, len(pieces))
	for i := range pieces {
		spans[i] = pieces[i].span
	}
	at := 0
	err = read(chunk, spans, func(row int64, v []parquet.Value) {
		for pieces[at].to <= row {
			at++
		}
		last := len(fine) - 1
		if last >= 0 && fine[last].to == row && row != pieces[at].from && same(&fine[last], v[0]) {
			fine[last].to++
			return
		}
		p := pieces[at]
		p.span = span{row, row + 1}
		set(&p, v[0])
		fine = append(fine, p)
	})
	return fine, err
}
