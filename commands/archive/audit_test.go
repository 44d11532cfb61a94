package archive_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/weirhpc/weir/analysis/audit"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/archive"
	"github.com/weirhpc/weir/commands/cli"
)

// TestAuditTable: the table has the fates, the first differences and how many more there are.
func TestAuditTable(t *testing.T) {
	r := &audit.Report{
		Partitions: []*audit.Account{{Stage: "collect", Partition: 3, Position: 90, Records: 80, Open: 2}},
		Runs:       []*audit.AgentRun{{Records: 70, Gaps: 5, Missing: 1}, {Records: 10}},
		Archive:    []*audit.Chain{{Partition: 1, Next: 40, End: 50, Files: 4, Rows: 99}},
		Notes:      []string{"something was not compared"},
		Summaries:  audit.Summaries{Certified: 77},
		Decoded:    audit.Decoded{OneIn: 100, Read: 4321, Twice: 43},
		Found:      30,
	}
	for i := range int64(30) {
		job, restart, start := fmt.Sprint("job", i), int32(1), int64(1_700_000_000_000)
		r.Differences = append(r.Differences, audit.Difference{
			Kind: audit.KindSummary, Topic: "weir.job-summary", Partition: 2, Offset: &i,
			JobID: &job, Restart: &restart, IntervalStart: &start, Text: "a row\nis missing",
		})
	}
	var b bytes.Buffer
	if err := archive.PrintAudit(&b, r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"collect  3          90        80",
		"sink     1          40        4",
		"2 runs: 80 records acknowledged, 5 given up and reported in Gaps, 1 missing",
		"certified  77 summaries of metrics compared with the values",
		"decoded    43 of 4321 records twice, by weir and by goavro",
		"note       something was not compared",
		"differs    weir.job-summary-2 at 19: job job19/1: interval 2023-11-14T22:13:20Z: a row",
		"differs    and 10 more: --json lists up to 1,000",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	for _, not := range []string{"job20", "The accounts close", "row\nis"} {
		if strings.Contains(text, not) {
			t.Errorf("the table has %q:\n%s", not, text)
		}
	}
	b.Reset()
	if err := archive.PrintAudit(&b, &audit.Report{}); err != nil || !strings.HasSuffix(b.String(), "\nThe accounts close.\n") {
		t.Errorf("without a difference: %v\n%s", err, b.String())
	}
}

// TestAuditUsage: wrong use ends with status 2, and names the flag. A broker that is away ends with status 1.
func TestAuditUsage(t *testing.T) {
	for args, want := range map[string]struct {
		status int
		text   string
	}{
		"audit --since -1h":     {cli.ExitUsage, "--since -1h0m0s must be more than 0"},
		"audit --since 0s":      {cli.ExitUsage, "--since 0s must be more than 0"},
		"audit --partition -1":  {cli.ExitUsage, "--partition -1 is not the number of a partition"},
		"audit --partition one": {cli.ExitUsage, `--partition "one": a whole number is wanted`},
		"audit everything":      {cli.ExitUsage, `weir audit takes no argument, but was given "everything"`},
		"audit":                 {cli.ExitFailed, "no broker answers at 127.0.0.1:1"},
	} {
		t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
		var out, errs bytes.Buffer
		status := commands.Run(t.Context(), strings.Fields(args), &out, &errs)
		if status != want.status || !strings.Contains(errs.String(), want.text) {
			t.Errorf("%s: status %d, %q; want %d, %q", args, status, errs.String(), want.status, want.text)
		}
	}
}

// TestAuditReportsProgress: a long audit reports on standard error how far it is.
func TestAuditReportsProgress(t *testing.T) {
	var b bytes.Buffer
	progress := archive.ProgressTo(&b, "audit")
	progress(500, 2000, audit.Beginning)
	progress(1000, 2000, 1_700_000_000_000)
	want := "weir audit: 500 of 2000 offsets read\n" +
		"weir audit: 1000 of 2000 offsets read, at interval 2023-11-14T22:13:20Z\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}
