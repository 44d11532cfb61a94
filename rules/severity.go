package rules

import (
	"math"

	"github.com/weirhpc/weir/schemas"
)

// Kinds of a scale.
const (
	scaleLinear = iota // from 0 to 1
	scaleHigh          // high values are bad
	scaleLow           // low values are bad
)

// scale maps a number to a severity.
type scale struct {
	kind     int
	from, to float64
	limit    float64
	exponent float64
}

// of returns the severity of v, from 0 to 1, or NaN.
func (s *scale) of(v float64) float64 {
	if math.IsNaN(v) {
		return v
	}
	var bad float64
	switch s.kind {
	case scaleHigh:
		bad = math.Pow(max(0, v/s.limit-1), s.exponent)
	case scaleLow:
		bad = 1 - math.Pow(min(1, max(0, v/s.limit)), s.exponent)
	default:
		bad = (v - s.from) / (s.to - s.from)
	}
	return min(1, max(0, bad))
}

// grains is the number of steps of a severity. Severities are summed as whole steps, so that the sum does not depend on
// the order.
const grains = 1_000_000_000

func grain(severity float64) int64 { return int64(math.Round(severity * grains)) }

// Class returns the class of a severity.
func Class(severity float64) string {
	switch steps := grain(severity); {
	case steps < grain(1.0/3):
		return schemas.ClassLow
	case steps < grain(2.0/3):
		return schemas.ClassMed
	}
	return schemas.ClassHigh
}
