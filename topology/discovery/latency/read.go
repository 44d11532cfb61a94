package latency

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/weirhpc/weir/naming"
)

// Bounds of a file.
const (
	maxNodes = 16_384 // 1 GiB of latencies
	maxLine  = 16 << 20
	maxUs    = 1e9  // a quarter of an hour
	minUs    = 1e-6 // a picosecond
)

// errFile is wrapped by each error about the contents of a file of latencies.
var errFile = errors.New("no matrix of latencies")

// errNothing is returned for a file without a latency.
var errNothing = fmt.Errorf("%w: it has no latency", errFile)

// missing are the fields of a latency that was not measured.
var missing = map[string]bool{"": true, "-": true, "nan": true, "na": true, "n/a": true, "null": true}

// ReadFile reads a matrix from a file. See Read. The error names the file.
func ReadFile(path string) (*Matrix, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would block until another process writes
	if err != nil {
		return nil, fmt.Errorf("reading latencies from %s: %w", path, naming.Pathless(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it must be a regular file")
	}
	if err != nil {
		return nil, fmt.Errorf("reading latencies from %s: %w", path, naming.Pathless(err))
	}
	m, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("reading latencies from %s: %w", path, naming.Pathless(err))
	}
	return m, nil
}

// Read reads a matrix in microseconds. It finds the form by itself:
//
//   - a triangle: line i lists the latencies from node i to the nodes i+1 and following. Nodes are named n0, n1 and so
//     on, or after the comment "# names: a,b,c";
//   - a square: a line for each node, with both directions. A first line and a first column of names are optional;
//   - pairs: the first line is "a,b,latency_us" and may have more columns. The median of a pair's repeats counts.
//
// Fields are separated by commas, semicolons, tabs or blanks. An empty field, "-" and "nan" stand for a missing
// measurement. The comments "# tick_us: X" and "# noise: X" set the matrix's fields. Errors name the line and the
// column. Warnings lists averaged values.
func Read(r io.Reader) (*Matrix, error) {
	f := &file{lines: bufio.NewReaderSize(r, 1<<16)}
	m, err := f.matrix()
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(m.us, func(us float64) bool { return !math.IsNaN(us) }) {
		return nil, errNothing
	}
	if f.tickUs > 0 {
		m.TickUs = f.tickUs
	}
	if f.noise > 0 {
		m.Noise = f.noise
	}
	return m, nil
}

// file is a file that is read line by line.
type file struct {
	lines     *bufio.Reader
	number    int    // of the last line, from 1
	separator string // between fields; " " is any white space
	names     []string
	tickUs    float64
	noise     float64
}

// failed returns an error about the last line. A column of 0 is the line as a whole.
func (f *file) failed(column int, format string, args ...any) error {
	at := fmt.Sprintf("line %d", f.number)
	if column > 0 {
		at += fmt.Sprintf(", column %d", column)
	}
	return fmt.Errorf("%w: %s: %s", errFile, at, fmt.Sprintf(format, args...))
}

// line returns the next line that is no comment, or io.EOF.
func (f *file) line() (string, error) {
	for {
		raw, err := f.rawLine()
		if err != nil {
			return "", err
		}
		line := strings.TrimSpace(raw)
		if f.number == 1 {
			line = strings.TrimPrefix(line, "\ufeff")
		}
		if !strings.HasPrefix(line, "#") {
			return strings.Trim(raw, "\r\n\ufeff"), nil // blanks may separate empty fields
		}
		if err := f.comment(strings.TrimSpace(strings.TrimLeft(line, "#"))); err != nil {
			return "", err
		}
	}
}

// rawLine returns the next line, up to a limit of its length.
func (f *file) rawLine() (string, error) {
	var line []byte
	f.number++
	for {
		part, err := f.lines.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return "", f.failed(0, "longer than %d MiB", maxLine>>20)
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return string(line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}

// comment takes settings of the whole matrix from a comment. Other comments are for people.
func (f *file) comment(text string) error {
	key, value, _ := strings.Cut(text, ":")
	switch value = strings.TrimSpace(value); key {
	case "tick_us", "noise":
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x > 0 && x < maxUs) {
			return f.failed(0, "%s %.20q must be a number above zero", key, value)
		}
		if key == "noise" {
			f.noise = x
		} else {
			f.tickUs = x
		}
	case "names":
		f.names = strings.Split(value, ",")
		return f.checkNames(f.names, 0)
	}
	return nil
}

// checkNames refuses invalid names of nodes, and repeated names.
func (f *file) checkNames(names []string, column int) error {
	if len(names) > maxNodes {
		return f.failed(0, "more than %d nodes", maxNodes)
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		names[i] = strings.Trim(strings.TrimSpace(name), `"`)
		at := 0
		if column > 0 {
			at = column + i
		}
		if !naming.Valid(names[i]) {
			return f.failed(at, "%.40q is no name of a node", name)
		}
		if seen[names[i]] {
			return f.failed(at, "node %.40q is there twice", name)
		}
		seen[names[i]] = true
	}
	return nil
}

// split returns the fields of a line. The first line chooses the separator.
func (f *file) split(line string) []string {
	if f.separator == "" {
		f.separator = " "
		for _, s := range []string{",", ";", "\t"} {
			if strings.Contains(line, s) {
				f.separator = s
				break
			}
		}
	}
	if f.separator == " " {
		return strings.Fields(line)
	}
	fields := strings.Split(line, f.separator)
	for i := range fields {
		fields[i] = strings.Trim(strings.TrimSpace(fields[i]), `"`)
	}
	return fields
}

// us returns the latency of a field, NaN if it was not measured. Columns count from 1.
func (f *file) us(field string, column int) (float64, error) {
	if missing[strings.ToLower(field)] {
		return math.NaN(), nil
	}
	us, err := strconv.ParseFloat(field, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, f.failed(column, "%.40q is no latency in microseconds; leave out missing measurements", field)
	case us == 0:
		return 0, f.failed(column, "the latency is zero: leave the field empty if it was not measured")
	case us < 0:
		return 0, f.failed(column, "the latency %.40s is negative", field)
	case math.IsInf(us, 0) || us > maxUs || us < minUs:
		return 0, f.failed(column, "the latency %.40s must be %g to %g microseconds", field, minUs, maxUs)
	}
	return us, nil
}

// isNumber reports whether a field can be a latency.
func isNumber(field string) bool {
	_, err := strconv.ParseFloat(field, 64)
	return err == nil || errors.Is(err, strconv.ErrRange) || missing[strings.ToLower(field)]
}

// matrix reads the first line and chooses the form.
func (f *file) matrix() (*Matrix, error) {
	first, err := f.firstLine()
	if err != nil {
		return nil, err
	}
	fields := f.split(first)
	named := fields[0] != "" && !isNumber(fields[0])
	switch {
	case len(fields) >= 3 && strings.HasPrefix(fields[2], "latency"):
		return f.pairs(len(fields))
	case (named || len(fields) > 1 && fields[0] == "") && !slices.ContainsFunc(fields[1:], isNumber):
		return f.named(fields)
	case named:
		return f.square(nil, fields, true)
	}
	return f.plain(fields)
}

// firstLine skips empty lines.
func (f *file) firstLine() (string, error) {
	for {
		line, err := f.line()
		if errors.Is(err, io.EOF) {
			return "", errNothing
		}
		if err != nil || strings.TrimSpace(line) != "" {
			return line, err
		}
	}
}

// named reads a square below a line of names.
func (f *file) named(header []string) (*Matrix, error) {
	line, err := f.line()
	if errors.Is(err, io.EOF) {
		return nil, f.failed(0, "names without latencies")
	}
	if err != nil {
		return nil, err
	}
	fields := f.split(line)
	rowNames := len(fields) > 0 && !isNumber(fields[0])
	skip := 0
	if rowNames && len(header) == len(fields) {
		skip = 1 // the corner
	}
	names := append([]string(nil), header[skip:]...)
	if err := f.checkNames(names, skip+1); err != nil {
		return nil, err
	}
	return f.square(names, fields, rowNames)
}

// plain reads a triangle or a square of numbers alone. The length of the second line decides between them.
func (f *file) plain(first []string) (*Matrix, error) {
	if len(first) >= maxNodes {
		return nil, f.failed(0, "more than %d nodes", maxNodes)
	}
	firstNumber := f.number
	line, err := f.line()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	ended := errors.Is(err, io.EOF)
	second := f.split(line)
	switch {
	case !ended && len(first) > 1 && len(second) == len(first):
		return f.plainSquare(firstNumber, first, second)
	case ended && len(first) > 1:
		return nil, f.failed(0, "the file ends: line 1 has %d latencies, so %d more lines must follow", len(first),
			len(first)-1)
	}
	return f.triangle(firstNumber, first, line, ended)
}

// plainSquare reads the rest of a square after its first two lines.
func (f *file) plainSquare(firstNumber int, first, second []string) (*Matrix, error) {
	s := newSquare(f, f.numbered(len(first)))
	if err := f.as(firstNumber, func() error { return s.row(first) }); err != nil {
		return nil, err
	}
	if err := s.row(second); err != nil {
		return nil, err
	}
	return s.rest(false)
}

// as reads a line that is not the last one: errors name its number.
func (f *file) as(number int, read func() error) error {
	last := f.number
	f.number = number
	defer func() { f.number = last }()
	return read()
}

// numbered returns the names of the comment, or n0, n1 and so on.
func (f *file) numbered(nodes int) []string {
	if len(f.names) == nodes {
		return f.names
	}
	names := make([]string, nodes)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i)
	}
	return names
}

