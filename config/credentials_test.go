package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredentials: a path that begins with ${CREDENTIALS_DIRECTORY}/ is below the directory that systemd names.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weir_password"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	const name = "${CREDENTIALS_DIRECTORY}/weir_password"
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if text, err := ReadFile(name); err != nil || string(text) != "secret" {
		t.Errorf("%s: %q, %v", name, text, err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), "LoadCredential=") {
		t.Errorf("without the variable: %v", err)
	}
}
