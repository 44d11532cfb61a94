package sink

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
)

// TestSamplesCrashes: the samples service dies ahead of one action on the disk after another. Then every record of
// counters is archived once.
func TestSamplesCrashes(t *testing.T) {
	t.Parallel()
	b, rnd := newSampleBench(t, 2), random(t)
	crashes := 0
	for round := range 15 {
		b.someSamples(rnd)
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
		s.cfg.Sink.RollBytes = 2000
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
	b.batches(rnd, 0, 1)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	if gaps := b.check(); len(gaps) > 0 {
		t.Errorf("gaps: %+v", gaps)
	}
	if crashes == 0 {
		t.Error("nothing crashed")
	}
}

// TestSamplesGoOnBehindAGap: the log forgets what the archive lacks, and a file is deleted. A person has to accept
// neither: both are gaps in the chain.
func TestSamplesGoOnBehindAGap(t *testing.T) {
	t.Parallel()
	b, rnd := newSampleBench(t, 1), random(t)
	// Around midnight the dates alternate. The archive begins with the earlier one: files of a date that came behind
	// a later date do not make it the oldest, and a file missing between them is no hole (linksOf).
	first := batchOf("first", "j", midnight-10_000)
	b.rows = append(b.rows, rowsOf(first, 0, b.send(0, marshal(t, first), midnight+1_000))...)
	b.batches(rnd, 0, 3)
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	archived := len(b.rows)
	b.batches(rnd, 0, 10)
	b.rows = b.rows[:archived]
	b.deleteBefore(14)
	b.batches(rnd, 0, 2)
	for range 2 { // the gap is recorded once
		if err := b.drain(); err != nil {
			t.Fatal(err)
		}
		if gaps := b.check(); len(gaps) != 1 || gaps[0].Start != 4 || gaps[0].Next != 14 {
			t.Fatalf("gaps: %+v", gaps)
		}
	}
	if n := value(t, b.metrics.lost.With(labels(0))); n != 10 {
		t.Errorf("the metric counts %v lost offsets, want 10", n)
	}

	var lost string
	for _, path := range b.paths() {
		if f, err := ReadFooter(path); err != nil {
			t.Fatal(err)
		} else if f.Gap {
			lost = path
		}
	}
	remove(t, lost)
	b.batches(rnd, 0, 1)
	if err := b.drain(); err != nil {
		t.Fatalf("a hole stops it: %v", err)
	}
	if gaps := b.check(); len(gaps) != 1 || gaps[0].Start != 4 || gaps[0].Next != 14 {
		t.Fatalf("gaps: %+v", gaps)
	}
	if n := b.logged.Count("records are lost, the gap is recorded"); n != 2 {
		t.Errorf("two gaps were logged %d times", n)
	}
}

// TestSamplesOvertakenWithRowsInHand: the disk is full until the log has forgotten records. What was in hand is
// archived, and only the rest is a gap.
func TestSamplesOvertakenWithRowsInHand(t *testing.T) {
	t.Parallel()
	b, rnd := newSampleBench(t, 1), random(t)
	for range 3 {
		batch := batchOf("n", "j", midnight)
		b.rows = append(b.rows, rowsOf(batch, 0, b.send(0, marshal(t, batch), midnight+11_000))...)
	}
	s := b.newSink(nil)
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.drain(t.Context()); err != nil { // in hand, not written
		t.Fatal(err)
	}
	kept := len(b.rows)
	b.batches(rnd, 0, 5)
	b.rows = b.rows[:kept]
	b.deleteBefore(8)
	b.batches(rnd, 0, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.finish(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	if gaps := b.check(); len(gaps) != 1 || gaps[0].Start != 3 || gaps[0].Next != 8 {
		t.Errorf("gaps: %+v", gaps)
	}
}

// TestSamplesSince: the service passes what is older, at its first start and after a pause.
func TestSamplesSince(t *testing.T) {
	t.Parallel()
	b := newSampleBench(t, 1)
	send := func(start int64, wanted bool) {
		batch := batchOf("n", "j", start)
		position := b.send(0, marshal(t, batch), start+11_000)
		if wanted {
			b.rows = append(b.rows, rowsOf(batch, 0, position)...)
		}
	}
	const first, second = midnight + 60_000, midnight + 240_000
	run := func(since int64) {
		t.Helper()
		s := b.newSink(nil)
		s.since = time.UnixMilli(since)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	send(midnight, false)
	send(first, true)
	run(first)
	if gaps := b.check(); len(gaps) != 0 {
		t.Errorf("the first start leaves no gap: %+v", gaps)
	}
	send(midnight+120_000, false)
	send(second, true)
	run(second)
	if gaps := b.check(); len(gaps) != 1 || gaps[0].Start != 2 || gaps[0].Next != 3 {
		t.Errorf("gaps: %+v", gaps)
	}
	run(second + 3600_000) // nothing is so new: it waits at the end
	send(second+10_000, true)
	run(second)
	b.check()
}

// TestSamplesWithAClockAhead: the clock of the service is a year ahead of the brokers' clocks at its first start. It
// passes the records that are older than the retention by the brokers' clocks, and no others.
func TestSamplesWithAClockAhead(t *testing.T) {
	t.Parallel()
	b := newSampleBench(t, 2)
	newest := time.Now().AddDate(-1, 0, 0).Truncate(time.Hour).UnixMilli()
	for i, start := range []int64{newest - 7200_000, newest - 1800_000, newest} {
		batch := batchOf("n", "j", start)
		position := b.send(int32(i%2), marshal(t, batch), start+11_000)
		if i > 0 {
			b.rows = append(b.rows, rowsOf(batch, int32(i%2), position)...)
		}
	}
	s := b.newSink(nil)
	s.kept = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.run(ctx); err != nil {
		t.Fatal(err)
	}
	b.check()
}

// TestSamplesFilterChanges: other metrics from the next start on, in the same chain.
func TestSamplesFilterChanges(t *testing.T) {
	t.Parallel()
	b := newSampleBench(t, 1)
	for i, metrics := range [][]string{{"cpu_user"}, {"mem_used"}, {"absent"}, nil} {
		b.cfg.Samples.Metrics = metrics
		batch := batchOf("n", "j", midnight)
		rows := rowsOf(batch, 0, b.send(0, marshal(t, batch), midnight+11_000))
		b.rows = append(b.rows, [][]sampleRow{rows[:1], rows[1:], nil, rows}[i]...)
		if err := b.drain(); err != nil {
			t.Fatal(err)
		}
		b.check()
	}
}

// TestSamplesOfNothing: a partition without values moves its position too, but with few files.
func TestSamplesOfNothing(t *testing.T) {
	t.Parallel()
	p := newDraft[measured](0, tail{})
	now := time.Unix(1000, 0)
	p.add(item[measured]{offset: 0, date: "a"}, now)
	if p.due(now.Add(quietPeriod-time.Second), time.Second) || !p.due(now.Add(quietPeriod), time.Second) ||
		p.due(now.Add(quietPeriod), 2*quietPeriod) {
		t.Error("a draft without rows is due after an hour, or after a longer period")
	}
	b := newSampleBench(t, 1)
	tick := marshal(t, &schemas.Tick{IntervalStart: midnight, IntervalMs: 10_000})
	for range 3 {
		b.transaction(0, true, tick)
		if err := b.drain(); err != nil {
			t.Fatal(err)
		}
	}
	b.deleteBefore(b.end(0) - 1) // the marker of the last transaction is not behind any file
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	if gaps := b.check(); len(gaps) > 0 || len(b.paths()) != 3 {
		t.Errorf("%d files, gaps %+v: Ticks alone are no loss", len(b.paths()), gaps)
	}
}

// noRows encodes a file without rows.
func noRows(w io.Writer, f *Footer) error { return encode[schemas.Row](w, nil, f) }

// TestGapIsCommittedAlone: a service that was overtaken and one that has the records may choose two dates for one
// start. So the gap's file waits until nobody else writes, and yields to a file that is there.
func TestGapIsCommittedAlone(t *testing.T) {
	t.Parallel()
	a := openTest(t, t.TempDir(), nil)
	held, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 2)
	go func() {
		done <- a.shared(func() error {
			close(held)
			<-release
			return a.lockedCommit("1970-01-02", Footer{Topic: "t", Next: 5}, noRows)
		})
	}()
	<-held
	go func() {
		done <- a.commitAlone(t.Context(), "1970-01-01", Footer{Topic: "t", Next: 3}, noRows)
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond): // it may be slow, and then proves nothing
	}
	close(release)
	if err := errors.Join(<-done, <-done); !errors.Is(err, errTaken) {
		t.Errorf("got %v, want errTaken", err)
	}
	if paths, _ := filepath.Glob(filepath.Join(a.root, "date=*", "*")); len(paths) != 1 {
		t.Errorf("files: %v", paths)
	}
}

// TestSamplesWithoutRoom: a full disk is waited for, as the sink does.
func TestSamplesWithoutRoom(t *testing.T) {
	t.Parallel()
	b, rnd := newSampleBench(t, 1), random(t)
	b.batches(rnd, 0, 3)
	failed := 0
	s := b.newSink(func(action, _ string) error {
		if action == ActWrite && failed < 3 {
			failed++
			return syscall.ENOSPC
		}
		return nil
	})
	s.period = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	kafkatest.Eventually(t, "an archive that is written again", func() bool {
		return b.logged.Count("the archive is written again") > 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.check()
}
