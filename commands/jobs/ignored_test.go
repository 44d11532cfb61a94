package jobs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestIgnoredFileIsNamedWhereItCounts: a command that asks no broker does not mention the file of a weir up, nor does a
// service that knows its brokers.
func TestIgnoredFileIsNamedWhereItCounts(t *testing.T) {
	t.Chdir(t.TempDir())
	plant(t, "kafka: {brokers: ['192.0.2.1:9092']}\n")
	if err := os.Chmod(".", 0o777); err != nil { // so the file does not count
		t.Fatal(err)
	}
	for _, args := range []string{
		"jobs --dir .", "report system --dir .", "metrics catalogue", "topics acl --principal User:x", "rules check",
	} {
		if _, _, stderr := clitest.Weir(t.Context(), strings.Fields(args)...); strings.Contains(stderr, "is ignored") {
			t.Errorf("%s: %s", args, stderr)
		}
	}
	if status, _, stderr := clitest.Weir(t.Context(), "jobs"); status != cli.ExitUsage ||
		!strings.Contains(stderr, "is ignored") {
		t.Errorf("jobs: status %d, %s", status, stderr)
	}
}

// TestNoBrokersIsWrongUsage: a configuration without brokers ends each command that asks one with the same status.
func TestNoBrokersIsWrongUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("weir.yaml", []byte("cluster: c\nkafka: {brokers: []}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"tail counters", "status", "topics check", "topics create", "replay --job 1", "audit", "top --once", "agent",
		"collect", "balance", "find --live", "sink", "samples", "check",
	} {
		status, _, stderr := clitest.Weir(t.Context(), append(strings.Fields(args), "--config", "weir.yaml")...)
		if status != cli.ExitUsage || !strings.Contains(stderr, "kafka.brokers is empty") {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}
