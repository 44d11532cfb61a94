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
	parquetformat "github.com/parquet-go/parquet-go/format"

	"github.com/weirhpc/weir/schemas"
)

// The Parquet library trusts a file: it reserves the size that a list, a page or a dictionary claims. One damaged byte
// may claim more memory than the host has, which ends the process. So every claimed size is checked against the bytes
// of the file, before the library reads it.

const (
	maxSchema    = 1000 // elements; ours have 60
	maxPageBytes = 64 << 20
)

var zstdMagic = []byte{0x28, 0xB5, 0x2F, 0xFD}

// metadata reads the Parquet footer of a file.
func metadata(r io.ReaderAt, size int64) (*parquetformat.FileMetaData, error) {
	footer, err := footerBytes(r, size)
	if err != nil {
		return nil, err
	}
	m := new(parquetformat.FileMetaData)
	return m, decodeFooterBytes(footer, m)
}

// footerBytes reads the Parquet footer of a file, undecoded.
func footerBytes(r io.ReaderAt, size int64) ([]byte, error) {
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
	return footer, nil
}

// decodeFooterBytes decodes a Parquet footer, or some of its fields.
func decodeFooterBytes(footer []byte, m any) error {
	switch rest, err := decodeThrift(footer, m); {
	case err != nil:
		return fmt.Errorf("damaged footer: %w", err)
	case len(rest) > 0:
		return fmt.Errorf("damaged footer: %d bytes are left over", len(rest))
	}
	return nil
}

// vet is vetColumns for all columns of a file of summaries.
func vet(r io.ReaderAt, size int64, m *parquetformat.FileMetaData) (memory int64, err error) {
	return vetColumns(r, size, m, ourSchema(), nil)
}

// vetColumns compares the claims of a footer and of page headers with each other and with the file's size. ours is the
// schema that this weir writes. The pages of columns that are not in only are not looked at, unless only is nil. It
// returns the memory of a reader that holds a page of every column.
func vetColumns(
	r io.ReaderAt, size int64, m *parquetformat.FileMetaData, ours []parquetformat.SchemaElement, only []string,
) (memory int64, err error) {
	leaves, err := vetSchema(m.Schema, ours)
	if err != nil {
		return 0, fmt.Errorf("damaged footer: %w", err)
	}
	rows, pages := int64(0), make([]int64, len(leaves))
	for _, g := range m.RowGroups {
		if len(g.Columns) != len(leaves) || g.NumRows < 0 {
			return 0, fmt.Errorf("damaged footer: %d columns and %d rows where the schema has %d columns",
				len(g.Columns), g.NumRows, len(leaves))
		}
		rows += g.NumRows
		for i := range g.Columns {
			c := &g.Columns[i].MetaData
			if c.Type != leaves[i].Type.V || c.PathInSchema[len(c.PathInSchema)-1] != leaves[i].Name {
				return 0, fmt.Errorf("damaged footer: column %v is not that of the schema", c.PathInSchema)
			}
			if only != nil && !slices.Contains(only, c.PathInSchema[0]) {
				continue
			}
			largest, err := vetColumn(r, size, c)
			if err != nil {
				return 0, fmt.Errorf("damaged column %v: %w", c.PathInSchema, err)
			}
			pages[i] = max(pages[i], largest)
		}
	}
	if rows != m.NumRows {
		return 0, fmt.Errorf("damaged footer: %d rows in groups of %d", m.NumRows, rows)
	}
	for _, largest := range pages {
		memory += largest
	}
	return memory, nil
}

