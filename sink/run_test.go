package sink

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

func TestRun(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 2), random(t)
	b.summaries(rnd, 0, 1) // whatever chance brings
	for range 4 {
		b.some(rnd)
		if err := b.drain(); err != nil {
			t.Fatal(err)
		}
		b.check()
	}
	if len(b.want) == 0 {
		t.Error("nothing was archived")
	}
}

func TestRunCrashes(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 2), random(t)
	crashes := 0
	for round := range 15 {
		b.some(rnd)
		left := 3 + round*2 // actions before the crash; opening takes the first few
		s := b.newSink(func(string, string) error {
			if left--; left == 0 {
				panic(errCrash)
			}
			if left < 0 {
				return errCrash // what unwinds must not touch the disk
			}
			return nil
		})
		s.cfg.Sink.RollBytes = 5000
		func() {
			defer func() {
				if fault := recover(); fault != nil && fault != any(errCrash) {
					panic(fault)
				} else if fault != nil {
					crashes++
				}
			}()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.run(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
	t.Logf("%d crashes", crashes)
	if crashes == 0 {
		t.Error("nothing crashed")
	}
}

func TestTwoSinks(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 2), random(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var links [2]atomic.Int64
	for i := range links {
		s := b.newSink(func(action, _ string) error {
			if action == ActSyncDir {
				links[i].Add(1)
			}
			return nil
		})
		s.period = time.Millisecond
		wg.Go(func() {
			if err := s.run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for range 20 {
		b.some(rnd)
	}
	cancel()
	wg.Wait()
	b.check()
	t.Logf("directory syncs %d and %d, taken %d times", links[0].Load(), links[1].Load(),
		b.logged.Count("another sink writes to this archive: this one stands by"))
}

func TestMarkersAlone(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	b.transaction(0, false, []byte("x"))
	b.transaction(0, false, []byte("y"))
	for range 2 {
		if err := b.drain(); err != nil {
			t.Fatal(err)
		}
	}
	if paths, _ := filepath.Glob(filepath.Join(b.cfg.Sink.Dir, "summaries", "date=*", "*")); len(paths) > 0 {
		t.Errorf("files of nothing: %v", paths)
	}
	b.summaries(rnd, 0, 1)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
}

// TestMarkersAreNoLoss: a partition ends with an aborted transaction, or with the marker of the last summary. Then its
// sink ends, and the topic forgets all records. Nobody has to accept a loss.
func TestMarkersAreNoLoss(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last func(b *bench) // after the archive has everything
		seen bool           // by a sink, before the topic forgets it
	}{
		"an aborted transaction": {func(b *bench) { b.transaction(0, false, []byte("x"), []byte("y")) }, true},
		"the marker of the last summary": {func(b *bench) {
			path := b.summaryFiles()[0]
			rows, f, err := ReadFile(path)
			if err != nil {
				b.t.Fatal(err)
			}
			remove(b.t, path)
			f.Next--
			date, _ := parseDate(filepath.Base(filepath.Dir(path)))
			if err := Append(b.cfg.Sink.Dir, b.topic, date, rows, f); err != nil {
				b.t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, rnd := newBench(t, 1), random(t)
			b.summaries(rnd, 0, 1)
			if err := b.drain(); err != nil {
				t.Fatal(err)
			}
			c.last(b)
			if c.seen {
				if err := b.drain(); err != nil {
					t.Fatal(err)
				}
			}
			ends, err := offsets(t.Context(), kadm.NewClient(b.cl).ListEndOffsets, testTopic)
			if err != nil {
				t.Fatal(err)
			}
			b.deleteBefore(ends[0])
			if err := b.drain(); err != nil {
				t.Fatal(err)
			}
			b.summaries(rnd, 0, 2)
			if err := b.drain(); err != nil {
				t.Fatal(err)
			}
			b.check()
		})
	}
}

// TestQuietPartitionKeepsItsPosition: markers without later records become a file after an hour, in the date of the
// previous file. Another sink goes on behind this file.
func TestQuietPartitionKeepsItsPosition(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	b.summaries(rnd, 0, 1)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.transaction(0, false, []byte("x"))
	quiet, other := b.newSink(nil), b.newSink(nil)
	for _, s := range []*sink[schemas.Row]{quiet, other} {
		if err := errors.Join(s.open(t.Context()), s.drain(t.Context())); err != nil {
			t.Fatal(err)
		}
		if s.drafts[0].rests(time.Now().Add(quietPeriod - time.Minute)) {
			t.Error("its position is kept before an hour is over")
		}
	}
	p := quiet.drafts[0]
	before, next := len(b.summaryFiles()), p.next
	if !p.rests(time.Now().Add(quietPeriod)) {
		t.Fatalf("its position is never kept: %+v", p)
	}
	if err := quiet.rest(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.start != next || len(b.summaryFiles()) != before+1 {
		t.Errorf("the position is %d, with %d files: want %d, with %d", p.start, len(b.summaryFiles()), next, before+1)
	}
	if err := other.rest(t.Context(), other.drafts[0]); !errors.Is(err, errTaken) || other.drafts[0].start != next {
		t.Errorf("the second sink: %v, its position is %d", err, other.drafts[0].start)
	}
	// A date that users have deleted does not come back.
	b.transaction(0, false, []byte("x"))
	again := b.newSink(nil)
	if err := errors.Join(again.open(t.Context()), again.drain(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(b.cfg.Sink.Dir, summariesDir)); err != nil {
		t.Fatal(err)
	}
	if err := again.rest(t.Context(), again.drafts[0]); err != nil || len(b.summaryFiles()) > 0 {
		t.Errorf("files %v, %v", b.summaryFiles(), err)
	}
}

// summaryFiles returns the paths of the files of summaries.
func (b *bench) summaryFiles() []string {
	b.t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.cfg.Sink.Dir, summariesDir, datePrefix+"*", "*"+suffix))
	if err != nil {
		b.t.Fatal(err)
	}
	return paths
}

func TestGaps(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	log := b.logged.Logger()
	b.summaries(rnd, 0, 4)
	if err := AcceptGap(t.Context(), b.cfg, 0, log); !errors.Is(err, errNoGap) {
		t.Fatalf("AcceptGap of no chain: %v, want errNoGap", err)
	}
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	archived := len(b.want)
	b.summaries(rnd, 0, 10)
	b.want = b.want[:archived] // the others are lost
	ends, err := offsets(t.Context(), kadm.NewClient(b.cl).ListEndOffsets, testTopic)
	if err != nil {
		t.Fatal(err)
	}
	b.deleteBefore(ends[0])
	b.summaries(rnd, 0, 2)
	if err := b.drain(); !errors.Is(err, errOvertaken) {
		t.Fatalf("Run behind the log's start: %v, want errOvertaken", err)
	}
	if err := AcceptGap(t.Context(), b.cfg, 0, log); err != nil {
		t.Fatal(err)
	}
	if err := AcceptGap(t.Context(), b.cfg, 0, log); !errors.Is(err, errNoGap) {
		t.Fatalf("AcceptGap a second time: %v, want errNoGap", err)
	}
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()

	a := openTest(t, b.cfg.Sink.Dir, nil)
	a.topic = testTopic
	found, _, err := chains(a.root, a.topic)
	if err != nil {
		t.Fatal(err)
	}
	links := found[0]
	gaps := 0
	for _, l := range links {
		_, f, err := ReadFile(l.path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Gap {
			gaps++
			if f.Next != ends[0] || f.Rows != 0 {
				t.Errorf("the gap is %+v, want it to reach to %d", f, ends[0])
			}
			remove(t, l.path)
		}
	}
	if gaps != 1 {
		t.Errorf("%d gaps, want 1", gaps)
	}
	if err := b.drain(); !errors.Is(err, ErrHole) {
		t.Fatalf("Run over a hole: %v, want ErrHole", err)
	}
	if err := AcceptGap(t.Context(), b.cfg, 0, log); err != nil {
		t.Fatal(err)
	}
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	b.check()
}

func TestWrongTopic(t *testing.T) {
	t.Parallel()
	old, rnd := newBench(t, 2), random(t)
	for range 5 {
		old.summaries(rnd, 1, 2)
	}
	if err := old.drain(); err != nil {
		t.Fatal(err)
	}
	for _, partitions := range []int32{1, 2} {
		anew := newBench(t, partitions)
		anew.cfg.Sink.Dir = old.cfg.Sink.Dir
		if err := anew.drain(); !errors.Is(err, errTopicReplaced) {
			t.Errorf("a topic made anew with %d partitions: %v, want errTopicReplaced", partitions, err)
		}
	}
	// The archives of before do not know the id of their topic.
	a := newArchive(t.TempDir(), testTopic, nil)
	if err := a.open(); err != nil {
		t.Fatal(err)
	}
	if err := a.commit("1970-01-02", nil, Footer{Topic: testTopic, Partition: 1, Start: 0, Next: 1000}); err != nil {
		t.Fatal(err)
	}
	for _, partitions := range []int32{1, 2} {
		anew := newBench(t, partitions)
		anew.cfg.Sink.Dir = filepath.Dir(a.root)
		if err := anew.drain(); !errors.Is(err, errBeyondEnd) {
			t.Errorf("a topic made anew with %d partitions: %v, want errBeyondEnd", partitions, err)
		}
	}
	old.cfg.Prefix = "other."
	if err := old.drain(); !errors.Is(err, errNoTopic) {
		t.Errorf("no topic: %v, want errNoTopic", err)
	}
}

// heals runs a sink until the archive is written again after a fault, then ends it. It returns how often the fault was
// logged.
func (b *bench) heals(s *sink[schemas.Row]) (faults int) {
	b.t.Helper()
	const fault = "cannot write to the archive, keeping the rows and trying again"
	const healed = "the archive is written again"
	end, _ := b.live(s)
	kafkatest.Eventually(b.t, "an archive that is written again", func() bool { return b.logged.Count(healed) > 0 })
	if err := end(); err != nil {
		b.t.Fatal(err)
	}
	b.check()
	if n := b.logged.Count(healed); n != 1 {
		b.t.Errorf("the end of the fault was logged %d times", n)
	}
	return b.logged.Count(fault)
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	for range 3 {
		b.summaries(rnd, 0, 3)
	}
	var failed, healed atomic.Int64
	faults := b.heals(b.newSink(func(action, _ string) error {
		if action == ActWrite && failed.Load() < 4 {
			failed.Add(1)
			return syscall.ENOSPC
		}
		if action == ActLink {
			healed.Add(1)
		}
		return nil
	}))
	if faults != 1 || failed.Load() != 4 || healed.Load() == 0 {
		t.Errorf("logged %d times, %d failures, %d links", faults, failed.Load(), healed.Load())
	}
}

// TestAnotherFaultOfTheDisk: who made room has to see in the log that the disk fails for another reason now.
func TestAnotherFaultOfTheDisk(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	b.summaries(rnd, 0, 3)
	faults := []error{syscall.ENOSPC, syscall.ENOSPC, syscall.EROFS, syscall.EROFS}
	logged := b.heals(b.newSink(func(action, _ string) error {
		if action != ActWrite || len(faults) == 0 {
			return nil
		}
		err := faults[0]
		faults = faults[1:]
		return err
	}))
	if logged != 2 {
		t.Errorf("two reasons were logged %d times", logged)
	}
}

func TestBrokersGone(t *testing.T) {
	t.Parallel()
	b, rnd := newBench(t, 1), random(t)
	b.summaries(rnd, 0, 5)
	b.transaction(0, true, []byte("garbage"))
	b.bad++
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, b.cfg, b.logged.Logger(), b.metrics) }()
	kafkatest.Eventually(t, "the last record in hand", func() bool {
		return b.logged.Count("undecodable record, listed in the next file's footer") > 0
	})
	b.cluster.Close()
	const gone = "no connection to broker, trying again"
	kafkatest.Eventually(t, "a line that the broker is gone", func() bool { return b.logged.Count(gone) > 0 })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.check()
	if n := b.logged.Count(gone); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
}
