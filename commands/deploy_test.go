package commands_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestDeployedConfigurationsPassCheck runs `weir check` on every configuration that is shipped. A directory of the test
// stands for /etc/weir and /var/lib, with the files that they name.
func TestDeployedConfigurationsPassCheck(t *testing.T) {
	host := t.TempDir()
	put := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(host, filepath.Base(name))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tls := httptest.NewTLSServer(nil)
	defer tls.Close()
	put("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw}))
	clitest.Certificate(t, host, time.Now())
	for name, from := range map[string]string{
		"console-ca.pem": "cert.pem", "console.pem": "cert.pem", "relay.pem": "cert.pem", "weir_client.key": "key.pem",
	} {
		put(name, []byte(clitest.Page(t, filepath.Join(host, from))))
	}
	put("weir_password", []byte("secret"))
	put("password", []byte("secret"))
	t.Setenv("CREDENTIALS_DIRECTORY", host)
	put("jobs.yaml", []byte("jobs: []"))
	put("tree.yaml", []byte(clitest.Page(t, "deploy/config/tree.yaml")))

	files, err := filepath.Glob("deploy/config/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, name := range files {
		text := strings.NewReplacer("/etc/weir/secrets/topics", host, "/etc/weir/secrets/status", host,
			"/etc/weir", host, "/var/lib", host).Replace(clitest.Page(t, name))
		if !strings.Contains(text, "kafka:") && !strings.Contains(text, "console:") {
			continue // the tree, which balance.yaml names
		}
		checked++
		if status, _, stderr := clitest.Weir(t.Context(), "check", "--config", put(name, []byte(text))); status != cli.ExitDone {
			t.Errorf("weir check --config %s ends with %d: %s", name, status, stderr)
		}
	}
	if checked < 11 {
		t.Errorf("%d configurations were checked", checked)
	}
}
