package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"
)

// bareHost is a /proc of two CPUs without anything else. The configuration of the test's commands names it.
func bareHost(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte("cpu  9 9 9 9\ncpu0 1 2 3 4\ncpu1 1 2 3 4\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_AGENT_PROC_PATH", dir)
	t.Setenv("WEIR_AGENT_SYS_PATH", t.TempDir())
	t.Setenv("WEIR_AGENT_PERF", "false")
	t.Setenv("WEIR_INTERVAL", "1s")
	t.Chdir(t.TempDir())
}

// objects runs a command that prints one JSON object a line.
func objects[T any](t *testing.T, args ...string) (rows []T) {
	t.Helper()
	status, stdout, stderr := weir(t.Context(), args...)
	if status != exitDone {
		t.Fatalf("%v: status %d, %s", args, status, stderr)
	}
	for line := range strings.Lines(stdout) {
		var row T
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%v: %q: %v", args, line, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// narrow fails where a table is too wide for a terminal.
func narrow(t *testing.T, text string) {
	t.Helper()
	text = strings.ReplaceAll(text, os.TempDir(), "/tmp") // it may have a long name, which no table can break
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > tableWidth {
			t.Errorf("too wide: %s", line)
		}
	}
}

// TestMetricsShowsTheCatalogue: without configuration and brokers, as a table that fits a terminal and as JSON.
func TestMetricsShowsTheCatalogue(t *testing.T) {
	t.Chdir(t.TempDir())
	status, table, stderr := weir(t.Context(), "metrics")
	if status != exitDone || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	narrow(t, table)
	rows := objects[metricRow](t, "metrics", "--json")
	if want := source.Catalogue(config.Agent{}); len(rows) != len(want) {
		t.Errorf("%d of %d metrics", len(rows), len(want))
	}
	for _, r := range rows {
		if r.Name == "" || r.Unit == "" || r.Scope == "" || r.Kind == "" || r.Source == "" || r.Origin == "" ||
			r.Formula == "" || r.Available != nil {
			t.Errorf("not whole: %+v", r)
		}
		if !strings.Contains(table, "  "+r.Name+" ") || !strings.Contains(table, r.Source+" ("+r.Scope+"): ") {
			t.Errorf("the table has no %s of %s", r.Name, r.Source)
		}
	}
}

// TestMetricsSayWhyOneIsAbsent: a host with CPUs and nothing else.
func TestMetricsSayWhyOneIsAbsent(t *testing.T) {
	bareHost(t)
	for _, r := range objects[metricRow](t, "metrics", "--available", "--json") {
		switch {
		case r.Available == nil:
			t.Errorf("%s was not probed", r.Name)
		case r.Name == "weir_agent_cpu_ms" && !*r.Available, r.Name == "mem_used" && *r.Available,
			*r.Available != (r.Reason == ""):
			t.Errorf("%+v", r)
		case r.Name == "weir_agent_in_window" && !strings.Contains(r.Reason, "an agent that publishes"):
			t.Errorf("nothing says that Kafka is asked: %+v", r)
		case r.Name == "weir_agent_rss" && !strings.Contains(r.Reason, "no such file"):
			t.Errorf("its reason does not name the file: %+v", r)
		}
	}
	status, table, _ := weir(t.Context(), "metrics", "--available")
	if status != exitDone || !strings.Contains(table, "absent: ") || !strings.Contains(table, "available\n") {
		t.Errorf("status %d:\n%s", status, table)
	}
	narrow(t, table)
	// What is the reason for all metrics of a source is said once.
	for source := range strings.SplitSeq(table, "\n\n") {
		if n := strings.Count(source, "no such file"); strings.HasPrefix(source, "rapl ") &&
			(n != 1 || strings.Count(source, "   absent") != 4) {
			t.Errorf("the reason is there %d times:\n%s", n, source)
		}
	}
}

// TestAgentOnce prints an interval without Kafka and without a configuration.
func TestAgentOnce(t *testing.T) {
	bareHost(t)
	rows := objects[intervalRow](t, "agent", "--once", "--json")
	if len(rows) == 0 {
		t.Fatal("no metric")
	}
	for _, r := range rows {
		if r.Name == "weir_agent_cpu_ms" && (len(r.Values) != 1 || r.Values[0] == nil || *r.Values[0] < 0) {
			t.Errorf("%+v", r)
		}
	}
	status, table, stderr := weir(t.Context(), "agent", "--once")
	if status != exitDone || !strings.HasPrefix(table, "METRIC ") || !strings.Contains(table, "\nweir_agent_cpu_ms ") {
		t.Errorf("status %d, %s:\n%s", status, stderr, table)
	}
	narrow(t, table)
}

// TestAgentCheck prints what each source costs, and why one is absent.
func TestAgentCheck(t *testing.T) {
	bareHost(t)
	seen := map[string]costRow{}
	for _, r := range objects[costRow](t, "agent", "--check", "--json") {
		seen[r.Source] = r
	}
	if r := seen["stat"]; r.State != "read" || r.CPUMedian <= 0 || r.CPUMax < r.CPUMedian || r.WallMax <= 0 {
		t.Errorf("%+v", r)
	}
	if r := seen["agent_memory"]; r.State != "absent" || !strings.Contains(r.Absent["weir_agent_rss"], "no such file") {
		t.Errorf("%+v", r)
	}
	if r := seen[wholeCycle]; r.CPUMedian <= 0 || r.Metrics < 4 {
		t.Errorf("%+v", r)
	}
	status, table, _ := weir(t.Context(), "agent", "--check")
	if status != exitDone || !strings.HasPrefix(table, "SOURCE ") || !strings.Contains(table, "\nabsent:\n") {
		t.Errorf("status %d:\n%s", status, table)
	}
	narrow(t, table)
}

// TestAgentFlagsThatDoNotFit end with status 2.
func TestAgentFlagsThatDoNotFit(t *testing.T) {
	bareHost(t)
	for _, args := range [][]string{{"agent", "--once", "--check"}, {"agent", "--json"}, {"agent"}} {
		if status, stdout, stderr := weir(t.Context(), args...); status != exitUsage || stdout != "" || stderr == "" {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

var update = flag.Bool("update", false, "write what pages are generated from the program")

// TestCountersPage: the tables of docs/counters.md are made from the catalogue. -update makes them.
func TestCountersPage(t *testing.T) {
	const name = "docs/counters.md"
	const marker = "-run TestCountersPage -update -->\n"
	text := page(t, name)
	byHand, _, ok := strings.Cut(text, marker)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", name, marker)
	}
	want := byHand + marker + tables(catalogue(config.Agent{}))
	if text == want {
		return
	}
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s is not what weir metrics shows: go test . -run TestCountersPage -update (-want +got)\n%s", name,
		cmp.Diff(want, text))
}

// TestFoldsKnowTheCatalogue: the folds keep weir's own metrics first, and have their names from a list. -update makes
// it.
func TestFoldsKnowTheCatalogue(t *testing.T) {
	const name = "schemas/catalogue.tsv"
	var lines []string
	for _, r := range catalogue(config.Agent{}) {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\n", r.Name, r.Unit, r.Scope))
		if !*update && !schemas.Catalogued(r.Name, r.Unit, r.Scope) {
			t.Errorf("the folds do not know %s, unit %s, scope %s", r.Name, r.Unit, r.Scope)
		}
	}
	slices.Sort(lines)
	want := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := page(t, name); got != want {
		t.Errorf("%s is not what weir metrics shows: go test . -run TestFoldsKnowTheCatalogue -update (-want +got)\n%s",
			name, cmp.Diff(want, got))
	}
}

// tables are the metrics as Markdown, a table for each source.
func tables(rows []metricRow) string {
	var b strings.Builder
	cell := strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ")
	for i, r := range rows {
		if i == 0 || r.Source != rows[i-1].Source {
			fmt.Fprintf(&b, "\n### %s\n\nScope %s, from %s.\n\n| name | unit | kind | formula |\n|---|---|---|---|\n",
				r.Source,
				r.Scope, cell.Replace(r.Origin))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Unit, r.Kind, cell.Replace(r.Formula))
	}
	return b.String()
}
