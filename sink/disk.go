package sink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The actions on the disk.
const (
	ActMakeDir  = "mkdir"
	ActCreate   = "create"
	ActWrite    = "write"
	ActSync     = "sync"
	ActClose    = "close"
	ActLink     = "link"
	ActRename   = "rename"
	ActExchange = "exchange"
	ActSyncDir  = "sync_dir"
	ActRemove   = "remove"
	ActLock     = "lock"
)

// ErrDone makes an action count as done if Before returns it.
var ErrDone = errors.New("done")

// Disk changes files of the archive, one action after the other. A crash may come between any two of them.
type Disk struct {
	// Before is called ahead of each action and may fail in its place. It is nil outside tests.
	Before func(action, path string) error
}

// Do runs an action.
func (d Disk) Do(action, path string, run func() error) error {
	if d.Before != nil {
		if err := d.Before(action, path); errors.Is(err, ErrDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return run()
}

// SyncDir makes the names in a directory durable.
func (d Disk) SyncDir(dir string) error {
	return d.Do(ActSyncDir, dir, func() error { return SyncDir(dir) })
}

// MakeDir makes a directory if it does not exist. Its name is durable afterwards: the process that made it may have
// died before that.
func (d Disk) MakeDir(dir string) error {
	err := d.Do(ActMakeDir, dir, func() error { return os.Mkdir(dir, 0o755) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a directory of the archive: %w", err)
	}
	if err == nil {
		Inherit(dir)
	}
	return d.SyncDir(filepath.Dir(dir))
}

// Rename gives a file or directory another name, perhaps the name of an existing file.
func (d Disk) Rename(from, to string) error {
	return d.Do(ActRename, to, func() error { return os.Rename(from, to) })
}

// Link gives a file a second name.
func (d Disk) Link(from, to string) error {
	return d.Do(ActLink, to, func() error { return os.Link(from, to) })
}

// Remove deletes a file, or an empty directory.
func (d Disk) Remove(path string) error {
	return d.Do(ActRemove, path, func() error { return os.Remove(path) })
}

// Exclusive takes the lock of the archive in dir, as the function Exclusive does.
func (d Disk) Exclusive(ctx context.Context, dir string, wait time.Duration) (*Lock, error) {
	lock := &Lock{}
	err := d.Do(ActLock, LockPath(dir), func() (err error) {
		lock, err = Exclusive(ctx, dir, wait)
		return err
	})
	return lock, err
}

// WriteFile makes a file, durably. Its name is not durable.
func (d Disk) WriteFile(path string, fill func(io.Writer) error) (err error) {
	var file *os.File
	err = d.Do(ActCreate, path, func() error {
		file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		return err
	})
	if err != nil {
		return fmt.Errorf("making a file of the archive: %w", err)
	}
	defer func() {
		if closed := d.Do(ActClose, path, file.Close); err == nil && closed != nil {
			err = fmt.Errorf("closing %s: %w", path, closed)
		}
	}()
	Inherit(path)
	buffered := bufio.NewWriterSize(writerFunc(func(b []byte) (n int, err error) {
		err = d.Do(ActWrite, path, func() error { n, err = file.Write(b); return err })
		return n, err
	}), 256<<10)
	if err := fill(buffered); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := d.Do(ActSync, path, file.Sync); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// writerFunc is an io.Writer that is a function.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
