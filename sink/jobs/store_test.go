package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/sink"
)

var errCrash = errors.New("crash")

const lockFor = 90 * time.Second // for a busy machine

// stored returns the rows of all files. It fails for one in a wrong file, or one that is there twice.
func stored(t *testing.T, dir string) map[key]Row {
	t.Helper()
	dates, err := Dates(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := files{}
	for _, date := range dates {
		if _, err := Check(dir, date); err != nil {
			t.Fatal(err)
		}
		f[date] = map[key]Row{}
		file, err := open(Path(dir, date))
		if err != nil {
			t.Fatal(err)
		}
		if err := file.each(func(r *Row) error { f[date][r.key()] = *r; return nil }); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	return f.all(t)
}

// equal compares rows. A file does not tell an empty list from none.
func equal(t *testing.T, want, got map[key]Row, what string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(key{}), cmp.Transformer("lists", func(r Row) Row {
		r.Nodes, r.Cpus = append([]string{}, r.Nodes...), append([]int32{}, r.Cpus...)
		return r
	})); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func newStore(t *testing.T) store {
	t.Helper()
	return store{dir: t.TempDir(), topic: "weir.jobs"}
}

// put writes records, and fails if a file cannot be used.
func (s store) put(t *testing.T, topicID string, records ...Row) {
	t.Helper()
	if bad, err := s.write(t.Context(), lockFor, topicID, last(records)); err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
}

// TestStore: the files have the newest record of each job, whatever the order of the batches. A second writer of the
// same records takes no lock, and a file that does not change stays.
func TestStore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(kafkatest.Cases(20, 3)) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		log := randomLog(rnd, 40)
		for i := range log {
			log[i].Nodes, log[i].NodeCount = []string{"n1", fmt.Sprint("n", i)}, 2
			switch rnd.IntN(3) {
			case 0:
				log[i].Cpus, log[i].Cores, log[i].Gpus = []int32{0, 1, int32(i)}, new(int64(i)), new(int32(i))
			case 1:
				log[i].TimeLimitS, log[i].Exclusive = new(int64(60)), new(i%2 == 0)
				log[i].MemRequestedBytes, log[i].Start, log[i].Submit = new(int64(1<<40)), new(epoch), new(epoch-1)
			}
		}
		s := newStore(t)
		for _, batch := range batches(rnd, log) {
			s.put(t, "id", batch...)
			stored(t, s.dir)
		}
		equal(t, last(log), stored(t, s.dir), fmt.Sprint("seed ", seed))
		s.before = func(action, path string) error { return fmt.Errorf("%s of %s", action, path) }
		s.put(t, "id", log...)
	}
}

// TestStoreMovesJobs: the date of a job's end changes. Its row moves, and careful readers never see it twice or not at
// all.
func TestStoreMovesJobs(t *testing.T) {
	s := newStore(t)
	row := Row{Cluster: "c", JobID: "1", User: "ada", End: epoch}
	other := Row{Cluster: "c", JobID: "2", End: epoch, Position: 1}
	s.put(t, "id", row, other)
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ; reading.Err() == nil; time.Sleep(3 * time.Millisecond) { // greedy readers keep the writer out
				if rows, err := Find(t.Context(), s.dir, "1"); err != nil || len(rows) != 1 {
					t.Errorf("%v, %v", rows, err)
				}
			}
		})
	}
	for i := range int64(kafkatest.Cases(60, 20)) {
		row.Position, row.End = 2+i, epoch+(i%3)*dayMs
		s.put(t, "id", row)
	}
	stop()
	readers.Wait()
	equal(t, last([]Row{row, other}), stored(t, s.dir), "at the end")
}

