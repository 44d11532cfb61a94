package archive_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/kafka/kafkatest"
)

// TestReplayAsThePageLeads: while weir up runs, as after make up, the first commands of docs/replay.md have values.
func TestReplayAsThePageLeads(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(clitest.Page(t, "docs/replay.md"), "## How do I try it?")
	section, _, _ = strings.Cut(section, "\n## ")
	lines := regexp.MustCompile(`(?m)^bin/weir (replay .*)$`).FindAllStringSubmatch(section, -1)
	if len(lines) != 2 {
		t.Fatalf("%d commands in %s", len(lines), section)
	}
	dir := t.TempDir()
	clitest.Start(t, clitest.Process(t, nil, "up", "--data", dir, "--interval", "500ms", "--for", "10m"))
	quoted := regexp.MustCompile(`'[^']*'|\S+`)
	for _, line := range lines {
		var args []string
		for _, arg := range quoted.FindAllString(line[1], -1) {
			args = append(args, strings.Trim(arg, "'"))
		}
		metric := args[len(args)-1]
		args = append(args, "--config", filepath.Join(dir, "weir.yaml"))
		kafkatest.Eventually(t, "values from "+line[1], func() bool {
			status, stdout, stderr := clitest.Weir(t.Context(), args...)
			if strings.Contains(stderr, "no values") {
				t.Fatalf("%s: %s", line[1], stderr)
			}
			return status == cli.ExitDone && strings.Contains(stdout, "EXACT") && strings.Contains(stdout, metric)
		})
	}
}
