package chart

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// steps of an axis of time, in milliseconds. Months follow, in calendar.
var steps = []int64{
	1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 2 * 60e3, 5 * 60e3, 10 * 60e3, 15 * 60e3, 30 * 60e3,
	hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 5 * day, 10 * day,
}

const hour, day = 3600e3, 24 * 3600e3

// times returns ticks at whole steps. A tick at midnight shows the date, on the first day of a year with the year.
func (s Scale) times(n int) []Tick {
	var ticks []Tick
	for _, step := range steps {
		if (s.hi-s.lo)/float64(step) > float64(n-1) {
			continue
		}
		format := "15:04"
		if step < 60e3 {
			format = "15:04:05"
		}
		for v := (int64(math.Ceil(s.lo)) + step - 1) / step * step; float64(v) <= s.hi; v += step {
			text := time.UnixMilli(v).UTC().Format(format)
			if v%day == 0 {
				text = time.UnixMilli(v).UTC().Format("Jan 2")
			}
			ticks = append(ticks, Tick{s.At(float64(v)), text})
		}
		return ticks
	}
	begin := time.UnixMilli(int64(s.lo)).UTC()
	months := 1 + int((s.hi-s.lo)/(30*day))/n
	for at := time.Date(begin.Year(), begin.Month(), 1, 0, 0, 0, 0, time.UTC); float64(at.UnixMilli()) <= s.hi; {
		if float64(at.UnixMilli()) >= s.lo {
			text := at.Format("Jan")
			if at.Month() == time.January || len(ticks) == 0 {
				text = at.Format("Jan 2006")
			}
			ticks = append(ticks, Tick{s.At(float64(at.UnixMilli())), text})
		}
		at = at.AddDate(0, months, 0)
	}
	return ticks
}

// lengths returns ticks at whole steps since the start, all in the same unit. Beyond the longest step, a step is a
// number of days.
func (s Scale) lengths(n int) (ticks []Tick) {
	fits := func(step int64) bool { return (s.hi-s.lo)/float64(step) <= float64(n-1) }
	step := steps[len(steps)-1]
	if i := slices.IndexFunc(steps, fits); i >= 0 {
		step = steps[i]
	}
	for !fits(step) {
		step *= 2
	}
	by, unit := int64(1e3), " s"
	switch {
	case step%day == 0:
		by, unit = day, " d"
	case step%hour == 0:
		by, unit = hour, " h"
	case step%60e3 == 0:
		by, unit = 60e3, " min"
	}
	for v := (int64(math.Ceil(s.lo)) + step - 1) / step * step; float64(v) <= s.hi; v += step {
		ticks = append(ticks, Tick{s.At(float64(v)), strconv.FormatInt(v/by, 10) + unit})
	}
	return ticks
}
