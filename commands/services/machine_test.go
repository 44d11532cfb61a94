package services_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/reading"
	"github.com/weirhpc/weir/commands/services"
)

// TestCheckFindsOverlappingTypes: `weir check` and the agent name the node that two types name, and the type. Hostlists
// that cannot be read are named too.
func TestCheckFindsOverlappingTypes(t *testing.T) {
	clitest.BareHost(t)
	for text, want := range map[string]string{
		"[{name: thin, nodes: 'n[01-10]'}, {name: fat, nodes: 'n[11-12]'}, {name: rest}]": "",
		"[{name: thin, nodes: 'n[01-10],n01'}]":                                           "", // twice in one type
		"[{name: thin, nodes: 'n[01-10]'}, {name: fat, nodes: 'm1,n[08-12]'}]": "machine[1].nodes: " +
			"node n08 is in thin already: name it once",
		"[{name: thin, nodes: 'n[01-'}]": `machine[0].nodes: "n[01-" is not a hostlist`,
	} {
		file := filepath.Join(t.TempDir(), "weir.yaml")
		yaml := "kafka: {brokers: ['127.0.0.1:9092']}\nagent: {node: n1}\nmachine: " + text + "\n"
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		commands := []string{"check", "agent"}
		if want == "" {
			commands = commands[:1] // the agent would run
		}
		for _, command := range commands {
			status, _, stderr := clitest.Weir(t.Context(), command, "--config", file)
			if (status == cli.ExitUsage) != (want != "") || !strings.Contains(stderr, want) {
				t.Errorf("%s of %s: status %d, %s", command, text, status, stderr)
			}
		}
	}
}

// TestPeaksOfTheNodeType: the agent computes its share of the peaks that its node's type tells, unless it has its own.
func TestPeaksOfTheNodeType(t *testing.T) {
	types := []config.NodeType{
		{Name: "thin", Nodes: "n[1-2]", PeakFlops: 3e12, PeakMemBW: 2e11}, {Name: "other", PeakFlops: 1e12},
	}
	for name, c := range map[string]struct {
		node       string
		flops, bw  float64 // of the agent's own section
		wantF, wBW float64
	}{
		"of its type":  {"n2", 0, 0, 3e12, 2e11},
		"of all other": {"m1", 0, 0, 1e12, 0},
		"its own":      {"n1", 5e12, 0, 5e12, 2e11},
	} {
		cfg := config.Config{Machine: types, Agent: config.Agent{Node: c.node, PeakFlops: c.flops, PeakMemBW: c.bw}}
		got, err := agent.WithPeaks(cfg)
		if err != nil || got.Agent.PeakFlops != c.wantF || got.Agent.PeakMemBW != c.wBW {
			t.Errorf("%s: %g, %g, %v", name, got.Agent.PeakFlops, got.Agent.PeakMemBW, err)
		}
	}
}

// TestRunningMachine: `weir up` tells its commands what its nodes have, this host by its kernel.
func TestRunningMachine(t *testing.T) {
	t.Setenv("WEIR_AGENT_NODE", "here")
	f := services.UpFlags{Data: t.TempDir(), Listen: "127.0.0.1:0", Load: reading.LoadFlags{Nodes: 16}}
	if err := f.Load.Resolve(services.NewUp(), "simulate"); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.Config(services.NewUp())
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		t.Fatal(err)
	}
	host := types.Of([]string{"here"})
	if host.CPUs < 1 || host.Memory < 64<<20 || host.GPUs == nil || host.ThreadsPerCore < 1 {
		t.Errorf("%+v", host)
	}
	want := config.NodeType{Name: "simulated", CPUs: 32, ThreadsPerCore: 1, GPUs: new(0)}
	got := types.Of([]string{"sim0001", "sim0016"})
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(config.NodeType{}, "Nodes")); diff != "" {
		t.Error(diff)
	}
	for _, nodes := range [][]string{nil, {"sim0001", "here"}, {"sim0017"}, {"sim0001", "sim0017"}} {
		if got := types.Of(nodes); got.Name != "" {
			t.Errorf("%v have the type %s", nodes, got.Name)
		}
	}
	if alone := services.RunningMachine(cfg, reading.LoadFlags{}); len(alone) != 1 {
		t.Errorf("%+v", alone)
	}
}
