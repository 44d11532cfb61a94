package measure

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// TestThreads: a cache line takes between a nanosecond and a millisecond to another processor.
func TestThreads(t *testing.T) {
	cpus, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) < 2 {
		t.Skip("THREADS NOT MEASURED: this process has one processor")
	}
	threads, err := NewThreads(cpus)
	if err != nil {
		t.Fatal(err)
	}
	got, err := threads.Measure(t.Context(), []latency.Pair{{A: 0, B: 1}})
	if err != nil {
		t.Fatal(err)
	}
	us := got[0]
	if us != us { // it has a bound of its own
		t.Skip("THREADS NOT MEASURED: other processes have the processors")
	}
	if us < .001 || us > 1000 {
		t.Errorf("%s to %s: %g us", threads.Names()[0], threads.Names()[1], us)
	}
	t.Logf("%s to %s: %.3f us", threads.Names()[0], threads.Names()[1], us)
}

func TestThreadsOfOneProcessor(t *testing.T) {
	if _, err := NewThreads([]int{3}); !errors.Is(err, errOneCPU) {
		t.Errorf("one processor: %v", err)
	}
}

// TestThreadsEnd: a measurement that is cancelled ends, also where the other thread never comes. One on a processor
// that is not there is an error.
func TestThreadsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	threads := &Threads{cpus: []int{0, 1}, names: []string{"cpu0", "cpu1"}}
	begun := time.Now()
	if _, err := threads.Measure(ctx, []latency.Pair{{A: 0, B: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	threads.cpus = []int{0, 1023}
	if us, err := threads.Measure(t.Context(), []latency.Pair{{A: 0, B: 1}}); err == nil {
		t.Errorf("processor 1023: %v us and no error", us)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("they took %v", took)
	}
}
