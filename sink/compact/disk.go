package compact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/sink"
)

const (
	stagePrefix = "date="
	runPrefix   = "run-"
)

// disk carries out the actions of a compaction on the archive.
type disk struct {
	sink.Disk
	dir   string // sink.dir
	topic string
	// plain is set once the file system proved unable to exchange two directories.
	plain bool
}

func (d *disk) date(date string) string { return sink.DatePath(d.dir, date) }
func (d *disk) stage() string           { return sink.StagePath(d.dir) }
func (d *disk) summaries() string       { return filepath.Dir(d.date("")) }

// staged returns the directory in which a generation of a date is made. Later it holds the date's old files.
func (d *disk) staged(date string, generation int64) string {
	return filepath.Join(d.stage(), fmt.Sprintf("%s%s.g%d", stagePrefix, date, generation))
}

// parseStaged is the inverse of staged.
func parseStaged(name string) (date string, generation int64, ok bool) {
	rest, isDate := strings.CutPrefix(name, stagePrefix)
	date, number, isStage := strings.Cut(rest, ".g")
	generation, err := strconv.ParseInt(number, 10, 64)
	_, noDate := time.Parse(time.DateOnly, date)
	return date, generation, isDate && isStage && err == nil && noDate == nil && generation > 0
}

// list returns the names in a directory, with the footers of its files; nil and fs.ErrNotExist if it does not exist.
func (d *disk) list(dir, date string) ([]entry, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	files, err := sink.FilesIn(dir, d.topic, date)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, n := range names {
		info, err := os.Lstat(filepath.Join(dir, n.Name()))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", dir, err)
		}
		e := entry{name: n.Name()}
		if stat, is := info.Sys().(*syscall.Stat_t); is {
			e.inode = stat.Ino
		}
		for i := range files {
			if files[i].Name == e.name {
				e.file = &files[i]
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// exchange puts a stage in a date's place, and the date's old directory in the stage's. The caller holds the lock.
func (d *disk) exchange(stage, date string) error {
	dir := d.date(date)
	if !d.plain {
		err := d.Do(sink.ActExchange, dir, func() error {
			return unix.Renameat2(unix.AT_FDCWD, stage, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
		})
		switch {
		case sink.NoExchange(err):
			d.plain = true
		case errors.Is(err, unix.EXDEV):
			return fmt.Errorf("%s and %s are on different file systems: put both on one: %w",
				d.stage(), d.summaries(), err)
		case err != nil:
			return fmt.Errorf("exchanging %s with its compacted files: %w", dir, err)
		default:
			return nil
		}
	}
	aside := sink.AsidePath(d.dir, date)
	for _, step := range [][2]string{{dir, aside}, {stage, dir}, {aside, stage}} {
		if err := d.Rename(step[0], step[1]); err != nil {
			return fmt.Errorf("replacing %s: %w", dir, err)
		}
	}
	return nil
}

// like gives a new directory the rights and the owner of a date. Otherwise a sink could not add late rows after a
// compaction by root. It leaves correct rights alone, because a new directory inherits the set-group-ID bit from its
// parent. chmod clears that bit, and the units forbid to set it.
func like(path string, as fs.FileInfo) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("looking at a new directory: %w", err)
	}
	if info.Mode().Perm() != as.Mode().Perm() {
		if err := os.Chmod(path, as.Mode().Perm()); err != nil {
			return fmt.Errorf("giving a directory the rights of its date: %w", err)
		}
	}
	return owned(path, as)
}

// owned gives a file or directory the owner of a date.
func owned(path string, as fs.FileInfo) error {
	stat, is := as.Sys().(*syscall.Stat_t)
	if is && os.Geteuid() == 0 {
		if err := os.Chown(path, int(stat.Uid), int(stat.Gid)); err != nil {
			return fmt.Errorf("giving %s to the owner of its date: %w", path, err)
		}
	}
	return nil
}

// readableAs gives a new file the rights that all its inputs have, regardless of the umask. Otherwise a compaction
// could hide a date from the group that reads it.
func readableAs(path string, inputs ...sink.File) error {
	mode := fs.ModePerm
	for _, in := range inputs {
		info, err := os.Stat(in.Path)
		if err != nil {
			return fmt.Errorf("looking at the rights of an input: %w", err)
		}
		mode &= info.Mode()
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("giving %s the rights of its inputs: %w", path, err)
	}
	return nil
}

// errElsewhere leaves a date as it is. An exchange would replace the link, and not the directory.
var errElsewhere = errors.New("a date that lies elsewhere is not compacted")

// usable returns nil if the date can be replaced by this process.
func (d *disk) usable(date string) (fs.FileInfo, error) {
	dir := d.date(date)
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("looking at a date: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is a symbolic link", errElsewhere, dir)
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	if is && os.Geteuid() != 0 && int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to user %d: compact as that user, or as root", dir, stat.Uid)
	}
	return info, nil
}

// changed returns when a directory was last renamed or written to.
func changed(dir string) (time.Time, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return time.Time{}, fmt.Errorf("looking at the stage: %w", err)
	}
	at := info.ModTime()
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		if renamed := time.Unix(stat.Ctim.Sec, stat.Ctim.Nsec); renamed.After(at) {
			at = renamed
		}
	}
	return at, nil
}
