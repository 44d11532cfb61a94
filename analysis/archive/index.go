package archive

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/schemas"
)

// Query selects summaries. An empty bound is no bound.
type Query struct {
	First, Last string                       // dates
	Job         string                       // its id; empty: all jobs in Jobs
	Jobs        map[schemas.JobKey]bool      // nil: all
	Metric      func(name string) bool       // nil: all; a row without a metric is always wanted
	File        func(date, name string) bool // nil: all
}

// Index locates the rows of jobs in the archive, so that each row is read by column without another search. The caller
// holds the lock of the archive at Open. A caller that gives it up before Close still reads the state at Open. If a
// needed file was deleted or replaced by then, the error is fs.ErrNotExist.
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

// handle is a file with rows of a job.
type handle struct {
	date, path string
	open       *file       // nil: it is opened for each use
	was        os.FileInfo // the file at Open; nil: any
}

// keptOpen is the number of files that stay open. A process may open 1,024 files.
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
				return nil
			}
			defer f.close()
			h.was, err = f.disk.Stat()
			return f.fault(err)
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

// dateOf returns the date of the directory that contains a file.
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

// Metrics returns the metrics of a life's rows, sorted.
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

// Dates returns the dates of a life's rows, the first one first.
func (x *Index) Dates(key schemas.JobKey) (dates []string) {
	for _, r := range x.runs[key] {
		if len(dates) == 0 || dates[len(dates)-1] != r.file.date {
			dates = append(dates, r.file.date)
		}
	}
	slices.Sort(dates)
	return slices.Compact(dates)
}

// Extent returns the begin of a life's first interval, the end of its last interval, and the length of an interval, the
// shortest if they differ. All are 0 without rows.
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
		if now, err := f.disk.Stat(); err != nil || h.was != nil && !sameFile(h.was, now) {
			return cmp.Or(err, fmt.Errorf("%s was replaced: %w", h.path, fs.ErrNotExist))
		}
	}
	return f.fault(f.guard(func() error { return fn(f) }))
}

// sameFile reports whether a file is unchanged. A new file may reuse the inode number of a deleted one.
func sameFile(was, now os.FileInfo) bool {
	return os.SameFile(was, now) && was.Size() == now.Size() && was.ModTime().Equal(now.ModTime())
}
