package integration

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// slowness sends requests to the broker all the time, and notes slow answers. If a busy machine delays an event by more
// than a grace, a margin or a limit, no part of weir is at fault.
type slowness struct {
	*part
	mu   sync.Mutex
	slow [][2]int64 // when each was asked for, and when it came, in ms
}

// watchMachine begins to send requests, until the watch is stopped or the test ends. The limit of a slow answer is a
// small part of the delay that a record may have.
func (s *system) watchMachine() *slowness {
	w, limit := &slowness{}, s.cfg.Interval/20
	w.part = s.start("the one who asks", func(ctx context.Context) error {
		for asked := time.Now(); retry.Pause(ctx, limit/2); asked = time.Now() {
			_, err := kadm.NewClient(s.cl).ListEndOffsets(ctx, s.cfg.Prefix+schemas.TopicBalance)
			if err != nil {
				return err
			}
			if time.Since(asked) > limit {
				w.mu.Lock()
				w.slow = append(w.slow, [2]int64{asked.UnixMilli(), time.Now().UnixMilli()})
				w.mu.Unlock()
			}
		}
		return nil
	})
	return w
}

// within reports whether a slow answer was waited for at any time between two, in ms.
func (w *slowness) within(from, to int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.slow, func(wait [2]int64) bool { return from <= wait[1] && wait[0] <= to })
}

func (w *slowness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.slow)
}
