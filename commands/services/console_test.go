package services_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// loginNode is a console and a relay as processes of their own, over the archive of a made-up month. Users of the host
// stand for the owners of its jobs.
type loginNode struct {
	*testing.T
	home    string // of users: nothing of weir is in it
	program string // weir, which every user may run
	env     []string
	parts   []*clitest.Started
}

// owners are the uids of users of the made-up month.
var owners = map[string]int{"boris": 3001, "dana": 3002}

func newLoginNode(t *testing.T) *loginNode {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: NO OWNER ASKED ON A LOGIN NODE: this test needs root, to become other users")
	}
	root, err := os.MkdirTemp("/tmp", "weir-login") //nolint:usetesting // nobody else may enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	n := &loginNode{T: t, home: filepath.Join(root, "home"), program: filepath.Join(root, "weir")}
	archive, secrets, bin := filepath.Join(root, "archive"), filepath.Join(root, "secrets"), filepath.Join(root, "bin")
	for dir, mode := range map[string]os.FileMode{n.home: 0o755, secrets: 0o700, bin: 0o755} {
		n.must(os.MkdirAll(dir, 0o755))
		n.must(os.Chmod(dir, mode))
	}
	n.must(os.Chmod(root, 0o755))
	text, err := os.ReadFile(os.Args[0])
	n.must(err)
	n.must(os.WriteFile(n.program, text, 0o755))
	n.must(os.Chmod(n.program, 0o755))
	if status, _, stderr := clitest.Weir(t.Context(), "simulate", "archive", archive, "--days", "2", "--nodes", "8",
		"--interval", "5m"); status != cli.ExitDone {
		t.Fatal(stderr)
	}
	n.must(os.Chmod(archive, 0o750))
	var table strings.Builder
	for name, uid := range owners {
		fmt.Fprintf(&table, "\"passwd %d\") echo %s:x:%[1]d:%[1]d::/: ;;\n", uid, name)
	}
	n.must(os.WriteFile(filepath.Join(bin, "getent"), []byte("#!/bin/sh\ncase \"$*\" in\n"+table.String()+
		"\"passwd 3009\") echo support:x:3009:: ;;\n*) exit 2 ;;\nesac\n"), 0o755))
	clitest.Certificate(t, secrets, time.Now())
	cert, key := filepath.Join(secrets, "cert.pem"), filepath.Join(secrets, "key.pem")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	n.must(err)
	address, socket := listener.Addr().String(), filepath.Join(root, "socket")
	n.must(listener.Close())
	tls := fmt.Sprintf("tls: {ca_file: %s, cert_file: %s, key_file: %s, server_name: weir}", cert, cert, key)
	n.config(secrets, "console.yaml", fmt.Sprintf("sink: {dir: %s}\nconsole: {listen: %q, relays: [weir], support: [support], %s}",
		archive, address, tls))
	n.config(secrets, "relay.yaml", fmt.Sprintf("console: {address: %q, socket: %s, %s}", address, socket, tls))
	n.env = []string{"WEIR_CONSOLE_SOCKET=" + socket}
	started := func(line string, args ...string) *clitest.Started {
		s := clitest.Start(t, clitest.Process(t, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, args...))
		kafkatest.Eventually(t, line, func() bool { return strings.Contains(s.Errs.String(), line) })
		return s
	}
	n.parts = append(n.parts, started("listening for relays", "console", "--config", filepath.Join(secrets, "console.yaml")))
	n.parts = append(n.parts,
		started("listening for users", "console", "--relay", "--config", filepath.Join(secrets, "relay.yaml")))
	return n
}

// end ends both parts, as systemd does.
func (n *loginNode) end() {
	n.Helper()
	for _, s := range n.parts {
		if status := s.Interrupt(n.T); status != cli.ExitDone {
			n.Errorf("%v ends with %d: %s", s.Args, status, s.Errs.String())
		}
	}
}

