package compact

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/sink"
)

// openRollups opens a file of rollups. The caller closes the file.
func openRollups(path string) (*os.File, *parquet.File, error) {
	file, err := sink.OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, nil, fmt.Errorf("opening rollups: %w", err)
	}
	p, err := parseFile(file)
	if err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, path, err)
	}
	return file, p, nil
}

// parseFile reads the footer of a file.
func parseFile(file *os.File) (p *parquet.File, err error) {
	defer sink.Recovered(&err)
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return parquet.OpenFile(file, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}

// footerOfRollups returns the footer of a date's rollups; nil if there are none.
func footerOfRollups(path string) (*rollupsFooter, error) {
	file, p, err := openRollups(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := parseRollups(p.Lookup)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, path, err)
	}
	return &f, nil
}

// rollupReader reads rollups one by one.
type rollupReader struct {
	// fill returns the next rollups. Who took one may keep it. It returns io.EOF behind the last.
	fill   func() ([]Rollup, error)
	close  func() error
	lookup func(key string) (string, bool) // in the footer
	read   []Rollup
	end    bool
}

// newRollupReader reads the rollups of chosen jobs out of a file; of all if of is nil.
func newRollupReader(path string, of *chosen) (*rollupReader, error) {
	file, p, err := openRollups(path)
	if err != nil {
		return nil, err
	}
	in := &rollupFile{of: of, groups: p.RowGroups(), schema: p.Schema()}
	fill := func() (batch []Rollup, err error) {
		defer func() {
			if err != nil && !errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, path, err)
			}
		}()
		defer sink.Recovered(&err)
		return in.next()
	}
	return &rollupReader{
		fill: fill, lookup: p.Lookup,
		close: func() error { return errors.Join(in.closeGroup(), file.Close()) },
	}, nil
}

// rollupFile is a file of rollups that is read, row group by row group.
type rollupFile struct {
	of     *chosen
	schema *parquet.Schema
	groups []parquet.RowGroup // that were not begun
	group  *parquet.GenericReader[Rollup]
	spans  []span // of the group
	left   int64  // of the span
}

func (f *rollupFile) closeGroup() error {
	if f.group == nil {
		return nil
	}
	return f.group.Close()
}

// next returns the next rollups of chosen jobs.
func (f *rollupFile) next() (batch []Rollup, err error) {
	for len(batch) == 0 {
		for f.left == 0 {
			if err := f.seek(); err != nil {
				return nil, err
			}
		}
		all := make([]Rollup, min(f.left, 64)) // a new one: who took a rollup may keep it
		n, err := f.group.Read(all)
		if n == 0 {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		f.left -= int64(n)
		for i := range all[:n] {
			if !f.of.has(all[i].JobID, all[i].Restart) {
				continue
			}
			if _, cut := f.of.cut(all[i].JobID, all[i].Restart, all[i].Hour); !cut {
				batch = append(batch, all[i])
			}
		}
	}
	return batch, nil
}

// seek moves to the next span.
func (f *rollupFile) seek() error {
	for len(f.spans) == 0 {
		if len(f.groups) == 0 {
			return io.EOF
		}
		if err := f.closeGroup(); err != nil {
			return err
		}
		column, err := columnOf(f.schema, "job_id")
		if err != nil {
			return err
		}
		if f.spans, err = f.of.spans(f.groups[0], column); err != nil {
			return err
		}
		f.group, f.groups = parquet.NewGenericRowGroupReader[Rollup](f.groups[0]), f.groups[1:]
	}
	if first := f.spans[0].first; first > 0 {
		if err := f.group.SeekToRow(first); err != nil {
			return err
		}
	}
	f.left, f.spans = f.spans[0].rows, f.spans[1:]
	return nil
}

// current returns the first rollup that was not taken; nil behind the last.
func (r *rollupReader) current() (*Rollup, error) {
	for len(r.read) == 0 {
		if r.end {
			return nil, nil
		}
		batch, err := r.fill()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		r.read, r.end = batch, err != nil
	}
	return &r.read[0], nil
}

// rollupWriter writes rollups in the order in which they come.
type rollupWriter struct {
	file     *os.File
	buffered *bufio.Writer
	out      *parquet.GenericWriter[Rollup]
	tally    rollupTally
}

func newRollupWriter(path string) (*rollupWriter, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	w := &rollupWriter{file: file, buffered: bufio.NewWriterSize(file, 256<<10)}
	w.out = parquet.NewGenericWriter[Rollup](w.buffered,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DefaultEncodingFor(parquet.Double, &parquet.ByteStreamSplit),
		parquet.CreatedBy("weir", "2", sink.Build()),
		parquet.MaxRowsPerRowGroup(rollupGroup),
		parquet.PageBufferSize(pageBytes),
	)
	return w, nil
}

func (w *rollupWriter) add(r *Rollup) error {
	w.tally.add(r)
	if _, err := w.out.Write([]Rollup{*r}); err != nil {
		return fmt.Errorf("writing a rollup: %w", err)
	}
	return nil
}

// close ends the file with a footer and the tally of the rollups.
func (w *rollupWriter) close(f rollupsFooter, sync func() error) error {
	f.rollupTally = w.tally
	err := cmp.Or(f.put(w.out.SetKeyValueMetadata), w.out.Close(), w.buffered.Flush())
	if err == nil {
		err = sync()
	}
	return cmp.Or(err, w.file.Close())
}

// readRollups returns the footer of a file of rollups, and an error if the rollups are out of order or differ from it.
func readRollups(ctx context.Context, path string) (f rollupsFooter, err error) {
	r, err := newRollupReader(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return f, fmt.Errorf("%w: %s is missing: bring it back from a copy", errRollups, path)
	}
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if f, err = parseRollups(r.lookup); err != nil {
		return f, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, path, err)
	}
	var held rollupTally
	var last Rollup
	err = joinRollups(ctx, []*rollupReader{r}, func(r *Rollup) error {
		if held.rows > 0 && compareRollups(&last, r) >= 0 {
			return fmt.Errorf("%w: %s is not sorted at row %d", errRollups, path, held.rows)
		}
		held.add(r)
		last = *r
		return nil
	})
	if err == nil && held != f.rollupTally {
		err = fmt.Errorf("%w: %s: its rows are not those that were written: bring it back from a copy",
			errRollups, path)
	}
	return f, err
}
