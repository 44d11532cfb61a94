package totals

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhpc/weir/sink"
)

// schedule is one run that crashes, and what the crash takes with it.
type schedule struct {
	crash int  // ahead of which action; beyond the last: behind the run
	power bool // what was not synced is lost; otherwise the process alone dies
	skip  string
}

func (s schedule) String() string {
	return fmt.Sprintf("crash ahead of action %d, power lost: %v, without %q", s.crash, s.power, s.skip)
}

// player plays a schedule on an archive with old totals, or with none.
type player struct {
	schedule
	dir      string
	old, now string // bytes of the totals; empty: there is no file
	step     int
	err      error // what a reader found

	torn map[string]bool // files whose bytes are not durable
	undo map[string]func() error
}

const never = 1 << 30

// run runs until the crash.
func (p *player) run() error {
	m := newMaker(Options{Dir: p.dir, Topic: testTopic, Frontier: always})
	m.store.Before = func(action, path string) error {
		p.read()
		if p.step == p.crash {
			return errStop
		}
		p.step++
		if action == p.skip {
			return sink.ErrDone
		}
		return p.note(action, path)
	}
	var reason error
	m.Report = func(d Date) {
		if d.State == Failed {
			reason = errors.New(d.Reason)
		}
	}
	err := m.run(context.Background())
	if errors.Is(err, errFailed) {
		return reason
	}
	return err
}

// note remembers what a loss of power would take.
func (p *player) note(action, path string) error {
	switch action {
	case sink.ActCreate:
		p.torn[path] = true
	case sink.ActSync:
		delete(p.torn, path)
	case sink.ActMakeDir:
		if _, err := os.Stat(path); err != nil {
			p.undo[path] = func() error { return os.RemoveAll(path) }
		}
	case sink.ActRename:
		lock, err := sink.TakeLock(context.Background(), sink.LockPath(p.dir), false, 0)
		if err == nil {
			lock.Unlock()
			p.fail(errors.New("a reader that holds the lock sees the totals change"))
		}
		p.torn[path] = p.torn[p.staged()]
		p.undo[path] = func() error {
			err := os.Remove(path)
			if p.old != "" {
				err = errors.Join(err, os.WriteFile(path, []byte(p.old), 0o600))
			}
			return err
		}
	case sink.ActSyncDir:
		for undone := range p.undo {
			if filepath.Dir(undone) == path {
				delete(p.undo, undone)
			}
		}
	}
	return nil
}

func (p *player) staged() string { return newMaker(Options{Dir: p.dir}).staged(endDate) }

func (p *player) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// read reads as any reader does: it sees the old totals or the new ones, and whole ones.
func (p *player) read() {
	switch b, err := os.ReadFile(Path(p.dir, endDate)); {
	case err != nil && (!errors.Is(err, os.ErrNotExist) || p.old != ""):
		p.fail(err)
	case err == nil && string(b) != p.old && string(b) != p.now:
		p.fail(fmt.Errorf("a reader sees %d bytes that are neither the old totals nor the new ones", len(b)))
	}
}

