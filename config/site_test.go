package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/schemas"
)

const siteYAML = `
interval: 4s
agent:
  sources:
    - name: nvme
      exec: [/opt/site/nvme-wear, --all]
      metrics:
        - {name: nvme_wear, unit: "1", scope: node, kind: ratio}
        - {name: nvme_written, unit: B/s, scope: gpu, kind: rate}
    - name: rack
      file: /run/site/rack.txt
      max_age: 1m
      metrics: [{name: rack_power, unit: W, scope: node, kind: gauge}]
  metrics:
    - {name: io_share, kind: ratio, expr: cpu_iowait / (1 - cpu_idle)}
  cgroups: [system.slice/slurmstepd.scope/job_*]
`

func TestSiteSources(t *testing.T) {
	c, err := Load(Source{File: write(t, siteYAML), Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	want := []SiteSource{
		{
			Name: "nvme", Exec: []string{"/opt/site/nvme-wear", "--all"}, Interval: 4 * time.Second,
			Timeout: 2 * time.Second, // half of the interval
			Metrics: []SiteMetric{{"nvme_wear", "1", "node", "ratio"}, {"nvme_written", "B/s", "gpu", "rate"}},
		},
		{
			Name: "rack", File: "/run/site/rack.txt", MaxAge: time.Minute, Interval: 4 * time.Second,
			Metrics: []SiteMetric{{"rack_power", "W", "node", "gauge"}},
		},
	}
	if diff := cmp.Diff(want, c.Agent.Sources); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	computed := []DerivedMetric{{Name: "io_share", Kind: "ratio", Expr: "cpu_iowait / (1 - cpu_idle)"}}
	if diff := cmp.Diff(computed, c.Agent.Metrics); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Load(Source{File: write(t, string(text)), Defaults: Default()})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(c, back, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("written and read again:\n%s", diff)
	}

	c, err = Load(Source{File: write(t, strings.ReplaceAll(siteYAML, "max_age: 1m", "")), Defaults: Default()})
	if err != nil || c.Agent.Sources[1].MaxAge != 12*time.Second {
		t.Errorf("max_age %v: want three intervals; %v", c.Agent.Sources[1].MaxAge, err)
	}
	// A long interval does not make a run longer than 10 s.
	c, err = Load(Source{
		File:     write(t, strings.Replace(siteYAML, "4s", "1m", 1)),
		Defaults: Default(),
	})
	if err != nil || c.Agent.Sources[0].Timeout != 10*time.Second {
		t.Errorf("timeout %v; %v", c.Agent.Sources[0].Timeout, err)
	}
}

// TestWrongSiteSources: each mistake is named by its place in the file, with what mends it.
func TestWrongSiteSources(t *testing.T) {
	for name, c := range map[string]struct{ old, new, says string }{
		"no command": {
			"exec: [/opt/site/nvme-wear, --all]", "",
			`agent.sources[0] = "nvme": needs another key: either exec or file`,
		},
		"both": {
			"file: /run/site/rack.txt", "file: /run/site/rack.txt\n      exec: [/bin/true]",
			`agent.sources[1] = "rack": needs another key: either exec or file`,
		},
		"relative command": {
			"[/opt/site/nvme-wear, --all]", "[nvme-wear]",
			`agent.sources[0].exec = "nvme-wear": must be an absolute path`,
		},
		"relative file": {
			"/run/site/rack.txt", "rack.txt",
			`agent.sources[1].file = "rack.txt": must be an absolute path`,
		},
		"NUL": {"--all", `"a\0b"`, "agent.sources[0].exec = \"a\\x00b\""},
		"shell's line": {
			"[/opt/site/nvme-wear, --all]", "/opt/site/nvme-wear --all; ls",
			"agent.sources[0].exec = \"/opt/site/nvme-wear --all; ls\": must be an absolute path: write [/path, " +
				"argument]",
		},
		"no name":         {"name: nvme\n", "name: ''\n", `agent.sources[0].name = "": must match`},
		"long name":       {"name: nvme\n", "name: " + strings.Repeat("x", 25) + "\n", "at most 24 bytes"},
		"name with colon": {"name: nvme\n", "name: 'a:b'\n", `agent.sources[0].name = "a:b"`},
		"same name":       {"name: rack\n", "name: nvme\n", `agent.sources[1].name = "nvme": is there twice`},
		"same metric": {
			"name: io_share", "name: rack_power",
			`agent.metrics[0].name = "rack_power": is there twice`,
		},
		"weir's metric": {"name: nvme_wear", "name: weir_wear", `agent.sources[0].metrics[0].name = "weir_wear"`},
		"metric's name": {
			"name: nvme_wear", "name: nvme wear",
			`agent.sources[0].metrics[0].name = "nvme wear": must match`,
		},
		"scope": {
			"scope: gpu", "scope: disk",
			`agent.sources[0].metrics[1].scope = "disk": not one of the choices: node, core, socket, gpu`,
		},
		"job's scope": {"scope: gpu", "scope: job", "node, core, socket, gpu"},
		"kind": {
			"kind: rate", "kind: counter",
			`agent.sources[0].metrics[1].kind = "counter": not one of the choices: gauge, rate, ratio`,
		},
		"no kind": {", kind: rate", "", `agent.sources[0].metrics[1].kind = ""`},
		"unit": {
			"unit: B/s", `unit: "B\e"`,
			`agent.sources[0].metrics[1].unit = "B\x1b": must be at most 64 bytes, and printable`,
		},
		"no expression": {
			", expr: cpu_iowait / (1 - cpu_idle)", "",
			`agent.metrics[0] = "io_share": needs another key: expr`,
		},
		"long timeout": {
			"name: nvme\n", "name: nvme\n      timeout: 5s\n",
			"agent.sources[0].timeout = 5s: out of range: 10ms to 4s",
		},
		"timeout of a file": {
			"max_age: 1m", "timeout: 1s", "agent.sources[1].timeout = 1s: needs another key: exec",
		},
		"age of a command": {
			"name: nvme\n", "name: nvme\n      max_age: 5s\n",
			"agent.sources[0].max_age = 5s: needs another key: file",
		},
		"young file": {
			"max_age: 1m", "max_age: 1s",
			"agent.sources[1].max_age = 1s: out of range: 4s to 24h0m0s",
		},
		"no metrics": {
			"metrics: [{name: rack_power, unit: W, scope: node, kind: gauge}]", "",
			`agent.sources[1] = "rack": needs another key: metrics: [{`,
		},
		"unknown key": {"max_age: 1m", "maxage: 1m", "maxage"},
		"unknown key of a metric": {
			"{name: rack_power,", "{nane: rack_power,", "nane",
		},
		"no duration": {"max_age: 1m", "max_age: 60", "agent.sources[1].max_age"},
		"a text": {
			"    - {name: io_share, kind: ratio, expr: cpu_iowait / (1 - cpu_idle)}", "    - io_share",
			"agent.metrics[0]",
		},
		"absolute pattern": {
			"[system.slice/", "[/sys/fs/cgroup/system.slice/",
			"agent.cgroups[0] = \"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_*\": must be a path below",
		},
		"upwards":        {"[system.slice/", "[../system.slice/", "agent.cgroups[0]"},
		"no star":        {"/job_*]", "/job]", "agent.cgroups[0]"},
		"broken pattern": {"[system.slice/slurmstepd.scope/job_*]", "['a/job_[*']", "agent.cgroups[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(siteYAML, c.old, c.new, 1)
			if text == siteYAML {
				t.Fatal("the case changes nothing")
			}
			_, err := Load(Source{File: write(t, text), Defaults: Default()})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// TestSectionsAreSetInAFile: a variable cannot hold a list of sections. It can empty one.
func TestSectionsAreSetInAFile(t *testing.T) {
	_, err := Load(Source{Environ: []string{"WEIR_AGENT_SOURCES=nvme,rack"}, Defaults: Default()})
	if err == nil || !strings.Contains(err.Error(), "agent.sources") || !errors.Is(err, errValue) ||
		!strings.Contains(err.Error(), "set it in a file") || !strings.Contains(err.Error(), "WEIR_AGENT_SOURCES") {
		t.Errorf("%v", err)
	}
	c, err := Load(Source{
		File: write(t, siteYAML), Environ: []string{"WEIR_AGENT_SOURCES=", "WEIR_AGENT_METRICS="}, Defaults: Default(),
	})
	if err != nil || len(c.Agent.Sources) != 0 || len(c.Agent.Metrics) != 0 || len(c.Agent.Cgroups) != 1 {
		t.Errorf("%+v, %v", c.Agent, err)
	}
	c, err = Load(Source{Environ: []string{"WEIR_AGENT_CGROUPS=a/b_*,c/*"}, Defaults: Default()})
	if err != nil || len(c.Agent.Cgroups) != 2 {
		t.Errorf("%+v, %v", c.Agent, err)
	}
}

func TestTooMuchOfASite(t *testing.T) {
	c, err := Load(Source{File: write(t, siteYAML), Defaults: Default()})
	if err != nil {
		t.Fatal(err)
	}
	s := &c.Agent.Sources[0]
	for i := range 256 {
		s.Metrics = append(s.Metrics, SiteMetric{"m" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) +
			string(rune('a'+i/26)), "1", "node", "gauge"})
	}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(),
		"agent.metrics = 260: out of range: 0 to 256") {
		t.Errorf("%v", err)
	}
}

// TestScopesAgree: config knows the names of the scopes, and not package schemas.
func TestScopesAgree(t *testing.T) {
	for _, scope := range []string{"node", "core", "socket", "gpu", "job", "", "disk"} {
		text := strings.Replace(siteYAML, "{name: io_share,", "{name: io_share, scope: '"+scope+"',", 1)
		_, err := Load(Source{File: write(t, text), Defaults: Default()})
		if valid := scope == "" || schemas.ValidScope(scope); valid != (err == nil) {
			t.Errorf("%q: %v", scope, err)
		}
	}
}

// TestSitePage: what the page for administrators shows is a configuration that loads.
func TestSitePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "site-metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), "```yaml\n")
	if len(parts) < 4 {
		t.Fatalf("%d snippets", len(parts)-1)
	}
	for _, part := range parts[1:] {
		snippet, _, _ := strings.Cut(part, "```")
		if _, err := Load(Source{File: write(t, snippet), Defaults: Default()}); err != nil {
			t.Errorf("%v in\n%s", err, snippet)
		}
	}
}
