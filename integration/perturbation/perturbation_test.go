package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs the tests, or becomes the process that the environment names.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := play(ctx)
	stop()
	switch {
	case errors.Is(err, errNoRole):
		os.Exit(m.Run())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestPerturbation runs the whole study for a moment: every condition that needs no broker, once. Nobody judges the
// numbers of so short a run.
func TestPerturbation(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	l := &lab{dir: t.TempDir(), ranks: min(runtime.NumCPU()+1, maxRanks)} // so many that they yield
	s := &study{lab: l, seed: 1, rounds: 1, section: time.Millisecond, limit: time.Minute, out: io.Discard}
	s.period = 100 * time.Millisecond
	for _, c := range conditions() {
		switch c.name {
		case bare, bareAgain, "sampling 100x: 100 Hz":
			c.warm = 0
			s.conditions = append(s.conditions, c)
		}
	}
	r, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != len(s.conditions)*len(benchmarks) {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.Runs != 1 || row.Median <= 0 || row.P99 <= 0 || row.Longest < row.P99 {
			t.Errorf("%+v", row)
		}
		if busy := row.CPU > 0; busy != strings.HasPrefix(row.Condition, "sampling") {
			t.Errorf("%s took %v ms of processor time a second", row.Condition, row.CPU)
		}
	}
	var text strings.Builder
	r.print(&text)
	for _, want := range []string{"all-reduce", "none, again", "below the noise"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &text)
		}
	}
}

// TestCollectivesAreRight: an all-to-all brings each rank what every other rank left for it, and an all-reduce the sum.
func TestCollectivesAreRight(t *testing.T) {
	const ranks = 3
	shared := make([]byte, sharedBytes(ranks))
	all := make([]*rank, ranks)
	for i := range all {
		all[i] = &rank{id: i, ranks: ranks, shared: shared, own: make([]byte, ranks*largest), yields: true}
	}
	together := func(do func(r *rank)) {
		done := make(chan struct{})
		for _, r := range all {
			go func() { do(r); done <- struct{}{} }()
		}
		for range all {
			<-done
		}
	}
	for i, r := range all {
		for to := range ranks {
			r.own[to*largest+5] = byte(10*i + to)
		}
	}
	together(func(r *rank) { r.allToAll(64) })
	for i, r := range all {
		for from := range ranks {
			if got, want := r.own[from*largest+5], byte(10*from+i); got != want {
				t.Errorf("rank %d has %d of rank %d, want %d", i, got, from, want)
			}
		}
	}
	clear(shared)
	for i, r := range all {
		words(r.slot(r.id, 0, 64))[3] = uint64(100 * i) // each adds 1 to it: 1 + 101 + 201
	}
	together(func(r *rank) { r.allReduce(64) })
	for i, r := range all {
		if got := words(r.own)[3]; got != 303 {
			t.Errorf("rank %d has the sum %d, want 303", i, got)
		}
	}
}

// TestAddEstimates: a section that ended after a quarter of its iterations would have taken four times as long, and the
// slowest rank counts.
func TestAddEstimates(t *testing.T) {
	const ms = time.Millisecond
	m := &measured{}
	m.add([]timing{{50 * ms, []time.Duration{25 * ms, 25 * ms}}, {60 * ms, []time.Duration{20 * ms, 40 * ms}}}, 8)
	near(t, "60 ms for 2 of 8", m.totals[0], 0.240)
	if len(m.each) != 4 || m.each[3] != 40_000 {
		t.Errorf("iterations in microseconds: %v", m.each)
	}
}

