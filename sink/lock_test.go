package sink

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lockable makes the directory of an archive that has its locks.
func lockable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(StagePath(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := Exclusive(t.Context(), dir, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	return dir
}

// TestReadersThatOverlap: there is always one inside, and a writer gets in all the same.
func TestReadersThatOverlap(t *testing.T) {
	t.Parallel()
	dir := lockable(t)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for n := range 4 {
		readers.Go(func() {
			time.Sleep(time.Duration(n) * 20 * time.Millisecond)
			for ctx.Err() == nil {
				err := Reading(t.Context(), dir, func() error { time.Sleep(80 * time.Millisecond); return nil })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	for range 5 {
		began := time.Now()
		lock, err := Exclusive(t.Context(), dir, 5*time.Second)
		if err != nil {
			t.Fatalf("a writer waited %v: %v", time.Since(began), err)
		}
		lock.Unlock()
	}
	stop()
	readers.Wait()
}

// TestReaderPassesAWriter: a writer waits for a reader that holds the lock for hours. No other reader waits for long.
func TestReaderPassesAWriter(t *testing.T) {
	t.Parallel()
	dir := lockable(t)
	long, err := TakeLock(t.Context(), LockPath(dir), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() {
		_, err := Exclusive(ctx, dir, time.Hour)
		waits <- err
	}()
	for !held(t, turnPath(dir)) {
		time.Sleep(time.Millisecond)
	}
	began, read := time.Now(), false
	err = reading(t.Context(), dir, 50*time.Millisecond, func() error { read = true; return nil })
	if took := time.Since(began); err != nil || !read || took < 50*time.Millisecond || took > 5*time.Second {
		t.Errorf("a second reader: %v, read %t after %v", err, read, took)
	}
	stop()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	long.Unlock()
}

// held reports whether a lock cannot be had.
func held(t *testing.T, path string) bool {
	t.Helper()
	lock, err := TakeLock(t.Context(), path, true, 0)
	if err == nil {
		lock.Unlock()
	}
	return errors.Is(err, ErrLocked)
}

const lockDirVariable = "WEIR_TEST_LOCK_DIR"

// TestReaderPassesAWriterOnce: a command reads several tables, each under the lock. A writer that cannot get in delays
// the command once, and not at each table.
func TestReaderPassesAWriterOnce(t *testing.T) {
	t.Parallel()
	const patience = 300 * time.Millisecond
	read := func(dir string) time.Duration {
		began := time.Now()
		if err := reading(t.Context(), dir, patience, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	dir, other := lockable(t), lockable(t)
	for _, d := range []string{dir, other} {
		writer, err := TakeLock(t.Context(), turnPath(d), true, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Unlock()
	}
	if took := read(dir); took < patience {
		t.Errorf("the writer was let in for %v, want %v", took, patience)
	}
	for range 3 {
		if took := read(dir); took >= patience {
			t.Errorf("it was let in again, for %v", took)
		}
	}
	if took := read(other); took < patience {
		t.Errorf("the writer of another archive was let in for %v", took)
	}
}

// TestReadingUnderFlock runs a reader under `flock -s`, as scripts do that ask several times under one lock. A writer
// waits for flock(1) to end, so its reader must not wait for the writer.
func TestReadingUnderFlock(t *testing.T) {
	if dir := os.Getenv(lockDirVariable); dir != "" { // the reader
		if err := reading(t.Context(), dir, time.Hour, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	program, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("FLOCK SKIPPED: there is no flock(1)")
	}
	dir := lockable(t)
	long, err := TakeLock(t.Context(), LockPath(dir), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Unlock()
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() { _, _ = Exclusive(ctx, dir, time.Hour) })
	defer func() { stop(); writer.Wait() }()
	for !held(t, turnPath(dir)) {
		time.Sleep(time.Millisecond)
	}
	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(limit, program, "-s", LockPath(dir), os.Args[0], "-test.run=^TestReadingUnderFlock$")
	cmd.Env = append(os.Environ(), lockDirVariable+"="+dir)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestReadersMakeNothing: a reader may be root, and the archive another user's. It makes no file there, and neither
// follows a link nor waits at a pipe.
func TestReadersMakeNothing(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	read := false
	err := Reading(t.Context(), dir, func() error { read = true; return nil })
	if names, e := os.ReadDir(dir); err != nil || e != nil || !read || len(names) > 0 {
		t.Errorf("without a lock: %v, read %t, and %v are there", err, read, names)
	}
	for name, spoil := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(elsewhere, path) },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		path := LockPath(dir)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 2)
		go func() {
			done <- Reading(t.Context(), dir, func() error { return nil })
			_, err := Exclusive(t.Context(), dir, 0)
			done <- err
		}()
		for _, who := range []string{"reader", "writer"} {
			select {
			case err := <-done:
				if !errors.Is(err, errNotRegular) {
					t.Errorf("a %s in place of the lock: %s: %v", name, who, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("a %s in place of the lock: the %s waits", name, who)
			}
		}
		if _, err := os.Lstat(elsewhere); err == nil {
			t.Errorf("a %s: the file behind it was made", name)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPipesInTheArchive: a file of the archive that is a pipe is an error, at once.
func TestPipesInTheArchive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe.parquet")
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := OpenTable(path, nil)
		_, footer := ReadFooter(path)
		_, file := Open(path)
		for _, err := range []error{err, footer, file} {
			done <- err
		}
	}()
	for range 3 {
		select {
		case err := <-done:
			if !errors.Is(err, errNotRegular) {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a reader waits at a pipe")
		}
	}
}
