package admin_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/commands/admin"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// checkArchive runs weir check with a directory for the archive, and returns what it noted.
func checkArchive(t *testing.T, dir string) (status int, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := "kafka: {brokers: [\"127.0.0.1:9092\"]}\nsink: {dir: " + dir + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "check", "--config", file)
	if status == cli.ExitDone && !strings.Contains(stdout, dir) {
		t.Errorf("printed %s", stdout)
	}
	return status, stderr
}

func namesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// weir check tries the archive's file system, with a second process, and leaves nothing behind.
func TestCheckTriesTheArchive(t *testing.T) {
	for _, parts := range [][]string{{}, {".stage", "summaries/date=2026-11-21"}} {
		dir := t.TempDir()
		for _, part := range parts {
			if err := os.MkdirAll(filepath.Join(dir, part), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		before := namesBelow(t, dir)
		if status, stderr := checkArchive(t, dir); status != cli.ExitDone || stderr != "" {
			t.Errorf("status %d: %s", status, stderr)
		}
		if after := namesBelow(t, dir); !slices.Equal(before, after) {
			t.Errorf("%q became %q", before, after)
		}
	}
	if status, stderr := checkArchive(t, filepath.Join(t.TempDir(), "not-yet")); status != cli.ExitDone || stderr != "" {
		t.Errorf("without an archive status %d: %s", status, stderr)
	}
}

// A directory of the archive on another file system is noted.
func TestCheckFindsAnotherFileSystem(t *testing.T) {
	dir := t.TempDir()
	other, err := os.MkdirTemp("/dev/shm", "weir") //nolint:usetesting // another file system than that of t.TempDir
	if err != nil {
		t.Skip("there is no second file system:", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	if err := os.Link(os.Args[0], filepath.Join(other, "x")); err == nil {
		t.Skip("/dev/shm is on the file system of the tests")
	}
	if err := os.Symlink(other, filepath.Join(dir, ".stage")); err != nil {
		t.Fatal(err)
	}
	status, stderr := checkArchive(t, dir)
	if status != cli.ExitDone || !strings.Contains(stderr, "are on different file systems, so nothing is compacted") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if left := namesBelow(t, other); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}

// TestHungFileIsStatus1: a file that does not answer is no mistake in the configuration. systemd starts a service again
// after status 1, and not after status 2.
func TestHungFileIsStatus1(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "password"), filepath.Join(dir, "weir.yaml")
	text := "kafka:\n  brokers: [\"127.0.0.1:9092\"]\n" +
		"  sasl: {mechanism: SCRAM-SHA-512, user: weir, password_file: " + pipe + "}\n"
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"collect", "check"} {
		status, _, stderr := clitest.Weir(t.Context(), command, "--config", file)
		if status != cli.ExitFailed || !strings.Contains(stderr, "kafka.sasl.password_file") ||
			!strings.Contains(stderr, "no answer") {
			t.Errorf("%s: status %d: %s", command, status, stderr)
		}
	}
}

// TestCheckNotesWhatOthersMayChange: a program, a file or a secret that is open to other users gets a note with the
// remedy. The others get none.
func TestCheckNotesWhatOthersMayChange(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("FILES OF ANOTHER USER SKIPPED: IT TAKES ROOT TO MAKE THEM")
	}
	dir := t.TempDir()
	put := func(name string, mode os.FileMode, uid int) string {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600))
		if err := errors.Join(err, os.Chown(path, uid, uid), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	metrics := func(name string) []config.SiteMetric { return []config.SiteMetric{{Name: name}} }
	of := func(program, text, password string) config.Config {
		cfg := config.Default()
		cfg.Kafka.SASL.PasswordFile = password
		cfg.Agent.Sources = []config.SiteSource{
			{Name: "a", Exec: []string{program}, Metrics: metrics("a")}, {Name: "b", File: text, Metrics: metrics("b")},
		}
		cfg.Balance.Slurm.Enabled, cfg.Balance.Slurm.Bin = true, filepath.Join(dir, "slurm")
		return cfg
	}
	squeue := put("slurm/squeue", 0o755, 0)
	good := of(put("good/rack", 0o755, 0), put("good/rack.txt", 0o644, 1000), put("good/password", 0o640, 0))
	if notes := admin.Exposed(good); len(notes) > 0 {
		t.Errorf("in order: %q", notes)
	}
	bad := of(put("bad/rack", 0o777, 0), put("bad/rack.txt", 0o666, 1000), put("bad/password", 0o644, 0))
	if err := errors.Join(os.Chmod(squeue, 0o777), os.Chmod(filepath.Dir(squeue), 0o777)); err != nil {
		t.Fatal(err)
	}
	foreign := of(put("foreign/rack", 0o755, 1000), "", "")
	for name, c := range map[string]struct {
		cfg  config.Config
		want []string
	}{
		"program": {bad, []string{"agent.sources[0].exec", "bad/rack (mode 0777)", "chmod go-w"}},
		"file":    {bad, []string{"agent.sources[1].file", "bad/rack.txt (mode 0666)", "chmod o-w"}},
		"secret":  {bad, []string{"kafka.sasl.password_file", "bad/password (mode 0644)", "chmod o="}},
		"squeue":  {bad, []string{"balance.slurm.bin " + squeue + " (mode 0777)", "chmod go-w"}},
		"bin":     {bad, []string{"balance.slurm.bin, the directory " + filepath.Dir(squeue), "chmod go-w"}},
		"owner":   {foreign, []string{"agent.sources[0].exec", "foreign/rack", "user 1000 owns it", "chown root"}},
	} {
		if notes := admin.Exposed(c.cfg); !slices.ContainsFunc(notes, func(note string) bool {
			return !slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(note, w) })
		}) {
			t.Errorf("%s: no note has all of %q:\n%s", name, c.want, strings.Join(notes, "\n"))
		}
	}
	bad.Sink.Dir, bad.Agent.ReportDir = filepath.Dir(squeue), filepath.Dir(squeue)
	for _, key := range []string{"sink.dir", "agent.report_dir"} {
		if notes := admin.Exposed(bad); !strings.Contains(strings.Join(notes, "\n"), key+" "+filepath.Dir(squeue)) {
			t.Errorf("%s: no note:\n%s", key, strings.Join(notes, "\n"))
		}
	}
	file := put("open/weir.yaml", 0o666, 0)
	text := "kafka: {brokers: [\"127.0.0.1:9092\"]}\nagent: {sources: [{name: a, exec: [" + dir + "/bad/rack], " +
		"metrics: [{name: rack_power, unit: W, scope: node, kind: gauge}]}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := clitest.Weir(t.Context(), "check", "--config", file)
	if status != cli.ExitDone || !strings.Contains(stderr, "weir: note: agent.sources[0].exec") ||
		!strings.Contains(stderr, "weir: note: --config "+file+" (mode 0666)") {
		t.Errorf("status %d: %s", status, stderr)
	}
}
