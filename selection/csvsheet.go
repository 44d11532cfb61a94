package selection

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
)

// sheet reads lines of cells, however a spreadsheet or a logger wrote them.
type sheet struct {
	names    []string
	line     int
	lines    *csv.Reader
	bounded  *bounded // below lines
	comma    rune
	encoding string // original encoding; empty: UTF-8

	commas, points int // numbers with a decimal comma, and with a decimal point
	both           string
}

const (
	// peeked is the number of bytes in which the form of a file is detected.
	peeked = 1 << 20
	// maxUTF16 bounds a file in UTF-16, which is converted to UTF-8 in memory.
	maxUTF16 = 1 << 30
	// maxColumns bounds the columns of a sheet.
	maxColumns = 100_000
)

// openSheet reads the line of names. It finds the encoding, the ends of lines and the separator.
func openSheet(from io.Reader) (*sheet, error) {
	s := &sheet{comma: ','}
	in, err := s.decoded(bufio.NewReaderSize(from, peeked))
	if err != nil {
		return nil, err
	}
	head, err := in.Peek(peeked)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("reading the line of names: %w", err)
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return nil, fmt.Errorf("%w: it has bytes that are zero: save it as text in UTF-8", ErrCSV)
	}
	var lines io.Reader = in
	if !bytes.ContainsRune(head, '\n') && bytes.ContainsRune(head, '\r') {
		s.encoding = "lines that end in a carriage return"
		lines = &newlines{in}
	}
	s.comma = separator(head)
	s.bounded = &bounded{from: lines}
	s.lines = csv.NewReader(s.bounded)
	s.lines.Comma, s.lines.FieldsPerRecord, s.lines.ReuseRecord = s.comma, -1, true
	names, err := s.lines.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it is empty", ErrCSV)
	}
	if err != nil {
		return nil, s.fault(err)
	}
	if len(names) > maxColumns {
		return nil, fmt.Errorf("%w: %d columns: at most %d are read", ErrCSV, len(names), maxColumns)
	}
	for _, n := range names {
		s.names = append(s.names, strings.TrimSpace(n))
	}
	return s, nil
}

// decoded returns the text as UTF-8, without a byte order mark.
func (s *sheet) decoded(in *bufio.Reader) (*bufio.Reader, error) {
	mark, err := in.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the line of names: %w", err)
	}
	big := bytes.HasPrefix(mark, []byte{0xFE, 0xFF})
	switch {
	case bytes.HasPrefix(mark, []byte{0xEF, 0xBB, 0xBF}):
		_, err := in.Discard(3)
		return in, err
	case !big && !bytes.HasPrefix(mark, []byte{0xFF, 0xFE}):
		return in, nil
	}
	s.encoding = "UTF-16"
	raw, err := io.ReadAll(io.LimitReader(in, maxUTF16+1))
	if err != nil {
		return nil, fmt.Errorf("reading UTF-16: %w", err)
	}
	if len(raw) > maxUTF16 || len(raw)%2 != 0 {
		return nil, fmt.Errorf("%w: %d bytes of UTF-16: it is cut, or has more than 1 GiB: save it as UTF-8", ErrCSV,
			len(raw))
	}
	units := make([]uint16, 0, len(raw)/2)
	for i := 2; i < len(raw); i += 2 {
		if big {
			units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
		} else {
			units = append(units, uint16(raw[i+1])<<8|uint16(raw[i]))
		}
	}
	return bufio.NewReaderSize(strings.NewReader(string(utf16.Decode(units))), peeked), nil
}

// longestLine bounds a line in bytes: 100,000 cells are far shorter. Without it a file that is not a table would fill
// the memory. A cell in quotes may span several lines of text, so the bound applies to a line of cells.
const longestLine = 64 << 20

// bounded returns an error if a line of cells is too long.
type bounded struct {
	from io.Reader
	line int // bytes since the line began
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.line += n; b.line > longestLine {
		return 0, fmt.Errorf("%w: a line has more than %d MiB: is a quote open?", ErrCSV, longestLine>>20)
	}
	return n, err //nolint:wrapcheck // a reader hands io.EOF on
}

