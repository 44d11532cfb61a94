package jobs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/analysis"
	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/jobs"
	"github.com/weirhpc/weir/commands/reading"
	"github.com/weirhpc/weir/commands/services"
)

// TestJobArrays: tasks are named as Slurm names them.
func TestJobArrays(t *testing.T) {
	for arg, want := range map[string][]int64{
		"184300_[1-3,7]": {1, 2, 3, 7}, "a.b_[0]": {0}, "184300": nil, "1_2": nil,
	} {
		id, tasks, _, err := jobs.ArrayTasks(arg)
		if before, _, _ := strings.Cut(arg, "_["); err != nil || id != before || !slices.Equal(tasks, want) {
			t.Errorf("%s: %q, %v, %v", arg, id, tasks, err)
		}
	}
}

// TestSeparateJobs: commas separate jobs outside of brackets, parts of a heterogeneous job have numbers in a row, and
// no argument vanishes, however it is spelt.
func TestSeparateJobs(t *testing.T) {
	for arg, want := range map[string]string{
		"2_1,2_3": "2_1 2_3", "7_[1,3],8": "7_[1,3] 8", "12+1": "13", "12+2.batch@2026-11-20": "14.batch@2026-11-20",
		"7_[1-60": "7_[1-60", "7_[1,2": "7_[1,2", "a]b,c": "a]b c", "": "", ",": " ", "x+1": "x+1",
	} {
		if got := strings.Join(jobs.Separate([]string{arg}), " "); got != want {
			t.Errorf("%q: %q, want %q", arg, got, want)
		}
	}
	for range 2_000 {
		b := make([]byte, rand.IntN(8))
		for i := range b {
			b[i] = "1,[]_+.@"[rand.IntN(8)]
		}
		if len(jobs.Separate([]string{string(b)})) == 0 {
			t.Fatalf("%q names no job", b)
		}
	}
}

// TestDatesOfJobs: ID@DATE names the job that began on a date, and the tasks of an array that did.
func TestDatesOfJobs(t *testing.T) {
	for arg, want := range map[string]string{
		"4711@2026-11-20": "4711 [] 2026-11-20", "4711@2026-11-20T06:00:00+01:00": "4711 [] 2026-11-20T06:00:00+01:00",
		"7_[1-2]@2026-11-20": "7 [1 2] 2026-11-20", "7@running": "7 [] running",
	} {
		if id, tasks, date, err := jobs.ArrayTasks(arg); err != nil || fmt.Sprint(id, " ", tasks, " ", date) != want {
			t.Errorf("%s: %q, %v, %q, %v", arg, id, tasks, date, err)
		}
	}
	for _, arg := range []string{"4711@", "4711@today", "4711@2026-13-01", "@2026-11-20", "4711@2026-11-20@running"} {
		if _, _, _, err := jobs.ArrayTasks(arg); err == nil {
			t.Errorf("%s names a job", arg)
		}
	}
}

// TestManyTasksFitIntoMemory: a task of a large array has fewer bins.
func TestManyTasksFitIntoMemory(t *testing.T) {
	for n, want := range map[int]int{1: 240, 250: 240, 1000: 60, jobs.MaxTasks: 8} {
		if got := jobs.Bins(n, jobs.PageBins); got != want {
			t.Errorf("%d tasks have %d bins each, want %d", n, got, want)
		}
	}
}