// TestCrashes kills a writer ahead of each of its steps, and the next one ahead of each of its own. Every job keeps its
// row: the old one before the files are committed, the new one after. That holds even if the topic forgets the jobs.
func TestCrashes(t *testing.T) {
	t.Parallel()
	before := []Row{
		{Cluster: "c", JobID: "1", End: epoch, Position: 1}, {Cluster: "c", JobID: "2", End: epoch + dayMs, Position: 2},
		{Cluster: "c", JobID: "3", End: epoch, Position: 3}, {Cluster: "c", JobID: "4", End: epoch + 2*dayMs, Position: 4},
	}
	change := slices.Clone(before)
	change[0].End, change[0].Position = epoch+dayMs, 11  // one moves there
	change[1].End, change[1].Position = epoch, 12        // and another back
	change[2].User, change[2].Position = "changed", 13   // one changes
	change[3].End, change[3].Position = epoch+3*dayMs, 5 // one moves to a new date
	added := Row{Cluster: "c", JobID: "5", End: epoch + 4*dayMs, Position: 14}
	change = append(change, added)

	crashAt := func(n int) (before func(action, path string) error, committed *bool, steps *int) {
		committed, steps = new(bool), new(int)
		return func(action, path string) error {
			if *steps == n {
				return errCrash
			}
			*steps++
			if action == actRename && filepath.Base(path) == stageCommit {
				*committed = true
			}
			if action == actSync || action == actSyncDir {
				return errDone // nobody pulls the plug here
			}
			return nil
		}, committed, steps
	}
	total := 0
	for first := 0; ; first += kafkatest.Cases(1, 3) {
		s := newStore(t)
		s.before, _, _ = crashAt(-1)
		s.put(t, "id", before...)
		var committed *bool
		s.before, committed, _ = crashAt(first)
		_, err := s.write(t.Context(), lockFor, "id", last(change))
		if err == nil {
			break
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		want := last(before)
		if *committed {
			want = last(change)
		}
		for second := 0; ; second += kafkatest.Cases(1, 2) {
			copied := store{dir: t.TempDir(), topic: s.topic}
			if err := os.CopyFS(copied.dir, os.DirFS(s.dir)); err != nil {
				t.Fatal(err)
			}
			total++
			// The topic has forgotten all of it: the next writer has another job to write.
			copied.before, _, _ = crashAt(second)
			_, err := copied.write(t.Context(), lockFor, "id", last([]Row{added}))
			done := err == nil
			if !done && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			copied.before, _, _ = crashAt(-1)
			copied.put(t, "id", added)
			want[added.key()] = added
			equal(t, want, stored(t, copied.dir), fmt.Sprintf("crashes %d and %d", first, second))
			if copied.unfinished() {
				t.Fatalf("crashes %d and %d: something is left in .stage", first, second)
			}
			if done {
				break
			}
		}
		// The topic still has it: a sink that starts again ends as if nothing had been.
		s.before, _, _ = crashAt(-1)
		s.put(t, "id", change...)
		equal(t, last(change), stored(t, s.dir), fmt.Sprintf("crash %d, and a new start", first))
	}
	if total < kafkatest.Cases(300, 100) {
		t.Errorf("%d pairs of crashes: the hook is not ahead of every step", total)
	}
	t.Logf("%d pairs of crashes", total)
}

// TestFullDisk: where a step fails, all files stay as they are, and the next try succeeds.
func TestFullDisk(t *testing.T) {
	s := newStore(t)
	row := Row{Cluster: "c", JobID: "1", End: epoch, Position: 1}
	s.put(t, "id", row)
	moved := row
	moved.End, moved.Position = epoch+dayMs, 2
	for _, action := range []string{actLock, actMakeDir, actCreate, actWrite, actSync, actSyncDir} {
		s.before = func(a, path string) error {
			if a == action {
				return &os.PathError{Op: a, Path: path, Err: syscall.ENOSPC}
			}
			return nil
		}
		if _, err := s.write(t.Context(), lockFor, "id", last([]Row{moved})); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", action, err)
		}
		s.before = nil
		equal(t, last([]Row{row}), stored(t, s.dir), action)
	}
	s.put(t, "id", moved)
	equal(t, last([]Row{moved}), stored(t, s.dir), "at the end")
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
			for _, batch := range batches(rnd, log) {
				if bad, err := s.write(context.Background(), lockFor, "id", last(batch)); err != nil || len(bad) > 0 {
					t.Error(bad, err)
				}
			}
		})
	}
	writers.Wait()
	equal(t, last(log), stored(t, s.dir), "at the end")
}

