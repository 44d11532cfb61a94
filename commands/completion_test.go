package commands_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestCompletionScripts: what a user sources is a script that the shell can read.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		status, stdout, stderr := clitest.Weir(t.Context(), "completion", shell)
		if status != cli.ExitDone || stderr != "" || !strings.Contains(stdout, "completion ") || !strings.Contains(stdout,
			"for weir ") {
			t.Errorf("%s: status %d, %.200q, %q", shell, status, stdout, stderr)
			continue
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not here to read its script", shell)
			continue
		}
		read := exec.CommandContext(t.Context(), program, "-n")
		read.Stdin = strings.NewReader(stdout)
		if out, err := read.CombinedOutput(); err != nil {
			t.Errorf("%s cannot read the script: %v, %s", shell, err, out)
		}
	}
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}} {
		status, stdout, stderr := clitest.Weir(t.Context(), args...)
		if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, "weir completion bash") {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

// TestCompletionOffersFixedValues: the shell asks in the middle of a line, so that no broker may be asked.
func TestCompletionOffersFixedValues(t *testing.T) {
	broker, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	go func() {
		if c, err := broker.Accept(); err == nil {
			_ = c.Close()
			close(asked)
		}
	}()
	t.Setenv("WEIR_KAFKA_BROKERS", broker.Addr().String())
	const noFiles, yaml, directories = ":4", ":8", ":16"
	for line, want := range map[string]string{
		"tail ": "balance counters facts find-progress find-state findings job-summary jobs merge-progress notices partials " +
			"progress rejects routes schemas topology-orders triggers " + noFiles,
		"tail counters ":                 "" + noFiles,
		"tail counters --from ":          "start end " + noFiles,
		"collect --log-level ":           "debug info warn error " + noFiles,
		"up --log-level ":                "debug info warn error " + noFiles,
		"balance --algorithm ":           "weir literal " + noFiles,
		"job ":                           "" + noFiles,
		"balance --explain ":             "" + noFiles,
		"topics ":                        "acl check create " + noFiles,
		"sink accept-gap ":               "" + noFiles,
		"completion ":                    "bash zsh fish " + noFiles,
		"jobs --config ":                 "yaml yml " + yaml,
		"jobs --sort ":                   "wasted gpu-wasted busy spread memory severity time " + noFiles,
		"jobs --dir ":                    "" + directories,
		"job host --color ":              "auto always never " + noFiles,
		"up --jobs ":                     "yaml yml " + yaml,
		"balance --tree ":                "conf tgf yaml yml " + yaml,
		"up --data ":                     "" + directories,
		"broker --data ":                 "" + directories,
		"man ":                           "" + directories,
		"balance --plan --tree x --js":   "--json " + noFiles,
		"simulate archive --jobs ":       "habits healthy problems " + noFiles,
		"simulate balancer --snapshots ": "" + noFiles,
		"simulate --mix ":                "test supermuc " + noFiles,
		"up --machine ":                  "supermuc frontier elcapitan ten-million " + noFiles,
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		status, stdout, stderr := clitest.Weir(t.Context(), args...)
		var got []string
		for offer := range strings.Lines(stdout) {
			value, _, _ := strings.Cut(strings.TrimSpace(offer), "\t") // the rest is the description
			got = append(got, value)
		}
		if status != cli.ExitDone {
			t.Errorf("%q: status %d, %q", line, status, stderr)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", line, diff)
		}
	}
	_ = broker.Close()
	select {
	case <-asked:
		t.Error("a broker was asked")
	default:
	}
}