// lose takes what was not synced.
func (p *player) lose() error {
	for path, torn := range p.torn {
		if info, err := os.Stat(path); err == nil && torn {
			if err := os.Truncate(path, info.Size()/2); err != nil {
				return err
			}
		}
	}
	for _, undo := range p.undo {
		if err := undo(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// play returns the first thing that is wrong, and how many actions the first run had.
func play(t testing.TB, w *world, old, now string, s schedule) (steps int, err error) {
	p := &player{
		schedule: s, dir: w.clone(t), old: old, now: now, torn: map[string]bool{}, undo: map[string]func() error{},
	}
	first := p.run()
	steps = p.step
	if p.power {
		if err := p.lose(); err != nil {
			return steps, err
		}
	}
	if p.read(); first == nil && p.err == nil { // it reported the totals
		if b, err := os.ReadFile(Path(p.dir, endDate)); err != nil || string(b) != now {
			p.fail(errors.New("totals that were reported are gone"))
		}
	}
	p.crash = never
	second := p.run()
	p.read()
	for _, err := range []error{first, second, p.err} {
		if err != nil && !errors.Is(err, errStop) {
			return steps, fmt.Errorf("%v: %w", s, err)
		}
	}
	if b, err := os.ReadFile(Path(p.dir, endDate)); err != nil || string(b) != now {
		return steps, fmt.Errorf("%v: the next run made no totals: %w", s, err)
	}
	left, err := filepath.Glob(filepath.Join(sink.StagePath(p.dir), stagePrefix+"*"))
	if err != nil || len(left) > 0 {
		return steps, fmt.Errorf("%v: the stage has %v, %w", s, left, err)
	}
	return steps, nil
}

// worlds are an archive without totals, and one whose totals are to be replaced; with their bytes before and after.
func worlds(t testing.TB, yield func(name string, w *world, old, now string)) {
	t.Helper()
	w := newWorld(t, 1)
	again := &world{t: t, dir: w.clone(t)}
	run(t, again.dir, nil)
	now := bytesOf(t, again.dir)
	yield("first", w, "", now)
	lives := w.jobs()
	again.writeJobs(endDate, lives[2:])
	changed := &world{t: t, dir: again.clone(t)}
	run(t, changed.dir, nil)
	yield("again", again, now, bytesOf(t, changed.dir))
}

// schedules plays all schedules of a world, and returns the first thing that is wrong.
func schedules(t testing.TB, w *world, old, now, skip string, every int) (played int, err error) {
	t.Helper()
	steps, err := play(t, w, old, now, schedule{crash: never, skip: skip})
	for crash := steps; crash >= 0 && err == nil; crash-- {
		for _, power := range []bool{false, true} {
			if played++; played%every == 0 && err == nil {
				_, err = play(t, w, old, now, schedule{crash, power, skip})
			}
		}
	}
	return played, err
}

// TestTotalsCrash kills a run ahead of each action. Either the process dies, or the machine loses what was not synced.
// Readers see whole totals at any time, and the next run makes them.
func TestTotalsCrash(t *testing.T) {
	worlds(t, func(name string, w *world, old, now string) {
		t.Run(name, func(t *testing.T) {
			played, err := schedules(t, w, old, now, "", crashEvery)
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d schedules", played)
		})
	})
}

// TestHarnessCatchesErrors: without any one of the actions, some schedule must go wrong.
func TestHarnessCatchesErrors(t *testing.T) {
	for _, skip := range []string{sink.ActSync, sink.ActLock, sink.ActRename, sink.ActSyncDir} {
		t.Run(skip, func(t *testing.T) {
			worlds(t, func(name string, w *world, old, now string) {
				if crashEvery > 1 && name == "first" {
					return // one world is enough under the race detector
				}
				_, err := schedules(t, w, old, now, skip, 1)
				if err == nil {
					t.Errorf("%s: no schedule went wrong without %s", name, skip)
				}
				t.Log(name, err)
			})
		})
	}
}

// TestFullDisk: a full disk ends the run with a message, and leaves the archive as it was.
func TestFullDisk(t *testing.T) {
	worlds(t, func(name string, w *world, old, now string) {
		for _, full := range []string{sink.ActMakeDir, sink.ActCreate, sink.ActWrite, sink.ActSync, sink.ActRename} {
			if name == "again" && full == sink.ActMakeDir {
				continue // it is there
			}
			t.Run(name+", "+full, func(t *testing.T) {
				dir := w.clone(t)
				m := newMaker(Options{Dir: dir, Topic: testTopic, Frontier: always})
				m.store.Before = func(action, _ string) error {
					if action == full {
						return syscall.ENOSPC
					}
					return nil
				}
				var reason string
				m.Report = func(d Date) { reason = d.Reason }
				err := m.run(t.Context())
				if !errors.Is(err, errFailed) || !strings.Contains(reason, "no space left") {
					t.Errorf("%v: %q", err, reason)
				}
				if b, _ := os.ReadFile(Path(dir, endDate)); string(b) != old {
					t.Error("the totals changed")
				}
				if left, err := filepath.Glob(m.staged("*")); err != nil || len(left) > 0 {
					t.Errorf("the stage has %v, %v", left, err)
				}
				if run(t, dir, nil); bytesOf(t, dir) != now {
					t.Error("the next run made other totals")
				}
			})
		}
	})
}
