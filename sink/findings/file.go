package findings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/kafka"
	"github.com/weirhpc/weir/sink"
)

const (
	table = "findings"

	// version is the version of the columns and keys. A weir that knows fewer columns must not rewrite the file without
	// the others. Before version 2, findings of a namesake replaced the rows of the earlier job.
	version = 2

	groupRows = 8 << 10 // in memory while they are written
	batchRows = 64
)

// ErrBadFile is the error of a file of findings that is damaged, or that no weir wrote.
var ErrBadFile = errors.New("not a file of findings")

var errNewer = errors.New("a newer weir wrote it: upgrade this one")

// compression is shared by all writers: an encoder takes megabytes.
var compression = &zstd.Codec{Level: zstd.SpeedFastest}

// Path returns the file with the findings of a date, of the archive in dir.
func Path(dir, date string) string { return sink.Dated{Dir: dir, Table: table}.Path(date) }

// Dates returns the dates that have a file of findings, oldest first.
func Dates(dir string) (dates []string, err error) { return sink.Dated{Dir: dir, Table: table}.Dates() }

// Stat returns how many findings the file of a date claims to have, and its size. It reads the footer alone.
func Stat(dir, date string) (findings, bytes int64, err error) {
	path := Path(dir, date)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("looking for findings: %w", err)
	}
	f, err := open(path)
	if err != nil {
		return 0, info.Size(), err
	}
	return f.Rows(), info.Size(), f.Close()
}

// Each calls fn with every finding of a date, in order. A row is valid until the next call. Every page must match its
// checksum. The rows must be in order, of this date, and as many as the footer says.
func Each(dir, date string, fn func(*Row) error) error {
	f, err := open(Path(dir, date))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	var stopped error                // which is not the file's fault
	err = f.each(func(r *Row) error {
		if r.date() != date {
			return fmt.Errorf("%s belongs to %s", r.key(), r.date())
		}
		stopped = fn(r)
		return stopped
	})
	return cmp.Or(stopped, err)
}

// file is an open file of findings.
type file struct {
	*sink.Table
	path           string
	topic, topicID string // the id is empty if the broker had none
	first, last    string // ids of jobs
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
	v, err := strconv.Atoi(text("weir.findings"))
	switch {
	case err != nil || v < 1:
		return errors.New("weir.findings is not a version")
	case v > version:
		return errNewer
	}
	if rows, err := strconv.ParseInt(text("weir.rows"), 10, 64); err != nil || rows != f.Rows() {
		return errors.New("weir.rows is not the number of its rows")
	}
	f.topic, f.topicID = text("weir.topic"), text("weir.topic_id")
	f.first, f.last = text("weir.first_job"), text("weir.last_job")
	return nil
}

// sameTopic reports whether positions of the file are offsets of the topic.
func (f *file) sameTopic(topic, id string) bool {
	return f.topic == topic && kafka.SameTopic(f.topicID, id)
}

// mayHave returns false if the file has findings of none of these jobs.
func (f *file) mayHave(jobs map[string]bool) bool {
	for id := range jobs {
		if f.first <= id && id <= f.last {
			return true
		}
	}
	return false
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
	before, n := key{}, int64(0)
	for {
		batch := make([]Row, batchRows)
		got, err := r.Read(batch)
		for i := range batch[:got] {
			k := batch[i].key()
			if n > 0 && before.compare(k) >= 0 {
				return fmt.Errorf("row %d is not behind the row before it", n)
			}
			if k.jobID < f.first || k.jobID > f.last {
				return fmt.Errorf("row %d is of job %s, which the footer does not name", n, k.jobID)
			}
			if err := fn(&batch[i]); err != nil {
				return err
			}
			before, n = k, n+1
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading rows: %w", err)
		}
	}
	if n != f.Rows() {
		return fmt.Errorf("%d rows where its footer names %d", n, f.Rows())
	}
	return nil
}

// writer writes rows, which come in order.
type writer struct {
	out         *parquet.GenericWriter[Row]
	rows        int
	first, last string // ids of jobs
}

func newWriter(w io.Writer) *writer {
	return &writer{out: parquet.NewGenericWriter[Row](w,
		parquet.Compression(compression),
		parquet.CreatedBy("weir", strconv.Itoa(version), sink.Build()),
		parquet.MaxRowsPerRowGroup(groupRows),
	)}
}

func (w *writer) add(r *Row) error {
	if w.rows == 0 {
		w.first = r.JobID
	}
	w.rows, w.last = w.rows+1, r.JobID
	if _, err := w.out.Write([]Row{*r}); err != nil {
		return fmt.Errorf("writing a finding: %w", err)
	}
	return nil
}

// close ends the file with its footer.
func (w *writer) close(topic, topicID string) error {
	for _, pair := range [][2]string{
		{"weir.findings", strconv.Itoa(version)},
		{"weir.topic", topic},
		{"weir.topic_id", topicID},
		{"weir.rows", strconv.Itoa(w.rows)},
		{"weir.first_job", w.first},
		{"weir.last_job", w.last},
	} {
		w.out.SetKeyValueMetadata(pair[0], pair[1])
	}
	return w.out.Close()
}

// schema is the schema of a file: that of an empty one.
var schema = sync.OnceValue(func() sink.Schema {
	var b bytes.Buffer
	err := newWriter(&b).close("", "")
	if err == nil {
		var s sink.Schema
		if s, err = sink.SchemaOf(b.Bytes()); err == nil {
			return s
		}
	}
	panic(err) // this cannot fail once the tests have passed
})
