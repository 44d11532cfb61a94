package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

const (
	threadLines   = 8    // cache lines that are tried: one far from both processors would give a high latency
	threadBatches = 9    // of each line; their median counts
	threadTrips   = 1000 // round trips of a batch: 0.1 ms, in which reading the clock does not count

	// If the threads of a pair do not meet within threadWait, others run on their processors.
	threadWait = 2 * time.Second
)

// errOneCPU is returned if this process may run on one processor only.
var errOneCPU = errors.New("this process may run on one processor only: two are needed")

// Threads measures latencies between processors of this host. Two threads pass a cache line to and fro.
type Threads struct {
	cpus  []int
	names []string
}

// Affinity returns the processors that this process may run on.
func Affinity() (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("asking which processors this process may use: %w", err)
	}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// NewThreads returns a measurer of these processors. Their names are cpu0 and so on.
func NewThreads(cpus []int) (*Threads, error) {
	if len(cpus) < 2 {
		return nil, errOneCPU
	}
	t := &Threads{cpus: cpus}
	for _, c := range cpus {
		t.names = append(t.names, "cpu"+strconv.Itoa(c))
	}
	return t, nil
}

// Names returns the names of the processors.
func (t *Threads) Names() []string { return t.names }

// Measure measures the pairs of a round at the same time. It returns how long a cache line takes from one processor to
// the other, in microseconds.
func (t *Threads) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	// Each thread wants a processor of Go's scheduler to itself, and this goroutine one.
	before := runtime.GOMAXPROCS(0)
	if need := 2*len(round) + 1; need > before {
		runtime.GOMAXPROCS(need)
		defer runtime.GOMAXPROCS(before)
	}
	us := make([]float64, len(round))
	errs := make([]error, len(round)+1)
	var wait sync.WaitGroup
	for i, p := range round {
		wait.Go(func() { us[i], errs[i] = passLine(ctx, t.cpus[p.A], t.cpus[p.B]) })
	}
	wait.Wait()
	errs[len(round)] = ctx.Err()
	return us, errors.Join(errs...)
}

// line is a number alone on its cache lines. Processors fetch lines in twos, so it fills two.
type line struct {
	n atomic.Uint64
	_ [120]byte
}

// passing is the memory through which two threads pass a number to and fro.
type passing struct {
	lines [threadLines]line
	stop  atomic.Bool
}

// passLine returns the latency between two processors in microseconds: the least of the lines' medians. It is NaN if
// the threads did not meet in time.
func passLine(ctx context.Context, a, b int) (us float64, err error) {
	x := &passing{}
	timer := time.AfterFunc(threadWait, func() { x.stop.Store(true) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { x.stop.Store(true) })()
	answers := make(chan error, 1)
	go func() { answers <- x.answer(b) }()
	us = math.NaN()
	done := make(chan error, 1)
	go func() {
		var err error
		us, err = x.ask(a)
		x.stop.Store(x.stop.Load() || err != nil)
		done <- err
	}()
	err = errors.Join(<-done, <-answers)
	return us, err
}

// pin binds the calling goroutine to a thread, and that to a processor. The thread ends with the goroutine.
func pin(cpu int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("binding a thread to processor %d: %w", cpu, err)
	}
	return nil
}

// ask counts each line up by odd numbers, and waits for the even ones.
func (x *passing) ask(cpu int) (us float64, err error) {
	if err := pin(cpu); err != nil {
		return math.NaN(), err
	}
	least := math.NaN()
	for l := range x.lines {
		n := &x.lines[l].n
		batches := make([]float64, 0, threadBatches)
		for batch := range uint64(threadBatches) {
			first := batch * threadTrips
			begun := time.Now()
			for i := first; i < first+threadTrips; i++ {
				n.Store(2*i + 1)
				if !x.await(n, 2*i+2) {
					return math.NaN(), nil
				}
			}
			batches = append(batches, float64(time.Since(begun).Nanoseconds())/1e3/2/threadTrips)
		}
		slices.Sort(batches)
		if median := batches[threadBatches/2]; !(median >= least) {
			least = median
		}
	}
	return least, nil
}

// answer makes each number that the other thread writes even.
func (x *passing) answer(cpu int) error {
	if err := pin(cpu); err != nil {
		x.stop.Store(true)
		return err
	}
	for l := range x.lines {
		n := &x.lines[l].n
		for i := range uint64(threadBatches * threadTrips) {
			if !x.await(n, 2*i+1) {
				return nil
			}
			n.Store(2*i + 2)
		}
	}
	return nil
}

// await spins until a line holds a number. It returns false if the measurement was stopped.
func (x *passing) await(n *atomic.Uint64, want uint64) bool {
	for spins := 1; n.Load() != want; spins++ {
		if spins%1024 == 0 && x.stop.Load() {
			return false
		}
	}
	return true
}
