package commands_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// shown returns weir and all of its commands that help shows.
func shown(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, shown(sub)...)
		}
	}
	return all
}

// TestManPages: every command has a page with its name, its options and its example, and man reads it without a
// warning.
func TestManPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1800000000")
	dir := filepath.Join(t.TempDir(), "new", "man1")
	status, stdout, stderr := clitest.Weir(t.Context(), "man", dir)
	if status != cli.ExitDone || stderr != "" || !strings.Contains(stdout, dir) {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	pages := 0
	for _, c := range shown(commands.NewRoot(new(bool))) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		path := filepath.Join(dir, name+".1")
		text := clitest.Page(t, path)
		pages++
		wanted := []string{"Jan 2027", name + " - " + c.Short}
		c.Flags().VisitAll(func(f *pflag.Flag) { wanted = append(wanted, "--"+f.Name) })
		for line := range strings.Lines(c.Example) {
			wanted = append(wanted, strings.TrimSpace(line))
		}
		for _, w := range wanted {
			if !strings.Contains(strings.ReplaceAll(text, `\`, ""), w) {
				t.Errorf("%s does not show %q", path, w)
			}
		}
		if strings.Contains(text, "cobra") {
			t.Errorf("%s is about its generator", path)
		}
		if program, err := exec.LookPath("man"); err == nil {
			read := exec.CommandContext(t.Context(), program, "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path)
			read.Env = append(os.Environ(), "MANROFFSEQ=", "LC_ALL=C.UTF-8")
			var warnings strings.Builder
			read.Stderr = &warnings
			if err := read.Run(); err != nil || warnings.String() != "" {
				t.Errorf("man -l %s: %v, %s", path, err, warnings.String())
			}
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != pages {
		t.Errorf("%d files for %d commands: %v", len(files), pages, err)
	}
	if status, _, stderr := clitest.Weir(t.Context(), "man", "commands/man_test.go"); status != cli.ExitUsage || !strings.Contains(stderr,
		"commands/man_test.go") {
		t.Errorf("a file in place of a directory: status %d, %q", status, stderr)
	}
}
