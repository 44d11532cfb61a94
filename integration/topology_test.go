package integration

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/discovery/network"
)

var runNamespaces = flag.Bool("namespaces", false,
	"run TestNamespaces and TestCircle, which need root, iproute2 and a minute")

// emulation is a cluster on this host. Each node is a network namespace. Each switch is a bridge, and so is the cable
// of its uplink. All bridges are in a namespace of their own. All of it goes with the namespaces.
type emulation struct {
	t               *testing.T
	name            string // name of the namespace of the switches, and prefix of the nodes' namespaces
	switches, nodes int
}

// emulatedHub is the address of the namespace of the switches.
const emulatedHub = "10.77.255.1"

// skipNamespaces skips the test if no cluster can be emulated.
func skipNamespaces(t *testing.T) {
	t.Helper()
	if !*runNamespaces {
		t.Skip("make test-topology runs it")
	}
	const skipped = "NAMESPACES TEST SKIPPED: NO CLUSTER WAS EMULATED, SINCE "
	if os.Getuid() != 0 {
		t.Skip(skipped + "NETWORK NAMESPACES NEED ROOT")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(skipped + "ip IS MISSING (apt-get install iproute2)")
	}
	probe := fmt.Sprintf("weirprobe%d", os.Getpid())
	out, err := exec.Command("ip", "netns", "add", probe).CombinedOutput()
	if err == nil {
		out, err = exec.Command("ip", "-n", probe, "link", "add", "bridge0", "type", "bridge").CombinedOutput()
	}
	if err == nil {
		out, err = exec.Command("ip", "-n", probe, "link", "add", "veth0", "type", "veth", "peer", "name",
			"veth1").CombinedOutput()
	}
	_ = exec.Command("ip", "netns", "del", probe).Run()
	if err != nil {
		t.Skipf(skipped+"THIS KERNEL OR CONTAINER HAS NO NAMESPACES, BRIDGES OR VETH: %v: %s", err, out)
	}
}

func emulate(t *testing.T, switches, nodes int) *emulation {
	t.Helper()
	e := &emulation{t: t, name: fmt.Sprintf("weir%d", os.Getpid()), switches: switches, nodes: nodes}
	e.removeAtEnd()
	e.addNamespace(e.name)
	for i := range nodes {
		e.addNamespace(e.node(i))
	}
	e.addSwitches()
	for i := range nodes {
		e.connect(i)
	}
	return e
}

// removeAtEnd removes the namespaces when the test has ended, even if it was killed. A process waits for the end of its
// input, which this test holds.
func (e *emulation) removeAtEnd() {
	e.t.Helper()
	remove := exec.Command("sh", "-c", `cat >/dev/null
		ip netns list | while read -r name rest; do
			case $name in "$0"|"$0"n*) ip netns del "$name";; esac
		done`, e.name)
	remove.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the test's group does not end it
	input, err := remove.StdinPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := remove.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		_ = input.Close()
		_ = remove.Wait()
		if left, _ := exec.Command("ip", "netns", "list").Output(); bytes.Contains(left, []byte(e.name)) {
			e.t.Errorf("namespaces are left:\n%s", left)
		}
	})
}

// addNamespace adds a namespace without IPv6, because IPv6 sends packets of its own that would disturb.
func (e *emulation) addNamespace(name string) {
	e.t.Helper()
	e.run("netns", "add", name)
	e.run("netns", "exec", name, "sh", "-c",
		"for f in all default; do echo 1 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done")
	e.run("-n", name, "link", "set", "lo", "up")
}

func (e *emulation) addSwitches() {
	e.t.Helper()
	lines := []string{"link add root type bridge", "addr add " + emulatedHub + "/16 dev root", "link set root up"}
	for s := range e.switches {
		for _, line := range []string{
			"link add s%[1]d type bridge", "link add c%[1]d type bridge", // the switch and its cable
			"link add u%[1]d type veth peer name v%[1]d", "link add w%[1]d type veth peer name x%[1]d",
			"link set u%[1]d master s%[1]d", "link set v%[1]d master c%[1]d",
			"link set w%[1]d master c%[1]d", "link set x%[1]d master root",
			"link set s%[1]d up", "link set c%[1]d up", "link set u%[1]d up", "link set v%[1]d up",
			"link set w%[1]d up", "link set x%[1]d up",
		} {
			lines = append(lines, fmt.Sprintf(line, s))
		}
	}
	e.batch(e.name, lines)
}

// connect connects a node to its switch, and enters the hardware addresses of all others. The kernel would learn only
// few of them by itself: its limit applies to all namespaces together.
func (e *emulation) connect(i int) {
	e.t.Helper()
	e.batch(e.name, []string{
		fmt.Sprintf("link add p%d type veth peer name eth0 address %s netns %s", i, hardware(i), e.node(i)),
		fmt.Sprintf("link set p%d master s%d", i, e.switchOf(i)),
		fmt.Sprintf("link set p%d up", i),
	})
	lines := []string{"addr add " + addressOfNode(i) + "/16 dev eth0", "link set eth0 up"}
	for j := range e.nodes {
		if j != i {
			lines = append(lines, "neigh replace "+addressOfNode(j)+" lladdr "+hardware(j)+" nud permanent dev eth0")
		}
	}
	e.batch(e.node(i), lines)
}

