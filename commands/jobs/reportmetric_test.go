package jobs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// reportedRow is what weir job prints of a metric in an interval.
type reportedRow struct {
	Metric, Unit, Scope, Method string
	Count                       int64
	Mean                        float64
}

func reportedRows(t *testing.T, text string) (rows []reportedRow) {
	t.Helper()
	for line := range strings.Lines(text) {
		var r reportedRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		rows = append(rows, r)
	}
	return rows
}

// reporters starts the programs of examples/report, and returns the metrics that they report. They run until the test
// ends.
func reporters(t *testing.T, file string) (metrics map[string]string) {
	t.Helper()
	begin := func(name string, args ...string) bool {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Env, c.Stderr = append(os.Environ(), "WEIR_REPORT_FILE="+file), t.Output()
		if err := c.Start(); err != nil {
			t.Errorf("%s: %v", name, err)
			return false
		}
		t.Cleanup(func() {
			_ = c.Process.Kill() // it may have ended
			_ = c.Wait()         // it was killed
		})
		return true
	}
	metrics = map[string]string{}
	const long = "600" // seconds
	if begin("examples/report/report.sh", long) {
		metrics["shell_steps_per_second"] = "1/s"
	}
	if python, err := exec.LookPath("python3"); err != nil {
		fmt.Fprintln(os.Stderr, "EXAMPLE REPORT.PY DID NOT RUN:", err)
	} else if begin(python, "examples/report/report.py", long) {
		metrics["python_steps_per_second"] = "1/s"
	}
	binary := filepath.Join(t.TempDir(), "report")
	if gcc, err := exec.LookPath("gcc"); err != nil {
		fmt.Fprintln(os.Stderr, "EXAMPLE REPORT.C DID NOT RUN:", err)
	} else if out, err := exec.CommandContext(t.Context(), gcc, "-Wall", "-Wextra", "-Werror", "-O2", "-o", binary,
		"examples/report/report.c").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	} else if begin(binary, long) {
		metrics["c_steps_per_second"] = "1/s"
	}
	return metrics
}

// TestReportReachesTheArchive runs the examples and weir report-metric under weir up. What they write into the file of
// the job host is in the rows of that job, and in none of the machine.
func TestReportReachesTheArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	up := clitest.Start(t, clitest.Process(t, nil, "up", "--data", dir, "--interval", "500ms", "--for", "10m"))
	line := regexp.MustCompile(`(?m)^report +export WEIR_REPORT_FILE=(\S+)`)
	var file string
	kafkatest.Eventually(t, "a file to report in", func() bool {
		found := line.FindStringSubmatch(up.Out.String())
		if found != nil {
			file = found[1]
		}
		return found != nil
	})
	want := reporters(t, file)
	want["loss"], want["residual"] = "1", "m/s²"
	config := filepath.Join(dir, "weir.yaml")
	kafkatest.Eventually(t, "summaries with all that was reported", func() bool {
		for _, args := range [][]string{{"loss", "-1.5"}, {"residual", "1e-7", "m/s²"}} {
			// The variable of the job stands beside those of the configuration, and sets no key.
			c := clitest.Process(t, []string{"WEIR_REPORT_FILE=" + file}, append([]string{"report-metric"}, args...)...)
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		c := clitest.Process(t, []string{"WEIR_REPORT_FILE=" + file}, "job", "host", "-n", "20", "--metrics", "all", "--json",
			"--config", config)
		out, err := c.Output()
		if err != nil {
			return false // there is none yet
		}
		seen := map[string]bool{}
		for _, r := range reportedRows(t, string(out)) {
			seen[r.Metric] = true
		}
		for name := range want {
			if !seen[name] {
				return false
			}
		}
		return true
	})
	// The audit computes every summary anew, with code of its own: that of the machine has none of these metrics.
	audit := clitest.Process(t, []string{"WEIR_REPORT_FILE=" + file}, "audit", "--config", config)
	if out, err := audit.CombinedOutput(); err != nil {
		t.Errorf("weir audit: %v: %s", err, out)
	}
	if status := up.Interrupt(t); status != cli.ExitDone {
		t.Fatalf("weir up ends with status %d: %s", status, up.Errs.String())
	}

	archive := filepath.Join(dir, "archive")
	rows := func(job string) string {
		status, stdout, stderr := clitest.Weir(t.Context(), "job", job, "--dir", archive, "-n", "100000", "--metrics", "all",
			"--json")
		if status != cli.ExitDone {
			t.Fatal(stderr)
		}
		return stdout
	}
	found := map[string]int{}
	for _, r := range reportedRows(t, rows("host")) {
		unit, reported := want[r.Metric]
		if !reported {
			continue
		}
		found[r.Metric]++
		if r.Unit != unit || r.Scope != "node" || r.Method != "EXACT" || r.Count != 1 ||
			r.Metric == "loss" && r.Mean != -1.5 || r.Metric == "shell_steps_per_second" && r.Mean != 20 ||
			strings.HasSuffix(r.Metric, "_steps_per_second") && r.Mean <= 0 {
			t.Errorf("%+v", r)
		}
	}
	for name := range want {
		if found[name] == 0 {
			t.Errorf("the archive has no row of %s", name)
		}
	}
	machine := reportedRows(t, rows("_system"))
	if len(machine) == 0 {
		t.Error("the archive has no row of the machine")
	}
	for _, r := range machine {
		if want[r.Metric] != "" {
			t.Errorf("the machine has %+v", r)
		}
	}
}

// TestReportMetric: what the agent would not take is refused, and what nobody would read is not written.
func TestReportMetric(t *testing.T) {
	file := filepath.Join(t.TempDir(), "7.0")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, file string
		status     int
		says       string
	}{
		{"rate 5", file, cli.ExitDone, ""},
		{"rate -5e3 1/s", file, cli.ExitDone, ""},
		{"rate", file, cli.ExitUsage, "weir report-metric rate 12.5"},
		{"rate 1 1/s more", file, cli.ExitUsage, "NAME VALUE [UNIT]"},
		{"rate 1,5", file, cli.ExitUsage, "finite number"},
		{"rate NaN", file, cli.ExitUsage, "finite number"},
		{"cpu_user 1", file, cli.ExitUsage, "choose another name"},
		{"weir_rate 1", file, cli.ExitUsage, "weir_"},
		{"rate 1", "", cli.ExitUsage, "WEIR_REPORT_FILE is not set"},
		{"rate 1", file + "none", cli.ExitFailed, file + "none"},
		{"rate 1", filepath.Dir(file), cli.ExitFailed, "is a directory"},
	} {
		t.Setenv("WEIR_REPORT_FILE", c.file)
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"report-metric"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(stderr, c.says) || stdout != "" || c.says == "" && stderr != "" {
			t.Errorf("%q into %q: status %d, %q; want %d and %q", c.args, c.file, status, stderr, c.status, c.says)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "rate 5\nrate -5e3 1/s\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if _, err := os.Stat(file + "none"); err == nil {
		t.Error("a file was made")
	}
}