// TestEndTogether: ranks that work together stop after the same iteration, when the time of the first is over.
func TestEndTogether(t *testing.T) {
	const ranks = 3
	shared := make([]byte, sharedBytes(ranks))
	done := make(chan int)
	for i := range ranks {
		r := &rank{id: i, ranks: ranks, shared: shared, yields: true, times: make([]time.Duration, maxTimes)}
		go func() {
			w := work{Benchmark: barrier, Iterations: maxTimes, Until: time.Now().Add(20 * time.Millisecond).UnixNano()}
			n := len(r.run(w).Each)
			n += 1000 * len(r.run(work{Benchmark: barrier, Iterations: 2}).Each) // and begin anew together
			done <- n
		}()
	}
	first, second, third := <-done, <-done, <-done
	if first != second || second != third || first < 2001 || first >= 2000+maxTimes {
		t.Errorf("%d, %d and %d iterations", first, second, third)
	}
}

// TestSpread: 8 nodes on 2 processors are interrupted every 125 ms, by turns.
func TestSpread(t *testing.T) {
	for i, want := range []sampling{
		{Every: 250 * time.Millisecond},
		{Every: 250 * time.Millisecond, Offset: 125 * time.Millisecond},
	} {
		if got := spread(8, 2, time.Second)[i]; got != want {
			t.Errorf("processor %d: %+v, want %+v", i, got, want)
		}
	}
	if all := spread(64, 2, 0); len(all) != 2 || all[0] != all[1] || all[0].Every != time.Second {
		t.Errorf("aligned: %+v", all)
	}
	s := sampling{Every: 250 * time.Millisecond, Offset: 125 * time.Millisecond}
	if got, want := s.instantAfter(time.UnixMilli(1_000)), time.UnixMilli(1_125); !got.Equal(want) {
		t.Errorf("after 1 s: %v", got)
	}
	if got, want := s.instantAfter(time.UnixMilli(1_125)), time.UnixMilli(1_375); !got.Equal(want) {
		t.Errorf("after an instant: %v", got)
	}
}

// TestSampler: a sampler reports each of its instants, and a process that is asked to end does.
func TestSampler(t *testing.T) {
	t.Parallel()
	l := &lab{dir: t.TempDir(), ranks: 1}
	var s sampled
	// A busy machine takes long to start a process.
	for wait := 500 * time.Millisecond; len(s.Skew) == 0 && wait < 10*time.Second; wait *= 2 {
		c, err := l.startSampler(sampling{Every: 20 * time.Millisecond, Burn: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
		used, err := c.cpu()
		if err != nil || used <= 0 {
			t.Errorf("it used %v, %v", used, err)
		}
		text, err := c.stop()
		if err == nil && text != "" { // a process that is asked to end before it listens writes nothing
			err = json.Unmarshal([]byte(text), &s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Skew) == 0 || len(s.Took) != len(s.Skew) {
		t.Fatalf("%d skews, %d lengths", len(s.Skew), len(s.Took))
	}
	for i := range s.Took {
		if s.Took[i] < time.Millisecond || s.Skew[i] < 0 {
			t.Errorf("instant %d was %v late and took %v", i, s.Skew[i], s.Took[i])
		}
	}
}

// TestCost runs an agent, with and without a broker and a list of metrics, for two cycles.
func TestCost(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "weir")
	// As the other tests and make build it: what is compiled for one serves all.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "../..")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building weir: %v: %s", err, out)
	}
	l := &lab{dir: t.TempDir(), ranks: 1, weir: binary}
	f, err := cost(t.Context(), l, options{cycles: 2, settle: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	all, few := f.named(sends), f.named(listed)
	if len(f.Subjects) != 5 || few.Metrics < 5 || few.Metrics >= all.Metrics || few.Bytes < 100 ||
		few.Bytes >= all.Bytes {
		t.Errorf("%+v sends %+v, with a list %+v", f, all, few)
	}
	for _, s := range f.Subjects {
		if s.CPU <= 0 || s.RSS <= 0 || s.Peak < s.RSS || s.Wakes <= 0 || s.Disk < 5 {
			t.Errorf("%+v", s)
		}
	}
	var text strings.Builder
	f.print(&text)
	for _, goal := range []string{"CPU ms a cycle without sending", "wake-ups a second with", "program on disk, MB"} {
		if !strings.Contains(text.String(), goal) {
			t.Errorf("no goal %s:\n%s", goal, &text)
		}
	}
}
