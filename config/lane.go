package config

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// ReadPatience is the longest wait for the read of a file. A regular file answers at once. A named pipe may never
// answer, nor may a file system over the network.
const ReadPatience = 5 * time.Second

// ErrSilent is returned when a path does not answer. A later try may succeed, so it is no mistake in the configuration.
var ErrSilent = errors.New("no answer: mend its file system, or name a regular file")

// Silent is the error of a path that has been silent since a time.
func Silent(since time.Time) error {
	return fmt.Errorf("%w (since %s)", ErrSilent, since.UTC().Format(time.RFC3339))
}

// Lane makes calls that may hang, one at a time, such as the reads of one path. A call that hangs holds one thread of
// the system, and no more join it. The zero value is ready.
type Lane struct {
	mu    sync.Mutex
	moved time.Time     // when the call in flight began, or called Move last
	done  chan struct{} // closes when the call in flight ends; nil: there is none
}

// Call makes a call in the background once the previous one has ended, and waits for it. It returns zero after the call
// has ended. If the call in flight does not move for as long as the patience, it returns the time of its last move.
// That call may be an earlier one.
func (l *Lane) Call(patience time.Duration, call func()) (hangs time.Time) {
	for {
		done, ours := l.enter(call)
		if hangs := l.await(done, patience); ours || !hangs.IsZero() {
			return hangs
		}
	}
}

// Move notes that the call in flight gets answers, though it takes long. Only that call may use it.
func (l *Lane) Move() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = time.Now()
}

// await waits for a call that was in flight. If the call does not move for too long, it returns the time of its last
// move.
func (l *Lane) await(done chan struct{}, patience time.Duration) (hangs time.Time) {
	for {
		l.mu.Lock()
		moved := l.moved
		l.mu.Unlock()
		late := time.NewTimer(patience - time.Since(moved))
		select {
		case <-done:
			late.Stop()
			return time.Time{}
		case <-late.C:
		}
		if l.stands(done, moved) {
			return moved
		}
	}
}

// stands reports whether a call is still in flight, and has not moved since a time.
func (l *Lane) stands(done chan struct{}, moved time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done == done && l.moved.Equal(moved)
}

// enter returns the call in flight. It starts ours if no call was in flight.
func (l *Lane) enter(call func()) (done chan struct{}, ours bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return l.done, false
	}
	l.moved, l.done = time.Now(), make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		call()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.done = nil
	}(l.done)
	return l.done, true
}

// lanes contains the Lane of each path that was read, from the configuration or from a command's arguments.
var lanes sync.Map

// Answer returns the results of read for a path. At most one read of each path is in flight. The error is ErrSilent
// after ReadPatience, or at once if an earlier read is overdue already.
func Answer[T any](path string, read func() (T, error)) (answer T, err error) {
	lane, _ := lanes.LoadOrStore(path, new(Lane))
	var got T
	var failed error
	hangs := lane.(*Lane).Call(ReadPatience, func() { got, failed = read() })
	if !hangs.IsZero() { // the call may still write to its results
		return answer, fmt.Errorf("%s: %w", path, Silent(hangs))
	}
	return got, failed
}
