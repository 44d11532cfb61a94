package jobs_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// plant makes a weir-data/weir.yaml in the working directory.
func plant(t *testing.T, text string) {
	t.Helper()
	if err := os.Mkdir("weir-data", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.RunningFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPlantedConfigurationIsIgnored: in a directory where anyone may write, it may name any file and any program.
func TestPlantedConfigurationIsIgnored(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	asked := make(chan struct{}, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			asked <- struct{}{}
			_ = c.Close()
		}
	}()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"squeue", "scontrol", "sinfo"} {
		if err := os.WriteFile(program, []byte("#!/bin/sh\ntouch "+dir+"/ran\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("secret", []byte("first line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plant(t, `
kafka: {brokers: ['`+listener.Addr().String()+`'], sasl: {mechanism: SCRAM-SHA-512, user: u, password_file: secret}}
balance: {nodes: [n1], slurm: {enabled: true, bin: `+dir+`}}
`)
	if err := os.Chmod(".", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"status", "jobs", "job a", "tail jobs", "check", "collect", "balance",
		"balance --plan", "topics check", "sink accept-gap 0",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for what begins though it should not
		status, stdout, stderr := clitest.Weir(ctx, strings.Fields(command)...)
		cancel()
		first, _, _ := strings.Cut(stderr, "\n")
		if status != cli.ExitUsage || stdout != "" || !strings.HasPrefix(first,
			"weir: weir-data/weir.yaml is ignored: ") || !strings.HasSuffix(first, "--config weir-data/weir.yaml") {
			t.Errorf("%s: status %d, %q, %q", command, status, stdout, stderr)
		}
	}
	if len(asked) > 0 {
		t.Errorf("its broker was asked %d times", len(asked))
	}
	if _, err := os.Stat("ran"); err == nil {
		t.Error("its program ran")
	}
	if _, _, stderr := clitest.Weir(t.Context(), "jobs"); !strings.Contains(stderr, dir+" can be written by everybody") {
		t.Errorf("no reason: %q", stderr)
	}
}

// TestConfigurationThatIsNamedCountsWhole: whoever names a file means it.
func TestConfigurationThatIsNamedCountsWhole(t *testing.T) {
	t.Chdir(t.TempDir())
	plant(t, "cluster: named\nkafka: {brokers: ['192.0.2.1:9092']}\n")
	if err := os.Chmod(".", 0o777); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "check", "--config", config.RunningFile)
	if status != cli.ExitDone || stderr != "" || !strings.Contains(stdout, "cluster: named") || !strings.Contains(stdout,
		"192.0.2.1:9092") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

// TestEtcComesFirst: the machine's configuration counts before what `weir up` left here, and without a word where
// nothing is.
func TestEtcComesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		etc, here, reads bool
		file, says       string
		broker           bool
	}{
		"both":                  {true, true, true, "etc.yaml", "etc.yaml comes first", false},
		"etc alone":             {true, false, true, "etc.yaml", "", false},
		"here alone":            {false, true, true, "", "", true},
		"here alone, a service": {false, true, false, "", "needs a whole configuration", false},
		"neither":               {false, false, true, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.Chmod(".", 0o755); err != nil { // whatever the umask
				t.Fatal(err)
			}
			if c.etc {
				if err := os.WriteFile("etc.yaml", nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if c.here {
				plant(t, "kafka: {brokers: ['127.0.0.1:9']}\n")
			}
			var errs kafkatest.Log
			command := &cobra.Command{}
			command.SetErr(&errs)
			flags := &cli.ConfigFlags{Reads: c.reads, Command: command}
			src := flags.Source("etc.yaml")
			flags.ReportIgnored(src.Defaults)
			if src.File != c.file || (len(src.Defaults.Kafka.Brokers) > 0) != c.broker {
				t.Errorf("%q, %v", src.File, src.Defaults.Kafka.Brokers)
			}
			if said := errs.String(); c.says == "" && said != "" || !strings.Contains(said,
				c.says) || strings.Count(said, "\n") > 1 {
				t.Errorf("%q", said)
			}
		})
	}
}

// TestCommandsFindTheRunningUp: in its directory they need no flag, and take nothing else of its file.
func TestCommandsFindTheRunningUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := clitest.Process(t, []string{"WEIR_PREFIX=mine."}, "up", "--interval", "1s", "--for", "10m")
	program.Dir = dir
	up := clitest.Start(t, program)
	defer up.Interrupt(t)
	ask := func(command string) (status int, stdout, stderr string) {
		c := clitest.Process(t, nil, strings.Fields(command)...)
		c.Dir = dir
		s := clitest.Start(t, c)
		return s.End(t), s.Out.String(), s.Errs.String()
	}
	kafkatest.Eventually(t, "up runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, config.RunningFile))
		return err == nil
	})
	kafkatest.Eventually(t, "weir status is content", func() bool {
		status, _, stderr := ask("status")
		return status == cli.ExitDone && stderr == ""
	})
	for _, command := range []string{"jobs", "job host -n 1", "tail jobs --from start -n 1"} {
		status, stdout, stderr := ask(command)
		if status != cli.ExitDone || !strings.Contains(stdout, "host") && command == "jobs" || stderr != "" {
			t.Errorf("%s: status %d, %q, %q", command, status, stdout, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "archive")); err == nil {
		t.Error("a command made an archive")
	}
}
