package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/sink"
)

// Files are replaced under the archive's lock. What replaces them is made in .stage/jobs-new. The name jobs-commit
// makes it valid: from then on it is finished whatever happens. So a job that moves to another date is never lost, and
// is in both files only until a crash is mended.
const (
	stageNew    = "jobs-new"
	stageCommit = "jobs-commit"
	suffix      = ".parquet"
)

// The actions on the disk.
const (
	actLock    = "lock"
	actMakeDir = "mkdir"
	actCreate  = "create"
	actWrite   = "write"
	actSync    = "sync"
	actRename  = "rename"
	actSyncDir = "sync_dir"
	actRemove  = "remove"
)

// store is the jobs of an archive.
type store struct {
	dir   string // sink.dir
	topic string
	// before is called ahead of each action on the disk and may fail in its place. With errDone the action counts as
	// done. It is nil outside tests.
	before func(action, path string) error
}

var errDone = errors.New("done")

func (s *store) do(action, path string, run func() error) error {
	if s.before != nil {
		if err := s.before(action, path); errors.Is(err, errDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return run()
}

func (s *store) stage(name string) string { return filepath.Join(sink.StagePath(s.dir), name) }

// write brings the files up to date with the newest record of each job. It waits so long for readers. It returns why
// the files of some dates cannot be used: they stay as they are, and the records of these dates are not written.
func (s *store) write(
	ctx context.Context, wait time.Duration, topicID string, records map[key]Row,
) (bad map[string]error, err error) {
	defer sink.Recovered(&err)
	ids := map[string]bool{}
	for k := range records {
		ids[k.jobID] = true
	}
	// Nearly always there is nothing to do after a start, and nobody has to wait for that.
	seen, err := s.look(ctx, topicID, ids, nil)
	if err != nil {
		return nil, err
	}
	if len(s.planned(seen, records)) == 0 && !s.unfinished() {
		return seen.bad(), nil
	}
	lock, err := s.lock(ctx, wait)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := s.resume(); err != nil {
		return nil, err
	}
	if seen, err = s.look(ctx, topicID, ids, seen); err != nil {
		return nil, err
	}
	edits := s.planned(seen, records)
	if len(edits) == 0 {
		return seen.bad(), nil
	}
	return seen.bad(), s.commit(topicID, edits)
}

// planned returns how files change. It leaves out dates whose present file is damaged, and notes that.
func (s *store) planned(found seen, records map[key]Row) map[string]*edit {
	for {
		edits := plan(found.rows(), found.usable(records))
		fine := true
		for date := range edits {
			f := found[date]
			if f == nil || f.whole {
				continue
			}
			if _, err := Check(s.dir, date); err != nil {
				f.err, f.rows, fine = err, nil, false
			}
			f.whole = true
		}
		if fine {
			return edits
		}
	}
}

func (s *store) lock(ctx context.Context, wait time.Duration) (lock *sink.Lock, err error) {
	path := sink.LockPath(s.dir)
	err = s.do(actLock, path, func() error {
		if err := os.MkdirAll(sink.StagePath(s.dir), 0o755); err != nil {
			return err
		}
		lock, err = sink.TakeLock(ctx, path, true, wait)
		return err
	})
	return lock, err
}

// commit replaces the files of some dates. The caller holds the lock.
func (s *store) commit(topicID string, edits map[string]*edit) error {
	if err := s.prepare(topicID, edits); err != nil {
		_ = s.discard() // otherwise the next writer does it
		return err
	}
	from, to := s.stage(stageNew), s.stage(stageCommit)
	if err := s.do(actRename, to, func() error { return os.Rename(from, to) }); err != nil {
		_ = s.discard()
		return fmt.Errorf("committing jobs: %w", err)
	}
	if err := s.syncDir(sink.StagePath(s.dir)); err != nil {
		return err
	}
	return s.finish()
}

// prepare makes the new files, and the directories of their dates.
func (s *store) prepare(topicID string, edits map[string]*edit) error {
	stage := s.stage(stageNew)
	if err := s.makeDir(stage); err != nil {
		return err
	}
	for _, date := range slices.Sorted(maps.Keys(edits)) {
		if err := s.writeFile(filepath.Join(stage, datePrefix+date+suffix), date, topicID, edits[date]); err != nil {
			return err
		}
		dir := filepath.Dir(Path(s.dir, date))
		for _, d := range []string{filepath.Dir(dir), dir} {
			if err := s.makeDir(d); err != nil {
				return err
			}
		}
	}
	return s.syncDir(stage)
}

// makeDir makes a directory if it is not there, and makes its name durable.
func (s *store) makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := s.do(actMakeDir, dir, func() error { return os.Mkdir(dir, 0o755) }); err != nil {
		return fmt.Errorf("making a directory for jobs: %w", err)
	}
	return s.syncDir(filepath.Dir(dir))
}

func (s *store) syncDir(dir string) error {
	return s.do(actSyncDir, dir, func() error { return sink.SyncDir(dir) })
}

// finish puts committed files in their places. The caller holds the lock.
func (s *store) finish() error {
	stage := s.stage(stageCommit)
	entries, err := os.ReadDir(stage)
	if err != nil {
		return fmt.Errorf("putting jobs in place: %w", err)
	}
	for _, e := range entries {
		name, isFile := strings.CutSuffix(e.Name(), suffix)
		date, isDate := strings.CutPrefix(name, datePrefix)
		if !isFile || !isDate {
			return fmt.Errorf("%s is not weir's: move it out", filepath.Join(stage, e.Name()))
		}
		to := Path(s.dir, date)
		err := s.do(actRename, to, func() error { return os.Rename(filepath.Join(stage, e.Name()), to) })
		if err != nil {
			return fmt.Errorf("putting jobs in place: %w", err)
		}
		if err := s.syncDir(filepath.Dir(to)); err != nil {
			return err
		}
	}
	if err := s.do(actRemove, stage, func() error { return os.Remove(stage) }); err != nil {
		return fmt.Errorf("putting jobs in place: %w", err)
	}
	return s.syncDir(sink.StagePath(s.dir))
}

// unfinished reports whether a writer died, or is at work.
func (s *store) unfinished() bool {
	for _, name := range []string{stageNew, stageCommit} {
		if _, err := os.Stat(s.stage(name)); err == nil {
			return true
		}
	}
	return false
}

// resume finishes or undoes what a writer left that died. The caller holds the lock.
func (s *store) resume() error {
	if err := s.discard(); err != nil {
		return err
	}
	if _, err := os.Stat(s.stage(stageCommit)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dates, err := Dates(s.dir)
	if err != nil {
		return err
	}
	for _, date := range dates { // one of them may have its new file, and not durably
		if err := s.syncDir(filepath.Dir(Path(s.dir, date))); err != nil {
			return err
		}
	}
	return s.finish()
}

// discard removes files that were not committed.
func (s *store) discard() error {
	stage := s.stage(stageNew)
	if _, err := os.Stat(stage); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := s.do(actRemove, stage, func() error { return os.RemoveAll(stage) }); err != nil {
		return fmt.Errorf("removing jobs that were not committed: %w", err)
	}
	return nil
}
