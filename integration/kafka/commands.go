package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// errRunning is returned when up finds brokers that an up before it started.
var errRunning = errors.New("brokers run already: stop them with down")

// up starts brokers that outlive this process, and writes their addresses.
func up(ctx context.Context, o options, stdout, stderr io.Writer) error {
	unlock, err := lock(ctx, o.dir, stderr)
	if err != nil {
		return err
	}
	defer unlock()
	data := filepath.Join(o.dir, "data")
	if err := free(o.dir, data); err != nil {
		return err
	}
	before, err := readPids(filepath.Join(o.dir, "pids"))
	if err != nil {
		return err
	}
	for _, p := range before {
		if p.alive() {
			return fmt.Errorf("%w (pid %d, %s)", errRunning, p.pid, o.dir)
		}
	}
	libs, err := fetch(ctx, o.dir, stderr)
	if err != nil {
		return err
	}
	if err := renew(data); err != nil {
		return fmt.Errorf("emptying the data directory: %w", err)
	}
	began := time.Now()
	c, err := startCluster(ctx, data, libs, o, &syscall.SysProcAttr{Setsid: true})
	if err != nil {
		return err
	}
	seeds, environ := c.seeds(plaintext), strings.Join(c.environ(), "\n")
	err = errors.Join(
		writePids(filepath.Join(o.dir, "pids"), c.processes),
		os.WriteFile(filepath.Join(o.dir, "brokers"), []byte(seeds+"\n"), 0o644),
		os.WriteFile(filepath.Join(o.dir, "environ"), []byte(environ+"\n"), 0o644),
	)
	if err != nil {
		return errors.Join(fmt.Errorf("writing what runs where: %w", err), stopAll(c.processes, stderr))
	}
	fmt.Fprintf(stderr, "kafka: %d of %d brokers up after %.1f s; logs in %s\n",
		o.brokers, o.brokers, time.Since(began).Seconds(), data)
	const others = "kafka: for clients with a password or a certificate, signed by the authority in KAFKA_DIR/%s:\n%s\n"
	fmt.Fprintf(stderr, others, tlsDir, environ)
	fmt.Fprintln(stdout, seeds)
	return nil
}

// free returns nil if up may write into a directory: data is ours, and so are the files beside it that down removes.
func free(dir, data string) error {
	if err := ours(data); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(data, mark)); err == nil {
		return nil // an up before this one wrote the files
	}
	for _, name := range []string{"pids", "brokers", "environ"} {
		file := filepath.Join(dir, name)
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(fmt.Errorf("%s is %w", file, errNotOurs), err)
		}
	}
	return nil
}

// down stops the brokers that up started. It returns no error if nothing runs.
func down(dir string, stderr io.Writer) error {
	file := filepath.Join(dir, "pids")
	started, err := readPids(file)
	if err != nil {
		return err
	}
	if len(started) == 0 {
		fmt.Fprintf(stderr, "kafka: nothing was started in %s\n", dir)
		return nil
	}
	if err := stopAll(started, stderr); err != nil {
		return err
	}
	for _, f := range []string{file, filepath.Join(dir, "brokers"), filepath.Join(dir, "environ")} {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forgetting what ran: %w", err)
		}
	}
	return nil
}

// files writes the files of brokers into a directory, for others to start them, and prints their addresses.
func files(ctx context.Context, o options, stdout, stderr io.Writer) error {
	libs, err := fetchLocked(ctx, o.dir, stderr)
	if err != nil {
		return err
	}
	target, err := filepath.Abs(o.command[0])
	if err == nil {
		err = renew(target)
	}
	if err != nil {
		return fmt.Errorf("emptying the directory for files: %w", err)
	}
	c, err := newCluster(target, libs, o, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\nKAFKA_LIBS=%s\n", strings.Join(c.environ(), "\n"), libs)
	return nil
}

// run starts brokers on a directory of their own, runs the command, and stops the brokers regardless of its outcome.
// The command may stop or kill a broker, by the list of process ids, and gets it back after a while.
func run(ctx context.Context, o options, stdout, stderr io.Writer) (status int, err error) {
	libs, err := fetchLocked(ctx, o.dir, stderr)
	if err != nil {
		return exitFailed, err
	}
	data, err := os.MkdirTemp("", "weir-kafka-")
	if err != nil {
		return exitFailed, fmt.Errorf("making a data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	// A group of their own, so that Ctrl-C does not stop the brokers under the command.
	c, err := startCluster(ctx, data, libs, o, &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL})
	if err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, stopAll(c.processes, stderr)) }()
	if err := writePids(c.pids(), c.processes); err != nil {
		return exitFailed, err
	}
	fmt.Fprintf(stderr, "kafka: brokers on %s\n", c.seeds(plaintext))
	return runCommand(ctx, o.command, c.environ(), c.tend(o.restartAfter, stderr), stdout, stderr)
}

// runCommand runs a command and returns its exit status, 128 + n when signal n ended it. When ctx ends, the command and
// its children get SIGTERM. The command has 10 s to end; children that remain after it get SIGKILL. Meanwhile this
// goroutine tends the brokers, because its thread lasts.
func runCommand(
	ctx context.Context, command, environ []string, tend func(), stdout, stderr io.Writer,
) (status int, err error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		return exitFailed, fmt.Errorf("running the command: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-poll.C:
			tend()
		}
	}
	if ctx.Err() != nil {
		// An error means that no child is left, as intended.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if cmd.ProcessState == nil {
		return exitFailed, fmt.Errorf("waiting for the command: %w", err)
	}
	return statusOf(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

func statusOf(w syscall.WaitStatus) int {
	if w.Signaled() {
		return 128 + int(w.Signal())
	}
	return w.ExitStatus()
}
