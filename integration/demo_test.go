package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDemo runs the commands of `make demo`, on four days in place of a month. Each planted job that has ended gets a
// finding of its rule, and a page that shows it. No other job gets a finding.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	withoutBrokers(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	m, dir := newMachine(t), filepath.Join(t.TempDir(), "demo")
	demo := func() ([]byte, error) {
		cmd := exec.CommandContext(ctx, "demo/run", m.binary, dir)
		cmd.Env = append(os.Environ(), "DAYS=4", "INTERVAL=5m")
		cmd.WaitDelay = 10 * time.Second // the script's own children may outlive it
		return cmd.CombinedOutput()
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := demo(); err == nil || !bytes.Contains(out, []byte("move it away")) {
		t.Errorf("a directory of somebody else: %v: %s", err, out)
	}
	// The state that every interruption leaves behind:
	if err := os.WriteFile(filepath.Join(dir, "planted.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := demo(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	weir := func(args ...string) (lines []map[string]any) {
		t.Helper()
		config := filepath.Join(dir, "archive", "weir.yaml")
		out, err := exec.CommandContext(ctx, m.binary, append(args, "--json", "--config", config)...).Output()
		if err != nil {
			t.Fatalf("weir %q: %v", args, err)
		}
		for line := range bytes.Lines(out) {
			var x map[string]any
			if err := json.Unmarshal(line, &x); err != nil {
				t.Fatalf("weir %q: %v: %s", args, err, line)
			}
			lines = append(lines, x)
		}
		return lines
	}
	answers, err := os.ReadFile(filepath.Join(dir, "planted.txt"))
	if err != nil {
		t.Fatal(err)
	}
	planted := map[string]string{}
	for _, line := range regexp.MustCompile(`planted: (\S+) in job (\d+)`).FindAllStringSubmatch(string(answers), -1) {
		planted[line[2]] = line[1]
	}
	found := map[string]bool{}
	for _, job := range weir("jobs", "--since", "2026-01-01", "--sort", "severity", "--limit", "1000") {
		id, _ := job["job_id"].(string)
		rule := planted[id]
		switch {
		case rule == "" && job["finding"] != nil:
			t.Errorf("%v in job %s, where nothing was planted", job["finding"], id)
		case rule == "" || job["state"] == "RUNNING":
			continue
		}
		var rules []string
		for _, f := range weir("job", id, "--findings") {
			rules = append(rules, f["rule"].(string))
		}
		page, err := os.ReadFile(filepath.Join(dir, rule+"-"+id+".html"))
		if err != nil {
			t.Fatal(err)
		}
		if found[rule] = strings.Contains(" "+strings.Join(rules, " ")+" ", " "+rule+" "); !found[rule] {
			t.Errorf("job %s has findings %q, and %s was planted", id, rules, rule)
		}
		if !bytes.Contains(page, []byte(rule)) {
			t.Errorf("the page of job %s does not name %s", id, rule)
		}
	}
	if len(found) < 15 {
		t.Errorf("only the jobs of these rules have ended: %v", found)
	}
	for _, name := range []string{"system.html", "system.txt", "jobs.txt"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
