package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/sink"
)

const (
	datePrefix = "date="
	suffix     = ".parquet"
)

// Dated replaces whole files of a table with one file per date. The table's writers exclude each other by a lock, and
// no reader waits while they write. Replace is for a table without rows that move to another date.
//
// Commit makes new files in .stage/TABLE-new. The name TABLE-commit makes them valid: from then on the replacement is
// finished, even after a crash. So a row that moves to another date is never lost, and is in both files only until a
// crash is mended. If rows move, files change places under the lock: careful readers see each row once.
type Dated struct {
	sink.Disk
	Dir  string // sink.dir
	Name string // of the table, and of its directory below Dir
	File string // name of its files without .parquet; empty: Name
}

// Path returns the file of a date.
func (d Dated) Path(date string) string {
	return filepath.Join(d.Dir, d.Name, datePrefix+date, cmp.Or(d.File, d.Name)+suffix)
}

// Dates returns the dates that have a file, oldest first.
func (d Dated) Dates() (dates []string, err error) {
	entries, err := os.ReadDir(filepath.Join(d.Dir, d.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the %s of the archive: %w", d.Name, err)
	}
	for _, e := range entries {
		date, named := strings.CutPrefix(e.Name(), datePrefix)
		if _, err := time.Parse(time.DateOnly, date); !named || err != nil {
			continue
		}
		if _, err := os.Stat(d.Path(date)); err == nil {
			dates = append(dates, date)
		}
	}
	return dates, nil
}

func (d Dated) new() string { return filepath.Join(sink.StagePath(d.Dir), d.Name+"-new") }

// committed returns the directory that makes new files valid by its name.
func (d Dated) committed() string { return filepath.Join(sink.StagePath(d.Dir), d.Name+"-commit") }

// Lock takes the lock that the writers of the table have among them.
func (d Dated) Lock(ctx context.Context, wait time.Duration) (*sink.Lock, error) {
	stage, lock := sink.StagePath(d.Dir), &sink.Lock{}
	path := filepath.Join(stage, d.Name+".lock")
	err := d.Do(sink.ActLock, path, func() (err error) {
		if err := os.MkdirAll(stage, 0o755); err != nil {
			return fmt.Errorf("making .stage in sink.dir: %w", err)
		}
		sink.Inherit(stage)
		lock, err = sink.TakeLock(ctx, path, true, wait)
		return err
	})
	return lock, err
}

// makeHome makes the directory of a date's file, durably.
func (d Dated) makeHome(date string) error {
	home := filepath.Dir(d.Path(date))
	if err := d.MakeDir(filepath.Dir(home)); err != nil {
		return err
	}
	return d.MakeDir(home)
}

// put gives a complete file its place, durably.
func (d Dated) put(from, date string) error {
	to := d.Path(date)
	if err := d.Rename(from, to); err != nil {
		return fmt.Errorf("putting %s in place: %w", d.Name, err)
	}
	return d.SyncDir(filepath.Dir(to))
}

// Replace puts a complete file in the place of a date's file, durably. No reader that holds the archive's lock sees
// the change. Replace returns sink.ErrLocked if readers keep the lock for longer than wait.
func (d Dated) Replace(ctx context.Context, wait time.Duration, from, date string) error {
	if err := d.makeHome(date); err != nil {
		return err
	}
	lock, err := d.Exclusive(ctx, d.Dir, wait)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return d.put(from, date)
}

// Commit replaces the files of some dates. The value of a date reports whether this date loses rows to other dates of
// the commit. write makes the new file of a date at a path. The caller holds the table's lock.
func (d Dated) Commit(ctx context.Context, wait time.Duration, dates map[string]bool,
	write func(path, date string) error,
) error {
	if err := d.prepare(dates, write); err != nil {
		_ = d.discard() // otherwise the next writer does it
		return err
	}
	if err := d.Rename(d.new(), d.committed()); err != nil {
		_ = d.discard()
		return fmt.Errorf("committing %s: %w", d.Name, err)
	}
	if err := d.SyncDir(sink.StagePath(d.Dir)); err != nil {
		return err
	}
	return d.finish(ctx, wait)
}

// loses begins the name of a staged file if rows move from it to other files. The name sorts behind these files' names.
const loses = "loses-"

// prepare makes the new files, and the directories of their dates.
func (d Dated) prepare(dates map[string]bool, write func(path, date string) error) error {
	stage := d.new()
	if err := d.MakeDir(stage); err != nil {
		return err
	}
	for _, date := range slices.Sorted(maps.Keys(dates)) {
		name := datePrefix + date + suffix
		if dates[date] {
			name = loses + name
		}
		if err := write(filepath.Join(stage, name), date); err != nil {
			return err
		}
		if info, err := os.Stat(d.Path(date)); err == nil { // the rights stay, whatever the umask is
			if err := os.Chmod(filepath.Join(stage, name), info.Mode().Perm()); err != nil {
				return fmt.Errorf("keeping the rights of %s: %w", d.Name, err)
			}
		}
		if err := d.makeHome(date); err != nil {
			return err
		}
	}
	return d.SyncDir(stage)
}

// finish puts committed files in their places. Readers that hold the archive's lock do not see a row move. If they keep
// it for longer than wait, the row appears in its new place first.
func (d Dated) finish(ctx context.Context, wait time.Duration) error {
	stage := d.committed()
	entries, err := os.ReadDir(stage)
	if err != nil {
		return fmt.Errorf("putting %s in place: %w", d.Name, err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), loses) }) {
		lock, err := d.Exclusive(ctx, d.Dir, wait)
		if err == nil {
			defer lock.Unlock()
		} else if !errors.Is(err, sink.ErrLocked) && !errors.Is(err, sink.ErrNoLocks) {
			return err
		}
	}
	for _, e := range entries {
		name, isFile := strings.CutSuffix(strings.TrimPrefix(e.Name(), loses), suffix)
		date, isDate := strings.CutPrefix(name, datePrefix)
		if !isFile || !isDate {
			return fmt.Errorf("%s is not weir's: move it out", filepath.Join(stage, e.Name()))
		}
		if err := d.put(filepath.Join(stage, e.Name()), date); err != nil {
			return err
		}
	}
	if err := d.Remove(stage); err != nil {
		return fmt.Errorf("putting %s in place: %w", d.Name, err)
	}
	return d.SyncDir(sink.StagePath(d.Dir))
}

