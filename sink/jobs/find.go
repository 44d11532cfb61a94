package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// Find returns the lives of all jobs with an id from the archive in dir, the earliest first. It opens the files of all
// dates in parallel, and reads rows only from files that contain the id. If files are damaged, it returns the rows of
// the others, and an error.
func Find(ctx context.Context, dir, jobID string) (rows []Row, err error) {
	ids := map[string]bool{jobID: true}
	err = sink.Reading(ctx, dir, func() error {
		files, err := lookIn(ctx, dir, nil, func(path string) ([]Row, error) {
			f, err := open(path)
			if err != nil {
				return nil, err
			}
			defer func() { _ = f.Close() }() // only read
			return f.of(ids)
		})
		if err != nil {
			return err
		}
		var faults []error
		for _, date := range slices.Sorted(maps.Keys(files)) {
			rows = append(rows, files[date].rows...)
			faults = append(faults, files[date].err)
		}
		return errors.Join(faults...)
	})
	slices.SortFunc(rows, InTime)
	return rows, err
}

// InTime orders lives of jobs with one id by their start, or by their end if the start is unknown.
func InTime(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Life().From, b.Life().From), cmp.Compare(a.Restart, b.Restart),
		cmp.Compare(a.Cluster, b.Cluster))
}

// Stat returns how many jobs the file of a date claims to have, and its size. It reads the footer alone.
func Stat(dir, date string) (jobs, bytes int64, err error) {
	path := Path(dir, date)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("looking for jobs: %w", err)
	}
	f, err := open(path)
	if err != nil {
		return 0, info.Size(), err
	}
	return f.rows, info.Size(), f.Close()
}

// Each calls fn with every job of a date, in order. A row is valid until the next call. Every page must match its
// checksum. The rows must be in order, and as the footer says.
func Each(dir, date string, fn func(*Row) error) error {
	f, err := open(Path(dir, date))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	return f.each(fn)
}

// Check reads the file of a date as Each does, and returns how many jobs it has. All must be of this date.
func Check(dir, date string) (jobs int64, err error) {
	err = Each(dir, date, func(r *Row) error {
		jobs++
		if r.date() != date {
			return fmt.Errorf("job %s ended on %s", r.key(), r.date())
		}
		return nil
	})
	return jobs, err
}

// Put writes rows of jobs into the archive in dir, as a sink does that has read their records. It fails if the file of
// one of their dates cannot be used.
func Put(ctx context.Context, dir, topic, topicID string, rows []Row) error {
	records := map[key]Row{}
	for _, r := range rows {
		if old, has := records[r.key()]; !has || old.Position < r.Position {
			records[r.key()] = r
		}
	}
	s := store{dir: dir, topic: topic}
	bad, err := s.write(ctx, lockWait, topicID, records)
	for _, r := range records {
		err = cmp.Or(err, bad[r.date()])
	}
	return err
}

// Write writes records of jobs into the archive in dir, as Put does. Their places in the slice are their offsets.
func Write(ctx context.Context, dir, topic, cluster string, records []schemas.Job) error {
	var rows []Row
	for offset := range records {
		if r, over := rowOf(cluster, &records[offset], int64(offset)); over {
			rows = append(rows, r)
		}
	}
	return Put(ctx, dir, topic, "", rows)
}
