package inuse_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/producers/source"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/inuse"
)

// namesIn are the names of metrics, each with what uses it.
func namesIn(t *testing.T, cfg config.Config) map[string][]string {
	t.Helper()
	uses, err := inuse.InUse(cfg)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]string{}
	for _, u := range uses {
		by[u.Name] = u.By
	}
	return by
}

// TestInUse: rules, computed metrics, settings and reports name what they use. A rule that is off uses nothing.
func TestInUse(t *testing.T) {
	dir := t.TempDir()
	site := filepath.Join(dir, "site.yaml")
	rule := "rules:\n  - id: waits\n    title: It waits\n    needs: [psi_io]\n    uses: [lustre_open]\n" +
		"    each: psi_io.mean > 0.5\n    severity: {of: psi_io.mean, from: 0, to: 1}\n    hint: Look.\n"
	if err := os.WriteFile(site, []byte(strings.TrimPrefix(rule, "rules:\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Find.Rules, cfg.Find.Off = site, []string{"swapping"}
	cfg.Agent.Metrics = []config.DerivedMetric{
		{Name: "fetches", Expr: "l2_misses / cycles"}, {Name: "twice", Expr: "2 * fetches"},
	}
	cfg.Samples.Metrics = []string{"numa_remote"}
	by := namesIn(t, cfg)
	for name, who := range map[string]string{
		"psi_io": "rule waits", "lustre_open": "rule waits", "clock": "rule slow-node", "fetches": "agent.metrics",
		"l2_misses": "agent.metrics: fetches", "cycles": "agent.metrics: fetches", "numa_remote": "samples.metrics",
		"operational_intensity": "roofline", "cpu_idle": "rule idle-cores", "ipc": "weir job",
		"job_mem_used": "weir jobs",
		"cpu_user":     "weir top", "bytes_per_cycle": "weir report system",
	} {
		if !slices.Contains(by[name], who) {
			t.Errorf("%s is used by %q, want %q among them", name, by[name], who)
		}
	}
	if !slices.Contains(by["fetches"], "agent.metrics: twice") {
		t.Errorf("fetches is used by %q", by["fetches"])
	}
	if by["swap_pages"] != nil || by["psi_memory"] != nil {
		t.Errorf("swap_pages is used by %q, psi_memory by %q", by["swap_pages"], by["psi_memory"])
	}
	cfg.Find.Rules = filepath.Join(dir, "none.yaml")
	uses, err := inuse.InUse(cfg)
	if err == nil || !slices.ContainsFunc(uses, func(u inuse.Use) bool { return u.Name == "cpu_idle" }) {
		t.Errorf("without the rules of the site: %v, %d names", err, len(uses))
	}
}

// titles is where names stand for what a report shows if it is there.
const titles = "report/view/text.go"

// TestInUseIsWhatTheCodeNames: each name of a metric that stands in the code of reports is among those in use.
func TestInUseIsWhatTheCodeNames(t *testing.T) {
	by := namesIn(t, config.Default())
	known := map[string]bool{}
	for _, m := range source.Catalogue(config.Agent{}) {
		known[m.Name] = !strings.HasPrefix(m.Name, "weir_")
	}
	var files []string
	for _, pattern := range []string{
		"commands/*.go", "commands/*/*.go", "analysis/*.go", "report/view/*.go", "report/term/*.go", "report/page/*.go",
		"report/machine/*.go", "rules/*.go", "analysis/audit/*.go", "processors/*.go", "processors/*/*.go", "sink/*.go",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	seen := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == titles {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			lit, is := n.(*ast.BasicLit)
			if !is || lit.Kind != token.STRING {
				return true
			}
			name, err := strconv.Unquote(lit.Value)
			if err != nil || !known[name] || name == "clock" { // a word of other things too
				return true
			}
			if seen++; by[name] == nil {
				t.Errorf("%s names %s, which inUse does not: a list of metrics may drop it", file, name)
			}
			return true
		})
	}
	if seen < 20 {
		t.Errorf("%d names stand in the code", seen)
	}
}

func listFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metrics.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWithList: an agent measures what its list keeps and what is in use. With a list that is wrong it measures
// everything, and logs why.
func TestWithList(t *testing.T) {
	cfg := config.Default()
	cfg.Agent.Node = "n0001"
	logged := &kafkatest.Log{}
	if inuse.WithList(cfg, logged.Logger()).Agent.List != nil || logged.String() != "" {
		t.Errorf("without a file: %s", logged)
	}
	cfg.Agent.MetricsFile = listFile(t, "version: 1\ncanary: 0.02\nkeep: [psi_io]\n")
	with := inuse.WithList(cfg, logged.Logger()).Agent
	for name, want := range map[string]bool{
		"psi_io": true, "cpu_idle": true, "psi_cpu": false, "weir_agent_rss": true, "swap_in": false,
	} {
		if with.Measures(name) != want {
			t.Errorf("measures %s: %v", name, !want)
		}
	}
	if logged.Count("list of metrics is in force") != 1 {
		t.Errorf("logged %s", logged)
	}
	for name, path := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "none.yaml"), "wrong": listFile(t, "version: 1\nkepe: [psi_io]\n"),
		"directory": t.TempDir(), "empty": listFile(t, ""), "garbage": listFile(t, "\x00\xff{"),
	} {
		logged := &kafkatest.Log{}
		cfg.Agent.MetricsFile = path
		if a := inuse.WithList(cfg, logged.Logger()).Agent; !a.Measures("psi_cpu") {
			t.Errorf("%s: a list that cannot be used restricts the agent", name)
		}
		if logged.Count("list of metrics cannot be used") != 1 || !strings.Contains(logged.String(), path) {
			t.Errorf("%s: logged %s", name, logged)
		}
	}
}

