package jobs_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	sinkjobs "github.com/weirhpc/weir/sink/jobs"

	"github.com/weirhpc/weir/commands/cli"
	"github.com/weirhpc/weir/commands/clitest"
	"github.com/weirhpc/weir/commands/jobs"
)

// archiveOfHabits makes an archive with totals of ten jobs of 40 minutes. The cores of the odd ones wait for I/O for
// 60 % of the time. All metrics of a job move together.
func archiveOfHabits(t *testing.T) (dir string, start time.Time) {
	t.Helper()
	dir, start = t.TempDir(), time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	r := rand.New(rand.NewPCG(16, 30))
	var rows []schemas.Row
	var known []schemas.Job
	for job := range 10 {
		id := fmt.Sprint(100 + job)
		from, until, cores, gpus := start.UnixMilli(), start.Add(40*time.Minute).UnixMilli(), int64(32), int32(0)
		known = append(known, schemas.Job{
			JobID: id, User: []string{"ada", "bob"}[job%2], Queue: "normal", Name: "n", Nodes: []string{"n1"},
			Cores: &cores,
			Gpus:  &gpus, Start: &from, End: &until, State: schemas.StateCompleted,
		})
		for i := range 40 {
			move := r.Float64() / 20
			for _, metric := range []string{
				"cpu_idle", "cpu_user", "cpu_iowait", "clock", "flops_any", "ipc",
				"mem_used",
			} {
				values := make([]float64, 32)
				for k := range values {
					values[k] = math.Round(100*(0.6*float64(job%2)+move+r.Float64()/100)) / 100
				}
				if metric == "clock" {
					values = []float64{1}
				}
				rows = append(rows, summaryRow(id, metric, from+int64(i)*60_000, values))
			}
		}
	}
	f := sink.Footer{
		Topic: "weir." + schemas.TopicJobSummary, Next: 400, Rows: int64(len(rows)), FirstInterval: start.UnixMilli(),
		LastInterval: start.Add(39 * time.Minute).UnixMilli(),
	}
	if err := sink.Append(dir, f.Topic, start.Format(time.DateOnly), rows, f); err != nil {
		t.Fatal(err)
	}
	if err := sinkjobs.Write(t.Context(), dir, "weir.jobs", "c", known); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr := clitest.Weir(t.Context(), "archive", "totals", "--dir", dir, "--through",
		"2026-01-06T00:00:00Z"); status != cli.ExitDone {
		t.Fatal(status, stdout, stderr)
	}
	return dir, start
}

func summaryRow(job, metric string, startMs int64, values []float64) schemas.Row {
	d, s := quantile.Certify(append([]float64{}, values...), quantile.Large)
	unit, scope, node, zero, nodes, stddev := "1", schemas.ScopeCore, "n1", 0.0, int32(1), d.Stddev()
	row := schemas.Row{
		Cluster: "c", JobID: job, IntervalStart: startMs, IntervalMs: 60_000, Metric: &metric, Unit: &unit,
		Scope:  &scope,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 1, NodesReported: 1, Nodes: &nodes,
		Count: &d.Count, Invalid: &d.Invalid, Mean: &d.Mean, Stddev: &stddev, NodeStddev: &zero, LowNode: &node,
		HighNode: &node, D0: &d.Deciles[0], D1: &d.Deciles[1], D2: &d.Deciles[2], D3: &d.Deciles[3], D4: &d.Deciles[4],
		D5: &d.Deciles[5], D6: &d.Deciles[6], D7: &d.Deciles[7], D8: &d.Deciles[8], D9: &d.Deciles[9],
		D10:       &d.Deciles[10],
		RankError: &zero, Eps: &s.Eps, OrderStatistics: s.Order,
	}
	for _, k := range s.Knots {
		row.KnotValues, row.KnotRanks = append(row.KnotValues, k.Value), append(row.KnotRanks, k.Rank)
	}
	for _, a := range s.Atoms {
		row.AtomValues, row.AtomCounts = append(row.AtomValues, a.Value), append(row.AtomCounts, a.Count)
	}
	return row
}

// TestFindInHistory: a rule finds exactly the jobs that wait for I/O, also while it is off.
func TestFindInHistory(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, _ := archiveOfHabits(t)
	find := func(args ...string) (int, string, string) {
		t.Helper()
		return clitest.Weir(t.Context(), append([]string{"find", "--dir", dir, "--since", "2026-01-01"}, args...)...)
	}
	for _, off := range []string{"", "io-wait,swapping"} {
		t.Setenv("WEIR_FIND_OFF", off)
		status, stdout, stderr := find("io-wait", "--json")
		if status != cli.ExitDone || stderr != "" {
			t.Fatal(status, stdout, stderr)
		}
		var found []string
		for line := range strings.Lines(stdout) {
			var row struct {
				JobID, User, Class, Rule string
				JobIDs                   string `json:"job_id"`
				Final                    bool
			}
			if err := json.Unmarshal([]byte(line), &row); err != nil || row.Rule != "io-wait" || row.User != "bob" ||
				row.Class != schemas.ClassHigh || !row.Final {
				t.Errorf("%s: %v", line, err)
			}
			found = append(found, row.JobIDs)
		}
		if len(found) != 5 {
			t.Errorf("off %q: found %v", off, found)
		}
	}
	t.Setenv("WEIR_FIND_OFF", "")
	if _, stdout, _ := find("io-wait"); !strings.HasSuffix(stdout, "io-wait holds for 5 of 10 jobs\n") {
		t.Error(stdout)
	}
	if _, stdout, _ := find("swapping"); stdout == "" || !strings.HasSuffix(stdout,
		"swapping holds for 0 of 10 jobs\n") {
		t.Error(stdout)
	}
	if status, _, stderr := find("no-such-rule"); status != cli.ExitUsage || !strings.Contains(stderr, "io-wait") {
		t.Error(status, stderr)
	}
	if status, _, stderr := find("io-wait", "--since", "soon"); status != cli.ExitUsage {
		t.Error(status, stderr)
	}
}

