package topology_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/measure"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/simulated"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/topology"
)

// measureTopology runs weir topology measure. It returns the exit status and both outputs.
func measureTopology(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr strings.Builder
	status = commands.Run(t.Context(), append([]string{"topology", "measure"}, args...), &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// TestTopologyMeasure measures a made-up network by both methods. The files have its latencies and its switches.
func TestTopologyMeasure(t *testing.T) {
	truth := simulated.Tree([]int{3, 4, 8})
	for _, method := range []string{"all", "adaptive"} {
		dir := t.TempDir()
		latencies, tree := filepath.Join(dir, "l.csv"), filepath.Join(dir, "tree.yaml")
		status, out, errs := measureTopology(t, "--simulate", "tree:3x4x8", "--noise", ".03", "--outliers", ".01",
			"--method", method, "--out", latencies, "--network", tree, "--json")
		if status != cli.ExitDone {
			t.Fatalf("%s: status %d: %s", method, status, errs)
		}
		var m topology.Measured
		if err := json.Unmarshal([]byte(out), &m); err != nil {
			t.Fatalf("%s: %v: %s", method, err, out)
		}
		if m.Nodes != 96 || m.Switches != 16 || m.Method != method || m.Confidence.Level != "high" || m.Pairs == 0 {
			t.Errorf("%s: %s", method, out)
		}
		found, err := network.ReadFile(tree)
		if err != nil || !network.Equal(found, truth) {
			t.Errorf("%s: wrong network (%v)", method, err)
		}
		matrix, err := latency.ReadFile(latencies)
		if err != nil || matrix.Len() != 96 {
			t.Errorf("%s: latencies: %v", method, err)
		}
	}
}

// TestTopologyMeasureOutput writes the latencies to standard output, and the report to standard error.
func TestTopologyMeasureOutput(t *testing.T) {
	status, out, errs := measureTopology(t, "--simulate", "tree:3x8", "--noise", ".02")
	if status != cli.ExitDone || !strings.Contains(errs, "tree of 24 nodes and 4 switches, confidence high") {
		t.Errorf("status %d: %s", status, errs)
	}
	if m, err := latency.Read(strings.NewReader(out)); err != nil || m.Len() != 24 {
		t.Errorf("latencies: %v", err)
	}
}

// TestTopologyMeasureJournal goes on from a journal, and refuses that of other nodes.
func TestTopologyMeasureJournal(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal.csv")
	for _, first := range []bool{true, false} {
		status, out, errs := measureTopology(t, "--simulate", "star:8", "--journal", journal, "--json")
		if status != cli.ExitDone || strings.Contains(out, `"replayed":0,`) != first {
			t.Errorf("status %d: %s %s", status, out, errs)
		}
	}
	status, _, errs := measureTopology(t, "--simulate", "star:9", "--journal", journal)
	if status != cli.ExitFailed || !strings.Contains(errs, "of 8 nodes, and these are 9") {
		t.Errorf("status %d: %s", status, errs)
	}
}

func TestTopologyMeasureUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                          "--simulate",
		"--simulate star:8 --threads":               "one of",
		"--simulate star:8 --method some":           "--method",
		"--simulate star:8 --passes -1":             "--passes",
		"--simulate star:8 --share 2":               "--share",
		"--simulate star:8 --packets-per-second -1": "--packets-per-second",
		"--simulate star:8 --network tree.txt":      "--network",
		"--simulate star:8 --noise -1":              "--noise",
		"--simulate star:8 --outliers 2":            "--outliers",
		"--simulate star:8 --tick -1":               "--tick",
		"--simulate moon:8":                         "moon",
		"--agents --on n1":                          "--on",
		"--agents --on n[":                          "--on",
		"--agents --nodes 1":                        "--nodes",
		"--agents --nodes 200000":                   "--nodes",
		"--agents --on n[1-200000]":                 "--on",
		"--agents --for 25h":                        "--for",
		"--agents --wait 0s":                        "--wait",
		"--agents --wait 3m":                        "--wait",
		"--agents --for 10s --wait 11s":             "--wait",
		"--agents --address host":                   "--address",
		"--agents --address 0.0.0.0:7117":           "--address",
		"--agents --bytes 1":                        "bytes",
		"--agents --config none.yaml":               "none.yaml",
		"--simulate ./none.tgf":                     "none.tgf",
	} {
		status, _, errs := measureTopology(t, strings.Fields(args)...)
		if status != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, want %d and %q: %s", args, status, cli.ExitUsage, want, errs)
		}
	}
}

// TestTopologyMeasureFile measures the network of a file.
func TestTopologyMeasureFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.tgf")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := simulated.Tree([]int{2, 6}).Write(f, network.TGF); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := measureTopology(t, "--simulate", file, "--noise", ".01"); status != cli.ExitDone ||
		!strings.Contains(errs, "tree of 12 nodes") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// peer starts the process of an agent, and writes its task. The returned pipe is its standard input.
func peer(t *testing.T, c *exec.Cmd, m measure.Member) io.Closer {
	t.Helper()
	task, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); errors.Is(err, syscall.EPERM) && c.SysProcAttr != nil {
		t.Skipf("SKIPPED: THIS CONTAINER HAS NO CAP_PERFMON TO GIVE AWAY: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(append(task, '\n')); err != nil {
		t.Fatal(err)
	}
	return in
}

