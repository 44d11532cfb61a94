package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Beside summaries/ the archive's directory has .lock and .stage/. Who replaces a date holds .lock exclusively. Sinks
// and careful readers share it. What is not finished lies in .stage/, where no reader's glob finds it.
const (
	lockName = ".lock"
	stageDir = ".stage"
	// aside ends the name of a date's old directory between the two renames of a replacement.
	aside = ".aside"

	lockPause = 5 * time.Millisecond
	// lockWait is how long a sink waits for the lock. A replacement takes less than a second.
	lockWait = 10 * time.Second
)

var (
	// ErrLocked is returned when another process kept the lock for as long as one would wait.
	ErrLocked = errors.New("another process holds the lock")
	// ErrNoLocks is returned when the file system has no flock(2).
	ErrNoLocks = errors.New("the file system has no flock(2)")
)

// Lock is a lock of the archive that this process holds.
type Lock struct{ file *os.File }

// Unlock gives the lock back.
func (l *Lock) Unlock() { _ = l.file.Close() } // the kernel drops the lock with its last descriptor

// LockPath returns the path of the lock of the archive in dir.
func LockPath(dir string) string { return filepath.Join(dir, lockName) }

// StagePath returns the directory for what is not finished, in the archive in dir.
func StagePath(dir string) string { return filepath.Join(dir, stageDir) }

// DatePath returns the directory of a date, in the archive in dir.
func DatePath(dir, date string) string { return filepath.Join(dir, summariesDir, datePrefix+date) }

// AsidePath returns where the old directory of a date lies between the two renames of a replacement.
func AsidePath(dir, date string) string { return filepath.Join(dir, stageDir, datePrefix+date+aside) }

// TakeLock takes the lock at path, and makes its file if that is missing. It tries for as long as wait: greedy readers
// may keep it that long. It returns ErrLocked then, and ErrNoLocks if there can be no lock.
func TakeLock(ctx context.Context, path string, exclusive bool, wait time.Duration) (*Lock, error) {
	flags, how := os.O_RDONLY|os.O_CREATE, syscall.LOCK_SH
	if exclusive {
		flags, how = os.O_RDWR|os.O_CREATE, syscall.LOCK_EX // NFS wants a writable descriptor
	}
	file, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	Inherit(path)
	for deadline := time.Now().Add(wait); ; {
		err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return &Lock{file}, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EOPNOTSUPP),
			errors.Is(err, syscall.EINVAL):
			_ = file.Close()
			return nil, fmt.Errorf("%s: %w (%w)", path, ErrNoLocks, err)
		case !errors.Is(err, syscall.EWOULDBLOCK):
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		case !time.Now().Before(deadline):
			_ = file.Close()
			return nil, fmt.Errorf("%s: %w", path, ErrLocked)
		}
		timer := time.NewTimer(lockPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			_ = file.Close()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// Inherit gives what root made in the archive the owner of the directory that it lies in. Otherwise one command run by
// root would lock out the services. It does nothing else, and reports nothing: the next step finds out.
func Inherit(path string) {
	if os.Geteuid() != 0 {
		return
	}
	var made, home syscall.Stat_t
	if syscall.Lstat(path, &made) == nil && syscall.Stat(filepath.Dir(path), &home) == nil && made.Uid == 0 &&
		home.Uid != 0 {
		_ = os.Lchown(path, int(home.Uid), int(home.Gid))
	}
}

// Shared runs fn while no date is replaced in the archive in dir. A replacement that a crash left between two renames
// is undone first. Without flock(2) there are no replacements, and fn runs without the lock.
func Shared(ctx context.Context, dir string, fn func() error) error {
	for {
		lock, err := TakeLock(ctx, LockPath(dir), false, lockWait)
		if errors.Is(err, ErrNoLocks) {
			return fn()
		}
		if err != nil {
			return err
		}
		dates, err := setAside(dir)
		if err == nil && len(dates) == 0 {
			err = fn()
			lock.Unlock()
			return err
		}
		lock.Unlock()
		if err != nil {
			return err
		}
		if err := putBack(ctx, dir); err != nil {
			return err
		}
	}
}

// Reading is Shared for those who may not write: without the lock or a repair if they have no right to it.
func Reading(ctx context.Context, dir string, fn func() error) error {
	lock, err := TakeLock(ctx, LockPath(dir), false, lockWait)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNoLocks) ||
		errors.Is(err, syscall.EROFS) {
		return fn()
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return fn()
}

// setAside returns the dates whose old directory was renamed away, and whose new one has not taken its place.
func setAside(dir string) ([]string, error) {
	entries, err := os.ReadDir(StagePath(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing what is not finished: %w", err)
	}
	var dates []string
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), aside)
		date, isDate := parseDate(name)
		if !is || !isDate {
			continue
		}
		switch _, err := os.Lstat(DatePath(dir, date)); {
		case errors.Is(err, fs.ErrNotExist):
			dates = append(dates, date)
		case err != nil:
			return nil, fmt.Errorf("looking for a date: %w", err)
		}
	}
	return dates, nil
}

// putBack gives dates back the directory that a crash left aside.
func putBack(ctx context.Context, dir string) error {
	lock, err := TakeLock(ctx, LockPath(dir), true, lockWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return PutBackLocked(dir)
}

// PutBackLocked gives dates back the directory that a crash left aside. The caller holds the lock exclusively.
func PutBackLocked(dir string) error {
	dates, err := setAside(dir)
	if err != nil {
		return err
	}
	for _, date := range dates {
		if err := os.Rename(AsidePath(dir, date), DatePath(dir, date)); err != nil {
			return fmt.Errorf("undoing a replacement that was interrupted: %w", err)
		}
	}
	if len(dates) == 0 {
		return nil
	}
	return cmp.Or(SyncDir(filepath.Join(dir, summariesDir)), SyncDir(StagePath(dir)))
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("syncing a directory: %w", err)
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("syncing %s: %w", dir, err)
	}
	return nil
}
