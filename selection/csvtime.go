package selection

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// time reads the time of a row. Dates are converted to milliseconds, numbers are returned unchanged.
func (p *csvTable) time(cell string) (at float64, dated, ok bool) {
	cell = strings.TrimSpace(cell)
	if v, state := p.number(cell); state == cellNumber {
		return v, false, math.Abs(v) < 1<<53
	}
	if at, ok := dateTime(cell); ok {
		return float64(at.UnixMilli()), true, true
	}
	return 0, false, false
}

// dateTime parses a time in the form of RFC 3339 or of common databases. Without a zone it is UTC.
func dateTime(cell string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 " +
		"15:04", time.DateOnly} {
		if at, err := time.Parse(layout, cell); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// secondsBelow separates seconds from milliseconds. It is the year 5138 in seconds, and 1973 in milliseconds.
const secondsBelow = 1e11

// starts returns the times in milliseconds.
func (p *csvTable) starts() ([]int64, error) {
	if p.dated > 0 && p.dated < len(p.times) {
		return nil, fmt.Errorf("%w: column %.80q has dates in %d rows and numbers in %d: write one of them", ErrCSV,
			p.names[p.timeAt], p.dated, len(p.times)-p.dated)
	}
	scale := 1000.0
	if p.dated > 0 || slices.ContainsFunc(p.times, func(at float64) bool { return math.Abs(at) >= secondsBelow }) {
		scale = 1
	}
	start := make([]int64, len(p.times))
	for i, at := range p.times {
		start[i] = int64(math.Round(at * scale))
	}
	p.times = nil
	return start, nil
}

// inOrder sorts the rows by unit and time if any unit's times are out of order.
func (p *csvTable) inOrder(t *Table) {
	early, twice := 0, 0
	last := map[int32]int64{}
	for i, at := range t.Start {
		unit := t.unit(i)
		if before, has := last[unit]; has && at < before {
			early++
		} else if has && at == before {
			twice++
		}
		if before, has := last[unit]; !has || at > before {
			last[unit] = at
		}
	}
	if twice > 0 {
		p.note("%s the time of the row before", counted(twice, "row has", "rows have"))
	}
	if early == 0 {
		return
	}
	p.note("%s earlier than the row before: sorted by time", counted(early, "row is", "rows are"))
	t.sort()
}
