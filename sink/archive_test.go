package sink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

var errCrash = errors.New("crash")

func openTest(t testing.TB, dir string, before func(action, path string) error) *archive {
	t.Helper()
	a := newArchive(dir, "t", before)
	if err := a.open(); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCommitTaken(t *testing.T) {
	a := openTest(t, t.TempDir(), nil)
	row := func(offset int64) []schemas.Row { return []schemas.Row{{IntervalMs: offset}} }
	if err := a.commit("1970-01-01", row(0), Footer{Topic: "t", Start: 0, Next: 5, Rows: 1}); err != nil {
		t.Fatal(err)
	}
	for _, date := range []string{"1970-01-01", "1970-01-02"} {
		if err := a.commit(date, row(1), Footer{Topic: "t", Start: 0, Next: 3, Rows: 1}); !errors.Is(err, errTaken) {
			t.Errorf("a second file with the same start under %s: %v, want errTaken", date, err)
		}
	}
	next := Footer{Topic: "t", Start: 5, Next: 9, PreviousDate: "1970-01-01"}
	if err := a.commit("1970-01-02", nil, next); err != nil {
		t.Fatal(err)
	}
	got, err := a.follow(0, tail{})
	if want := (tail{next: 9, date: "1970-01-02"}); err != nil || got != want {
		t.Errorf("follow: %v, %v, want %v", got, err, want)
	}
	// The link itself decides, too, where both looked before either linked.
	path := a.path("1970-01-01", 0, 0)
	if err := a.link(path, a.path("1970-01-02", 0, 5)); !errors.Is(err, errTaken) {
		t.Errorf("link over a file: %v, want errTaken", err)
	}
}

func TestFailedActions(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{
		ActMakeDir, ActCreate, ActWrite, ActSync, ActClose, ActLink, ActSyncDir, ActRemove,
	} {
		t.Run(failing, func(t *testing.T) {
			var broken bool
			a := openTest(t, t.TempDir(), func(action, path string) error {
				if broken && action == failing && filepath.Base(path) != "summaries" {
					return syscall.ENOSPC
				}
				return nil
			})
			broken = true
			rows := []schemas.Row{{IntervalMs: 0}}
			err := a.commit("1970-01-01", rows, Footer{Topic: "t", Next: 1, Rows: 1})
			if (err == nil) != (failing == ActRemove) || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("commit: %v", err)
			}
			entries, err := os.ReadDir(a.dateDir("1970-01-01"))
			if err != nil && failing != ActMakeDir {
				t.Fatal(err)
			}
			for _, e := range entries {
				if isTemp := strings.HasPrefix(e.Name(), tempPrefix); isTemp && failing != ActRemove {
					t.Errorf("%s stays", e.Name())
				} else if _, _, err := ReadFile(filepath.Join(a.dateDir("1970-01-01"), e.Name())); err != nil {
					t.Errorf("a torn file: %v", err)
				}
			}
			broken = false
			err = a.commit("1970-01-01", rows, Footer{Topic: "t", Next: 1, Rows: 1})
			if err != nil && !errors.Is(err, errTaken) {
				t.Fatalf("the second try: %v", err)
			}
			if diff := cmp.Diff([]int64{0}, storedOffsets(t, a)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeadTemps(t *testing.T) {
	dir := t.TempDir()
	a := openTest(t, dir, nil)
	if err := os.Mkdir(a.dateDir("2026-11-21"), 0o755); err != nil {
		t.Fatal(err)
	}
	const dead = 1<<31 - 2    // above the greatest pid
	names := map[string]bool{ // and whether they stay
		fmt.Sprintf(".tmp-%d-%s-0123456789abcdef", dead, a.host):        false,
		fmt.Sprintf(".tmp-%d-%s-0123456789abcdef", os.Getpid(), a.host): true,
		fmt.Sprintf(".tmp-%d-another-host-0123456789abcdef", dead):      true,
		".tmp-": true, ".tmp-x-y-z": true, ".tmp--1-" + a.host + "-0": true, "notes.txt": true,
	}
	for name := range names {
		for _, d := range []string{a.root, a.dateDir("2026-11-21")} {
			if err := os.WriteFile(filepath.Join(d, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	openTest(t, dir, nil)
	for name, stays := range names {
		for _, d := range []string{a.root, a.dateDir("2026-11-21")} {
			if _, err := os.Stat(filepath.Join(d, name)); (err == nil) != stays {
				t.Errorf("%s in %s: %v, want it to stay: %v", name, d, err, stays)
			}
		}
	}
	if host, pid, ok := parseTemp(filepath.Base(a.tempPath(a.root))); !ok || host != a.host || pid != os.Getpid() {
		t.Errorf("parseTemp(tempPath) = %s, %d, %v", host, pid, ok)
	}
}

func TestBrokenChains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *testing.T, a *archive)
		err  error
		says string
	}{
		"nothing": {func(*testing.T, *archive) {}, nil, ""},
		"a file is gone": {func(t *testing.T, a *archive) {
			remove(t, a.path("1970-01-02", 0, 2))
		}, ErrHole, "weir sink accept-gap 0"},
		"the oldest date is gone": {func(t *testing.T, a *archive) {
			if err := os.RemoveAll(a.dateDir("1970-01-01")); err != nil {
				t.Fatal(err)
			}
		}, nil, ""},
		"a file is torn, which the chain does not need": {func(t *testing.T, a *archive) {
			truncate(t, a.path("1970-01-02", 0, 2))
		}, nil, ""},
		"the first file is torn": {func(t *testing.T, a *archive) {
			truncate(t, a.path("1970-01-02", 0, 0))
		}, nil, ""},
		"the last file is torn": {func(t *testing.T, a *archive) {
			truncate(t, a.path("1970-01-02", 0, 3))
		}, ErrBadFile, "t-0-00000000000000000003.parquet"},
		"the last file is torn, and says what to do": {func(t *testing.T, a *archive) {
			truncate(t, a.path("1970-01-02", 0, 3))
		}, ErrBadFile, "move it away, and its records are read again"},
		"an older date is empty": {func(t *testing.T, a *archive) {
			remove(t, a.path("1970-01-01", 0, 1))
			if err := os.Mkdir(a.dateDir("1969-12-31"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, nil, ""},
		"the oldest date is gone, but for its directory": {func(t *testing.T, a *archive) {
			remove(t, a.path("1970-01-01", 0, 1))
		}, nil, ""},
		"the oldest date has only another topic's files, and notes": {func(t *testing.T, a *archive) {
			other := filepath.Join(a.dateDir("1970-01-01"), fileName("other", 0, 1))
			if err := os.Rename(a.path("1970-01-01", 0, 1), other); err != nil {
				t.Fatal(err)
			}
		}, nil, ""},
		"a file is named like a date": {func(t *testing.T, a *archive) {
			if err := os.WriteFile(a.dateDir("1969-12-31"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, nil, ""},
		"a file has another's name": {func(t *testing.T, a *archive) {
			if err := os.Rename(a.path("1970-01-02", 0, 2), a.path("1970-01-02", 0, 9)); err != nil {
				t.Fatal(err)
			}
		}, ErrBadFile, "t-0-00000000000000000009.parquet"},
		"a copy lies elsewhere": {func(t *testing.T, a *archive) {
			if err := os.Link(a.path("1970-01-02", 0, 2), a.path("1970-01-01", 0, 2)); err != nil {
				t.Fatal(err)
			}
		}, ErrBadFile, "t-0-00000000000000000002.parquet"},
	} {
		t.Run(name, func(t *testing.T) {
			a := openTest(t, t.TempDir(), nil)
			dates := []string{"1970-01-02", "1970-01-01", "1970-01-02", "1970-01-02"}
			previous := ""
			for i, date := range dates {
				f := Footer{Topic: "t", Start: int64(i), Next: int64(i + 1), PreviousDate: previous}
				if err := a.commit(date, nil, f); err != nil {
					t.Fatal(err)
				}
				previous = date
			}
			c.harm(t, a)
			a = openTest(t, filepath.Dir(a.root), nil)
			tails, err := a.tails()
			if !errors.Is(err, c.err) || c.err == nil && tails[0] != (tail{next: 4, date: "1970-01-02"}) {
				t.Fatalf("tails: %v, %v, want %v", tails, err, c.err)
			}
			if c.err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error does not say %q: %v", c.says, err)
			}
		})
	}
}

func truncate(t *testing.T, path string) {
	t.Helper()
	if err := os.Truncate(path, 700); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestLook holds what another process sees of an archive against what is there.
func TestLook(t *testing.T) {
	cfg := config.Default()
	cfg.Sink.Dir = t.TempDir()
	look := func(positions map[int32]int64, damaged ...string) {
		t.Helper()
		got, err := Look(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(positions, got.Positions); diff != "" {
			t.Errorf("positions (-want +got):\n%s", diff)
		}
		if len(got.Damaged) != len(damaged) {
			t.Fatalf("damaged: %v, want %v", got.Damaged, damaged)
		}
		for i, name := range damaged {
			if !strings.Contains(got.Damaged[i].Error(), name) {
				t.Errorf("%v does not name %s", got.Damaged[i], name)
			}
		}
	}
	look(nil)
	a := openTest(t, cfg.Sink.Dir, nil) // an archive where nothing was ever written, or somebody's empty directory
	a.topic = cfg.Prefix + schemas.TopicJobSummary
	look(nil)
	for i := range int64(3) {
		f := Footer{Topic: a.topic, Start: i * 5, Next: i*5 + 5, PreviousDate: "1970-01-02"}
		if err := a.commit("1970-01-02", nil, f); err != nil {
			t.Fatal(err)
		}
	}
	look(map[int32]int64{0: 15})
	truncate(t, a.path("1970-01-02", 0, 5))
	look(map[int32]int64{0: 15}, fileName(a.topic, 0, 5))
	truncate(t, a.path("1970-01-02", 0, 10))
	look(map[int32]int64{0: 10}, fileName(a.topic, 0, 5), fileName(a.topic, 0, 10))
}
