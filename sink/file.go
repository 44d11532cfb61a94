package sink

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	parquetformat "github.com/parquet-go/parquet-go/format"

	"github.com/weirhpc/weir/schemas"
)

// Versions of a file's columns and footer. A reader refuses a higher one.
const (
	formatSmall     = 1
	formatCompacted = 2
)

// errDamaged is the error of a file that cannot be read.
var errDamaged = fmt.Errorf("%w", ErrBadFile)

// errNewerFormat is the error of a file that a newer weir wrote.
var errNewerFormat = errors.New("its format is newer than this weir")

// chunkRows is how many rows are handed to the encoder at a time.
const chunkRows = 1024

// pageBytes is the size of a page before compression. A compaction holds a page of every column of 32 files.
const pageBytes = 32 << 10

// sortRows brings rows into the order of a file.
func sortRows(rows []schemas.Row) {
	slices.SortStableFunc(rows, func(a, b schemas.Row) int { return CompareRows(&a, &b) })
}

// CompareRows orders rows as every file of the archive does: by job, restart, metric with null first, and interval.
func CompareRows(a, b *schemas.Row) int {
	if c := cmp.Compare(a.JobID, b.JobID); c != 0 { // nearly always: cmp.Or would compare all of them
		return c
	}
	if c := cmp.Compare(a.Restart, b.Restart); c != 0 {
		return c
	}
	if c := CompareNullFirst(a.Metric, b.Metric); c != 0 {
		return c
	}
	return cmp.Compare(a.IntervalStart, b.IntervalStart)
}

// CompareNullFirst orders texts that may be missing. Missing texts come first, so that the same rows always make the
// same file.
func CompareNullFirst(a, b *string) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// Build names the build of this program: its revision, or without one its version.
var Build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && s.Value != "" {
			return s.Value
		}
	}
	return cmp.Or(info.Main.Version, "unknown")
})

// encodeFunc writes a whole file with a footer.
type encodeFunc func(w io.Writer, f *Footer) error

// encode writes rows, in their order, and the footer as one Parquet file.
func encode[R any](w io.Writer, rows []R, f *Footer) error {
	return encodeChunks(w, slices.Chunk(rows, chunkRows), f)
}

// encodeChunks is encode for rows that come in chunks.
func encodeChunks[R any](w io.Writer, chunks iter.Seq[[]R], f *Footer, more ...parquet.WriterOption) error {
	kv, err := f.keyValues()
	if err != nil {
		return err
	}
	options := []parquet.WriterOption{
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.CreatedBy("weir", strconv.Itoa(f.format()), Build()),
		parquet.MaxRowsPerRowGroup(128 << 10),
		parquet.PageBufferSize(pageBytes),
	}
	for _, pair := range kv {
		options = append(options, parquet.KeyValueMetadata(pair[0], pair[1]))
	}
	p := parquet.NewGenericWriter[R](w, append(options, more...)...)
	for chunk := range chunks {
		if _, err := p.Write(chunk); err != nil {
			return fmt.Errorf("encoding rows: %w", err)
		}
	}
	if err := p.Close(); err != nil {
		return fmt.Errorf("encoding rows and footer: %w", err)
	}
	return nil
}

// ReadFile reads a file of the archive, rows in file order. If no sink wrote the file, or if it is damaged, the error
// names the fault and the remedy.
func ReadFile(path string) ([]schemas.Row, Footer, error) {
	var rows []schemas.Row
	f, err := open(path, func(r io.ReaderAt, size int64) (f Footer, err error) {
		rows, f, err = decodeFile(r, size)
		return f, err
	})
	return rows, f, err
}

// ReadFooter reads the footer of a file, without its rows. It returns the same errors as ReadFile.
func ReadFooter(path string) (Footer, error) {
	return open(path, func(r io.ReaderAt, size int64) (Footer, error) {
		_, f, err := decodeFooter(r, size)
		return f, err
	})
}

