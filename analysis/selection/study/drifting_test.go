package study

import "testing"

// TestDriftRates holds goal 12 on some of its seeds, all from 300 on. `make selection-study` has 20.
func TestDriftRates(t *testing.T) {
	seeds := []uint64{300, 301, 302}
	for _, c := range []struct {
		replaced, missed, delay int // most missed, and the longest median delay in rows
		noise                   float64
	}{{0, 0, 0, noiseShare}, {1, 0, 180, noiseShare}, {0, 0, 0, weakShare}, {4, 0, 300, weakShare}} {
		r, err := WatchResponses(seeds, c.replaced, c.noise)
		if err != nil {
			t.Fatal(err)
		}
		if r.Cases != len(seeds) || r.False > 0 || r.Missed > c.missed {
			t.Errorf("%d replaced, noise %g: %+v", c.replaced, c.noise, r)
		}
		if c.replaced > 0 && r.Delays[len(r.Delays)/2] > c.delay {
			t.Errorf("%d replaced, noise %g: median delay %d rows, want at most %d", c.replaced, c.noise,
				r.Delays[len(r.Delays)/2], c.delay)
		}
	}
	r, err := WatchCanaries(seeds[:1])
	if err != nil {
		t.Fatal(err)
	}
	if r.Watched != r.Dropped || r.Watched < 150 {
		t.Errorf("%d of %d dropped metrics are watched", r.Watched, r.Dropped)
	}
	if r.False*1000 > r.Quiet || r.Found*100 < r.Parted*98 || r.Redo > 0 {
		t.Errorf("canaries: %+v", r)
	}
}
