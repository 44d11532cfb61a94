// Package table keeps tables of the archive with one Parquet file a date: the jobs that ended, and final findings. A
// row is made of the newest record that a compacted topic had of it, and stays when the topic forgets the record.
//
// plan.go decides how files change, without a disk. A Store writes them, and a Follower reads the topic.
package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/weirhpc/weir/sink"
)

// Earlier is the position of a row that was made of a topic of the same name that is gone.
const Earlier = -1

var (
	// ErrBadFile is the error of a file of a table that is damaged, or that no weir wrote.
	ErrBadFile = errors.New("not a file")

	errNewer = errors.New("a newer weir wrote it: upgrade this one")
)

// Number is the part of a key that the rows of namesakes share: schedulers reuse the ids of jobs.
type Number struct {
	Cluster, JobID string
	Restart        int32
	Rule           string // empty if the table has one row for each job
}

// Key names a row.
type Key struct {
	Number
	From int64 // of the job's life
}

// Compare orders the rows of a file.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.JobID, o.JobID), cmp.Compare(k.Restart, o.Restart), cmp.Compare(k.Rule, o.Rule),
		cmp.Compare(k.Cluster, o.Cluster), cmp.Compare(k.From, o.From))
}

func (k Key) String() string {
	if k.Rule != "" {
		return fmt.Sprintf("%s/%d/%s", k.JobID, k.Restart, k.Rule)
	}
	return fmt.Sprintf("%s/%d", k.JobID, k.Restart)
}

// Table describes a table: R is a row of it, with Parquet tags.
type Table[R any] struct {
	Name string // in the archive, and in the keys of footers
	// Version is the version of the columns and keys. A weir that knows fewer columns must not rewrite a file without
	// the others.
	Version int
	// Hashes reports whether footers hold a hash of each job's id. Readers use them to skip files without a job.
	Hashes   bool
	Number   func(*R) Number
	Life     func(*R) Life       // of the job
	Date     func(*R) string     // date of the row's file
	Position func(row *R) *int64 // field with the offset of the row's record; Earlier if the record is of another topic
	schema   func() sink.Schema  // of a file, taken from an empty one
}

// New returns a table with this description.
func New[R any](t Table[R]) *Table[R] {
	t.schema = sync.OnceValue(t.emptySchema)
	return &t
}

// Key returns the key of a row.
func (t *Table[R]) Key(r *R) Key { return Key{t.Number(r), t.Life(r).From} }

// Path returns the file of a date, of the archive in dir.
func (t *Table[R]) Path(dir, date string) string { return Dated{Dir: dir, Name: t.Name}.Path(date) }

// Dates returns the dates that have a file, oldest first.
func (t *Table[R]) Dates(dir string) ([]string, error) { return Dated{Dir: dir, Name: t.Name}.Dates() }

// Stat returns the number of rows that the file of a date claims, and its size in bytes. It reads the footer alone. It
// returns zeros for a date without a file.
func (t *Table[R]) Stat(dir, date string) (rows, bytes int64, err error) {
	path := t.Path(dir, date)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("looking for %s: %w", t.Name, err)
	}
	f, err := t.open(path)
	if err != nil {
		return 0, info.Size(), err
	}
	return f.rows, info.Size(), f.Close()
}

// Each calls fn with every row of a date, in order. A row is valid until the next call. Every page must match its
// checksum. The rows must be in order, of this date, and as the footer describes them. An error of fn is returned as it
// is.
func (t *Table[R]) Each(dir, date string, fn func(*R) error) error {
	f, err := t.open(t.Path(dir, date))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	var stopped error                // which is not the file's fault
	err = f.each(func(r *R) error {
		if err := t.belongs(r, date); err != nil {
			return err
		}
		stopped = fn(r)
		return stopped
	})
	return cmp.Or(stopped, err)
}

// Check reads the file of a date as Each does, and returns the number of its rows.
func (t *Table[R]) Check(dir, date string) (rows int64, err error) {
	err = t.Each(dir, date, func(*R) error { rows++; return nil })
	return rows, err
}

// belongs returns an error for a row in the file of another date.
func (t *Table[R]) belongs(r *R, date string) error {
	if home := t.Date(r); home != date {
		return fmt.Errorf("%s belongs to %s", t.Key(r), home)
	}
	return nil
}

// Find returns the rows of a job from the archive in dir. It opens the files of all dates in parallel, and reads rows
// only from files that contain the id. If files are damaged, it returns the rows of the others, and an error.
func (t *Table[R]) Find(ctx context.Context, dir, jobID string) (rows []R, err error) {
	ids := map[string]bool{jobID: true}
	err = sink.Reading(ctx, dir, func() error {
		files, err := look(ctx, t, dir, nil, func(f *file[R], _ string) ([]R, error) { return f.of(ids) })
		if err != nil {
			return err
		}
		var faults []error
		for _, f := range files.inOrder() {
			rows, faults = append(rows, f.rows...), append(faults, f.err)
		}
		return errors.Join(faults...)
	})
	return rows, err
}

// Put writes rows into the archive in dir, as a Follower does after reading their records. It fails if the file of one
// of their dates cannot be used.
func (t *Table[R]) Put(ctx context.Context, dir, topic, topicID string, rows []R) error {
	records := t.Newest(rows)
	bad, err := t.In(dir, topic).Write(ctx, lockWait, topicID, records)
	for _, r := range records {
		err = cmp.Or(err, bad[t.Date(&r)])
	}
	return err
}

// Newest returns the row with the last position of each key.
func (t *Table[R]) Newest(rows []R) map[Key]R {
	newest := map[Key]R{}
	for _, r := range rows {
		k := t.Key(&r)
		if old, has := newest[k]; !has || *t.Position(&old) < *t.Position(&r) {
			newest[k] = r
		}
	}
	return newest
}

// Columns calls fn with the rows of a date, reduced to the columns of C, by name. It returns an error if the number of
// rows differs from the footer, and fs.ErrNotExist if there is no file.
func Columns[C, R any](t *Table[R], dir, date string, fn func(*C), names ...string) error {
	f, err := t.open(t.Path(dir, date))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	n := int64(0)
	err = eachRow(f, names, func(c *C) error { n++; fn(c); return nil })
	if err == nil && n != f.rows {
		err = fmt.Errorf("%d rows where its footer names %d", n, f.rows)
	}
	if err != nil {
		return t.fault(f.path, err)
	}
	return nil
}
