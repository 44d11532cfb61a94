package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/retry"
	"github.com/weirhpc/weir/schemas"
)

// openProbe is a source, and the goroutine that opens, reads and closes it. While the goroutine is busy it owns the
// probe and the answer, and the host touches neither. So a call that never returns keeps nothing but its own source.
type openProbe struct {
	probe
	source source
	answer answer // to the last order

	// The host's own.
	orders   chan order // nil before the goroutine started
	busy     bool
	overdue  bool      // its last order was not obeyed in time
	began    time.Time // of that order
	barren   bool      // it opened, but finds nothing to read
	was      bool      // it was open once
	reopened bool      // since its last error
	from, to shot      // the last two readings
	spare    reading   // storage for the next one
	failures int       // in a row: errors, and orders that were late
	next     time.Time // it gets no order before this time
	hung     time.Duration
	trouble  retry.Trouble
	last     error   // of the last order; nil after a reading in time
	at, rows int     // the position of its values in the host's scratch, and their number per metric
	numbers  []int32 // of its rows in the last interval, unless it is of CPUs
}

// shot is a reading. Its rows are nil if it failed or was late.
type shot struct {
	rows reading
	late bool          // it was not there in time
	off  time.Duration // from the beginning of the host's reading to its own
	skew time.Duration // its largest distance from the boundary
}

// order is a goroutine's next task: to open the source, or to take a reading.
type order struct {
	open    bool
	online  []int // CPUs, for a probe that follows them
	into    reading
	vitals  Vitals
	measure bool // the CPU time too
}

// answer is the result of an order.
type answer struct {
	order
	rows       reading
	err        error
	begin, end time.Time     // of the reading
	at         time.Time     // when its values were taken
	cpu        time.Duration // where it was measured
}

var (
	// errLate is returned for a source that has not returned from its call in time.
	errLate = errors.New("has not returned")
	// errPanic is returned for a source that panics.
	errPanic = errors.New("a mistake in this source, please report it")
)

// needsOpening reports whether the source is not open, or failed too often since it was opened.
func (p *openProbe) needsOpening() bool {
	return p.read == nil || p.failures >= manyFailures && !p.reopened
}

// work obeys orders until the channel closes, then closes the probe. It sends the probe to done after each order, and
// nil at the end. done must have room for all of these, so work never blocks on it.
func (p *openProbe) work(cfg config.Agent, log *slog.Logger, done chan<- *openProbe) {
	for o := range p.orders {
		p.answer = answer{order: o}
		if o.open {
			p.shut()
			p.answer.err = p.reopen(cfg, log)
			log = slog.New(quiet{log.Handler()}) // the first attempt already logged what the host lacks
		} else {
			p.take()
		}
		done <- p
	}
	p.shut()
	done <- nil
}

// has reports whether a CPU appears in one of the last two readings of a core-scoped source.
func (p *openProbe) has(cpu int) bool {
	return p.source.scope == schemas.ScopeCore && p.from.rows != nil && p.to.rows != nil &&
		len(p.from.rows.row(cpu))+len(p.to.rows.row(cpu)) > 0
}

// skew is the largest distance of a reading from its boundary.
func (a *answer) skew() time.Duration {
	b := time.UnixMilli(a.vitals.BoundaryMs)
	return max(a.at.Sub(b).Abs(), a.end.Sub(b).Abs())
}

// reopen opens the source.
func (p *openProbe) reopen(cfg config.Agent, log *slog.Logger) (err error) {
	defer caught(&err)
	p.probe, err = p.source.open(cfg, log)
	return err
}

// take takes a reading.
func (p *openProbe) take() {
	a := &p.answer
	defer caught(&a.err)
	if a.measure { // the clock of a thread needs one thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before := threadTime()
		defer func() { a.cpu = threadTime() - before }()
	}
	a.begin = time.Now()
	if p.follow != nil && len(a.online) > 0 {
		p.follow(a.online)
	}
	a.rows, a.err = p.read(a.into, a.vitals)
	a.end = time.Now()
	a.at = a.begin
	if p.instant != nil {
		if at := p.instant(); !at.IsZero() {
			a.at = at
		}
	}
}

// shut closes the probe.
func (p *openProbe) shut() {
	var err error
	defer caught(&err)
	if p.close != nil {
		p.close()
	}
	p.probe = probe{}
}

// caught makes an error of a panic. A file that no parser expected must not end the agent.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("%w: %v", errPanic, v)
	}
}

// threadTime is the CPU time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // Linux always supports this clock
	return time.Duration(t.Nano())
}

// quiet is a log without lines below a warning.
type quiet struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}

const (
	// manyFailures in a row make a source wait before its next attempt, and be opened again.
	manyFailures = 3
	// longestPause is the longest such wait, and the one of hardware that is absent. A driver that was loaded meanwhile
	// is found after it.
	longestPause = 5 * time.Minute
)

// pause is the time that a source waits after so many failures in a row, beside the wait for the next boundary.
func pause(failures int, interval time.Duration) time.Duration {
	if failures < manyFailures {
		return 0
	}
	return min(interval<<min(failures-manyFailures, 16), longestPause)
}

// patience is the longest time that the host waits for its sources at a boundary: half the distance that the agent
// allows a reading from its boundary. The other half is for the wake-up of the agent.
func patience(interval time.Duration) time.Duration {
	if interval == 0 {
		return time.Second
	}
	return min(interval/20, time.Second)
}
