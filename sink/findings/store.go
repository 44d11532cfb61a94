package findings

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// lockWait is how long a writer waits for readers, who may hold the lock for long.
const lockWait = 10 * time.Second

// store is the findings of an archive.
type store struct {
	dir   string // sink.dir
	topic string
	// before is called ahead of each action on the disk, in tests.
	before func(action, path string) error
}

func (s *store) disk() sink.Dated { return sink.Dated{Dir: s.dir, Table: table, Before: s.before} }

// held is a finding in the archive: its place, the offset of its record, and when its job ran.
type held struct {
	key
	life     sink.Life
	date     string // empty: it is a record
	position int64
}

// edit says how the file of a date changes. Rows are put in, in place of those with the same key. Rows go that are in
// another file now.
type edit struct {
	put  map[key]Row
	drop map[key]bool
}

// plan returns how the files must change so that each finding of each job has one row, made of its newest record. has
// lists all rows of these rules and numbers in the files. A record replaces all older ones for the same life. A record
// that the archive contains already changes nothing.
func plan(has map[number][]held, records map[key]Row) map[string]*edit {
	of := map[number][]held{}
	for k, r := range records {
		if of[k.number] == nil {
			of[k.number] = slices.Clone(has[k.number])
		}
		of[k.number] = append(of[k.number], held{k, r.life(), "", r.Position})
	}
	edits := map[string]*edit{}
	at := func(date string) *edit {
		if edits[date] == nil {
			edits[date] = &edit{put: map[key]Row{}, drop: map[key]bool{}}
		}
		return edits[date]
	}
	for _, all := range of {
		slices.SortFunc(all, newestFirst)
		for i, h := range all {
			old := slices.ContainsFunc(all[:i], func(newer held) bool { return newer.life.Same(h.life) })
			switch r := records[h.key]; {
			case old && h.date != "":
				at(h.date).drop[h.key] = true
			case !old && h.date == "":
				at(r.date()).put[h.key] = r
			}
		}
	}
	return edits
}

// newestFirst orders rows and records of one number. Of one record's row and the record itself, the row comes first.
func newestFirst(a, b held) int {
	return cmp.Or(cmp.Compare(b.position, a.position), cmp.Compare(b.date, a.date), cmp.Compare(b.from, a.from))
}

// write brings the files up to date with the newest record of each finding. It waits at most wait for other writers,
// and for readers if rows move. bad lists the dates with an unusable file, and why. These files stay as they are, and
// the findings of these dates are not written.
func (s *store) write(
	ctx context.Context, wait time.Duration, topicID string, records map[key]Row,
) (bad map[string]error, err error) {
	defer sink.Recovered(&err)
	// Nearly always there is nothing to do after a start, and nobody has to wait for that.
	before := s.look()
	edits, bad, err := s.planned(ctx, topicID, records)
	if err != nil || len(edits) == 0 && !s.disk().Unfinished() {
		return bad, err
	}
	lock, err := s.disk().Lock(ctx, wait)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := s.disk().Resume(ctx, wait); err != nil {
		return nil, err
	}
	if !maps.EqualFunc(before, s.look(), sink.SameFile) { // another sink wrote, or a date came back
		if edits, bad, err = s.planned(ctx, topicID, records); err != nil {
			return nil, err
		}
	}
	if len(edits) == 0 {
		return bad, nil
	}
	loses := map[string]bool{}
	for date, e := range edits {
		loses[date] = len(e.drop) > 0 && len(edits) > 1
	}
	return bad, s.disk().Commit(ctx, wait, loses, func(path, date string) error {
		return s.writeFile(path, date, topicID, edits[date])
	})
}

// look returns the files of all dates as they are now.
func (s *store) look() map[string]fs.FileInfo {
	files := map[string]fs.FileInfo{}
	dates, _ := s.disk().Dates() // planned returns the error
	for _, date := range dates {
		if info, err := os.Stat(s.disk().Path(date)); err == nil {
			files[date] = info
		}
	}
	return files
}

