package sink

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// compactedDate is the compacted files of a date. A replaced directory is another inode.
type compactedDate struct {
	inode    uint64
	modified time.Time
	files    []File
}

// follow goes on from t over the files of other sinks, and makes the last of them durable.
func (a *archive) follow(partition int32, t tail) (end tail, err error) {
	err = a.shared(func() error { end, err = a.lockedFollow(partition, t); return err })
	return end, err
}

func (a *archive) lockedFollow(partition int32, t tail) (tail, error) {
	for {
		file, err := a.locate(partition, t.next)
		if err != nil {
			return tail{}, err
		}
		if file == nil {
			return t, a.SyncDir(a.dateDir(t.date))
		}
		f, err := file.readFooter(a.topic)
		if err != nil {
			return tail{}, err
		}
		for _, r := range f.Ranges() {
			if r.Start <= t.next && t.next < r.Next {
				t = tail{r.Next, file.Date, f.TopicID}
			}
		}
	}
}

// has reports whether the chain contains a position: a file begins there, or a compacted file covers it.
func (a *archive) has(partition int32, start int64) (has bool, err error) {
	err = a.shared(func() error {
		file, err := a.locate(partition, start)
		has = file != nil
		return err
	})
	return has, err
}

// locate returns the file of a partition that begins at start, or the compacted file that holds this position, or nil.
// If a sink stood still with rows in hand, the start of its draft may lie only in a compacted file. If this file is
// damaged, a small file begins behind the start: a compaction never takes the last file of a partition. In this case
// locate fails, and the next start goes on from the end. Without such a small file, damaged files do not matter.
func (a *archive) locate(partition int32, start int64) (*File, error) {
	dates, err := listDates(a.root)
	if err != nil {
		return nil, err
	}
	var hidden error
	for _, date := range dates {
		path := a.path(date, partition, start)
		switch _, err := os.Lstat(path); {
		case err == nil:
			name := filepath.Base(path)
			return &File{Path: path, Date: date, Name: name, Partition: partition, Start: start}, nil
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("looking for a file of the chain: %w", err)
		}
		files, err := a.compactedFiles(date)
		if err != nil {
			return nil, err
		}
		for i := range files {
			holds := func(r Range) bool { return r.Start <= start && start < r.Next }
			switch f := &files[i]; {
			case f.Partition != partition || f.Start > start:
			case f.Fault != nil:
				hidden = f.Fault
			case slices.ContainsFunc(f.Footer.Ranges(), holds):
				return f, nil
			}
		}
	}
	if hidden == nil {
		return nil, nil
	}
	if behind, err := a.goesOn(dates, partition, start); err != nil || !behind {
		return nil, err
	}
	return nil, fmt.Errorf("it may hold position %d of partition %d, which the chain has passed: %w",
		start, partition, hidden)
}

// goesOn reports whether a small file of a partition begins behind a position.
func (a *archive) goesOn(dates []string, partition int32, start int64) (bool, error) {
	for _, date := range dates {
		files, err := listFiles(a.dateDir(date), a.topic, date)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(files, func(f File) bool {
			return !f.Compacted && f.Partition == partition && f.Start > start
		}) {
			return true, nil
		}
	}
	return false, nil
}

// compactedFiles returns the compacted files of a date. It reads their footers again when the directory has changed.
func (a *archive) compactedFiles(date string) ([]File, error) {
	info, err := os.Stat(a.dateDir(date))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a compacted file: %w", err)
	}
	now := compactedDate{modified: info.ModTime()}
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		now.inode = stat.Ino
	}
	if known, ok := a.compacted[date]; ok && known.inode == now.inode && known.modified.Equal(now.modified) {
		return known.files, nil
	}
	files, err := listFiles(a.dateDir(date), a.topic, date)
	if err != nil {
		return nil, err
	}
	now.files = slices.DeleteFunc(files, func(f File) bool { return !f.Compacted })
	if err := readFooters(a.topic, now.files); err != nil {
		return nil, err
	}
	maps.DeleteFunc(a.damaged, func(path string, _ error) bool {
		_, _, is := parseCompacted(a.topic, filepath.Base(path))
		return is && filepath.Dir(path) == a.dateDir(date)
	})
	now.files = slices.DeleteFunc(now.files, func(f File) bool { return errors.Is(f.Fault, fs.ErrNotExist) })
	for _, f := range now.files {
		if f.Fault != nil {
			a.damaged[f.Path] = f.Fault
		}
	}
	a.compacted[date] = now
	return now.files, nil
}
