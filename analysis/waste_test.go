package analysis

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/rules"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"

	"github.com/weirhpc/weir/analysis/overview"
)

// TestOneWaste: the jobs of an archive waste what the machine wastes, on each day and in each interval. A core-hour is
// one of a logical CPU everywhere. One job works on one thread of each core, and one on half of its cores. One does
// nothing at all on cores of one thread.
func TestOneWaste(t *testing.T) {
	const intervals = 30
	cfg := config.Default()
	cfg.Machine = []config.NodeType{
		{Name: "twofold", ThreadsPerCore: 2}, {Name: "single", Nodes: "s[1-2]", CPUs: 4, ThreadsPerCore: 1},
	}
	d, known := &disk{dir: t.TempDir()}, []schemas.Job(nil)
	byStart := make([][]*schemas.JobSummary, intervals)
	for i, c := range []struct {
		id    string
		nodes []string
		idle  float64
	}{{"1", []string{"a1", "a2"}, 0.5}, {"2", []string{"a3", "a4"}, 0.75}, {"3", []string{"s1", "s2"}, 1}} {
		start, end, cores := loadStart, loadStart+intervals*60_000, int64(8)
		known = append(known, schemas.Job{
			JobID: c.id, User: "u", Nodes: c.nodes, Cores: &cores, Start: &start, End: &end,
			State: schemas.StateCompleted,
		})
		for k := range byStart {
			byStart[k] = append(byStart[k], idleSummary(c.id, k, int64(8-4*(i%2*k%2)), c.idle))
		}
	}
	for k, of := range byStart { // the machine, of which no job held 8 cores
		count, idle := int64(8), 8.0
		for _, s := range of {
			m := s.Metrics[0]
			count, idle = count+m.Count, idle+float64(m.Count)**m.Mean
		}
		byStart[k] = append(of, idleSummary(schemas.JobSystem, k, count, idle/float64(count)),
			idleSummary(schemas.JobRest, k, 8, 1))
	}
	d.append(t, slices.Concat(byStart...), 50)
	d.jobs(t, known...)
	d.totals(t)
	list, err := LoadLines(t.Context(), cfg, everybody, ListAsk{Dir: d.dir, Sort: "wasted"})
	if err != nil {
		t.Fatal(err)
	}
	of, jobs := map[string]float64{}, 0.0
	for _, l := range list.Rows {
		of[l.JobID] = *l.WastedH
		jobs += *l.WastedH
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v core-hours wasted, want %v", what, got, want)
		}
	}
	near("job 1", of["1"], 0)
	near("job 2", of["2"], 0.5*6*intervals/60)
	near("job 3", of["3"], 8*intervals/60)
	for _, compacted := range []bool{false, true} {
		if compacted {
			d.compact(t)
		}
		r, err := overview.Load(t.Context(), cfg, overview.Ask{Dir: d.dir})
		if err != nil {
			t.Fatal(err)
		}
		near("weir report system", r.Cores.Wasted, jobs)
		near("its day", r.Days[0].Wasted, jobs)
	}
	types, err := nodetypes.New(cfg.Machine)
	if err != nil {
		t.Fatal(err)
	}
	k := &machine.Known{Jobs: map[schemas.JobKey]*schemas.Job{}, Threads: types.Threads}
	for i := range known {
		k.Jobs[known[i].Identity()] = &known[i]
	}
	var live machine.Live
	top := 0.0
	for _, of := range byStart {
		top += live.Fold(of, k).Cores.Wasted
	}
	near("weir top", top, jobs)
}

// TestFindingsOfASpan: a finding counts for a job of the span wherever in its life rules last saw it, in the report and
// in the list. One that held for a while only, or of a job that ended before, does not count.
func TestFindingsOfASpan(t *testing.T) {
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(hours int) int64 { return day.Add(time.Duration(hours) * time.Hour).UnixMilli() }
	d, cores := &disk{dir: t.TempDir()}, int64(8)
	finding := func(job string, asOf int64, state string) schemas.Finding {
		return schemas.Finding{
			Cluster: "c", JobID: job, Rule: "idle-cores", RuleHash: "0", State: state, Certainty: schemas.Certain,
			Class: schemas.ClassHigh, Severity: 1, Worst: 1, AsOf: asOf, IntervalMs: 60_000, Final: true, Title: "t",
		}
	}
	var known []schemas.Job
	var found []schemas.Finding
	for _, c := range []struct {
		id         string
		start, end int64
		finding    schemas.Finding
	}{
		{"before", at(-72), at(-1), finding("before", at(-2), schemas.FindingOpen)},
		{"edge", at(-72), at(0) + 5000, finding("edge", at(-1), schemas.FindingOpen)},
		{"dark", at(-72), at(3), finding("dark", at(-70), schemas.FindingOpen)},
		{"once", at(-72), at(3), finding("once", at(2), schemas.FindingClosed)},
	} {
		known = append(known, schemas.Job{
			JobID: c.id, Nodes: []string{"n1"}, Cores: &cores, Start: &c.start, End: &c.end,
			State: schemas.StateCompleted,
		})
		found = append(found, c.finding)
		s := idleSummary(c.id, 0, 8, 1)
		s.IntervalStart = c.start
		d.append(t, []*schemas.JobSummary{s}, 1)
	}
	d.jobs(t, known...)
	d.totals(t)
	if err := findings.Write(t.Context(), d.dir, "weir."+schemas.TopicFindings, found); err != nil {
		t.Fatal(err)
	}
	set := &rules.Set{Rules: []rules.Rule{{ID: "idle-cores", Needs: []string{"cpu_idle"}}}}
	r, err := overview.Load(t.Context(), config.Default(), overview.Ask{Dir: d.dir, From: day, Set: set})
	if err != nil || r.Jobs != 3 || len(r.Worst) != 2 || r.Worst[0].Job != "dark" || r.Worst[1].Job != "edge" {
		t.Errorf("%v: %d jobs, %+v", err, r.Jobs, r.Worst)
	}
	if got := lines(t, config.Default(), ListAsk{Dir: d.dir, Since: day, Finding: "idle-cores"}); got != "dark edge " {
		t.Errorf("weir jobs: %q", got)
	}
}

// idleSummary is an interval of a job with one metric.
func idleSummary(id string, interval int, count int64, idle float64) *schemas.JobSummary {
	stddev := 0.0
	return &schemas.JobSummary{
		Cluster: "c", JobID: id, IntervalStart: loadStart + int64(interval)*60_000, IntervalMs: 60_000,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 2, NodesReported: 2,
		Metrics: []schemas.JobSummaryMetric{{
			Name: "cpu_idle", Unit: "1", Scope: schemas.ScopeCore, Count: count, Nodes: 2, Mean: &idle, Stddev: &stddev,
		}},
	}
}
