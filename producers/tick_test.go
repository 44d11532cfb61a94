package producers

import (
	"testing"
	"time"
)

func TestBoundaryAfter(t *testing.T) {
	for _, c := range []struct{ now, want int64 }{{0, 1000}, {1, 1000}, {999, 1000}, {1000, 2000}, {1001, 2000}} {
		if got := boundaryAfter(time.UnixMilli(c.now), time.Second); got != c.want {
			t.Errorf("boundaryAfter(%d) = %d, want %d", c.now, got, c.want)
		}
	}
}

func TestWhole(t *testing.T) {
	at := func(boundary, start, end int64) moment {
		return moment{boundary: boundary, start: time.UnixMilli(start), end: time.UnixMilli(end)}
	}
	good := at(10_000, 10_000, 10_001)
	for name, c := range map[string]struct {
		from, to moment
		want     bool
	}{
		"on time":                      {good, at(11_000, 11_000, 11_002), true},
		"both late by a tenth":         {at(10_000, 10_100, 10_100), at(11_000, 11_100, 11_100), true},
		"second reading late":          {good, at(11_000, 11_101, 11_101), false},
		"second reading long":          {good, at(11_000, 11_000, 11_101), false},
		"first reading late":           {at(10_000, 10_101, 10_101), at(11_000, 11_000, 11_000), false},
		"a boundary between":           {good, at(12_000, 12_000, 12_000), false},
		"the first reading of all":     {moment{}, at(11_000, 11_000, 11_000), false},
		"clock set back while waiting": {good, at(11_000, 10_500, 10_501), false},
		"stopped and continued":        {good, at(11_000, 17_300, 17_300), false},
		"the same boundary again":      {good, at(10_000, 10_001, 10_001), false},
	} {
		if got := whole(c.from, c.to, time.Second); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// The wall clock was set between two readings that look neighbouring: only half a second has passed.
	from := moment{boundary: 10_000, start: time.Now()}
	from.end = from.start
	to := moment{boundary: 11_000, start: from.start.Add(500 * time.Millisecond)}
	to.end = to.start
	from.boundary = from.start.UnixMilli() / 1000 * 1000
	to.boundary = from.boundary + 1000
	if whole(from, to, time.Second) {
		t.Error("half an interval is whole")
	}
}

func TestSlots(t *testing.T) {
	var early, late int
	for _, n := range SimulatedNodes(1000) {
		s := slotOf(n, 500*time.Millisecond)
		if s < 0 || s >= 500*time.Millisecond {
			t.Fatalf("slot of %s is %v", n, s)
		}
		if s != slotOf(n, 500*time.Millisecond) {
			t.Fatal("a slot changes")
		}
		if s < 250*time.Millisecond {
			early++
		} else {
			late++
		}
	}
	if early < 400 || late < 400 {
		t.Errorf("%d nodes in the first half, %d in the second", early, late)
	}
	if slotOf("n", 0) != 0 {
		t.Error("without a window the slot is not 0")
	}
}
