package balancer

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

func tenSeconds() schedule {
	return schedule{ms: 10_000, margin: time.Second, grace: time.Second, backoffCap: 5 * time.Second}
}

func TestFirstInterval(t *testing.T) {
	s := tenSeconds()
	tests := map[string]struct {
		state *schemas.BalanceState
		now   int64
		want  int64
	}{
		"nothing yet":          {nil, 25_000, 30_000},
		"nothing yet, on time": {nil, 20_000, 30_000},
		"goes on":              {&schemas.BalanceState{IntervalStart: 40_000, IntervalMs: 10_000}, 99_000, 50_000},
		"was shorter":          {&schemas.BalanceState{IntervalStart: 42_000, IntervalMs: 3_000}, 99_000, 50_000},
		"was longer":           {&schemas.BalanceState{IntervalStart: 60_000, IntervalMs: 30_000}, 99_000, 90_000},
		"ends on a multiple":   {&schemas.BalanceState{IntervalStart: 45_000, IntervalMs: 5_000}, 99_000, 50_000},
	}
	for name, tt := range tests {
		if got := s.first(tt.state, time.UnixMilli(tt.now)); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestNextPlan(t *testing.T) {
	s := tenSeconds()
	tests := map[string]struct {
		c          cursor
		now        int64
		start, due int64
	}{
		"the first":              {cursor{next: 30_000}, 25_000, 30_000, 39_000},
		"in the interval":        {cursor{next: 20_000, planned: 10_000}, 21_000, 20_000, 29_000},
		"in the margin":          {cursor{next: 20_000, planned: 10_000}, 29_900, 20_000, 29_000},
		"done":                   {cursor{next: 20_000, planned: 20_000}, 29_950, 30_000, 39_000},
		"too late":               {cursor{next: 20_000, planned: 10_000}, 30_000, 30_000, 39_000},
		"long too late":          {cursor{next: 20_000, planned: 10_000}, 95_000, 90_000, 99_000},
		"planned with another T": {cursor{next: 40_000, planned: 33_000}, 35_000, 40_000, 49_000},
	}
	for name, tt := range tests {
		start, due := s.nextPlan(tt.c, time.UnixMilli(tt.now))
		if start != tt.start || due.UnixMilli() != tt.due {
			t.Errorf("%s: %d due at %d, want %d due at %d", name, start, due.UnixMilli(), tt.start, tt.due)
		}
	}
}

// TestClockSetBack: what was done by a clock that was ahead holds up nothing, once the clock is right.
func TestClockSetBack(t *testing.T) {
	s := tenSeconds()
	for name, tt := range map[string]struct {
		c    cursor
		back bool
	}{
		"on time":                      {cursor{next: 100_000, planned: 90_000}, false},
		"another host's is 10 s ahead": {cursor{next: 120_000, planned: 110_000}, false},
		"Ticks of hours":               {cursor{next: 7_300_000, planned: 90_000}, true},
		"a plan of hours":              {cursor{next: 100_000, planned: 7_300_000}, true},
	} {
		if err := s.checkClock(tt.c, time.UnixMilli(100_000)); errors.Is(err, errClock) != tt.back {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNextTick(t *testing.T) {
	s := tenSeconds()
	up := time.UnixMilli(1_000_000)
	tests := map[string]struct {
		c          cursor
		now        int64
		start, due int64
	}{
		"not yet":             {cursor{next: 990_000, answered: up}, 1_000_500, 990_000, 1_001_000},
		"due":                 {cursor{next: 990_000, answered: up}, 1_001_000, 990_000, 1_001_000},
		"two overdue at once": {cursor{next: 980_000, answered: up}, 1_001_000, 980_000, 991_000},
		"three wait":          {cursor{next: 970_000, answered: up}, 1_001_000, 970_000, 1_010_000},
		"three, an eighth apart": {
			cursor{next: 970_000, answered: up, caughtUp: time.UnixMilli(1_010_000)},
			1_010_500, 970_000, 1_011_250,
		},
		"sixty-four": {cursor{next: 360_000, answered: up}, 1_001_000, 360_000, 1_010_000},
		"sixty-five": {cursor{next: 350_000, answered: up}, 1_001_000, 360_000, 1_010_000},
	}
	for name, tt := range tests {
		start, due := s.nextTick(tt.c, time.UnixMilli(tt.now))
		if start != tt.start || due.UnixMilli() != tt.due {
			t.Errorf("%s: %d due at %d, want %d due at %d", name, start, due.UnixMilli(), tt.start, tt.due)
		}
	}
}

// TestCatchUp plays balancers that were away for a random time: what they write, and when.
func TestCatchUp(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 6))
		s := schedule{ms: 1000 + r.Int64N(60_000), backoffCap: time.Duration(r.Int64N(10_000)) * time.Millisecond}
		s.grace = time.Duration(r.Int64N(s.ms/2)) * time.Millisecond
		away := r.Int64N(400)
		up := time.UnixMilli(s.ms*10_000 + r.Int64N(s.ms))
		next := s.containing(up) - s.ms*away
		c := cursor{next: next, answered: up}
		overdue, last, now := 0, int64(0), up
		perT := map[int64]int{}
		for overdueAtStart := s.containing(up.Add(-s.grace)) - s.ms; c.next <= s.containing(up)+20*s.ms; {
			start, due := s.nextTick(c, now)
			if due.After(now) {
				now = due
				continue
			}
			if start < c.next || last > 0 && start != last+s.ms || time.UnixMilli(start+s.ms).Add(s.grace).After(now) {
				t.Fatalf("seed %d: Tick %d after %d at %d", seed, start, last, now.UnixMilli())
			}
			if start <= overdueAtStart {
				overdue++
			}
			if away > 3 && now.Before(up.Add(2*s.backoffCap)) {
				t.Fatalf("seed %d: a Tick before the agents had time", seed)
			}
			perT[now.Sub(up).Milliseconds()/s.ms]++
			last, c.next, c.caughtUp = start, start+s.ms, now
		}
		// While the agents get their time, the oldest may come to lie too far back.
		least := config.Outage - 1 - int(2*s.backoffCap.Milliseconds()/s.ms)
		if overdue > config.Outage || away >= config.Outage+2 && overdue < least {
			t.Fatalf("seed %d: %d overdue Ticks after %d intervals", seed, overdue, away)
		}
		for i, n := range perT {
			if n > perInterval+atOnce+1 { // the last two need not wait, and one may fall due
				t.Fatalf("seed %d: %d Ticks in interval %d", seed, n, i)
			}
		}
	}
}
