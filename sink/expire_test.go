package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// expireBench is an archive with samples of four dates in two partitions, whose files alternate around midnights.
type expireBench struct {
	*expiry
	*archive
	logged kafkatest.Log
}

func newExpireBench(t *testing.T) *expireBench {
	t.Helper()
	cfg := config.Default()
	cfg.Sink.Dir = t.TempDir()
	b := &expireBench{archive: newArchive(cfg.Sink.Dir, testCounters, nil)}
	b.expiry = newExpiry(cfg, samplesDir, cfg.Samples.Retention, b.logged.Logger())
	b.archive.root = filepath.Join(cfg.Sink.Dir, samplesDir)
	if err := b.open(); err != nil {
		t.Fatal(err)
	}
	for partition := range int32(2) {
		previous := ""
		for start, day := range []int{1, 2, 1, 2, 2, 3, 2, 3, 4, 3, 4} {
			date := fmt.Sprintf("1970-01-0%d", day)
			f := Footer{
				Topic: testCounters, Partition: partition, Start: int64(start), Next: int64(start) + 1,
				PreviousDate: previous,
			}
			var file bytes.Buffer // without fsync, which takes its time
			if err := encodeSamples(&file, nil, &f); err != nil {
				t.Fatal(err)
			}
			put(t, b.path(date, partition, int64(start)), file.String())
			previous = date
		}
	}
	return b
}

// on returns a time on a day of 1970.
func on(day int) time.Time { return time.Unix(0, 0).Add(time.Duration(day-1) * 24 * time.Hour) }

func (b *expireBench) dates(t *testing.T) []string {
	t.Helper()
	dates, err := listDates(b.archive.root)
	if err != nil {
		t.Fatal(err)
	}
	return dates
}

// sound fails if the chain has a hole, or does not end where it ended.
func (b *expireBench) sound(t *testing.T) {
	t.Helper()
	ends, err := b.tails()
	if err != nil {
		t.Fatal(err)
	}
	for partition := range int32(2) {
		if ends[partition].next != 11 {
			t.Fatalf("partition %d ends at %d", partition, ends[partition].next)
		}
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	b := newExpireBench(t)
	for _, c := range []struct {
		now  time.Time
		left []string
	}{
		{on(5).Add(-time.Second), []string{"1970-01-01", "1970-01-02", "1970-01-03", "1970-01-04"}},
		{on(5), []string{"1970-01-02", "1970-01-03", "1970-01-04"}}, // the first of January ended 72 hours ago
		{on(7), []string{"1970-01-04"}},
	} {
		if err := b.pass(t.Context(), c.now); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.left, b.dates(t)); diff != "" {
			t.Fatalf("dates at %v (-want +got):\n%s", c.now, diff)
		}
		b.sound(t)
	}
	if n := b.logged.Count("an old date is deleted"); n != 3 {
		t.Errorf("three dates were logged %d times", n)
	}
	if err := newExpiry(config.Config{Sink: config.Sink{Dir: t.TempDir()}}, samplesDir, 0, b.logged.Logger()).pass(t.Context(), on(9)); err != nil {
		t.Errorf("without an archive: %v", err)
	}
}

// TestExpiryWithAClockAhead: the retention counts from the newest date that has samples. A clock that is a year ahead
// deletes no date that the samples themselves keep.
func TestExpiryWithAClockAhead(t *testing.T) {
	t.Parallel()
	b := newExpireBench(t)
	put(t, filepath.Join(b.dateDir("2071-01-01"), "notes.txt"), "mine") // it has no samples
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.run(ctx) // by today's clock, which is decades ahead of the samples
	}()
	kafkatest.Eventually(t, "a pass", func() bool { return b.logged.Count("an old date is deleted") > 0 })
	cancel()
	<-ended
	if diff := cmp.Diff([]string{"1970-01-02", "1970-01-03", "1970-01-04", "2071-01-01"}, b.dates(t)); diff != "" {
		t.Errorf("dates (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ now, present time.Time }{{on(5).AddDate(1, 0, 0), on(5)}, {on(4), on(4)}} {
		if got, err := b.present(c.now); err != nil || !got.Equal(c.present) {
			t.Errorf("at %v the samples are of %v, %v, want %v", c.now, got, err, c.present)
		}
	}
}

