package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait before try number tries, from 1. It begins at a quarter of a second and doubles, up to
// limit. Half of it is drawn by chance, so that ten thousand agents do not come back at once.
func Backoff(tries int, limit time.Duration) time.Duration {
	d := min(250*time.Millisecond<<min(max(tries-1, 0), 10), limit)
	return d/2 + rand.N(d/2+1)
}

// Pause waits for d, and reports whether ctx still runs then. It returns at once when ctx ends.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
