package term

import (
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/report/view"
)

// glyphs are the marks of a terminal.
type glyphs struct {
	outer, inner, middle string   // of a band: to the extremes, to the first and ninth decile, the median
	levels               []string // of a sparkline, from the least
}

var (
	lineDrawing = glyphs{"·", "─", "┃", strings.Split("▁▂▃▄▅▆▇█", "")}
	plain       = glyphs{".", "-", "|", strings.Split("_.:-=+*#", "")}
)

func (s Style) glyphs() glyphs {
	if s.ASCII {
		return plain
	}
	return lineDrawing
}

// bar shows a share of a whole as a length. Every share above 0 gets at least one mark.
func bar(share float64, cells int) string {
	n := 0
	if !math.IsNaN(share) {
		n = int(math.Round(min(max(share, 0), 1) * float64(cells)))
		if n == 0 && share > 0 {
			n = 1
		}
	}
	return strings.Repeat("|", n) + strings.Repeat(" ", cells-n)
}

// band shows deciles along a scale: dots to the extremes, a line from the first to the ninth, and the median.
func (s Style) band(d *[11]float64, low, high float64, cells int) string {
	for _, v := range d {
		if cells < 1 || math.IsNaN(v) || math.IsInf(v, 0) {
			return strings.Repeat(" ", cells)
		}
	}
	at := func(v float64) int {
		if high <= low {
			return cells / 2
		}
		return min(max(int((v/2-low/2)/(high/2-low/2)*float64(cells)), 0), cells-1) // halves never overflow
	}
	g := s.glyphs()
	marks := slices.Repeat([]string{" "}, cells)
	fill := func(from, to int, mark string) {
		for i := from; i <= to; i++ {
			marks[i] = mark
		}
	}
	fill(at(d[0]), at(d[10]), g.outer)
	fill(at(d[1]), at(d[9]), g.inner)
	marks[at(d[5])] = g.middle
	return strings.Join(marks, "")
}

// scale returns the range of a metric's band: the whole of a share, otherwise from the smallest to the largest value.
// Bands of shares can be compared with each other, and bands of other metrics use all their room.
func scale(m *view.Metric, share bool) (low, high float64) {
	if share {
		return min(0, m.Total.D[0]), max(1, m.Total.D[10])
	}
	return m.Total.D[0], m.Total.D[10]
}

// columns divides the time of a job into spans, and returns the median of each: half of its bins have a lower one. The
// band shows the extremes, which would hide the usual value here. A span without a value is NaN. A short job has fewer
// spans than cells.
func columns(j *view.Job, m *view.Metric, cells int) []float64 {
	from, until := j.Drawn()
	length := until - from
	if length <= 0 || len(m.Bins) == 0 {
		return nil
	}
	if shortest := m.Bins[0].EndMs - m.Bins[0].StartMs; shortest > 0 {
		cells = int(min(int64(cells), max((length+shortest-1)/shortest, 1)))
	}
	medians := make([][]float64, cells)
	for i := range m.Bins {
		b := &m.Bins[i]
		first := cellOf(b.StartMs-from, length, cells)
		last := cellOf(b.EndMs-1-from, length, cells)
		for c := first; c <= last; c++ {
			if !math.IsNaN(b.D5Mean) {
				medians[c] = append(medians[c], b.D5Mean)
			}
		}
	}
	found := slices.Repeat([]float64{math.NaN()}, cells)
	for c, of := range medians {
		if len(of) > 0 {
			slices.Sort(of)
			found[c] = of[len(of)/2]
		}
	}
	return found
}

// cellOf returns the cell of a time since the beginning.
func cellOf(since, length int64, cells int) int {
	return int(min(max(float64(since)/float64(length), 0)*float64(cells), float64(cells-1)))
}

// spark shows values over time as heights, from 0 or the smallest value to the largest. Shares are drawn from 0 to 1.
func (s Style) spark(values []float64, share bool) string {
	low, high := 0.0, 0.0
	if share {
		high = 1
	}
	for _, v := range values {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	levels := s.glyphs().levels
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case high <= low:
			b.WriteString(levels[0])
		default:
			at := (v/2 - low/2) / (high/2 - low/2) * float64(len(levels))
			b.WriteString(levels[min(max(int(at), 0), len(levels)-1)])
		}
	}
	return b.String()
}
