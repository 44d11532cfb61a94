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

// storedOffsets returns, in file order of the chain, the offsets that a partition's rows came from: the tests put them
// into IntervalMs.
func storedOffsets(t testing.TB, a *archive) []int64 {
	t.Helper()
	found, _, err := chains(a.root, a.topic)
	if err != nil {
		t.Fatal(err)
	}
	links := found[0]
	if holes, err := check(links, ""); err != nil || len(holes) > 0 {
		t.Fatalf("the chain is broken: %v %v", holes, err)
	}
	var offsets []int64
	for _, l := range links {
		rows, f, err := ReadFile(l.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if dateOf(r.IntervalStart) != l.date || r.IntervalMs < f.Start || r.IntervalMs >= f.Next {
				t.Errorf("%s holds a row of %s from offset %d", l.path, dateOf(r.IntervalStart), r.IntervalMs)
			}
			offsets = append(offsets, r.IntervalMs)
		}
	}
	return offsets
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
	if err := a.commit("1970-01-02", nil, Footer{Topic: "t", Start: 5, Next: 9, PreviousDate: "1970-01-01"}); err != nil {
		t.Fatal(err)
	}
	got, err := a.follow(0, tail{0, ""})
	if want := (tail{9, "1970-01-02"}); err != nil || got != want {
		t.Errorf("follow: %v, %v, want %v", got, err, want)
	}
	// The link itself decides, too, where both looked before either linked.
	path := a.path("1970-01-01", 0, 0)
	if err := a.link(path, a.path("1970-01-02", 0, 5)); !errors.Is(err, errTaken) {
		t.Errorf("link over a file: %v, want errTaken", err)
	}
}

func TestFailedActions(t *testing.T) {
	for _, failing := range []string{actMakeDir, actCreate, actWrite, actSync, actClose, actLink, actSyncDir, actRemove} {
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
			if (err == nil) != (failing == actRemove) || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("commit: %v", err)
			}
			entries, err := os.ReadDir(a.dateDir("1970-01-01"))
			if err != nil && failing != actMakeDir {
				t.Fatal(err)
			}
			for _, e := range entries {
				if isTemp := strings.HasPrefix(e.Name(), tempPrefix); isTemp && failing != actRemove {
					t.Errorf("%s stays", e.Name())
				} else if _, _, err := ReadFile(filepath.Join(a.dateDir("1970-01-01"), e.Name())); err != nil {
					t.Errorf("a torn file: %v", err)
				}
			}
			broken = false
			if err := a.commit("1970-01-01", rows, Footer{Topic: "t", Next: 1, Rows: 1}); err != nil && !errors.Is(err, errTaken) {
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
		"a file is torn": {func(t *testing.T, a *archive) {
			if err := os.Truncate(a.path("1970-01-02", 0, 2), 700); err != nil {
				t.Fatal(err)
			}
		}, ErrBadFile, "t-0-00000000000000000002.parquet"},
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
			tails, err := a.tails()
			if !errors.Is(err, c.err) || c.err == nil && tails[0] != (tail{4, "1970-01-02"}) {
				t.Fatalf("tails: %v, %v, want %v", tails, err, c.err)
			}
			if c.err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error does not say %q: %v", c.says, err)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
