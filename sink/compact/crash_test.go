package compact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/sink"
)

// lateKind is how a late file comes.
type lateKind int

const (
	noLate  lateKind = iota
	locked           // by a sink that holds the lock
	strayed          // without the lock: by a user, or from a host where locks do not reach
)

// schedule is one run of a compaction that crashes, and what happens meanwhile.
type schedule struct {
	crash  int // ahead of which action; beyond the last: it does not
	second int // the same in the recovery
	late   lateKind
	lateAt int  // ahead of which action
	plain  bool // the file system cannot exchange
	breaks func(*compactor)
}

func (s schedule) String() string {
	return fmt.Sprintf("crash %d, then %d; late %d at %d; two renames %v", s.crash, s.second, s.late, s.lateAt, s.plain)
}

// player plays a schedule.
type player struct {
	schedule
	w    *world
	t    testing.TB
	dir  string
	want []string
	// stray rows must be there once at the end, and never twice.
	stray []string
	due   bool // a late file should be linked
	step  int
	err   error // what a reader found
}

const never = 1 << 30

// play returns the first thing that is wrong, and how many actions the first run had.
func (w *world) play(t testing.TB, s schedule) (steps int, err error) {
	return newPlayer(t, w).through(s)
}

func newPlayer(t testing.TB, w *world) *player {
	return &player{w: w, t: t, dir: w.clone(t), want: slices.Clone(w.rows)}
}

// through plays a schedule to its end: the date is compacted, and its old files are deleted.
func (p *player) through(s schedule) (steps int, err error) {
	p.schedule = s
	first := p.run(s.crash, testNow)
	steps = p.step
	p.read()
	second := p.run(s.second, testNow)
	p.read()
	recovered := p.run(never, testNow)
	p.goOn()
	third := p.run(never, hoursLater(2))  // compacts if that was not done, and deletes the old files
	fourth := p.run(never, hoursLater(4)) // deletes them otherwise
	p.want, p.stray = append(p.want, p.stray...), nil
	p.read()
	for _, err := range []error{first, second, recovered, third, fourth} {
		if err != nil && !errors.Is(err, errStop) {
			return steps, fmt.Errorf("%v: a run: %w", s, err)
		}
	}
	if p.err == nil {
		p.err = p.end()
	}
	if p.err != nil {
		return steps, fmt.Errorf("%v: %w", s, p.err)
	}
	return steps, nil
}

// goOn lets the partition get rows of a later date, so that nothing holds the date any longer.
func (p *player) goOn() {
	if p.late == noLate || p.due || p.lateAt != never {
		p.late, p.due = noLate, false
		return
	}
	p.late = noLate
	if err := os.Link(p.w.after.path, filepath.Join(sink.DatePath(p.dir, nextDate), p.w.after.name)); err != nil {
		p.fail(err)
	}
	p.want = append(p.want, p.w.after.rows...)
}

// changes are the actions behind which a reader may see something else.
var changes = map[string]bool{sink.ActLink: true, sink.ActRename: true, sink.ActExchange: true, sink.ActRemove: true}

// run runs a compaction that crashes ahead of an action.
func (p *player) run(crash int, now time.Time) error {
	c := newCompactor(Options{Dir: p.dir, Topic: testTopic})
	c.now, c.plain, c.again = func() time.Time { return now }, p.plain, testAgain
	var reason error
	c.Report = func(d Date) {
		if d.State == Failed {
			reason = errors.New(d.Reason)
		}
	}
	if p.breaks != nil {
		p.breaks(c)
	}
	p.step = 0
	last := sink.ActLink // so that a reader reads at once
	c.Before = func(action, _ string) error {
		if p.step >= crash {
			return errStop
		}
		if p.step == p.lateAt && p.late != noLate {
			p.due, p.lateAt = true, never
		}
		if p.linkLate(); changes[last] && now.Equal(testNow) {
			p.tryRead()
		}
		last = action
		p.step++
		if action == sink.ActSync || action == sink.ActSyncDir {
			return sink.ErrDone // a process that dies leaves the page cache
		}
		return nil
	}
	err := c.run(context.Background())
	p.linkLate()
	if errors.Is(err, errFailed) && reason != nil {
		err = reason
	}
	return err
}

// linkLate lets a late sink link a file, as soon as it may.
func (p *player) linkLate() {
	if !p.due {
		return
	}
	l := p.w.late
	if p.late == locked {
		lock, err := sink.TakeLock(context.Background(), sink.LockPath(p.dir), false, 0)
		if err != nil {
			return // it waits
		}
		defer lock.Unlock()
	}
	err := os.Link(l.path, filepath.Join(sink.DatePath(p.dir, testDate), l.name))
	if errors.Is(err, fs.ErrNotExist) {
		return // between two renames
	}
	if err != nil {
		p.fail(err)
	}
	if p.due = false; p.late == locked {
		p.want = append(p.want, l.rows...)
	} else {
		p.stray = l.rows // a crash may hide them until the recovery
	}
}

func (p *player) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// tryRead reads as a greedy reader does, if the lock is free.
func (p *player) tryRead() {
	lock, err := sink.TakeLock(context.Background(), sink.LockPath(p.dir), false, 0)
	if err == nil {
		p.fail(p.judge())
		lock.Unlock()
	}
}

// read reads as a sink does: what a crash left between two renames is undone first.
func (p *player) read() { p.fail(sink.Shared(context.Background(), p.dir, p.judge)) }
