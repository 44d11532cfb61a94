package jobs_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/jobs"

	"github.com/weirhpc/weir/analysis/topics"
)

// namesOf are the names of a row, in their order.
func namesOf(t *testing.T, row any) []string {
	t.Helper()
	names, _, err := cli.Fields(row, false)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestTotalsHaveTheArchivesColumns: a query of the archive takes what --totals prints.
func TestTotalsHaveTheArchivesColumns(t *testing.T) {
	if diff := cmp.Diff(namesOf(t, totals.Total{}), namesOf(t, jobs.TotalRow{})); diff != "" {
		t.Errorf("(-archive +report)\n%s", diff)
	}
}

// TestFindingsHaveTheArchivesColumns: a query of the archive takes what --findings prints. Position and start of the job
// are the archive's own. A finding without evidence has empty lists, and no null.
func TestFindingsHaveTheArchivesColumns(t *testing.T) {
	start := int64(5)
	row := jobs.FindingOf(&schemas.Finding{Rule: "idle", Final: true, JobStart: &start})
	want := slices.DeleteFunc(namesOf(t, findings.Row{}), func(name string) bool {
		return name == "position" || name == "job_start"
	})
	if diff := cmp.Diff(append(want, "final"), namesOf(t, row)); diff != "" {
		t.Errorf("(-archive +report)\n%s", diff)
	}
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"rule":"idle"`, `"evidence_names":[]`, `"evidence_highs":[]`, `"final":true`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
}

// TestJobLinesKeepTheirNames: programs that read `weir jobs --json` go on.
func TestJobLinesKeepTheirNames(t *testing.T) {
	want := append(namesOf(t, topics.JobRow{}), "account", "queue", "nodes", "cores", "time_s", "busy", "spread",
		"wasted_h", "gpu_busy", "gpu_wasted_h", "mem_per_node", "seen", "finding", "class", "severity", "of")
	if diff := cmp.Diff(want, namesOf(t, jobs.JobLine{})); diff != "" {
		t.Error(diff)
	}
}

// TestJobsOfListAndTopicAreJoined: each job is there once, with what either knows of it.
func TestJobsOfListAndTopicAreJoined(t *testing.T) {
	at, busy := int64(1000), 0.5
	lists := &view.Lists{
		Rows: []view.JobLine{
			{
				Job:  schemas.Job{JobID: "1", Restart: 1, State: "RUNNING", Account: "a", Nodes: []string{"n1", "n2"}},
				Busy: &busy,
			},
			{Job: schemas.Job{JobID: "2", State: "COMPLETED"}, TimeS: 60},
		},
		Skipped: []view.JobLine{{Job: schemas.Job{JobID: "3", State: "SKIPPED", Reason: "why"}}},
	}
	last := []topics.JobRow{
		{JobID: "1", Restart: 1, IntervalStart: &at, Metrics: new(3)}, {JobID: "1"}, {JobID: schemas.JobRest},
	}
	show := func(chosen bool) (all []string) {
		for _, l := range jobs.JobLines(lists, last, chosen) {
			b, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			var line []string
			for _, name := range []string{
				"job_id", "restart", "state", "reason", "interval_start", "metrics", "nodes", "busy", "time_s",
			} {
				if got[name] != nil && got[name] != "" {
					v, _ := json.Marshal(got[name])
					line = append(line, name+"="+string(v))
				}
			}
			all = append(all, strings.Join(line, " "))
		}
		return all
	}
	want := []string{
		`job_id="1" restart=1 state="RUNNING" interval_start=1000 metrics=3 nodes=2 busy=0.5`,
		`job_id="2" restart=0 state="COMPLETED" time_s=60`,
		`job_id="3" restart=0 state="SKIPPED" reason="why"`,
	}
	if diff := cmp.Diff(want, show(true)); diff != "" {
		t.Errorf("some jobs alone: %s", diff)
	}
	want = append(want, `job_id="1" restart=0`, `job_id="_rest" restart=0`)
	if diff := cmp.Diff(want, show(false)); diff != "" {
		t.Errorf("all jobs: %s", diff)
	}
}

// TestCSVHasNoFormulas: the name of a job cannot put a formula into a spreadsheet. Numbers stay numbers.
func TestCSVHasNoFormulas(t *testing.T) {
	type row struct {
		Name  string   `json:"name"`
		Value *float64 `json:"value"`
		Count int      `json:"count"`
	}
	minus := -5.5
	var rows []row
	for _, text := range []string{
		`=HYPERLINK("http://x","y")`, "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "'=1", "a=1", "",
	} {
		rows = append(rows, row{text, &minus, -5})
	}
	column := func(f cli.CSVFlags) (names []string) {
		var out bytes.Buffer
		if err := cli.PrintRows(&out, f, rows); err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(&out).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines[1:] {
			if names = append(names, line[0]); line[1] != "-5.5" || line[2] != "-5" {
				t.Errorf("numbers of %q", line)
			}
		}
		return names
	}
	want := []string{
		`'=HYPERLINK("http://x","y")`, "'+1", "'-1", "'@SUM(1)", "'?=1", "'?=1", "'=1", "a=1", "",
	}
	if diff := cmp.Diff(want, column(cli.CSVFlags{AsCSV: true})); diff != "" {
		t.Error(diff)
	}
	want = []string{`=HYPERLINK("http://x","y")`, "+1", "-1", "@SUM(1)", "?=1", "?=1", "'=1", "a=1", ""}
	if diff := cmp.Diff(want, column(cli.CSVFlags{AsCSV: true, Raw: true})); diff != "" {
		t.Error(diff)
	}
}