func (n *loginNode) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *loginNode) config(dir, name, text string) {
	n.Helper()
	n.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// as runs weir as a user.
func (n *loginNode) as(uid int, args ...string) (status int, stdout, stderr string) {
	n.Helper()
	c := exec.CommandContext(n.Context(), n.program, args...)
	c.Env = append(append(os.Environ(), n.env...), clitest.AsWeir+"=1", "LC_ALL=C.UTF-8", "HOME="+n.home)
	c.Dir = n.home
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	var out, errs kafkatest.Log
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		n.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestOwnersOnALoginNode: without an archive, a broker and a password, an owner sees own jobs, and support sees all. A
// job of another user is as one that does not exist. Commands end as they do beside the archive.
func TestOwnersOnALoginNode(t *testing.T) {
	n := newLoginNode(t)
	defer n.end()
	jobsOf := map[string][]string{}
	all := 0
	status, stdout, stderr := n.as(3009, "jobs", "--json", "--since", "2000-01-01")
	for line := range strings.Lines(stdout) {
		all++
		for user := range owners {
			if strings.Contains(line, `"user":"`+user+`"`) {
				_, rest, _ := strings.Cut(line, `"job_id":"`)
				id, _, _ := strings.Cut(rest, `"`)
				jobsOf[user] = append(jobsOf[user], id)
			}
		}
	}
	if status != cli.ExitDone || len(jobsOf) != len(owners) {
		t.Fatalf("support: %d %v %s%s", status, jobsOf, stdout, stderr)
	}
	for user, other := range map[string]string{"boris": "dana", "dana": "boris"} {
		uid, own, foreign := owners[user], jobsOf[user][0], jobsOf[other][0]
		status, stdout, stderr := n.as(uid, "jobs", "--json", "--since", "2000-01-01")
		if lines := strings.Count(stdout, "\n"); status != cli.ExitDone || lines != len(jobsOf[user]) || lines >= all ||
			strings.Contains(stdout, other) {
			t.Errorf("%s lists %d of %d jobs: %d %s%s", user, lines, len(jobsOf[user]), status, stdout, stderr)
		}
		status, stdout, stderr = n.as(uid, "job", own, "--width", "100")
		if _, seen, _ := n.as(3009, "job", own, "--width", "100"); status != cli.ExitDone || stdout == "" || stdout != seen {
			t.Errorf("%s and support see different texts of job %s: %d %s%s\n%s", user, own, status, stderr, stdout, seen)
		}
		status, stdout, stderr = n.as(uid, "job", foreign)
		_, _, absent := n.as(uid, "job", "99999")
		if status != cli.ExitFailed || stdout != "" || strings.ReplaceAll(stderr, foreign, "99999") != absent ||
			!strings.Contains(stderr, "no such job, or it is not yours") {
			t.Errorf("%s asks for job %s of %s: %d %s%s, for none: %s", user, foreign, other, status, stdout, stderr, absent)
		}
	}
	for _, c := range []struct {
		uid    int
		args   []string
		status int
		says   string
	}{
		{3001, []string{"jobs", "--sort", "nothing"}, cli.ExitUsage, "--sort"},
		{3001, []string{"job", jobsOf["boris"][0], "--html", "x.html"}, cli.ExitUsage, "--html"},
		{3001, []string{"jobs", "--csv"}, cli.ExitUsage, "--csv"},
		{3001, []string{"jobs", "--color", "blue"}, cli.ExitUsage, "--color"},
		{3001, []string{"jobs", "--dir", "/nowhere"}, cli.ExitUsage, "/nowhere"},
		{3333, []string{"jobs"}, cli.ExitFailed, "this user is not known"},
		{65534, []string{"jobs"}, cli.ExitFailed, "not visible outside your namespace"},
		{0, []string{"jobs"}, cli.ExitFailed, "root owns no jobs"},
	} {
		if status, stdout, stderr := n.as(c.uid, c.args...); status != c.status || !strings.Contains(stderr, c.says) {
			t.Errorf("uid %d, %v: %d %s%s", c.uid, c.args, status, stdout, stderr)
		}
	}
	if _, ascii, _ := n.as(3001, "job", jobsOf["boris"][0], "--ascii"); strings.ContainsFunc(ascii, func(r rune) bool { return r > 127 }) {
		t.Errorf("--ascii: %s", ascii)
	}
	began := time.Now()
	if status, _, stderr := n.as(3002, "job", jobsOf["dana"][0]); status != cli.ExitDone {
		t.Error(stderr)
	}
	t.Logf("weir job took %s on the login node", strconv.FormatFloat(time.Since(began).Seconds(), 'f', 2, 64))
}

// TestConsoleNeedsItsConfiguration: a service that would answer nobody does not start, and names the key.
func TestConsoleNeedsItsConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clitest.Certificate(t, dir, time.Now())
	tls := fmt.Sprintf("tls: {ca_file: %[1]s/cert.pem, cert_file: %[1]s/cert.pem, key_file: %[1]s/key.pem}", dir)
	for says, c := range map[string]struct {
		text string
		args []string
	}{
		"console.listen is empty":      {"console: {relays: [a], " + tls + "}", nil},
		"console.relays is empty":      {"console: {listen: '127.0.0.1:0', " + tls + "}", nil},
		"console.tls.ca_file is empty": {"console: {listen: '127.0.0.1:0', relays: [a]}", nil},
		"console.address is empty":     {"console: {" + tls + "}", []string{"--relay"}},
		"an empty console.listen":      {"console: {address: 'a:1', listen: 'b:1'}", []string{"--relay"}},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(says, " ", "-")+".yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"console", "--config", file}, c.args...)
		if status, _, stderr := clitest.Weir(t.Context(), args...); status != cli.ExitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%s: %d %s", says, status, stderr)
		}
	}
}
