package jobs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/inuse"
	"github.com/weirhpc/weir/commands/jobs"
	"github.com/weirhpc/weir/commands/metrics"
	"github.com/weirhpc/weir/commands/reading"
)

// siteRule fires in the shipped example of serial.
const siteRule = `
- id: mostly-idle
  title: Most of the cores idle
  from: the centre's policy
  needs: [cpu_idle]
  each: cpu_idle.mean > p.idle
  severity: {of: cpu_idle.mean, from: 0.5, to: 1}
  hint: "{{pct .value}} idle"
  parameters: {idle: 0.9}
  examples: {fires: [idle.jsonl], silent: [busy.jsonl]}
`

// ruleSite writes a site's rule file with its examples, and returns the file's name.
func ruleSite(t *testing.T, rule, fires, silent string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "site.yaml")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(file, []byte(rule), 0o644))
	must(os.Mkdir(filepath.Join(dir, rules.Examples), 0o755))
	for name, from := range map[string]string{"idle.jsonl": fires, "busy.jsonl": silent} {
		text, err := os.ReadFile(filepath.Join("rules", rules.Examples, from))
		must(err)
		must(os.WriteFile(filepath.Join(dir, rules.Examples, name), text, 0o644))
	}
	return file
}

var everyRule = regexp.MustCompile(`(?m)^[a-z-]+: ok: [1-9] firing, [1-9] silent$`)

// TestRulesCheck: every rule has a line. A rule whose examples differ from what it finds ends the command with
// status 1.
func TestRulesCheck(t *testing.T) {
	status, stdout, stderr := clitest.Weir(t.Context(), "rules", "check")
	if status != cli.ExitDone || stderr != "" || len(everyRule.FindAllString(stdout, -1)) != 19 ||
		!strings.Contains(stdout, "stalled: ok: 1 firing, 3 silent\n") {
		t.Errorf("the shipped rules: status %d, %s%s", status, stdout, stderr)
	}
	file := ruleSite(t, siteRule, "serial-fires.jsonl", "low-cpu-silent.jsonl")
	status, stdout, stderr = clitest.Weir(t.Context(), "rules", "check", file)
	if status != cli.ExitDone || stdout != "mostly-idle: ok: 1 firing, 1 silent\n" || stderr != "" {
		t.Errorf("a site's rule: status %d, %s%s", status, stdout, stderr)
	}
	file = ruleSite(t, siteRule, "low-cpu-silent.jsonl", "serial-fires.jsonl")
	status, stdout, stderr = clitest.Weir(t.Context(), "rules", "check", file)
	if status != cli.ExitFailed || !strings.Contains(stdout,
		"mostly-idle: wrong\n    idle.jsonl: it must fire: it held in 0 of") ||
		!strings.Contains(stdout, "busy.jsonl: it must be silent: HIGH, held in") || !strings.Contains(stderr,
		"1 rules") {
		t.Errorf("swapped examples: status %d, %s%s", status, stdout, stderr)
	}
	file = ruleSite(t, strings.Replace(siteRule, "busy.jsonl", "absent.jsonl", 1), "serial-fires.jsonl",
		"low-cpu-silent.jsonl")
	status, stdout, _ = clitest.Weir(t.Context(), "rules", "check", file)
	if status != cli.ExitFailed || !strings.Contains(stdout, "absent.jsonl: open examples/absent.jsonl: no such file") {
		t.Errorf("an absent example: status %d, %s", status, stdout)
	}
	file = ruleSite(t, strings.Replace(siteRule, "cpu_idle.mean >", "cpu_idel.mean >", 1), "serial-fires.jsonl",
		"low-cpu-silent.jsonl")
	status, _, stderr = clitest.Weir(t.Context(), "rules", "check", file)
	if status != cli.ExitUsage || !strings.Contains(stderr, "site.yaml:2: rule mostly-idle: each:") ||
		!strings.Contains(stderr, "unknown name cpu_idel (1:1)\n | cpu_idel.mean > p.idle\n | ^") {
		t.Errorf("an unknown metric: status %d, %s", status, stderr)
	}
	if status, _, stderr = clitest.Weir(t.Context(), "rules", "check", "absent.yaml"); status != cli.ExitUsage ||
		!strings.Contains(stderr, "absent.yaml: no such file") {
		t.Errorf("an absent file: status %d, %s", status, stderr)
	}
}

