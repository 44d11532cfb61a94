package commands_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpstreamPatchApplies: the patch for perf-utils fits the version in go.mod, and changes what its page lists.
func TestUpstreamPatchApplies(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hodgesds/perf-utils")
	dir, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	patch, err := filepath.Abs("docs/upstream/perf-utils.patch")
	if err != nil {
		t.Fatal(err)
	}
	pristine := filepath.Join(t.TempDir(), "perf-utils")
	if err := os.CopyFS(pristine, os.DirFS(strings.TrimSpace(string(dir)))); err != nil {
		t.Fatal(err)
	}
	apply := exec.CommandContext(t.Context(), "git", "apply", "--check", "--verbose", patch)
	apply.Dir = pristine
	out, err := apply.CombinedOutput()
	if err != nil || strings.Count(string(out), "Checking patch") != 2 {
		t.Errorf("git apply --check: %v\n%s", err, out)
	}
}
