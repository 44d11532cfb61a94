package services_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestBackup follows the table of docs/deploy.md: what is lost with the archive, with one of its files and with the
// topics, and how each comes back.
func TestBackup(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	data := t.TempDir()
	archive := filepath.Join(data, "archive")
	upFor := func(long time.Duration, wanted int) string {
		t.Helper()
		status, _, stderr := clitest.Weir(t.Context(), "up", "--data", data, "--interval", "1s", "--simulate", "16",
			"--for", long.String())
		if status != wanted {
			t.Fatalf("weir up ends with status %d, want %d: %s", status, wanted, stderr)
		}
		return stderr
	}
	up := func(wanted int) string { return upFor(6*time.Second, wanted) }
	patience := []time.Duration{6 * time.Second, 12 * time.Second, 24 * time.Second, 48 * time.Second}
	// A busy machine may take a whole run for the start.
	grow := func(rows int64) int64 {
		t.Helper()
		for _, long := range patience {
			upFor(long, cli.ExitDone)
			if n := archivedRows(t, archive); n > rows {
				return n
			}
		}
		t.Fatalf("no more than %d rows after four runs", rows)
		return 0
	}
	first := grow(0)
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(archive)); err != nil {
		t.Fatal(err)
	}
	if n := archivedRows(t, copied); n != first {
		t.Fatalf("the copy has %d rows of %d", n, first)
	}
	second := grow(first)

	remove(t, archive)
	up(cli.ExitDone)
	third := archivedRows(t, archive)
	if third < second {
		t.Errorf("the archive was lost: %d rows came back of %d", third, second)
	}
	remove(t, archive)
	if err := os.CopyFS(archive, os.DirFS(copied)); err != nil {
		t.Fatal(err)
	}
	up(cli.ExitDone)
	if n := archivedRows(t, archive); n < third {
		t.Errorf("an older copy: %d rows, of at least %d", n, third)
	}

	var files []string
	for _, long := range patience { // until there is a third file
		upFor(long, cli.ExitDone)
		var err error
		files, err = filepath.Glob(filepath.Join(archive, "summaries", "date=*", "*.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) >= 3 {
			break
		}
	}
	if len(files) < 3 {
		t.Fatalf("files after four runs: %v", files)
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	lost := files[1] // between two others
	text, err := os.ReadFile(lost)
	if err != nil {
		t.Fatal(err)
	}
	remove(t, lost)
	if stderr := up(cli.ExitFailed); !strings.Contains(stderr, "the archive has a hole") {
		t.Errorf("without %s: %s", lost, stderr)
	}
	if err := os.WriteFile(lost, text, 0o600); err != nil {
		t.Fatal(err)
	}
	up(cli.ExitDone)

	remove(t, filepath.Join(data, "broker"))
	if stderr := up(cli.ExitFailed); !strings.Contains(stderr, "the topic was deleted and made again") {
		t.Errorf("the topics were lost: %s", stderr)
	}
	old := t.TempDir()
	for _, dir := range []string{"summaries", "nodes"} {
		if err := os.Rename(filepath.Join(archive, dir), filepath.Join(old, dir)); err != nil {
			t.Fatal(err)
		}
	}
	up(cli.ExitDone)
	if fresh := archivedRows(t, archive); fresh == 0 || archivedRows(t, old) <= third {
		t.Errorf("%d new rows, %d old ones", fresh, archivedRows(t, old))
	}
}

// archivedRows verifies an archive and returns its number of rows.
func archivedRows(t *testing.T, dir string) (rows int64) {
	t.Helper()
	if status, stdout, stderr := clitest.Weir(t.Context(), "archive", "verify", "--dir", dir); status != cli.ExitDone {
		t.Errorf("%s: status %d, %s%s", dir, status, stdout, stderr)
	}
	_, stdout, _ := clitest.Weir(t.Context(), "archive", "stats", "--dir", dir, "--json")
	for line := range strings.Lines(stdout) {
		var date struct{ Rows int64 }
		if err := json.Unmarshal([]byte(line), &date); err != nil {
			t.Fatal(err)
		}
		rows += date.Rows
	}
	return rows
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
