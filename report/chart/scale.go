package chart

import (
	"math"
	"strconv"
)

// Scale maps values to positions of a figure.
type Scale struct {
	lo, hi, from, to float64
	kind             kind
	format           func(float64) string
}

type kind int

const (
	linear kind = iota
	logarithmic
	calendar // Unix milliseconds
	elapsed  // milliseconds since a start
)

// Tick is a labelled position of an axis.
type Tick struct {
	At   float64
	Text string
}

// Linear maps lo..hi to the positions from..to.
func Linear(lo, hi, from, to float64) Scale { return newScale(linear, lo, hi, from, to) }

// Log maps the logarithms of lo..hi. Values that are not above 0 lie at lo.
func Log(lo, hi, from, to float64) Scale {
	return newScale(logarithmic, max(lo, 1e-300), max(lo, hi, 1e-300), from, to)
}

// Time maps Unix milliseconds. Its ticks are whole minutes, hours, days or months of UTC.
func Time(fromMs, toMs int64, from, to float64) Scale {
	return newScale(calendar, float64(fromMs), float64(toMs), from, to)
}

// Elapsed maps milliseconds since a start. Its ticks are whole seconds, minutes, hours or days.
func Elapsed(fromMs, toMs int64, from, to float64) Scale {
	return newScale(elapsed, float64(fromMs), float64(toMs), from, to)
}

// newScale returns a scale. It widens an empty range, so that a constant gets a place on its axis.
func newScale(k kind, lo, hi, from, to float64) Scale {
	switch {
	case hi > lo:
	case k == logarithmic:
		lo, hi = lo/2, hi*2
	default:
		hi = lo + max(1, math.Abs(lo))
	}
	return Scale{lo: lo, hi: hi, from: from, to: to, kind: k}
}

// As returns the scale with another text for its ticks.
func (s Scale) As(format func(float64) string) Scale {
	s.format = format
	return s
}

// At returns the position of v, which is clipped to the scale's range. The position of NaN is NaN.
func (s Scale) At(v float64) float64 {
	if math.IsNaN(v) {
		return v
	}
	v = min(max(v, s.lo), s.hi)
	if s.kind == logarithmic {
		return s.from + (s.to-s.from)*math.Log(v/s.lo)/math.Log(s.hi/s.lo)
	}
	return s.from + (s.to-s.from)*((v-s.lo)/(s.hi-s.lo))
}

// Ticks returns at most n ticks, from 2 on, at round values.
func (s Scale) Ticks(n int) []Tick {
	n = max(n, 2)
	switch s.kind {
	case logarithmic:
		return s.decades(n)
	case calendar:
		return s.times(n)
	case elapsed:
		return s.lengths(n)
	}
	step := roundStep((s.hi - s.lo) / float64(n-1))
	first, decimals := math.Ceil(s.lo/step-1e-9), 0
	for scaled := step; decimals < 9 && math.Abs(scaled-math.Round(scaled)) > 1e-9*scaled; scaled *= 10 {
		decimals++
	}
	var ticks []Tick
	for i := first; i*step <= s.hi+step*1e-9 && len(ticks) < n+1; i++ {
		ticks = append(ticks, s.tick(i*step+0, decimals))
	}
	return ticks
}

// tick formats v. Numbers from 1e6 on, and small ones, are written with powers of ten.
func (s Scale) tick(v float64, decimals int) Tick {
	switch {
	case s.format != nil:
		return Tick{s.At(v), s.format(v)}
	case v != 0 && (math.Abs(v) >= 1e6 || decimals > 4):
		return Tick{s.At(v), strconv.FormatFloat(v, 'g', 3, 64)}
	}
	return Tick{s.At(v), strconv.FormatFloat(v, 'f', decimals, 64)}
}

// roundStep returns the least of 1, 2, 2.5, 5 times a power of ten that is not below v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// decades returns the powers of ten in the range. If there are fewer than two, 2 and 5 times these are added.
func (s Scale) decades(n int) []Tick {
	first, last := math.Ceil(math.Log10(s.lo)-1e-9), math.Floor(math.Log10(s.hi)+1e-9)
	var ticks []Tick
	put := func(v float64) {
		if v >= s.lo*(1-1e-9) && v <= s.hi*(1+1e-9) {
			ticks = append(ticks, s.tick(v, max(0, int(-math.Floor(math.Log10(v)+1e-9)))))
		}
	}
	by := max(1, math.Ceil((last-first+1)/float64(n)))
	few := last-first < 2 && n >= 4
	for e := first - 1; e <= last; e++ {
		if e >= first && math.Mod(e-first, by) == 0 {
			put(math.Pow(10, e))
		}
		if few {
			put(2 * math.Pow(10, e))
			put(5 * math.Pow(10, e))
		}
	}
	return ticks
}
