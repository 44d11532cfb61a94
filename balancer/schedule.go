package balancer

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

const (
	// atOnce is the number of overdue Ticks that are written without waiting, as after a restart or a change of
	// balancers.
	atOnce = 2
	// perInterval is the number of Ticks that are written in each interval if more are overdue, oldest first. Agents
	// and collectors can then keep up.
	perInterval = 8
)

// schedule computes the due times of plans and Ticks. Intervals are named by their start in Unix milliseconds.
type schedule struct {
	ms         int64 // the interval
	margin     time.Duration
	grace      time.Duration
	backoffCap time.Duration
}

// cursor is the balancer's progress.
type cursor struct {
	next     int64     // the first interval without Ticks
	planned  int64     // the last interval with a plan
	answered time.Time // when the brokers first answered: at the start, or after they were away
	caughtUp time.Time // when the last overdue Tick was written
}

func newSchedule(cfg config.Config) schedule {
	return schedule{cfg.Interval.Milliseconds(), cfg.PlanMargin, cfg.Grace, cfg.BackoffCap}
}

// first returns the first interval that needs Ticks. Without a state nothing was planned, and it is the first interval
// after now. Otherwise it follows the last Tick. If the length of intervals changed, it is the first multiple of the
// new length at or after the end of the last Tick's interval.
func (s schedule) first(state *schemas.BalanceState, now time.Time) int64 {
	if state == nil {
		return s.containing(now) + s.ms
	}
	end := state.IntervalStart + state.IntervalMs
	return (end + s.ms - 1) / s.ms * s.ms
}

// tooFar reports whether a time is so far ahead that only a wrong clock can have written it.
func (s schedule) tooFar(ms int64, now time.Time) bool {
	return ms > now.Add(config.Slack(time.Duration(s.ms)*time.Millisecond)).UnixMilli()
}

// errClock is returned when this machine's clock was set back by more than clocks may differ.
var errClock = errors.New("the clock was set back")

// checkClock returns errClock if the cursor is in the future, since nothing would be due until then. After the error
// the balancer reads the topics again, and ignores state from the future.
func (s schedule) checkClock(c cursor, now time.Time) error {
	latest := max(c.next-s.ms, c.planned)
	if s.tooFar(latest, now) {
		ahead := time.UnixMilli(latest).Sub(now).Round(time.Second)
		return fmt.Errorf("%w by %v: Ticks and plans of later are ignored", errClock, ahead)
	}
	return nil
}

// containing returns the interval that t lies in.
func (s schedule) containing(t time.Time) int64 { return t.UnixMilli() / s.ms * s.ms }

// nextPlan returns the next interval to plan, and the due time, which may have passed. An interval that has ended is no
// longer planned: its Ticks come from the Routes in force.
func (s schedule) nextPlan(c cursor, now time.Time) (start int64, due time.Time) {
	start = max(s.containing(now), c.next)
	if start <= c.planned {
		start = c.planned/s.ms*s.ms + s.ms
	}
	return start, time.UnixMilli(start + s.ms).Add(-s.margin)
}

// nextTick returns the interval of the next Ticks, and their due time, which may have passed. It is c.next, or a later
// one if more than config.Outage intervals are overdue: older Ticks are never written. Up to two overdue Ticks need not
// wait. With more, agents first get two backoff caps after the brokers' answer to drain their rings. Then eight Ticks
// are written in an interval.
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
