package compact

import (
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"
)

// cursor reads a column of a row group.
type cursor struct {
	name string
	cells
	pages parquet.Pages
	page  parquet.Page

	levels, repeats []byte // of the page; empty in a required column
	at, end         int    // in the levels, or in the values of a required column
	value           int    // in the values that are not null

	indexes    []int32
	floats     []float64
	longs      []int64
	ints       []int32
	plain      []string // of a page without a dictionary
	dictionary []string

	// Values of the batch: its rows point here.
	floatsOut []float64
	longsOut  []int64
	intsOut   []int32
}

func (c *cursor) close() error {
	if c.pages == nil {
		return nil
	}
	parquet.Release(c.page)
	err := c.pages.Close()
	c.pages, c.page = nil, nil
	return err
}

// seek moves to a row of the row group.
func (c *cursor) seek(row int64) error {
	parquet.Release(c.page)
	c.page = nil
	return c.pages.SeekToRow(row)
}

// next moves to the next page.
func (c *cursor) next(known *texts) error {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	page, err := c.pages.ReadPage()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	c.page, c.at, c.value = page, 0, 0
	c.levels, c.repeats = page.DefinitionLevels(), page.RepetitionLevels()
	c.end = int(page.NumValues())
	c.indexes, c.plain = nil, nil
	data := page.Data()
	switch {
	case c.text != nil || c.textPtr != nil:
		d := page.Dictionary()
		if d == nil {
			c.plain = split(data.ByteArray())(known)
			break
		}
		c.indexes = data.Int32()
		if c.dictionary == nil {
			entries := d.Page().Data()
			c.dictionary = split(entries.ByteArray())(known)
		}
	case c.int32s != nil || c.int32Ptr != nil:
		c.ints = data.Int32()
	case c.int64s != nil || c.int64Ptr != nil || c.longList != nil:
		c.longs = data.Int64()
	default:
		c.floats = data.Double()
	}
	return nil
}

// split returns the texts that lie one behind the other.
func split(bytes []byte, offsets []uint32) func(known *texts) []string {
	return func(known *texts) []string {
		var all []string
		for i := 1; i < len(offsets); i++ {
			all = append(all, known.of(bytes[offsets[i-1]:offsets[i]]))
		}
		return all
	}
}

// read sets the column in all rows of a batch.
func (c *cursor) read(rows []row, known *texts) error {
	c.floatsOut, c.longsOut, c.intsOut = c.floatsOut[:0], c.longsOut[:0], c.intsOut[:0]
	if c.list != nil {
		return readLists(c, rows, known, &c.floats, &c.floatsOut, c.list)
	}
	if c.longList != nil {
		return readLists(c, rows, known, &c.longs, &c.longsOut, c.longList)
	}
	for len(rows) > 0 {
		if c.page == nil || c.at == c.end {
			if err := c.next(known); err != nil {
				return err
			}
			continue
		}
		n := min(len(rows), c.end-c.at)
		c.set(rows[:n])
		rows, c.at = rows[n:], c.at+n
	}
	return nil
}

// set sets the column in rows that are all in the page.
func (c *cursor) set(rows []row) {
	switch {
	case c.floatPtr != nil:
		c.floatsOut = point(rows, c, c.floats, c.floatsOut, c.floatPtr)
	case c.int64Ptr != nil:
		c.longsOut = point(rows, c, c.longs, c.longsOut, c.int64Ptr)
	case c.int32Ptr != nil:
		c.intsOut = point(rows, c, c.ints, c.intsOut, c.int32Ptr)
	case c.textPtr != nil:
		c.setTexts(rows)
	case c.text != nil:
		for i := range rows {
			*c.text(&rows[i]) = *c.textAt(c.at + i)
		}
	case c.int64s != nil:
		for i, v := range c.longs[c.at : c.at+len(rows)] {
			*c.int64s(&rows[i]) = v
		}
	case c.int32s != nil:
		for i, v := range c.ints[c.at : c.at+len(rows)] {
			*c.int32s(&rows[i]) = v
		}
	}
}

// textAt returns a text of the page.
func (c *cursor) textAt(i int) *string {
	if c.indexes != nil {
		return &c.dictionary[c.indexes[i]]
	}
	return &c.plain[i]
}

func (c *cursor) setTexts(rows []row) {
	for i, level := range c.levels[c.at : c.at+len(rows)] {
		if level == 1 {
			*c.textPtr(&rows[i]) = c.textAt(c.value)
			c.value++
		}
	}
}

// point appends the page's values of rows to out, with room for a batch, and points the rows to them.
func point[T any](rows []row, c *cursor, values, out []T, cell func(*row) **T) []T {
	if cap(out) < batchRows {
		out = make([]T, 0, batchRows)
	}
	for i, level := range c.levels[c.at : c.at+len(rows)] {
		if level == 1 {
			out = append(out, values[c.value])
			*cell(&rows[i]) = &out[len(out)-1]
			c.value++
		}
	}
	return out
}

// maxLevel is the definition level of an element of a list.
const maxLevel = 2

// readLists sets a column of lists. A row begins at each repetition level 0. Its list lies in out.
func readLists[T any](c *cursor, rows []row, known *texts, values, out *[]T, list func(*row) *[]T) error {
	row := -1
	for {
		if c.page == nil || c.at == c.end {
			if row == len(rows)-1 && c.page != nil && c.value == len(*values) && row >= 0 {
				return nil // a row never goes on in the next page
			}
			if err := c.next(known); err != nil {
				return err
			}
			continue
		}
		if c.repeats[c.at] == 0 {
			if row++; row == len(rows) {
				return nil
			}
		}
		if c.levels[c.at] != maxLevel {
			c.at++
			continue
		}
		n := 1
		for c.at+n < c.end && c.repeats[c.at+n] != 0 {
			n++
		}
		cell, first := list(&rows[row]), len(*out)
		*out = append(*out, *cell...) // of the page before
		*out = append(*out, (*values)[c.value:c.value+n]...)
		*cell = (*out)[first:len(*out):len(*out)]
		c.value, c.at = c.value+n, c.at+n
	}
}
