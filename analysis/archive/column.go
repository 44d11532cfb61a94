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

// find returns the rows among spans in which a column equals value. It reads only the pages that may contain the value
// by the page index. A column that the file lacks matches no row.
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
	err = read(chunk, overlap(pages, spans), func(row int64, v []parquet.Value) {
		switch last := len(found) - 1; {
		case v[0].IsNull() || compare(v[0], value) != 0:
		case last >= 0 && found[last].to == row:
			found[last].to++
		default:
			found = append(found, span{row, row + 1})
		}
	})
	return found, err
}

// pagesWith returns the rows of the pages that may contain a value, or all rows if the file lacks a page index.
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

const (
	// valuesAtOnce is the number of values that are read at a time.
	valuesAtOnce = 512
	// bridgeRows is the largest gap between two spans that is read and dropped. A seek would read a whole page again.
	bridgeRows = 4096
)

// read hands the values of a column in spans on, with their rows. Each is given the values of one row: one value of a
// flat column, and none, one or several of a list. They are valid until it returns.
func read(chunk *parquet.FileColumnChunk, spans []span, each func(row int64, v []parquet.Value)) (err error) {
	if len(spans) == 0 {
		return nil
	}
	if _, err := chunk.OffsetIndex(); err != nil && !errors.Is(err, parquet.ErrMissingOffsetIndex) {
		return err // with the index the seek below skips pages
	}
	pages := chunk.Pages()
	defer func() { err = cmp.Or(err, pages.Close()) }()
	r := rowReader{spans: spans, each: each}
	for len(r.spans) > 0 {
		from, to := r.spans[0].from, r.spans[0].to
		for _, s := range r.spans[1:] {
			if s.from > to+bridgeRows {
				break
			}
			to = s.to
		}
		if err := pages.SeekToRow(from); err != nil {
			return fmt.Errorf("seeking row %d: %w", from, err)
		}
		for r.next = from; r.next < to; {
			page, err := pages.ReadPage()
			if err != nil {
				return fmt.Errorf("reading row %d: %w", r.next, noEOF(err))
			}
			before := r.next
			err = r.page(page.Values(), to)
			parquet.Release(page)
			if err == nil && r.next == before {
				err = errors.New("a page without rows")
			}
			if err != nil {
				return fmt.Errorf("reading row %d: %w", r.next, err)
			}
		}
	}
	return nil
}

// rowReader collects the values of each row. Pages begin and end with whole rows.
type rowReader struct {
	spans []span // that are not over
	next  int64  // the row that comes next
	row   []parquet.Value
	each  func(row int64, v []parquet.Value)
}

// page reads the rows of a page up to one.
func (r *rowReader) page(values parquet.ValueReader, to int64) error {
	var buffer [valuesAtOnce]parquet.Value
	for {
		n, err := values.ReadValues(buffer[:])
		for _, v := range buffer[:n] {
			if v.RepetitionLevel() == 0 {
				if r.end(); r.next >= to {
					return nil
				}
			}
			r.row = append(r.row, v)
		}
		switch {
		case errors.Is(err, io.EOF):
			r.end()
			return nil
		case err != nil:
			return err
		case n == 0:
			return io.ErrNoProgress
		}
		// The texts of the values that wait lie in the page, so they stay until it is released.
	}
}

// end hands on the row that is complete.
func (r *rowReader) end() {
	if len(r.row) == 0 {
		return
	}
	for len(r.spans) > 0 && r.spans[0].to <= r.next {
		r.spans = r.spans[1:]
	}
	if len(r.spans) > 0 && r.spans[0].from <= r.next {
		r.each(r.next, r.row)
	}
	r.next++
	if len(r.spans) > 0 && r.spans[0].to <= r.next {
		r.spans = r.spans[1:]
	}
	r.row = r.row[:0]
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
