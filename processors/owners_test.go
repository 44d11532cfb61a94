package processors

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// TestInstanceTaken: of two processes that run under one name the older ends, with an error. Otherwise the two would
// take their partitions from each other for ever.
func TestInstanceTaken(t *testing.T) {
	b := newBench(t)
	b.Config.Instance = "a"
	_, older := b.collect()
	b.Interval(2)
	b.Eventually("the first commits", func() bool { return b.Progress().Position > 0 })
	stop, newer := b.collect()
	select {
	case err := <-older:
		if !errors.Is(err, kerr.FencedInstanceID) {
			t.Errorf("the older ends with %v", err)
		}
	case err := <-newer:
		t.Fatalf("the newer ends: %v", err)
	case <-time.After(90 * time.Second):
		t.Fatal("both go on")
	}
	before := b.Progress().Position
	b.Interval(1)
	b.Eventually("the newer's commits", func() bool { return b.Progress().Position > before })
	if err := stop(); err != nil {
		t.Error(err)
	}
}
