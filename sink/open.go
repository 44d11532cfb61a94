package sink

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const tempPrefix = ".tmp-"

// newArchive returns an archive that open must prepare.
func newArchive(dir, topic string, before func(action, path string) error) *archive {
	return &archive{
		root: filepath.Join(dir, summariesDir), topic: topic, made: map[string]bool{},
		compacted: map[string]compactedDate{}, damaged: map[string]error{}, Disk: Disk{Before: before},
	}
}

// open makes the directory if it is missing, and checks that it can hold a chain.
func (a *archive) open() error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("asking for the host's name: %w", err)
	}
	a.host = host
	if err := a.makeRoot(); err != nil {
		return err
	}
	if err := a.probe(); err != nil {
		return err
	}
	return a.removeDead()
}

// diskMayRecover reports whether an error of opening the archive can go away by itself.
func diskMayRecover(err error) bool {
	return errors.Is(err, ErrLocked) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ESTALE)
}

// makeRoot makes the archive's directory. It makes every new parent durable.
func (a *archive) makeRoot() error {
	root, err := filepath.Abs(a.root)
	if err != nil {
		return fmt.Errorf("finding sink.dir: %w", err)
	}
	var missing []string
	for dir := root; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			break
		}
		missing = append(missing, dir)
	}
	if err := a.Do(ActMakeDir, root, func() error { return os.MkdirAll(root, 0o755) }); err != nil {
		return fmt.Errorf("making sink.dir: %w", err)
	}
	for _, dir := range missing {
		if err := a.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	a.root = root
	stage := a.stage()
	if err := a.Do(ActMakeDir, stage, func() error { return os.MkdirAll(stage, 0o755) }); err != nil {
		return fmt.Errorf("making .stage in sink.dir: %w", err)
	}
	return a.SyncDir(root) // a sink that made a date's directory may have died before syncing it
}

// probe checks that the file system supports hard links.
func (a *archive) probe() error {
	one, two := a.tempPath(a.stage()), a.tempPath(a.stage())
	f, err := os.OpenFile(one, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("writing to sink.dir: %w", err)
	}
	defer os.Remove(one) // if this fails, removeDead removes the file later
	if err := f.Close(); err != nil {
		return fmt.Errorf("writing to sink.dir: %w", err)
	}
	err = os.Link(one, two)
	switch {
	case err == nil:
		return os.Remove(two)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("%s: %w (%w)", a.root, errNoHardLinks, err)
	}
	return fmt.Errorf("linking in sink.dir: %w", err)
}

// tempPath returns a new name in dir. It holds the host and the pid.
func (a *archive) tempPath(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%s%d-%s-%016x", tempPrefix, os.Getpid(), a.host, rand.Uint64()))
}

// parseTemp returns which process wrote a temporary file.
func parseTemp(name string) (host string, pid int, ok bool) {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	if !ok {
		return "", 0, false
	}
	left, right, _ := strings.Cut(rest, "-")
	end := strings.LastIndexByte(right, '-')
	pid, err := strconv.Atoi(left)
	if err != nil || pid <= 0 || end < 0 {
		return "", 0, false
	}
	return right[:end], pid, true
}

// removeDead removes the temporary files of dead processes of this host. Earlier releases wrote them in summaries/.
// Nothing depends on it: a living sink writes a removed file again.
func (a *archive) removeDead() error {
	dates, err := listDates(a.root)
	if err != nil {
		return err
	}
	dirs := []string{a.stage(), a.root}
	for _, date := range dates {
		dirs = append(dirs, a.dateDir(date))
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("listing %s: %w", dir, err)
		}
		for _, e := range entries {
			host, pid, ok := parseTemp(e.Name())
			if !ok || host != a.host || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				continue
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing a dead sink's file: %w", err)
			}
		}
	}
	return nil
}
