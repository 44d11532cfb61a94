package agent_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestDropProgram: pages of the program leave this process, and what runs goes on.
func TestDropProgram(t *testing.T) {
	resident := func() int { // in KiB, of files
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "RssFile:")
		n, err := strconv.Atoi(strings.Fields(rest + " ?")[0])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if status, _, stderr := clitest.Weir(t.Context(), "--help"); status != cli.ExitDone { // touches what only the start needs
		t.Fatal(stderr)
	}
	before := resident()
	if err := agent.DropProgram("/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	if after := resident(); after > before/2 {
		t.Errorf("%d KiB of %d stay", after, before)
	}
	if status, out, stderr := clitest.Weir(t.Context(), "--help"); status != cli.ExitDone || !strings.Contains(out, "agent") {
		t.Errorf("help ends with %d: %s%s", status, out, stderr)
	}
	if err := agent.DropProgram("commands/agent/startpages.go"); err == nil {
		t.Error("a text is no program")
	}
}
