package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is the time of a process between SIGTERM and SIGKILL. A quorum that has lost two of three does not end by
// itself: the last waits for the others in its controlled shutdown.
const patience = 10 * time.Second

var (
	// errPids is returned when the file of process ids cannot be understood.
	errPids = errors.New("not a line of a process id and a properties file")
	// errStays is returned when a process outlives SIGKILL.
	errStays = errors.New("it does not end")
	// errHidden is returned when java does not become the process that was started, but starts another.
	errHidden = errors.New("java in PATH is a script that does not exec java: put the real one first")
)

// process is a broker that was started. Process ids are reused, so the properties file in its command line identifies
// the broker.
type process struct {
	pid        int
	properties string // absolute
}

// isBroker reports whether a command line, as in /proc/PID/cmdline, belongs to a broker with these properties.
func isBroker(cmdline []byte, properties string) bool {
	args := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	return filepath.Base(args[0]) == "java" && slices.Contains(args, "kafka.Kafka") && args[len(args)-1] == properties
}

// alive reports whether the broker runs. The command line of a zombie is empty.
func (p process) alive() bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
	return err == nil && isBroker(cmdline, p.properties)
}

// appear returns when the broker, a child of this process, can be identified by its command line. The kernel sets that
// after the call that starts a program has returned, and java may be a script that ends in exec.
func (p process) appear() error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(patience)
	for !p.alive() && !p.ended() {
		select {
		case <-deadline:
			return errHidden
		case <-poll.C:
		}
	}
	return nil
}

// ended reports whether a child of this process has ended.
func (p process) ended() bool {
	pid, err := syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
	return pid == p.pid || errors.Is(err, syscall.ECHILD) // ECHILD: this was asked before
}

// signal sends a signal to the broker, but not to another process that took over its id.
func (p process) signal(s os.Signal) error {
	handle, err := os.FindProcess(p.pid) // stands for this process alone, so the check below holds until the signal
	if err != nil {
		return fmt.Errorf("finding process %d: %w", p.pid, err)
	}
	defer func() { _ = handle.Release() }() // it only gives the handle back
	if !p.alive() {
		return nil
	}
	if err := handle.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to process %d: %w", s, p.pid, err)
	}
	return nil
}

// stopAll ends brokers: with SIGTERM, and after a while with SIGKILL. It cannot be interrupted, and takes two times
// patience at most.
func stopAll(brokers []process, stderr io.Writer) error {
	var faults []error
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, p := range brokers {
			faults = append(faults, p.signal(s))
		}
		brokers = waitEnd(brokers)
		if len(brokers) == 0 {
			return errors.Join(faults...)
		}
		fmt.Fprintf(stderr, "kafka: %d brokers still run %v after %v\n", len(brokers), patience, s)
	}
	for _, p := range brokers {
		faults = append(faults, fmt.Errorf("process %d: %w", p.pid, errStays))
	}
	return errors.Join(faults...)
}

// waitEnd waits until brokers have ended, and returns the ones that still run.
func waitEnd(brokers []process) []process {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(patience)
	for {
		brokers = slices.DeleteFunc(slices.Clone(brokers), func(p process) bool { return !p.alive() })
		if len(brokers) == 0 {
			return nil
		}
		select {
		case <-deadline:
			return brokers
		case <-poll.C:
		}
	}
}

func pidsText(brokers []process) string {
	var b strings.Builder
	for _, p := range brokers {
		fmt.Fprintf(&b, "%d %s\n", p.pid, p.properties)
	}
	return b.String()
}

func parsePids(text string) ([]process, error) {
	var brokers []process
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		id, properties, _ := strings.Cut(line, " ")
		pid, err := strconv.Atoi(id)
		if err != nil || pid < 1 || !filepath.IsAbs(properties) {
			return nil, fmt.Errorf("%q: %w", line, errPids)
		}
		brokers = append(brokers, process{pid, properties})
	}
	return brokers, nil
}

// writePids puts the list in place at once, so that nobody reads half of it.
func writePids(file string, brokers []process) error {
	if err := os.WriteFile(file+".new", []byte(pidsText(brokers)), 0o644); err != nil {
		return fmt.Errorf("writing what was started: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("writing what was started: %w", err)
	}
	return nil
}

// readPids returns the processes in a file of process ids, none if there is no such file.
func readPids(file string) ([]process, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what was started: %w", err)
	}
	brokers, err := parsePids(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return brokers, nil
}
