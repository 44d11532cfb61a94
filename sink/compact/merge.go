package compact

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/sink"
)

const (
	// fanIn is how many files are merged at a time, and mergeBytes how much memory their pages may take.
	fanIn      = 32
	mergeBytes = 16 << 20

	groupRows = 256 << 10 // of a row group: small enough for memory, large enough for a short footer
	pageBytes = 32 << 10
)

// newWriter returns a writer of a compacted file.
func newWriter(w io.Writer) *parquet.GenericWriter[row] {
	return parquet.NewGenericWriter[row](w,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.DefaultEncodingFor(parquet.Double, &parquet.ByteStreamSplit),
		parquet.CreatedBy("weir", "2", sink.Build()),
		parquet.MaxRowsPerRowGroup(groupRows),
		parquet.PageBufferSize(pageBytes),
	)
}

// merge makes one file at path out of the inputs of a partition, and reads it back. The rollups get the rows that they
// lack.
func (c *compactor) merge(ctx context.Context, r *roller, inputs []sink.File, path string, f *sink.Footer,
) (counted tally, err error) {
	m := &merger{c: c, date: r.t.date, footer: f, known: newTexts(), fresh: map[string]bool{}}
	var paths []string
	for _, in := range inputs {
		paths, m.fresh[in.Path] = append(paths, in.Path), r.fresh(in)
	}
	rollups, err := r.part(f.Partition)
	if err != nil {
		return tally{}, err
	}
	defer func() { err = errors.Join(err, rollups.close(rollupsFooter{}, func() error { return nil })) }()
	m.folder.out = rollups.add
	for len(paths) > 1 || m.levels == 0 {
		outs, err := m.level(ctx, paths)
		if err != nil {
			return tally{}, err
		}
		if m.levels > 1 {
			for _, run := range paths {
				_ = os.Remove(run) // if this fails, the next run deletes the file
			}
		}
		paths = outs
	}
	written, err := readBack(ctx, paths[0])
	if err != nil {
		return tally{}, err
	}
	want := m.read
	want.summaries = 0 // the rollups have them
	if !c.same(want, written) {
		return tally{}, fmt.Errorf("%w: %s: %d rows of %d", errDiffers, path, written.rows, m.read.rows)
	}
	if m.folded != m.read.summaries {
		return tally{}, fmt.Errorf("%w: %s: certified summaries", errDiffers, path)
	}
	return m.read, c.Rename(paths[0], path)
}

// merger merges the files of a partition and date, level by level.
type merger struct {
	c      *compactor
	date   string
	footer *sink.Footer
	known  *texts
	levels int   // that are done
	read   tally // of the inputs

	fresh  map[string]bool // inputs with rows that the rollups lack
	folder folder
	folded uint64 // hashes of the summaries in rollups
	merged int64  // rows at the last level
}

// level merges files in groups, and returns the files that it made: runs, or in the end one compacted file.
func (m *merger) level(ctx context.Context, paths []string) (outs []string, err error) {
	for first := 0; first < len(paths); {
		inputs, err := m.open(paths[first:])
		if err != nil {
			return nil, err
		}
		last := len(inputs) == len(paths)
		first += len(inputs)
		name := fmt.Sprintf("%s%s-%d-%d-%d", runPrefix, m.date, m.footer.Partition, m.levels, len(outs))
		out := filepath.Join(m.c.stage(), name)
		err = m.write(ctx, inputs, out, last)
		for _, in := range inputs {
			err = errors.Join(err, in.close())
		}
		if err != nil {
			return nil, err
		}
		outs = append(outs, out)
	}
	m.levels++
	return outs, nil
}

// open opens files until there are enough for one merge.
func (m *merger) open(paths []string) (inputs []input, err error) {
	memory := int64(0)
	for _, path := range paths {
		if m.levels > 0 {
			run, err := openRun(path, m.known)
			if err != nil {
				return nil, errors.Join(err, closeAll(inputs))
			}
			inputs = append(inputs, run)
		} else {
			file, err := openReader(path, m.known)
			if err != nil {
				return nil, errors.Join(err, closeAll(inputs))
			}
			file.fresh = m.fresh[path]
			inputs = append(inputs, file)
			memory += file.file.Memory
		}
		if len(inputs) == fanIn || memory >= mergeBytes && len(inputs) > 1 {
			break
		}
	}
	return inputs, nil
}

func closeAll(inputs []input) error {
	var faults []error
	for _, in := range inputs {
		faults = append(faults, in.close())
	}
	return errors.Join(faults...)
}

// write merges inputs into a new file, and makes it durable if it is the compacted one.
func (m *merger) write(ctx context.Context, inputs []input, path string, last bool) error {
	var file *os.File
	err := m.c.Do(sink.ActCreate, path, func() (err error) {
		file, err = os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		return err
	})
	if err != nil {
		return fmt.Errorf("making a compacted file: %w", err)
	}
	seen := func(r *row) error {
		if m.levels == 0 {
			m.add(r)
		}
		if last {
			return m.fold(r)
		}
		return nil
	}
	buffered := bufio.NewWriterSize(file, 256<<10)
	if last {
		w := newWriter(buffered)
		err = merge(ctx, inputs, w.Write, seen)
		if err == nil {
			err = m.folder.flush()
		}
		if err == nil {
			m.read.put(m.footer)
			err = cmp.Or(m.footer.Put(w.SetKeyValueMetadata), w.Close())
		}
	} else {
		err = merge(ctx, inputs, (&runWriter{out: buffered, known: m.known}).Write, seen)
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil && last {
		err = m.c.Do(sink.ActSync, path, file.Sync)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// progressRows is how many rows lie between two reports of progress.
const progressRows = 500_000

func (m *merger) add(r *row) {
	m.read.add(r)
	m.progress(m.read.rows)
}

func (m *merger) progress(rows int64) {
	if rows%progressRows == 0 {
		m.c.Progress(m.date, m.footer.Partition, rows)
	}
}

// fold gives a row to the rollups, and takes its summary away.
func (m *merger) fold(r *row) error {
	if r.fresh {
		m.folded += r.summaryHash(r.hash())
		if err := m.folder.add(r); err != nil {
			return err
		}
	}
	r.dropSummary()
	if m.merged++; m.levels > 0 { // the rollups take longer than all levels before
		m.progress(m.merged)
	}
	return nil
}

// readBack returns the tally of a file, and an error if its rows are not in order.
func readBack(ctx context.Context, path string) (held tally, err error) {
	r, err := openReader(path, newTexts())
	if err != nil {
		return held, err
	}
	r.fresh = true // all columns are read
	defer func() { err = errors.Join(err, r.close()) }()
	var last row
	for {
		switch err := r.fill(); {
		case errors.Is(err, io.EOF):
			return held, nil
		case err != nil:
			return held, err
		case ctx.Err() != nil:
			return held, ctx.Err()
		}
		for i := range r.rows {
			if held.rows > 0 && sink.CompareRows(&last.Row, &r.rows[i].Row) > 0 {
				return held, fmt.Errorf("%w: %s is not sorted at row %d", errDiffers, path, held.rows)
			}
			held.add(&r.rows[i])
			last = r.rows[i]
		}
	}
}
