package topology_test

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/topology/discovery/measure"
	"github.com/weirhpc/weir/topology/discovery/network"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/topology"
)

// twoSwitches has three nodes on each of two switches. One node is slow.
const twoSwitches = `1 a
2 b
3 c
4 d
5 e
6 f
7 s
8 t
9 r
#
1 7 l: 1 t: 100
2 7 l: 1 t: 100
3 7 l: 1 t: 40
4 8 l: 1 t: 100
5 8 l: 1 t: 100
6 8 l: 1 t: 100
7 9 l: 2 t: 150
8 9 l: 2 t: 150
`

// TestTopologyThroughput: the throughput of each link comes back in the network's file, with its latency.
func TestTopologyThroughput(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("truth.tgf", []byte(twoSwitches), 0o600); err != nil {
		t.Fatal(err)
	}
	blank := twoSwitches
	for _, rate := range []string{" t: 100", " t: 150", " t: 40"} {
		blank = strings.ReplaceAll(blank, rate, "")
	}
	if err := os.WriteFile("tree.tgf", []byte(blank), 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"topology", "throughput", "--network", "tree.tgf", "--simulate", "truth.tgf", "--both"}
	status, stdout, stderr := clitest.Weir(t.Context(), append(command, "--switches")...)
	if status != cli.ExitDone {
		t.Fatalf("status %d: %s", status, stderr)
	}
	got, err := network.Read(strings.NewReader(stdout))
	if err != nil {
		t.Fatal(err)
	}
	want, err := network.Read(strings.NewReader(twoSwitches))
	if err != nil {
		t.Fatal(err)
	}
	if !network.Equal(got, want) || len(got.Links) != len(want.Links) {
		t.Errorf("the network is %s", stdout)
	}
	for i, l := range want.Links {
		if got.Links[i].Throughput != l.Throughput || got.Links[i].LatencyUs != l.LatencyUs {
			t.Errorf("link %d is %v, want %v", i, got.Links[i], l)
		}
	}
	for _, part := range []string{"8 links in ", "bisection bandwidth 150 MB/s", "r carries 150 MB/s"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("no %q in %q", part, stderr)
		}
	}

	status, stdout, stderr = clitest.Weir(t.Context(), append(command, "--json")...)
	var printed topology.ThroughputJSON
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil || status != cli.ExitDone {
		t.Fatalf("status %d, %v: %s %s", status, err, stdout, stderr)
	}
	if len(printed.Links) != 8 || printed.Links[2].Throughput == nil || *printed.Links[2].Throughput != 40 {
		t.Errorf("printed %s", stdout)
	}
}

// TestTopologyThroughputRendezvous: nodes that meet are measured for real.
func TestTopologyThroughputRendezvous(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("star.edges", []byte("a switch:s\nb switch:s\nc switch:s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(config.SecretVariable, "a secret of more than 16 bytes")
	ended := make(chan error, 3)
	for _, name := range []string{"a", "b", "c"} {
		m := measure.Member{
			Coordinator: address, Secret: []byte(os.Getenv(config.SecretVariable)), Name: name, Listen: "127.0.0.1:0",
			Transfers: true,
		}
		go func() { ended <- m.Join(t.Context(), time.Minute) }()
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "topology", "throughput", "--network", "star.edges", "--rendezvous",
		address, "--coordinate", "--nodes", "3", "--transfer", "1000000", "--json")
	var printed topology.ThroughputJSON
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil || status != cli.ExitDone {
		t.Fatalf("status %d, %v: %s %s", status, err, stdout, stderr)
	}
	for _, l := range printed.Links {
		if l.Throughput == nil || *l.Throughput <= 0 {
			t.Errorf("link %v has no throughput", l)
		}
	}
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestTopologyThroughputRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"truth.tgf": twoSwitches,
		"blank.tgf": strings.ReplaceAll(twoSwitches, " t: 40", ""),
		"other.tgf": strings.Replace(twoSwitches, "1 a\n", "1 z\n", 1),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, args := range map[string][]string{
		"--network is needed":             {"--simulate", "truth.tgf"},
		"how to measure with one of":      {"--network", "truth.tgf"},
		"--transfer 0 must be":            {"--network", "truth.tgf", "--simulate", "truth.tgf", "--transfer", "0"},
		"c and s: the throughput of the":  {"--network", "truth.tgf", "--simulate", "blank.tgf"},
		"node z of the network does not":  {"--network", "other.tgf", "--simulate", "truth.tgf"},
		"missing.tgf: no such file":       {"--network", "missing.tgf", "--simulate", "truth.tgf"},
		"--format \"xml\" must be one of": {"--network", "truth.tgf", "--simulate", "truth.tgf", "--format", "xml"},
	} {
		status, _, stderr := clitest.Weir(t.Context(), append([]string{"topology", "throughput"}, args...)...)
		if status != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: status %d and %q, want %q", args, status, stderr, want)
		}
	}
}
