package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// monthReader counts the rows of an archive again and again, under the shared lock, until a file appears. It prints
// each count that it saw.
const monthReader = `
import duckdb, fcntl, os, sys
seen, n = set(), 0
while n == 0 or not os.path.exists("stop"):
    with open("month/.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        rows = duckdb.connect().execute("select count(*), count(distinct (job_id, metric, interval_start)) "
            "from 'month/summaries/*/*.parquet'")
        seen.add(rows.fetchone())
    n += 1
print(n, sorted(seen))
`

// TestMadeUpMonth runs the first commands of docs/archive.md, on three days in place of a month. Readers with the lock
// run beside the compaction, and see every row once. The queries find the made-up problems.
func TestMadeUpMonth(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	withoutBrokers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if out, err := outsidePython(ctx, t, "-c", "import duckdb").CombinedOutput(); err != nil {
		withoutModules(t, "THE MADE-UP MONTH WAS NOT ASKED", strings.TrimSpace(string(out))+" "+err.Error())
	}
	page, err := os.ReadFile("../docs/archive.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## Try it")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	commands := strings.Split(strings.TrimPrefix(strings.TrimSpace(text), "weir "), "\nweir ")
	if len(commands) != 6 {
		t.Fatalf("%d commands: %q", len(commands), commands)
	}
	m, there := newMachine(t), t.TempDir()
	weir := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, m.binary, args...)
		var errs bytes.Buffer
		cmd.Dir, cmd.Stderr = there, &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("weir %q: %v: %s", args, err, errs.Bytes())
		}
		return string(out)
	}
	words := func(i int) []string { return strings.Fields(commands[i]) }
	made := struct{ Rows, Jobs int64 }{}
	out := weir(append(words(0), "--days", "3", "--interval", "10m", "--period", "1h", "--json")...)
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Rows == 0 || made.Jobs == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	reader := outsidePython(ctx, t, "-c", monthReader)
	reader.Dir = there
	if err := os.WriteFile(filepath.Join(there, "month", ".lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var saw bytes.Buffer
	reader.Stdout, reader.Stderr = &saw, &saw
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	if out := weir(words(1)...); strings.Count(out, "became 2:") != 2 {
		t.Errorf("two of three dates are due: %s", out)
	}
	if err := os.WriteFile(filepath.Join(there, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := reader.Wait(); err != nil {
		t.Fatalf("the reader: %v: %s", err, saw.Bytes())
	}
	_, counts, _ := strings.Cut(strings.TrimSpace(saw.String()), " ")
	if all := fmt.Sprintf("[(%d, %[1]d)]", made.Rows); counts != all {
		t.Errorf("a reader beside the compaction saw rows %s, want %s", counts, all)
	}
	weir(words(2)...)
	views := weir("sql", "--dir", "month")
	ask := func(i int) []string {
		t.Helper()
		_, query, _ := strings.Cut(commands[i], `"`)
		cmd := outsidePython(ctx, t, "-c", "import duckdb, sys\ncon = duckdb.connect()\ncon.execute(sys.argv[1])\n"+
			"print(*[r[0] for r in con.execute(sys.argv[2]).fetchall()])", views, strings.TrimSuffix(query, `"`))
		cmd.Dir = there
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", query, err, out)
		}
		return strings.Fields(string(out))
	}
	if idle := ask(3); len(idle) != 5 || idle[0] != "biology" || idle[1] != "chemistry" {
		t.Errorf("by the use of cores: %v", idle)
	}
	if uneven := ask(4); len(uneven) == 0 || uneven[0] != "engineering" {
		t.Errorf("by imbalance: %v", uneven)
	}
	if low := ask(5); len(low) == 0 || low[0] != "n0007" {
		t.Errorf("the nodes most often lowest: %v", low)
	}
}
