package sink

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/weirhpc/weir/schemas"
)

// format is the version of the files' columns and footer. A reader refuses a higher one.
const format = 1

// chunkRows is how many rows are handed to the encoder at a time.
const chunkRows = 1024

// sortRows brings rows into the order of a file: by job, metric with null first, and interval.
func sortRows(rows []schemas.Row) {
	slices.SortStableFunc(rows, func(a, b schemas.Row) int {
		return cmp.Or(
			cmp.Compare(a.JobID, b.JobID),
			cmp.Compare(a.Restart, b.Restart),
			compareNullFirst(a.Metric, b.Metric),
			cmp.Compare(a.IntervalStart, b.IntervalStart))
	})
}

func compareNullFirst(a, b *string) int {
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

// encode writes rows, in the order that they have, and the footer as one Parquet file.
func encode(w io.Writer, rows []schemas.Row, f *Footer) error {
	kv, err := f.keyValues()
	if err != nil {
		return err
	}
	options := []parquet.WriterOption{
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		parquet.CreatedBy("weir", strconv.Itoa(format), ""),
		parquet.MaxRowsPerRowGroup(128 << 10),
	}
	for _, pair := range kv {
		options = append(options, parquet.KeyValueMetadata(pair[0], pair[1]))
	}
	p := parquet.NewGenericWriter[schemas.Row](w, options...)
	for chunk := range slices.Chunk(rows, chunkRows) {
		if _, err := p.Write(chunk); err != nil {
			return fmt.Errorf("encoding rows: %w", err)
		}
	}
	if err := p.Close(); err != nil {
		return fmt.Errorf("encoding rows and footer: %w", err)
	}
	return nil
}

// ReadFile reads a file of the archive, rows in file order. The error wraps ErrBadFile where the file is not one of
// the sink's, or torn.
func ReadFile(path string) ([]schemas.Row, Footer, error) {
	var rows []schemas.Row
	f, err := open(path, func(p *parquet.File, f Footer) (err error) {
		rows, err = readRows(p, f)
		return err
	})
	return rows, f, err
}

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

// readFooter reads what a file says of itself, without its rows.
func readFooter(path string) (Footer, error) {
	return open(path, func(*parquet.File, Footer) error { return nil })
}

func open(path string, read func(*parquet.File, Footer) error) (Footer, error) {
	file, err := os.Open(path)
	if err != nil {
		return Footer{}, fmt.Errorf("opening a file of the archive: %w", err)
	}
	defer file.Close() // only read
	info, err := file.Stat()
	if err != nil {
		return Footer{}, fmt.Errorf("opening a file of the archive: %w", err)
	}
	f, err := decodeFile(file, info.Size(), read)
	if err != nil {
		return Footer{}, fmt.Errorf("%w: %s: %w: bring it back from a copy", ErrBadFile, path, err)
	}
	return f, nil
}

// decodeFile opens a Parquet file and its footer. Whatever the bytes, it returns.
func decodeFile(r io.ReaderAt, size int64, read func(*parquet.File, Footer) error) (f Footer, err error) {
	// The decoder trusts the structure that a footer describes; one that was damaged must not end the process.
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("damaged: %v", fault)
		}
	}()
	// It also reserves whatever length the last bytes claim.
	var end [8]byte
	if _, err := r.ReadAt(end[:], size-int64(len(end))); err != nil || string(end[4:]) != "PAR1" {
		return Footer{}, errors.New("no footer at its end")
	}
	if length := int64(binary.LittleEndian.Uint32(end[:])); length > size-12 {
		return Footer{}, fmt.Errorf("a footer of %d bytes in a file of %d", length, size)
	}
	p, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
		parquet.OptimisticRead(true), parquet.ReadBufferSize(16<<10))
	if err != nil {
		return Footer{}, err
	}
	f, err = parseFooter(p.Lookup)
	if err != nil {
		return Footer{}, err
	}
	return f, read(p, f)
}