// switchOf returns the switch of a node. Neighbours by number have different switches, so that no order helps.
func (e *emulation) switchOf(i int) int { return i % e.switches }

func (e *emulation) node(i int) string { return fmt.Sprintf("%sn%d", e.name, i) }

func addressOfNode(i int) string { return fmt.Sprintf("10.77.1.%d", i+1) }

func hardware(i int) string { return fmt.Sprintf("02:00:00:00:01:%02x", i) }

func (e *emulation) run(args ...string) {
	e.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		e.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (e *emulation) batch(namespace string, lines []string) {
	e.t.Helper()
	cmd := exec.Command("ip", "-n", namespace, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("ip in %s: %v: %s", namespace, err, out)
	}
}

// within returns a command in a namespace that ends with this process.
func (e *emulation) within(ctx context.Context, namespace, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", namespace, program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// truth is the network as emulate makes it.
func (e *emulation) truth() *network.Network {
	var names []string
	for i := range e.nodes {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	n := network.New(names)
	root := n.AddSwitch("root")
	for s := range e.switches {
		leaf := n.AddSwitch(fmt.Sprintf("s%d", s))
		n.AddLink(root, leaf, 1)
		for i := range e.nodes {
			if e.switchOf(i) == s {
				n.AddLink(i, leaf, 1)
			}
		}
	}
	return n
}

// TestNamespaces emulates 64 nodes at 8 switches, starts weir topology measure in each, and finds the switches again. A
// result of low confidence is measured once more, as its report asks for.
func TestNamespaces(t *testing.T) {
	skipNamespaces(t)
	binary, err := buildWeir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	prepared := time.Now()
	e := emulate(t, 8, 64)
	t.Logf("64 namespaces were made in %.1f s", time.Since(prepared).Seconds())
	dir := t.TempDir()
	for tries := 1; ; tries++ {
		begun := time.Now()
		n, said := e.meet(ctx, binary, dir)
		t.Logf("64 nodes at 8 switches were measured and built in %.1f s; %s", time.Since(begun).Seconds(), said)
		if network.Equal(n, e.truth()) {
			return
		}
		if tries == 2 || !strings.Contains(said, "confidence low") {
			keep := filepath.Join(os.TempDir(), "weir-namespaces.csv")
			text, _ := os.ReadFile(filepath.Join(dir, "latencies.csv"))
			_ = os.WriteFile(keep, text, 0o600)
			t.Fatalf("the network is another one (latencies in %s): %v", keep, network.Compare(e.truth(), n))
		}
	}
}

// meet lets all nodes measure, by processes that meet at an address. It returns the network built from the result, and
// the coordinator's output.
func (e *emulation) meet(ctx context.Context, binary, dir string) (n *network.Network, said string) {
	e.t.Helper()
	secret, matrix := filepath.Join(dir, "secret"), filepath.Join(dir, "latencies.csv")
	found := filepath.Join(dir, "tree.json")
	if err := os.WriteFile(secret, []byte("a secret for this test alone\n"), 0o600); err != nil {
		e.t.Fatal(err)
	}
	args := []string{"topology", "measure", "--rendezvous", emulatedHub + ":7117", "--secret-file", secret}
	members := make([]*exec.Cmd, e.nodes)
	complaints := make([]bytes.Buffer, e.nodes)
	for i := range members {
		members[i] = e.within(ctx, e.node(i), binary, append(args, "--name", fmt.Sprintf("n%d", i))...)
		members[i].Stderr = &complaints[i]
		if err := members[i].Start(); err != nil {
			e.t.Fatal(err)
		}
	}
	// Two processors serve 64 nodes: one pair at a time.
	coordinate := e.within(ctx, e.name, binary, append(args, "--coordinate", "--nodes", fmt.Sprint(e.nodes),
		"--sequential", "--passes", "1", "--out", matrix)...)
	out, err := coordinate.CombinedOutput()
	if err != nil {
		e.t.Fatalf("measuring: %v: %s", err, out)
	}
	for i, m := range members {
		if err := m.Wait(); err != nil {
			e.t.Errorf("node %d: %v: %s", i, err, complaints[i].String())
		}
	}
	if text, err := exec.CommandContext(ctx, binary, "topology", "build", "--matrix", matrix, "--format", "json",
		"--out", found).CombinedOutput(); err != nil {
		e.t.Fatalf("building: %v: %s\n%s", err, text, out)
	}
	if n, err = network.ReadFile(found); err != nil {
		e.t.Fatal(err)
	}
	return n, string(out)
}