// TestTasksAreFound: each task is a job of its own number, which the scheduler's record tells. A number that is no job
// but a job array is all of its tasks.
func TestTasksAreFound(t *testing.T) {
	broker, err := services.StartBroker(t.TempDir(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	t.Chdir(t.TempDir())
	t.Setenv("WEIR_KAFKA_BROKERS", broker.Addr())
	t.Setenv("WEIR_COLLECTORS", "1")
	t.Setenv("WEIR_TOPICS_REPLICATION", "1")
	if status, _, stderr := clitest.Weir(t.Context(), "topics", "create"); status != cli.ExitDone {
		t.Fatal(stderr)
	}
	cl := kafkatest.Client(t, []string{broker.Addr()})
	put := func(id, array string, task int32) {
		j := schemas.Job{JobID: id, State: schemas.StatePending, ArrayJob: &array, ArrayTask: &task}
		b, err := schemas.Marshal(&j)
		if err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: "weir." + schemas.TopicJobs, Key: []byte(id + "/0"), Value: b}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put("109", "7", 9)
	put("101", "7", 1)
	put("102", "7", 2)
	put("201", "8", 1)
	put("7", "7", 3) // in Slurm one task has the number of its array
	for arg, want := range map[string]string{
		"7_[1-3]": "101 102 7", "7_[9,1]": "109 101", "7": "101 102 7 109", "101": "101", "8_[1]": "201",
		"7_[3]": "7", "8": "201", "7_1": "101", "7_1,7_2": "101 102", "7_[1,2],201": "101 102 201", "101.batch": "101",
		"7_9.0": "109", "100+1": "101", "100+2.extern": "102", "7.batch": "7", "7 101": "101 102 7 109", "101 7": "101 102 7 109", "7_[9] 7": "109 101 102 7",
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"job"}, strings.Fields(arg)...)...)
		var named []string
		for line := range strings.Lines(stderr) {
			if before, after, is := strings.Cut(line, "measured: "); is && strings.Contains(before, "no interval") {
				named = append(named, strings.Fields(after)[0])
			}
		}
		if got := strings.Join(named, " "); status != cli.ExitFailed || stdout != "" || got != want {
			t.Errorf("%s: status %d, jobs %q of %q, want %q", arg, status, got, stderr, want)
		}
	}
	status, _, stderr := clitest.Weir(t.Context(), "job", "101", "--json", "--from", "2026-01-01")
	if status != cli.ExitUsage || !strings.Contains(stderr, "name the archive with --dir") {
		t.Errorf("rows of a span in the topic: status %d, %q", status, stderr)
	}
	for arg, says := range map[string]string{
		"7_[5]": "no job is one of the tasks 7_[5]", "9_[1]": "no job is one of the tasks", "9": "9 is not in",
		"7_5": "7_5 is not in", "9.batch": "9.batch is not in", "9+1": "10 is not in",
	} {
		if status, stdout, stderr := clitest.Weir(t.Context(), "job", arg); status != cli.ExitFailed || stdout != "" ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: status %d, %q, %q; want %q", arg, status, stdout, stderr, says)
		}
	}
	for _, id := range []string{"101", "7"} {
		s := schemas.JobSummary{
			Cluster: "c", JobID: id, IntervalStart: time.Now().Add(-time.Minute).Unix() * 1000, IntervalMs: 1000,
			Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 1, NodesReported: 1,
		}
		b, err := schemas.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: "weir." + schemas.TopicJobSummary, Key: []byte(id + "/0"), Value: b}
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for flags, args := range map[string][]string{
		"all tasks": {"7", "--json"}, "some tasks": {"7_[1-3]", "--json"}, "a number": {"7", "--json", "-n", "1"},
	} {
		var named []string
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{"job"}, args...)...)
		for row := range strings.Lines(stdout) {
			_, id, _ := strings.Cut(row, `"job_id":"`)
			id, _, _ = strings.Cut(id, `"`)
			named = append(named, id)
		}
		if status != cli.ExitDone || strings.Join(named, " ") != "101 7" || !strings.Contains(stderr, "job 102 has 0 of") {
			t.Errorf("rows of %s: status %d, jobs %v, %s", flags, status, named, stderr)
		}
	}
	status, _, stderr = clitest.Weir(t.Context(), "job", "7", "--correlate", "a,b")
	if status != cli.ExitUsage || !strings.Contains(stderr, "these are 4, such as 101") {
		t.Errorf("a correlation of four jobs: status %d, %q", status, stderr)
	}
	status, _, stderr = clitest.Weir(t.Context(), "job", "7_[2,9]", "--csv")
	if status != cli.ExitFailed || !strings.Contains(stderr, "none of the jobs has an interval") {
		t.Errorf("rows of tasks that wait: status %d, %q", status, stderr)
	}
}

// TestArchiveOfOthers: who may not read the archive is told so, and has what the topics know.
func TestArchiveOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Sink.Dir, cfg.Kafka.Brokers = dir, []string{"127.0.0.1:1"}
	var text bytes.Buffer
	c := &cobra.Command{}
	c.SetErr(&text)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with this goroutine
		if err := syscall.Setfsuid(65534); err != nil {
			t.Error(err)
		}
		read, topic, err := (&reading.ReadFlags{}).Where(c, cfg)
		if read != analysis.NoArchive || !topic || err != nil ||
			!strings.Contains(text.String(), "is not yours to read") {
			t.Errorf("%s, %v, %v: %s", read, topic, err, &text)
		}
		if _, _, err := (&reading.ReadFlags{Dir: dir}).Where(c, cfg); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("an archive that is named: %v", err)
		}
	}()
	<-done
	_, err := analysis.LoadLines(t.Context(), cfg, analysis.Viewer{All: true}, analysis.ListAsk{Dir: analysis.NoArchive})
	if err != nil {
		t.Error(err)
	}
}

// TestRowsOfSeveralJobs: rows tell their job and life where there are several, and the date where there are two days.
func TestRowsOfSeveralJobs(t *testing.T) {
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	row := func(id string, restart int32, days int) schemas.Row {
		return schemas.Row{JobID: id, Restart: restart, IntervalStart: day.AddDate(0, 0, days).UnixMilli()}
	}
	for want, rows := range map[string][]schemas.Row{
		"INTERVAL METRIC / 12:00:00Z - / 12:00:00Z -":                       {row("a", 0, 0), row("a", 0, 0)},
		"INTERVAL METRIC / 2026-11-20T12:00:00Z - / 2026-11-21T12:00:00Z -": {row("a", 0, 0), row("a", 0, 1)},
		"JOB INTERVAL METRIC / a 12:00:00Z - / b 12:00:00Z -":               {row("a", 0, 0), row("b", 0, 0)},
		"JOB RESTART INTERVAL METRIC / a 0 12:00:00Z - / b 1 12:00:00Z -":   {row("a", 0, 0), row("b", 1, 0)},
		"JOB RESTART INTERVAL METRIC / a 0 12:00:00Z - / a 1 12:00:00Z -":   {row("a", 0, 0), row("a", 1, 0)},
		"INTERVAL METRIC / 12:00:00Z - / 12:00:00Z - / 12:00:00Z -": {
			row("a", 2, 0), row("a", 2, 0), row("a", 2, 0),
		},
	} {
		var text strings.Builder
		if err := jobs.PrintJob(&text, rows); err != nil {
			t.Fatal(err)
		}
		var lines []string
		head, _, _ := strings.Cut(want, " / ")
		columns := len(strings.Fields(head))
		for line := range strings.Lines(text.String()) {
			lines = append(lines, strings.Join(strings.Fields(line)[:columns], " "))
		}
		if got := strings.Join(lines, " / "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
