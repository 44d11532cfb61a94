package metrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/config"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// near reports whether JSON values are the same, with numbers within a share of each other.
func near(want, got any, share float64) bool {
	switch w := want.(type) {
	case map[string]any:
		g, is := got.(map[string]any)
		if !is || len(g) != len(w) {
			return false
		}
		for k := range w {
			if _, has := g[k]; !has || !near(w[k], g[k], share) {
				return false
			}
		}
		return true
	case []any:
		g, is := got.([]any)
		return is && slices.EqualFunc(w, g, func(a, b any) bool { return near(a, b, share) })
	case float64:
		g, is := got.(float64)
		return is && math.Abs(w-g) <= share*max(1, math.Abs(w))
	}
	return reflect.DeepEqual(want, got)
}

// TestSelectLiteralCases: the command prints the fields of the known answers, refusals too.
func TestSelectLiteralCases(t *testing.T) {
	t.Chdir("selection/testdata/cases")
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) < 6 {
		t.Fatalf("%v: %d cases", err, len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var known struct {
			Response string
			Runs     []map[string]any
		}
		if err := json.Unmarshal(text, &known); err != nil {
			t.Fatal(err)
		}
		for _, want := range known.Runs {
			status, stdout, stderr := clitest.Weir(t.Context(), "metrics", "select", "--from", strings.TrimSuffix(file,
				"json")+"csv",
				"--response", known.Response, "--method", "literal", "--model", want["model"].(string), "--threshold",
				fmt.Sprint(want["threshold"]), "--json")
			_, refused := want["error"]
			if refused != (status == cli.ExitFailed) || refused == (stderr == "") {
				t.Errorf("%s: status %d, %s", file, status, stderr)
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(stdout), &got); err != nil {
				t.Fatalf("%s: %v: %q", file, err, stdout)
			}
			for field := range want {
				share := 1e-5
				if field == "r2" {
					share = 1e-8
				}
				if !near(want[field], got[field], share) {
					t.Errorf("%s at %v: %s is %v, want %v", file, want["threshold"], field, got[field], want[field])
				}
			}
		}
	}
}