// triangle reads the rest of a triangle after its first two lines.
func (f *file) triangle(firstNumber int, first []string, line string, ended bool) (*Matrix, error) {
	nodes := len(first) + 1
	if f.names != nil && len(f.names) != nodes {
		return nil, f.failed(0, "the names are %d, and the first line has latencies to %d nodes", len(f.names), nodes-1)
	}
	m := New(f.numbered(nodes))
	if err := f.as(firstNumber, func() error { return f.triangleLine(m, 0, first) }); err != nil {
		return nil, err
	}
	for a := 1; ; a++ {
		blank := strings.TrimSpace(line) == ""
		switch {
		case ended && a >= nodes-1:
			return m, nil
		case ended:
			return nil, f.failed(0, "the file ends: %d lines with latencies must be there", nodes-1)
		case blank && a >= nodes-1:
		case a >= nodes-1:
			return nil, f.failed(0, "more lines than the %d of the triangle that the first line begins", nodes-1)
		default:
			fields := f.split(line)
			if blank {
				fields = []string{""}
			}
			if err := f.triangleLine(m, a, fields); err != nil {
				return nil, err
			}
		}
		var err error
		if line, err = f.line(); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		ended = err != nil
	}
}

// triangleLine sets the latencies from a node to the nodes after it.
func (f *file) triangleLine(m *Matrix, a int, fields []string) error {
	if want := m.Len() - 1 - a; len(fields) != want {
		return f.failed(0, "%d fields, but %d nodes follow node %d; a square has %d lines of the same length",
			len(fields), want, a, m.Len()-1)
	}
	for i, field := range fields {
		us, err := f.us(field, i+1)
		if err != nil {
			return err
		}
		m.Set(a, a+1+i, us)
	}
	return nil
}
