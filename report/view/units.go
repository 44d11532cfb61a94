package view

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
)

// Count writes a whole number with commas.
func Count(n int64) string { return humanize.Comma(n) }

// SI returns a number with three digits, and its prefix. Below 1 there is no prefix: 310 m instructions per cycle would
// be nonsense.
func SI(v float64) (number, prefix string) {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if size := math.Abs(rounded); err == nil && size >= 1 && size < 1e33 {
		rounded, prefix = humanize.ComputeSI(rounded)
		return strconv.FormatFloat(rounded, 'f', -1, 64), prefix
	}
	return strconv.FormatFloat(v, 'g', 3, 64), ""
}

// Percent writes a share, or nothing if it is not finite. A share above 0 is never written as 0, and a share below 1
// never as 100. If fine is set, small shares get more digits than a column of a terminal has room for.
func Percent(v float64, fine bool) string {
	p := 100 * v
	format, digits := byte('f'), 0
	switch size := math.Abs(p); {
	case math.IsNaN(p) || math.IsInf(p, 0):
		return ""
	case size >= 1e6:
		format, digits = 'g', 3
	case p == 0:
	case fine && size < 0.01:
		return "<0.01 %"
	case p > 0 && p < 0.05 && !fine:
		return "<0.1 %"
	case p >= 99.5 && p < 100, fine && p > 99 && p < 100:
		p, digits = math.Floor(10*p)/10, 1
	case fine && size < 0.95:
		format, digits = 'g', 1
	case size < 0.95, fine && size < 9.95 && p != math.Trunc(p):
		digits = 1
	}
	return strconv.FormatFloat(p, format, digits, 64) + " %"
}

// Floor writes a share in %, which is never rounded up to 100.
func Floor(v float64) string {
	if p := math.Floor(1000*v+1e-9) / 10; v < 1 && p < 100 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return "100 %"
}

// Bound writes a share in %, which is never rounded down.
func Bound(v float64) string { return fmt.Sprintf("%.1f %%", math.Ceil(1000*v-1e-9)/10) }
