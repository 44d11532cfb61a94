package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/sinktest"
	"github.com/weirhpc/weir/sink/table"
)

// stored returns the rows of all files. It fails for one in a wrong file, or one that is there twice.
func stored(t *testing.T, dir string) map[table.Key]Row {
	t.Helper()
	dates, err := Dates(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[table.Key]Row{}
	for _, date := range dates {
		if err := Each(dir, date, func(r *Row) error {
			if _, twice := rows[files.Key(r)]; twice || r.date() != date {
				t.Fatalf("%v lies in %s, twice: %v", r, date, twice)
			}
			rows[files.Key(r)] = *r
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// equal compares rows. A file does not tell an empty list from none.
func equal(t *testing.T, want, got map[table.Key]Row, what string) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Transformer("lists", func(r Row) Row {
		r.Nodes, r.Cpus = append([]string{}, r.Nodes...), append([]int32{}, r.Cpus...)
		return r
	})); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// store is the table in an archive.
type store struct{ *table.Store[Row] }

func storeIn(dir string) store {
	s := store{files.In(dir, "weir.jobs")}
	s.Before = sinktest.NoSync
	return s
}

func newStore(t testing.TB) store {
	t.Helper()
	return storeIn(t.TempDir())
}

// put writes records, and fails if a file cannot be used.
func (s store) put(t *testing.T, topicID string, records ...Row) {
	t.Helper()
	if bad, err := s.Write(t.Context(), sinktest.LockFor, topicID, last(records)); err != nil || len(bad) > 0 {
		t.Fatal(bad, err)
	}
}

// TestStore: the files have the newest record of each life, whatever the order of the batches. A second writer of the
// same records takes no lock, and a file that does not change stays.
func TestStore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(kafkatest.Cases(8, 2)) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		log := randomLog(rnd, 40)
		for i := range log {
			log[i].Nodes, log[i].NodeCount = []string{"n1", fmt.Sprint("n", i)}, 2
			switch rnd.IntN(3) {
			case 0:
				log[i].Cpus, log[i].Cores, log[i].Gpus = []int32{0, 1, int32(i)}, new(int64(i)), new(int32(i))
				log[i].ArrayJob, log[i].ArrayTask = new(fmt.Sprint(i)), new(int32(i))
			case 1:
				log[i].TimeLimitS, log[i].Exclusive = new(int64(60)), new(i%2 == 0)
				log[i].MemRequestedBytes, log[i].Submit = new(int64(1<<40)), new(epoch-1)
			}
		}
		s := newStore(t)
		for _, batch := range sinktest.Batches(rnd, log) {
			s.put(t, "id", batch...)
			stored(t, s.Dir)
		}
		equal(t, lives(log), stored(t, s.Dir), fmt.Sprint("seed ", seed))
		s.Before = func(action, path string) error { return fmt.Errorf("%s of %s", action, path) }
		s.put(t, "id", log...)
	}
}

// TestStoreMovesJobs: the date of a job's end changes. Its row moves, and careful readers never see it twice or not at
// all.
func TestStoreMovesJobs(t *testing.T) {
	s := newStore(t)
	row := Row{Cluster: "c", JobID: "1", User: "ada", Start: new(epoch - 1), End: epoch}
	other := Row{Cluster: "c", JobID: "2", End: epoch, Position: 1}
	s.put(t, "id", row, other)
	reading, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ; reading.Err() == nil; time.Sleep(3 * time.Millisecond) { // greedy readers keep the writer out
				if rows, err := Find(t.Context(), s.Dir, "1"); err != nil || len(rows) != 1 {
					t.Errorf("%v, %v", rows, err)
				}
			}
		})
	}
	for i := range int64(kafkatest.Cases(60, 10)) {
		row.Position, row.End = 2+i, epoch+(i%3)*dayMs
		s.put(t, "id", row)
	}
	stop()
	readers.Wait()
	equal(t, last([]Row{row, other}), stored(t, s.Dir), "at the end")
}

// TestTopicMadeAnew: the offsets of a topic that was made anew are small. Its records win all the same, once.
func TestTopicMadeAnew(t *testing.T) {
	s := newStore(t)
	old := []Row{
		{Cluster: "c", JobID: "1", User: "before", Start: new(epoch - 5), End: epoch, Position: 1000},
		{Cluster: "c", JobID: "2", User: "kept", End: epoch, Position: 1001},
	}
	s.put(t, "old", old...)
	again := Row{
		Cluster: "c", JobID: "1", User: "after", Start: new(epoch - 5), End: epoch + dayMs, Position: 3,
	}
	s.put(t, "new", again)
	kept := old[1]
	kept.Position = table.Earlier // its file was written anew, under the new topic
	equal(t, last([]Row{again, kept}), stored(t, s.Dir), "another topic")
	older := again
	older.User, older.Position = "older", 2
	s.put(t, "new", older)
	equal(t, last([]Row{again, kept}), stored(t, s.Dir), "an older record")
	newer := again
	newer.User, newer.End, newer.Position = "newer", epoch, 4
	s.put(t, "", newer) // the id is not known
	if rows := stored(t, s.Dir); len(rows) != 2 || rows[files.Key(&again)].User != "newer" {
		t.Errorf("%v", rows)
	}
}

