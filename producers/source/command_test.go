package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tooLong is how long a test waits for what must happen.
const tooLong = 30 * time.Second

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(tooLong); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in %v: not %s", tooLong, what)
		}
	}
}

// pidIn returns the process that a script wrote into a file.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	var pid int
	eventually(t, "a pid in "+file, func() bool {
		b, _ := os.ReadFile(file)
		text, ended := strings.CutSuffix(string(b), "\n")
		if ended {
			pid, _ = strconv.Atoi(text)
		}
		return pid > 0
	})
	return pid
}

// gone reports whether no process has this id. A zombie is one that has.
func gone(pid int) bool { return errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// ended is gone, for a process whose parent is not this one: init may leave it a zombie.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("WEIR_SECRET", "password")
	plain := filepath.Join(dir, "plain.sh")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\necho plain 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		argv []string
		want string // of its output
		err  string // in its error
	}{
		"values":            {argv: sh("echo a 1; echo b 2"), want: "a 1\nb 2\n"},
		"arguments":         {argv: []string{"/bin/echo", "$HOME; *", "b"}, want: "$HOME; * b\n"},
		"no input":          {argv: sh("cat; echo end"), want: "end\n"},
		"nothing inherited": {argv: []string{"/usr/bin/env"}, want: strings.Join(environment, "\n") + "\n"},
		"directory":         {argv: []string{"/bin/pwd"}, want: "/\n"},
		"exit status":       {argv: sh("echo a 1; exit 3"), err: "exit status 3"},
		"complaint":         {argv: sh("echo 'no device' >&2; exit 1"), err: `it wrote "no device"`},
		"warning":           {argv: sh("echo careful >&2; echo a 1"), want: "a 1\n"},
		"megabytes of complaint": {
			argv: sh("head -c 4000000 /dev/zero | tr '\\0' x >&2; echo a 1"), want: "a 1\n",
		},
		"killed":         {argv: sh("kill -9 $$"), err: "signal: killed"},
		"not there":      {argv: []string{filepath.Join(dir, "none")}, err: "no such file"},
		"not executable": {argv: []string{plain}, err: "permission denied"},
		"a directory":    {argv: []string{dir}, err: "permission denied"},
		"megabytes":      {argv: []string{"/usr/bin/yes"}, err: "more than 262144 bytes"},
		"binary":         {argv: sh("head -c 1000000 /dev/urandom"), err: "more than 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := command(t.Context(), c.argv, 2*tooLong)
			if c.err == "" && (err != nil || string(out) != c.want) {
				t.Errorf("%.80q, %v, want %q", out, err, c.want) // not the whole environment
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || len(err.Error()) > 4*maxStderr) {
				t.Errorf("%.80q, %v, want an error with %q", out, err, c.err)
			}
		})
	}
}

// TestCommandEndsWithItsChildren: whatever ends a command ends its children too, and no zombie of it is left. A timeout
// is long enough for a script to begin, also on a busy machine.
func TestCommandEndsWithItsChildren(t *testing.T) {
	const timeout = 3 * time.Second
	for name, c := range map[string]struct {
		after   string // what the script does after it started a child
		timeout time.Duration
		cancel  bool
		err     error
	}{
		"timeout":      {after: "wait", timeout: timeout, err: errTimeout},
		"deaf":         {after: "trap '' TERM INT HUP; wait", timeout: timeout, err: errTimeout},
		"agent's end":  {after: "wait", timeout: tooLong, cancel: true},
		"left behind":  {after: "exit 0", timeout: tooLong},
		"long output":  {after: "exec yes", timeout: tooLong, err: errOutput},
		"silent child": {after: "exec >&- 2>&-; wait", timeout: timeout, err: errTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			self, child := filepath.Join(dir, "self"), filepath.Join(dir, "child")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := command(ctx, sh("echo $$ >"+self+"; sleep 100000 & echo $! >"+child+"; "+c.after), c.timeout)
				done <- err
			}()
			pid, of := pidIn(t, self), pidIn(t, child)
			if c.cancel {
				cancel()
			}
			select {
			case err := <-done:
				if c.err != nil && !errors.Is(err, c.err) || c.cancel && err == nil || !c.cancel && c.err == nil &&
					err != nil {
					t.Errorf("%v, want %v", err, c.err)
				}
			case <-time.After(tooLong):
				t.Fatal("it does not end")
			}
			if !gone(pid) {
				t.Error("the command is still there, or a zombie")
			}
			eventually(t, "the end of its child", func() bool { return ended(of) })
		})
	}
}

// TestCommandThatEscapes: a child in a session of its own keeps the pipes open. The command that left it behind still
// has its values, and soon.
func TestCommandThatEscapes(t *testing.T) {
	child := filepath.Join(t.TempDir(), "child")
	began := time.Now()
	out, err := command(t.Context(), sh("echo a 1; setsid sh -c 'echo $$ >"+child+"; exec sleep 60' & "+
		"while ! [ -s "+child+" ]; do :; done"), tooLong)
	pid := pidIn(t, child)
	defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
	if err != nil || string(out) != "a 1\n" {
		t.Errorf("%q, %v", out, err)
	}
	if took := time.Since(began); took > tooLong/2 {
		t.Errorf("it took %v", took)
	}
}

// TestCommandHasNoCapability: systemd gives the agent an ambient capability for perf events, which children inherit.
func TestCommandHasNoCapability(t *testing.T) {
	const key = "WEIR_TEST_CAPABILITY"
	if file := os.Getenv(key); file != "" { // the agent's part
		r := &runner{
			argv: sh("cat /proc/self/status >" + file + ".new; mv " + file + ".new " + file), timeout: tooLong,
			interval: time.Second,
		}
		r.begin()
		eventually(t, "a run", func() bool { _, err := os.Stat(file); return err == nil })
		r.end()
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "status")
	agent := exec.Command(self, "-test.run", "^TestCommandHasNoCapability$")
	agent.Env = append(os.Environ(), key+"="+file)
	agent.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: []uintptr{unix.CAP_NET_BIND_SERVICE}}
	if err := agent.Start(); err != nil {
		t.Skipf("no right to give a capability: %v", err)
	}
	if err := agent.Wait(); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "CapAmb:\t0000000000000000\n") {
		t.Errorf("it has capabilities:\n%s", status)
	}
}

// TestCommandEndsWithTheAgent: an agent that is killed leaves no command behind. The kernel sees to it.
func TestCommandEndsWithTheAgent(t *testing.T) {
	const key = "WEIR_TEST_COMMAND"
	if file := os.Getenv(key); file != "" { // the agent's part
		r := &runner{
			argv: sh("echo $$ >" + file + "; exec sleep 100000"), timeout: 2 * tooLong, interval: time.Second,
		}
		r.begin()
		time.Sleep(2 * tooLong)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	agent := exec.Command(self, "-test.run", "^TestCommandEndsWithTheAgent$")
	agent.Env = append(os.Environ(), key+"="+file)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
	})
	pid := pidIn(t, file)
	if ended(pid) {
		t.Fatal("the command ended by itself")
	}
	_ = agent.Process.Kill()
	eventually(t, "the end of the command", func() bool { return ended(pid) })
}
