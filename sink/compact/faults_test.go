package compact

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/sink"
)

// TestFaultsOfTheDate: each ends in a message with a remedy, and the date stays whole.
func TestFaultsOfTheDate(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		harm func(t *testing.T, date string) // of the date's directory
		fail string                          // an action whose disk is full
		says string                          // empty: it is compacted
	}{
		"a file without a footer": {func(t *testing.T, date string) {
			put(t, filepath.Join(date, testTopic+"-0-00000000000000000099.parquet"), "no Parquet")
		}, "", "bring it back from a copy"},
		"a directory": {func(t *testing.T, date string) {
			if err := os.Mkdir(filepath.Join(date, "mine"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "", "move it away"},
		"a foreign Parquet file": {func(t *testing.T, date string) {
			put(t, filepath.Join(date, "mine.dat"), "whatever")
		}, "", ""},
		"a symbolic link": {func(t *testing.T, date string) {
			elsewhere := filepath.Join(date, "../../elsewhere")
			if err := errors.Join(os.Rename(date, elsewhere), os.Symlink(elsewhere, date)); err != nil {
				t.Fatal(err)
			}
		}, "", ""},
		"a full disk, at the first file": {nil, sink.ActCreate, "no space left"},
		"a full disk, at a sync":         {nil, sink.ActSync, "no space left"},
		"a full disk, at a link":         {nil, sink.ActLink, "no space left"},
		"a full disk, at the directory":  {nil, sink.ActMakeDir, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
			if c.harm != nil {
				c.harm(t, sink.DatePath(p.dir, testDate))
			}
			p.breaks = func(co *compactor) {
				co.Before = func(action, _ string) error {
					if action == c.fail {
						return syscall.ENOSPC
					}
					return nil
				}
			}
			err := p.runPlainly(testNow)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if name != "a file without a footer" {
				p.read()
			}
			if p.err != nil {
				t.Error(p.err)
			}
			if c.fail == "" {
				return
			}
			entries, err := leftovers(p.dir)
			if err != nil || len(entries) > 0 {
				t.Errorf("what fails leaves %v, %v in the stage", entries, err)
			}
		})
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runPlainly runs a compaction without a crash, and returns the reason of what failed.
func (p *player) runPlainly(now time.Time) error {
	var reason error
	c := newCompactor(Options{Dir: p.dir, Topic: testTopic, Report: func(d Date) {
		if d.State == Failed {
			reason = errors.New(d.Reason)
		}
	}})
	c.now = func() time.Time { return now }
	if p.breaks != nil {
		p.breaks(c)
	}
	if err := c.run(context.Background()); err != nil && reason == nil {
		return err
	}
	return reason
}

// TestVerify: what is damaged is named, and what is whole is whole.
func TestVerify(t *testing.T) {
	w := newWorld(t)
	dir := w.clone(t)
	compactTest(t, dir, 1000) // behind a hole
	verify := func() (faults []string, err error) {
		err = Verify(t.Context(), dir, testTopic, nil, func(v Verified) { faults = append(faults, v.Faults...) })
		return faults, err
	}
	faults, err := verify()
	if !errors.Is(err, ErrWrong) || len(faults) != 1 || !strings.Contains(faults[0], sink.ErrHole.Error()) {
		t.Errorf("an archive with a hole: %v, %q", err, faults)
	}
	behind := filepath.Join(sink.DatePath(dir, nextDate), testTopic+"-0-00000000000000001000.parquet")
	if err := os.Remove(behind); err != nil {
		t.Fatal(err)
	}
	if faults, err := verify(); err != nil {
		t.Errorf("a whole archive: %v, %q", err, faults)
	}
	path := filepath.Join(sink.DatePath(dir, testDate), sink.CompactedName(testTopic, 1, 0))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[50] ^= 1
	if err := errors.Join(os.Remove(path), os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	if faults, err = verify(); !errors.Is(err, ErrWrong) || len(faults) != 1 || !strings.Contains(faults[0], path) {
		t.Errorf("a damaged page: %v, %q", err, faults)
	}
	stats, err := Stats(t.Context(), dir, testTopic)
	if err != nil || len(stats) != 2 || stats[0].Compacted != 2 || stats[0].Small != 0 || stats[0].Gaps != 1 ||
		stats[1].Small != 2 {
		t.Errorf("stats: %+v, %v", stats, err)
	}
	if err := Verify(t.Context(), t.TempDir(), testTopic, nil, func(Verified) {}); !errors.Is(err, ErrNoArchive) {
		t.Errorf("no archive: %v", err)
	}
}

// TestDamagedInput: bytes of an input that changed end in an error, not in rows.
func TestDamagedInput(t *testing.T) {
	dir := t.TempDir()
	f := sink.Footer{Topic: testTopic, Next: 1, Rows: 300, PreviousDate: testDate}
	if err := sink.Append(dir, testTopic, testDate, randomRows(rand.New(rand.NewPCG(1, 1)), 300), f); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(sink.DatePath(dir, testDate), "*"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	want, err := readBack(t.Context(), paths[0])
	if err != nil || want.rows != 300 {
		t.Fatal(want, err)
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	path := filepath.Join(dir, "damaged")
	for range 300 {
		b := slices.Clone(whole)
		b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		put(t, path, string(b))
		got, err := readBack(t.Context(), path)
		if err == nil && got != want {
			t.Fatalf("a damaged file is read as %+v, want %+v or an error", got, want)
		}
		if errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

// TestEmptyDates: a date without files, one with users' files alone, and one whose files have no rows.
func TestEmptyDates(t *testing.T) {
	dir := t.TempDir()
	f := sink.Footer{Topic: testTopic, Next: 3, PreviousDate: testDate, UndecodableCount: 3}
	if err := sink.Append(dir, testTopic, testDate, nil, f); err != nil {
		t.Fatal(err)
	}
	for _, date := range []string{"2026-11-01", "2026-11-02"} {
		if err := os.Mkdir(sink.DatePath(dir, date), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(sink.DatePath(dir, "2026-11-02"), "mine.parquet"), "mine")
	reports := compactTest(t, dir, 3)
	if len(reports) != 2 || reports[0].Date != testDate || reports[0].State != Compacted || reports[1].State != waits {
		t.Errorf("reports: %+v", reports)
	}
	path := filepath.Join(sink.DatePath(dir, testDate), sink.CompactedName(testTopic, 0, 0))
	rows, got, err := sink.ReadFile(path)
	if err != nil || len(rows) != 0 || got.UndecodableCount != 3 || got.Next != 3 {
		t.Errorf("a file without rows: %d rows, %+v, %v", len(rows), got, err)
	}
	if err := Verify(t.Context(), dir, testTopic, nil, func(Verified) {}); err != nil {
		t.Error(err)
	}
}

// TestFileSystemWithoutExchange: two renames take its place, and directories on two file systems are named.
func TestFileSystemWithoutExchange(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		fault error
		says  string
	}{
		{syscall.EINVAL, ""},
		{syscall.ENOSYS, ""},
		{syscall.EXDEV, "put both on one"},
		{syscall.EIO, "input/output error"},
	} {
		p := &player{w: w, t: t, dir: w.clone(t), want: w.rows}
		renames := 0
		p.breaks = func(co *compactor) {
			co.Before = func(action, path string) error {
				if action == sink.ActExchange {
					return c.fault
				}
				if action == sink.ActRename && !strings.HasSuffix(path, ".parquet") {
					renames++
				}
				return nil
			}
		}
		err := p.runPlainly(testNow)
		right := err == nil && renames == 3
		if c.says != "" {
			right = err != nil && strings.Contains(err.Error(), c.says)
		}
		if !right {
			t.Errorf("%v: %v, %d renames", c.fault, err, renames)
		}
		if p.read(); p.err != nil {
			t.Errorf("%v: %v", c.fault, p.err)
		}
	}
}
