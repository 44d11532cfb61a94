package admin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/services"
)

// TestMachine: facts of agents make node types, the configuration comes first, and a person sees which source each
// fact has, what contradicts, and which rules lack something.
func TestMachine(t *testing.T) {
	broker, err := services.StartBroker(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := "cluster: c\ncollectors: 1\ntopics: {replication: 1}\nkafka: {brokers: ['" + broker.Addr() + "']}\n" +
		"machine: [{name: gpu, nodes: 'g[1-2]', gpus: 8, peak_mem_bw: 1e12}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr := clitest.Weir(t.Context(), "machine", "--config", file); status != cli.ExitDone ||
		!strings.Contains(stdout, "gpu") || !strings.Contains(stdout, "The facts of the agents are missing") {
		t.Errorf("without the topic: status %d, %q, %q", status, stdout, stderr)
	}
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "create", "--config", file); status != cli.ExitDone {
		t.Fatal(stderr)
	}
	cl := kafkatest.Client(t, []string{broker.Addr()})
	for _, f := range []schemas.NodeFacts{
		{Node: "n1", CPUs: 64, Memory: 256e9},
		{Node: "n2", CPUs: 64, Memory: 257e9},
		{Node: "g1", CPUs: 32, Memory: 512e9, Gpus: make([]schemas.NodeGPU, 4)},
	} {
		f.Cluster, f.Source, f.ThreadsPerCore, f.ReadAt = "c", schemas.FactsAgent, 1, 1
		value, err := schemas.MarshalChecked(&f)
		if err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: "weir." + schemas.TopicFacts, Key: f.Key(), Value: value}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "machine", "--config", file)
	for _, want := range []string{
		"64cpu-238GiB", "n[1-2]", "256 GB", "agent; peak_flops and peak_mem_bw none", "gpus and peak_mem_bw configuration",
		"DISAGREE g1: gpus is 8 by machine, and 4 by agent",
		"BLIND memory-bound, low-use: peak_mem_bw of 64cpu-238GiB is unknown: set it below machine",
	} {
		if status != cli.ExitDone || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("status %d, %q lacks %q in\n%s", status, stderr, want, stdout)
		}
	}
	status, stdout, _ = clitest.Weir(t.Context(), "machine", "--json", "--config", file)
	var got struct {
		Types []struct {
			Name   string
			Memory *int64   `json:"memory_bytes"`
			Flops  *float64 `json:"peak_flops"`
			Blind  []struct{ Rule, Fact string }
		}
		Unread string
	}
	if err := json.Unmarshal([]byte(stdout), &got); status != cli.ExitDone || err != nil || len(got.Types) != 3 ||
		got.Unread != "" || got.Types[2].Memory == nil || *got.Types[2].Memory != 256e9 || got.Types[2].Flops != nil {
		t.Errorf("status %d, %v, %s", status, err, stdout)
	}
	if _, stdout, _ := clitest.Weir(t.Context(), "status", "--config", file); !strings.Contains(stdout,
		"lack facts about nodes: ") || !strings.Contains(stdout, "`weir machine` names them") {
		t.Errorf("status does not warn: %s", stdout)
	}
}
