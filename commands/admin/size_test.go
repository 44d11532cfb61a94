package admin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/commands/admin"
	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
)

// TestSize: the table names what an administrator decides, and the rules by which it was found.
func TestSize(t *testing.T) {
	status, stdout, stderr := clitest.Weir(t.Context(), "size", "--nodes", "9288", "--cores", "16", "--jobs", "185")
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("status %d, %q", status, stderr)
	}
	for _, want := range []string{
		"brokers", "partitions of counters", "collect, memory", "disk of each broker", "a week", "91 %", "rank", "GB",
		"broker_burst", "partition_fill", "make bench-growth",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("nothing about %q:\n%s", want, stdout)
		}
	}
	for line := range strings.Lines(stdout) {
		if len([]rune(line)) > 121 {
			t.Errorf("too wide: %s", line)
		}
	}
}

func sizeOf(t *testing.T, args ...string) (s admin.Sized) {
	t.Helper()
	status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"size", "--json"}, args...)...)
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("status %d, %q", status, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return s
}

// TestSizeJSON: programs read the same numbers, and flags win over the configuration.
func TestSizeJSON(t *testing.T) {
	frontier := []string{"--nodes", "9408", "--cores", "64"}
	s := sizeOf(t, frontier...)
	if s.Needs.Nodes != 9408 || s.Needs.Metrics != 37 || s.Needs.IntervalMs != 10_000 || s.Needs.Brokers < 3 ||
		s.Needs.Reduction < .91 || len(s.Rules) < 20 {
		t.Errorf("%+v", s)
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := "interval: 60s\ncollect: {sketch: 0}\ntopics: {replication: 2, counters_retention: 48h}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := sizeOf(t, append(frontier, "--config", file)...)
	if c.Needs.IntervalMs != 60_000 || c.Needs.SummaryBytes >= s.Needs.SummaryBytes ||
		c.Needs.InBytesPerS >= s.Needs.InBytesPerS/5 {
		t.Errorf("with a configuration: %+v", c.Needs)
	}
	f := sizeOf(t, append(frontier, "--config", file, "--interval", "1s", "--replication", "1")...)
	if f.Needs.IntervalMs != 1000 || f.Needs.Brokers < 1 || f.Needs.ReplicaBytesPerS != 0 {
		t.Errorf("with flags: %+v", f.Needs)
	}
}

// TestSizeRefuses: nonsense is wrong usage, and the error names the flag or the limit.
func TestSizeRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                                       "--nodes is needed",
		"--nodes 10":                             "--cores is needed",
		"--nodes 0 --cores 4":                    "0 nodes",
		"--nodes -5 --cores 4":                   "-5 nodes",
		"--nodes 10 --cores 99999":               "99999 cores",
		"--nodes 10 --cores 4 --metrics 0":       "0 metrics",
		"--nodes 10 --cores 4 --jobs 0":          "--jobs 0",
		"--nodes 10 --cores 4 --jobs 11":         "11 jobs on 10 nodes",
		"--nodes 10 --cores 4 --interval 0s":     "--interval",
		"--nodes 10 --cores 4 --replication 0":   "--replication",
		"--nodes 10 --cores 4 --retention 1s":    "--retention",
		"--nodes 10 --cores 4 --interval often":  "often",
		"--nodes 1000000 --cores 4096":           "partitions",
		"--nodes 10 --cores 4 supermuc":          "supermuc",
		"--nodes 10 --cores 4 --config /nowhere": "/nowhere",
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"size"}, strings.Fields(args)...)...)
		if status != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}

// TestSizePage: docs/performance.md has what weir size prints of three machines. make bench-growth writes it anew.
func TestSizePage(t *testing.T) {
	const begin, end = "<!-- size: begin -->\n", "<!-- size: end -->\n"
	const head = "| machine | brokers | partitions | cores | memory | agents to brokers | at most | disk | " +
		"archive a week | reduction |\n|---|---|---|---|---|---|---|---|---|---|\n"
	b := &strings.Builder{}
	b.WriteString("\n" + head)
	for _, m := range []struct{ name, args string }{
		{"SuperMUC, 9,288 × 16", "--nodes 9288 --cores 16 --jobs 185"},
		{"Frontier, 9,408 × 64", "--nodes 9408 --cores 64"},
		{"ten million cores, 78,125 × 128", "--nodes 78125 --cores 128"},
	} {
		n := sizeOf(t, strings.Fields(m.args)...).Needs
		fmt.Fprintf(b, "| %s | %d (%s) | %d (%s) | %d | %s | %s | %s | %s | %s | %s |\n",
			m.name, n.Brokers, n.BrokersBy, n.Partitions, n.PartitionsBy, n.CollectCores,
			admin.Si(float64(n.MemoryBytes), "B"), admin.Si(n.InBytesPerS, "B/s"),
			admin.Si(n.BurstBytesPerS, "B/s"), admin.Si(float64(n.Brokers)*n.BrokerDiskBytes, "B"), admin.Si(n.ArchiveWeekBytes, "B"),
			view.Percent(n.Reduction, true))
	}
	b.WriteString("\n")
	text := clitest.Page(t, "docs/performance.md")
	before, rest, ok := strings.Cut(text, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("docs/performance.md has no markers of weir size")
	}
	want := before + begin + b.String() + end + after
	if *clitest.Update {
		if err := os.WriteFile("docs/performance.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text != want {
		t.Error("docs/performance.md has other machines than weir size: go test ./commands/admin -run TestSizePage -update")
	}
}
