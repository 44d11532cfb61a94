package archive_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/commands"
	"github.com/weirhpc/weir/commands/cli"
)

// TestReplayUsage: wrong use ends with status 2, and names the flag and the remedy, before any broker is asked.
func TestReplayUsage(t *testing.T) {
	dir := t.TempDir()
	library := filepath.Join(dir, "library.yaml")
	if err := os.WriteFile(library, []byte("metrics: [{name: x}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		status int
		text   string
	}{
		"--since yesterday":      {cli.ExitUsage, `--since "yesterday" is neither a time such as`},
		"--since -1h":            {cli.ExitUsage, `--since "-1h" is neither`},
		"--since 1h --until 2h":  {cli.ExitUsage, "--until 2h is not after --since 1h"},
		"--job a/b":              {cli.ExitUsage, "must be ID or ID/RESTART"},
		"--job 4711@today":       {cli.ExitUsage, "write 4711@2026-11-20"},
		"--define ipc":           {cli.ExitUsage, "NAME[:SCOPE[:UNIT]]=EXPRESSION"},
		"--define ipc=a+":        {cli.ExitUsage, `"ipc": unexpected token`},
		"--metrics nowhere.yaml": {cli.ExitUsage, "nowhere.yaml: no such file"},
		"--metrics " + library:   {cli.ExitUsage, `library.yaml: definition of a metric "x": it has no expression`},
		"--json --archive x":     {cli.ExitUsage, "--json and --archive exclude each other"},
		"4711":                   {cli.ExitUsage, `weir replay takes no argument, but was given "4711"`},
		"--since 2026-11-21 --until 1h --job 4711/1": {cli.ExitFailed, "no broker answers at 127.0.0.1:1"},
	} {
		t.Setenv("WEIR_KAFKA_BROKERS", "127.0.0.1:1")
		var out, errs bytes.Buffer
		status := commands.Run(t.Context(), append([]string{"replay"}, strings.Fields(args)...), &out, &errs)
		if status != want.status || !strings.Contains(errs.String(), want.text) {
			t.Errorf("weir replay %s: status %d, want %d:\n%s", args, status, want.status, &errs)
		}
	}
}

// replayedLog writes ten intervals of two jobs to a broker. The nodes of 4711 are in two partitions, and 4712 is
// reduced on its node. It returns a configuration file, and the first interval.
func replayedLog(t *testing.T) (file string, start time.Time) {
	t.Helper()
	cluster := kafkatest.Broker(t)
	cfg := config.Default()
	cfg.Cluster, cfg.Interval, cfg.Collectors = "c", 10*time.Second, 2
	cfg.Partitions = config.Partitions{Routes: 1, JobSummary: 1, Partials: 1}
	cfg.Kafka.Brokers, cfg.Sink.Dir = cluster.ListenAddrs(), filepath.Join(t.TempDir(), "archive")
	kafkatest.CreateTopics(t, cluster, cfg)
	cl := kafkatest.Client(t, cfg.Kafka.Brokers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	start = time.Now().Add(-10 * time.Minute).Truncate(10 * time.Second)
	for i := range int64(10) {
		at := start.UnixMilli() + i*10_000
		put := func(partition int32, r schemas.Record) {
			value, err := schemas.MarshalChecked(r)
			if err != nil {
				t.Fatal(err)
			}
			rec := &kgo.Record{
				Topic: cfg.Prefix + schemas.TopicCounters, Partition: partition, Value: value,
				Timestamp: time.UnixMilli(at + 10_100),
			}
			if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		head := func(node, job string) schemas.NodeHeader {
			return schemas.NodeHeader{
				Cluster: "c", Node: node, JobID: job, IntervalStart: at, IntervalMs: 10_000, Cpus: []int32{0, 1, 2, 3},
			}
		}
		for p := range int32(2) {
			from := float64(4 * p)
			batch := &schemas.CounterBatch{NodeHeader: head(fmt.Sprint("n", p), "4711")}
			batch.Metrics = []schemas.CounterBatchMetric{
				{Name: "cpu.idle", Unit: "1", Scope: schemas.ScopeCore, Values: []float64{0, 0, 0, 0}},
				{
					Name: "cycles", Unit: "1/s", Scope: schemas.ScopeCore,
					Values: []float64{from + 1, from + 2, from + 3, from + 4},
				},
				{Name: "instructions", Unit: "1/s", Scope: schemas.ScopeCore, Values: []float64{2, 2, 1.2, 1}},
				{Name: "mem_bw", Unit: "B/s", Scope: schemas.ScopeNode, Values: []float64{64}},
			}
			put(p, batch)
		}
		put(0, &schemas.NodeSummary{NodeHeader: head("n2", "4712"), Metrics: []schemas.NodeSummaryMetric{{
			JobSummaryMetric: schemas.JobSummaryMetric{
				Name: "cycles", Unit: "1/s", Scope: schemas.ScopeCore, Count: 1, Invalid: 3, Nodes: 1,
				Mean: new(5.0), Stddev: new(0.0), NodeStddev: new(0.0), LowNode: new("n2"), HighNode: new("n2"),
				Deciles: &[]float64{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, RankError: new(0.0),
			},
			Certified: schemas.Certified{Atoms: []schemas.Atom{{Value: 5, Count: 1}}},
		}}})
		for p := range int32(2) {
			tick := &schemas.Tick{IntervalStart: at, IntervalMs: 10_000, Jobs: []schemas.TickJob{
				{JobID: "4711", Parts: 2, JobNodes: 2, Nodes: []string{fmt.Sprint("n", p)}},
			}}
			if p == 0 {
				reduced := schemas.TickJob{JobID: "4712", Parts: 1, JobNodes: 1, Nodes: []string{"n2"}}
				tick.Jobs = append(tick.Jobs, reduced)
			}
			put(p, tick)
		}
	}
	text, err := cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, start
}

// TestReplayOfANamesake: an id that two jobs had names neither. Each has its own intervals with the date of its start,
// or with a time in which the other one did not run.
func TestReplayOfANamesake(t *testing.T) {
	file, start := replayedLog(t)
	cfg, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	at := func(interval int) *int64 { return new(start.UnixMilli() + int64(interval)*10_000) }
	job := func(user string, from, to int) schemas.Job {
		return schemas.Job{
			JobID: "4711", User: user, Nodes: []string{"n0", "n1"}, Start: at(from), End: at(to),
			State: schemas.StateCompleted,
		}
	}
	known := []schemas.Job{job("ada", 0, 4), job("ben", 4, 10)}
	if err := jobs.Write(t.Context(), cfg.Sink.Dir, "weir.jobs", "c", known); err != nil {
		t.Fatal(err)
	}
	stamp := func(interval int) string { return time.UnixMilli(*at(interval)).UTC().Format(time.RFC3339) }
	replay := func(args ...string) (intervals int, status int, errs string) {
		var o, e bytes.Buffer
		args = append([]string{"replay", "--json", "--metric", "cycles", "--config", file}, args...)
		status = commands.Run(t.Context(), args, &o, &e)
		return strings.Count(o.String(), "\n"), status, e.String()
	}
	ada, ben := "4711@"+stamp(0), "4711@"+stamp(4)
	n, status, errs := replay("--job", "4711")
	if n > 0 || status != cli.ExitFailed || !strings.Contains(errs, ada+"  ada") || !strings.Contains(errs, ben+"  ben") {
		t.Errorf("an ambiguous id: %d rows, status %d: %s", n, status, errs)
	}
	for args, want := range map[string]int{
		"--job " + ada:                          4,
		"--job " + ben:                          6,
		"--job " + ben + "/0":                   6,
		"--job " + ada + " --job " + ben:        10,
		"--job 4711 --since " + stamp(5):        5,
		"--job 4711 --until " + stamp(3):        3,
		"--job 4712":                            10,
		"--job " + ada + " --until " + stamp(2): 2,
		"--job " + ada + " --job 4712":          14,
	} {
		if n, status, errs := replay(strings.Fields(args)...); n != want || status != cli.ExitDone {
			t.Errorf("%s: %d intervals, want %d, status %d: %s", args, n, want, status, errs)
		}
	}
	for name, want := range map[string]string{
		"4711@2020-01-01": "no such job", ben + "/7": "nothing of it", "4712@2020-01-01": "nothing of it",
	} {
		if n, status, errs := replay("--job", name); n > 0 || status != cli.ExitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: %d rows, status %d: %s", name, n, status, errs)
		}
	}
}

// TestReplayBesideADamagedArchive: a replay reads the log. A file of the archive that cannot be read stops none.
func TestReplayBesideADamagedArchive(t *testing.T) {
	file, _ := replayedLog(t)
	cfg, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	path := jobs.Path(cfg.Sink.Dir, "2026-01-05")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("no Parquet"), 0o600); err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	args := []string{"replay", "--job", "4711", "--json", "--metric", "cycles", "--config", file}
	status := commands.Run(t.Context(), args, &o, &e)
	if n := strings.Count(o.String(), "\n"); status != cli.ExitDone || n != 10 || !strings.Contains(e.String(), path) {
		t.Errorf("status %d, %d intervals: %s", status, n, &e)
	}
}

// TestReplayPage runs the commands of docs/replay.md, and compares what they show with the page.
func TestReplayPage(t *testing.T) {
	page, err := os.ReadFile("docs/replay.md")
	if err != nil {
		t.Fatal(err)
	}
	file, start := replayedLog(t)
	t.Chdir(t.TempDir())
	library := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)[1]
	if err := os.WriteFile("library.yaml", library, 0o600); err != nil {
		t.Fatal(err)
	}
	replay := func(line string) (out, errs string) {
		t.Helper()
		line = strings.ReplaceAll(line, "2026-11-22T08:00:00Z", start.UTC().Format(time.RFC3339))
		line = strings.ReplaceAll(line, "2026-11-22T12:00:00Z", start.UTC().Add(time.Minute).Format(time.RFC3339))
		var args []string
		for i, quoted := range strings.Split(strings.TrimPrefix(line, "weir "), "'") {
			if i%2 == 1 {
				args = append(args, quoted)
			} else {
				args = append(args, strings.Fields(quoted)...)
			}
		}
		var o, e bytes.Buffer
		if status := commands.Run(t.Context(), append(args, "--config", file), &o, &e); status != cli.ExitDone {
			t.Errorf("%s: status %d: %s", line, status, &e)
		}
		return o.String(), e.String()
	}
	times := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	fields := func(line string) string { return strings.Join(strings.Fields(times.ReplaceAllString(line, "T")), " ") }
	shown := regexp.MustCompile("(?s)```\n\\$ (weir replay [^\n]*)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for _, s := range shown {
		out, _ := replay(s[1])
		got, want := strings.Split(out, "\n"), strings.Split(strings.TrimSpace(s[2]), "\n")
		if len(got) < 30 || fields(got[0]) != fields(want[0]) || fields(got[1]) != fields(want[1]) ||
			fields(got[2]) != fields(want[2]) {
			t.Errorf("%s:\n%s\nthe page has\n%s", s[1], strings.Join(got[:3], "\n"), s[2])
		}
	}
	lines := regexp.MustCompile("(?m)^weir replay --.*").FindAllString(string(page), -1)
	if len(shown) != 2 || len(lines) != 2 {
		t.Fatalf("%d commands with output, %d without", len(shown), len(lines))
	}
	out, _ := replay(lines[0])
	for _, want := range []string{
		`"metric":"stalled","unit":"1","scope":"core","method":"EXACT"`, `"bytes_per_cycle"`,
	} {
		if strings.Count(out, want) != 10 {
			t.Errorf("%s: %d rows with %s:\n%.2000s", lines[0], strings.Count(out, want), want, out)
		}
	}
	out, errs := replay(lines[1])
	note := regexp.MustCompile("(?m)^weir replay: job 4712.*").FindString(string(page))
	if out != "ipc/summaries: 1 files with 72 rows\n" || !strings.Contains(errs, note) {
		t.Errorf("%s: %s%s", lines[1], out, errs)
	}
	paths, err := filepath.Glob("ipc/summaries/*/*.parquet")
	if err != nil || len(paths) != 1 {
		t.Fatalf("%v, %v", paths, err)
	}
	if rows, _, err := sink.ReadFile(paths[0]); err != nil || len(rows) != 72 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	var o, e bytes.Buffer
	status := commands.Run(t.Context(), []string{"replay", "--job", "nobody", "--job", "4712", "--config", file}, &o, &e)
	if status != cli.ExitFailed || !strings.Contains(e.String(), "weir: job nobody: the log has nothing of it") ||
		!strings.Contains(o.String(), "4712/0") {
		t.Errorf("status %d: %s%s", status, &o, &e)
	}
}
