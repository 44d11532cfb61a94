package archive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// fakeDuckDB makes a shell script that stands for duckdb.
func fakeDuckDB(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "duckdb")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSQLPrintsViews(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := archiveOfTwoDates(t)
	status, stdout, stderr := clitest.Weir(t.Context(), "sql", "--dir", dir)
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	for _, want := range []string{
		"read_parquet('" + dir + "/summaries/date=*/*.parquet',", "VIEW jobs_performance AS",
		"MACRO job_summaries(id)", `NULL::VARCHAR AS "user"`,
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the views lack %q:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "rollups/date=") {
		t.Error("a table without files is read")
	}
	if again, text, _ := clitest.Weir(t.Context(), "sql", "--print", "--dir", dir); again != cli.ExitDone || text != stdout {
		t.Errorf("--print: status %d, and other views", again)
	}
}

func TestSQLRunsDuckDB(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := archiveOfTwoDates(t)
	const tellArguments = `shift 3; printf '<%s>' "$@"; cat; echo trouble >&2; exit 7`
	duckdb := fakeDuckDB(t, tellArguments)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a table": {[]string{"select 1"}, "<-c><select 1>"},
		"JSON":    {[]string{"--json", "select 1"}, "<-jsonlines><-c><select 1>"},
		"CSV":     {[]string{"--csv", "select 1"}, "<-csv><-nullvalue><><-c><select 1>"},
		"a file":  {[]string{"--file", "-x.sql"}, "<-f><./-x.sql>"},
		"stdin":   {[]string{"-f", "-"}, "<-f></dev/stdin>"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"sql", "--dir", dir, "--duckdb", duckdb},
				c.args...)...)
			if status != 7 || stdout != c.want || stderr != "trouble\n" {
				t.Errorf("status %d, %q, %q, want 7 and %q", status, stdout, stderr, c.want)
			}
		})
	}
	views := fakeDuckDB(t, `printf %s "$3"`)
	_, printed, _ := clitest.Weir(t.Context(), "sql", "--dir", dir)
	if _, passed, _ := clitest.Weir(t.Context(), "sql", "--dir", dir, "--duckdb", views, "select 1"); passed != printed {
		t.Errorf("duckdb is given other views:\n%s", passed)
	}
}

// TestSQLHoldsTheLock: no compaction replaces files while a query runs, and the next one can.
func TestSQLHoldsTheLock(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := archiveOfTwoDates(t)
	begun, end := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "end")
	duckdb := fakeDuckDB(t, fmt.Sprintf("touch %s; until [ -e %s ]; do sleep 0.01; done", begun, end))
	ended := make(chan int)
	go func() {
		status, _, _ := clitest.Weir(t.Context(), "sql", "--dir", dir, "--duckdb", duckdb, "select 1")
		ended <- status
	}()
	kafkatest.Eventually(t, "duckdb runs", func() bool {
		_, err := os.Stat(begun)
		return err == nil
	})
	if lock, err := sink.TakeLock(t.Context(), sink.LockPath(dir), true, 0); err == nil {
		lock.Unlock()
		t.Error("a compaction gets the lock while a query runs")
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status != cli.ExitDone {
		t.Errorf("status %d", status)
	}
	if _, err := sink.TakeLock(t.Context(), sink.LockPath(dir), true, time.Second); err != nil {
		t.Errorf("behind the query: %v", err)
	}
}

func TestSQLFaults(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := archiveOfTwoDates(t)
	hostile := filepath.Join(t.TempDir(), `back\slash`)
	if err := os.Rename(dir, hostile); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(hostile, dir); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--dir", "none"}, cli.ExitFailed, "set sink.dir"},
		{[]string{"--dir", dir, "--duckdb", "./none", "select 1"}, cli.ExitFailed, "pip install duckdb-cli"},
		{[]string{"--dir", hostile}, cli.ExitFailed, "reach it by a symbolic link"},
		{[]string{"--dir", dir, "select", "1"}, cli.ExitUsage, "put it in quotes"},
		{[]string{"--dir", dir, "-f", "x", "select 1"}, cli.ExitUsage, "not both"},
		{[]string{"--dir", dir, "--print", "select 1"}, cli.ExitUsage, "--print takes no query"},
		{[]string{"--dir", dir, "--json", "--csv", "select 1"}, cli.ExitUsage, "name one of them"},
	} {
		status, _, stderr := clitest.Weir(t.Context(), append([]string{"sql"}, c.args...)...)
		if status != c.status || !strings.Contains(stderr, c.says) {
			t.Errorf("weir sql %q: status %d, %q, want %d with %q", c.args, status, stderr, c.status, c.says)
		}
	}
}