// observedTable writes a CSV of metrics of the catalogue: y is made of two of them, and others go with these.
func observedTable(t *testing.T, rows int, signal float64) string {
	t.Helper()
	r := rand.New(rand.NewPCG(17, 5))
	var b strings.Builder
	b.WriteString("t,psi_cpu,page_faults,node_page_faults,eth_read_bw," +
		"context_switches,eth_errors,cpu_migrations,numa_remote,y\n")
	level := make([]float64, 3)
	for i := range rows {
		if i%50 == 0 { // regimes
			for k := range level {
				level[k] = 3 * r.NormFloat64()
			}
		}
		x := make([]float64, 3)
		for k := range x {
			x[k] = level[k] + r.NormFloat64()
		}
		fmt.Fprintf(&b, "%d,%g,%g,%g,%g,%g,0,%g,%g,%g\n", 10*i, 50+x[0], 1e6+1000*x[1], 7-x[1]+.02*r.NormFloat64(),
			1e9*(x[2]+.01*r.NormFloat64()), 5000+10*x[2], r.NormFloat64(), r.NormFloat64(),
			signal*(2*x[0]-x[1])+.3*r.NormFloat64())
	}
	file := filepath.Join(t.TempDir(), "run.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSelectWritesTheList goes the way of an administrator: the report, the list, and the list once more.
func TestSelectWritesTheList(t *testing.T) {
	file := observedTable(t, 600, 1)
	t.Chdir(t.TempDir())
	list, report := "metrics.yaml", "report"
	args := []string{
		"metrics", "select", "--from", file, "--response", "y", "--out", list, "--report", report, "--keep",
		"cpu_migr*",
		"--width", "80",
	}
	status, stdout, stderr := clitest.Weir(t.Context(), args...)
	if status != cli.ExitDone || !strings.Contains(stderr, "metrics.yaml keeps ") {
		t.Fatalf("status %d, %s", status, stderr)
	}
	for _, says := range []string{
		"2 of 8 metrics explain y", "R² of the response", "literal", "random", "cpu_migrations: --keep", "What is " +
			"saved",
		"no: still read", "A record of this host before compression", "Held-out R² against the number of metrics",
		"constant: eth_errors", "are in no row, and so were not judged",
	} {
		if !strings.Contains(stdout, says) {
			t.Errorf("the report lacks %q", says)
		}
	}
	for line := range strings.Lines(stdout) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	l, err := config.ReadMetricList(list)
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, k := range l.Kept {
		why[k.Name] = k.Why
	}
	dropped := map[string]string{}
	for _, d := range l.Dropped {
		dropped[d.Name] = d.Representative
		if d.R2 < .9 && d.Name != "eth_errors" { // which never changed
			t.Errorf("%s: R² %g", d.Name, d.R2)
		}
	}
	if why["psi_cpu"] != "response" || why["cpu_migrations"] != "in use: --keep" ||
		!strings.HasPrefix(why["mem_used"], "in use: rule memory-full") || why["numa_remote"] != "coverage" {
		t.Errorf("kept: %v", why)
	}
	for _, pair := range [][2]string{{"node_page_faults", "page_faults"}, {"context_switches", "eth_read_bw"}} {
		if dropped[pair[0]] != pair[1] && dropped[pair[1]] != pair[0] {
			t.Errorf("neither of %v stands for the other", pair)
		}
	}
	if _, constant := dropped["eth_errors"]; len(dropped) != 3 || !constant {
		t.Errorf("dropped: %v", dropped)
	}
	if l.Drift == nil || len(l.Drift.Models) != 1 || l.Rows != 600 || l.Canary != .02 ||
		!slices.Equal(l.Responses, []string{"y"}) || l.Source != file {
		t.Errorf("%+v", l)
	}
	for _, name := range []string{"report.txt", "selection.json", "kept.csv", "dropped.csv", "curve.csv"} {
		if info, err := os.Stat(filepath.Join(report, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if status, _, stderr = clitest.Weir(t.Context(), append(args, "--previous", list, "--json")...); status != cli.ExitDone {
		t.Errorf("once more: status %d, %s", status, stderr)
	}
	if left, err := filepath.Glob(".weir*"); err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What is no list of metrics is never replaced, and nothing is written where nothing is dropped.
func TestSelectReplacesListsAlone(t *testing.T) {
	file, noise := observedTable(t, 300, 1), observedTable(t, 300, 0)
	t.Chdir(t.TempDir())
	const other = "cluster: precious\n"
	if err := os.WriteFile("weir.yaml", []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := clitest.Weir(t.Context(), "metrics", "select", "--from", file, "--response", "y", "--out", "weir.yaml")
	text, err := os.ReadFile("weir.yaml")
	if status != cli.ExitUsage || !strings.Contains(stderr, "no metrics.yaml") || err != nil || string(text) != other {
		t.Errorf("status %d, %s, %v: %s", status, stderr, err, text)
	}
	status, stdout, stderr := clitest.Weir(t.Context(), "metrics", "select", "--from", noise, "--response", "y", "--out",
		"new.yaml")
	if _, err := os.Stat("new.yaml"); status != cli.ExitDone || err == nil ||
		!strings.Contains(stdout, "These metrics do not predict y: nothing is dropped") ||
		!strings.Contains(stderr, "new.yaml is not written") {
		t.Errorf("status %d, %v, %s%s", status, err, stdout, stderr)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	status, _, stderr = clitest.Weir(ended, "metrics", "select", "--from", file, "--response", "y", "--out", "new.yaml")
	if _, err := os.Stat("new.yaml"); status != cli.ExitFailed || err == nil || !strings.Contains(stderr, "interrupted") {
		t.Errorf("interrupted: status %d, %v, %s", status, err, stderr)
	}
}

// TestSelectRefuses: wrong flags are wrong usage, wrong data an error. Both say what to do.
func TestSelectRefuses(t *testing.T) {
	file := observedTable(t, 40, 1)
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("constant.csv", "t,a,b,y\n"+strings.Repeat("0,1,2,3\n", 50))
	write("flat.csv", "t,a,y\n"+strings.Repeat("0,1,3\n1,2,4\n", 50))
	write("missing.csv", "t,a,y\n"+strings.Repeat("0,,\n1,,\n", 50))
	write("ragged.csv", "t,a,y\n0,1\n")
	write("answers.csv", "job_id,interval_start,value\n7,5,1\n")
	write("costs.json", `{"source":"(cycle)","state":"read","cpu_us_median":5}`)
	for args, c := range map[string]struct {
		status int
		says   string
	}{
		"--from FILE --response y --method best":                 {cli.ExitUsage, "forward, literal, coverage"},
		"--from FILE --response y --model cubic":                 {cli.ExitUsage, "linear, quadratic"},
		"--from FILE --response y --threshold 2":                 {cli.ExitUsage, "--threshold 2 must be 0 to 1"},
		"--from FILE --response y --threshold 0":                 {cli.ExitUsage, "above 0"},
		"--from FILE --response y --coverage 1":                  {cli.ExitUsage, "below 1"},
		"--from FILE --response y --canary -1":                   {cli.ExitUsage, "--canary -1"},
		"--from FILE --response y --max -1":                      {cli.ExitUsage, "--max -1"},
		"--from FILE --method forward":                           {cli.ExitUsage, "needs --response"},
		"--from FILE --method literal":                           {cli.ExitUsage, "needs --response"},
		"--from FILE --response y --method coverage":             {cli.ExitUsage, "explains no response"},
		"--from FILE --response y --method literal --out x.yaml": {cli.ExitUsage, "does not say what is lost"},
		"--from FILE --response y --drop-aliased":                {cli.ExitUsage, "are for --method literal"},
		"--from FILE --response y --keep [":                      {cli.ExitUsage, "no pattern"},
		"--from FILE --response y --keep nosuch":                 {cli.ExitUsage, `--keep "nosuch" is none of`},
		"--from FILE --response y --statistics p99":              {cli.ExitUsage, "there are mean, d0, d5, d10"},
		"--from FILE --response y --jobs 7":                      {cli.ExitUsage, "a CSV has the rows that it has"},
		"--from FILE --response y --since soon":                  {cli.ExitUsage, "--since"},
		"--from FILE --response y,y":                             {cli.ExitUsage, "name each response once"},
		"--from FILE --response y --previous none.yaml":          {cli.ExitUsage, "none.yaml"},
		"--from FILE --response y --cost costs.json": {cli.ExitUsage, "no line of `weir agent " +
			"--check --json`"},
		"--from none.csv --response y":                                   {cli.ExitUsage, "--from none.csv: no such file"},
		"--from FILE --response z":                                       {cli.ExitFailed, `no column is called "z"`},
		"--from FILE --response answers.csv":                             {cli.ExitFailed, "none of the 1 values"},
		"--from ragged.csv --response y":                                 {cli.ExitFailed, "reading ragged.csv"},
		"--from constant.csv --response y":                               {cli.ExitFailed, "y"},
		"--from constant.csv --response y --method literal":              {cli.ExitFailed, "is 3 in all of 50 rows"},
		"--from missing.csv --response y --method literal":               {cli.ExitFailed, "has no value"},
		"--from missing.csv --response y":                                {cli.ExitFailed, "y"},
		"--dir . --response y":                                           {cli.ExitFailed, "has no summaries"},
		"--from counters --dir . --response y":                           {cli.ExitUsage, "--dir is for --from archive"},
		"--from FILE --response y --since 2026-01-02 --until 2026-01-01": {cli.ExitUsage, "must be before"},
	} {
		t.Run(args, func(t *testing.T) {
			all := append([]string{"metrics", "select"}, strings.Fields(strings.ReplaceAll(args, "FILE", file))...)
			status, stdout, stderr := clitest.Weir(t.Context(), all...)
			if status != c.status || !strings.Contains(stderr, c.says) ||
				stdout != "" && !strings.Contains(args, "literal") {
				t.Errorf("status %d, want %d: %s%s", status, c.status, stdout, stderr)
			}
		})
	}
}
