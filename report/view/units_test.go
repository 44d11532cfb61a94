package view

import (
	"math"
	"testing"
)

// TestPercentIsNeverNothingNorAll: a terminal and a page round alike, and a page has more digits of what is small.
func TestPercentIsNeverNothingNorAll(t *testing.T) {
	for v, want := range map[float64][2]string{
		0: {"0 %", "0 %"}, 1: {"100 %", "100 %"}, 1e-9: {"<0.1 %", "<0.01 %"}, 0.0031: {"0.3 %", "0.3 %"},
		0.0002: {"<0.1 %", "0.02 %"}, 0.0567: {"6 %", "5.7 %"}, 0.05: {"5 %", "5 %"}, 0.42: {"42 %", "42 %"},
		0.9999999: {"99.9 %", "99.9 %"}, 1.2: {"120 %", "120 %"}, 12345678: {"1.23e+09 %", "1.23e+09 %"},
		math.Inf(1): {"", ""},
	} {
		if got := [2]string{Percent(v, false), Percent(v, true)}; got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{0.31: "0.31", 999.6: "1 k", 1.2345e9: "1.23 G", -2e3: "-2 k", 0: "0"} {
		number, prefix := SI(v)
		if prefix != "" {
			number += " " + prefix
		}
		if number != want {
			t.Errorf("%v is %s, want %s", v, number, want)
		}
	}
}