// Opened is an open file of the archive, to read its rows by column.
type Opened struct {
	*parquet.File
	Footer Footer
	// Memory is the number of bytes that a reader with a page of every column in memory needs.
	Memory int64
	file   *os.File
}

// Close closes the file.
func (o *Opened) Close() error { return o.file.Close() }

// Open opens a file of the archive. It reads all of it once, to compare its claims with its size. The error wraps
// ErrBadFile if no sink wrote the file, or if it is damaged.
func Open(path string) (o *Opened, err error) {
	file, err := OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("opening a file of the archive: %w", err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("opening a file of the archive: %w", err)
	}
	o = &Opened{file: file}
	if err := o.open(file, info.Size()); err != nil {
		return nil, fault(path, err)
	}
	return o, nil
}

func (o *Opened) open(r io.ReaderAt, size int64) (err error) {
	defer Recovered(&err)
	m, f, err := decodeFooter(r, size)
	if err != nil {
		return err
	}
	if o.Memory, err = vet(r, size, m); err != nil {
		return err
	}
	o.Footer = f
	o.File, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err == nil && o.NumRows() != f.Rows {
		err = fmt.Errorf("%d rows where weir.rows says %d", o.NumRows(), f.Rows)
	}
	return err
}

// fault returns the error, with its remedy, of a file that cannot be read.
func fault(path string, err error) error {
	if errors.Is(err, errNewerFormat) {
		return fmt.Errorf("%w: %s: %w: upgrade this part", ErrBadFile, path, err)
	}
	return fmt.Errorf("%w: %s: %w: bring it back from a copy", errDamaged, path, err)
}

// open names the remedy in the error. A file of a newer weir is whole, and must not be moved away as a damaged one.
func open(path string, read func(r io.ReaderAt, size int64) (Footer, error)) (f Footer, err error) {
	file, err := OpenRegular(path, os.O_RDONLY)
	if err != nil {
		return Footer{}, fmt.Errorf("opening a file of the archive: %w", err)
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return Footer{}, fmt.Errorf("opening a file of the archive: %w", err)
	}
	f, err = read(file, info.Size())
	if err != nil {
		return Footer{}, fault(path, err)
	}
	return f, nil
}

// decodeFooter decodes the footer of a Parquet file. It returns for any bytes, without a panic.
func decodeFooter(r io.ReaderAt, size int64) (m *parquetformat.FileMetaData, f Footer, err error) {
	defer Recovered(&err)
	if m, err = metadata(r, size); err != nil {
		return nil, Footer{}, err
	}
	f, err = parseFooter(lookup(m))
	return m, f, err
}

// decodeFile decodes a Parquet file. It returns for any bytes, without a panic.
func decodeFile(r io.ReaderAt, size int64) (rows []schemas.Row, f Footer, err error) {
	defer Recovered(&err)
	m, f, err := decodeFooter(r, size)
	if err != nil {
		return nil, f, err
	}
	p, err := openVetted(r, size, m)
	if err == nil {
		rows, err = readRows(p, f)
	}
	return rows, f, err
}

// Recovered makes an error of a panic, if it is deferred. The Parquet library uses numbers of damaged files as indexes.
func Recovered(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("damaged: %v", fault)
	}
}

// readRows believes no number of the file before it reserves memory by it.
func readRows(p *parquet.File, f Footer) ([]schemas.Row, error) {
	n := p.NumRows()
	switch {
	case n != f.Rows:
		return nil, fmt.Errorf("%d rows where weir.rows says %d", n, f.Rows)
	case n > p.Size():
		return nil, fmt.Errorf("%d rows in %d bytes", n, p.Size()) // before so much is reserved
	}
	rows := make([]schemas.Row, n)
	r := parquet.NewGenericReader[schemas.Row](p)
	read, err := r.Read(rows)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading rows: %w", err)
	}
	if int64(read) != n {
		return nil, fmt.Errorf("%d rows where weir.rows says %d", read, n)
	}
	return rows, r.Close()
}
