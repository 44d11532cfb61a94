package balancer

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	// atOnce is how many overdue Ticks are written without waiting: a restart or a change of the active balancer.
	atOnce = 2
	// perInterval is how many are written in each interval where more are overdue, oldest first, so that agents and
	// collectors keep up with what they close.
	perInterval = 8
)

// schedule says when plans and Ticks are due. Intervals are named by their start in Unix milliseconds.
type schedule struct {
	ms         int64 // the interval
	margin     time.Duration
	grace      time.Duration
	backoffCap time.Duration
}

// cursor is how far the balancer has come.
type cursor struct {
	next     int64     // the first interval without Ticks
	planned  int64     // the last interval with a plan
	answered time.Time // when the brokers answered, after they had been away or at the start
	caughtUp time.Time // when the last overdue Tick was written
}

func newSchedule(cfg config.Config) schedule {
	return schedule{cfg.Interval.Milliseconds(), cfg.PlanMargin, cfg.Grace, cfg.BackoffCap}
}

// first returns the first interval that wants Ticks. Without a state nobody has planned anything, and it is the first one
// that begins after now. Otherwise it follows the last Tick; where the interval's length has changed, it is the first
// multiple of the new length that does not begin before the last Tick's end.
func (s schedule) first(state *schemas.BalanceState, now time.Time) int64 {
	if state == nil {
		return s.containing(now) + s.ms
	}
	end := state.IntervalStart + state.IntervalMs
	return (end + s.ms - 1) / s.ms * s.ms
}

// tooFar reports whether a time is so far ahead that only a wrong clock has written it.
func (s schedule) tooFar(ms int64, now time.Time) bool {
	return ms > now.Add(config.Slack(time.Duration(s.ms)*time.Millisecond)).UnixMilli()
}

// errClock is returned when this machine's clock was set back by more than clocks may differ.
var errClock = errors.New("the clock was set back")

// checkClock returns errClock for a cursor of a time that is not yet: by it nothing would be due until then. Reading the topics anew, where
// state from the future is ignored, mends it.
func (s schedule) checkClock(c cursor, now time.Time) error {
	latest := max(c.next-s.ms, c.planned)
	if s.tooFar(latest, now) {
		return fmt.Errorf("%w by %v: Ticks and plans of later are ignored", errClock, time.UnixMilli(latest).Sub(now).Round(time.Second))
	}
	return nil
}

// containing returns the interval that t lies in.
func (s schedule) containing(t time.Time) int64 { return t.UnixMilli() / s.ms * s.ms }

// nextPlan returns the interval to plan next and when that is due, which may have passed. An interval that has ended is
// not planned any more: its Ticks come from the Routes as they stand.
func (s schedule) nextPlan(c cursor, now time.Time) (start int64, due time.Time) {
	start = max(s.containing(now), c.next)
	if start <= c.planned {
		start = c.planned/s.ms*s.ms + s.ms
	}
	return start, time.UnixMilli(start + s.ms).Add(-s.margin)
}

// nextTick returns the interval whose Ticks are next, and when they may be written, which may have passed. It is c.next, or
// a later one where more than config.Outage are overdue: older ones are never written. Up to two overdue Ticks need not
// wait; before more, agents get two backoff caps from the brokers' answer on to drain their rings, and then there are
// eight in an interval.
func (s schedule) nextTick(c cursor, now time.Time) (start int64, due time.Time) {
	due = time.UnixMilli(c.next + s.ms).Add(s.grace)
	if due.After(now) {
		return c.next, due
	}
	newest := s.containing(now.Add(-s.grace)) - s.ms
	start = max(c.next, newest-(config.Outage-1)*s.ms)
	if (newest-start)/s.ms+1 <= atOnce {
		return start, due
	}
	due = c.answered.Add(2 * s.backoffCap)
	if next := c.caughtUp.Add(time.Duration(s.ms) * time.Millisecond / perInterval); next.After(due) {
		due = next
	}
	return start, due
}
