package source

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// maxDevices bounds the numbers of sockets and GPUs that a site's source may name, as records do.
const maxDevices = 1024

// place locates the values of a site's metric: the scope among the scopes of its source, and the column in a row of
// that scope.
type place struct{ scope, column int }

// declared lists the metrics that a site declares for one source.
type declared struct {
	scopes []string // ascending
	kinds  [][]Kind // of each scope's metrics, in their order
	places map[string]place
}

func declare(metrics []config.SiteMetric) declared {
	d := declared{places: map[string]place{}}
	for _, m := range metrics {
		d.scopes = append(d.scopes, m.Scope)
	}
	slices.Sort(d.scopes)
	d.scopes = slices.Compact(d.scopes)
	d.kinds = make([][]Kind, len(d.scopes))
	for _, m := range metrics {
		i := slices.Index(d.scopes, m.Scope)
		d.places[m.Name] = place{i, len(d.kinds[i])}
		d.kinds[i] = append(d.kinds[i], Kind(m.Kind))
	}
	return d
}

// flaws counts the lines of a text without a value. It keeps no part of the text: flaws are logged, and the path may
// lead to a secret by mistake.
type flaws struct {
	garbled, undeclared int
	first               int // the number of the first of these lines, from 1
}

// String lists only the kinds of flaws that occurred, so that the log prints a line for each kind.
func (f flaws) String() string {
	var all []string
	if f.garbled > 0 {
		all = append(all, fmt.Sprintf("%d garbled", f.garbled))
	}
	if f.undeclared > 0 {
		all = append(all, fmt.Sprintf("%d of undeclared metrics", f.undeclared))
	}
	return fmt.Sprintf("%s, first in line %d", strings.Join(all, ", "), f.first)
}

func (f *flaws) add(count *int, line int) {
	*count++
	if f.first == 0 {
		f.first = line
	}
}

// parseLines reads lines `name value`, or `name number value` for a metric of each core, socket or GPU, into a reading
// for each scope. A row begins with the stamp, the time of the text in nanoseconds since any time, before or after it.
// The values follow as the bits of floats, NaN for metrics that the text lacks. Empty lines and lines that begin with #
// are skipped. If two lines give the same value, the later one counts. The text may have been cut off, so a last line
// without an end is dropped.
func (d *declared) parseLines(into []reading, text []byte, stamp uint64) (_ []reading, f flaws) {
	if len(into) != len(d.scopes) {
		into = make([]reading, len(d.scopes))
	}
	for i := range into {
		for j := range into[i] {
			into[i][j] = into[i][j][:0]
		}
		if d.scopes[i] == schemas.ScopeNode {
			into[i] = d.row(into[i], i, 0, stamp)
		}
	}
	for n := 1; ; n++ {
		line, rest, ended := bytes.Cut(text, []byte{'\n'})
		if !ended {
			if len(line) > 0 {
				f.add(&f.garbled, n)
			}
			return into, f
		}
		text = rest
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name, rest := field(line)
		at, ok := d.places[string(name)]
		if !ok {
			if len(rest) == 0 || !printable(line) {
				f.add(&f.garbled, n)
			} else {
				f.add(&f.undeclared, n)
			}
			continue
		}
		row, v, ok := numbers(rest, d.scopes[at.scope])
		if !ok {
			f.add(&f.garbled, n)
			continue
		}
		into[at.scope] = d.row(into[at.scope], at.scope, row, stamp)
		into[at.scope][row][1+at.column] = math.Float64bits(v)
	}
}

// numbers reads the rest of a line after the name: the number of the core, socket or GPU, and the value. It rejects
// infinite values.
func numbers(text []byte, scope string) (row int, v float64, ok bool) {
	if scope != schemas.ScopeNode {
		limit := uint64(maxDevices)
		if scope == schemas.ScopeCore {
			limit = maxCPUs
		}
		digits, rest := field(text)
		n, left, isNumber := number(digits)
		if !isNumber || len(left) > 0 || n >= limit {
			return 0, 0, false
		}
		row, text = int(n), rest
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if math.IsInf(v, 0) {
		v, err = math.NaN(), nil
	}
	return row, v, err == nil
}

// row makes sure that row n of a scope's reading exists.
func (d *declared) row(r reading, scope, n int, stamp uint64) reading {
	for len(r) <= n {
		r = append(r, nil)
	}
	if len(r[n]) == 0 {
		r[n] = append(r[n], stamp)
		for range d.kinds[scope] {
			r[n] = append(r[n], math.Float64bits(math.NaN()))
		}
	}
	return r
}

// field cuts the first word off a line without spaces at its ends.
func field(line []byte) (word, rest []byte) {
	i := bytes.IndexAny(line, " \t")
	if i < 0 {
		return line, nil
	}
	return line[:i], bytes.TrimLeft(line[i:], " \t")
}

func printable(line []byte) bool {
	return !slices.ContainsFunc(line, func(b byte) bool { return b < ' ' && b != '\t' || b >= 0x7f })
}

// formSite forms the values of one row of a site's source. A rate is the growth of a counter between two texts, by the
// time between them, and not by that between the readings. A counter that went backwards was reset, and gives nothing.
func formSite(kinds []Kind, from, to []uint64, out []float64) {
	seconds := float64(int64(to[0]-from[0])) / 1e9
	for i, kind := range kinds {
		was, is := math.Float64frombits(from[1+i]), math.Float64frombits(to[1+i])
		switch {
		case kind != Rate:
			out[i] = is
		case seconds > 0 && is >= was: // NaN is not
			out[i] = (is - was) / seconds
		}
	}
}
