package analysis

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"
)

// TestBriefReadsNoInterval: a job that has ended is the same from its totals as from its intervals, and a rule without
// its metric is listed as not evaluated. Any other job is read from its intervals.
func TestBriefReadsNoInterval(t *testing.T) {
	const intervals = 40
	d, cores := &disk{dir: t.TempDir()}, int64(8)
	var summaries []*schemas.JobSummary
	for k := range intervals {
		summaries = append(summaries, idleSummary("1", k, 8, float64(k)/intervals), idleSummary("2", k, 8, 1))
	}
	d.append(t, summaries, 50)
	start, end := loadStart, loadStart+intervals*60_000
	d.jobs(t, schemas.Job{
		JobID: "1", User: "u", Nodes: []string{"a1", "a2"}, Cores: &cores, Start: &start, End: &end,
		State: schemas.StateCompleted,
	})
	known := []rules.Known{
		{Name: "cpu_idle", Unit: "1", Scope: schemas.ScopeCore}, {Name: "ipc", Unit: "1", Scope: schemas.ScopeCore},
	}
	set, err := rules.Compile(known, shippedIDs(), rules.Source{Name: "x", Text: []byte(`rules:
  - {id: idle, title: t, from: x, needs: [cpu_idle], each: cpu_idle.mean > 2, hint: h,
     severity: {of: cpu_idle.mean, from: 0, to: 1}}
  - {id: blind, title: t, from: x, needs: [ipc], each: ipc.mean > 2, hint: h, severity: {of: ipc.mean, from: 0, to: 1}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	load := func(id string, of func(*Sources) (*view.Job, error)) *view.Job {
		t.Helper()
		s, err := Open(t.Context(), config.Default(), everybody, Ask{Dir: d.dir}, id)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		j, err := of(s)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	ask := Ask{Dir: d.dir, Metrics: []string{AllMetrics}, Restart: -1}
	brief := func(id string) *view.Job {
		t.Helper()
		return load(id, func(s *Sources) (*view.Job, error) { return s.Brief(t.Context(), set, id, ask) })
	}
	if j := brief("1"); j.Intervals != intervals || !strings.Contains(j.From, "evaluated now") {
		t.Errorf("without totals: %d intervals from %s", j.Intervals, j.From)
	}
	d.totals(t)
	if j := brief("1"); !strings.Contains(j.From, "evaluated now") {
		t.Errorf("without findings: from %s", j.From)
	}
	found := schemas.Finding{
		Cluster: "c", JobID: "1", Rule: "idle", RuleHash: "0", State: schemas.FindingOpen, Certainty: schemas.Certain,
		Class: schemas.ClassHigh, Severity: 1, Worst: 1, AsOf: end - 60_000, IntervalMs: 60_000, Final: true, Title: "t",
	}
	if err := findings.Write(t.Context(), d.dir, "weir."+schemas.TopicFindings, []schemas.Finding{found}); err != nil {
		t.Fatal(err)
	}
	long := load("1", func(s *Sources) (*view.Job, error) { return s.Load(t.Context(), nil, "1", ask) })
	if other := brief("2"); other.Intervals != intervals || !other.Running {
		t.Errorf("a job without a record: %+v", other)
	}
	of, err := Open(t.Context(), config.Default(), Viewer{User: "other"}, Ask{Dir: d.dir}, "1", "2")
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	for _, id := range []string{"1", "2"} {
		if j, err := of.Brief(t.Context(), set, id, ask); !errors.Is(err, ErrNoJob) || j != nil {
			t.Errorf("job %s, asked by another user: %+v, %v", id, j, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(d.dir, "summaries")); err != nil {
		t.Fatal(err)
	}
	j := brief("1")
	if len(j.NotEvaluated) != 1 || j.NotEvaluated[0].Rule != "blind" || len(j.Findings) != 1 {
		t.Errorf("%+v, %+v", j.NotEvaluated, j.Findings)
	}
	if diff := cmp.Diff(long, j, cmpopts.EquateNaNs(), cmpopts.IgnoreUnexported(view.Job{}),
		cmpopts.IgnoreFields(view.Job{}, "Complete", "ExactShare", "WorstRankError", "NotEvaluated",
			"Gaps", "ByNode"),
		cmpopts.IgnoreFields(view.Metric{}, "Bins"), cmpopts.IgnoreFields(view.Total{}, "PerNode", "Nodes", "Certified"),
	); diff != "" {
		t.Error(diff)
	}
}
