package sink

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirhpc/weir/schemas"
)

// The actions on the disk, in the order of a commit.
const (
	actMakeDir = "mkdir"
	actCreate  = "create"
	actWrite   = "write"
	actSync    = "sync"
	actClose   = "close"
	actLink    = "link"
	actSyncDir = "sync_dir"
	actRemove  = "remove"
)

// archive is the directory of a topic's files.
type archive struct {
	root  string // <sink.dir>/summaries
	topic string
	host  string
	// damaged holds an error for each file that tails could not read and did not need.
	damaged []error
	// made holds the dates whose directory this process knows to be durable.
	made map[string]bool
	// before is called ahead of each action on the disk and may fail in its place. It is nil outside tests.
	before func(action, path string) error
}

// do runs an action on the disk.
func (a *archive) do(action, path string, run func() error) error {
	if a.before != nil {
		if err := a.before(action, path); err != nil {
			return err
		}
	}
	return run()
}

func (a *archive) dateDir(date string) string { return filepath.Join(a.root, datePrefix+date) }

// tails verifies the chain of every partition, makes its end durable and returns it.
func (a *archive) tails() (map[int32]tail, error) {
	found, oldest, err := chains(a.root, a.topic)
	if err != nil {
		return nil, err
	}
	ends := map[int32]tail{}
	a.damaged = nil
	for partition, links := range found {
		holes, err := check(links, oldest)
		if err != nil {
			return nil, err
		}
		if len(holes) > 0 {
			return nil, fmt.Errorf("%w; if it is lost for good, accept that with `weir sink accept-gap %d`",
				holes[0].err(), partition)
		}
		last := links[len(links)-1]
		if last.fault != nil {
			return nil, lostEnd(last)
		}
		for _, l := range links {
			if l.fault != nil {
				a.damaged = append(a.damaged, l.fault)
			}
		}
		// Its sink may have died between link and fsync, and the next link must not outlive this one.
		if err := a.syncDir(a.dateDir(last.date)); err != nil {
			return nil, err
		}
		ends[partition] = tail{last.next, last.date, last.topicID}
	}
	return ends, nil
}

// lostEnd returns the error, with its remedy, of a chain whose last file is damaged.
func lostEnd(last link) error {
	return fmt.Errorf("%w; it is the last of its partition and says where to go on: "+
		"if there is no copy, move it away, and its records are read again", last.fault)
}

// follow goes on from t over the files of other sinks, and makes the last of them durable.
func (a *archive) follow(partition int32, t tail) (tail, error) {
	for {
		date, err := a.find(partition, t.next)
		if err != nil {
			return tail{}, err
		}
		if date == "" {
			return t, a.syncDir(a.dateDir(t.date))
		}
		f, err := readLink(a.topic, partition, t.next, a.path(date, partition, t.next))
		if err != nil {
			return tail{}, err
		}
		t = tail{f.Next, date, f.TopicID}
	}
}

func (a *archive) path(date string, partition int32, start int64) string {
	return filepath.Join(a.dateDir(date), fileName(a.topic, partition, start))
}

// find returns the date of a partition's file with this start, or "" if there is none.
func (a *archive) find(partition int32, start int64) (string, error) {
	dates, err := listDates(a.root)
	if err != nil {
		return "", err
	}
	for _, date := range dates {
		switch _, err := os.Lstat(a.path(date, partition, start)); {
		case err == nil:
			return date, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("looking for a file of the chain: %w", err)
		}
	}
	return "", nil
}

// commit adds a file to the chain. Once it returns nil, the whole file is there, and stays. It returns errTaken if
// another sink was first. After any other error the final name has the whole file or none, and the caller may try
// again.
func (a *archive) commit(date string, rows []schemas.Row, f Footer) error {
	// link(2) compares names in one directory only. All sinks choose the same one. But accept-gap does not know their
	// drafts, and may choose another.
	switch there, err := a.find(f.Partition, f.Start); {
	case err != nil:
		return err
	case there != "":
		return errTaken
	}
	if err := a.makeDate(date); err != nil {
		return err
	}
	dir, final := a.dateDir(date), a.path(date, f.Partition, f.Start)
	temp := a.tempPath(dir)
	err := a.write(temp, rows, &f)
	if err == nil {
		err = a.link(temp, final)
	}
	if err == nil {
		err = a.syncDir(dir)
	}
	// The commit is decided by now. A temporary file that stays is removed at a later start.
	_ = a.do(actRemove, temp, func() error { return os.Remove(temp) })
	return err
}

// link gives a finished file its name. Unlike a rename, it fails where the name is taken: so of two sinks one wins, and
// no file is replaced.
func (a *archive) link(temp, final string) error {
	err := a.do(actLink, final, func() error { return os.Link(temp, final) })
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
	err := a.do(actMakeDir, dir, func() error { return os.Mkdir(dir, 0o755) })
	switch {
	case errors.Is(err, fs.ErrExist) && a.made[date]:
		return nil
	case err != nil && !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("making a date's directory: %w", err)
	}
	if err := a.syncDir(a.root); err != nil { // another sink may have made it just now
		return err
	}
	a.made[date] = true
	return nil
}

// write writes and syncs a temporary file.
func (a *archive) write(temp string, rows []schemas.Row, f *Footer) (err error) {
	var file *os.File
	err = a.do(actCreate, temp, func() error {
		file, err = os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		return err
	})
	if err != nil {
		return fmt.Errorf("making a file of the archive: %w", err)
	}
	defer func() {
		if closed := a.do(actClose, temp, file.Close); err == nil && closed != nil {
			err = fmt.Errorf("closing %s: %w", temp, closed)
		}
	}()
	buffered := bufio.NewWriterSize(writerFunc(func(b []byte) (n int, err error) {
		err = a.do(actWrite, temp, func() error { n, err = file.Write(b); return err })
		return n, err
	}), 256<<10)
	if err := encode(buffered, rows, f); err != nil {
		return fmt.Errorf("writing %s: %w", temp, err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", temp, err)
	}
	if err := a.do(actSync, temp, file.Sync); err != nil {
		return fmt.Errorf("syncing %s: %w", temp, err)
	}
	return nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// syncDir makes the names in a directory durable.
func (a *archive) syncDir(dir string) error {
	return a.do(actSyncDir, dir, func() error {
		d, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("syncing a directory: %w", err)
		}
		err = d.Sync()
		if closed := d.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("syncing %s: %w", dir, err)
		}
		return nil
	})
}
