package jobs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/console"

	"github.com/weirhpc/weir/report/compare"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/jobs"
)

// TestCompareJobs of an archive: as text, rows and a page. A job and itself have nothing in which they differ.
func TestCompareJobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	for _, args := range [][]string{
		{"simulate", "archive", dir, "--days", "1", "--nodes", "8", "--interval", "2m", "--period", "1h"},
		{"archive", "totals", "--dir", dir, "--through", "2026-01-02T00:00:00Z"},
	} {
		if status, _, stderr := clitest.Weir(t.Context(), args...); status != cli.ExitDone {
			t.Fatalf("%v: %s", args, stderr)
		}
	}
	type job struct {
		ID   string  `json:"job_id"`
		User string  `json:"user"`
		Busy float64 `json:"busy"`
		Time float64 `json:"time_s"`
	}
	var long []job
	for _, j := range clitest.Objects[job](t, "jobs", "--json", "--sort", "busy", "--dir", dir) {
		if j.Time >= 2*3600 {
			long = append(long, j)
		}
	}
	if len(long) < 2 {
		t.Fatalf("%d long jobs", len(long))
	}
	a, b := long[0], long[len(long)-1]
	text := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := clitest.Weir(t.Context(), append(args, "--dir", dir)...)
		if status != cli.ExitDone || stderr != "" {
			t.Fatalf("%v: status %d, %s", args, status, stderr)
		}
		return stdout
	}
	got := text("compare", a.ID, b.ID, "--ascii")
	for _, want := range []string{
		"Jobs " + a.ID + " and " + b.ID, "ASKED", "cores busy", "CHANGED", "cpu_user", "Neither job has a finding.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	rows := map[string]compare.Row{}
	for _, r := range clitest.Objects[compare.Row](t, "compare", a.ID+","+b.ID, "--json", "--dir", dir) {
		rows[r.View+" "+r.Name] = r
	}
	busy := rows["used cores busy"]
	if busy.A == nil || busy.B == nil || *busy.A != a.Busy || *busy.B != b.Busy {
		t.Errorf("cores busy: %+v, and weir jobs has %v and %v", busy, a.Busy, b.Busy)
	}
	if m := rows["metric cpu_user"]; m.Kind != "changed" || m.Effect == nil || *m.Effect <= 0 {
		t.Errorf("cpu_user: %+v", m)
	}
	if got := text("compare", a.ID, a.ID); !strings.Contains(got, "No metric changed.") || strings.Contains(got, "*\n") {
		t.Errorf("a job and itself:\n%s", got)
	}
	page := filepath.Join(t.TempDir(), "both.html")
	text("compare", a.ID, b.ID, "--html", page)
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "<h1>Jobs "+a.ID+" and "+b.ID) || clitest.Drives(strings.ReplaceAll(string(html), "\u00a0", " ")) {
		t.Errorf("%v: %.500s", err, html)
	}
	answer := jobs.Ask(config.Config{Sink: config.Sink{Dir: dir}})
	for with, want := range map[string]error{a.ID: nil, b.ID: console.ErrNotThere, "99999": console.ErrNotThere} {
		q := console.Question{Command: "compare", Arguments: []string{a.ID, with}, Width: 80}
		var out strings.Builder
		if err := answer(t.Context(), analysis.Viewer{User: a.User}, q, &out); !errors.Is(err, want) ||
			(out.Len() > 0) != (want == nil) {
			t.Errorf("%s compares its job with %s: %v, %q", a.User, with, err, out.String())
		}
	}
	for args, says := range map[string]string{
		"compare":                  "takes two jobs",
		"compare 1":                "takes two jobs",
		"compare 1 2 3":            "there are 3",
		"compare 1,2 3":            "there are 3",
		"compare ?? 1":             "must match",
		"compare 1 2 --json --csv": "name one of them",
		"compare 1 2 --html x --json --dir " + dir: "name one of them",
		"compare " + a.ID + " 99999 --dir " + dir:  "99999 is not in",
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), strings.Fields(args)...)
		if status == cli.ExitDone || stdout != "" || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}
