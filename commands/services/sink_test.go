package services_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

func TestAcceptGapInAWrongDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
	t.Setenv("WEIR_SINK_DIR", dir)
	status, _, stderr := clitest.Weir(t.Context(), "sink", "accept-gap", "0")
	if status != cli.ExitFailed || !strings.Contains(stderr, dir) || !strings.Contains(stderr, "set sink.dir") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("it made %s", dir)
	}
}
