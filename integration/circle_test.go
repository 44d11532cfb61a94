package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/balancer/assign"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/topology"

	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/analysis/topics"
)

// circle is an emulated cluster in which weir runs: a broker among the switches, and an agent on each node.
type circle struct {
	*emulation

	ctx         context.Context // of all processes
	binary, dir string
	tree, flat  string // files: the discovered network, and a configuration without it
}

const (
	circleSwitches = 4
	circleNodes    = 16
)

// TestCircle: the agents of a cluster measure latencies on an administrator's order. weir finds the switches, and the
// balancer takes them as its tree. It places each job near its nodes, which it could not do with a flat tree.
func TestCircle(t *testing.T) {
	skipNamespaces(t)
	binary, err := buildWeir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	c := &circle{emulation: emulate(t, circleSwitches, circleNodes), ctx: ctx, binary: binary, dir: t.TempDir()}
	c.tree = filepath.Join(c.dir, "tree.yaml")
	c.startBroker()
	c.flat = c.configure("flat.yaml", "")
	c.weir("topics", "create", "--config", c.flat)
	for i := range c.nodes {
		c.start(c.node(i), []string{fmt.Sprintf("WEIR_AGENT_NODE=n%d", i)}, "agent", "--config", c.flat)
	}

	c.measure()
	kafkatest.Eventually(t, "agents listen on nothing again", func() bool { return c.listeners() == "" })

	conf := c.configure("tree-and-jobs.yaml", c.tree)
	c.start(c.name, nil, "balance", "--config", conf)
	c.checkRoutes()
	c.compare()
}

// measure lets the agents measure, and finds the network. A result of low confidence is measured again, three times at
// most.
func (c *circle) measure() {
	c.t.Helper()
	if all := c.listeners(); all != "" {
		c.t.Errorf("agents listen before anybody measures:\n%s", all)
	}
	for tries := 1; ; tries++ {
		said := c.weir("topology", "measure", "--agents", "--config", c.flat, "--on", fmt.Sprintf("n[0-%d]", c.nodes-1),
			"--sequential", "--network", c.tree, "--out", filepath.Join(c.dir, "latencies.csv"))
		found, err := network.ReadFile(c.tree)
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Logf("agents measured %d nodes at %d switches: %s", c.nodes, c.switches, said)
		if network.Equal(found, c.truth()) {
			return
		}
		if tries == 3 || !strings.Contains(said, "confidence low") {
			c.t.Fatalf("the network is another one: %v", network.Compare(c.truth(), found))
		}
	}
}

// listeners returns the sockets on which the nodes listen: all UDP sockets, and TCP sockets in state LISTEN.
func (c *circle) listeners() (all string) {
	c.t.Helper()
	for i := range c.nodes {
		out, err := c.within(c.ctx, c.node(i), "sh", "-c",
			"cat /proc/net/udp /proc/net/udp6 /proc/net/tcp /proc/net/tcp6").Output()
		if err != nil {
			c.t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			const local, state = 1, 3
			f := strings.Fields(line)
			if listens := f[state] == "0A" || f[state] == "07"; listens { // of TCP, of UDP
				all += fmt.Sprintf("n%d: %s\n", i, f[local])
			}
		}
	}
	return all
}

// startBroker starts weir's own broker. Everybody reaches it.
func (c *circle) startBroker() {
	c.t.Helper()
	ready := filepath.Join(c.dir, "ready")
	c.start(c.name, nil, "broker", "--data", filepath.Join(c.dir, "broker"), "--listen", emulatedHub+":9092",
		"--ready-file", ready)
	kafkatest.Eventually(c.t, "the broker is ready", func() bool {
		_, err := os.Stat(ready)
		return err == nil
	})
}

// configure writes a configuration for all parts. Each switch runs two jobs, of two nodes each.
func (c *circle) configure(name, tree string) string {
	c.t.Helper()
	var jobs []string
	for job, members := range c.jobs() {
		jobs = append(jobs, fmt.Sprintf("  - {id: \"%d\", nodes: [%s]}\n", job+1, strings.Join(members, ", ")))
	}
	jobsFile, file := filepath.Join(c.dir, "jobs.yaml"), filepath.Join(c.dir, name)
	text := fmt.Sprintf(`cluster: circle
interval: 1s
collectors: %d
partitions: {routes: 2, job_summary: 2, partials: 1}
topics: {replication: 1}
kafka: {brokers: ["%s:9092"]}
agent: {perf: false, topology: {enabled: true, packets_per_second: 0, share: 1}}
balance: {jobs_file: "%s", tree_file: "%s", nodes: [%s], l_max: %d}
`, c.switches, emulatedHub, jobsFile, tree, strings.Join(c.names(), ", "), c.nodes)
	for file, text := range map[string]string{file: text, jobsFile: "jobs:\n" + strings.Join(jobs, "")} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return file
}

