package archive_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// archiveOfJobs makes an archive in which job 7 has ended, and job 8 runs.
func archiveOfJobs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	start := time.Date(2026, 1, 5, 23, 59, 50, 0, time.UTC)
	metric, unit, scope, node, one, two, zero, n := "load", "1", schemas.ScopeNode, "n1", 1.0, 2.0, 0.0, int64(1)
	previous := ""
	for i, value := range []*float64{&one, &two} {
		at := start.Add(time.Duration(i) * 10 * time.Second)
		date := at.Format(time.DateOnly)
		var rows []schemas.Row
		for _, job := range []string{"7", "8"} {
			rows = append(rows, schemas.Row{
				Cluster: "c", JobID: job, IntervalStart: at.UnixMilli(), IntervalMs: 10_000, Metric: &metric,
				Unit: &unit, Scope: &scope, NodesExpected: 1, NodesReported: 1, Count: &n, Mean: value, Stddev: &zero,
				LowNode: &node, D0: value, D10: value, Eps: &zero, AtomValues: []float64{*value},
				AtomCounts: []int64{1},
			})
		}
		f := sink.Footer{
			Topic: "weir." + schemas.TopicJobSummary, Start: int64(i), Next: int64(i) + 1, Rows: 2,
			PreviousDate: previous, FirstInterval: at.UnixMilli(), LastInterval: at.UnixMilli(),
		}
		if err := sink.Append(dir, f.Topic, date, rows, f); err != nil {
			t.Fatal(err)
		}
		previous = date
	}
	from := start.UnixMilli()
	row := jobs.Row{Cluster: "c", JobID: "7", Start: &from, End: from + 20_000}
	if err := jobs.Put(t.Context(), dir, "weir.jobs", "", []jobs.Row{row}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTotalsCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := archiveOfJobs(t)
	command := func(args string) string {
		t.Helper()
		status, stdout, stderr := clitest.Weir(t.Context(), append(strings.Fields(args), "--dir", dir)...)
		if status != cli.ExitDone {
			t.Fatalf("weir %s: status %d, %s%s", args, status, stdout, stderr)
		}
		return stdout + stderr
	}
	if out := command("archive totals --through 2026-01-06T00:00:00Z"); !strings.Contains(out,
		"1 jobs ended and are not final yet: all intervals are closed up to 2026-01-06T00:00:00Z (--through)") {
		t.Errorf("before its end is closed: %s", out)
	}
	var made totals.Date
	out := command("archive totals --json --through 2026-01-06T00:00:10Z")
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.State != totals.Written || made.Jobs != 1 ||
		made.Rows != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if out := command("archive totals --through 2026-01-06T00:00:10Z"); out != "" {
		t.Errorf("again: %q", out)
	}
	out = command("archive totals 2026-01-06 --through 2026-01-06T00:00:10Z")
	if out != "2026-01-06: unchanged: 1 totals\n" {
		t.Errorf("again by its date: %q", out)
	}
	if out := command("archive verify"); !strings.Contains(out, "2026-01-06: 1 totals: whole\n") {
		t.Errorf("verify: %s", out)
	}
	if out := command("archive stats --json"); !strings.Contains(out, `"totals":1,"totals_bytes":`) {
		t.Errorf("stats: %s", out)
	}
	if out := command("archive stats"); !strings.Contains(out, "ROLLUPS  JOBS  TOTALS\n") {
		t.Errorf("stats: %s", out)
	}
	var running totals.Total
	out = command("archive totals --running --json")
	line, rest, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &running); err != nil || running.JobID != "8" || running.Final ||
		running.Count != 2 || *running.Mean != 1.5 ||
		!strings.HasPrefix(rest, "up to 2026-01-06T00:00:10Z: later rows are not archived yet") {
		t.Errorf("running: %v: %s", err, out)
	}
	if out := command("archive totals --running"); !strings.Contains(out, "8    0        load    1") {
		t.Errorf("running: %s", out)
	}
}

func TestTotalsRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := archiveOfJobs(t)
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"archive totals --dir none --through 2026-01-06T00:00:00Z", cli.ExitFailed, "set sink.dir"},
		{"archive totals --dir none --running", cli.ExitFailed, "set sink.dir"},
		{"archive totals 2026 --dir " + dir, cli.ExitUsage, `"2026" is not a date`},
		{"archive totals --through now --dir " + dir, cli.ExitUsage, `--through "now" is not a time such as`},
		{"archive totals --wait -1s --running --dir " + dir, cli.ExitUsage, "--wait -1s is negative"},
		{"archive totals 2026-01-06 --running --dir " + dir, cli.ExitUsage, "goes without DATE"},
		{"archive totals --dir " + dir, cli.ExitUsage, "--through TIME states"},
	} {
		status, _, stderr := clitest.Weir(t.Context(), strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(stderr, c.says) {
			t.Errorf("weir %s: status %d, %q, want %d with %q", c.args, status, stderr, c.status, c.says)
		}
	}
}
