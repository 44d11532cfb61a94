package archive_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/findings"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// archiveOfTwoDates makes an archive with a date that is due, and the one behind it.
func archiveOfTwoDates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const topic = "weir." + schemas.TopicJobSummary
	previous := ""
	for i, date := range []string{"2026-01-05", "2026-01-05", "2026-01-06"} {
		rows := []schemas.Row{{Cluster: "c", JobID: "7", IntervalStart: int64(i)}}
		f := sink.Footer{Topic: topic, Start: int64(i), Next: int64(i + 1), Rows: 1, PreviousDate: previous}
		if err := sink.Append(dir, topic, date, rows, f); err != nil {
			t.Fatal(err)
		}
		previous = date
	}
	return dir
}

func TestArchiveCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := archiveOfTwoDates(t)
	status, stdout, stderr := clitest.Weir(t.Context(), "archive", "compact", "--json", "--dir", dir)
	var first struct {
		Date, State string
		Files       int `json:"files_after"`
		Rows        int
	}
	if err := json.NewDecoder(strings.NewReader(stdout)).Decode(&first); err != nil || status != cli.ExitDone {
		t.Fatalf("compact: status %d, %v, %s%s", status, err, stdout, stderr)
	}
	if first.Date != "2026-01-05" || first.State != "compacted" || first.Files != 1 || first.Rows != 2 {
		t.Errorf("compact: %+v", first)
	}
	if status, stdout, stderr = clitest.Weir(t.Context(), "archive", "verify", "--dir", dir); status != cli.ExitDone ||
		!strings.Contains(stdout, "2026-01-05: 1 files, 2 rows: whole") {
		t.Errorf("verify: status %d, %s%s", status, stdout, stderr)
	}
	if status, stdout, stderr = clitest.Weir(t.Context(), "archive", "stats", "--json", "--dir", dir); status != cli.ExitDone ||
		!strings.Contains(stdout, `"date":"2026-01-05","small_files":0,"compacted_files":1,"generation":1,"rows":2`) {
		t.Errorf("stats: status %d, %s%s", status, stdout, stderr)
	}
	ended := jobs.Row{Cluster: "c", JobID: "7", End: 1767312000000} // 2026-01-02, which has no summaries any more
	if err := jobs.Put(t.Context(), dir, "weir."+schemas.TopicJobs, "", []jobs.Row{ended}); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr = clitest.Weir(t.Context(), "archive", "verify", "--dir", dir); status != cli.ExitDone ||
		!strings.Contains(stdout, "2026-01-02: 0 files, 0 rows: whole, 1 jobs") {
		t.Errorf("verify with jobs: status %d, %s%s", status, stdout, stderr)
	}
	if status, stdout, stderr = clitest.Weir(t.Context(), "archive", "stats", "--json", "--dir", dir); status != cli.ExitDone ||
		!strings.Contains(stdout, `"jobs":1,"job_bytes":`) {
		t.Errorf("stats with jobs: status %d, %s%s", status, stdout, stderr)
	}
	found := schemas.Finding{
		Cluster: "c", JobID: "7", Rule: "serial", RuleHash: "0", State: schemas.FindingOpen, Final: true,
		Certainty: schemas.Certain, Class: schemas.ClassHigh, AsOf: 1767052800000, IntervalMs: 1000, // 2025-12-30
	}
	if err := findings.Write(t.Context(), dir, "weir."+schemas.TopicFindings, []schemas.Finding{found}); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr = clitest.Weir(t.Context(), "archive", "verify", "--dir", dir); status != cli.ExitDone ||
		!strings.Contains(stdout, "2025-12-30: 0 files, 0 rows: whole, 1 findings") {
		t.Errorf("verify with findings: status %d, %s%s", status, stdout, stderr)
	}
	if status, stdout, stderr = clitest.Weir(t.Context(), "archive", "stats", "--json", "--dir", dir); status != cli.ExitDone ||
		!strings.Contains(stdout, `"findings":1,"finding_bytes":`) {
		t.Errorf("stats with findings: status %d, %s%s", status, stdout, stderr)
	}
	if err := os.Truncate(findings.Path(dir, "2025-12-30"), 100); err != nil {
		t.Fatal(err)
	}
	if status, stdout, _ = clitest.Weir(t.Context(), "archive", "verify", "--dir", dir); status != cli.ExitFailed ||
		!strings.Contains(stdout, findings.Path(dir, "2025-12-30")+": no footer at its end: bring it back") {
		t.Errorf("verify of damaged findings: status %d, %s", status, stdout)
	}
	if err := os.Truncate(jobs.Path(dir, "2026-01-02"), 100); err != nil {
		t.Fatal(err)
	}
	if status, stdout, _ = clitest.Weir(t.Context(), "archive", "verify", "--dir", dir); status != cli.ExitFailed ||
		!strings.Contains(stdout, jobs.Path(dir, "2026-01-02")+": no footer at its end: bring it back from a copy") {
		t.Errorf("verify of damaged jobs: status %d, %s", status, stdout)
	}
	lost := filepath.Join(sink.DatePath(dir, "2026-01-06"), "weir.job-summary-0-00000000000000000002.parquet")
	if err := os.WriteFile(lost, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stdout, _ = clitest.Weir(t.Context(), "archive", "verify", "--dir", dir); status != cli.ExitFailed ||
		!strings.Contains(stdout, lost) {
		t.Errorf("verify of a torn file: status %d, %s", status, stdout)
	}
}

func TestArchiveOfNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"archive compact --dir none", cli.ExitFailed, "set sink.dir"},
		{"archive verify --dir none", cli.ExitFailed, "set sink.dir"},
		{"archive stats --dir none", cli.ExitFailed, "set sink.dir"},
		{"archive compact 2026 --dir none", cli.ExitUsage, `"2026" is not a date`},
		{"archive compact --wait -1s --dir none", cli.ExitUsage, "--wait -1s is negative"},
		{"archive", cli.ExitUsage, "compact"},
		{"archive pack", cli.ExitUsage, "name one of its commands"},
	} {
		status, _, stderr := clitest.Weir(t.Context(), strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(stderr, c.says) {
			t.Errorf("weir %s: status %d, %q, want %d with %q", c.args, status, stderr, c.status, c.says)
		}
	}
}
