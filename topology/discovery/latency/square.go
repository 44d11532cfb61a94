package latency

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Limits of the difference between the two directions of a pair.
const (
	sameRatio   = 1.1 // nearer than this: the mean is taken
	unlikeRatio = 1.5 // farther: the pair is asymmetric, and the lower latency is taken
	unlikeShare = .1  // more of such pairs: the file holds no one-way latencies of a symmetric network
)

// square reads both directions of all pairs.
type square struct {
	*file
	m      *Matrix
	at     int // the row that comes next
	spread spread
	differ int    // pairs with different directions
	unlike string // the first pair that is asymmetric
	many   int    // pairs that are asymmetric
	both   int    // pairs with both directions
}

func newSquare(f *file, names []string) *square { return &square{file: f, m: New(names)} }

// square reads the rest of a square after its first line of latencies. Without a line of names, the first column holds
// them.
func (f *file) square(names, first []string, rowNames bool) (*Matrix, error) {
	if names == nil {
		return f.columnOfNames(first)
	}
	s := newSquare(f, names)
	if err := s.namedRow(first, rowNames); err != nil {
		return nil, err
	}
	return s.rest(rowNames)
}

// columnOfNames reads a square with names in the first column only. They are complete at the end.
func (f *file) columnOfNames(first []string) (*Matrix, error) {
	if len(first)-1 > maxNodes {
		return nil, f.failed(0, "more than %d nodes", maxNodes)
	}
	names, fields := []string{first[0]}, first
	s := newSquare(f, f.numbered(len(first)-1))
	for {
		if err := s.row(fields[1:]); err != nil {
			return nil, err
		}
		if s.at == s.m.Len() {
			break
		}
		line, err := f.line()
		if errors.Is(err, io.EOF) {
			return nil, s.short()
		}
		if err != nil {
			return nil, err
		}
		if fields = f.split(line); len(fields) == 0 {
			return nil, f.failed(0, "the line is empty")
		}
		names = append(names, fields[0])
	}
	if err := f.checkNames(names, 0); err != nil {
		return nil, err
	}
	s.m.names = names
	return s.rest(true)
}

// rest reads the lines that are left.
func (s *square) rest(rowNames bool) (*Matrix, error) {
	for {
		line, err := s.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := s.namedRow(s.split(line), rowNames); err != nil {
			return nil, err
		}
	}
	if s.at < s.m.Len() {
		return nil, s.short()
	}
	return s.finish()
}

func (s *square) short() error {
	return s.failed(0, "the file ends after %d rows of %d", s.at, s.m.Len())
}

// namedRow checks the name at the beginning of a row.
func (s *square) namedRow(fields []string, rowNames bool) error {
	if rowNames && s.at < s.m.Len() {
		if len(fields) == 0 || fields[0] != s.m.names[s.at] {
			return s.failed(1, "the row is that of node %q, so it must begin with this name", s.m.names[s.at])
		}
		fields = fields[1:]
	}
	return s.row(fields)
}

// row takes the latencies of one node to all. The upper half is kept until the lower one comes.
func (s *square) row(fields []string) error {
	n, a := s.m.Len(), s.at
	if a >= n {
		return s.failed(0, "more rows than the %d nodes", n)
	}
	if len(fields) != n {
		return s.failed(0, "%d latencies, but the nodes are %d", len(fields), n)
	}
	for b, field := range fields {
		if a == b {
			if !missing[strings.ToLower(field)] && strings.Trim(field, "0.") != "" {
				return s.failed(b+1, "a node's latency to itself must be 0 or empty, and not %.40q", field)
			}
			continue
		}
		us, err := s.us(field, b+1)
		if err != nil {
			return err
		}
		if b > a {
			s.m.Set(a, b, us)
		} else {
			s.meet(b, a, us)
		}
	}
	s.at++
	return nil
}

// meet takes the second direction of a pair.
func (s *square) meet(a, b int, back float64) {
	forth := s.m.At(a, b)
	if math.IsNaN(forth) || math.IsNaN(back) {
		if math.IsNaN(forth) {
			s.m.Set(a, b, back)
		}
		return
	}
	s.both++
	ratio := max(forth/back, back/forth)
	s.spread.add(forth, back)
	if ratio > 1 {
		s.differ++
	}
	if ratio <= sameRatio {
		s.m.Set(a, b, (forth+back)/2)
	} else {
		s.m.Set(a, b, min(forth, back))
	}
	if ratio > unlikeRatio {
		if s.many++; s.many == 1 {
			s.unlike = fmt.Sprintf("line %d, column %d: %s to %s takes %g microseconds, and back %g", s.number, a+1,
				s.m.names[a], s.m.names[b], forth, back)
		}
	}
}

// finish judges how much the two directions differ.
func (s *square) finish() (*Matrix, error) {
	if s.m.Len() < 2 {
		return nil, fmt.Errorf("%w: one node has no latency", errFile)
	}
	if float64(s.many) > unlikeShare*float64(s.both) {
		return nil, fmt.Errorf("%w: %s: %d of %d pairs are that asymmetric; use half of the round-trip time for both "+
			"directions", errFile, s.unlike, s.many, s.both)
	}
	if s.differ == 0 {
		return s.m, nil
	}
	s.m.warn("the two directions of %d pairs differ: the mean was taken, and the lower one where they differ by more "+
		"than 10 %%", s.differ)
	if s.many > 0 {
		s.m.warn("%d of these pairs differ by more than half: %s", s.many, s.unlike)
	}
	s.m.Noise = s.spread.sigma()
	return s.m, nil
}
