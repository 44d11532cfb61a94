package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommentedIsWhatWasSet: for every role, the file that is written gives what was set, and says so in few lines.
func TestCommentedIsWhatWasSet(t *testing.T) {
	environ := []string{
		"WEIR_CLUSTER=big", "WEIR_KAFKA_BROKERS=k1:9093,k2:9093", "WEIR_KAFKA_TLS_ENABLED=true",
		"WEIR_KAFKA_SASL_MECHANISM=SCRAM-SHA-512", "WEIR_KAFKA_SASL_USER=weir-sink",
		"WEIR_KAFKA_SASL_PASSWORD_FILE=/etc/weir/password", "WEIR_INTERVAL=30s", "WEIR_SINK_DIR=/archive # of all",
		"WEIR_CONSOLE_RELAYS=login1,login2", "WEIR_COLLECT_SKETCH=210", "WEIR_AGENT_CGROUPS=a/job_*,b/job_*", "WEIR_BALANCE_SLURM_ENABLED=true",
	}
	defaults := Default()
	defaults.Machine = []NodeType{{Name: "thin", Nodes: "n[1-4]", CPUs: 8}, {Name: "fat", CPUs: 64}}
	set, err := Load(Source{Environ: environ, Defaults: defaults})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range Roles() {
		text, err := set.Commented(role)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "weir.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(Source{File: file, Defaults: Default()})
		if err != nil {
			t.Fatalf("%s: %v in\n%s", role, err, text)
		}
		want, err := Load(Source{Defaults: Default()})
		if err != nil {
			t.Fatal(err)
		}
		want.Cluster, want.Interval, want.Kafka = set.Cluster, set.Interval, set.Kafka
		switch role {
		case "agent":
			want.Agent = set.Agent
		case "balance":
			want.Agent, want.Balance = set.Agent, set.Balance
		case "collect", "merge":
			want.Collect = set.Collect
		case "find", "notify":
			want.Machine = set.Machine
		case "sink", "samples", "nodes", "status":
			want.Sink = set.Sink
		case "console":
			want.Machine, want.Sink, want.Console = set.Machine, set.Sink, set.Console
		case "relay": // it knows nothing of brokers and the archive
			want = Default()
			want.derive()
			want.Console = set.Console
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: wanted (-), read (+)\n%s\nin\n%s", role, diff, text)
		}
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "dial_timeout:") {
				t.Errorf("%s: a default is not commented out: %s", role, line)
			}
		}
		if role == "relay" {
			continue
		}
		if !strings.Contains(text, "#dial_timeout: 2s") || !strings.Contains(text, "prefix: weir. ") {
			t.Errorf("%s: the default of a key is not there, or one that all agree on is missing:\n%s", role, text)
		}
	}
	if _, err := set.Commented("collector"); err == nil || !strings.Contains(err.Error(), "agent, balance, collect") {
		t.Errorf("an unknown role gives %v", err)
	}
}
