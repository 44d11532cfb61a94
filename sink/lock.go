package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The archive's directory contains .lock and .stage/ beside summaries/. A process that replaces a date holds .lock
// exclusively. Sinks and careful readers share it. Unfinished files lie in .stage/, where no reader's glob finds them.
// Overlapping readers would keep .lock for ever. So a process that waits for exclusive access holds .stage/turn, and
// new readers wait there.
const (
	lockName = ".lock"
	stageDir = ".stage"
	turnName = "turn"
	// aside ends the name of a date's old directory between the two renames of a replacement.
	aside = ".aside"

	lockPause = 5 * time.Millisecond
	// lockWait is how long a sink waits for the lock. A replacement takes less than a second.
	lockWait = 10 * time.Second
	// turnWait is how long a reader waits behind a writer that waits. A program that holds the lock may run this one,
	// and a reader may hold it for hours. Neither may stop all others.
	turnWait = 30 * time.Second
	// turnRest is how long a program waits no more at a turn after it waited there in vain: it reads table by table.
	turnRest = 5 * time.Minute
)

var (
	// ErrLocked is returned when another process kept the lock for as long as one would wait.
	ErrLocked = errors.New("another process holds the lock")
	// ErrNoLocks is returned when the file system does not support flock(2).
	ErrNoLocks = errors.New("the file system has no flock(2)")
)

// Lock is a lock of the archive that this process holds.
type Lock struct{ file *os.File }

// Unlock gives the lock back.
func (l *Lock) Unlock() { _ = l.file.Close() } // the kernel drops the lock with its last descriptor

// LockPath returns the path of the lock of the archive in dir.
func LockPath(dir string) string { return filepath.Join(dir, lockName) }

// StagePath returns the directory for unfinished files, in the archive in dir.
func StagePath(dir string) string { return filepath.Join(dir, stageDir) }

// DatePath returns the directory of a date, in the archive in dir.
func DatePath(dir, date string) string { return filepath.Join(dir, summariesDir, datePrefix+date) }

// AsidePath returns the path of a date's old directory between the two renames of a replacement.
func AsidePath(dir, date string) string { return filepath.Join(dir, stageDir, datePrefix+date+aside) }

// TakeLock takes the lock at path, and makes its file if that is missing. It tries for as long as wait: greedy readers
// may keep it that long. It returns ErrLocked then, and ErrNoLocks if there can be no lock.
func TakeLock(ctx context.Context, path string, exclusive bool, wait time.Duration) (*Lock, error) {
	access, how := os.O_RDONLY, syscall.LOCK_SH
	if exclusive {
		access, how = os.O_RDWR, syscall.LOCK_EX // NFS wants a writable descriptor
	}
	file, err := OpenRegular(path, access|os.O_CREATE|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	Inherit(path)
	return lockFile(ctx, file, how, wait)
}

// errNotRegular is returned for a pipe, a device or a directory in place of a file.
var errNotRegular = errors.New("not a regular file: move it away")

// OpenRegular opens a file. The archive's owner may put a pipe there: OpenRegular neither blocks nor reads it.
func OpenRegular(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o644)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EISDIR) {
		return nil, fmt.Errorf("%w (%w)", err, errNotRegular)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, errNotRegular)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// lockFile locks a file, which Unlock closes.
func lockFile(ctx context.Context, file *os.File, how int, wait time.Duration) (*Lock, error) {
	path := file.Name()
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

// Inherit gives a file that root made in the archive the owner of its directory. Otherwise one command run by root
// would lock out the services. It does nothing else, and reports no error: the next step meets it.
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

// Exclusive takes the archive's lock exclusively: no sink and no careful reader is inside. Readers that come while it
// waits let it in first.
func Exclusive(ctx context.Context, dir string, wait time.Duration) (*Lock, error) {
	until := time.Now().Add(wait)
	if turn, err := TakeLock(ctx, turnPath(dir), true, wait); err == nil { // there is no .stage/ at first
		defer turn.Unlock()
	}
	return TakeLock(ctx, LockPath(dir), true, time.Until(until))
}

func turnPath(dir string) string { return filepath.Join(StagePath(dir), turnName) }

// Reading is Shared for readers. It makes no file and repairs nothing, and it does without the lock if the process may
// not open it. A program that waits to write goes first.
func Reading(ctx context.Context, dir string, fn func() error) error {
	return reading(ctx, dir, turnWait, fn)
}

type underLock struct{}

// UnderLock returns a context for nested calls of Reading, which take no second lock. Otherwise they would wait for a
// writer that waits for the outer call.
func UnderLock(ctx context.Context) context.Context { return context.WithValue(ctx, underLock{}, true) }

func reading(ctx context.Context, dir string, patience time.Duration, fn func() error) error {
	if ctx.Value(underLock{}) != nil {
		return fn()
	}
	if !inherited(LockPath(dir)) {
		letIn(ctx, turnPath(dir), patience)
	}
	lock, err := share(ctx, LockPath(dir), lockWait)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNoLocks) {
		return fn()
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	return fn()
}

// vain holds the time of this program's last wait in vain at each turn, by the turn's path.
var vain sync.Map

// letIn lets a writer in that holds the turn.
func letIn(ctx context.Context, turn string, patience time.Duration) {
	if last, is := vain.Load(turn); is && time.Since(last.(time.Time)) < turnRest {
		patience = 0
	}
	switch lock, err := share(ctx, turn, patience); {
	case err == nil:
		lock.Unlock()
		vain.Delete(turn)
	case errors.Is(err, ErrLocked) && patience > 0:
		vain.Store(turn, time.Now())
	}
}

// share takes an existing lock.
func share(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	file, err := OpenRegular(path, os.O_RDONLY|syscall.O_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	return lockFile(ctx, file, syscall.LOCK_SH, wait)
}

// inherited reports whether this program was started with the lock open, as `flock -s DIR/.lock weir …` does. It would
// wait for a writer that waits for it. Descriptors of its own are closed when it starts another program.
func inherited(path string) bool {
	lock, err := os.Stat(path)
	if err != nil {
		return false
	}
	const open = "/proc/self/fd"
	entries, err := os.ReadDir(open)
	if err != nil {
		return false
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		if info, err := os.Stat(filepath.Join(open, e.Name())); err == nil && os.SameFile(info, lock) {
			return true
		}
	}
	return false
}

// setAside returns the dates with an old directory renamed away and no new one in its place.
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
	lock, err := Exclusive(ctx, dir, lockWait)
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
