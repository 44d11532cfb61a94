package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/jobs"
	"github.com/weirhpc/weir/commands/services"
)

// TestPanicLeavesTheTerminalUsable: the terminal is given back first, and then the process ends with its report.
func TestPanicLeavesTheTerminalUsable(t *testing.T) {
	given := false
	defer func() {
		if p := recover(); p != "reader" || !given {
			t.Errorf("panic %v, given back: %v", p, given)
		}
	}()
	defer jobs.Usable(func() { given = true })
	panic("reader")
}

// TestTopOnce: where the output is no terminal, `weir top` prints the newest interval and ends.
func TestTopOnce(t *testing.T) {
	broker, err := services.StartBroker(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	t.Chdir(t.TempDir())
	t.Setenv("WEIR_KAFKA_BROKERS", broker.Addr())
	t.Setenv("WEIR_COLLECTORS", "1")
	t.Setenv("WEIR_TOPICS_REPLICATION", "1")
	t.Setenv("WEIR_INTERVAL", "1m")
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "create"); status != cli.ExitDone {
		t.Fatal(stderr)
	}
	if status, stdout, stderr := clitest.Weir(t.Context(), "top"); status != cli.ExitFailed || stdout != "" ||
		!strings.Contains(stderr, "weir status") {
		t.Errorf("without summaries: status %d, %q, %q", status, stdout, stderr)
	}
	cl := kafkatest.Client(t, []string{broker.Addr()})
	put := func(topic, key string, r schemas.Record) {
		value, err := schemas.Marshal(r)
		if err == nil {
			_, err = schemas.Unmarshal(value) // a reader checks it
		}
		if err == nil {
			err = cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: value}).FirstErr()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now().Add(-2 * time.Minute).Truncate(time.Minute).UnixMilli()
	mean, node, deciles := 0.25, "n1", []float64{0, 0, 0, 0, 0, 0.5, 1, 1, 1, 1, 1}
	metric := func(name string) schemas.JobSummaryMetric {
		return schemas.JobSummaryMetric{
			Name: name, Unit: "1", Scope: schemas.ScopeCore, Count: 8, Nodes: 2, Mean: &mean, Stddev: &mean,
			NodeStddev: &mean, LowNode: &node, HighNode: &node, Deciles: &deciles, RankError: new(float64),
		}
	}
	for _, job := range []string{"a", "b", schemas.JobSystem} {
		put("weir.job-summary", job+"/0", &schemas.JobSummary{
			Cluster: "c", JobID: job, IntervalStart: start, IntervalMs: 60_000, Method: schemas.MethodExact, Parts: 1,
			PartsReported: 1, NodesExpected: 2, NodesReported: 2, Metrics: []schemas.JobSummaryMetric{
				metric("cpu_idle"), metric("cpu_user"),
			},
		})
	}
	put("weir.jobs", "a/0", &schemas.Job{
		JobID: "a", State: "RUNNING", User: strings.Repeat("\u4e2d", 64), Nodes: []string{"n1", "n2"},
	})
	status, stdout, stderr := clitest.Weir(t.Context(), "top", "--ascii", "--color", "always", "--width", "80")
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	plain := stdout
	for _, escape := range []string{"\x1b[1m", "\x1b[31m", "\x1b[0m"} {
		plain = strings.ReplaceAll(plain, escape, "")
	}
	if clitest.Drives(plain) || !strings.Contains(stdout, "\x1b[1m") {
		t.Errorf("%q", stdout)
	}
	lines := strings.Split(plain, "\n")
	if len(lines) != 6 || !strings.Contains(lines[0], "2 of 2 nodes seen") ||
		!strings.Contains(lines[1], "busy 75 %") || !strings.HasPrefix(lines[3], "a ") ||
		!strings.Contains(lines[3], "100 pt") || !strings.HasPrefix(lines[4], "b ") {
		t.Errorf("%s", plain)
	}
	if _, stdout, _ := clitest.Weir(t.Context(), "top", "--once", "--queue", "none"); strings.Contains(stdout, "\na ") {
		t.Errorf("a queue without jobs: %s", stdout)
	}
	for _, args := range []string{"--sort x", "--metric " + "a/b", "--metric nosuch", "--width -1", "argument"} {
		if status, _, _ := clitest.Weir(t.Context(), append([]string{"top"}, strings.Fields(args)...)...); status != cli.ExitUsage {
			t.Errorf("%s: status %d", args, status)
		}
	}
}
