package table

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/sink"
)

// lockWait is how long a writer waits for readers, who may hold the lock for long.
const lockWait = 10 * time.Second

// Store is a table in an archive, and the topic that its rows come from.
type Store[R any] struct {
	Dated
	Topic string
	table *Table[R]
}

// In returns the table in the archive in dir.
func (t *Table[R]) In(dir, topic string) *Store[R] {
	return &Store[R]{Dated{Dir: dir, Name: t.Name}, topic, t}
}

// Write brings the files up to date with the newest record of each row. It waits at most wait for other writers, and
// for readers if rows move. bad lists the dates with an unusable file, and why. These files stay as they are, and the
// records of these dates are not written.
func (s *Store[R]) Write(
	ctx context.Context, wait time.Duration, topicID string, records map[Key]R,
) (bad map[string]error, err error) {
	defer sink.Recovered(&err)
	// Nearly always there is nothing to do after a start, and nobody has to wait for that.
	found, err := s.look(ctx, topicID, records, nil)
	if err != nil {
		return nil, err
	}
	if len(s.planned(found, records)) == 0 && !s.Unfinished() {
		return badOf(found), nil
	}
	lock, err := s.Lock(ctx, wait)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	if err := s.Resume(ctx, wait); err != nil {
		return nil, err
	}
	if found, err = s.look(ctx, topicID, records, found); err != nil { // another sink wrote, or a date came back
		return nil, err
	}
	edits := s.planned(found, records)
	if len(edits) == 0 {
		return badOf(found), nil
	}
	loses := map[string]bool{}
	for date, e := range edits {
		loses[date] = len(e.drop) > 0 && len(edits) > 1
	}
	return badOf(found), s.Commit(ctx, wait, loses, func(path, date string) error {
		return s.writeFile(path, date, topicID, edits[date])
	})
}

// look looks for the jobs of records in the files of all dates. It reads files again only if they are others than
// before.
func (s *Store[R]) look(ctx context.Context, topicID string, records map[Key]R, before seen[held],
) (seen[held], error) {
	ids := map[string]bool{}
	for k := range records {
		ids[k.JobID] = true
	}
	return look(ctx, s.table, s.Dir, before, func(f *file[R], date string) (all []held, err error) {
		rows, err := f.of(ids)
		for i := range rows {
			if err := s.table.belongs(&rows[i], date); err != nil {
				return nil, s.table.fault(f.path, err)
			}
			s.reposition(f, topicID, &rows[i])
			all = append(all, s.table.held(&rows[i], date))
		}
		return all, err
	})
}

// reposition gives a row of another topic the position Earlier.
func (s *Store[R]) reposition(f *file[R], topicID string, r *R) {
	if !f.sameTopic(s.Topic, topicID) {
		*s.table.Position(r) = Earlier
	}
}

// badOf returns the dates with a file that cannot be used.
func badOf[T any](found seen[T]) map[string]error {
	bad := map[string]error{}
	for date, f := range found {
		if f.err != nil {
			bad[date] = f.err
		}
	}
	return bad
}

// planned returns how files change. It leaves out dates with a damaged file, and notes that.
func (s *Store[R]) planned(found seen[held], records map[Key]R) map[string]*edit[R] {
	for {
		good := records
		if bad := badOf(found); len(bad) > 0 {
			good = maps.Clone(records)
			maps.DeleteFunc(good, func(_ Key, r R) bool { return bad[s.table.Date(&r)] != nil })
		}
		var rows []held
		for _, f := range found {
			rows = append(rows, f.rows...)
		}
		edits := s.table.plan(rows, good)
		fine := true
		for date := range edits {
			f := found[date]
			if f == nil || f.whole {
				continue
			}
			if _, err := s.table.Check(s.Dir, date); err != nil {
				f.err, f.rows, fine = err, nil, false
			}
			f.whole = true
		}
		if fine {
			return edits
		}
	}
}

// writeFile writes the new file of a date: the rows of its present file, with the edit.
func (s *Store[R]) writeFile(path, date, topicID string, e *edit[R]) error {
	return s.WriteFile(path, func(out io.Writer) error {
		w := s.table.writer(out)
		if err := s.copyRows(w, date, topicID, e); err != nil {
			return err
		}
		return w.close(s.Topic, topicID)
	})
}

// copyRows merges the rows of a date's present file with the rows of the edit.
func (s *Store[R]) copyRows(w *writer[R], date, topicID string, e *edit[R]) error {
	puts := slices.SortedFunc(maps.Keys(e.put), Key.Compare)
	var failed error // not the present file's fault
	put := func() {
		row := e.put[puts[0]]
		puts, failed = puts[1:], w.add(&row)
	}
	f, err := s.table.open(s.Path(date))
	if err == nil {
		defer func() { _ = f.Close() }() // only read
		err = f.each(func(r *R) error {
			k := s.table.Key(r)
			for len(puts) > 0 && puts[0].Compare(k) <= 0 && failed == nil {
				put()
			}
			if _, replaced := e.put[k]; !replaced && !e.drop[k] && failed == nil {
				s.reposition(f, topicID, r)
				failed = w.add(r)
			}
			return failed
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(failed, err)
	}
	for len(puts) > 0 && failed == nil {
		put()
	}
	return failed
}

// compression is shared by all writers: an encoder takes megabytes.
var compression = &zstd.Codec{Level: zstd.SpeedFastest}

// writer writes rows in the order in which they come.
type writer[R any] struct {
	out   *parquet.GenericWriter[R]
	table *Table[R]
	index
}

func (t *Table[R]) writer(w io.Writer) *writer[R] {
	return &writer[R]{table: t, out: parquet.NewGenericWriter[R](w,
		parquet.Compression(compression),
		parquet.CreatedBy("weir", strconv.Itoa(t.Version), sink.Build()),
		parquet.MaxRowsPerRowGroup(groupRows),
	)}
}

func (w *writer[R]) add(r *R) error {
	w.index.add(w.table.Number(r).JobID)
	if _, err := w.out.Write([]R{*r}); err != nil {
		return fmt.Errorf("writing a row of %s: %w", w.table.Name, err)
	}
	return nil
}

// close ends the file with its footer.
func (w *writer[R]) close(topic, topicID string) error {
	x := w.complete(w.table.Hashes)
	for _, pair := range [][2]string{
		{w.table.Name, strconv.Itoa(w.table.Version)},
		{"topic", topic},
		{"topic_id", topicID},
		{"rows", strconv.FormatInt(x.rows, 10)},
		{"first_job", x.first},
		{"last_job", x.last},
	} {
		w.out.SetKeyValueMetadata("weir."+pair[0], pair[1])
	}
	if w.table.Hashes {
		w.out.SetKeyValueMetadata("weir.job_hashes", base64.StdEncoding.EncodeToString(x.hashes))
	}
	return w.out.Close()
}

// emptySchema returns the schema of a file without rows.
func (t *Table[R]) emptySchema() sink.Schema {
	var b bytes.Buffer
	err := t.writer(&b).close("", "")
	if err == nil {
		var s sink.Schema
		if s, err = sink.SchemaOf(b.Bytes()); err == nil {
			return s
		}
	}
	panic(err) // this cannot fail once the tests have passed
}