// Unfinished reports whether a writer died, or is at work.
func (d Dated) Unfinished() bool {
	for _, path := range []string{d.new(), d.committed()} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// Resume finishes or undoes the replacement of a writer that died. The caller holds the table's lock.
func (d Dated) Resume(ctx context.Context, wait time.Duration) error {
	if err := d.discard(); err != nil {
		return err
	}
	if _, err := os.Stat(d.committed()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dates, err := d.Dates()
	if err != nil {
		return err
	}
	for _, date := range dates { // the new file of a date may be in place, but not durable
		if err := d.SyncDir(filepath.Dir(d.Path(date))); err != nil {
			return err
		}
	}
	return d.finish(ctx, wait)
}

// mend is Resume for callers without the table's lock. It does nothing if no replacement is unfinished.
func (d Dated) mend(ctx context.Context, wait time.Duration) error {
	if !d.Unfinished() {
		return nil
	}
	lock, err := d.Lock(ctx, wait)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return d.Resume(ctx, wait)
}

// discard removes files that were not committed.
func (d Dated) discard() error {
	stage := d.new()
	if _, err := os.Stat(stage); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.Do(sink.ActRemove, stage, func() error { return os.RemoveAll(stage) }); err != nil {
		return fmt.Errorf("removing %s that were not committed: %w", d.Name, err)
	}
	return nil
}
