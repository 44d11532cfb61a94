package term

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirhpc/weir/report/view"
)

// shortUnits are the units that need a shorter form in a column.
var shortUnits = map[string]string{"1": "", "FLOP/s": "F/s", "FLOP/B": "F/B", "1/s": "/s", "degC": "C"}

// value returns a number of a metric for people: a percentage for a share, a prefix of SI from 1 up, and three digits.
func (s Style) value(v float64, unit string, share bool) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case share:
		return percent(v)
	}
	if short, known := shortUnits[unit]; known {
		unit = short
	} else {
		unit = s.clean(unit, 8)
	}
	number, prefix := si(v)
	if unit = prefix + unit; unit == "" {
		return number
	}
	return number + " " + unit
}

func si(v float64) (number, prefix string) { return view.SI(v) }

// threeDigits returns a number without a unit.
func threeDigits(v float64) string {
	number, prefix := si(v)
	return strings.TrimSpace(number + " " + prefix)
}

// percent returns a share in %, or a dash.
func percent(v float64) string { return orDash(view.Percent(v, false)) }

// tenths writes a share in %, which is never rounded up to 100.
func tenths(v float64) string { return view.Floor(v) }

// count returns a whole number with commas.
func count(n int64) string { return view.Count(n) }

// plural returns a number with its noun.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// clock returns a length of time as schedulers print it, in hours, minutes and seconds.
func clock(seconds float64) string {
	if math.IsNaN(seconds) || seconds < 0 || seconds > 1e12 {
		return "-"
	}
	n := int64(seconds)
	return fmt.Sprintf("%d:%02d:%02d", n/3600, n/60%60, n%60)
}

// span returns the length of an interval.
func span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d >= time.Minute && d%time.Hour == 0:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%d ms", ms)
}

// moment writes a time in UTC, as each report notes once. It includes the date.
func moment(ms int64) string { return view.Time(ms).Format("Mon 2006-01-02 15:04") }

// hour writes a time as briefly as near allows: without the date on the same day, with the weekday within 24 hours.
func hour(ms, near int64) string {
	t, n := view.Time(ms), view.Time(near)
	if t.YearDay() == n.YearDay() && t.Year() == n.Year() {
		return t.Format("15:04")
	}
	if d := t.Sub(n).Abs(); d < 24*time.Hour {
		return t.Format("Mon 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// points returns a difference of shares.
func points(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return strconv.FormatFloat(math.Abs(100*v), 'f', 0, 64) + " pt"
}