// TestCSVIsTheJSON: a reader of either gets the same, whatever the names hold.
func TestCSVIsTheJSON(t *testing.T) {
	d := 0.25
	text := "a,\"b\" 'c';=1+1"
	rows := []schemas.Row{
		{Cluster: text, JobID: "1", Metric: &text, D5: &d, Lo: []float64{1, 2.5}, IntervalStart: 1_800_000_000_000},
		{Cluster: "z"},
	}
	var asJSON, asCSV bytes.Buffer
	if err := cli.PrintRows(&asJSON, cli.CSVFlags{}, rows); err != nil {
		t.Fatal(err)
	}
	if err := cli.PrintRows(&asCSV, cli.CSVFlags{AsCSV: true}, rows); err != nil {
		t.Fatal(err)
	}
	all, err := csv.NewReader(&asCSV).ReadAll()
	if err != nil || len(all) != 3 {
		t.Fatalf("%v: %q", err, all)
	}
	if diff := cmp.Diff(namesOf(t, schemas.Row{}), all[0]); diff != "" {
		t.Error(diff)
	}
	for i, line := range strings.Split(strings.TrimSpace(asJSON.String()), "\n") {
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		for k, name := range all[0] {
			value, cell := string(want[name]), all[i+1][k]
			if value == "null" {
				value = ""
			} else if strings.HasPrefix(value, `"`) {
				_ = json.Unmarshal(want[name], &value) // it is a string
			}
			if value != cell {
				t.Errorf("%s of row %d: %q in CSV, %q in JSON", name, i, cell, value)
			}
		}
	}
	var none bytes.Buffer
	if err := cli.PrintCSV(&none, false, []schemas.Row(nil)); err != nil || strings.Count(none.String(), "\n") != 1 {
		t.Errorf("no row: %v, %q", err, none.String())
	}
	var b bytes.Buffer
	bad := clitest.Hostile
	if err := cli.PrintCSV(&b, false, []schemas.Row{{Metric: &bad}}); err != nil || clitest.Drives(b.String()) {
		t.Errorf("%v, %q", err, b.String())
	}
}

// TestColoursPassTheRelay: what report/term writes reaches the terminal as it is, and nothing else does.
func TestColoursPassTheRelay(t *testing.T) {
	var out kafkatest.Log
	r := cli.NewRelay(t.Context(), &out)
	for _, w := range []io.Writer{cli.Styled(r), r} {
		if n, err := io.WriteString(w, "\x1b[31mHIGH\x1b[0m\n"); err != nil || n != 14 {
			t.Fatal(n, err)
		}
	}
	r.Close()
	if want := "\x1b[31mHIGH\x1b[0m\n?[31mHIGH?[0m\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if w := cli.Styled(&out); w != io.Writer(&out) {
		t.Errorf("a file is not itself, but %v", w)
	}
}

// TestWhatTheTerminalCan: the locale tells of UTF-8, NO_COLOR and TERM of colours.
func TestWhatTheTerminalCan(t *testing.T) {
	for want, all := range map[bool][]map[string]string{
		true: {
			{"LANG": "en_US.UTF-8"},
			{"LC_CTYPE": "C.utf8", "LANG": "C"},
			{"LC_ALL": "de_DE.UTF-8", "LC_CTYPE": "C"},
		},
		false: {
			{},
			{"LANG": "C"},
			{"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"},
			{"LC_CTYPE": "de_DE.ISO-8859-1", "LANG": "de_DE.UTF-8"},
		},
	} {
		for _, env := range all {
			if got := cli.IsUTF8(func(k string) string { return env[k] }); got != want {
				t.Errorf("%v: %v", env, got)
			}
		}
	}
	for want, all := range map[bool][]map[string]string{
		true: {{}, {"TERM": "xterm-256color"}}, false: {{"NO_COLOR": "1"}, {"TERM": "dumb"}},
	} {
		for _, env := range all {
			if got := cli.IsColored(func(k string) string { return env[k] }); got != want {
				t.Errorf("%v: %v", env, got)
			}
		}
	}
}

// TestArchiveAlone: with --dir, or without brokers, nobody is asked.
func TestArchiveAlone(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(file, []byte("sink: {dir: archive}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("archive", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"jobs", "--dir", "archive"}, {"jobs", "--config", file}, {"jobs", "--config", file, "--csv"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		status, stdout, stderr := clitest.Weir(ctx, args...)
		cancel()
		if status != cli.ExitDone || stderr != "" || !strings.HasPrefix(stdout, "No job") &&
			!strings.HasPrefix(stdout, "job_id,") {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}
