package containers

import (
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"

	"github.com/weirhpc/weir/kafka/kafkatest"
)

// nfpm is built by make bin/nfpm. It builds packages.
const nfpm = "../../bin/nfpm"

// TestPackage installs the DEB on a minimal Debian, without systemd and without a network. The whole of weir runs there
// as a user tries it. Removing the package leaves the configuration and the secrets alone.
func TestPackage(t *testing.T) {
	e := needEngine(t)
	deb := buildDEB(t)
	c := machineIn(t, e, deb)
	c.must("dpkg -i /weir.deb")
	c.must("weir --version")
	for _, file := range []string{
		"/usr/share/man/man1/weir-up.1.gz", "/usr/share/weir/config/reference.yaml",
		"/usr/lib/systemd/system/weir-agent.service",
	} {
		c.must("test -s " + file)
	}

	c.must("mkdir /srv/try && cd /srv/try && (weir up --interval 1s >up.log 2>&1; echo $? >status) &")
	t.Cleanup(func() {
		if t.Failed() {
			_, out := c.sh("cd /srv/try; tail -20 up.log; weir job host; weir status")
			t.Log(out)
		}
	})
	kafkatest.Eventually(t, "summaries of the job host", func() bool {
		status, out := c.sh("cd /srv/try && weir status && weir job host")
		return status == 0 && strings.Contains(out, "busy cores")
	})
	c.must(`kill -INT $(cat /proc/[0-9]*/stat | awk '$2 == "(weir)" { print $1 }')`)
	kafkatest.Eventually(t, "the end of weir up", func() bool {
		status, out := c.sh("cat /srv/try/status")
		if status == 0 && strings.TrimSpace(out) != "0" {
			t.Fatalf("weir up ends with status %s: %s", out, c.must("tail -20 /srv/try/up.log"))
		}
		return status == 0
	})
	c.must("rm -r /srv/try && dpkg --purge weir")
	left := strings.Fields(c.must("find / -xdev -path /proc -prune -o -name '*weir*' -print | sort"))
	if want := []string{"/etc/weir", "/weir.deb"}; !slices.Equal(left, want) {
		t.Errorf("removing leaves %v, want %v", left, want)
	}
}

// buildDEB returns the package of this machine's architecture.
func buildDEB(t *testing.T) string {
	t.Helper()
	dist := t.TempDir()
	build := exec.CommandContext(t.Context(), "../../deploy/packages/build", dist, nfpm, runtime.GOARCH)
	build.Env = append(build.Environ(), "VERSIONS=0.0.1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the packages: %v: %s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(dist, "*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("DEB: %v, %v", found, err)
	}
	return found[0]
}

// minimal is a minimal Debian in a container.
type minimal struct {
	t *testing.T
	c testcontainers.Container
}

// machineIn starts a container that has the package in a file and waits for commands.
func machineIn(t *testing.T, e *testEngine, deb string) minimal {
	t.Helper()
	return minimal{t, e.run(t.Context(), t, testcontainers.ContainerRequest{
		Image: imageDebian, Cmd: []string{"sleep", "infinity"},
		Files: []testcontainers.ContainerFile{
			{HostFilePath: deb, ContainerFilePath: "/weir.deb", FileMode: 0o644},
		},
		HostConfigModifier: func(hc *container.HostConfig) { hc.NetworkMode, hc.Memory = "none", 512<<20 },
	})}
}

// sh runs a script in the container, and returns its status and output.
func (m minimal) sh(script string) (status int, output string) {
	m.t.Helper()
	status, out, err := m.c.Exec(context.Background(), []string{"sh", "-c", script}, tcexec.Multiplexed())
	if err != nil {
		m.t.Fatalf("%s: %v", script, err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		m.t.Fatalf("%s: %v", script, err)
	}
	return status, string(text)
}

// must is sh, and fails the test if the script fails.
func (m minimal) must(script string) string {
	m.t.Helper()
	status, out := m.sh(script)
	if status != 0 {
		m.t.Fatalf("%s: status %d: %s", script, status, out)
	}
	return out
}
