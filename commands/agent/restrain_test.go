package agent_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestAgentRunsWhereItMay: every thread of the agent is on the CPUs of agent.cpus.
func TestAgentRunsWhereItMay(t *testing.T) {
	t.Parallel()
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !mine.IsSet(cpu) {
		cpu++
	}
	agent := clitest.Start(t, clitest.Process(t, []string{
		"WEIR_KAFKA_BROKERS=127.0.0.1:1", fmt.Sprintf("WEIR_AGENT_CPUS=%d", cpu), "WEIR_INTERVAL=1s",
		"WEIR_AGENT_NODE=n",
	}, "agent"))
	kafkatest.Eventually(t, "a node without a route",
		func() bool { return agent.Errs.Count("nodes without a route") > 0 })
	threads := threadsOf(t, agent, "status")
	if len(threads) < 3 {
		t.Errorf("%d threads", len(threads))
	}
	for task, status := range threads {
		if !strings.Contains(status, fmt.Sprintf("\nCpus_allowed_list:\t%d\n", cpu)) {
			t.Errorf("%s may run elsewhere:\n%s", task, status)
		}
	}
	if status := agent.Interrupt(t); status != cli.ExitDone {
		t.Errorf("status %d: %s", status, agent.Errs.String())
	}
}

// TestAgentIsIdle: with agent.idle every thread of the agent runs only where nothing else wants the CPU. A busy machine
// may not let it come to its first interval, so the test waits for the threads alone.
func TestAgentIsIdle(t *testing.T) {
	t.Parallel()
	agent := clitest.Start(t, clitest.Process(t, []string{
		"WEIR_KAFKA_BROKERS=127.0.0.1:1", "WEIR_AGENT_IDLE=true", "WEIR_AGENT_NODE=n",
	}, "agent"))
	kafkatest.Eventually(t, "threads that are all idle", func() bool {
		threads := threadsOf(t, agent, "stat")
		for _, stat := range threads {
			_, rest, _ := strings.Cut(stat, ") ")
			if strings.Fields(rest)[38] != "5" { // field 41 of proc(5); SCHED_IDLE is 5
				return false
			}
		}
		return len(threads) >= 3
	})
	if err := agent.Process.Kill(); err != nil {
		t.Error(err)
	}
	agent.End(t)
}

// TestAgentHasSlack: every thread of an agent has a timer slack of 2 ms, though no unit gave it one. The kernel shows the
// slack of threads to CAP_SYS_NICE alone.
func TestAgentHasSlack(t *testing.T) {
	t.Parallel()
	agent := clitest.Start(t, clitest.Process(t, []string{
		"WEIR_KAFKA_BROKERS=127.0.0.1:1", "WEIR_INTERVAL=1s", "WEIR_AGENT_NODE=n",
	}, "agent"))
	kafkatest.Eventually(t, "a node without a route",
		func() bool { return agent.Errs.Count("nodes without a route") > 0 })
	seen := 0
	for task := range threadsOf(t, agent, "status") {
		text, err := os.ReadFile(filepath.Join("/proc", filepath.Base(task), "timerslack_ns"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it ended meanwhile
		}
		if errors.Is(err, fs.ErrPermission) {
			t.Skip("THE SLACK IS NOT SEEN: the kernel shows it to CAP_SYS_NICE alone")
		}
		if seen++; err != nil || string(text) != "2000000\n" {
			t.Errorf("%s has a slack of %q: %v", task, text, err)
		}
	}
	if seen < 3 {
		t.Errorf("%d threads", seen)
	}
	if status := agent.Interrupt(t); status != cli.ExitDone {
		t.Errorf("status %d: %s", status, agent.Errs.String())
	}
}

// TestCheckCountsTwice: --check has perf-utils count the perf events of this host, and both agree.
func TestCheckCountsTwice(t *testing.T) {
	status, table, stderr := clitest.Weir(t.Context(), "agent", "--check")
	if status != cli.ExitDone || strings.Contains(stderr, "disagree") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if !regexp.MustCompile(`(?m)^perf_software +read`).MatchString(table) {
		t.Skip("NOTHING IS COUNTED TWICE: the kernel refuses perf events here")
	}
	if !strings.Contains(table, "\nperf-utils counted ") {
		t.Errorf("nothing was counted twice:\n%s", table)
	}
}

// threadsOf returns a file of /proc for each thread of the process, but for those that end meanwhile.
func threadsOf(t *testing.T, s *clitest.Started, file string) map[string]string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", s.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]string{}
	for _, task := range tasks {
		if text, err := os.ReadFile(filepath.Join(task, file)); err == nil {
			read[task] = string(text)
		}
	}
	if len(read) == 0 {
		t.Fatalf("the process has no threads: %s", s.Errs.String())
	}
	return read
}

// TestAgentWithoutItsCPUs: a CPU that no host has is a wrong configuration.
func TestAgentWithoutItsCPUs(t *testing.T) {
	t.Parallel()
	agent := clitest.Start(t, clitest.Process(t, []string{
		"WEIR_KAFKA_BROKERS=127.0.0.1:1", "WEIR_AGENT_CPUS=1000", "WEIR_AGENT_NODE=n",
	}, "agent"))
	if status := agent.End(t); status != cli.ExitUsage || agent.Errs.Count(`agent.cpus "1000"`) != 1 {
		t.Errorf("status %d: %s", status, agent.Errs.String())
	}
}

// TestCPUsOfALargeNode: CPUs beyond 1,023 are not left out.
func TestCPUsOfALargeNode(t *testing.T) {
	t.Parallel()
	set := agent.CPUSet([]int{1, 1023, 1500, 4095})
	if set.Count() != 4 || !set.IsSet(1500) || !set.IsSet(4095) {
		t.Errorf("%d CPUs, with 1500: %t, with 4095: %t", set.Count(), set.IsSet(1500), set.IsSet(4095))
	}
}

// TestAgentEndsWithASourceThatHangs: opening a FIFO that nobody writes to never returns, as a mount whose server is
// away. The agent names the source, keeps its boundaries, and ends at once.
func TestAgentEndsWithASourceThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "cpu  9 9 9 9\ncpu0 1 2 3 4\n"
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "meminfo"), 0o644); err != nil {
		t.Skipf("no FIFO on this file system: %v", err)
	}
	agent := clitest.Start(t, clitest.Process(t, []string{
		"WEIR_KAFKA_BROKERS=127.0.0.1:1", "WEIR_AGENT_PROC_PATH=" + dir, "WEIR_AGENT_NODE=n", "WEIR_INTERVAL=1s",
		"WEIR_AGENT_PERF=false",
	}, "agent"))
	kafkatest.Eventually(t, "the source's name", func() bool { return agent.Errs.Count("source=memory") > 0 })
	kafkatest.Eventually(t, "intervals", func() bool { return agent.Errs.Count("nodes without a route") > 0 })
	begin := time.Now()
	if status := agent.Interrupt(t); status != cli.ExitDone {
		t.Errorf("status %d: %s", status, agent.Errs.String())
	}
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("the end took %s", took)
	}
	if n := agent.Errs.Count(`msg="source is late: its values are missing" source=memory`); n != 1 {
		t.Errorf("it was named %d times:\n%s", n, agent.Errs.String())
	}
}