// TestTopicMadeAnew: the offsets of a topic that was made anew are small. Its records win all the same, once.
func TestTopicMadeAnew(t *testing.T) {
	s := newStore(t)
	old := []Row{
		{Cluster: "c", JobID: "1", User: "before", End: epoch, Position: 1000},
		{Cluster: "c", JobID: "2", User: "kept", End: epoch, Position: 1001},
	}
	s.put(t, "old", old...)
	again := Row{Cluster: "c", JobID: "1", User: "after", End: epoch + dayMs, Position: 3}
	s.put(t, "new", again)
	kept := old[1]
	kept.Position = earlier // its file was written anew, under the new topic
	equal(t, last([]Row{again, kept}), stored(t, s.dir), "another topic")
	older := again
	older.User, older.Position = "older", 2
	s.put(t, "new", older)
	equal(t, last([]Row{again, kept}), stored(t, s.dir), "an older record")
	s.put(t, "", Row{Cluster: "c", JobID: "1", User: "newer", End: epoch, Position: 4}) // the id is not known
	if rows := stored(t, s.dir); len(rows) != 2 || rows[again.key()].User != "newer" {
		t.Errorf("%v", rows)
	}
}

// damage changes a byte in the middle of a file's pages.
func damage(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/8] ^= 0x40
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedFiles: a file that cannot be read is never replaced, and other dates go on.
func TestDamagedFiles(t *testing.T) {
	row := func(id string, day, position int64) Row {
		return Row{Cluster: "c", JobID: id, End: epoch + day*dayMs, Position: position}
	}
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(foreign, []byte("PAR1 not Parquet PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(path string) error{
		"a byte":  func(path string) error { damage(t, path); return nil },
		"cut":     func(path string) error { return os.Truncate(path, 500) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"foreign": func(path string) error { return os.Rename(foreign, path) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			s.put(t, "id", row("5", 0, 1), row("6", 1, 2))
			path := Path(s.dir, "2026-11-20")
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			was, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			// None of them lies between the ids of the damaged file: its rows are not read in search of them.
			records := last([]Row{row("1", 0, 3), row("2", 1, 4), row("6", 1, 5)})
			for range 2 {
				bad, err := s.write(t.Context(), lockFor, "id", records)
				fault := bad["2026-11-20"]
				if err != nil || len(bad) != 1 || !errors.Is(fault, ErrBadFile) ||
					!strings.Contains(fault.Error(), path) || !strings.Contains(fault.Error(), "bring it back from a copy") {
					t.Fatal(bad, err)
				}
				// The second time nobody has to wait: all that can be done is done.
				s.before = func(action, path string) error { return fmt.Errorf("%s of %s", action, path) }
			}
			if now, err := os.ReadFile(path); err != nil || !slices.Equal(was, now) {
				t.Error("the damaged file was changed", err)
			}
			if rows, err := Find(t.Context(), s.dir, "2"); err != nil && name == "a byte" || len(rows) != 1 {
				t.Error(rows, err) // a file whose ids cannot have the job is not read
			}
			if rows, err := Find(t.Context(), s.dir, "5"); !errors.Is(err, ErrBadFile) || len(rows) != 0 {
				t.Error(rows, err)
			}
			s.before = nil
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			s.put(t, "id", row("1", 0, 3))
			if rows := stored(t, s.dir); len(rows) != 3 {
				t.Error(rows)
			}
		})
	}
}

// TestReadersKeepTheLock: the sink waits for them for some time, and tries again later.
func TestReadersKeepTheLock(t *testing.T) {
	s := newStore(t)
	row := Row{Cluster: "c", JobID: "1", End: epoch}
	s.put(t, "id", row)
	lock, err := sink.TakeLock(t.Context(), sink.LockPath(s.dir), false, lockFor)
	if err != nil {
		t.Fatal(err)
	}
	s.put(t, "id", row) // nothing to write
	row.Position = 1
	if _, err := s.write(t.Context(), time.Millisecond, "id", last([]Row{row})); !errors.Is(err, sink.ErrLocked) {
		t.Error(err)
	}
	lock.Unlock()
	s.put(t, "id", row)
}
