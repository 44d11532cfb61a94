package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/weirhpc/weir/schemas"
)

// archive is the directory of a topic's files.
type archive struct {
	Disk
	root  string // <sink.dir>/summaries
	topic string
	host  string
	// damaged holds an error for each file that could not be read at the last look, and was not needed, by path.
	damaged map[string]error
	// made holds the dates whose directory this process knows to be durable.
	made map[string]bool
	// compacted caches the compacted files of each date, as of the last look at its directory.
	compacted map[string]compactedDate
}

// dir is sink.dir.
func (a *archive) dir() string { return filepath.Dir(a.root) }

func (a *archive) stage() string { return StagePath(a.dir()) }

func (a *archive) dateDir(date string) string { return filepath.Join(a.root, datePrefix+date) }

// tails verifies the chain of every partition, makes its end durable and returns it.
func (a *archive) tails() (ends map[int32]tail, err error) {
	err = a.shared(func() error { ends, err = a.lockedTails(); return err })
	return ends, err
}

// shared runs fn while no date is replaced.
func (a *archive) shared(fn func() error) error { return Shared(context.Background(), a.dir(), fn) }

func (a *archive) lockedTails() (map[int32]tail, error) {
	found, oldest, err := chains(a.root, a.topic)
	if err != nil {
		return nil, err
	}
	ends := map[int32]tail{}
	clear(a.damaged)
	for partition, links := range found {
		holes, err := check(links, oldest)
		if err != nil {
			return nil, err
		}
		if len(holes) > 0 {
			return nil, fmt.Errorf("%w; if it is lost for good, accept that with `weir sink accept-gap %d`",
				holes[0].err(), partition)
		}
		last, err := endOf(links)
		if err != nil {
			return nil, err
		}
		for _, l := range links {
			if l.fault != nil {
				a.damaged[l.path] = l.fault
			}
		}
		// Its sink may have died between link and fsync, and the next link must not outlive this one.
		if err := a.SyncDir(a.dateDir(last.date)); err != nil {
			return nil, err
		}
		ends[partition] = tail{last.next, last.date, last.topicID}
	}
	return ends, nil
}

func (a *archive) path(date string, partition int32, start int64) string {
	return filepath.Join(a.dateDir(date), fileName(a.topic, partition, start))
}

// commit adds a file to the chain. After it returns nil, the file is complete and durable. It returns errTaken if
// another sink was first. After any other error the final name holds the complete file or nothing, and the caller may
// try again.
func (a *archive) commit(date string, rows []schemas.Row, f Footer) error {
	return a.commitFile(date, f, func(w io.Writer, f *Footer) error { return encode(w, rows, f) })
}

// commitFile is commit for rows of any stream.
func (a *archive) commitFile(date string, f Footer, encode encodeFunc) error {
	// The lock spans the look and the fsync. Otherwise a compaction could come between them: the file would be linked
	// although a compacted file already holds its rows, or the fsync would reach the replaced directory.
	return a.shared(func() error { return a.lockedCommit(date, f, encode) })
}

// Appender returns a function that adds files with rows to the chain of the archive in dir, as a sink does.
func Appender(dir, topic string) (func(date string, rows []schemas.Row, f Footer) error, error) {
	a := newArchive(dir, topic, nil)
	if err := a.open(); err != nil {
		return nil, err
	}
	return func(date string, rows []schemas.Row, f Footer) error {
		sortRows(rows)
		return a.commit(date, rows, f)
	}, nil
}

// Append adds one file to the chain of the archive in dir, like a sink right after its start.
func Append(dir, topic, date string, rows []schemas.Row, f Footer) error {
	add, err := Appender(dir, topic)
	if err != nil {
		return err
	}
	return add(date, rows, f)
}

func (a *archive) lockedCommit(date string, f Footer, encode encodeFunc) error {
	// link(2) compares names in one directory only. All sinks choose the same one. But accept-gap does not know their
	// drafts, and may choose another.
	switch there, err := a.locate(f.Partition, f.Start); {
	case err != nil:
		return err
	case there != nil:
		return errTaken
	}
	if err := a.makeDate(date); err != nil {
		return err
	}
	dir, final := a.dateDir(date), a.path(date, f.Partition, f.Start)
	err := a.writeAndLink(a.stage(), final, &f, encode)
	if errors.Is(err, syscall.EXDEV) { // the date lies on another file system, behind a symbolic link
		err = a.writeAndLink(dir, final, &f, encode)
	}
	if err == nil {
		err = a.SyncDir(dir)
	}
	return err
}

// writeAndLink writes a temporary file in dir and links it to its final name.
func (a *archive) writeAndLink(dir, final string, f *Footer, encode encodeFunc) error {
	temp := a.tempPath(dir)
	err := a.WriteFile(temp, func(w io.Writer) error { return encode(w, f) })
	if err == nil {
		err = a.link(temp, final)
	}
	// The commit is decided by now. A temporary file that stays is removed at a later start.
	_ = a.Remove(temp)
	return err
}

// link gives a finished file its name. Unlike a rename, it fails if the name is taken. So only one of two sinks wins,
// and no file is replaced.
func (a *archive) link(temp, final string) error {
	err := a.Link(temp, final)
	if errors.Is(err, fs.ErrExist) {
		return errTaken
	}
	if err != nil {
		return fmt.Errorf("linking a file of the archive: %w", err)
	}
	return nil
}

// makeDate makes a date's directory, and makes its name durable.
func (a *archive) makeDate(date string) error {
	dir := a.dateDir(date)
	err := a.Do(ActMakeDir, dir, func() error { return os.Mkdir(dir, 0o755) })
	switch {
	case errors.Is(err, fs.ErrExist) && a.made[date]:
		return nil
	case err != nil && !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("making a date's directory: %w", err)
	}
	if err := a.SyncDir(a.root); err != nil { // another sink may have made it just now
		return err
	}
	a.made[date] = true
	return nil
}