// TestReadableWaitsForNoPipe: nobody writes to it, and opening it would never end.
func TestReadableWaitsForNoPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "metrics.yaml")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cli.Readable("agent.metrics_file", pipe); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// TestCheckOfAList: weir check ends with status 2 where nothing knows a name, and names the nearest. It notes what the
// list lacks.
func TestCheckOfAList(t *testing.T) {
	check := func(text string) (status int, stderr string) {
		list := listFile(t, text)
		file := filepath.Join(t.TempDir(), "weir.yaml")
		conf := "kafka: {brokers: [\"127.0.0.1:9092\"]}\nagent: {metrics_file: " + list + "}\nsink: {dir: " +
			filepath.Join(t.TempDir(), "none") + "}\n"
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		status, _, stderr = clitest.Weir(t.Context(), "check", "--config", file)
		return status, stderr
	}
	var whole strings.Builder
	for _, m := range source.Catalogue(config.Agent{}) {
		if !strings.HasPrefix(m.Name, "weir_") {
			whole.WriteString("  - " + m.Name + "\n")
		}
	}
	all := "version: 1\ncanary: 0.02\nkeep:\n  - weir_agent_source_skew_us:stat\n" + whole.String()
	if status, stderr := check(all); status != cli.ExitDone || stderr != "" {
		t.Errorf("a whole list: status %d: %s", status, stderr)
	}
	for text, want := range map[string]struct {
		status int
		parts  []string
	}{
		"version: 1\ncanary: 0.02\nkeep: [cpu_usr, psi_io]\n": {
			cli.ExitUsage, []string{"keep[0] = cpu_usr: there is no such metric: did you mean cpu_user"},
		},
		"version: 1\ncanary: 0.02\nkeep: [psi_io]\nmore: 1\n": {cli.ExitUsage, []string{"more is no key of metrics.yaml"}},
		"version: 1\nkeep: [psi_io]\ndropped: [{name: psi_cpu}, {name: psi_of}]\n": {cli.ExitDone, []string{
			"keep lacks names that are in use, which are measured all the same (32): ", "cpu_idle (rule idle-cores)",
			"names below dropped are of no metric (1): psi_of", "the list decides nothing about metrics", "canary is 0",
		}},
	} {
		status, stderr := check(text)
		if status != want.status {
			t.Errorf("%q: status %d: %s", text, status, stderr)
		}
		for _, part := range want.parts {
			if !strings.Contains(stderr, part) {
				t.Errorf("%q: %q is not in %s", text, part, stderr)
			}
		}
	}
}
