package scheduler

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeatPausesAsThePollAsked: each pause is the one that the poll before asked for, and the last poll is before the
// end.
func TestRepeatPausesAsThePollAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := time.Now()
		var polls []time.Duration
		go repeat(ctx, 2*time.Second, func() time.Duration {
			polls = append(polls, time.Since(begun))
			return 3 * time.Second
		})
		time.Sleep(9 * time.Second) // of the bubble's own clock
		cancel()
		synctest.Wait()
		time.Sleep(time.Minute)
		if want := []time.Duration{2 * time.Second, 5 * time.Second, 8 * time.Second}; !slices.Equal(polls, want) {
			t.Errorf("polls after %v, want %v", polls, want)
		}
	})
}
