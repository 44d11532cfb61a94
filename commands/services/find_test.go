package services_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/services"
)

// TestFindHasThreeUses: exactly one of them is asked for.
func TestFindHasThreeUses(t *testing.T) {
	t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
	for _, args := range [][]string{
		{"find"},
		{"find", "--live", "idle-cores"},
		{"find", "--live", "--like", "1"},
		{"find", "idle-cores", "--like", "1"},
		{"find", "idle-cores", "serial"},
	} {
		status, out, stderr := clitest.Weir(t.Context(), args...)
		if status != cli.ExitUsage || out != "" || !strings.Contains(stderr, services.ErrOneUse.Error()) {
			t.Errorf("%q ends with %d: %s%s", args, status, out, stderr)
		}
	}
}

// TestWrongRulesAreStatus2: rules and types of nodes that are wrong need a person, so find does not wait for brokers.
func TestWrongRulesAreStatus2(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	wrong := put("rules.yaml",
		"- {id: mine, title: Mine, needs: [no_such_metric], each: no_such_metric.mean > 1, hint: x}\n")
	for name, c := range map[string]struct{ text, want string }{
		"a metric that nobody measures": {"find: {rules: " + wrong + "}", "no_such_metric"},
		"a file that is not there":      {"find: {rules: " + filepath.Join(dir, "none.yaml") + "}", "none.yaml"},
		"two types of a node": {
			"machine: [{name: a, nodes: n1}, {name: b, nodes: n1}]", "node n1 is in a already",
		},
	} {
		config := put("weir.yaml", "kafka: {brokers: ['127.0.0.1:1']}\n"+c.text+"\n")
		for _, args := range [][]string{{"find", "--live"}, {"check"}} {
			status, _, stderr := clitest.Weir(t.Context(), append(args, "--config", config)...)
			if status != cli.ExitUsage || !strings.Contains(stderr, c.want) {
				t.Errorf("%s: weir %s ends with %d: %s", name, args[0], status, stderr)
			}
		}
	}
}
