package page

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhpc/weir/report/view"
)

// percent writes a share with as many digits as it deserves.
func percent(v float64) string {
	return cmp.Or(strings.ReplaceAll(view.Percent(v, true), " ", "\u00a0"), "unknown")
}

// count writes a number with its noun, which takes an s.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func thousands(n int64) string { return view.Count(n) }

// span writes a length of time as a scheduler does.
func span(ms int64) string {
	s := ms / 1000
	if d := s / 86400; d > 0 {
		return fmt.Sprintf("%d-%02d:%02d:%02d", d, s/3600%24, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

func moment(ms int64) string { return view.Time(ms).Format("2006-01-02 15:04") }

// sameDay writes a time, with its date only if that differs from the date of the time near.
func sameDay(ms, near int64) string {
	date, clock, _ := strings.Cut(moment(ms), " ")
	if of, _, _ := strings.Cut(moment(near), " "); of == date {
		return clock
	}
	return date + " " + clock
}

// roughly writes a span in words.
func roughly(ms int64) string {
	h := float64(ms) / 3600e3
	switch {
	case h >= 72:
		return fmt.Sprintf("%.1f days", h/24)
	case h >= 2:
		return fmt.Sprintf("%.1f hours", h)
	case ms >= 120e3:
		return count(ms/60e3, "minute")
	}
	return count(ms/1000, "second")
}

// length writes a short span in its largest unit.
func length(ms int64) string {
	for _, u := range []struct {
		ms   int64
		name string
	}{{86400e3, "d"}, {3600e3, "h"}, {60e3, "min"}, {1000, "s"}} {
		if ms >= u.ms && ms%u.ms == 0 {
			return strconv.FormatInt(ms/u.ms, 10) + "\u00a0" + u.name
		}
	}
	return strconv.FormatInt(ms, 10) + "\u00a0ms"
}

// list joins names. A long list keeps its beginning and its last name.
func list(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most-1], ", ") + ", … " + names[len(names)-1]
}

// shorten cuts the end of a text that is too long for a figure, which cannot break lines. The table below shows the
// whole text.
func shorten(s string, most int) string {
	if room(s) <= most {
		return s
	}
	for room(s) > most-1 {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s + "…"
}

// ending cuts the beginning of a text that is too long. Node names differ at their ends.
func ending(s string, most int) string {
	if room(s) <= most {
		return s
	}
	for room(s) > most-1 {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	return "…" + s
}

// room returns the width of s in characters. Wide characters, as in East Asian scripts, count as two.
func room(s string) int {
	n := 0
	for _, r := range s {
		if n++; r >= 0x1100 {
			n++
		}
	}
	return n
}

// value writes a value of a metric with its unit.
func value(m *view.Metric, v float64) string { return unitText(m.Name, m.Unit, v) }

func unitText(name, unit string, v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "unknown"
	}
	if share(name, unit) {
		return percent(v)
	}
	_, unit = unitFor(name, unit, 0)
	number, prefix := view.SI(v)
	return strings.TrimRight(number+"\u00a0"+prefix+unit, "\u00a0")
}

// unitFor returns the unit in which values up to most are short, and its size in base units.
func unitFor(name, unit string, most float64) (by float64, text string) {
	switch {
	case share(name, unit):
		return 0.01, "%"
	case unit == "1":
		unit = ""
	case unit == "1/s":
		unit = "/s"
	}
	by, prefix := 1.0, ""
	for _, p := range []string{"k", "M", "G", "T", "P", "E"} {
		if math.Abs(most)/by < 999.5 {
			break
		}
		by, prefix = by*1000, p
	}
	return by, prefix + unit
}

// digits writes three significant digits, and two for small numbers.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || a == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// share reports whether the values are shown in %.
func share(name, unit string) bool { return unit == "s/s" || view.TextOf(name).Percent }
