package archive

import (
	"fmt"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/weirhpc/weir/sink"
)

// file is an open file of the archive.
type file struct {
	*parquet.File
	disk *os.File
	path string
}

func open(path string) (f *file, err error) {
	f = &file{path: path}
	if f.disk, err = sink.OpenRegular(path, os.O_RDONLY); err != nil {
		return nil, fmt.Errorf("opening a file of the archive: %w", err)
	}
	info, err := f.disk.Stat()
	if err == nil {
		err = f.guard(func() error {
			f.File, err = parquet.OpenFile(f.disk, info.Size(), parquet.SkipPageIndex(true),
				parquet.SkipBloomFilters(true), parquet.SkipMagicBytes(true))
			return err
		})
	}
	if err != nil {
		f.close()
		return nil, f.fault(err)
	}
	return f, nil
}

func (f *file) close() { _ = f.disk.Close() } // it was only read

// fault names the file of an error, and the remedy.
func (f *file) fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w: bring it back from a copy", sink.ErrBadFile, f.path, err)
}

// guard makes an error of a panic. The library uses numbers of a damaged file as indexes.
func (f *file) guard(fn func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("damaged: %v", fault)
		}
	}()
	return fn()
}

// rows hands the columns of a job's rows on, of one metric, or of all if that is empty. A value is valid until each
// returns, and null in a column that the file lacks.
func (f *file) rows(job, metric string, columns []string, each func([]parquet.Value)) error {
	return f.groups(columns, func(g parquet.RowGroup) ([]span, error) { return f.find(g, job, metric) }, each)
}

// groups hands the columns of the rows on that choose names in each row group.
func (f *file) groups(
	columns []string, choose func(parquet.RowGroup) ([]span, error), each func([]parquet.Value),
) error {
	return f.guard(func() error {
		for _, group := range f.RowGroups() {
			spans, err := choose(group)
			if err != nil {
				return err
			}
			if err := f.read(group, spans, columns, each); err != nil {
				return err
			}
		}
		return nil
	})
}

// find returns the rows of a job and a metric.
func (f *file) find(group parquet.RowGroup, job, metric string) ([]span, error) {
	rows := group.NumRows()
	spans, err := find(f.chunk(group, "job_id"), rows, []span{{0, rows}}, parquet.ByteArrayValue([]byte(job)))
	if metric == "" || len(spans) == 0 || err != nil {
		return spans, err
	}
	return find(f.chunk(group, "metric"), rows, spans, parquet.ByteArrayValue([]byte(metric)))
}

// chunk returns a column of a row group, flat or a list, or nil.
func (f *file) chunk(group parquet.RowGroup, column string) *parquet.FileColumnChunk {
	for i, path := range f.Schema().Columns() {
		if path[0] == column {
			chunk, _ := group.ColumnChunks()[i].(*parquet.FileColumnChunk)
			return chunk
		}
	}
	return nil
}

func (f *file) read(group parquet.RowGroup, spans []span, columns []string, each func([]parquet.Value)) error {
	n := int64(0)
	for _, s := range spans {
		n += s.to - s.from
	}
	if n == 0 {
		return nil
	}
	table := make([][]parquet.Value, len(columns))
	for i, name := range columns {
		table[i] = make([]parquet.Value, 0, n)
		chunk := f.chunk(group, name)
		if chunk == nil {
			table[i] = slices.Grow(table[i], int(n))[:n]
			continue
		}
		err := read(chunk, spans, func(_ int64, v []parquet.Value) { table[i] = append(table[i], v[0].Clone()) })
		if err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
	}
	row := make([]parquet.Value, len(columns))
	for k := range n {
		for i := range columns {
			row[i] = table[i][k]
		}
		each(row)
	}
	return nil
}
