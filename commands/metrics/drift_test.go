package metrics_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/kafka/kafkatest"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/metrics"
)

// drivenCSV writes rows whose response y is 3 cpu + 2 disk, or of other things from half of the rows on. khz is cpu in
// another unit, and may part from it.
func drivenCSV(t *testing.T, file string, seed uint64, rows int, other, parts bool) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	var text strings.Builder
	text.WriteString("t,cpu,khz,disk,lone,y\n")
	a, b, c := 0.0, 0.0, 0.0
	for i := range rows {
		a, b, c = .7*a+r.NormFloat64(), .7*b+r.NormFloat64(), .7*c+r.NormFloat64()
		late := i >= rows/2
		khz, cause := 1000*(50+10*a)+100*r.NormFloat64(), a
		if late && parts {
			khz = 1000 * (50 + 14*r.NormFloat64())
		}
		if late && other {
			cause = c
		}
		fmt.Fprintf(&text, "%d,%g,%g,%g,%g,%g\n", int(seed)*1_000_000+i, 50+10*a, khz, 7+b, r.NormFloat64(),
			3*cause+2*b+.5*r.NormFloat64())
	}
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// selectedList is a list that the command wrote.
func selectedList(t *testing.T) string {
	t.Helper()
	list := filepath.Join(t.TempDir(), "metrics.yaml")
	from := drivenCSV(t, "train.csv", 1, 1200, false, false)
	status, _, errs := clitest.Weir(t.Context(), "metrics", "select", "--from", from, "--response", "y", "--coverage", "0",
		"--out", list)
	if status != cli.ExitDone {
		t.Fatalf("select: status %d: %s", status, errs)
	}
	return list
}

func TestMetricsDrift(t *testing.T) {
	list := selectedList(t)
	for name, c := range map[string]struct {
		from    string
		status  int
		verdict string
		why     string
	}{
		"quiet":    {drivenCSV(t, "a.csv", 2, 900, false, false), cli.ExitDone, "hold", "explain it as in training"},
		"response": {drivenCSV(t, "b.csv", 2, 900, true, false), metrics.ExitRedo, "redo", "the kept metrics explain it worse"},
		"canary":   {drivenCSV(t, "c.csv", 2, 900, false, true), metrics.ExitRedo, "redo", "khz no longer follows from cpu"},
		"few rows": {drivenCSV(t, "d.csv", 2, 100, false, false), metrics.ExitUnknown, "unknown", "not enough rows: 100"},
	} {
		status, out, errs := clitest.Weir(t.Context(), "metrics", "drift", "--list", list, "--from", c.from)
		if status != c.status || errs != "" || !strings.HasPrefix(out, c.verdict+": ") ||
			!strings.Contains(out, c.why) {
			t.Errorf("%s: status %d, want %d and %q:\n%s%s", name, status, c.status, c.why, out, errs)
		}
		status, out, _ = clitest.Weir(t.Context(), "metrics", "drift", "--list", list, "--from", c.from, "--response", "y",
			"--json")
		var line struct {
			List, Verdict string
			Why           []string
			Responses     []struct{ Response string }
		}
		if err := json.Unmarshal([]byte(out), &line); err != nil || status != c.status || line.Verdict != c.verdict ||
			line.List != list || !strings.Contains(line.Why[0], c.why) || line.Responses[0].Response != "y" {
			t.Errorf("%s: status %d, %v:\n%s", name, status, err, out)
		}
	}
}

// TestMetricsDriftRefuses: a list that cannot be compared with is an error of usage, with the remedy.
func TestMetricsDriftRefuses(t *testing.T) {
	list := selectedList(t)
	from := drivenCSV(t, "a.csv", 2, 300, false, false)
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	altered := func(old, with string) string {
		path := filepath.Join(t.TempDir(), "metrics.yaml")
		whole := strings.Replace(string(text), old, with, 1)
		if whole == string(text) {
			t.Fatalf("%q is not in the list", old)
		}
		if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before, _, _ := strings.Cut(string(text), "\ndrift:")
	other, without := altered("version: 1", "version: 2"), altered(string(text), before+"\n")
	nan := altered("intercept: ", "intercept: .nan #")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no list":          {[]string{"--from", from}, "--list needs a file that weir metrics select --out wrote"},
		"missing":          {[]string{"--list", "none.yaml", "--from", from}, "none.yaml"},
		"a directory":      {[]string{"--list", t.TempDir(), "--from", from}, "--list"},
		"a CSV":            {[]string{"--list", from, "--from", from}, "--list"},
		"another version":  {[]string{"--list", other, "--from", from}, "select the metrics anew"},
		"without drift":    {[]string{"--list", without, "--from", from}, "has no part drift"},
		"not a number":     {[]string{"--list", nan, "--from", from}, "drift.models[0]"},
		"other response":   {[]string{"--list", list, "--from", from, "--response", "rate"}, "was selected for y"},
		"no rows of yours": {[]string{"--list", list, "--from", "none.csv"}, "none.csv"},
	} {
		status, out, errs := clitest.Weir(t.Context(), append([]string{"metrics", "drift"}, c.args...)...)
		if status != cli.ExitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, want 2 and %q:\n%s%s", name, status, c.want, out, errs)
		}
	}
}

// TestMetricsDriftArchive: a list from an archive is compared with the days that come after it.
func TestMetricsDriftArchive(t *testing.T) {
	if kafkatest.Raced || testing.Short() {
		t.Skip("make test-full runs it")
	}
	dir, list := filepath.Join(t.TempDir(), "archive"), filepath.Join(t.TempDir(), "metrics.yaml")
	for _, step := range []struct {
		args   string
		status int
		want   string
	}{
		{"simulate archive " + dir + " --jobs healthy --days 3 --interval 10m --period 1h", cli.ExitDone, "3 days"},
		{
			"metrics select --dir " + dir + " --since 2026-01-01 --until 2026-01-03 --statistics mean --out " + list,
			cli.ExitDone, "From archive",
		},
		{ // all but one of its metrics are in use
			"metrics drift --dir " + dir + " --since 2026-01-03 --list " + list, metrics.ExitUnknown, "has nothing to watch",
		},
		{"metrics drift --dir " + dir + " --since 2026-03-03 --list " + list, cli.ExitFailed, "no complete interval"},
		{"metrics drift --dir " + t.TempDir() + " --list " + list, cli.ExitFailed, "has no summaries"},
	} {
		status, out, errs := clitest.Weir(t.Context(), strings.Fields(step.args)...)
		if status != step.status || !strings.Contains(out+errs, step.want) {
			t.Fatalf("%s: status %d, want %d and %q:\n%s%s", step.args, status, step.status, step.want, out, errs)
		}
	}
}
