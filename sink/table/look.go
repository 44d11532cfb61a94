package table

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
)

// seen holds the rows of some jobs in the files of all dates. Rows may be reduced to T.
type seen[T any] map[string]*seenFile[T]

type seenFile[T any] struct {
	info  fs.FileInfo
	rows  []T
	err   error
	whole bool // all of it was read
}

func (s seen[T]) inOrder() (files []*seenFile[T]) {
	for _, date := range slices.Sorted(maps.Keys(s)) {
		files = append(files, s[date])
	}
	return files
}

// look calls read for each date with a changed file, in parallel.
func look[T, R any](ctx context.Context, t *Table[R], dir string, before seen[T],
	read func(f *file[R], date string) ([]T, error),
) (seen[T], error) {
	dates, err := t.Dates(dir)
	if err != nil {
		return nil, err
	}
	files := make([]*seenFile[T], len(dates))
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(len(dates), 2*runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range next {
				files[i] = lookAt(t, dir, dates[i], before[dates[i]], read)
			}
		})
	}
	for i := range dates {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	all := seen[T]{}
	for i, date := range dates {
		if files[i] != nil {
			all[date] = files[i]
		}
	}
	return all, nil
}

// lookAt returns nil if there is no file.
func lookAt[T, R any](t *Table[R], dir, date string, before *seenFile[T],
	read func(f *file[R], date string) ([]T, error),
) *seenFile[T] {
	info, err := os.Stat(t.Path(dir, date))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &seenFile[T]{err: err}
	case before != nil && before.err == nil && sameFile(info, before.info):
		return before
	}
	s := &seenFile[T]{info: info}
	f, err := t.open(t.Path(dir, date))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if s.err = err; err == nil {
		defer func() { _ = f.Close() }() // only read
		s.rows, s.err = read(f, date)
	}
	return s
}
