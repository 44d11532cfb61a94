package compact

import (
	"errors"
	"fmt"
	"io"

	"github.com/weirhpc/weir/sink"
)

// batchRows is how many rows a reader forms at a time.
const batchRows = 256

// batch is some rows of a source, and which of them is the first that was not taken. The rows are valid until the next
// batch.
type batch struct {
	rows []row
	at   int
}

func (b *batch) current() *batch { return b }

// reader reads the rows of a file in batches, column by column. The library's reader of typed rows takes five times as
// long.
type reader struct {
	batch
	file  *sink.Opened
	group int  // the next row group
	fresh bool // its rows are; otherwise certified summaries are not read
	left  int64
	known *texts
	all   []*cursor
	by    map[string]*cursor

	of    *chosen // selects the rows to read; rows of other jobs on the same pages are read too
	spans []span  // of the row group, not begun
}

// openReader opens a file of the archive. The caller closes it.
func openReader(path string, known *texts) (*reader, error) {
	file, err := sink.Open(path)
	if err != nil {
		return nil, err
	}
	return &reader{file: file, known: known, batch: batch{rows: make([]row, 0, batchRows)}}, nil
}

func (r *reader) close() error {
	var faults []error
	for _, c := range r.all {
		faults = append(faults, c.close())
	}
	return errors.Join(append(faults, r.file.Close())...)
}

// fill forms the next batch. It returns io.EOF behind the last row.
func (r *reader) fill() (err error) {
	defer func() {
		if fault := recover(); fault != nil { // the library trusts numbers of a damaged file
			err = fmt.Errorf("%w: %s: damaged: %v", sink.ErrBadFile, r.file.Footer.Topic, fault)
		}
	}()
	for r.left == 0 {
		if err := r.seek(); err != nil {
			return err
		}
	}
	n := int(min(r.left, batchRows))
	r.rows, r.at = r.rows[:n], 0
	clear(r.rows)
	for i := range r.rows {
		r.rows[i].fresh = r.fresh
	}
	for _, c := range r.all {
		if err := c.read(r.rows, r.known); err != nil {
			return fmt.Errorf("reading column %s: %w", c.name, err)
		}
	}
	r.left -= int64(n)
	return nil
}

// seek moves to the next span of rows.
func (r *reader) seek() error {
	if len(r.spans) == 0 {
		return r.nextGroup()
	}
	first := r.spans[0].first
	r.left, r.spans = r.spans[0].rows, r.spans[1:]
	if first == 0 {
		return nil
	}
	for _, c := range r.all {
		if err := c.seek(first); err != nil {
			return err
		}
	}
	return nil
}

// nextGroup begins the next row group. Columns that files of an older weir lack stay null.
func (r *reader) nextGroup() error {
	groups := r.file.RowGroups()
	if r.group == len(groups) {
		return io.EOF
	}
	group := groups[r.group]
	r.group++
	leaves, chunks := r.file.Schema().Columns(), group.ColumnChunks()
	if r.by == nil {
		r.by = map[string]*cursor{}
		for _, c := range columns {
			r.by[c.name] = &cursor{name: c.name, cells: c.cells}
		}
	}
	for _, c := range r.all {
		if err := c.close(); err != nil {
			return err
		}
	}
	r.all = r.all[:0]
	column, err := columnOf(r.file.Schema(), "job_id")
	if err != nil {
		return err
	}
	if r.spans, err = r.of.spans(group, column); err != nil || len(r.spans) == 0 {
		return err
	}
	for i, path := range leaves {
		c, ok := r.by[path[0]]
		if !ok || !r.fresh && ofSummary(path[0]) {
			continue
		}
		c.pages, c.page, c.dictionary = chunks[i].Pages(), nil, nil
		r.all = append(r.all, c)
	}
	return nil
}
