package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// topicID marks the files of a replay. It is the id of no topic, so no sink goes on behind them.
const topicID = "replay"

// fileRows is the number of rows at which a file is full. Its last summary may exceed it.
const fileRows = 64 << 10

// ErrDirectory is returned for a directory that is not the replay's own.
var ErrDirectory = errors.New("a replay needs a new directory of its own")

// Archive writes summaries into a directory of its own, in the form of the sink's archive. The files lie in .stage/
// until Publish moves them to summaries/, all at once. So a reader sees the whole replay or nothing.
type Archive struct {
	dir, topic string
	lock       *sink.Lock // nil: the file system supports none
	most       int        // rows of a file
	rows       []schemas.Row
	date       string // of rows
	previous   string // date of the last file
	next       int64  // first offset of the next file
	files      int64
}

// NewArchive begins an archive in dir. topic is the full name of the imitated topic. It refuses the sink's directory
// and a directory with other files in it. The rest of an unfinished replay is deleted.
func NewArchive(ctx context.Context, dir, sinkDir, topic string) (*Archive, error) {
	if err := apart(dir, sinkDir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of a replay: %w", err)
	}
	if err := empty(dir); err != nil {
		return nil, err
	}
	a := &Archive{dir: dir, topic: topic, most: fileRows}
	lock, err := sink.TakeLock(ctx, sink.LockPath(dir), true, 0)
	switch {
	case errors.Is(err, sink.ErrLocked):
		return nil, fmt.Errorf("another replay writes into %s: %w", dir, err)
	case err != nil && !errors.Is(err, sink.ErrNoLocks):
		return nil, err
	}
	a.lock = lock
	if err := os.RemoveAll(sink.StagePath(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("deleting what an earlier replay left: %w", err), a.Close())
	}
	return a, nil
}

// apart returns an error if dir is the archive of the sink, or lies in an archive.
func apart(dir, sinkDir string) error {
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("looking for %s: %w", dir, err)
	}
	root, err := filepath.Abs(sinkDir)
	if err != nil {
		return fmt.Errorf("looking for %s: %w", sinkDir, err)
	}
	there, err := os.Stat(root)
	made := err == nil
	for at := path; ; at = filepath.Dir(at) {
		here, err := os.Stat(at)
		if at == root || err == nil && made && os.SameFile(here, there) {
			return fmt.Errorf("%w: %s is the archive of the sink, or lies in it", ErrDirectory, dir)
		}
		if _, err := os.Stat(filepath.Join(at, published)); err == nil && at != path {
			return fmt.Errorf("%w: %s lies in the archive %s", ErrDirectory, dir, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// empty returns an error if a directory contains anything but the rest of an unfinished replay.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("looking into the directory of a replay: %w", err)
	}
	lock, stage := filepath.Base(sink.LockPath(dir)), filepath.Base(sink.StagePath(dir))
	for _, e := range entries {
		if e.Name() != lock && e.Name() != stage {
			return fmt.Errorf("%w: %s has %s", ErrDirectory, dir, e.Name())
		}
	}
	left, err := os.ReadDir(filepath.Join(dir, stage))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking into the directory of a replay: %w", err)
	}
	for _, e := range left {
		if e.Name() != unfinished {
			return fmt.Errorf("%w: %s has %s", ErrDirectory, dir, filepath.Join(stage, e.Name()))
		}
	}
	return nil
}

// The files lie in the directory unfinished of .stage/ until they are published.
const (
	published  = "summaries"
	unfinished = published + ".replay"
)

func (a *Archive) stage() string { return filepath.Join(sink.StagePath(a.dir), unfinished) }

// Add adds a summary. Summaries come in the order of their intervals.
func (a *Archive) Add(s *schemas.JobSummary) error {
	date := time.UnixMilli(s.IntervalStart).UTC().Format(time.DateOnly)
	if date != a.date || len(a.rows) >= a.most {
		if err := a.flush(); err != nil {
			return err
		}
	}
	a.date, a.rows = date, append(a.rows, s.Rows()...)
	return nil
}

// flush writes the rows as the next file.
func (a *Archive) flush() error {
	if len(a.rows) == 0 {
		return nil
	}
	if err := os.MkdirAll(a.stage(), 0o755); err != nil {
		return fmt.Errorf("making the directory of a replay: %w", err)
	}
	f := sink.Footer{
		Topic: a.topic, TopicID: topicID, Start: a.next, Next: a.next + 1, PreviousDate: a.previous,
		Rows: int64(len(a.rows)), FirstInterval: a.rows[0].IntervalStart,
		LastInterval: a.rows[len(a.rows)-1].IntervalStart,
	}
	if err := sink.Append(a.stage(), a.topic, a.date, a.rows, f); err != nil {
		return err
	}
	a.rows = slices.Delete(a.rows, 0, len(a.rows))
	a.previous, a.next, a.files = a.date, a.next+1, a.files+1
	return nil
}

// Publish moves the files to their place, and returns their number.
func (a *Archive) Publish() (files int64, err error) {
	if err := a.flush(); err != nil || a.files == 0 {
		return 0, err
	}
	if err := os.Rename(filepath.Join(a.stage(), published), filepath.Join(a.dir, published)); err != nil {
		return 0, fmt.Errorf("publishing a replay: %w", err)
	}
	return a.files, sink.SyncDir(a.dir)
}

// Close ends the archive. It deletes files that were not published.
func (a *Archive) Close() error {
	err := os.RemoveAll(sink.StagePath(a.dir))
	if a.lock != nil {
		a.lock.Unlock()
	}
	if err != nil {
		return fmt.Errorf("deleting what is not published: %w", err)
	}
	return nil
}