// TestRulesListAndShow: the rules of the site are listed with the shipped ones, without those that are off.
func TestRulesListAndShow(t *testing.T) {
	file := ruleSite(t, siteRule, "serial-fires.jsonl", "low-cpu-silent.jsonl")
	conf := filepath.Join(t.TempDir(), "weir.yaml")
	text := "find:\n  rules: " + file + "\n  off: [time-over, low-cpu]\n"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "rules", "list", "--config", conf)
	if status != cli.ExitDone || stderr != "" || !strings.Contains(stdout,
		"mostly-idle: Most of the cores idle\n    needs      cpu_idle\n"+
			"    each       cpu_idle.mean > p.idle\n    share      0.5\n"+
			"    parameters idle = 0.9\n    from       the centre's policy\n") ||
		strings.Contains(stdout, "time-over:") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	for line := range strings.Lines(stdout) {
		if len(line) > cli.TableWidth+1 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
	_, stdout, _ = clitest.Weir(t.Context(), "rules", "list", "--json", "--config", conf)
	var row jobs.RuleRow
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &row); err != nil || len(lines) != 18 ||
		row.ID != "mostly-idle" ||
		*row.Share != 0.5 || row.Parameters["idle"] != 0.9 || row.Source != file || row.Each == "" || row.Job != "" {
		t.Errorf("%d lines, %+v: %v", len(lines), row, err)
	}
	_, stdout, _ = clitest.Weir(t.Context(), "rules", "show", "mostly-idle", "--config", conf)
	if !strings.Contains(stdout, "hint       {{pct .value}} idle") || !strings.Contains(stdout,
		"hash       "+row.Hash) ||
		!strings.Contains(stdout, "fires      idle.jsonl") {
		t.Errorf("%s", stdout)
	}
	if status, _, stderr := clitest.Weir(t.Context(), "rules", "show", "nothing"); status != cli.ExitUsage ||
		!strings.Contains(stderr, "`weir rules list` lists them") {
		t.Errorf("an unknown rule: status %d, %s", status, stderr)
	}
}

// TestSiteRuleFiles: find.rules names a file or a directory, whose *.yaml are read in the order of their names.
func TestSiteRuleFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.yaml": "b", "a.yaml": "a", "c.txt": "c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := inuse.SiteRules(dir)
	if err != nil || len(files) != 2 || string(files[0].Text) != "a" || string(files[1].Text) != "b" {
		t.Errorf("%v, %v", files, err)
	}
	if files, err = inuse.SiteRules(filepath.Join(dir, "c.txt")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	if _, err = inuse.SiteRules(filepath.Join(dir, "d")); err == nil || !strings.Contains(err.Error(), "find.rules") {
		t.Errorf("%v", err)
	}
}

// TestShippedRulesFitTheCatalogue: the agent measures all that the shipped rules need, with the scopes that they
// assume.
func TestShippedRulesFitTheCatalogue(t *testing.T) {
	set, err := reading.RuleSet(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	scopes := map[string]string{}
	for _, m := range metrics.Catalogue(config.Default().Agent) {
		scopes[m.Name] = m.Scope
	}
	want := map[string]string{
		"cpu_idle": schemas.ScopeCore, "cpu_user": schemas.ScopeCore, "clock": schemas.ScopeCore,
		"mem_bw":    schemas.ScopeSocket,
		"flops_any": schemas.ScopeCore, "mem_used": schemas.ScopeNode, "cpu_load": schemas.ScopeNode,
		"job_mem_peak": schemas.ScopeJob, "acc_utilization": schemas.ScopeGPU, "disk_bytes": schemas.ScopeNode,
	}
	for i := range set.Rules {
		for _, name := range set.Rules[i].Reads() {
			if scope, is := scopes[name]; !is || want[name] != "" && want[name] != scope {
				t.Errorf("%s reads %s, which the agent has as %q", set.Rules[i].ID, name, scope)
			}
		}
	}
}