// damage changes a byte of a file's pages.
func damage(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, []byte{0x28, 0xB5, 0x2F, 0xFD})+6] ^= 0x40 // of the first page's values
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
			path := Path(s.Dir, "2026-11-20")
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
				bad, err := s.Write(t.Context(), sinktest.LockFor, "id", records)
				fault := bad["2026-11-20"]
				if err != nil || len(bad) != 1 || !errors.Is(fault, table.ErrBadFile) ||
					!strings.Contains(fault.Error(), path) ||
					!strings.Contains(fault.Error(), "bring it back from a copy") {
					t.Fatal(bad, err)
				}
				// The second time nobody has to wait: all that can be done is done.
				s.Before = func(action, path string) error { return fmt.Errorf("%s of %s", action, path) }
			}
			if now, err := os.ReadFile(path); err != nil || !slices.Equal(was, now) {
				t.Error("the damaged file was changed", err)
			}
			if rows, err := Find(t.Context(), s.Dir, "2"); err != nil && name == "a byte" || len(rows) != 1 {
				t.Error(rows, err) // a file whose ids cannot have the job is not read
			}
			if rows, err := Find(t.Context(), s.Dir, "5"); !errors.Is(err, table.ErrBadFile) || len(rows) != 0 {
				t.Error(rows, err)
			}
			s.Before = sinktest.NoSync
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			s.put(t, "id", row("1", 0, 3))
			if rows := stored(t, s.Dir); len(rows) != 3 {
				t.Error(rows)
			}
		})
	}
}

// TestReadersKeepNobodyOut: a reader holds the lock for hours. New rows are written at once, and a row that moves is
// readable all the time.
func TestReadersKeepNobodyOut(t *testing.T) {
	s := newStore(t)
	row := Row{Cluster: "c", JobID: "1", Start: new(epoch - 5), End: epoch}
	s.put(t, "id", row)
	lock, err := sink.TakeLock(t.Context(), sink.LockPath(s.Dir), false, sinktest.LockFor)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	s.Before = func(action, path string) error {
		if action == sink.ActLock && path == sink.LockPath(s.Dir) {
			return errors.New("a writer of one date waits for readers")
		}
		return sinktest.NoSync(action, path)
	}
	row.Position, row.User = 1, "changed"
	other := Row{Cluster: "c", JobID: "2", End: epoch, Position: 2}
	s.put(t, "id", row, other)
	renames := 0
	s.Before = func(action, path string) error {
		if action == sink.ActRename {
			renames++
			if rows, err := Find(t.Context(), s.Dir, "1"); err != nil || len(rows) == 0 {
				t.Errorf("ahead of %s: %v, %v", path, rows, err)
			}
		}
		return sinktest.NoSync(action, path)
	}
	for n := range int64(2) { // to a date behind, and to one before
		row.Position, row.End = 3+n, epoch+(1-n)*dayMs
		if bad, err := s.Write(t.Context(), time.Millisecond, "id", last([]Row{row})); err != nil || len(bad) > 0 {
			t.Fatal(bad, err)
		}
		equal(t, last([]Row{row, other}), stored(t, s.Dir), "a move")
	}
	if renames != 6 {
		t.Errorf("%d renames: the hook is not ahead of each", renames)
	}
}

// TestMendAtStart: a sink died between the two renames of a job that moved. The next one finishes that before it reads
// anything: the topic may have forgotten the job.
func TestMendAtStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := storeIn(b.Config.Sink.Dir)
	row := Row{Cluster: "c", JobID: "1", User: "ada", Start: new(epoch - 5), End: epoch}
	s.put(t, "", row)
	row.End, row.Position = epoch+dayMs, 1
	s.Before = func(action, path string) error {
		if action == sink.ActRename && path == Path(s.Dir, "2026-11-20") {
			return sinktest.ErrCrash
		}
		return sinktest.NoSync(action, path)
	}
	if _, err := s.Write(t.Context(), sinktest.LockFor, "", last([]Row{row})); !errors.Is(err, sinktest.ErrCrash) {
		t.Fatal(err)
	}
	if rows, err := Find(t.Context(), s.Dir, "1"); err != nil || len(rows) != 2 {
		t.Fatalf("after the crash: %v, %v", rows, err)
	}
	b.follow(time.Hour)
	kafkatest.Eventually(t, "the end of the move", func() bool {
		rows, err := Find(t.Context(), s.Dir, "1")
		return err == nil && len(rows) == 1 && !s.Unfinished()
	})
	equal(t, last([]Row{row}), stored(t, s.Dir), "at the end")
}
