package jobs_test

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"

	system "github.com/weirhpc/weir/report/machine"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestReportSystem: the report of an archive with jobs alone, as text, JSON and CSV, without any broker.
func TestReportSystem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	t.Chdir(t.TempDir())
	start, cores := int64(1_790_000_000_000), int64(64)
	rows := []jobs.Row{{
		Cluster: "c", JobID: "1", User: clitest.Hostile, Account: "a", Queue: "normal", Nodes: []string{"n1"}, NodeCount: 1,
		Cores: &cores, Start: &start, End: start + 3_600_000, State: "COMPLETED",
	}}
	if err := jobs.Put(t.Context(), dir, "weir."+schemas.TopicJobs, "", rows); err != nil {
		t.Fatal(err)
	}
	report := func(args ...string) (stdout string) {
		t.Helper()
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"report", "system", "--dir", dir}, args...)...)
		if status != cli.ExitDone || stderr != "" {
			t.Errorf("%v: status %d: %s", args, status, stderr)
		}
		return stdout
	}
	text := strings.Join(strings.Fields(report()), " ")
	for _, want := range []string{"0 jobs counted", "left out: 1 (without totals 1)", "Cores not measured"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	var left []system.Row
	for line := range strings.Lines(report("--json")) {
		var r system.Row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		left = append(left, r)
	}
	at := slices.IndexFunc(left, func(r system.Row) bool { return r.View == "left_out" && r.Name == "without totals" })
	if at < 0 || *left[at].Jobs != 1 {
		t.Errorf("%+v", left)
	}
	table, err := csv.NewReader(strings.NewReader(report("--csv"))).ReadAll()
	if err != nil || len(table) != len(left)+1 || table[0][0] != "view" || table[at+1][3] != "without totals" {
		t.Errorf("%v: %q", err, table)
	}
	page := filepath.Join(t.TempDir(), "machine.html")
	report("--html", page)
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "<title>") || clitest.Drives(string(html)) {
		t.Errorf("%v: %.500s", err, html)
	}
	text = report("--from", "2020-01-01", "--to", "2020-02-01")
	if !strings.Contains(text, "January 2020   0 jobs counted") {
		t.Errorf("%s", text)
	}
}

// TestReportRefuses what makes no sense, with words that help.
func TestReportRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	empty := t.TempDir()
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"--from x", cli.ExitUsage, "such as 2026-11-21"},
		{"--from 2026-02-01 --to 2026-01-01", cli.ExitUsage, "must be before"},
		{"--json --csv", cli.ExitUsage, "name one of them"},
		{"--json --html x.html", cli.ExitUsage, "name one of them"},
		{"--min-cores -1", cli.ExitUsage, "--min-cores -1"},
		{"--min-time -1s", cli.ExitUsage, "--min-time -1s"},
		{"--color red", cli.ExitUsage, "--color"},
		{"--dir " + filepath.Join(empty, "none"), cli.ExitUsage, "none"},
		{"--dir " + empty, cli.ExitFailed, "set sink.dir, or --dir"},
		{"argument", cli.ExitUsage, "argument"},
	} {
		args := append([]string{"report", "system"}, strings.Fields(c.args)...)
		if status, stdout, stderr := clitest.Weir(t.Context(), args...); status != c.status || stdout != "" ||
			!strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q", c.args, status, stdout, stderr)
		}
	}
	if err := os.Mkdir(filepath.Join(empty, "summaries"), 0o755); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := clitest.Weir(t.Context(), "report", "system", "--dir", empty); status != cli.ExitFailed {
		t.Errorf("an archive without dates: status %d, %s", status, stderr)
	}
}
