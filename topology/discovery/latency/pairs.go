package latency

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/naming"
)

// maxPairs bounds the lines of pairs: 1 GiB of them.
const maxPairs = 1 << 26

// repeat is one measurement of a pair.
type repeat struct {
	pair int64 // the lower node's number times maxNodes, and the higher's
	us   float64
}

// pairs reads lines of two nodes and a latency, below the line of names of the columns.
func (f *file) pairs(columns int) (*Matrix, error) {
	var names []string
	var repeats []repeat
	number := map[string]int{}
	for {
		line, err := f.line()
		if errors.Is(err, io.EOF) {
			return f.joined(names, repeats)
		}
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		fields := f.split(line)
		if len(fields) < 3 || len(fields) > columns {
			return nil, f.failed(0, "%d fields, but the first line has %d", len(fields), columns)
		}
		var at [2]int
		for i, name := range fields[:2] {
			if !naming.Valid(name) {
				return nil, f.failed(i+1, "%.40q is no name of a node", name)
			}
			known, ok := number[name]
			if !ok {
				known = len(names)
				number[name] = known
				names = append(names, name)
			}
			at[i] = known
		}
		us, err := f.us(fields[2], 3)
		switch {
		case err != nil:
			return nil, err
		case at[0] == at[1]:
			return nil, f.failed(2, "a latency of node %.40q to itself", fields[0])
		case len(names) > maxNodes:
			return nil, f.failed(0, "more than %d nodes", maxNodes)
		case len(repeats) == maxPairs:
			return nil, f.failed(0, "more than %d measurements", maxPairs)
		}
		repeats = append(repeats, repeat{int64(min(at[0], at[1]))*maxNodes + int64(max(at[0], at[1])), us})
	}
}

// joined takes the median of each pair's repeats, and the noise from their spread.
func (f *file) joined(names []string, repeats []repeat) (*Matrix, error) {
	if len(names) < 2 {
		return nil, fmt.Errorf("%w: no line has a pair of nodes", errFile)
	}
	if f.names != nil {
		if err := f.inOrder(names, repeats); err != nil {
			return nil, err
		}
		names = f.names
	}
	m := New(names)
	slices.SortStableFunc(repeats, func(x, y repeat) int { return cmp.Compare(x.pair, y.pair) })
	var differences spread
	for len(repeats) > 0 {
		n := 1
		for n < len(repeats) && repeats[n].pair == repeats[0].pair {
			n++
		}
		if us := median(repeats[:n], &differences); !math.IsNaN(us) {
			m.Set(int(repeats[0].pair/maxNodes), int(repeats[0].pair%maxNodes), us)
		}
		repeats = repeats[n:]
	}
	m.Noise = differences.sigma()
	return m, nil
}

// median returns the median of a pair's successful repeats, NaN if all failed.
func median(repeats []repeat, differences *spread) float64 {
	values := make([]float64, 0, len(repeats))
	for _, r := range repeats {
		if !math.IsNaN(r.us) {
			values = append(values, r.us)
		}
	}
	if len(values) == 0 {
		return math.NaN()
	}
	for i := 1; i < len(values); i++ {
		differences.add(values[i-1], values[i])
	}
	return Describe(values).Median
}

// inOrder renumbers the nodes in the order of the comment with the names.
func (f *file) inOrder(names []string, repeats []repeat) error {
	number := make(map[string]int64, len(f.names))
	for i, name := range f.names {
		number[name] = int64(i)
	}
	renumbered := make([]int64, len(names))
	for i, name := range names {
		at, ok := number[name]
		if !ok {
			return f.failed(0, "node %.40q is not in the comment with the names", name)
		}
		renumbered[i] = at
	}
	for i, r := range repeats {
		a, b := renumbered[r.pair/maxNodes], renumbered[r.pair%maxNodes]
		repeats[i].pair = min(a, b)*maxNodes + max(a, b)
	}
	return nil
}

// spread collects how much two repeats of a pair differ.
type spread struct{ differences []float64 }

// add takes two repeats of a pair in microseconds.
func (s *spread) add(x, y float64) {
	if len(s.differences) < 1<<20 {
		s.differences = append(s.differences, math.Abs(math.Log(x/y)))
	}
}

// sigma returns the standard deviation of ln(latency) between repeats, 0 if there are too few. Outliers hardly move it:
// the median of |x-y| is .6745 √2 of the standard deviation of both. TestNoiseOfRepeats pins it.
func (s *spread) sigma() float64 {
	const enough = 10
	if len(s.differences) < enough {
		return 0
	}
	return Describe(s.differences).Median / (.6745 * math.Sqrt2)
}