// names returns the nodes in the order of their numbers, as an administrator lists them.
func (c *circle) names() (all []string) {
	for i := range c.nodes {
		all = append(all, fmt.Sprintf("n%d", i))
	}
	return all
}

// jobs returns the nodes of each job. Two jobs share a switch.
func (c *circle) jobs() (all [][]string) {
	for i := range c.nodes / 2 {
		first := i%c.switches + i/c.switches*2*c.switches
		all = append(all, []string{fmt.Sprintf("n%d", first), fmt.Sprintf("n%d", first+c.switches)})
	}
	return all
}

// start starts a part in a namespace. It ends with the test.
func (c *circle) start(namespace string, env []string, args ...string) {
	c.t.Helper()
	cmd := c.within(c.ctx, namespace, c.binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("%s in %s:\n%s", args[0], namespace, said.String())
		}
	})
}

// weir runs a command among the switches, and returns its output.
func (c *circle) weir(args ...string) string {
	c.t.Helper()
	out, err := c.within(c.ctx, c.name, c.binary, args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("weir %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkRoutes waits for Routes that give all nodes of a switch the same collector, and each switch another one.
func (c *circle) checkRoutes() {
	c.t.Helper()
	cmd := c.within(c.ctx, c.name, c.binary, "tail", "routes", "--from", "start", "--json", "--config", c.flat)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	collectors := map[string]int32{}
	for in := json.NewDecoder(out); len(collectors) < c.nodes; {
		var r topics.TailRecord
		var route struct {
			Node    string
			Entries []schemas.RouteEntry
		}
		if err := in.Decode(&r); err != nil {
			c.t.Fatalf("reading routes: %v", err)
		}
		if err := json.Unmarshal(r.Value, &route); err != nil {
			c.t.Fatalf("%v: %s", err, r.Value)
		}
		if len(route.Entries) == 1 {
			collectors[route.Node] = route.Entries[0].Partition
		}
	}
	of := map[int]int32{}
	taken := map[int32]bool{}
	for i := range c.nodes {
		at, s := collectors[fmt.Sprintf("n%d", i)], c.switchOf(i)
		if first, known := of[s]; known && first != at {
			c.t.Errorf("nodes of switch %d send to collectors %d and %d", s, first, at)
		}
		of[s], taken[at] = at, true
	}
	if len(taken) != c.switches {
		c.t.Errorf("%d collectors serve %d switches", len(taken), c.switches)
	}
}

// compare counts the values that leave their switch if collector 0 stands at switch 0, and so on. A flat tree does not
// know that.
func (c *circle) compare() {
	c.t.Helper()
	found, err := topology.ReadFile(c.tree)
	if err != nil {
		c.t.Fatal(err)
	}
	places := make([]int, c.switches)
	for _, v := range found.Vertices() {
		if v.Node {
			places[c.switchOf(numberOf(v.Name))] = v.Parent
		}
	}
	withTree, flat := c.strays(found, places), c.strays(topology.Flat(c.names()), nil)
	c.t.Logf("of %d values, %d leave their switch with the tree that was found, and %d with a flat tree", c.nodes,
		withTree, flat)
	if withTree != 0 || flat < c.nodes/2 {
		c.t.Errorf("%d of %d values leave their switch with the tree, %d without: want none, and half at least",
			withTree, c.nodes, flat)
	}
}

// strays returns how many values leave their switch.
func (c *circle) strays(tree *topology.Tree, places []int) (strays int) {
	c.t.Helper()
	jobs := c.jobs()
	tasks := make([]assign.Task, len(jobs))
	for j, nodes := range jobs {
		tasks[j].PerNode = 1
		for _, n := range nodes {
			tasks[j].Nodes = append(tasks[j].Nodes, int32(slices.Index(tree.Nodes(), n)))
		}
	}
	b := assign.Place(assign.NewLayout(tree, c.switches, places), tasks, assign.Limits{LMax: c.nodes})
	for j, p := range b.Placed {
		for i, n := range jobs[j] {
			if int(p.At[i]) != c.switchOf(numberOf(n)) {
				strays++
			}
		}
	}
	return strays
}

// numberOf returns the number of a node by its name.
func numberOf(node string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(node, "n"))
	return n
}
