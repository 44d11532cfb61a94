package table

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/sink"
)

const (
	groupRows = 8 << 10 // in memory while they are written
	maxHashes = 4 << 10 // of ids in a footer
)

// index summarizes the ids in a file. The footer stores it.
type index struct {
	rows        int64
	first, last string
	hashes      []byte // of all ids, four bytes each; empty if there are too many, or if the table does not keep them
}

// hashOf returns the hash of a job's id in a footer.
func hashOf(id string) uint32 { return crc32.ChecksumIEEE([]byte(id)) }

// add adds the id of the next row.
func (x *index) add(id string) {
	if x.rows == 0 {
		x.first = id
	}
	if (x.rows == 0 || x.last != id) && len(x.hashes) <= 4*maxHashes {
		x.hashes = binary.LittleEndian.AppendUint32(x.hashes, hashOf(id))
	}
	x.rows, x.last = x.rows+1, id
}

// complete returns the index behind the last row.
func (x *index) complete(hashes bool) index {
	if len(x.hashes) > 4*maxHashes || !hashes {
		x.hashes = nil
	}
	return *x
}

// mayHave returns false if the file certainly contains none of the jobs.
func (x *index) mayHave(ids map[string]bool) bool {
	hashes := map[uint32]bool{}
	for id := range ids {
		if x.first <= id && id <= x.last {
			hashes[hashOf(id)] = true
		}
	}
	if len(hashes) == 0 || len(x.hashes) == 0 {
		return len(hashes) > 0
	}
	for i := 0; i+4 <= len(x.hashes); i += 4 {
		if hashes[binary.LittleEndian.Uint32(x.hashes[i:])] {
			return true
		}
	}
	return false
}

// file is an open file of a table.
type file[R any] struct {
	*sink.Table
	table   *Table[R]
	path    string
	topic   string
	topicID string // empty if the broker had none
	index
}

// open opens a file and reads its footer.
func (t *Table[R]) open(path string) (*file[R], error) {
	in, err := sink.OpenTable(path, t.schema())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, t.fault(path, err)
	}
	f := &file[R]{Table: in, table: t, path: path}
	if err := f.footer(); err != nil {
		_ = in.Close()
		return nil, t.fault(path, err)
	}
	return f, nil
}

// fault returns the error, with its remedy, of a file that cannot be read.
func (t *Table[R]) fault(path string, err error) error {
	var system *fs.PathError
	switch {
	case errors.Is(err, errNewer), errors.As(err, &system):
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%w of %s: %s: %w: bring it back from a copy, or move it away", ErrBadFile, t.Name, path, err)
}

func (f *file[R]) footer() error {
	text := func(key string) string { v, _ := f.Lookup("weir." + key); return v }
	v, err := strconv.Atoi(text(f.table.Name))
	switch {
	case err != nil || v < 1:
		return fmt.Errorf("weir.%s is not a version", f.table.Name)
	case v > f.table.Version:
		return errNewer
	}
	if f.rows, err = strconv.ParseInt(text("rows"), 10, 64); err != nil || f.rows != f.Rows() {
		return errors.New("weir.rows is not the number of its rows")
	}
	f.topic, f.topicID = text("topic"), text("topic_id")
	f.first, f.last = text("first_job"), text("last_job")
	if f.table.Hashes {
		f.hashes, err = base64.StdEncoding.DecodeString(text("job_hashes"))
	}
	return err
}

// sameTopic reports whether positions of the file are offsets of the topic.
func (f *file[R]) sameTopic(topic, id string) bool {
	return f.topic == topic && kafka.SameTopic(f.topicID, id)
}

// each calls fn with every row in order. A row is valid until the next call.
func (f *file[R]) each(fn func(*R) error) error {
	var before Key
	var found index
	err := eachRow(f, nil, func(r *R) error {
		k := f.table.Key(r)
		if found.rows > 0 && before.Compare(k) >= 0 {
			return fmt.Errorf("row %d is not behind the row before it", found.rows)
		}
		before = k
		found.add(k.JobID)
		return fn(r)
	})
	if found = found.complete(f.table.Hashes); err == nil && (found.rows != f.rows || found.first != f.first ||
		found.last != f.last || !bytes.Equal(found.hashes, f.hashes)) {
		err = fmt.Errorf("its %d rows are not those that its footer names", found.rows)
	}
	if err != nil {
		return f.table.fault(f.path, err)
	}
	return nil
}

// eachRow calls fn with every row of a file, in the columns of C.
func eachRow[C, R any](f *file[R], names []string, fn func(*C) error) error {
	p, err := f.Columns(names...)
	if err != nil {
		return err
	}
	return sink.EachRow(p, fn)
}

// of returns the rows of the jobs with these ids. It reads no rows of a file without these ids.
func (f *file[R]) of(ids map[string]bool) (rows []R, err error) {
	if !f.mayHave(ids) {
		return nil, nil
	}
	at, err := f.find(ids)
	if err == nil && len(at) > 0 {
		rows, err = f.at(at)
	}
	if err != nil {
		return nil, f.table.fault(f.path, err)
	}
	return rows, nil
}

// find returns the indexes of the rows of some jobs.
func (f *file[R]) find(ids map[string]bool) (at []int64, err error) {
	defer sink.Recovered(&err)
	const column = "job_id"
	p, err := f.Columns(column)
	if err != nil {
		return nil, err
	}
	leaf, ok := p.Schema().Lookup(column)
	if !ok {
		return nil, errors.New("it has no column job_id")
	}
	start := int64(0)
	for _, g := range p.RowGroups() {
		rows, err := idsIn(g.ColumnChunks()[leaf.ColumnIndex], ids)
		if err != nil {
			return nil, err
		}
		for _, i := range rows {
			at = append(at, start+i)
		}
		start += g.NumRows()
	}
	return at, nil
}

// at returns the rows with these indexes.
func (f *file[R]) at(indexes []int64) (rows []R, err error) {
	defer sink.Recovered(&err)
	p, err := f.Columns()
	if err != nil {
		return nil, err
	}
	r := parquet.NewGenericReader[R](p)
	defer func() { err = errors.Join(err, r.Close()) }()
	rows = make([]R, len(indexes))
	next := int64(-1)
	for i, n := range indexes {
		if n != next {
			if err := r.SeekToRow(n); err != nil {
				return nil, fmt.Errorf("reading row %d: %w", n, err)
			}
		}
		if got, err := r.Read(rows[i : i+1]); got != 1 {
			return nil, fmt.Errorf("reading row %d: %w", n, err)
		}
		next = n + 1
	}
	return rows, nil
}

// idsIn returns the indexes of the values of a column that are in the set. It reads no column if its statistics exclude
// them.
func idsIn(chunk parquet.ColumnChunk, ids map[string]bool) (at []int64, err error) {
	if c, is := chunk.(*parquet.FileColumnChunk); is {
		least, most, known := c.Bounds()
		within := func(id string) bool {
			return string(least.ByteArray()) <= id && id <= string(most.ByteArray())
		}
		if known && !slices.ContainsFunc(slices.Collect(maps.Keys(ids)), within) {
			return nil, nil
		}
	}
	r := parquet.NewColumnChunkValueReader(chunk)
	defer func() { err = errors.Join(err, r.Close()) }()
	values := make([]parquet.Value, 128)
	for n := int64(0); ; {
		got, err := r.ReadValues(values)
		for i := range values[:got] {
			if ids[string(values[i].ByteArray())] {
				at = append(at, n+int64(i))
			}
		}
		n += int64(got)
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading column job_id: %w", err)
		}
	}
}
