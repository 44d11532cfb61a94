package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestReportOfHardware: --report writes a file beside the costs, and reports its progress. With - it prints the report
// and nothing else.
func TestReportOfHardware(t *testing.T) {
	t.Setenv("WEIR_INTERVAL", "200ms")
	file := filepath.Join(t.TempDir(), "node.json")
	status, costs, progress := clitest.Weir(t.Context(), "agent", "--check", "--report", file)
	if status != cli.ExitDone || !strings.HasPrefix(costs, "SOURCE ") {
		t.Fatalf("status %d, %s:\n%s", status, progress, costs)
	}
	for _, want := range []string{"reading 1 of 2", "in 200ms", "reading 2 of 2", file + " has "} {
		if !strings.Contains(progress, want) {
			t.Errorf("no %q in\n%s", want, progress)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	status, printed, _ := clitest.Weir(t.Context(), "agent", "--check", "--report", "-")
	if status != cli.ExitDone {
		t.Errorf("status %d", status)
	}
	for _, text := range []string{string(text), printed} {
		var r source.HardwareReport
		if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Sources) == 0 || len(r.Metrics) == 0 {
			t.Errorf("%v: %.200s", err, text)
		}
	}
}

// TestReportThatCannotBeWritten fails before anything is read.
func TestReportThatCannotBeWritten(t *testing.T) {
	for want, args := range map[string][]string{
		"needs a directory": {"--check", "--report", "/nowhere/node.json"},
		"is a directory":    {"--check", "--report", t.TempDir()},
		"with --check":      {"--once", "--report", "node.json"},
		"without --json":    {"--check", "--json", "--report", "-"},
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"agent"}, args...)...)
		if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) ||
			strings.Contains(stderr, "reading") {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}
