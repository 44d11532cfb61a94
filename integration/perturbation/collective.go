package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The benchmarks of NWPerf, section 4, and the fixed work quantum of the work that it cites.
const (
	quantum   = "quantum"    // a loop of fixed work, for itself on each processor
	barrier   = "barrier"    // 100 barriers
	allToAll  = "all-to-all" // at 16 sizes, once each
	allReduce = "all-reduce" // at 16 sizes, once each
)

var benchmarks = []string{quantum, barrier, allToAll, allReduce}

const (
	sizes     = 16
	smallest  = 8                       // bytes
	largest   = smallest << (sizes - 1) // 256 KiB
	maxRanks  = 32                      // of the shared memory: 32 * 32 * 256 KiB
	line      = 64                      // of the processor's cache
	headBytes = 4096                    // of the shared memory: the barrier's counters
	spins     = 2000                    // before a waiting rank lets another run, if ranks share processors
	maxTimes  = 1 << 20                 // iterations that a rank times
	loopUnit  = 1000                    // turns of the loop
	barriers  = 100                     // in an iteration
	workQuant = 200 * time.Microsecond  // how long the loop of the quantum takes
	rankLead  = 10 * time.Millisecond   // ranks are awake so long before they begin
	mapping   = unix.PROT_READ | unix.PROT_WRITE
)

// work is the parent's order to a rank, as a line of JSON.
type work struct {
	Benchmark  string `json:"benchmark"`
	Iterations int    `json:"iterations"`
	Turns      int    `json:"turns"` // of the loop, in units, for one quantum
	Until      int64  `json:"until"` // when to end, iterations or not, nanoseconds of Unix time; 0: never
	At         int64  `json:"at"`    // when to begin, nanoseconds of Unix time; 0: at once
}

// timing is a rank's answer: the total time, and the time of each iteration.
type timing struct {
	Total time.Duration   `json:"total"`
	Each  []time.Duration `json:"each"`
}

// rank is one process of the application. The ranks share memory and wait by spinning, as MPI libraries do on one node.
// A rank that slept while it waits would lend its processor to the daemon, and hide the daemon's cost.
type rank struct {
	id, ranks int
	shared    []byte
	own       []byte // receives the data of an all-to-all
	yields    bool   // there are more ranks than processors
	epoch     uint32
	sink      uint64
	times     []time.Duration
}

func sharedBytes(ranks int) int { return headBytes + ranks*ranks*largest }

// serveRank runs the orders in the lines of in, until it ends.
func serveRank(id, ranks int, file string, in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	r := &rank{id: id, ranks: ranks, yields: ranks > runtime.NumCPU(), times: make([]time.Duration, maxTimes)}
	if !r.yields {
		if err := pin(id); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening the shared memory: %w", err)
	}
	r.shared, err = unix.Mmap(int(f.Fd()), 0, sharedBytes(ranks), mapping, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("mapping %s: %w", file, err)
	}
	r.own = make([]byte, ranks*largest)
	answers := json.NewEncoder(out)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var w work
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return fmt.Errorf("reading what to run: %w", err)
		}
		if err := answers.Encode(r.run(w)); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return lines.Err()
}

// pin binds this thread to one processor.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("binding to processor %d: %w", cpu, err)
	}
	return nil
}

// run begins at the time given together with the other ranks, and times every iteration.
func (r *rank) run(w work) timing {
	if w.At > 0 {
		<-time.After(time.Until(time.Unix(0, w.At)) - rankLead)
		for time.Now().UnixNano() < w.At {
			r.wait()
		}
	}
	step := r.step(w)
	n := min(w.Iterations, maxTimes)
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.shared[2*line])), 0)
	r.barrier()
	began := time.Now()
	last := began
	done := 0
	for ; done < n && !r.ends(w, done, last); done++ {
		step()
		now := time.Now()
		r.times[done], last = now.Sub(last), now
	}
	r.barrier() // all know that it is over, before one begins anew
	return timing{last.Sub(began), r.times[:done]}
}

// ends reports whether the time is over after so many iterations. Ranks that work together end together: the first one
// decides before its next iteration, so that the others know after it.
func (r *rank) ends(w work, done int, now time.Time) bool {
	if w.Until == 0 {
		return false
	}
	over := now.UnixNano() >= w.Until
	if w.Benchmark == quantum {
		return over
	}
	last := (*uint32)(unsafe.Pointer(&r.shared[2*line]))
	if known := atomic.LoadUint32(last); known > 0 && uint32(done) >= known {
		return true
	}
	if over && r.id == 0 && atomic.LoadUint32(last) == 0 {
		atomic.StoreUint32(last, uint32(done)+1)
	}
	return false
}

// step returns one iteration of a benchmark.
func (r *rank) step(w work) func() {
	switch w.Benchmark {
	case quantum:
		return func() { r.loop(w.Turns) }
	case barrier:
		return func() {
			for range barriers {
				r.barrier()
			}
		}
	case allToAll:
		return func() { r.everySize(r.allToAll) }
	default:
		return func() { r.everySize(r.allReduce) }
	}
}

func (r *rank) everySize(op func(bytes int)) {
	for s := range sizes {
		op(smallest << s)
	}
}

// loop is work that touches no memory.
func (r *rank) loop(units int) {
	x := r.sink | 1
	for range units * loopUnit {
		x = x*6364136223846793005 + 1442695040888963407
	}
	r.sink = x
}

// slot is the memory in which rank from leaves data for rank to.
func (r *rank) slot(from, to, bytes int) []byte {
	at := headBytes + (from*r.ranks+to)*largest
	return r.shared[at : at+bytes]
}

// allToAll gives each rank another block, and takes one from each.
func (r *rank) allToAll(bytes int) {
	for to := range r.ranks {
		r.slot(r.id, to, bytes)[0]++
		copy(r.slot(r.id, to, bytes), r.own[to*largest:to*largest+bytes])
	}
	r.barrier()
	for from := range r.ranks {
		copy(r.own[from*largest:], r.slot(from, r.id, bytes))
	}
	r.barrier()
}

// allReduce adds the vectors of all ranks, on every rank.
func (r *rank) allReduce(bytes int) {
	mine := words(r.slot(r.id, 0, bytes))
	for i := range mine {
		mine[i]++
	}
	r.barrier()
	sum := words(r.own[:bytes])
	clear(sum)
	for from := range r.ranks {
		for i, v := range words(r.slot(from, 0, bytes)) {
			sum[i] += v
		}
	}
	r.barrier()
}

// words are the bytes as numbers. Slots begin at multiples of eight.
func words(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), len(b)/8)
}

// barrier returns when every rank has called it. The last one begins a new epoch.
func (r *rank) barrier() {
	arrived := (*uint32)(unsafe.Pointer(&r.shared[0]))
	epoch := (*uint32)(unsafe.Pointer(&r.shared[line]))
	r.epoch++
	if atomic.AddUint32(arrived, 1) == uint32(r.ranks) {
		atomic.StoreUint32(arrived, 0)
		atomic.StoreUint32(epoch, r.epoch)
		return
	}
	for n := 1; atomic.LoadUint32(epoch) != r.epoch; n++ {
		if n%spins == 0 {
			r.wait()
		}
	}
}

// wait lets another rank run if the ranks share processors.
func (r *rank) wait() {
	if r.yields {
		runtime.Gosched() // if the ranks are one process, as in a test
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}
