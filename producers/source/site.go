package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/naming"
	"github.com/weirhpc/weir/retry"
)

var (
	errRegular = errors.New("not a regular file")
	errLink    = errors.New("a symbolic link: name the file that it leads to")
	errBig     = fmt.Errorf("longer than %d bytes", maxOutput)
	errStale   = errors.New("nobody has written it for too long")
	errStuck   = errors.New("it was ended, and the kernel does not let it go")
	errPending = errors.New("no run of the command ended in time: it runs before each boundary")
	errLines   = errors.New("lines give no value: write `name value`, or `name number value` for cores, sockets and " +
		"GPUs")
)

// siteSources returns the sources that the site declares. Metrics of different scopes are sources of their own, which
// share a command or a file.
func siteSources(cfg config.Agent) (all []source) {
	for _, c := range cfg.Sources {
		s := &site{cfg: c, declared: declare(c.Metrics), epoch: time.Now()}
		s.begin, s.end = func() {}, func() {}
		origin, formula := c.File, "as the file has it"
		if s.take = s.readFile; len(c.Exec) > 0 {
			r := &runner{argv: c.Exec, timeout: c.Timeout, interval: c.Interval}
			s.take, s.begin, s.end = r.newest, r.begin, r.end
			origin, formula = c.Exec[0], "as the command prints it"
		}
		s.taken = make([]bool, len(s.scopes))
		for i, scope := range s.scopes {
			name := c.Name
			if len(s.scopes) > 1 {
				name += ":" + scope
			}
			var metrics []metric
			for _, m := range c.Metrics {
				of := formula
				if Kind(m.Kind) == Rate {
					of = "growth of the counter per second, " + formula
				}
				if m.Scope == scope {
					metrics = append(metrics, metric{m.Name, m.Unit, Kind(m.Kind), of})
				}
			}
			all = append(all, source{
				name, scope, origin, metrics,
				func(_ config.Agent, log *slog.Logger) (probe, error) {
					return s.open(i, log), nil
				},
			})
		}
	}
	return all
}

// site is a source that the site declares, with the text that the probes of its scopes share.
type site struct {
	declared
	cfg   config.SiteSource
	epoch time.Time                                     // stamps count from it
	take  func() (text []byte, at time.Time, err error) // the newest text, which the caller does not keep, and its time
	begin func()
	end   func()

	mu       sync.Mutex
	at       time.Time // of the newest text; zero: there is none
	boundary int64     // of the readings
	taken    []bool
	readings []reading // by scope
	trouble  retry.Trouble
	err      error // of the newest text
	opened   int
}

// open opens the probe of one scope. A value that the source cannot give is NaN, so that a failed run costs no value of
// the neighbouring intervals.
func (s *site) open(scope int, log *slog.Logger) probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened++; s.opened == 1 {
		s.begin()
	}
	kinds := s.kinds[scope]
	return probe{
		read: func(into reading, v Vitals) (reading, error) { return s.read(scope, into, v, log), nil },
		instant: func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.at
		},
		form: func(from, to []uint64, _ time.Duration, out []float64) { formSite(kinds, from, to, out) },
		why: func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.err
		},
		close: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.opened--; s.opened == 0 {
				s.end()
			}
		},
	}
}

// read copies the reading of one scope. The first scope of a boundary reads the text.
func (s *site) read(scope int, into reading, v Vitals, log *slog.Logger) reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readings == nil || s.boundary != v.BoundaryMs || s.taken[scope] {
		s.boundary = v.BoundaryMs
		clear(s.taken)
		s.renew(log)
	}
	s.taken[scope] = true
	for i, row := range s.readings[scope] {
		if i == len(into) {
			into = append(into, nil)
		}
		into[i] = append(into[i][:0], row...)
	}
	return into[:len(s.readings[scope])]
}

func (s *site) renew(log *slog.Logger) {
	text, at, err := s.take()
	if err != nil {
		text, at = nil, time.Time{}
	}
	s.at = at
	var f flaws
	if s.readings, f = s.parseLines(s.readings, text, uint64(at.Sub(s.epoch))); err == nil &&
		f.garbled+f.undeclared > 0 {
		err = fmt.Errorf("%w: %v", errLines, f)
	}
	s.err = err
	switch {
	case err != nil && !errors.Is(err, errPending):
		if s.trouble.Worth(err, time.Now()) {
			log.Warn("site's source has faults", "source", s.cfg.Name, "err", err)
		}
	case err == nil && s.trouble.Over():
		log.Info("source is back", "source", s.cfg.Name)
	}
}