// TestFindLike: the jobs that wait for I/O are most like one that does.
func TestFindLike(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, _ := archiveOfHabits(t)
	status, stdout, stderr := clitest.Weir(t.Context(), "find", "--like", "103", "--dir", dir, "--since", "2026-01-01",
		"--json")
	if status != cli.ExitDone || stderr != "" {
		t.Fatal(status, stdout, stderr)
	}
	before, n := 0.0, 0
	for line := range strings.Lines(stdout) {
		var row struct {
			User                                string
			Distance, DistanceLow, DistanceHigh float64
			Low                                 float64 `json:"distance_low"`
			High                                float64 `json:"distance_high"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || (row.User == "bob") != (n < 4) ||
			row.Distance < before || row.Low > row.Distance+1e-6 || row.High < row.Distance-1e-6 {
			t.Errorf("%d: %s: %v", n, line, err)
		}
		before = row.Distance
		n++
	}
	if n != 9 {
		t.Errorf("%d jobs", n)
	}
	status, dated, stderr := clitest.Weir(t.Context(), "find", "--like", "103@2026-01-05", "--dir", dir, "--since",
		"2026-01-01", "--json")
	if status != cli.ExitDone || dated != stdout {
		t.Errorf("with the date of its start: status %d: %s\n%s", status, stderr, dated)
	}
	for name, want := range map[string]int{"103@2026-01-06": cli.ExitFailed, "103@soon": cli.ExitUsage, "1 3": cli.ExitUsage} {
		if status, _, stderr := clitest.Weir(t.Context(), "find", "--like", name, "--dir", dir); status != want {
			t.Errorf("%s: status %d: %s", name, status, stderr)
		}
	}
	if _, stdout, _ := clitest.Weir(t.Context(), "find", "--like", "103", "--dir", dir, "--since", "2026-01-01", "--limit",
		"2"); strings.Count(stdout, "\n") != 3 {
		t.Error(stdout)
	}
	for want, more := range map[string][]string{
		"No job that ended since 2026-06-01 is like 103: none has its type":            {"--since", "2026-06-01"},
		"is like 103: none of queue nobody's has its type of node and its metrics. --": {"--queue", "nobody's"},
	} {
		status, stdout, stderr := clitest.Weir(t.Context(), append([]string{
			"find", "--like", "103", "--dir", dir, "--since", "2026-01-01",
		}, more...)...)
		if status != cli.ExitDone || stderr != "" || !strings.Contains(stdout, want) {
			t.Error(status, stdout, stderr)
		}
	}
	// Without a date it looks back from the end of the job. That was months ago.
	if _, recent, stderr := clitest.Weir(t.Context(), "find", "--like", "103", "--dir", dir, "--json"); recent != stdout {
		t.Errorf("looking back from the job: %s%s", recent, stderr)
	}
	if _, stdout, _ := clitest.Weir(t.Context(), "find", "--like", "103", "--dir", dir, "--since", "1s", "--queue", "x"); !strings.Contains(
		stdout, "No job that ended later than 1s before it is like 103") {
		t.Error(stdout)
	}
	if status, _, stderr := clitest.Weir(t.Context(), "find", "--like", "7", "--dir", dir); status != cli.ExitFailed ||
		!strings.Contains(stderr, "no such job") {
		t.Error(status, stderr)
	}
	if status, _, _ := clitest.Weir(t.Context(), "find", "--like", "a b", "--dir", dir); status != cli.ExitUsage {
		t.Error(status)
	}
}

// TestCorrelateMetrics: metrics that move together are correlated, and a constant with none.
func TestCorrelateMetrics(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, _ := archiveOfHabits(t)
	job := func(args ...string) (int, string, string) {
		t.Helper()
		return clitest.Weir(t.Context(), append([]string{"job", "103", "--dir", dir}, args...)...)
	}
	status, stdout, stderr := job("--correlate", "cpu_user,ipc", "--json")
	if status != cli.ExitDone || stderr != "" || strings.Count(stdout, "\n") != 2 {
		t.Fatal(status, stdout, stderr)
	}
	for line := range strings.Lines(stdout) {
		var c jobs.Correlation
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.Intervals != 40 || c.Value == nil ||
			*c.Value < 0.9 ||
			*c.Low > *c.Value || *c.High < *c.Value || *c.Low < 0.5 {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, stdout, _ := job("--correlate", "cpu_user,clock"); strings.Count(stdout, "undefined") != 2 ||
		!strings.Contains(stdout, "over time") {
		t.Error(stdout)
	}
	if _, stdout, _ := job("--correlate", "cpu_user,ipc"); !strings.Contains(stdout, "(95 % confidence: ") ||
		!strings.Contains(stdout, ", as if from ") {
		t.Error(stdout)
	}
	if _, stdout, _ := job("--correlate", "cpu_user,ipc", "--from", "2026-01-05T08:30:00Z"); !strings.Contains(stdout,
		"10 complete intervals") {
		t.Error(stdout)
	}
	for _, wrong := range []string{"ipc", "ipc,ipc", "a,b c", "a,b,c"} {
		if status, _, stderr := job("--correlate", wrong); status != cli.ExitUsage || !strings.Contains(stderr,
			"correlate") {
			t.Errorf("%q: %d, %s", wrong, status, stderr)
		}
	}
}
