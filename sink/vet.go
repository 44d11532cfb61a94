package sink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"reflect"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	parquetformat "github.com/parquet-go/parquet-go/format"
)

// The Parquet library trusts a file: it reserves what a list, a page or a dictionary claims to hold. One damaged byte may
// ask for more memory than there is, which ends the process. So everything that claims a size is held against the bytes
// that are there, before the library sees it.

const (
	maxDepth     = 16   // of structures in a footer; ours have 6
	maxSchema    = 1000 // elements; ours have 40
	maxPageBytes = 64 << 20
	listBudget   = 64 << 20 // of the lists in a footer, with footerBudget for each of its bytes
	footerBudget = 64
	structBytes  = 1 << 10 // of an element of a list that is a structure: none of the format's is larger in memory
	scalarBytes  = 24
)

var (
	errThrift    = errors.New("not a Thrift structure")
	errListBytes = errors.New("a list that is longer than its bytes")
	zstdMagic    = []byte{0x28, 0xB5, 0x2F, 0xFD}
)

// thriftWalk walks a structure of the compact Thrift protocol, without a schema. It refuses what no Parquet footer holds:
// sets, maps, and lists of booleans.
type thriftWalk struct {
	rest   []byte
	budget int
}

// structure walks to the end of a structure.
func (w *thriftWalk) structure(depth int) error {
	if depth > maxDepth {
		return errThrift
	}
	for {
		b, err := w.take(1)
		if err != nil || b[0] == 0 {
			return err
		}
		if b[0]>>4 == 0 { // the field's number follows
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		if err := w.value(thrift.Type(b[0]&0xF), depth); err != nil {
			return err
		}
	}
}

func (w *thriftWalk) value(kind thrift.Type, depth int) error {
	size := uint64(0)
	var err error
	switch kind {
	case thrift.TRUE, thrift.FALSE: // the type is the value
	case thrift.I8:
		size = 1
	case thrift.DOUBLE:
		size = 8
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = w.varint()
	case thrift.BINARY:
		size, err = w.varint()
	case thrift.LIST:
		return w.list(depth + 1)
	case thrift.STRUCT:
		return w.structure(depth + 1)
	default:
		return errThrift
	}
	if err == nil {
		_, err = w.take(size)
	}
	return err
}

func (w *thriftWalk) list(depth int) error {
	b, err := w.take(1)
	if err != nil {
		return err
	}
	kind, n := thrift.Type(b[0]&0xF), uint64(b[0]>>4)
	if n == 15 {
		if n, err = w.varint(); err != nil {
			return err
		}
	}
	cost := scalarBytes
	switch kind {
	case thrift.TRUE, thrift.FALSE:
		return errThrift
	case thrift.STRUCT, thrift.LIST:
		cost = structBytes
	}
	if n > uint64(len(w.rest)) {
		return errListBytes
	}
	if w.budget -= int(n) * cost; w.budget < 0 {
		return errListBytes
	}
	for range n {
		if err := w.value(kind, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *thriftWalk) take(n uint64) ([]byte, error) {
	if n > uint64(len(w.rest)) {
		return nil, io.ErrUnexpectedEOF
	}
	b := w.rest[:n]
	w.rest = w.rest[n:]
	return b, nil
}

func (w *thriftWalk) varint() (uint64, error) {
	v, n := binary.Uvarint(w.rest)
	if n <= 0 {
		return 0, errThrift
	}
	w.rest = w.rest[n:]
	return v, nil
}

// decodeThrift decodes the structure that b begins with into v, and returns the bytes behind it.
func decodeThrift(b []byte, v any) (rest []byte, err error) {
	w := thriftWalk{rest: b, budget: listBudget + footerBudget*len(b)}
	if err := w.structure(0); err != nil {
		return nil, err
	}
	return w.rest, thrift.Unmarshal(new(thrift.CompactProtocol), b[:len(b)-len(w.rest)], v)
}

// metadata reads the Parquet footer of a file.
func metadata(r io.ReaderAt, size int64) (*parquetformat.FileMetaData, error) {
	var end [8]byte
	if size < int64(len(end)) {
		return nil, fmt.Errorf("a file of %d bytes", size)
	}
	if _, err := r.ReadAt(end[:], size-int64(len(end))); err != nil {
		return nil, fmt.Errorf("reading the footer: %w", err)
	}
	if string(end[4:]) != "PAR1" {
		return nil, errors.New("no footer at its end")
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-12 {
		return nil, fmt.Errorf("a footer of %d bytes in a file of %d", length, size)
	}
	footer := make([]byte, length)
	if _, err := r.ReadAt(footer, size-8-length); err != nil {
		return nil, fmt.Errorf("reading the footer: %w", err)
	}
	m := new(parquetformat.FileMetaData)
	switch rest, err := decodeThrift(footer, m); {
	case err != nil:
		return nil, fmt.Errorf("damaged footer: %w", err)
	case len(rest) > 0:
		return nil, fmt.Errorf("damaged footer: %d bytes are left over", len(rest))
	}
	return m, nil
}

// vet holds what a footer and the headers of pages claim against each other and against the file's size.
func vet(r io.ReaderAt, size int64, m *parquetformat.FileMetaData) error {
	leaves, err := vetSchema(m.Schema)
	if err != nil {
		return fmt.Errorf("damaged footer: %w", err)
	}
	rows := int64(0)
	for _, g := range m.RowGroups {
		if len(g.Columns) != len(leaves) || g.NumRows < 0 {
			return fmt.Errorf("damaged footer: %d columns and %d rows where the schema has %d columns", len(g.Columns), g.NumRows, len(leaves))
		}
		rows += g.NumRows
		for i := range g.Columns {
			if c := &g.Columns[i].MetaData; c.Type != leaves[i].Type.V || c.PathInSchema[len(c.PathInSchema)-1] != leaves[i].Name {
				return fmt.Errorf("damaged footer: column %v is not that of the schema", c.PathInSchema)
			}
			if err := vetColumn(r, size, &g.Columns[i].MetaData); err != nil {
				return fmt.Errorf("damaged column %v: %w", g.Columns[i].MetaData.PathInSchema, err)
			}
		}
	}
	if rows != m.NumRows {
		return fmt.Errorf("damaged footer: %d rows in groups of %d", m.NumRows, rows)
	}
	return nil
}

// vetSchema holds a schema against the one that the sink writes, and returns its leaves. The library takes a value for
// what the schema says, even if that makes a pointer of a number. Columns may be missing: older files have fewer.
func vetSchema(schema []parquetformat.SchemaElement) (leaves []parquetformat.SchemaElement, err error) {
	if len(schema) > maxSchema {
		return nil, fmt.Errorf("a schema of %d elements", len(schema))
	}
	ours, at := ourSchema(), 0
	for i := range schema {
		same := func(e parquetformat.SchemaElement) bool { return reflect.DeepEqual(e, schema[i]) }
		k := slices.IndexFunc(ours[at:], same)
		if i == 0 { // the root, with the number of its columns
			k = 0
		}
		if k < 0 {
			return nil, fmt.Errorf("column %q is not as this weir writes it", schema[i].Name)
		}
		at += k + 1
		if schema[i].Type.Valid {
			leaves = append(leaves, schema[i])
		}
	}
	return leaves, nil
}

// ourSchema is the schema that the sink writes: that of an empty file.
var ourSchema = sync.OnceValue(func() []parquetformat.SchemaElement {
	var b bytes.Buffer
	err := encode(&b, nil, &Footer{})
	if err == nil {
		var m *parquetformat.FileMetaData
		if m, err = metadata(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil {
			return m.Schema
		}
	}
	panic(err) // cannot fail once the tests have passed
})

// vetColumn walks the pages of a column chunk.
func vetColumn(r io.ReaderAt, size int64, m *parquetformat.ColumnMetaData) error {
	start := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		start = m.DictionaryPageOffset
	}
	if m.Codec != parquetformat.Zstd || start < 4 || m.TotalCompressedSize < 0 || start > size || m.TotalCompressedSize > size-start {
		return fmt.Errorf("%d bytes at %d of a file of %d", m.TotalCompressedSize, start, size)
	}
	rest := make([]byte, m.TotalCompressedSize)
	if _, err := r.ReadAt(rest, start); err != nil {
		return fmt.Errorf("reading pages: %w", err)
	}
	values, plain, dataAt := int64(0), int64(0), int64(-1)
	for len(rest) > 0 {
		at := start + m.TotalCompressedSize - int64(len(rest))
		var h parquetformat.PageHeader
		body, err := decodeThrift(rest, &h)
		if err != nil {
			return fmt.Errorf("header of a page: %w", err)
		}
		if h.CompressedPageSize < 0 || int(h.CompressedPageSize) > len(body) || h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxPageBytes {
			return fmt.Errorf("a page of %d bytes, %d when decompressed", h.CompressedPageSize, h.UncompressedPageSize)
		}
		plain += int64(len(rest)-len(body)) + int64(h.UncompressedPageSize)
		rest, body = body[h.CompressedPageSize:], body[:h.CompressedPageSize]
		if uint32(h.CRC) != crc32.ChecksumIEEE(body) {
			return errors.New("a page does not match its checksum")
		}
		n, err := vetPage(&h, body)
		if err != nil {
			return err
		}
		values += n
		if dataAt < 0 && h.Type == parquetformat.DataPageV2 {
			dataAt = at
		}
	}
	if dataAt != m.DataPageOffset { // the library begins to read there
		return fmt.Errorf("pages of data begin at %d, where the footer says %d", dataAt, m.DataPageOffset)
	}
	if values != m.NumValues || plain != m.TotalUncompressedSize {
		return fmt.Errorf("%d values in %d bytes, where the footer says %d in %d", values, plain, m.NumValues, m.TotalUncompressedSize)
	}
	return nil
}

// vetPage returns how many values a page adds to its column.
func vetPage(h *parquetformat.PageHeader, body []byte) (int64, error) {
	d, v := h.DictionaryPageHeader, h.DataPageHeaderV2
	switch {
	case h.Type == parquetformat.DictionaryPage && d.Valid && d.V.Encoding == parquetformat.Plain &&
		d.V.NumValues >= 0 && d.V.NumValues <= h.UncompressedPageSize && bytes.HasPrefix(body, zstdMagic):
		return 0, nil
	case h.Type == parquetformat.DataPageV2 && v.Valid && v.V.NumValues >= 0 && v.V.NumNulls >= 0 && v.V.NumNulls <= v.V.NumValues &&
		(v.V.Encoding == parquetformat.Plain || v.V.Encoding == parquetformat.RLEDictionary):
		// The levels are run lengths, which nothing bounds: the compressed values must begin right behind them.
		levels := int64(v.V.RepetitionLevelsByteLength) + int64(v.V.DefinitionLevelsByteLength)
		if v.V.RepetitionLevelsByteLength >= 0 && levels >= 0 && levels <= int64(len(body)) && bytes.HasPrefix(body[levels:], zstdMagic) {
			return int64(v.V.NumValues), nil
		}
	}
	return 0, errors.New("a page that no sink writes")
}

// lookup returns the key/value metadata of a Parquet footer by key.
func lookup(m *parquetformat.FileMetaData) func(key string) (string, bool) {
	values := make(map[string]string, len(m.KeyValueMetadata))
	for _, kv := range m.KeyValueMetadata {
		values[kv.Key] = kv.Value
	}
	return func(key string) (string, bool) {
		v, ok := values[key]
		return v, ok
	}
}

// openVetted opens a file whose footer was read.
func openVetted(r io.ReaderAt, size int64, m *parquetformat.FileMetaData) (*parquet.File, error) {
	if err := vet(r, size, m); err != nil {
		return nil, err
	}
	return parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}
