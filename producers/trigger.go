package producers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

var (
	// errNotTrigger is returned when a value of topic triggers is no Trigger of this cluster and interval.
	errNotTrigger = errors.New("not a trigger of this cluster and interval")
	// errOtherTime is returned if the time in a trigger differs from the time of its append.
	errOtherTime = errors.New("the balancer's clock differs from the broker's: set it")
	// errNoTrigger is logged when no trigger comes.
	errNoTrigger = errors.New("no trigger came for two intervals: " +
		"a balancer with agent.sampling: triggered must run, and topic triggers be there")
)

// trigger is the call to sample at a boundary.
type trigger struct {
	boundary int64     // Unix milliseconds
	arrived  time.Time // by this host's clock
}

// listen passes the triggers on as they come, until ctx ends. It begins at the end of the topic: an old trigger calls
// for nothing. Of several that come together, the last counts.
func listen(ctx context.Context, f *fleet) {
	topic := f.cfg.Prefix + schemas.TopicTriggers
	var trouble retry.Trouble
	wait := min(max(2*f.cfg.Interval, time.Second), time.Minute)
	f.hear(ctx, topic, kgo.NewOffset().AtEnd(), wait, func(calls []*kgo.Record, arrived time.Time) {
		newest := trigger{}
		for _, r := range calls {
			boundary, err := f.boundaryOf(r.Value, r.Timestamp)
			if err != nil {
				if trouble.Worth(err, arrived) {
					f.log.Warn("trigger is skipped", "topic", topic, "offset", r.Offset, "err", err)
				}
				continue
			}
			newest = trigger{max(newest.boundary, boundary), arrived}
		}
		if newest.boundary != 0 {
			f.call(newest)
		}
	})
}

// boundaryOf returns the boundary of a Trigger. One that is far from its time of append, by the broker's clock, is of a
// balancer with a wrong clock. It would name intervals of another time.
func (f *fleet) boundaryOf(value []byte, appended time.Time) (int64, error) {
	decoded, err := schemas.Unmarshal(value)
	if err != nil {
		return 0, fmt.Errorf("decoding a trigger: %w", err)
	}
	t, ok := decoded.(*schemas.Trigger)
	if !ok || t.Cluster != f.cfg.Cluster || t.IntervalMs != f.cfg.Interval.Milliseconds() {
		return 0, errNotTrigger
	}
	if off := time.UnixMilli(t.IntervalStart).Sub(appended); off.Abs() > config.Slack(f.cfg.Interval) {
		return 0, fmt.Errorf("%w: by %v", errOtherTime, off.Round(time.Second))
	}
	return t.IntervalStart, nil
}

// call offers a trigger to the sampling loop. It replaces a trigger that the loop has not taken.
func (f *fleet) call(t trigger) {
	for {
		select {
		case f.triggers <- t:
			return
		default:
		}
		select {
		case <-f.triggers:
		default:
		}
	}
}

// nextTrigger waits for a trigger behind the last boundary. Older ones occur because two balancers may both call while
// one hands over to the other, and because a client may send again. A trigger far before the boundary comes from a
// balancer whose clock was set back, so it is followed. A trigger that came during other work is left out. It is not ok
// if ctx ended.
func (f *fleet) nextTrigger(ctx context.Context, last int64) (moment, bool) {
	for {
		patience := time.NewTimer(2 * f.cfg.Interval)
		select {
		case <-ctx.Done():
			patience.Stop()
			return moment{}, false
		case <-patience.C:
			if f.uncalled.Worth(errNoTrigger, f.now()) {
				f.log.Warn("intervals are absent: nobody calls for samples", "err", errNoTrigger)
			}
		case t := <-f.triggers:
			patience.Stop()
			now := moment{boundary: t.boundary, start: f.now(), called: true}
			if f.uncalled.Over() {
				f.log.Info("triggers call for samples again", "interval_start", t.boundary)
			}
			before := last - t.boundary
			copied := before >= 0 && before <= config.Slack(f.cfg.Interval).Milliseconds()
			if copied || now.start.Sub(t.arrived) > f.cfg.Interval/10 {
				continue
			}
			f.mu.Lock()
			offset, bound, known := f.clock.offset(now.start, f.clockWindow())
			f.mu.Unlock()
			if known { // a distance that the offset's error can explain does not count against the reading
				now.skewed = max(0, now.start.Add(-offset).Sub(time.UnixMilli(t.boundary)).Abs()-bound)
			}
			return now, true
		}
	}
}