// newlines turns carriage returns into line feeds.
type newlines struct{ from io.Reader }

func (n *newlines) Read(p []byte) (int, error) {
	k, err := n.from.Read(p)
	for i, c := range p[:k] {
		if c == '\r' {
			p[i] = '\n'
		}
	}
	return k, err //nolint:wrapcheck // a reader hands io.EOF on
}

// separator returns the most frequent separator between the names of the first line. In a tie a comma wins.
func separator(head []byte) rune {
	if end := bytes.IndexAny(head, "\r\n"); end >= 0 {
		head = head[:end]
	}
	counts := map[rune]int{}
	quoted := false
	for _, c := range string(head) {
		if c == '"' {
			quoted = !quoted
		} else if !quoted {
			counts[c]++
		}
	}
	best := ','
	for _, c := range []rune{';', '\t'} {
		if counts[c] > counts[best] {
			best = c
		}
	}
	return best
}

// next returns the cells of the next line, as many as there are names. They are valid until the next call.
func (s *sheet) next() ([]string, error) {
	s.bounded.line = 0
	cells, err := s.lines.Read()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, s.fault(err)
	}
	s.line, _ = s.lines.FieldPos(0)
	if len(cells) == len(s.names) {
		return cells, nil
	}
	remedy := "is the file cut, or is a separator missing?"
	if len(cells) > len(s.names) && s.comma == ',' {
		remedy = "with decimal commas the separator must be a semicolon, or numbers stand in quotes"
	}
	return nil, fmt.Errorf("%w: line %d has %s and the line of names %d: %s", ErrCSV, s.line,
		counted(len(cells), "cell"), len(s.names), remedy)
}

// fault explains an error of the line reader.
func (s *sheet) fault(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%w: line %d: %w", ErrCSV, parse.Line, parse.Err)
	}
	return fmt.Errorf("reading lines: %w", err)
}

// cellState classifies the contents of a cell.
type cellState int

const (
	cellMissing cellState = iota
	cellNumber
	cellText
	cellInfinite
)

// number parses a cell. It returns NaN unless the cell contains a finite number.
func (s *sheet) number(cell string) (float64, cellState) {
	cell = strings.TrimSpace(cell)
	switch strings.ToLower(cell) {
	case "", "nan", "na", "n/a", "null", "none", "-", "?":
		return math.NaN(), cellMissing
	}
	if whole, part, comma := strings.Cut(cell, ","); comma {
		if strings.ContainsAny(cell, ".") || strings.Contains(part, ",") {
			s.both = cell
			return math.NaN(), cellText
		}
		cell = whole + "." + part
		if _, err := strconv.ParseFloat(cell, 64); err == nil {
			s.commas++
		}
	} else if strings.Contains(cell, ".") {
		s.points++
	}
	v, err := strconv.ParseFloat(cell, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return math.NaN(), cellText
	case math.IsInf(v, 0) || math.IsNaN(v):
		return math.NaN(), cellInfinite
	}
	return v, cellNumber
}

// ambiguous returns an error if commas could be decimal points or thousands separators.
func (s *sheet) ambiguous() error {
	switch {
	case s.commas > 0 && s.points > 0:
		return fmt.Errorf("%w: %s with a comma and %d with a point: write all with a decimal point, and no commas "+
			"between "+
			"thousands", ErrCSV, counted(s.commas, "number"), s.points)
	case s.both != "":
		return fmt.Errorf("%w: %.40q has separators between thousands: write 1234.5", ErrCSV, s.both)
	}
	return nil
}

// notes describes how the sheet deviates from RFC 4180.
func (s *sheet) notes() (notes []string) {
	if s.encoding != "" {
		notes = append(notes, "turned from "+s.encoding)
	}
	switch s.comma {
	case ';':
		notes = append(notes, "cells are separated by semicolons")
	case '\t':
		notes = append(notes, "cells are separated by tabs")
	}
	if s.commas > 0 {
		notes = append(notes, counted(s.commas, "number")+" with a decimal comma")
	}
	return notes
}
