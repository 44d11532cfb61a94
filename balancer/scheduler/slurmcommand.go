package scheduler

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// lines hands each line of a command to take.
func (s *SlurmSource) lines(ctx context.Context, take func(line string) error, name string, args ...string) error {
	return s.run(ctx, func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxLineBytes)
		for lines.Scan() {
			if err := take(lines.Text()); err != nil {
				return err
			}
		}
		if errors.Is(lines.Err(), bufio.ErrTooLong) {
			return errors.New("a line longer than 4 MiB")
		}
		return lines.Err()
	}, name, args...)
}

// run runs one of Slurm's commands and hands its output to read. When ctx ends, it kills a command that hangs and all
// processes that the command started. The command may be a site's script around Slurm's own.
func (s *SlurmSource) run(ctx context.Context, read func(io.Reader) error, name string, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills a command with unread output
	cmd := exec.CommandContext(ctx, filepath.Join(s.cfg.Bin, name), args...)
	cmd.Env = slurmEnviron(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// Waiting ends even if a process outside the group keeps the output or the errors open.
	cmd.WaitDelay = time.Second
	var said strings.Builder
	cmd.Stderr = &limitedWriter{to: &said, left: 300}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	defer context.AfterFunc(ctx, func() { _ = out.Close() })()
	if err := read(out); err != nil && ctx.Err() == nil {
		cancel()
		_ = cmd.Wait() // we ended it
		return fmt.Errorf("reading %s: %w", name, err)
	}
	err = cmd.Wait()
	switch text := strings.Join(strings.Fields(said.String()), " "); {
	case ctx.Err() != nil && text != "":
		return fmt.Errorf("running %s: no answer within %v: %.200q", name, s.cfg.Timeout, text)
	case ctx.Err() != nil:
		return fmt.Errorf("running %s: no answer within %v", name, s.cfg.Timeout)
	case err != nil && text != "":
		return fmt.Errorf("running %s: %w: %.200q", name, err, text)
	case err != nil:
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

// slurmEnviron returns an environment in which Slurm's commands print exactly the requested output. It is free of the
// administrator's filters and formats, and times are in UTC.
func slurmEnviron(environ []string) []string {
	kept := slices.DeleteFunc(slices.Clone(environ), func(e string) bool {
		return strings.HasPrefix(e, "SQUEUE_") || strings.HasPrefix(e, "SINFO_") || strings.HasPrefix(e, "SCONTROL_") ||
			strings.HasPrefix(e, "SLURM_CLUSTERS=")
	})
	return append(kept, "TZ=UTC", "LC_ALL=C", "SLURM_TIME_FORMAT=standard")
}

// limitedWriter keeps the beginning of its input and drops the rest.
type limitedWriter struct {
	to   io.Writer
	left int
}

// Write takes everything and keeps the beginning. An error would end the command, and its exit status would be lost.
func (w *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if _, err := w.to.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
