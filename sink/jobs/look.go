package jobs

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"sync"

	"github.com/weirhpc/weir/sink"
)

// seen is what the files of all dates have of some jobs.
type seen map[string]*seenFile

type seenFile struct {
	info  fs.FileInfo
	rows  []Row
	err   error
	whole bool // all of it was read
}

// look looks for jobs in the files of all dates. It reads files again only if they are others than before. The rows of
// files of another topic have position earlier.
func (s *store) look(ctx context.Context, topicID string, ids map[string]bool, before seen) (seen, error) {
	return lookIn(ctx, s.dir, before, func(path string) (rows []Row, err error) {
		f, err := open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // only read
		rows, err = f.of(ids)
		for i := range rows {
			if !f.sameTopic(s.topic, topicID) {
				rows[i].Position = earlier
			}
		}
		return rows, err
	})
}

// lookIn calls read for the file of each date that is not as it was before, side by side.
func lookIn(ctx context.Context, dir string, before seen, read func(path string) ([]Row, error)) (seen, error) {
	dates, err := Dates(dir)
	if err != nil {
		return nil, err
	}
	files := make([]*seenFile, len(dates))
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(len(dates), 2*runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range next {
				files[i] = lookAt(Path(dir, dates[i]), before[dates[i]], read)
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
	all := seen{}
	for i, date := range dates {
		if files[i] != nil {
			all[date] = files[i]
		}
	}
	return all, nil
}

// lookAt returns nil if there is no file.
func lookAt(path string, before *seenFile, read func(path string) ([]Row, error)) *seenFile {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &seenFile{err: err}
	case before != nil && before.err == nil && sink.SameFile(info, before.info):
		return before
	}
	rows, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &seenFile{info: info, rows: rows, err: err}
}

func (s seen) rows() (all []held) {
	for date, f := range s {
		for _, r := range f.rows {
			all = append(all, held{date, r})
		}
	}
	return all
}

func (s seen) bad() map[string]error {
	bad := map[string]error{}
	for date, f := range s {
		if f.err != nil {
			bad[date] = f.err
		}
	}
	return bad
}

// usable returns the records but for those whose file cannot be used.
func (s seen) usable(records map[key]Row) map[key]Row {
	bad := s.bad()
	if len(bad) == 0 {
		return records
	}
	good := maps.Clone(records)
	maps.DeleteFunc(good, func(_ key, r Row) bool { return bad[r.date()] != nil })
	return good
}