// TestTopologyPeer: the process of an agent takes part as its standard input says, and ends with its input.
func TestTopologyPeer(t *testing.T) {
	secret := []byte("0123456789abcdef")
	r, err := measure.Coordinate(measure.Meeting{Address: "127.0.0.1:0", Secret: secret, Ping: measure.DefaultPing})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var inputs []io.Closer
	var peers []*clitest.Started
	for _, name := range []string{"n1", "n2"} {
		p := &clitest.Started{Cmd: clitest.Process(t, nil, "topology", "peer")}
		p.Stderr = &p.Errs
		peers = append(peers, p)
		inputs = append(inputs, peer(t, p.Cmd, measure.Member{
			Coordinator: r.Address(), Secret: secret, Name: name, Listen: "127.0.0.1:0",
		}))
	}
	if err := r.Gather(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	us, err := r.Measure(t.Context(), []latency.Pair{{A: 0, B: 1}})
	if err != nil || !(us[0] > 0) {
		t.Errorf("%v us: %v", us, err)
	}
	_ = inputs[0].Close() // the agent is gone
	if err := peers[0].Wait(); err == nil || !strings.Contains(peers[0].Errs.String(), "context canceled") {
		t.Errorf("without its agent: %v: %s", err, peers[0].Errs.String())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := peers[1].Wait(); err != nil {
		t.Errorf("at the end: %v: %s", err, peers[1].Errs.String())
	}
}

// TestTopologyPeerHasNoPrivilege: no thread of the process that listens has a capability, nor can it get one. The agent
// that starts it has CAP_PERFMON, as by perf.conf.
func TestTopologyPeerHasNoPrivilege(t *testing.T) {
	secret := []byte("0123456789abcdef")
	r, err := measure.Coordinate(measure.Meeting{Address: "127.0.0.1:0", Secret: secret, Ping: measure.DefaultPing})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := clitest.Process(t, nil, "topology", "peer")
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: []uintptr{unix.CAP_PERFMON}}
	} else {
		t.Log("NOT ROOT: THE PROCESS BEGINS WITHOUT A CAPABILITY, SO THAT ONLY no_new_privs IS TRIED")
	}
	in := peer(t, c, measure.Member{Coordinator: r.Address(), Secret: secret, Name: "n1", Listen: "127.0.0.1:0"})
	defer func() { _, _ = in.Close(), c.Wait() }()
	kafkatest.Eventually(t, "the process takes part", func() bool { return r.Came() == 1 })
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", c.Process.Pid))
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	const none = "0000000000000000"
	for _, file := range threads {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		for key, want := range map[string]string{
			"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none, "NoNewPrivs": "1",
		} {
			if line := key + ":\t" + want + "\n"; !strings.Contains(string(status), line) {
				t.Errorf("%s has no %q", file, line)
			}
		}
	}
}

func TestTopologyPeerUsage(t *testing.T) {
	for _, in := range []string{"", "rubbish", `{"Coordinator":1}`, `{"Unknown":""}`} {
		c := clitest.Process(t, nil, "topology", "peer")
		c.Stdin = strings.NewReader(in)
		out, err := c.CombinedOutput()
		if err == nil || c.ProcessState.ExitCode() != cli.ExitUsage || !strings.Contains(string(out), "standard input") {
			t.Errorf("%q: %v: %s", in, err, out)
		}
	}
}

// TestRendezvousListensWhereOthersCome: at the address that was given, and not at all of this host's.
func TestRendezvousListensWhereOthersCome(t *testing.T) {
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"127.0.0.2:0": "127.0.0.2:", "localhost:0": "127.0.0.1:", "192.0.2.1:0": "[::]:",
	} {
		var said strings.Builder
		c := topology.NewTopologyMeasure()
		c.SetErr(&said)
		c.SetContext(t.Context())
		f := topology.RendezvousFlags{Ping: measure.DefaultPing, Hosts: hosts}
		r, err := f.Meet(c, at, measure.Meeting{Secret: []byte("0123456789abcdef")})
		if err != nil {
			t.Fatal(err)
		}
		everywhere := strings.Contains(said.String(), "all of them")
		if got := r.Address(); !strings.HasPrefix(got, want) || everywhere != (want == "[::]:") {
			t.Errorf("at %s it listens at %s: %s", at, got, said.String())
		}
		_ = r.Close()
	}
	f := topology.RendezvousFlags{Ping: measure.DefaultPing, Hosts: hosts + ".none"}
	if _, err := f.Meet(topology.NewTopologyMeasure(), "127.0.0.1:0", measure.Meeting{}); err == nil ||
		!strings.Contains(err.Error(), "--hosts") {
		t.Errorf("a file that is missing: %v", err)
	}
}

// stuck is a Measurer with rounds that only the context ends.
type stuck struct{}

func (stuck) Names() []string { return []string{"n1", "n2"} }

func (stuck) Measure(ctx context.Context, _ []latency.Pair) ([]float64, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// patient is a Measurer that takes no time, with a budget that wants a long one.
type patient struct{ stuck }

func (patient) Measure(context.Context, []latency.Pair) ([]float64, error) {
	time.Sleep(time.Millisecond)
	return []float64{1}, nil
}

// TestForEndsTheMeasurement: neither a round nor a pause between two lasts beyond --for.
func TestForEndsTheMeasurement(t *testing.T) {
	for _, m := range []latency.Measurer{stuck{}, patient{}} {
		c := topology.NewTopologyMeasure()
		c.SetErr(io.Discard)
		c.SetContext(t.Context())
		agents := topology.AgentsFlags{Longest: 50 * time.Millisecond}
		defer agents.Bound(c)()
		f := topology.MeasureFlags{Budget: measure.Budget{Share: 1e-6}}
		begun := time.Now()
		_, err := f.Campaign(c, m)
		took := time.Since(begun)
		if took > 20*time.Second || err == nil || !strings.Contains(err.Error(), "--for 50ms is over") {
			t.Errorf("%T: after %v: %v", m, took, err)
		}
	}
}
