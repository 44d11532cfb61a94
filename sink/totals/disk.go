package totals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/weirhpc/weir/sink"
)

// The actions on the disk.
const (
	actMakeDir = "mkdir"
	actCreate  = "create"
	actWrite   = "write"
	actSync    = "sync"
	actLock    = "lock"
	actRename  = "rename"
	actSyncDir = "sync_dir"
)

// stagePrefix begins the names in the stage.
const stagePrefix = dirName + "-"

// disk carries out the actions of a run on the archive.
type disk struct {
	dir string
	// before is called ahead of each action, and may fail in its place. With errDone the action counts as done. It is
	// nil outside tests.
	before func(action, path string) error
}

var errDone = errors.New("done")

func (d *disk) do(action, path string, run func() error) error {
	if d.before != nil {
		if err := d.before(action, path); errors.Is(err, errDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return run()
}

func (d *disk) staged(name string) string {
	return filepath.Join(sink.StagePath(d.dir), stagePrefix+name)
}

func (d *disk) syncDir(dir string) error {
	return d.do(actSyncDir, dir, func() error { return sink.SyncDir(dir) })
}

// removeStaged deletes the files of dead runs in the stage.
func (d *disk) removeStaged() {
	left, err := filepath.Glob(d.staged("*"))
	if err != nil {
		return
	}
	for _, path := range left {
		_ = os.Remove(path) // it is written over otherwise
	}
}

// make writes a file into the stage, durably.
func (d *disk) make(path string, fill func(io.Writer) error) error {
	var file *os.File
	err := d.do(actCreate, path, func() (err error) {
		file, err = os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		return err
	})
	if err != nil {
		return fmt.Errorf("making a file of totals: %w", err)
	}
	err = fill(sink.WriterFunc(func(b []byte) (n int, err error) {
		err = d.do(actWrite, path, func() error { n, err = file.Write(b); return err })
		return n, err
	}))
	if err == nil {
		err = d.do(actSync, path, file.Sync)
	}
	if err := cmp.Or(err, file.Close(), d.own(path)); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// own gives a file to the owner of the archive. Otherwise the owner could not replace the files of root.
func (d *disk) own(path string) error {
	info, err := os.Stat(d.dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		return os.Chown(path, int(stat.Uid), int(stat.Gid))
	}
	return nil
}

// makeHome makes the directory of a date's totals, durably.
func (d *disk) makeHome(date string) error {
	home := filepath.Dir(Path(d.dir, date))
	for _, dir := range []string{filepath.Dir(home), home} {
		err := d.do(actMakeDir, dir, func() error { return os.Mkdir(dir, 0o755) })
		if errors.Is(err, fs.ErrExist) {
			err = nil // a run that made it may have died before it was durable
		} else if err == nil {
			err = d.own(dir)
		}
		if err := cmp.Or(err, d.syncDir(filepath.Dir(dir))); err != nil {
			return fmt.Errorf("making a directory for totals: %w", err)
		}
	}
	return nil
}

// publish puts a file of the stage in its place, durably. The lock makes it one moment with other tables.
func (d *disk) publish(ctx context.Context, staged, date string, o *Options) error {
	path := Path(d.dir, date)
	if err := d.makeHome(date); err != nil {
		return err
	}
	lock := &sink.Lock{}
	err := d.do(actLock, sink.LockPath(d.dir), func() (err error) {
		lock, err = sink.Exclusive(ctx, d.dir, o.Wait)
		return err
	})
	if errors.Is(err, sink.ErrLocked) {
		return fmt.Errorf("readers kept the archive for %v, it is tried again at the next run: %w", o.Wait, err)
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := d.do(actRename, path, func() error { return os.Rename(staged, path) }); err != nil {
		return fmt.Errorf("publishing totals: %w", err)
	}
	return d.syncDir(filepath.Dir(path))
}
