package compact

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhpc/weir/sink"
)

// compactTest appends a file of a later date at a position, and compacts.
func compactTest(t testing.TB, dir string, next int64) []Date {
	t.Helper()
	f := sink.Footer{Topic: testTopic, Start: next, Next: next + 1, PreviousDate: testDate}
	if err := sink.Append(dir, testTopic, nextDate, nil, f); err != nil {
		t.Fatal(err)
	}
	var reports []Date
	c := newCompactor(Options{Dir: dir, Topic: testTopic, Report: func(d Date) { reports = append(reports, d) }})
	c.now = func() time.Time { return testNow }
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err, reports)
	}
	return reports
}

// TestNothingIsPublishedThatDiffers: if the read-back is not what was read, the date stays as it was.
func TestNothingIsPublishedThatDiffers(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
	p.breaks = func(c *compactor) { c.same = func(_, _ tally) bool { return false } }
	if err := p.run(never, testNow); err == nil || !strings.Contains(err.Error(), errDiffers.Error()) {
		t.Errorf("a compaction that differs: %v", err)
	}
	p.read()
	if p.err != nil {
		t.Error(p.err)
	}
	files, err := sink.FilesIn(sink.DatePath(p.dir, testDate), testTopic, testDate)
	if err != nil || generation(files) != 0 {
		t.Errorf("generation %d, %v", generation(files), err)
	}
	p.breaks = nil
	if err := errors.Join(p.run(never, testNow), p.run(never, hoursLater(2))); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

// TestOldFilesAreKeptForAnHour: readers on NFS may have them open.
func TestOldFilesAreKeptForAnHour(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
	old := filepath.Join(sink.StagePath(p.dir), "date="+testDate+".g1")
	now := time.Now()
	if now.Before(testNow) {
		now = testNow
	}
	if err := p.run(never, now); err != nil {
		t.Fatal(err)
	}
	since, err := changed(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		there bool
	}{{59 * time.Minute, true}, {61 * time.Minute, false}} {
		if err := p.run(never, since.Add(c.after)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(old); (err == nil) != c.there {
			t.Errorf("after %v: %v, want it there: %v", c.after, err, c.there)
		}
	}
}

// TestTwoCompactions: the second ends at once, with a message.
func TestTwoCompactions(t *testing.T) {
	w := newWorld(t)
	dir := w.clone(t)
	tried := false
	c := newCompactor(Options{Dir: dir, Topic: testTopic})
	c.now = func() time.Time { return testNow }
	c.Before = func(string, string) error {
		if err := Run(t.Context(), Options{Dir: dir, Topic: testTopic}); !errors.Is(err, errBusy) {
			t.Errorf("a second compaction: %v, want ErrBusy", err)
		}
		tried = true
		return nil
	}
	if err := c.run(t.Context()); err != nil || !tried {
		t.Fatal(err, tried)
	}
}

// TestCompactionUnderLoad: two compactions, two sinks and readers at once, without any order.
func TestCompactionUnderLoad(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: slices.Clone(w.rows)}
	var wg sync.WaitGroup
	var done atomic.Int32
	for range 2 {
		wg.Go(func() {
			defer done.Add(1)
			for range 5 {
				c := newCompactor(Options{Dir: p.dir, Topic: testTopic, Wait: time.Minute})
				c.now, c.keepFor, c.again = func() time.Time { return hoursLater(2) }, 0, 1
				if err := c.run(t.Context()); err != nil && !errors.Is(err, errBusy) {
					t.Error(err)
				}
			}
		})
	}
	for {
		p.read()
		if done.Load() == 2 {
			break
		}
	}
	wg.Wait()
	if p.read(); p.err != nil {
		t.Error(p.err)
	}
}

// TestGreedyReader: a reader that never lets go costs a run, and no row.
func TestGreedyReader(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
	reader, err := sink.TakeLock(t.Context(), sink.LockPath(p.dir), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.runPlainly(testNow); err == nil || !strings.Contains(err.Error(), "readers kept the date") {
		t.Errorf("a compaction beside a reader: %v", err)
	}
	reader.Unlock()
	if err := p.runPlainly(testNow); err != nil {
		t.Error(err)
	}
	if p.read(); p.err != nil {
		t.Error(p.err)
	}
}

// TestInterrupted: Ctrl-C while files are merged leaves the date as it was, and nothing in the stage.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	dir := w.clone(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := newCompactor(Options{Dir: dir, Topic: testTopic})
	c.now = func() time.Time { return testNow }
	c.Before = func(action, _ string) error {
		if action == sink.ActCreate {
			cancel()
		}
		return nil
	}
	if err := c.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted run: %v", err)
	}
	if entries, err := leftovers(dir); err != nil || len(entries) > 0 {
		t.Errorf("it leaves %v, %v in the stage", entries, err)
	}
}

// TestNothingToDo: a run without any work waits for no reader.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t)
	p := &player{w: w, t: t, dir: w.clone(t)}
	reader, err := sink.TakeLock(t.Context(), sink.LockPath(p.dir), false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Unlock()
	if err := p.runPlainly(time.UnixMilli(dayMs)); err != nil {
		t.Error(err)
	}
}
