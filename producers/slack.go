package producers

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// kernelSlack is the timer slack of a process to which nobody gave another.
	kernelSlack = 50 * time.Microsecond
	// agentSlack is worth a tenth of a cycle or more. Go's runtime looks after its threads in a thread of its own,
	// which sleeps 20 us at a time while anything runs. With this slack it wakes up once in 2 ms. Samples keep their
	// instant, because timers of timerfd_create(2) have no slack.
	agentSlack = 2 * time.Millisecond

	// slackened is in the environment of the program that Slacken starts, and nowhere else.
	slackened = "WEIR_AGENT_SLACKENED"
)

// Slacken gives all threads of this process a timer slack of 2 ms, unless it was started with a slack of its own, such
// as TimerSlackNSec of a systemd unit. A thread sets only its own slack, and no goroutine runs on the thread of Go's
// runtime that needs it most. syscall.AllThreadsSyscall reaches that one too, but not in a program that may load a C
// library, as weir does for GPUs. A program that is started anew has the slack in all of its threads. So Slacken
// executes this program again, in the same process, and returns in the new program only. Therefore main calls it before
// anything else. An error means that the process goes on with the slack that it had.
func Slacken() error {
	if os.Getenv(slackened) != "" {
		return os.Unsetenv(slackened) // the agent's commands do not inherit it
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := threadSlack()
	if err != nil || was != kernelSlack {
		return err
	}
	if err := setThreadSlack(agentSlack); err != nil {
		return err
	}
	// Threads of a real-time class have no slack, and other kernels may have none at all.
	if is, err := threadSlack(); err != nil || is != agentSlack {
		return err
	}
	program, err := os.Executable()
	if err == nil {
		err = syscall.Exec(program, os.Args, append(os.Environ(), slackened+"=1"))
	}
	_ = setThreadSlack(was) // it was possible a moment ago
	return fmt.Errorf("starting this program again with its timer slack: %w", err)
}

// threadSlack is how late the kernel may wake this thread up.
func threadSlack() (time.Duration, error) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return 0, fmt.Errorf("asking for the timer slack: %w", err)
	}
	return time.Duration(slack), nil
}

func setThreadSlack(slack time.Duration) error {
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err != nil {
		return fmt.Errorf("setting the timer slack: %w", err)
	}
	return nil
}
