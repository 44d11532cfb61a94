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
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening rollups: %w", err)
	}
	info, err := file.Stat()
	if err == nil {
		var p *parquet.File
		if p, err = parquet.OpenFile(file, info.Size(), parquet.SkipBloomFilters(true)); err == nil {
			return file, p, nil
		}
	}
	_ = file.Close()
	return nil, nil, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, path, err)
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
	file   *os.File
	rows   *parquet.GenericReader[Rollup]
	lookup func(key string) (string, bool) // in the footer
	read   []Rollup
	end    bool
}

func newRollupReader(path string) (*rollupReader, error) {
	file, p, err := openRollups(path)
	if err != nil {
		return nil, err
	}
	return &rollupReader{file: file, rows: parquet.NewGenericReader[Rollup](p), lookup: p.Lookup}, nil
}

func (r *rollupReader) close() error { return errors.Join(r.rows.Close(), r.file.Close()) }

// current returns the first rollup that was not taken; nil behind the last.
func (r *rollupReader) current() (*Rollup, error) {
	for len(r.read) == 0 {
		if r.end {
			return nil, nil
		}
		batch := make([]Rollup, 64) // a new one: who took a rollup may keep it
		n, err := r.rows.Read(batch)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: %s: bring it back from a copy: %w", errRollups, r.file.Name(), err)
		}
		r.read, r.end = batch[:n], err != nil
	}
	return &r.read[0], nil
}

// joinRollups joins sorted rollups, and calls out with each in order. A rollup that only one of them has stays as it
// is, bit for bit.
func joinRollups(ctx context.Context, from []*rollupReader, out func(*Rollup) error) error {
	for ctx.Err() == nil {
		least, err := leastOf(from)
		if err != nil || len(least) == 0 {
			return err
		}
		result := least[0].read[0]
		if len(least) > 1 {
			h := newHour(keyOfRollup(&result))
			for _, r := range least {
				h.join(&r.read[0])
			}
			result = h.done()
		}
		for _, r := range least {
			r.read = r.read[1:]
		}
		if err := out(&result); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// leastOf returns the readers whose next rollup has the least key; none behind the last.
func leastOf(from []*rollupReader) (least []*rollupReader, err error) {
	for _, r := range from {
		next, err := r.current()
		switch {
		case err != nil:
			return nil, err
		case next == nil:
			continue
		}
		c := -1
		if len(least) > 0 {
			c = compareRollups(next, &least[0].read[0])
		}
		if c < 0 {
			least = least[:0]
		}
		if c <= 0 {
			least = append(least, r)
		}
	}
	return least, nil
}

func keyOfRollup(r *Rollup) Rollup {
	return Rollup{
		Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Hour: r.Hour,
		Metric: r.Metric, Unit: r.Unit, Scope: r.Scope,
	}
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

// close ends the file with a footer. The tally of the footer is that of the rollups.
func (w *rollupWriter) close(f rollupsFooter, sync func() error) error {
	f.rollupTally = w.tally
	err := cmp.Or(f.put(w.out.SetKeyValueMetadata), w.out.Close(), w.buffered.Flush())
	if err == nil {
		err = sync()
	}
	return cmp.Or(err, w.file.Close())
}

// readRollups returns what a file of rollups holds, and an error if it is not in order or not as its footer says.
func readRollups(ctx context.Context, path string) (f rollupsFooter, err error) {
	r, err := newRollupReader(path)
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
