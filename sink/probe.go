package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// NoExchange reports whether an error of renameat2(2) means that the file system cannot exchange two directories.
func NoExchange(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// prober tries the features of the file system that an archive needs. The functions are fields so that tests can make
// them fail.
type prober struct {
	dir, stage, root string // sink.dir, the directory for new files, and the directory of their links
	link, exchange   func(from, to string) error
	lock             func(path string) (*Lock, error)
	beside           func(path string) error
}

// Probe tries the features of the file system that the archive in dir needs: hard links, locks that keep another
// process out, and the exchange of two directories. It returns an error if a sink cannot work there, and notes about
// other missing features, with the remedy. Beside takes the lock at path in another process, and returns the result of
// TakeLock there.
//
// It leaves nothing behind. It tries nothing if there is no archive, or if this process may not write there.
func Probe(ctx context.Context, dir string, beside func(path string) error) (notes []string, err error) {
	if no := unix.Access(dir, unix.W_OK|unix.X_OK); no != nil {
		return nil, nil //nolint:nilerr // a service of another user, or no archive yet: there is nothing to try
	}
	return newProber(ctx, dir, beside).probe()
}

func newProber(ctx context.Context, dir string, beside func(path string) error) *prober {
	p := &prober{
		dir: dir, stage: StagePath(dir), root: filepath.Join(dir, summariesDir), link: os.Link, beside: beside,
		lock: func(path string) (*Lock, error) { return TakeLock(ctx, path, true, 0) },
		exchange: func(a, b string) error {
			return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		},
	}
	for _, part := range []*string{&p.stage, &p.root} {
		if _, err := os.Stat(*part); errors.Is(err, fs.ErrNotExist) {
			*part = dir // the sink has not begun
		}
	}
	return p
}

// probe tries one feature after the other. Its files have the names of temporary files, so a sink removes the remains
// of a crash.
func (p *prober) probe() (notes []string, err error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("asking for the host's name: %w", err)
	}
	a := archive{host: host}
	one, two, old, young := a.tempPath(p.stage), a.tempPath(p.root), a.tempPath(p.root), a.tempPath(p.stage)
	defer func() {
		for _, path := range []string{one, two, old, young} {
			if removed := os.Remove(path); !errors.Is(removed, fs.ErrNotExist) {
				err = cmp.Or(err, removed)
			}
		}
	}()
	if err := os.WriteFile(one, nil, 0o644); err != nil {
		return nil, fmt.Errorf("writing to sink.dir: %w", err)
	}
	if err := errors.Join(os.Mkdir(old, 0o755), os.Mkdir(young, 0o755)); err != nil {
		return nil, fmt.Errorf("making a directory in sink.dir: %w", err)
	}
	switch err := p.link(one, two); {
	case errors.Is(err, syscall.EXDEV):
		return append(notes, fmt.Sprintf("%s and %s are on different file systems, so nothing is compacted: put both "+
			"on one", p.stage, p.root)), nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w (%w)", p.root, errNoHardLinks, err)
	}
	if note := p.probeLock(one); note != "" {
		notes = append(notes, note)
	}
	switch err := p.exchange(young, old); {
	case NoExchange(err):
		notes = append(notes, p.dir+": the file system cannot exchange two directories. A compaction renames twice, "+
			"and readers may miss a date meanwhile: let them take the lock, or choose a local disk")
	case err != nil:
		return notes, fmt.Errorf("exchanging two directories of sink.dir: %w", err)
	}
	return notes, nil
}

// probeLock returns the fault of the file system's locks; empty if they work.
func (p *prober) probeLock(path string) (note string) {
	const remedy = "nothing may be compacted here: on Lustre, mount with -o flock"
	lock, err := p.lock(path)
	if errors.Is(err, ErrNoLocks) {
		return fmt.Sprintf("%s: %v, so %s", p.dir, ErrNoLocks, remedy)
	}
	if err != nil {
		return fmt.Sprintf("%s: its locks could not be tried: %v", p.dir, err)
	}
	defer lock.Unlock()
	switch err := p.beside(path); {
	case err == nil:
		return fmt.Sprintf("%s: the file system grants one flock(2) to two processes, so %s", p.dir, remedy)
	case !errors.Is(err, ErrLocked):
		return fmt.Sprintf("%s: its locks could not be tried from a second process: %v", p.dir, err)
	}
	return ""
}
