package jobs

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
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
	jobsDir = "jobs"

	// version is the version of the columns and keys. A weir that knows fewer columns must not rewrite the file without
	// the others. Before version 3, a namesake replaced the row of the earlier job.
	version = 3

	groupRows = 8 << 10 // in memory while they are written
	batchRows = 64
	maxHashes = 4 << 10 // of ids in a footer
)

// ErrBadFile is the error of a file of jobs that is damaged, or that no weir wrote.
var ErrBadFile = errors.New("not a file of jobs")

var errNewer = errors.New("a newer weir wrote it: upgrade this one")

// Path returns the file with the jobs that ended on a date, of the archive in dir.
func Path(dir, date string) string { return sink.Dated{Dir: dir, Table: jobsDir}.Path(date) }

// Dates returns the dates that have a file of jobs, oldest first.
func Dates(dir string) (dates []string, err error) {
	return sink.Dated{Dir: dir, Table: jobsDir}.Dates()
}

// file is an open file of jobs.
type file struct {
	*sink.Table
	path    string
	topic   string
	topicID string // empty if the broker had none
	index
}

// open opens a file and reads its footer.
func open(path string) (*file, error) {
	t, err := sink.OpenTable(path, schema())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fault(path, err)
	}
	f := &file{Table: t, path: path}
	if err := f.footer(); err != nil {
		_ = t.Close()
		return nil, fault(path, err)
	}
	return f, nil
}

// fault returns the error, with its remedy, of a file that cannot be read.
func fault(path string, err error) error {
	var system *fs.PathError
	switch {
	case errors.Is(err, errNewer), errors.As(err, &system):
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%w: %s: %w: bring it back from a copy, or move it away", ErrBadFile, path, err)
}

func (f *file) footer() error {
	text := func(key string) string { v, _ := f.Lookup(key); return v }
	v, err := strconv.Atoi(text("weir.jobs"))
	switch {
	case err != nil || v < 1:
		return errors.New("weir.jobs is not a version")
	case v > version:
		return errNewer
	}
	if f.rows, err = strconv.ParseInt(text("weir.rows"), 10, 64); err != nil || f.rows != f.Rows() {
		return errors.New("weir.rows is not the number of its rows")
	}
	f.topic, f.topicID = text("weir.topic"), text("weir.topic_id")
	f.first, f.last = text("weir.first_job"), text("weir.last_job")
	f.hashes, err = base64.StdEncoding.DecodeString(text("weir.job_hashes"))
	return err
}

// each calls fn with every row in order. A row is valid until the next call.
func (f *file) each(fn func(*Row) error) error {
	if err := f.walk(fn); err != nil {
		return fault(f.path, err)
	}
	return nil
}

func (f *file) walk(fn func(*Row) error) (err error) {
	defer sink.Recovered(&err)
	p, err := f.Columns()
	if err != nil {
		return err
	}
	r := parquet.NewGenericReader[Row](p)
	defer func() { err = errors.Join(err, r.Close()) }()
	before, found := Row{}, index{}
	for {
		batch := make([]Row, batchRows)
		got, err := r.Read(batch)
		for i := range batch[:got] {
			row := &batch[i]
			if found.rows > 0 && before.key().compare(row.key()) >= 0 {
				return fmt.Errorf("row %d is not behind the row before it", found.rows)
			}
			found.add(row.JobID)
			if err := fn(row); err != nil {
				return err
			}
			before = *row
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading rows: %w", err)
		}
	}
	if found = found.complete(); found.rows != f.rows || found.first != f.first || found.last != f.last ||
		!bytes.Equal(found.hashes, f.hashes) {
		return fmt.Errorf("its %d rows are not those that its footer names", found.rows)
	}
	return nil
}

// of returns the rows of the jobs with these ids. It reads rows only of files that have one of them.
func (f *file) of(ids map[string]bool) (rows []Row, err error) {
	if !f.mayHave(ids) {
		return nil, nil
	}
	if rows, err = f.find(ids); err != nil {
		return nil, fault(f.path, err)
	}
	return rows, nil
}

func (f *file) find(ids map[string]bool) (rows []Row, err error) {
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
	var at []int64
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
	if len(at) == 0 {
		return nil, nil
	}
	if p, err = f.Columns(); err != nil { // all of them are looked at now
		return nil, err
	}
	r := parquet.NewGenericReader[Row](p)
	defer func() { err = errors.Join(err, r.Close()) }()
	rows = make([]Row, len(at))
	next := int64(-1)
	for i, n := range at {
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

// idsIn returns the indexes of the values of a column that are in the set. It reads no column whose statistics exclude
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

// sameTopic reports whether positions of a file are offsets of the topic.
func (f *file) sameTopic(topic, id string) bool {
	return f.topic == topic && kafka.SameTopic(f.topicID, id)
}
