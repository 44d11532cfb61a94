package commands_test

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestVersionIsOneLine: whoever reports a fault copies this line, on a host without configuration.
func TestVersionIsOneLine(t *testing.T) {
	status, stdout, stderr := clitest.Weir(t.Context(), "--version")
	if status != cli.ExitDone || stderr != "" || strings.Count(stdout, "\n") != 1 || !strings.HasPrefix(stdout, "weir ") ||
		!strings.Contains(stdout, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH) {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

// TestVersionNamesTheCommit: a release names its tag, and a build of a tree with changes is not taken for a release.
func TestVersionNamesTheCommit(t *testing.T) {
	released := &debug.BuildInfo{
		GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.modified", Value: "false"},
		},
	}
	platform := ", go1.26.8 " + runtime.GOOS + "/" + runtime.GOARCH
	if got, want := cli.BuildOf(released).Text(), "v1.2.3, commit 0123abcd"+platform; got != want {
		t.Errorf("a release: %q, want %q", got, want)
	}
	released.Settings[1].Value = "true"
	if got, want := cli.BuildOf(released).Text(), "v1.2.3, commit 0123abcd with changes"+platform; got != want {
		t.Errorf("a tree with changes: %q, want %q", got, want)
	}
	if got, want := cli.BuildOf(&debug.BuildInfo{GoVersion: "go1.26.8"}).Text(),
		"(devel), commit unknown"+platform; got != want {
		t.Errorf("without git: %q, want %q", got, want)
	}
}
