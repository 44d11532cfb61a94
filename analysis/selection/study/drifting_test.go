package study

import (
	"os"
	"testing"
)

// TestDriftRates holds goal 12 on some of its seeds; `make selection-study` has all 20.
func TestDriftRates(t *testing.T) {
	seeds := Seeds(300, 4)
	if os.Getenv("WEIR_STUDY") != "" {
		seeds = Seeds(300, 20)
	}
	for _, noise := range []float64{noiseShare, weakShare} {
		for _, replaced := range []int{0, 1, 2, 4} {
			r, err := Responses(seeds, replaced, noise)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("noise %.2f: %+v", noise, r)
		}
	}
	r, err := Canaries(seeds)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
}

func Seeds(first uint64, n int) (s []uint64) {
	for i := range n {
		s = append(s, first+uint64(i))
	}
	return s
}

const weakShare = .816