// planned looks at the files, and returns how they change. It reads each file that may have one of the findings, or
// that one belongs to. So all files that change can be used.
func (s *store) planned(ctx context.Context, topicID string, records map[key]Row) (
	edits map[string]*edit, bad map[string]error, err error,
) {
	dates, err := s.disk().Dates()
	if err != nil {
		return nil, nil, err
	}
	jobs, homes, asked := map[string]bool{}, map[string]bool{}, map[number]bool{}
	for k, r := range records {
		jobs[k.jobID], homes[r.date()], asked[k.number] = true, true, true
	}
	has, bad := map[number][]held{}, map[string]error{}
	for _, date := range dates {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		err := s.read(date, topicID, func(f *file) bool { return homes[date] || f.mayHave(jobs) }, func(r *Row) {
			if k := r.key(); asked[k.number] {
				has[k.number] = append(has[k.number], held{k, r.life(), date, r.Position})
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			bad[date] = err
		}
	}
	good := records
	if len(bad) > 0 {
		good = maps.Clone(records)
		maps.DeleteFunc(good, func(_ key, r Row) bool { return bad[r.date()] != nil })
		for n := range has {
			has[n] = slices.DeleteFunc(has[n], func(h held) bool { return bad[h.date] != nil })
		}
	}
	return plan(has, good), bad, nil
}

// read calls fn with the rows of a date's file, if it is wanted. Rows of another topic have position sink.Earlier.
func (s *store) read(date, topicID string, wanted func(*file) bool, fn func(*Row)) error {
	f, err := open(s.disk().Path(date))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if !wanted(f) {
		return nil
	}
	same := f.sameTopic(s.topic, topicID)
	return f.each(func(r *Row) error {
		if r.date() != date {
			return fmt.Errorf("%s belongs to %s", r.key(), r.date())
		}
		if !same {
			r.Position = sink.Earlier
		}
		fn(r)
		return nil
	})
}

// writeFile writes the new file of a date: the rows of its present file, with the edit.
func (s *store) writeFile(path, date, topicID string, e *edit) (err error) {
	var out *os.File
	err = s.disk().Do(sink.ActCreate, path, func() error {
		out, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		return err
	})
	if err != nil {
		return fmt.Errorf("making a file of findings: %w", err)
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
	if err = s.copyRows(w, date, topicID, e); err == nil {
		err = cmp.Or(w.close(s.topic, topicID), buffered.Flush())
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := s.disk().Do(sink.ActSync, path, out.Sync); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}

// copyRows merges the rows of a date's present file with the rows of the edit.
func (s *store) copyRows(w *writer, date, topicID string, e *edit) error {
	puts := slices.SortedFunc(maps.Keys(e.put), key.compare)
	var failed error // not the present file's fault
	put := func() {
		row := e.put[puts[0]]
		puts, failed = puts[1:], w.add(&row)
	}
	err := s.read(date, topicID, func(*file) bool { return true }, func(r *Row) {
		k := r.key()
		for len(puts) > 0 && puts[0].compare(k) <= 0 && failed == nil {
			put()
		}
		if _, replaced := e.put[k]; !replaced && !e.drop[k] && failed == nil {
			failed = w.add(r)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(failed, err)
	}
	for len(puts) > 0 && failed == nil {
		put()
	}
	return failed
}

// Write writes the final ones of some findings into the archive in dir, as a sink does that has read their records.
// Their places in the slice are their offsets. It fails if the file of one of their dates cannot be used.
func Write(ctx context.Context, dir, topic string, records []schemas.Finding) error {
	rows := map[key]Row{}
	for offset := range records {
		if r, final := rowOf(&records[offset], int64(offset)); final {
			rows[r.key()] = r
		}
	}
	s := store{dir: dir, topic: topic}
	bad, err := s.write(ctx, lockWait, "", rows)
	for _, r := range rows {
		err = cmp.Or(err, bad[r.date()])
	}
	return err
}
