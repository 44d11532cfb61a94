package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestInitWritesWhatCheckAccepts writes a file for each role, the second from the first, and checks each of them.
func TestInitWritesWhatCheckAccepts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from := ""
	for _, role := range config.Roles() {
		file := filepath.Join(dir, role+".yaml")
		args := []string{"init", "--role", role, "--output", file, "--set", "sink.dir=" + dir}
		if role == "relay" {
			clitest.Certificate(t, dir, time.Now())
			args = append(args, "--set", "console.address=archive1:7119", "--set", "console.tls.ca_file="+dir+"/cert.pem",
				"--set", "console.tls.cert_file="+dir+"/cert.pem", "--set", "console.tls.key_file="+dir+"/key.pem")
		}
		if from == "" {
			args = append(args, "--set", "cluster=big", "--set", "kafka.brokers=k1:9092,k2:9092",
				"--set", "kafka.sasl.user=weir-topics")
		} else {
			args = append(args, "--from", from)
		}
		if status, _, stderr := clitest.Weir(t.Context(), args...); status != cli.ExitDone {
			t.Fatalf("weir init for %s ends with %d: %s", role, status, stderr)
		}
		status, stdout, stderr := clitest.Weir(t.Context(), "check", "--config", file)
		agreed := role == "relay" || strings.Contains(stdout, "cluster: big\n") && strings.Contains(stdout, "- k2:9092\n")
		if status != cli.ExitDone || !agreed {
			t.Errorf("weir check of the file for %s ends with %d: %s%s", role, status, stdout, stderr)
		}
		if role == "relay" { // nothing for the next role is in it
			continue
		}
		if user := "user: weir-" + role + "\n"; from != "" && !strings.Contains(stdout, user) {
			t.Errorf("no %q in what is for %s", user, role)
		}
		from = file
	}
	status, stdout, _ := clitest.Weir(t.Context(),
		"init", "--role", "sink", "--from", from, "--set", "kafka.sasl.user=weir-find")
	if status != cli.ExitDone || !strings.Contains(stdout, "user: weir-find\n") {
		t.Errorf("--set of the user does not count: %d\n%s", status, stdout)
	}
	before, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--role", "sink", "--from", from, "--output", from}, "it is there already"},
		{[]string{"--role", "sink"}, "add --set kafka.brokers=HOST:PORT"},
		{[]string{"--role", "sinc", "--from", from}, "must be one of agent, balance, collect"},
		{[]string{"--from", from}, "must be one of agent, balance, collect"},
		{[]string{"--role", "sink", "--from", from, "--set", "cluster"}, "KEY=VALUE is wanted"},
		{[]string{"--role", "sink", "--from", from, "--set", "clusters=x"}, "unknown key"},
		{[]string{"--role", "sink", "--from", from, "--set", "interval=1"}, "interval"},
		{[]string{"--role", "sink", "--from", "/nowhere"}, "/nowhere"},
		{[]string{"--role", "sink", "--from", from, "--output", "/nowhere/at/all"}, "/nowhere/at/all"},
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"init"}, c.args...)...)
		if status == cli.ExitDone || !strings.Contains(stderr, c.says) || stdout != "" {
			t.Errorf("weir init %v ends with %d: %s%s", c.args, status, stdout, stderr)
		}
	}
	if after, err := os.ReadFile(from); err != nil || string(after) != string(before) {
		t.Errorf("a refused weir init changed %s: %v", from, err)
	}
}
