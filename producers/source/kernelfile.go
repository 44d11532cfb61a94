package source

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"time"
)

// unread stands in a row for a number that could not be read. The parsers read no number as large.
const unread = math.MaxUint64

// kernelFile is a file of the kernel that stays open, with storage for its text.
type kernelFile struct {
	path   string
	file   *os.File
	buffer []byte
}

func openKernelFile(path string) (*kernelFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &kernelFile{path, file, make([]byte, 8<<10)}, nil
}

// read returns the text of the file, which is valid until the next read. A file that can no longer be read is opened
// anew, because the open one may belong to a device that went and came back.
func (f *kernelFile) read() ([]byte, error) {
	data, buffer, err := readAt0(f.file, f.buffer)
	f.buffer = buffer
	if err == nil {
		return data, nil
	}
	file, openErr := os.Open(f.path)
	if openErr != nil {
		return nil, fmt.Errorf("reading %s: %w", f.path, err)
	}
	f.close()
	f.file = file
	if data, f.buffer, err = readAt0(f.file, f.buffer); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.path, err)
	}
	return data, nil
}

func (f *kernelFile) name() string { return f.path }

func (f *kernelFile) close() { _ = f.file.Close() } // it was only read

// openOne opens a node-scoped source of one file. parse writes the counters of the file to a row, in its storage.
func openOne(
	path string, parse func(row []uint64, data []byte) ([]uint64, error),
	form func(from, to []uint64, elapsed time.Duration, out []float64),
) (probe, error) {
	file, err := openKernelFile(path)
	if err != nil {
		return probe{}, err
	}
	read := func(into reading, _ Vitals) (reading, error) {
		data, err := file.read()
		if err != nil {
			return nil, err
		}
		into = only(into)
		if into[0], err = parse(into[0], data); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		return into, nil
	}
	return probe{read: read, form: form, close: file.close}, nil
}

// cutLine returns the first line of the text, and the rest. It is not ok for a line without its end: if the text was
// cut there, the last number may be incomplete.
func cutLine(data []byte) (line, rest []byte, ok bool) { return bytes.Cut(data, []byte{'\n'}) }

// cutField returns the first field of a line, and the rest. Blanks separate the fields.
func cutField(line []byte) (field, rest []byte) {
	line = bytes.TrimLeft(line, " ")
	if i := bytes.IndexByte(line, ' '); i >= 0 {
		return line[:i], line[i:]
	}
	return line, nil
}

// cutNumber reads the first field of a line as a number. It is not ok for any other field.
func cutNumber(line []byte) (v uint64, rest []byte, ok bool) {
	v, rest, ok = number(bytes.TrimLeft(line, " "))
	return v, rest, ok && (len(rest) == 0 || rest[0] == ' ')
}

// numbersOf returns the numbers of the lines that begin with the names, in the order of the names. A name begins with
// the end of the line before it. Only the unit may follow a number in its line. A missing number is unread.
func numbersOf(row []uint64, data []byte, unit string, names []string) []uint64 {
	row = row[:0]
	for _, name := range names {
		rest, ok := bytes.CutPrefix(data, []byte(name[1:]))
		if !ok {
			_, rest, ok = bytes.Cut(data, []byte(name))
		}
		line, _, whole := cutLine(rest)
		v, end, isNumber := number(bytes.TrimLeft(line, " "))
		if !ok || !whole || !isNumber || string(end) != unit {
			v = unread
		}
		row = append(row, v)
	}
	return row
}

// growth returns the growth of a counter. It is NaN if a reading lacks the counter, or if the counter went back.
func growth(from, to uint64) float64 {
	d, ok := grown(from, to)
	if !ok || to == unread {
		return math.NaN()
	}
	return d
}

// perSecond returns the growth of a counter per second. It is NaN if the growth is unknown.
func perSecond(from, to uint64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return math.NaN()
	}
	return growth(from, to) / elapsed.Seconds()
}
