package jobs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/commands/agent"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/metrics"
)

// siteConfig writes a configuration, and the file of a site's source that it names.
func siteConfig(t *testing.T, computed string) string {
	t.Helper()
	dir := t.TempDir()
	values, file := filepath.Join(dir, "rack.txt"), filepath.Join(dir, "agent.yaml")
	for path, text := range map[string]string{
		values: "rack_power 1500\nrack_fan 0 30\n",
		file: `
kafka: {brokers: ['127.0.0.1:1']}
agent:
  sources:
    - name: rack
      file: ` + values + `
      max_age: 1h
      metrics:
        - {name: rack_power, unit: W, scope: node, kind: gauge}
        - {name: rack_fan, unit: 1/s, scope: socket, kind: gauge}
  metrics:
    - {name: rack_kw, unit: kW, scope: node, kind: gauge, expr: ` + computed + `}
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// TestAgentOnceShowsTheSite: what a site declares and computes, and the cgroups of jobs.
func TestAgentOnceShowsTheSite(t *testing.T) {
	clitest.BareHost(t)
	job := filepath.Join(os.Getenv("WEIR_AGENT_SYS_PATH"), "fs/cgroup/system.slice/slurmstepd.scope/job_71")
	if err := os.MkdirAll(job, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(job, "../../../cgroup.controllers"): "memory\n",
		filepath.Join(job, "memory.stat"):                 "anon 5000\nfile 700\nshmem 300\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	config := siteConfig(t, "rack_power / 1000")
	got := map[string]agent.IntervalRow{}
	for _, r := range clitest.Objects[agent.IntervalRow](t, "agent", "--once", "--json", "--config", config) {
		got[r.Name] = r
	}
	for name, want := range map[string]float64{
		"rack_power": 1500, "rack_fan": 30, "rack_kw": 1.5, // 1500 / 1000
		"job_mem_used": 5300, "job_mem_file": 400, // 5000 + 300, 700 - 300
	} {
		if r := got[name]; len(r.Values) != 1 || r.Values[0] == nil || *r.Values[0] != want {
			t.Errorf("%s: %+v, want %v", name, r, want)
		}
	}
	if r := got["job_mem_used"]; r.Cgroup != "job_71" || r.Scope != "job" {
		t.Errorf("%+v", r)
	}
	available := map[string]bool{}
	for _, r := range clitest.Objects[metrics.MetricRow](t, "metrics", "--available", "--json", "--config", config) {
		available[r.Name] = *r.Available
	}
	for name, want := range map[string]bool{
		"rack_power": true, "rack_kw": true, "job_mem_used": true, "job_mem_peak": false, "mem_used": false,
	} {
		if got, there := available[name]; !there || got != want {
			t.Errorf("%s: available %v, there %v", name, got, there)
		}
	}
}

// TestAvailableSaysWhyTheSiteIsAbsent: a command that works has its value whenever it is asked for. One that is not
// there and a file that nobody writes are named.
func TestAvailableSaysWhyTheSiteIsAbsent(t *testing.T) {
	clitest.BareHost(t)
	dir := t.TempDir()
	file, works := filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "works")
	for path, text := range map[string]string{
		works: "#!/bin/sh\necho works 1\n",
		file: `
agent:
  sources:
    - {name: works, exec: [` + works + `], metrics: [{name: works, unit: "1", scope: node, kind: gauge}]}
    - {name: gone, exec: [/nowhere/gone], metrics: [{name: gone, unit: "1", scope: node, kind: gauge}]}
    - {name: silent, file: /nowhere/silent, metrics: [{name: silent, unit: "1", scope: node, kind: gauge}]}
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
	status, _, stderr := clitest.Weir(t.Context(), "check", "--config", file)
	if n := strings.Count(stderr, "agent.sources["); status != cli.ExitUsage || n != 1 ||
		!strings.Contains(stderr, "agent.sources[1].exec: ") {
		t.Errorf("check: status %d, %s", status, stderr)
	}
	if status, table, _ := clitest.Weir(t.Context(), "metrics", "--config", file); status != cli.ExitDone ||
		!strings.Contains(table, "\nworks (node): ") {
		t.Errorf("status %d, and the site's metrics are not in the table", status)
	}
	got := map[string]string{}
	for _, r := range clitest.Objects[metrics.MetricRow](t, "metrics", "--available", "--json", "--config", file) {
		got[r.Name] = r.Reason
	}
	for name, want := range map[string]string{
		"works": "", "gone": "/nowhere/gone: no such file or directory",
		"silent": "opening /nowhere/silent: no such file or directory",
	} {
		if reason, there := got[name]; !there || !strings.HasSuffix(reason, want) || (want == "") != (reason == "") {
			t.Errorf("%s: %q, want %q", name, reason, want)
		}
	}
}

// TestCheckFindsUnknownInputs: `weir check` and the agent name what is wrong, with a remedy, before anything starts.
func TestCheckFindsUnknownInputs(t *testing.T) {
	clitest.BareHost(t)
	config := siteConfig(t, "rack_powr / 1000")
	for _, command := range []string{"check", "agent"} {
		status, _, stderr := clitest.Weir(t.Context(), command, "--config", config)
		if status != cli.ExitUsage || !strings.Contains(stderr, `agent.metrics: definition of a metric "rack_kw"`) ||
			!strings.Contains(stderr, "did you mean rack_power") {
			t.Errorf("%s: status %d, %s", command, status, stderr)
		}
	}
	if status, _, stderr := clitest.Weir(t.Context(), "check", "--config",
		siteConfig(t, "rack_power / 1000")); status != cli.ExitDone {
		t.Errorf("status %d, %s", status, stderr)
	}
}
