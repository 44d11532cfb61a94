package jobs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/weirhpc/weir/sink"
)

// writeFile writes the new file of a date: the rows of its present file, with the edit.
func (s *store) writeFile(path, date, topicID string, e *edit) (err error) {
	var out *os.File
	err = s.disk().Do(sink.ActCreate, path, func() error {
		out, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		return err
	})
	if err != nil {
		return fmt.Errorf("making a file of jobs: %w", err)
	}
	defer func() {
		if closed := out.Close(); err == nil && closed != nil {
			err = fmt.Errorf("closing %s: %w", path, closed)
		}
	}()
	buffered := bufio.NewWriterSize(sink.WriterFunc(func(b []byte) (n int, err error) {
		err = s.disk().Do(sink.ActWrite, path, func() error { n, err = out.Write(b); return err })
		return n, err
	}), 256<<10)
	w := newWriter(buffered)
	if err := s.copyRows(w, date, topicID, e); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := w.close(s.topic, topicID); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := s.disk().Do(sink.ActSync, path, out.Sync); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// copyRows merges the rows of a date's present file with those of the edit.
func (s *store) copyRows(w *writer, date, topicID string, e *edit) error {
	puts := slices.SortedFunc(maps.Keys(e.put), key.compare)
	put := func() error {
		row := e.put[puts[0]]
		puts = puts[1:]
		return w.add(&row)
	}
	f, err := open(Path(s.dir, date))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		defer func() { _ = f.Close() }() // only read
		same := f.sameTopic(s.topic, topicID)
		var failed error // not the present file's fault
		err = f.each(func(r *Row) error {
			k := r.key()
			for len(puts) > 0 && puts[0].compare(k) <= 0 && failed == nil {
				failed = put()
			}
			if _, replaced := e.put[k]; replaced || e.drop[k] || failed != nil {
				return failed
			}
			if !same {
				r.Position = earlier
			}
			failed = w.add(r)
			return failed
		})
		if failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
	for len(puts) > 0 {
		if err := put(); err != nil {
			return err
		}
	}
	return nil
}
