package sink

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
)

// putCompacted writes a compacted file of ranges, and removes the small files of its date and partition.
func putCompacted(t *testing.T, a *archive, date string, rows []schemas.Row, ranges ...Range) {
	t.Helper()
	first, last := ranges[0], ranges[len(ranges)-1]
	f := Footer{
		Topic: a.topic, Start: first.Start, Next: last.Next, Rows: int64(len(rows)), PreviousDate: first.PreviousDate,
		Compacted: &Compacted{Ranges: ranges, Generation: 1},
	}
	var b bytes.Buffer
	if err := encode(&b, rows, &f); err != nil {
		t.Fatal(err)
	}
	old, err := filepath.Glob(filepath.Join(a.dateDir(date), "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		remove(t, path)
	}
	path := filepath.Join(a.dateDir(date), CompactedName(a.topic, 0, f.Start))
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestStalledSinkAfterCompaction: a sink stood still with rows in hand while another archived them and the date was
// compacted. Their start is no file's name any more. It must not write them a second time.
func TestStalledSinkAfterCompaction(t *testing.T) {
	const d1, d2 = "1970-01-01", "1970-01-02"
	a := openTest(t, t.TempDir(), nil)
	stalled := openTest(t, filepath.Dir(a.root), nil)
	row := func(offsets ...int64) (rows []schemas.Row) {
		for _, o := range offsets {
			rows = append(rows, schemas.Row{IntervalMs: o})
		}
		return rows
	}
	for _, f := range []Footer{
		{Start: 0, Next: 5, Rows: 1},
		{Start: 5, Next: 9, Rows: 1, PreviousDate: d1},
	} {
		f.Topic = "t"
		if err := a.commit(d1, row(f.Start), f); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.commit(d2, nil, Footer{Topic: "t", Start: 9, Next: 12, PreviousDate: d1}); err != nil {
		t.Fatal(err)
	}
	if has, err := stalled.has(0, 5); err != nil || !has { // it has looked at the directory before
		t.Fatal(has, err)
	}
	putCompacted(t, a, d1, row(0, 5), Range{Start: 0, Next: 9})

	inHand := Footer{Topic: "t", Start: 5, Next: 8, Rows: 1, PreviousDate: d1}
	if err := stalled.commit(d1, row(5), inHand); !errors.Is(err, errTaken) {
		t.Errorf("rows that a compacted file has: %v, want errTaken", err)
	}
	got, err := stalled.follow(0, tail{next: 5, date: d1})
	if want := (tail{next: 12, date: d2}); err != nil || got != want {
		t.Errorf("follow from inside a compacted file: %v, %v, want %v", got, err, want)
	}
	tails, err := openTest(t, filepath.Dir(a.root), nil).tails()
	if want := (tail{next: 12, date: d2}); err != nil || tails[0] != want {
		t.Errorf("the chain after a compaction: %v, %v, want %v", tails, err, want)
	}
}

// TestChainOfRanges: around midnight a compacted file holds several stretches, and those of the next date lie between.
func TestChainOfRanges(t *testing.T) {
	const d1, d2 = "1970-01-01", "1970-01-02"
	a := openTest(t, t.TempDir(), nil)
	for i, date := range []string{d1, d2, d1, d2} {
		f := Footer{Topic: "t", Start: int64(i), Next: int64(i + 1), PreviousDate: []string{"", d1, d2, d1}[i]}
		if err := a.commit(date, nil, f); err != nil {
			t.Fatal(err)
		}
	}
	putCompacted(t, a, d1, nil, Range{Start: 0, Next: 1}, Range{Start: 2, Next: 3, PreviousDate: d2})
	tails, err := a.tails()
	if want := (tail{next: 4, date: d2}); err != nil || tails[0] != want {
		t.Fatalf("the chain: %v, %v, want %v", tails, err, want)
	}
	for start, date := range []string{d1, d2, d1, d2} {
		if f, err := a.locate(0, int64(start)); err != nil || f == nil || f.Date != date {
			t.Errorf("position %d: %v, %v, want one of %s", start, f, err, date)
		}
	}
	if f, err := a.locate(0, 4); err != nil || f != nil {
		t.Errorf("position 4: %v, %v, want none", f, err)
	}
	remove(t, a.path(d2, 0, 1))
	if _, err := a.tails(); !errors.Is(err, ErrHole) {
		t.Errorf("a hole between two ranges: %v, want ErrHole", err)
	}
}

// TestCommitWaitsForReplacement: while a date is replaced, no sink looks for its place, and none links.
func TestCommitWaitsForReplacement(t *testing.T) {
	var linked, synced time.Time
	a := openTest(t, t.TempDir(), func(action, _ string) error {
		switch action {
		case ActLink:
			linked = time.Now()
		case ActSyncDir:
			synced = time.Now()
		}
		return nil
	})
	a.made["1970-01-01"] = true
	lock, err := TakeLock(t.Context(), LockPath(a.dir()), true, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- a.commit("1970-01-01", nil, Footer{Topic: "t", Next: 1}) }()
	time.Sleep(50 * time.Millisecond)
	let := time.Now()
	lock.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if linked.Before(let) || synced.Before(let) {
		t.Errorf("linked at %v and synced at %v, while the lock was held until %v", linked, synced, let)
	}
}

// TestLockIsHeldUntilTheDirectoryIsDurable: otherwise the fsync could reach a directory that was replaced.
func TestLockIsHeldUntilTheDirectoryIsDurable(t *testing.T) {
	var dir string
	free := map[string]bool{}
	a := openTest(t, t.TempDir(), func(action, _ string) error {
		if dir != "" {
			lock, err := TakeLock(context.Background(), LockPath(dir), true, 0)
			if err == nil {
				lock.Unlock()
				free[action] = true
			}
		}
		return nil
	})
	dir = a.dir()
	if err := a.commit("1970-01-01", nil, Footer{Topic: "t", Next: 1}); err != nil {
		t.Fatal(err)
	}
	if len(free) > 0 {
		t.Errorf("a compaction could come between, ahead of %v", free)
	}
}

// TestReplacementLeftBetweenTwoRenames: a crash left a date's directory aside. A sink that starts puts it back. It
// reports no hole.
func TestReplacementLeftBetweenTwoRenames(t *testing.T) {
	a := openTest(t, t.TempDir(), nil)
	for i, date := range []string{"1970-01-01", "1970-01-02"} {
		f := Footer{Topic: "t", Start: int64(i), Next: int64(i + 1), PreviousDate: []string{"", "1970-01-01"}[i]}
		if err := a.commit(date, nil, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(a.dateDir("1970-01-02"), AsidePath(a.dir(), "1970-01-02")); err != nil {
		t.Fatal(err)
	}
	tails, err := openTest(t, a.dir(), nil).tails()
	if want := (tail{next: 2, date: "1970-01-02"}); err != nil || tails[0] != want {
		t.Errorf("tails: %v, %v, want %v", tails, err, want)
	}
}

// TestDateOnAnotherFileSystem: a temporary file in .stage/ cannot be linked there. The sink writes it beside the date.
func TestDateOnAnotherFileSystem(t *testing.T) {
	refused := false
	a := openTest(t, t.TempDir(), func(action, _ string) error {
		if action == ActLink && !refused {
			refused = true
			return syscall.EXDEV
		}
		return nil
	})
	if err := a.commit("1970-01-01", nil, Footer{Topic: "t", Next: 1}); err != nil || !refused {
		t.Fatalf("commit: %v", err)
	}
	for dir, want := range map[string]int{a.dateDir("1970-01-01"): 1, a.stage(): 0} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
			t.Errorf("%s has %v, %v, want %d files", dir, entries, err, want)
		}
	}
}

// TestTemporaryFilesAreOutOfReach: Polars' scan of a directory fails at any file that is not Parquet.
func TestTemporaryFilesAreOutOfReach(t *testing.T) {
	var seen []string
	a := openTest(t, t.TempDir(), func(action, path string) error {
		if action == ActCreate {
			seen = append(seen, path)
		}
		return nil
	})
	if err := a.commit("1970-01-01", nil, Footer{Topic: "t", Next: 1}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || filepath.Dir(seen[0]) != filepath.Join(a.dir(), ".stage") {
		t.Errorf("temporary files: %v", seen)
	}
}

// TestLockHeldByAnother: a reader that never ends must not stop a sink without a word.
func TestLockHeldByAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	lock, err := TakeLock(t.Context(), path, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	for _, exclusive := range []bool{false, true} {
		if _, err := TakeLock(t.Context(), path, exclusive, 20*time.Millisecond); !errors.Is(err, ErrLocked) {
			t.Errorf("a second lock: %v, want ErrLocked", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := TakeLock(ctx, path, false, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was ended: %v", err)
	}
}

func TestCompactedNames(t *testing.T) {
	name := CompactedName("weir.job-summary", 7, 12345)
	if p, start, ok := parseCompacted("weir.job-summary", name); !ok || p != 7 || start != 12345 {
		t.Errorf("parseCompacted(%s) = %d, %d, %v", name, p, start, ok)
	}
	if _, _, ok := parseName("weir.job-summary", name); ok {
		t.Error("a compacted file is taken for a small one")
	}
	for _, name := range []string{
		"", fileName("weir.job-summary", 7, 12345), "weir.job-summary-7-c12345.parquet",
		"7-c00000000000000012345.parquet",
		"weir.job-summary-7-cc00000000000000012345.parquet", "weir.job-summary-7-c00000000000000012345",
		"weir.job-summary-07-c00000000000000012345.parquet",
	} {
		if _, _, ok := parseCompacted("weir.job-summary", name); ok {
			t.Errorf("parseCompacted(%q) takes it", name)
		}
	}
}

// TestFooterOfRanges: what contradicts itself is refused.
func TestFooterOfRanges(t *testing.T) {
	for name, ranges := range map[string][]Range{
		"none":              {},
		"overlap":           {{Start: 1, Next: 5}, {Start: 4, Next: 9}},
		"empty":             {{Start: 1, Next: 1}, {Start: 4, Next: 9}},
		"begins elsewhere":  {{Start: 2, Next: 9}},
		"ends elsewhere":    {{Start: 1, Next: 8}},
		"not in order":      {{Start: 5, Next: 9}, {Start: 1, Next: 5}},
		"this one is right": {{Start: 1, Next: 4}, {Start: 5, Next: 9, Gap: true, PreviousDate: "1970-01-02"}},
	} {
		f := Footer{Topic: "t", Start: 1, Next: 9}
		f.Compacted = &Compacted{Ranges: ranges, Inputs: []string{"a"}, Generation: 3, Hash: 1 << 63}
		kv := map[string]string{}
		if err := f.Put(func(k, v string) { kv[k] = v }); err != nil {
			t.Fatal(err)
		}
		got, err := parseFooter(func(key string) (string, bool) { v, ok := kv[key]; return v, ok })
		right := name == "this one is right"
		if (err == nil) != right {
			t.Errorf("%s: %v", name, err)
		}
		if right && !reflect.DeepEqual(got.Compacted, f.Compacted) {
			t.Errorf("read back: %+v", got.Compacted)
		}
	}
}
