package producers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asSlackened makes TestSlackenedProcess the process that TestSlackOfAllThreads starts.
const asSlackened = "WEIR_TEST_SLACKENED"

// TestSlackOfAllThreads: the kernel tells that each thread of a process that slackens has 2 ms, Go's own threads too. A
// process that was started with another slack keeps it.
func TestSlackOfAllThreads(t *testing.T) {
	for started, want := range map[time.Duration]time.Duration{
		kernelSlack:           2 * time.Millisecond,
		time.Millisecond:      time.Millisecond,
		60 * time.Millisecond: 60 * time.Millisecond,
	} {
		t.Run(fmt.Sprint("started with ", started), func(t *testing.T) {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSlackenedProcess$")
			c.Env = append(os.Environ(), asSlackened+"=1")
			c.Stderr = os.Stderr
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.StdoutPipe()
			if err == nil {
				err = startWith(started, c)
			}
			if err != nil {
				t.Fatal(err)
			}
			told := make([]byte, 4096)
			n, err := out.Read(told)
			if err != nil {
				t.Fatal(err)
			}
			threads := slackOf(t, c.Process.Pid)
			if len(threads) < 3 && os.Geteuid() == 0 {
				t.Errorf("%d threads", len(threads))
			}
			for thread, slack := range threads {
				if slack != want {
					t.Errorf("thread %s has %s, want %s", thread, slack, want)
				}
			}
			if want := fmt.Sprint(want, " ", c.Process.Pid, "\n"); string(told[:n]) != want {
				t.Errorf("the process tells %q, want %q", told[:n], want)
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSlackenedProcess tells its slack and its id once it has slackened, and waits for the end of its input.
func TestSlackenedProcess(t *testing.T) {
	if os.Getenv(asSlackened) == "" {
		t.Skip("TestSlackOfAllThreads starts it")
	}
	if err := Slacken(); err != nil {
		t.Fatal(err)
	}
	if value, is := os.LookupEnv(slackened); is {
		t.Errorf("commands would inherit %s=%s", slackened, value)
	}
	slack, err := threadSlack()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(slack, os.Getpid())
	_, _ = os.Stdin.Read(make([]byte, 1)) // its end is all that matters
}

// startWith starts a command with a timer slack, which a process has from the thread that starts it.
func startWith(slack time.Duration, c *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := threadSlack()
	if err != nil {
		return err
	}
	return errors.Join(setThreadSlack(slack), c.Start(), setThreadSlack(was))
}

// slackOf reads the timer slack of each thread of a process. The kernel shows it to CAP_SYS_NICE alone.
func slackOf(t *testing.T, pid int) map[string]time.Duration {
	t.Helper()
	all := map[string]time.Duration{}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(filepath.Join("/proc", task.Name(), "timerslack_ns"))
		if errors.Is(err, fs.ErrPermission) {
			t.Log("THE THREADS ARE NOT SEEN: the kernel shows their slack to CAP_SYS_NICE alone")
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // it ended meanwhile
		}
		ns, wrong := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err := errors.Join(err, wrong); err != nil {
			t.Fatal(err)
		}
		all[task.Name()] = time.Duration(ns)
	}
	return all
}
