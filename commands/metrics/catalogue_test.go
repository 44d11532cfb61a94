package metrics_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/metrics"
)

// narrow fails where a table is too wide for a terminal.
func narrow(t *testing.T, text string) {
	t.Helper()
	text = strings.ReplaceAll(text, os.TempDir(), "/tmp") // it may have a long name, which no table can break
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > cli.TableWidth {
			t.Errorf("too wide: %s", line)
		}
	}
}

// TestMetricsShowsTheCatalogue: without configuration and brokers, as a table that fits a terminal and as JSON.
func TestMetricsShowsTheCatalogue(t *testing.T) {
	t.Chdir(t.TempDir())
	status, table, stderr := clitest.Weir(t.Context(), "metrics")
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	narrow(t, table)
	rows := clitest.Objects[metrics.MetricRow](t, "metrics", "--json")
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
	clitest.BareHost(t)
	for _, r := range clitest.Objects[metrics.MetricRow](t, "metrics", "--available", "--json") {
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
	status, table, _ := clitest.Weir(t.Context(), "metrics", "--available")
	if status != cli.ExitDone || !strings.Contains(table, "absent: ") || !strings.Contains(table, "available\n") {
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
	clitest.BareHost(t)
	rows := clitest.Objects[agent.IntervalRow](t, "agent", "--once", "--json")
	if len(rows) == 0 {
		t.Fatal("no metric")
	}
	for _, r := range rows {
		if r.Name == "weir_agent_cpu_ms" && (len(r.Values) != 1 || r.Values[0] == nil || *r.Values[0] < 0) {
			t.Errorf("%+v", r)
		}
	}
	status, table, stderr := clitest.Weir(t.Context(), "agent", "--once")
	if status != cli.ExitDone || !strings.HasPrefix(table, "METRIC ") || !strings.Contains(table, "\nweir_agent_cpu_ms ") {
		t.Errorf("status %d, %s:\n%s", status, stderr, table)
	}
	narrow(t, table)
}

// TestAgentCheck prints what each source costs, and why one is absent.
func TestAgentCheck(t *testing.T) {
	clitest.BareHost(t)
	seen := map[string]agent.CostRow{}
	for _, r := range clitest.Objects[agent.CostRow](t, "agent", "--check", "--json") {
		seen[r.Source] = r
	}
	if r := seen["stat"]; r.State != "read" || r.CPUMedian <= 0 || r.CPUMax < r.CPUMedian || r.WallMax <= 0 {
		t.Errorf("%+v", r)
	}
	if r := seen["agent_memory"]; r.State != "absent" || !strings.Contains(r.Absent["weir_agent_rss"], "no such file") {
		t.Errorf("%+v", r)
	}
	if r := seen[agent.WholeCycle]; r.CPUMedian <= 0 || r.Metrics < 4 {
		t.Errorf("%+v", r)
	}
	status, table, _ := clitest.Weir(t.Context(), "agent", "--check")
	if status != cli.ExitDone || !strings.HasPrefix(table, "SOURCE ") || !strings.Contains(table, "\nabsent:\n") {
		t.Errorf("status %d:\n%s", status, table)
	}
	narrow(t, table)
}

// TestAgentFlagsThatDoNotFit end with status 2.
func TestAgentFlagsThatDoNotFit(t *testing.T) {
	clitest.BareHost(t)
	for _, args := range [][]string{{"agent", "--once", "--check"}, {"agent", "--json"}, {"agent"}} {
		if status, stdout, stderr := clitest.Weir(t.Context(), args...); status != cli.ExitUsage || stdout != "" || stderr == "" {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

// TestCountersPage: the tables of docs/counters.md are made from the catalogue. -update makes them.
func TestCountersPage(t *testing.T) {
	const name = "docs/counters.md"
	const marker = "-run TestCountersPage -update -->\n"
	text := clitest.Page(t, name)
	byHand, _, ok := strings.Cut(text, marker)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", name, marker)
	}
	want := byHand + marker + tables(metrics.Catalogue(config.Agent{}))
	if text == want {
		return
	}
	if *clitest.Update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s is not what weir metrics shows: go test ./commands/metrics -run TestCountersPage -update (-want +got)\n%s", name,
		cmp.Diff(want, text))
}

// TestFoldsKnowTheCatalogue: the folds keep weir's own metrics first, and have their names from a list. -update makes
// it.
func TestFoldsKnowTheCatalogue(t *testing.T) {
	const name = "schemas/catalogue.tsv"
	var lines []string
	for _, r := range metrics.Catalogue(config.Agent{}) {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\n", r.Name, r.Unit, r.Scope))
		if !*clitest.Update && !schemas.Catalogued(r.Name, r.Unit, r.Scope) {
			t.Errorf("the folds do not know %s, unit %s, scope %s", r.Name, r.Unit, r.Scope)
		}
	}
	slices.Sort(lines)
	want := strings.Join(lines, "")
	if *clitest.Update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := clitest.Page(t, name); got != want {
		t.Errorf("%s is not what weir metrics shows: go test ./commands/metrics -run TestFoldsKnowTheCatalogue -update (-want +got)\n%s",
			name, cmp.Diff(want, got))
	}
}

// tables are the metrics as Markdown, a table for each source.
func tables(rows []metrics.MetricRow) string {
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
