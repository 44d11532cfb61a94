package producers

import (
	"context"
	"testing"
	"time"
)

// An alarm never rings early, and the end of its context wakes who waits.
func TestAlarm(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a, err := newAlarm(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for _, d := range []time.Duration{-time.Second, 0, time.Nanosecond, 3 * time.Millisecond, time.Microsecond} {
		began := time.Now()
		if !a.pause(ctx, d) {
			t.Errorf("a pause of %v was not kept", d)
		}
		if took := time.Since(began); took < d {
			t.Errorf("a pause of %v took %v", d, took)
		}
	}
	ended := make(chan bool)
	go func() { ended <- a.pause(ctx, time.Hour) }()
	cancel()
	if <-ended {
		t.Error("an hour has passed")
	}
	for _, d := range []time.Duration{0, time.Nanosecond, time.Hour} {
		if a.pause(ctx, d) {
			t.Errorf("a pause of %v after the end", d)
		}
	}
}
