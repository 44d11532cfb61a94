package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// TestAgentsMeasure: three agents on this host measure each other when they are ordered to. The process of an agent
// that measures does not outlive it. It does not outlive the command that gave the order, either.
func TestAgentsMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	beside(t)
	s, m := newSystem(t), newMachine(t)
	s.cfg.Agent.Perf, s.cfg.Agent.StateDir = false, ""
	s.cfg.Agent.Topology = config.AgentTopology{Enabled: true, Listen: ":7118", Share: .5}
	file := s.configFile()
	agents := make([]*process, 3)
	for i := range agents {
		agents[i] = m.addAgent(i, file, "WEIR_AGENT_TOPOLOGY_LISTEN="+freePort(t))
		agents[i].start()
	}
	order := func(args ...string) *exec.Cmd {
		args = append([]string{"topology", "measure", "--agents", "--config", file}, args...)
		cmd := exec.CommandContext(t.Context(), m.binary, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}

	latencies := filepath.Join(t.TempDir(), "latencies.csv")
	cmd := order("--on", "n[0-2]", "--passes", "1", "--out", latencies, "--json")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("measuring: %v: %s", err, errs.String())
	}
	var report struct{ Nodes, Pairs int }
	if err := json.Unmarshal(out, &report); err != nil || report.Nodes != 3 || report.Pairs < 3 {
		t.Errorf("%v: %s: %s", err, out, errs.String())
	}
	if matrix, err := latency.ReadFile(latencies); err != nil || strings.Join(matrix.Names(), " ") != "n0 n1 n2" {
		t.Errorf("the latencies: %v", err)
	}
	if files, _ := filepath.Glob("/proc/self/task/*/children"); len(files) == 0 {
		t.Skip("SKIPPED: NO CHILD OF AN AGENT WAS WATCHED: this kernel does not list children")
	}
	for _, a := range agents {
		kafkatest.Eventually(t, "a node has ended its part", func() bool { return len(childrenOf(a.pid())) == 0 })
	}

	waiting := order("--nodes", "4") // which are not there
	errs.Reset()
	waiting.Stderr = &errs
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	children := make([]int, len(agents))
	kafkatest.Eventually(t, "all nodes take part", func() bool {
		for i, a := range agents {
			if all := childrenOf(a.pid()); len(all) == 1 {
				children[i] = all[0]
			}
		}
		return children[0]*children[1]*children[2] != 0
	})
	agents[0].kill()
	kafkatest.Eventually(t, "the part of a killed agent has ended", func() bool { return !isThere(children[0]) })
	if err := waiting.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := waiting.Wait(); err == nil || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("after Ctrl-C: %v: %s", err, errs.String())
	}
	for _, child := range children[1:] {
		kafkatest.Eventually(t, "a node's part has ended", func() bool { return !isThere(child) })
	}
	endAll(agents[1:]...)
}

// addAgent describes the agent of a node. If the test can install filters, the agent of node 0 runs under the
// restrictions of its unit.
func (m *machine) addAgent(i int, config string, env ...string) *process {
	m.t.Helper()
	env = append(env, fmt.Sprintf("WEIR_AGENT_NODE=n%d", i))
	err := canFilter()
	if i > 0 || err != nil {
		if err != nil {
			m.t.Logf("NO AGENT MEASURED UNDER ITS UNIT'S FILTER: %v", err)
		}
		return m.add(fmt.Sprintf("agent-n%d", i), env, "agent", "--config", config)
	}
	u, err := readUnit("../deploy/systemd/weir-agent.service")
	if err != nil {
		m.t.Fatal(err)
	}
	p := m.addUnit(u, config, strict)
	made := p.make
	p.make = func() *exec.Cmd {
		cmd := made()
		cmd.Env = append(cmd.Env, env...)
		return cmd
	}
	return p
}

// freePort returns an unused UDP address of this host.
func freePort(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

// childrenOf returns the processes that a process started.
func childrenOf(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for f := range strings.FieldsSeq(string(text)) {
			var child int
			if _, err := fmt.Sscan(f, &child); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// isThere reports whether a process runs.
func isThere(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
