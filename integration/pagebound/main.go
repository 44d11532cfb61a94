// Program pagebound is an application whose rate is that of its page faults, and of nothing else: each step needs a
// thousand fresh pages. It burns CPU besides, which has nothing to do with its rate. A test starts it under weir up and
// asks `weir metrics select` what explains the rate. It runs until it is killed.
package main

import (
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	pages  = 1024 // of a step
	turn   = 50 * time.Millisecond
	most   = 8 // steps in a turn
	metric = "app_steps"
)

func main() {
	window := flag.Duration("window", time.Second, "report the rate over this `LENGTH`: that of an interval")
	seed := flag.Uint64("seed", 1, "seed of the phases, `N`")
	flag.Parse()
	if err := run(*window, rand.New(rand.NewPCG(*seed, 1))); err != nil {
		log.Fatal(err)
	}
}

func run(window time.Duration, r *rand.Rand) error {
	file, err := os.OpenFile(os.Getenv("WEIR_REPORT_FILE"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("opening the file that WEIR_REPORT_FILE names: %w", err)
	}
	memory, err := unix.Mmap(-1, 0, pages*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("mapping memory: %w", err)
	}
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil {
		return fmt.Errorf("asking for small pages: %w", err)
	}
	var done []time.Time // when steps ended, of one window
	steps, burn := 0., time.Duration(0)
	var change time.Time
	owed := 0.
	for {
		began := time.Now()
		if began.After(change) { // a new phase: both change, and neither depends on the other
			change = began.Add(time.Second + time.Duration(r.Float64()*float64(2*time.Second)))
			steps, burn = most*r.Float64(), time.Duration(.6*r.Float64()*float64(turn))
		}
		for owed += steps; owed >= 1; owed-- {
			if err := step(memory); err != nil {
				return err
			}
			done = append(done, time.Now())
		}
		for busy := time.Now(); time.Since(busy) < burn; {
		}
		for len(done) > 0 && time.Since(done[0]) > window {
			done = done[1:]
		}
		if _, err := fmt.Fprintf(file, "%s %g 1/s\n", metric, float64(len(done))/window.Seconds()); err != nil {
			return fmt.Errorf("reporting: %w", err)
		}
		<-time.After(turn - time.Since(began))
	}
}

// step touches pages that it gives back before.
func step(memory []byte) error {
	if err := unix.Madvise(memory, unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("giving pages back: %w", err)
	}
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	return nil
}