// vetSchema compares a schema with ours, and returns its leaves. The library believes the schema's type of a value,
// even if that makes a pointer of a number. Columns may be missing: older files have fewer.
func vetSchema(schema, ours []parquetformat.SchemaElement) (leaves []parquetformat.SchemaElement, err error) {
	if len(schema) > maxSchema {
		return nil, fmt.Errorf("a schema of %d elements", len(schema))
	}
	at := 0
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

// ourSchema is the schema that the sink writes, taken from an empty file.
var ourSchema = sync.OnceValue(func() []parquetformat.SchemaElement {
	var b bytes.Buffer
	err := encode[schemas.Row](&b, nil, &Footer{})
	if err == nil {
		var m *parquetformat.FileMetaData
		if m, err = metadata(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil {
			return m.Schema
		}
	}
	panic(err) // this cannot fail once the tests have passed
})

// vetColumn walks the pages of a column chunk. It returns the size of the largest, before and after decompression.
func vetColumn(r io.ReaderAt, size int64, m *parquetformat.ColumnMetaData) (largest int64, err error) {
	start := m.DataPageOffset
	if m.DictionaryPageOffset != 0 {
		start = m.DictionaryPageOffset
	}
	if m.Codec != parquetformat.Zstd || start < 4 || start > size ||
		m.TotalCompressedSize < 0 || m.TotalCompressedSize > size-start {
		return 0, fmt.Errorf("%d bytes at %d of a file of %d", m.TotalCompressedSize, start, size)
	}
	rest := make([]byte, m.TotalCompressedSize)
	if _, err := r.ReadAt(rest, start); err != nil {
		return 0, fmt.Errorf("reading pages: %w", err)
	}
	values, plain, dataAt := int64(0), int64(0), int64(-1)
	for len(rest) > 0 {
		at := start + m.TotalCompressedSize - int64(len(rest))
		var h parquetformat.PageHeader
		body, err := decodeThrift(rest, &h)
		if err != nil {
			return 0, fmt.Errorf("header of a page: %w", err)
		}
		if h.CompressedPageSize < 0 || int(h.CompressedPageSize) > len(body) ||
			h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxPageBytes {
			return 0, fmt.Errorf("a page of %d bytes, %d when decompressed",
				h.CompressedPageSize, h.UncompressedPageSize)
		}
		largest = max(largest, int64(h.UncompressedPageSize)+int64(h.CompressedPageSize))
		plain += int64(len(rest)-len(body)) + int64(h.UncompressedPageSize)
		rest, body = body[h.CompressedPageSize:], body[:h.CompressedPageSize]
		if uint32(h.CRC) != crc32.ChecksumIEEE(body) {
			return 0, errors.New("a page does not match its checksum")
		}
		n, err := vetPage(&h, body)
		if err != nil {
			return 0, err
		}
		values += n
		if dataAt < 0 && h.Type == parquetformat.DataPageV2 {
			dataAt = at
		}
	}
	if dataAt != m.DataPageOffset { // the library begins to read there
		return 0, fmt.Errorf("pages of data begin at %d, where the footer says %d", dataAt, m.DataPageOffset)
	}
	if values != m.NumValues || plain != m.TotalUncompressedSize {
		return 0, fmt.Errorf("%d values in %d bytes, where the footer says %d in %d",
			values, plain, m.NumValues, m.TotalUncompressedSize)
	}
	return largest, nil
}

// pageEncodings are the encodings of the values that a weir writes. Compacted files split the bytes of doubles.
var pageEncodings = []parquetformat.Encoding{
	parquetformat.Plain, parquetformat.RLEDictionary, parquetformat.ByteStreamSplit,
}

// vetPage returns how many values a page adds to its column.
func vetPage(h *parquetformat.PageHeader, body []byte) (int64, error) {
	d, v := h.DictionaryPageHeader, h.DataPageHeaderV2
	switch {
	case h.Type == parquetformat.DictionaryPage && d.Valid && d.V.Encoding == parquetformat.Plain &&
		d.V.NumValues >= 0 && d.V.NumValues <= h.UncompressedPageSize && bytes.HasPrefix(body, zstdMagic):
		return 0, nil
	case h.Type == parquetformat.DataPageV2 && v.Valid &&
		v.V.NumValues >= 0 && v.V.NumNulls >= 0 && v.V.NumNulls <= v.V.NumValues &&
		slices.Contains(pageEncodings, v.V.Encoding):
		// The levels are run lengths, which have no bound. The compressed values must begin right behind them.
		repetition := int64(v.V.RepetitionLevelsByteLength)
		levels := repetition + int64(v.V.DefinitionLevelsByteLength)
		if repetition >= 0 && levels >= 0 && levels <= int64(len(body)) && bytes.HasPrefix(body[levels:], zstdMagic) {
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

// openVetted opens a file after its footer was read.
func openVetted(r io.ReaderAt, size int64, m *parquetformat.FileMetaData) (*parquet.File, error) {
	if _, err := vet(r, size, m); err != nil {
		return nil, err
	}
	return parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}
