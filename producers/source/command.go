package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxOutput = 256 << 10 // bytes that a run may print: 256 metrics of 16 GPUs have 100 KiB
	maxStderr = 512       // bytes of a run's standard error that a log line shows
	// letGo is the time to wait after ending a command, in case a child that escaped keeps its pipes open.
	letGo = time.Second
)

var (
	errOutput  = fmt.Errorf("it printed more than %d bytes, and was ended", maxOutput)
	errTimeout = errors.New("it ran into its timeout, and was ended")
)

// environment is all that a command gets of it. The agent's own may hold secrets.
var environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}

// command runs a program to its end, and returns its output. It ends the program and its children if the timeout
// passes, ctx ends, or the output is too long. Children that outlive the program end with it; only a child that opened
// a session of its own escapes.
func command(ctx context.Context, argv []string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, complaint := &capped{most: maxOutput, full: cancel}, &capped{most: maxStderr}
	c.Env, c.Dir, c.Stdout, c.Stderr = environment, "/", out, complaint
	// The kernel ends the program with the agent, even if the agent is killed.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	c.WaitDelay = letGo
	if err := c.Start(); err != nil {
		return nil, err
	}
	// The group is ended before its leader is waited for. Until then nobody else can have its number.
	for errors.Is(unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		continue
	}
	late := ctx.Err()
	_ = unix.Kill(-c.Process.Pid, unix.SIGKILL) // mostly nobody is left
	err := c.Wait()
	switch {
	case out.cut:
		err = errOutput
	case errors.Is(late, context.DeadlineExceeded):
		err = errTimeout
	case errors.Is(err, exec.ErrWaitDelay):
		err = nil // the program itself ended well
	}
	if err != nil {
		if text := strings.TrimSpace(complaint.text.String()); text != "" {
			err = fmt.Errorf("%w: it wrote %q", err, text)
		}
		return nil, err
	}
	return out.text.Bytes(), nil
}

// capped keeps the first bytes that are written to it.
type capped struct {
	text bytes.Buffer
	most int
	cut  bool
	full func() // is called when more comes than is kept; nil: the rest is dropped
}

func (c *capped) Write(p []byte) (int, error) {
	room := min(len(p), c.most-c.text.Len())
	c.text.Write(p[:room])
	if room < len(p) && !c.cut {
		c.cut = true
		if c.full != nil {
			c.full()
		}
	}
	return len(p), nil
}