// readFile returns the text of a file that others write, and the time of their writing. They might also put a link
// there, to a file that only the agent may read, so a link is refused. They might put a pipe without a writer there, so
// the open does not block.
func (s *site) readFile() (text []byte, at time.Time, err error) {
	file, err := os.OpenFile(s.cfg.File, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, at, fmt.Errorf("reading %s: %w", s.cfg.File, errLink)
	}
	if err != nil {
		return nil, at, advisedError{fmt.Errorf("opening %s: %w", s.cfg.File, naming.Pathless(err))}
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, at, fmt.Errorf("reading %s: %w", s.cfg.File, naming.Pathless(err))
	case !info.Mode().IsRegular():
		return nil, at, fmt.Errorf("reading %s: %w", s.cfg.File, errRegular)
	case time.Since(info.ModTime()).Abs() > s.cfg.MaxAge:
		return nil, at, fmt.Errorf("reading %s: %w: max_age is %v", s.cfg.File, errStale, s.cfg.MaxAge)
	}
	text, err = io.ReadAll(io.LimitReader(file, maxOutput+1))
	switch {
	case err != nil:
		return nil, at, fmt.Errorf("reading %s: %w", s.cfg.File, naming.Pathless(err))
	case len(text) > maxOutput:
		return nil, at, fmt.Errorf("reading %s: %w", s.cfg.File, errBig)
	}
	return text, info.ModTime(), nil
}

// runner runs a command before every boundary, one run at a time.
type runner struct {
	argv              []string
	timeout, interval time.Duration
	cancel            context.CancelFunc
	done              chan struct{}

	mu      sync.Mutex
	last    outcome
	running time.Time // when the run in progress began
}

// outcome is the result of the newest completed run.
type outcome struct {
	began time.Time
	text  []byte
	err   error
}

// maxBackoff is the largest number of intervals for which a failing command is left alone.
const maxBackoff = 32

// nextRun returns the start of the next run: the timeout before a boundary, so that the run ends within the interval
// even if it times out. A command that keeps failing is skipped for one interval, then two, four and so on.
func nextRun(now time.Time, timeout, interval time.Duration, failures int) time.Time {
	boundary := now.Add(timeout).Truncate(time.Millisecond).UnixMilli()
	ms := interval.Milliseconds()
	next := time.UnixMilli((boundary/ms + 1) * ms).Add(-timeout)
	if failures > 0 {
		next = next.Add(interval * time.Duration(min(maxBackoff, 1<<min(failures-1, 30))))
	}
	return now.Add(next.Sub(now)) // by the monotonic clock
}

func (r *runner) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	go r.run(ctx)
}

// run runs the command until ctx ends.
func (r *runner) run(ctx context.Context) {
	runtime.LockOSThread() // the kernel ends a command with the thread that started it
	// A command gets no capability of the agent's. This thread ends with the loop. Old kernels have none to give.
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	defer close(r.done)
	for failures := 0; ; {
		next := nextRun(time.Now(), r.timeout, r.interval, failures)
		if !retry.Pause(ctx, time.Until(next)) {
			return
		}
		o := outcome{began: time.Now()}
		r.mu.Lock()
		r.running = o.began
		r.mu.Unlock()
		if o.text, o.err = command(ctx, r.argv, r.timeout); o.err != nil {
			failures++
			o.err = advisedError{fmt.Errorf("running %s: %w", r.argv[0], o.err)}
		} else {
			o.text, failures = append(o.text, '\n'), 0 // it ended well, so its last line is whole
		}
		r.mu.Lock()
		r.last, r.running = o, time.Time{}
		r.mu.Unlock()
	}
}

// newest returns the output of this interval's run, and the time at which it began.
func (r *runner) newest() (text []byte, at time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newest := r.timeout + r.interval*9/10 // largest age of this interval's run
	switch {
	case !r.running.IsZero() && time.Since(r.running) > max(newest, r.timeout+2*letGo):
		return nil, at, fmt.Errorf("running %s: %w", r.argv[0], errStuck)
	case r.last.err != nil:
		return nil, at, r.last.err
	case r.last.began.IsZero(), time.Since(r.last.began) > newest:
		return nil, at, errPending
	}
	return r.last.text, r.last.began, nil
}

// end ends the run in progress. A command that the kernel does not let go is left behind.
func (r *runner) end() {
	r.cancel()
	select {
	case <-r.done:
	case <-time.After(2 * time.Second):
	}
}
