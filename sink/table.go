package sink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	parquetformat "github.com/parquet-go/parquet-go/format"
)

// Schema is the schema of a table of the archive, as weir writes it.
type Schema []parquetformat.SchemaElement

// SchemaOf returns the schema of a Parquet file in memory, which this process wrote.
func SchemaOf(file []byte) (Schema, error) {
	m, err := metadata(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	return Schema(m.Schema), nil
}

// Table is a file of a table of the archive. The claims of its bytes are checked before the Parquet library relies on
// them.
type Table struct {
	file   *os.File
	size   int64
	footer []byte
	schema Schema
	about  struct { // the fields of the footer that are decoded at first: the rest takes ten times as long
		NumRows          int64                                `thrift:"3,required"`
		KeyValueMetadata thrift.Slice[parquetformat.KeyValue] `thrift:"5,optional"`
	}
}

// OpenTable opens a file and reads its footer.
func OpenTable(path string, schema Schema) (t *Table, err error) {
	defer Recovered(&err)
	file, err := OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("opening a file of the archive: %w", err)
	}
	t = &Table{file: file, schema: schema}
	info, err := file.Stat()
	if err == nil {
		t.size = info.Size()
		t.footer, err = footerBytes(file, t.size)
	}
	if err == nil {
		err = decodeFooterBytes(t.footer, &t.about)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return t, nil
}

// Close closes the file.
func (t *Table) Close() error { return t.file.Close() }

// Lookup returns a value of the footer's metadata by key.
func (t *Table) Lookup(key string) (string, bool) {
	for _, kv := range t.about.KeyValueMetadata {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return "", false
}

// Rows returns how many rows the footer claims.
func (t *Table) Rows() int64 { return t.about.NumRows }

// Columns returns the file, of which only these columns may be read; all of them if none is named.
func (t *Table) Columns(only ...string) (p *parquet.File, err error) {
	defer Recovered(&err)
	m := new(parquetformat.FileMetaData)
	if err := decodeFooterBytes(t.footer, m); err != nil {
		return nil, err
	}
	if _, err := vetColumns(t.file, t.size, m, t.schema, only); err != nil {
		return nil, err
	}
	return parquet.OpenFile(t.file, t.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}

// EachRow calls fn with every row of a file, in the columns of C. fn may keep a row. An error of fn
// ends it.
func EachRow[C any](p *parquet.File, fn func(*C) error) (err error) {
	defer Recovered(&err)
	r := parquet.NewGenericReader[C](p)
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		batch := make([]C, 64)
		n, err := r.Read(batch)
		for i := range batch[:n] {
			if err := fn(&batch[i]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading rows: %w", err)
		}
	}
}
