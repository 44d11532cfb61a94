package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// span is the rows [from, to) of a row group.
type span struct{ from, to int64 }

// find returns the rows among spans where a column has a value. It reads only the pages that may have it, as the page
// index says. A column that the file lacks has no value.
func find(chunk *parquet.FileColumnChunk, rows int64, spans []span, value parquet.Value) (found []span, err error) {
	if chunk == nil {
		return nil, nil
	}
	compare := chunk.Type().Compare
	least, most, known := chunk.Bounds()
	if known && (compare(value, least) < 0 || compare(value, most) > 0) {
		return nil, nil
	}
	pages, err := pagesWith(chunk, rows, value)
	if err != nil {
		return nil, err
	}
	err = read(chunk, overlap(pages, spans), func(row int64, v parquet.Value) {
		switch last := len(found) - 1; {
		case v.IsNull() || compare(v, value) != 0:
		case last >= 0 && found[last].to == row:
			found[last].to++
		default:
			found = append(found, span{row, row + 1})
		}
	})
	return found, err
}

// pagesWith returns the rows of the pages that may have a value: all rows if the file has no page index.
func pagesWith(chunk *parquet.FileColumnChunk, rows int64, value parquet.Value) (pages []span, err error) {
	bounds, err := chunk.ColumnIndex()
	offsets, errOffsets := chunk.OffsetIndex()
	if err := cmp.Or(err, errOffsets); errors.Is(err, parquet.ErrMissingColumnIndex) ||
		errors.Is(err, parquet.ErrMissingOffsetIndex) {
		return []span{{0, rows}}, nil
	} else if err != nil {
		return nil, err
	}
	compare := chunk.Type().Compare
	n := offsets.NumPages()
	for i := range n {
		if bounds.NullPage(i) || compare(value, bounds.MinValue(i)) < 0 || compare(value, bounds.MaxValue(i)) > 0 {
			continue
		}
		end := rows
		if i+1 < n {
			end = offsets.FirstRowIndex(i + 1)
		}
		pages = append(pages, span{offsets.FirstRowIndex(i), end})
	}
	return pages, nil
}

// overlap returns the rows that are in both. Both are in order.
func overlap(a, b []span) (both []span) {
	for len(a) > 0 && len(b) > 0 {
		one := span{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}
		if one.from < one.to {
			both = append(both, one)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}

// valuesAtOnce is how many values are read at a time.
const valuesAtOnce = 512

// read hands the values of a flat column in spans on, with their rows.
func read(chunk *parquet.FileColumnChunk, spans []span, each func(row int64, v parquet.Value)) (err error) {
	if len(spans) == 0 {
		return nil
	}
	if _, err := chunk.OffsetIndex(); err != nil && !errors.Is(err, parquet.ErrMissingOffsetIndex) {
		return err // with the index the seek below skips pages
	}
	pages := chunk.Pages()
	defer func() { err = cmp.Or(err, pages.Close()) }()
	var buffer [valuesAtOnce]parquet.Value
	for _, s := range spans {
		if err := pages.SeekToRow(s.from); err != nil {
			return fmt.Errorf("seeking row %d: %w", s.from, err)
		}
		for row := s.from; row < s.to; {
			page, err := pages.ReadPage()
			if err != nil {
				return fmt.Errorf("reading row %d: %w", row, noEOF(err))
			}
			values := page.Values()
			for row < s.to {
				n, err := values.ReadValues(buffer[:min(valuesAtOnce, s.to-row)])
				for _, v := range buffer[:n] {
					each(row, v)
					row++
				}
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return fmt.Errorf("reading row %d: %w", row, err)
				}
			}
			parquet.Release(page)
		}
	}
	return nil
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
