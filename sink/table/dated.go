package table

import (
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

// The actions of Dated on the disk.
const (
	ActLock    = "lock"
	ActMakeDir = "mkdir"
	ActCreate  = "create"
	ActWrite   = "write"
	ActSync    = "sync"
	ActRename  = "rename"
	ActSyncDir = "sync_dir"
	actRemove  = "remove"
)

// ErrDone makes an action count as done if Before returns it.
var ErrDone = errors.New("done")

// Dated replaces whole files of a table with one file per date. The table's writers exclude each other by a lock, and
// no reader waits while they write. New files are made in .stage/TABLE-new. The name TABLE-commit makes them valid:
// from then on the replacement is finished, even after a crash. So a row that moves to another date is never lost, and
// is in both files only until a crash is mended. If rows move, files change places under the lock: careful readers see
// each row once.
type Dated struct {
	Dir  string // sink.dir
	Name string // of the table: its directory below Dir, and the name of its files
	// Before is called ahead of each action on the disk and may fail in its place. It is nil outside tests.
	Before func(action, path string) error
}

// Do runs an action on the disk.
func (d Dated) Do(action, path string, run func() error) error {
	if d.Before != nil {
		if err := d.Before(action, path); errors.Is(err, ErrDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return run()
}

// Path returns the file of a date.
func (d Dated) Path(date string) string {
	return filepath.Join(d.Dir, d.Name, datePrefix+date, d.Name+suffix)
}

// dates returns the dates that have a file, oldest first.
func (d Dated) dates() (dates []string, err error) {
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
func (d Dated) Lock(ctx context.Context, wait time.Duration) (lock *sink.Lock, err error) {
	path := filepath.Join(sink.StagePath(d.Dir), d.Name+".lock")
	err = d.Do(ActLock, path, func() error {
		if err := os.MkdirAll(sink.StagePath(d.Dir), 0o755); err != nil {
			return err
		}
		lock, err = sink.TakeLock(ctx, path, true, wait)
		return err
	})
	return lock, err
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
	from, to := d.new(), d.committed()
	if err := d.Do(ActRename, to, func() error { return os.Rename(from, to) }); err != nil {
		_ = d.discard()
		return fmt.Errorf("committing %s: %w", d.Name, err)
	}
	if err := d.syncDir(sink.StagePath(d.Dir)); err != nil {
		return err
	}
	return d.finish(ctx, wait)
}

// loses begins the name of a staged file if rows move from it to other files. The name sorts behind these files' names.
const loses = "loses-"

// prepare makes the new files, and the directories of their dates.
func (d Dated) prepare(dates map[string]bool, write func(path, date string) error) error {
	stage := d.new()
	if err := d.makeDir(stage); err != nil {
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
		dir := filepath.Dir(d.Path(date))
		for _, made := range []string{filepath.Dir(dir), dir} {
			if err := d.makeDir(made); err != nil {
				return err
			}
		}
	}
	return d.syncDir(stage)
}

// makeDir makes a directory if it is not there, and makes its name durable.
func (d Dated) makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := d.Do(ActMakeDir, dir, func() error { return os.Mkdir(dir, 0o755) }); err != nil {
		return fmt.Errorf("making a directory for %s: %w", d.Name, err)
	}
	return d.syncDir(filepath.Dir(dir))
}

func (d Dated) syncDir(dir string) error {
	return d.Do(ActSyncDir, dir, func() error { return sink.SyncDir(dir) })
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
		lock := &sink.Lock{}
		err := d.Do(ActLock, sink.LockPath(d.Dir), func() (err error) {
			lock, err = sink.Exclusive(ctx, d.Dir, wait)
			return err
		})
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
		to := d.Path(date)
		err := d.Do(ActRename, to, func() error { return os.Rename(filepath.Join(stage, e.Name()), to) })
		if err != nil {
			return fmt.Errorf("putting %s in place: %w", d.Name, err)
		}
		if err := d.syncDir(filepath.Dir(to)); err != nil {
			return err
		}
	}
	if err := d.Do(actRemove, stage, func() error { return os.Remove(stage) }); err != nil {
		return fmt.Errorf("putting %s in place: %w", d.Name, err)
	}
	return d.syncDir(sink.StagePath(d.Dir))
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
	dates, err := d.dates()
	if err != nil {
		return err
	}
	for _, date := range dates { // the new file of a date may be in place, but not durable
		if err := d.syncDir(filepath.Dir(d.Path(date))); err != nil {
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
	if err := d.Do(actRemove, stage, func() error { return os.RemoveAll(stage) }); err != nil {
		return fmt.Errorf("removing %s that were not committed: %w", d.Name, err)
	}
	return nil
}
