package producers

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/weirhpc/weir/config"
)

// moment is when the readings of one boundary were taken.
type moment struct {
	boundary   int64 // Unix milliseconds
	start, end time.Time
	// called is set for a reading at a trigger. skewed is then a lower bound of its distance from the boundary by the
	// broker's clock, or 0 if that is unknown.
	called bool
	skewed time.Duration
}

// skew is the largest distance of the readings from their boundary, by the clock that called for them.
func (m moment) skew() time.Duration {
	if m.called {
		return m.skewed + m.end.Sub(m.start)
	}
	b := time.UnixMilli(m.boundary)
	return max(m.start.Sub(b).Abs(), m.end.Sub(b).Abs())
}

// whole reports whether two readings bound an interval that may be published. Their boundaries are neighbours, and each
// reading is within a tenth of the interval from its own. The time between them, by the monotonic clock, differs from
// the interval by at most a fifth. That last rule finds a wall clock that was set between the readings.
func whole(from, to moment, interval time.Duration) bool {
	if to.boundary-from.boundary != interval.Milliseconds() {
		return false
	}
	if from.skew() > interval/10 || to.skew() > interval/10 {
		return false
	}
	return (to.start.Sub(from.start) - interval).Abs() <= interval/5
}

// boundaryAfter is the first boundary after t: a multiple of the interval in Unix time, in milliseconds.
func boundaryAfter(t time.Time, interval time.Duration) int64 {
	ms := interval.Milliseconds()
	return (t.UnixMilli()/ms + 1) * ms
}

// slotOf spreads the nodes evenly over the window, by the hash of their names. So the network and the brokers see a
// steady stream, not the whole machine at once.
func slotOf(node string, window time.Duration) time.Duration {
	if window <= 0 {
		return 0
	}
	return time.Duration(mix(hashOf(node)) % uint64(window))
}

func sortBySlot(nodes []*node) {
	slices.SortFunc(nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.name, b.name))
	})
}

// tick samples all nodes at every boundary, and forms each node's records at its send slot, until ctx ends. All slots
// lie before the next boundary. A boundary that passes during other work is left out, and never caught up.
func (f *fleet) tick(ctx context.Context) {
	var last moment
	absent, routeless := 0, 0
	for {
		now, ok := f.nextMoment(ctx, last.boundary)
		if !ok {
			return
		}
		for _, n := range f.nodes {
			n.from.Read(f.vitals(n, now))
		}
		now.end = f.now()

		publish := whole(last, now, f.cfg.Interval)
		if last.boundary != 0 {
			absent = f.logAbsent(ctx, absent, publish, now)
		}
		f.logRoutes(now.end)
		if publish {
			f.notice(last.boundary)
			without, ok := f.formAll(ctx, last, now)
			if !ok {
				return
			}
			routeless = f.logRouteless(routeless, without)
		}
		last = now
	}
}

// nextMoment waits for the next boundary, or for the trigger of one. It is not ok when ctx ended.
func (f *fleet) nextMoment(ctx context.Context, last int64) (moment, bool) {
	if f.triggers != nil {
		return f.nextTrigger(ctx, last)
	}
	began := f.now()
	now := moment{boundary: boundaryAfter(began, f.cfg.Interval)}
	ok := f.sleepUntil(ctx, steady(began, time.UnixMilli(now.boundary)))
	now.start = f.now()
	return now, ok
}

// slotAt returns the time at which a node sends the records of the interval that ended at a boundary. A trigger may
// come at any time, and the node's clock may be wrong, so its slot counts from the reading.
func (m moment) slotAt(slot time.Duration) time.Time {
	if m.called {
		return m.start.Add(slot)
	}
	return steady(m.start, time.UnixMilli(m.boundary).Add(slot))
}

// notice accepts a clock that was set back by more than the slack: the interval that begins at start is formed after
// later ones. Otherwise nothing would be published until the clock has caught up. After a smaller step the fleet waits,
// so that no interval is published twice. Records of the future would be refused, and take the place of others in the
// rings, so they are dropped.
func (f *fleet) notice(start int64) {
	before, ahead := f.formed, start+config.Slack(f.cfg.Interval).Milliseconds()
	f.formed = max(before, start)
	if before <= ahead {
		return
	}
	f.formed = start
	lost := 0
	f.mu.Lock()
	for _, n := range f.nodes {
		n.last = -1
		lost += n.ring.loseAfter(ahead)
		n.enqueue() // for the Gap
	}
	f.mu.Unlock()
	f.log.Warn("clock was set back: publishing goes on with earlier intervals",
		"interval_start", time.UnixMilli(start).UTC(), "before", time.UnixMilli(before).UTC(), "count", lost)
}

// formAll forms every node's records of the interval between two readings, each at its slot. It returns the nodes
// without a route, and not ok when ctx ended.
func (f *fleet) formAll(ctx context.Context, from, to moment) (routeless []string, ok bool) {
	elapsed := to.start.Sub(from.start)
	for _, n := range f.nodes {
		s := &sample{start: from.boundary, sampledAt: to.start.UnixMicro()}
		s.cpus, s.columns = n.from.Interval(elapsed)
		s.jobs = n.from.Jobs(elapsed)
		if r, is := n.from.(reporter); is {
			s.reports = r.Reports()
		}
		if !f.sleepUntil(ctx, to.slotAt(n.slot)) {
			return nil, false
		}
		if !f.form(n, s) {
			routeless = append(routeless, n.name)
		}
	}
	return routeless, true
}

// manyAbsent is the number of absent intervals in a row that is more than a hiccup of the machine.
const manyAbsent = 5

// logAbsent logs an interval that is not published because one of its readings missed its boundary. It returns the
// number of absent intervals in a row. Number manyAbsent is a warning: a machine or a clock that never keeps time
// publishes nothing.
func (f *fleet) logAbsent(ctx context.Context, before int, publish bool, now moment) int {
	if publish {
		return 0
	}
	level := slog.LevelDebug
	if before+1 == manyAbsent {
		level = slog.LevelWarn
	}
	f.log.Log(ctx, level, "interval is absent: it has no two readings at its boundaries",
		"interval_start", now.boundary-f.cfg.Interval.Milliseconds(),
		"skew_us", now.skew().Microseconds(), "count", before+1)
	return before + 1
}

// logRouteless logs when the number of nodes without a route changes, and returns the new number.
func (f *fleet) logRouteless(before int, now []string) int {
	switch {
	case len(now) == before:
	case len(now) == 0:
		f.log.Info("every node has a route", "count", len(f.nodes))
	default:
		f.log.Warn("nodes without a route publish nothing", "count", len(now), "node", now[0])
	}
	return len(now)
}

// steady returns the wall clock's time t as a time of the monotonic clock. Setting the wall clock back must not prolong
// a sleep.
func steady(now, t time.Time) time.Time { return now.Add(t.Sub(now)) }

// sleepUntil returns at t, or false when ctx ends before.
func (f *fleet) sleepUntil(ctx context.Context, t time.Time) bool {
	return f.pause(ctx, t.Sub(f.now()))
}