// TestExpiryKilledAnywhere: the process ends ahead of each action on the disk. No chain has a hole then, and no file of
// somebody else is gone. The next pass finishes.
func TestExpiryKilledAnywhere(t *testing.T) {
	t.Parallel()
	const note = "notes.txt"
	for steps, done := 0, false; !done; steps++ {
		b := newExpireBench(t)
		mine := filepath.Join(b.dateDir("1970-01-02"), note)
		put(t, mine, "mine")
		left := steps
		b.before = func() error {
			if left--; left < 0 {
				return errCrash
			}
			return nil
		}
		err := b.pass(t.Context(), on(7))
		if done = err == nil; err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		b.sound(t)
		b.before = nil
		if err := b.pass(t.Context(), on(7)); err != nil {
			t.Fatal(err)
		}
		b.sound(t)
		if diff := cmp.Diff([]string{"1970-01-02", "1970-01-04"}, b.dates(t)); diff != "" {
			t.Fatalf("step %d: dates (-want +got):\n%s", steps, diff)
		}
		if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" {
			t.Fatalf("step %d: %v", steps, err)
		}
		if rest, _ := filepath.Glob(filepath.Join(StagePath(b.expiry.dir), "*-*")); len(rest) > 0 {
			t.Fatalf("step %d: %v", steps, rest)
		}
		if steps < 20 && done {
			t.Errorf("only %d steps", steps)
		}
	}
}

// TestExpiryDeletesOnlyItsOwn: files of others stay in an old date, and so does all that is not below samples/.
func TestExpiryDeletesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	b := newExpireBench(t)
	first := b.dateDir("1970-01-01")
	foreign := []string{
		filepath.Join(first, "notes.txt"), filepath.Join(first, fileName("other.counters", 0, 0)),
		filepath.Join(first, "copy-"+fileName(testCounters, 0, 0)),
	}
	for _, path := range foreign {
		put(t, path, "mine")
	}
	inside := filepath.Join(first, fileName(testCounters, 1, 4711), "x")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere.parquet")
	summary := filepath.Join(DatePath(b.expiry.dir, "1970-01-01"), fileName(testCounters, 0, 0))
	undated := filepath.Join(b.archive.root, "date=1970-01-99", fileName(testCounters, 0, 0))
	for _, path := range []string{inside, elsewhere, summary, undated} {
		put(t, path, "mine")
	}
	if err := os.Symlink(filepath.Dir(elsewhere), b.dateDir("1969-12-31")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.pass(t.Context(), on(6)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range append(foreign, inside, elsewhere, summary, undated) {
		if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
			t.Errorf("%s: %v", path, err)
		}
	}
	if files, err := listFiles(first, testCounters, "1970-01-01"); err != nil || len(files) != 1 {
		t.Errorf("its own files stay, or a directory went: %v %v", files, err)
	}
	want := []string{"1969-12-31", "1970-01-01", "1970-01-03", "1970-01-04"}
	if diff := cmp.Diff(want, b.dates(t)); diff != "" {
		t.Errorf("dates (-want +got):\n%s", diff)
	}
	if err := os.RemoveAll(filepath.Dir(inside)); err != nil {
		t.Fatal(err)
	}
	b.sound(t)
	if n := b.logged.Count("an old date has files that are not of this table, they stay"); n != 2 {
		t.Errorf("two dates that stay were logged %d times", n)
	}
}

// TestExpiryWaitsForReaders: nothing is deleted under a reader that has the lock.
func TestExpiryWaitsForReaders(t *testing.T) {
	t.Parallel()
	b := newExpireBench(t)
	lock, err := TakeLock(t.Context(), LockPath(b.expiry.dir), false, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.pass(ctx, on(9)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("under a reader: %v", err)
	}
	if len(b.dates(t)) != 4 {
		t.Errorf("dates: %v", b.dates(t))
	}
	lock.Unlock()
	if err := b.pass(t.Context(), on(9)); err != nil || len(b.dates(t)) != 0 {
		t.Errorf("%v: %v", b.dates(t), err)
	}
}

// put writes a file of somebody else.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
