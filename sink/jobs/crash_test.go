package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/sinktest"
)

// TestCrashes kills a writer ahead of each of its steps, and the next one ahead of each of its own. Every job keeps its
// row: the old one before the files are committed, the new one after. That holds even if the topic forgets the jobs.
func TestCrashes(t *testing.T) {
	t.Parallel()
	before := []Row{
		{Cluster: "c", JobID: "1", Start: new(epoch - 5), End: epoch, Position: 1},
		{Cluster: "c", JobID: "2", Start: new(epoch - 5), End: epoch + dayMs, Position: 2},
		{Cluster: "c", JobID: "3", Start: new(epoch - 5), End: epoch, Position: 3},
		{Cluster: "c", JobID: "4", Start: new(epoch - 5), End: epoch + 2*dayMs, Position: 4},
	}
	change := slices.Clone(before)
	change[0].End, change[0].Position = epoch+dayMs, 11  // one moves there
	change[1].End, change[1].Position = epoch, 12        // and another back
	change[2].User, change[2].Position = "changed", 13   // one changes
	change[3].End, change[3].Position = epoch+3*dayMs, 5 // one moves to a new date
	added := Row{Cluster: "c", JobID: "5", End: epoch + 4*dayMs, Position: 14}
	change = append(change, added)

	total := 0
	for first := 0; ; first += kafkatest.Cases(1, 4) {
		s := newStore(t)
		s.Before = sinktest.NoSync
		s.put(t, "id", before...)
		var committed *bool
		s.Before, committed = sinktest.CrashAt(first, "jobs-commit")
		_, err := s.Write(t.Context(), sinktest.LockFor, "id", last(change))
		if err == nil {
			break
		}
		if !errors.Is(err, sinktest.ErrCrash) {
			t.Fatal(err)
		}
		want := last(before)
		if *committed {
			want = last(change)
		}
		for second := 0; ; second += kafkatest.Cases(1, 4) {
			copied := storeIn(t.TempDir())
			if err := os.CopyFS(copied.Dir, os.DirFS(s.Dir)); err != nil {
				t.Fatal(err)
			}
			total++
			// The topic has forgotten all of it: the next writer has another job to write.
			copied.Before, _ = sinktest.CrashAt(second, "jobs-commit")
			_, err := copied.Write(t.Context(), sinktest.LockFor, "id", last([]Row{added}))
			done := err == nil
			if !done && !errors.Is(err, sinktest.ErrCrash) {
				t.Fatal(err)
			}
			copied.Before = sinktest.NoSync
			copied.put(t, "id", added)
			want[files.Key(&added)] = added
			equal(t, want, stored(t, copied.Dir), fmt.Sprintf("crashes %d and %d", first, second))
			if copied.Unfinished() {
				t.Fatalf("crashes %d and %d: something is left in .stage", first, second)
			}
			if done {
				break
			}
		}
		// The topic still has it: a sink that starts again ends as if nothing had been.
		s.Before = sinktest.NoSync
		s.put(t, "id", change...)
		equal(t, last(change), stored(t, s.Dir), fmt.Sprintf("crash %d, and a new start", first))
	}
	if total < kafkatest.Cases(300, 30) {
		t.Errorf("%d pairs of crashes: the hook is not ahead of every step", total)
	}
	t.Logf("%d pairs of crashes", total)
}

// TestFullDisk: where a step fails, all files stay as they are, and the next try succeeds.
func TestFullDisk(t *testing.T) {
	s := newStore(t)
	row := Row{Cluster: "c", JobID: "1", Start: new(epoch - 5), End: epoch, Position: 1}
	s.put(t, "id", row)
	moved := row
	moved.End, moved.Position = epoch+dayMs, 2
	for _, action := range []string{
		sink.ActLock, sink.ActMakeDir, sink.ActCreate, sink.ActWrite, sink.ActSync, sink.ActSyncDir,
	} {
		s.Before = func(a, path string) error {
			if a == action {
				return &os.PathError{Op: a, Path: path, Err: syscall.ENOSPC}
			}
			return nil
		}
		if _, err := s.Write(t.Context(), sinktest.LockFor, "id", last([]Row{moved})); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", action, err)
		}
		s.Before = sinktest.NoSync
		equal(t, last([]Row{row}), stored(t, s.Dir), action)
	}
	s.put(t, "id", moved)
	equal(t, last([]Row{moved}), stored(t, s.Dir), "at the end")
}

// TestWriters: several sinks write at once, each with records that others do not have yet.
func TestWriters(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	log := randomLog(rand.New(rand.NewPCG(3, 3)), 60)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 4))
			for _, batch := range sinktest.Batches(rnd, log) {
				bad, err := s.Write(context.Background(), sinktest.LockFor, "id", last(batch))
				if err != nil || len(bad) > 0 {
					t.Error(bad, err)
				}
			}
		})
	}
	writers.Wait()
	equal(t, lives(log), stored(t, s.Dir), "at the end")
}

// TestWriteLooksAgain: another sink writes between the look without the lock and the lock. What it wrote stays.
func TestWriteLooksAgain(t *testing.T) {
	s := newStore(t)
	older := Row{Cluster: "c", JobID: "1", User: "older", Start: new(epoch - 5), End: epoch, Position: 1}
	newer, other := older, older
	newer.User, newer.End, newer.Position = "newer", epoch+dayMs, 2
	other.JobID = "2"
	s.Before = func(action, path string) error {
		if action == sink.ActLock {
			s.Before = sinktest.NoSync
			storeIn(s.Dir).put(t, "id", newer, other)
		}
		return sinktest.NoSync(action, path)
	}
	s.put(t, "id", older)
	equal(t, last([]Row{newer, other}), stored(t, s.Dir), "at the end")
}
