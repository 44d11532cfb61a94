package jobs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/report/usage"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestReportOfAUser: a month of an archive with jobs alone, as text, rows and a page. A hostile name drives nothing.
func TestReportOfAUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	t.Chdir(t.TempDir())
	start, cores, gpus := int64(1_790_000_000_000), int64(64), int32(4) // in September 2026
	name := clitest.Hostile
	rows := []jobs.Row{{
		Cluster: "c", JobID: "1", User: name, Account: "a", Queue: "normal", Nodes: []string{"n1"}, NodeCount: 1,
		Cores: &cores, Gpus: &gpus, Start: &start, End: start + 3_600_000, State: "COMPLETED",
	}}
	if err := jobs.Put(t.Context(), dir, "weir."+schemas.TopicJobs, "", rows); err != nil {
		t.Fatal(err)
	}
	report := func(args ...string) (stdout string) {
		t.Helper()
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"report"}, append(args, "--dir", dir)...)...)
		if status != cli.ExitDone || stderr != "" {
			t.Errorf("%v: status %d: %s", args, status, stderr)
		}
		return stdout
	}
	text := report("user", name, "--month", "2026-09")
	for _, want := range []string{"September 2026", "1 job ended.", "2026-09     1      64", "the archive has no findings"} {
		if !strings.Contains(text, want) || clitest.Drives(text) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	all := clitest.Objects[usage.Row](t, "report", "account", "a", "--month", "2026-09", "--json", "--dir", dir)
	if len(all) != 4 || all[0].View != "month" || *all[0].CoreHours != 64 || *all[0].GPUHours != 4 ||
		all[0].CoresWasted != nil || all[0].EnergyJ != nil || all[1].Month != "2026-06" {
		t.Errorf("%+v", all)
	}
	page := filepath.Join(t.TempDir(), "user.html")
	report("user", name, "--month", "2026-09", "--html", page)
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "1 job held 64 core-hours and 4.0 GPU-hours.") ||
		clitest.Drives(strings.ReplaceAll(string(html), "\u00a0", " ")) {
		t.Errorf("%v: %.500s", err, html)
	}
	if text := report("user", "nobody", "--month", "2026-10"); !strings.Contains(text, "No job ended in this month.") ||
		!strings.Contains(text, "--month 2026-09") {
		t.Errorf("%s", text)
	}
	for args, says := range map[string]string{
		"user":                             "NAME is missing",
		"user u v":                         "one argument",
		"user u --month 2026":              "such as 2026-11",
		"user u --month 2026-13":           "such as 2026-11",
		"user u --json --csv":              "name one of them",
		"account a --html x --csv":         "name one of them",
		"account a --dir " + dir + "/none": "none",
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"report"}, strings.Fields(args)...)...)
		if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, says) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}
