package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAcceptGapInAWrongDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
	t.Setenv("WEIR_SINK_DIR", dir)
	status, _, stderr := weir(t.Context(), "sink", "accept-gap", "0")
	if status != exitFailed || !strings.Contains(stderr, dir) || !strings.Contains(stderr, "set sink.dir") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("it made %s", dir)
	}
}
