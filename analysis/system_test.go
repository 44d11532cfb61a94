package analysis

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"

	"github.com/weirhpc/weir/report/machine"
	"github.com/weirhpc/weir/rules"
)

// dated makes directories of dates in a table.
func dated(t *testing.T, dir, table string, dates ...string) {
	t.Helper()
	for _, d := range dates {
		if err := os.MkdirAll(filepath.Join(dir, table, "date="+d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSystemSpan: without times a report is about the archive's last thirty days, and never about the future.
func TestSystemSpan(t *testing.T) {
	day := func(text string) time.Time {
		at, err := time.Parse("2006-01-02T15:04", text)
		if err != nil {
			at, err = time.Parse(time.DateOnly, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	dir := t.TempDir()
	if _, err := LoadSystem(t.Context(), config.Default(), SystemAsk{Dir: dir}); !errors.Is(err, ErrEmptyArchive) {
		t.Errorf("an archive of nothing: %v", err)
	}
	dated(t, dir, "summaries", "2026-03-01", "2026-03-05", "2026-05-20", "stray")
	dated(t, dir, "jobs", "2026-05-21")
	for name, c := range map[string]struct{ from, to, now, wantFrom, wantTo string }{
		"the end of the archive":     {"", "", "2027-01-01", "2026-04-22", "2026-05-22"},
		"a month":                    {"2026-03-01", "2026-04-01", "2027-01-01", "2026-03-01", "2026-04-01"},
		"the begin of the archive":   {"", "2026-03-11", "2027-01-01", "2026-03-01", "2026-03-11"},
		"before the archive":         {"", "2026-02-01", "2027-01-01", "2026-01-02", "2026-02-01"},
		"a month that is not over":   {"2026-05-01", "2026-06-01", "2026-05-22", "2026-05-01", "2026-05-22"},
		"a month that has not begun": {"2026-06-01", "2026-07-01", "2026-05-22", "2026-06-01", ""},
		"parts of hours": {
			"2026-05-01T10:40", "2026-05-01T11:20", "2027-01-01", "2026-05-01T10:00", "2026-05-01T12:00",
		},
		"an hour that is not over": {
			"2026-05-22T10:40", "2026-05-22T11:10", "2026-05-22T11:20", "2026-05-22T10:00", "2026-05-22T11:20",
		},
		"the wrong way round, of two": {"2026-06-01", "2026-05-01", "2027-01-01", "", ""},
	} {
		a := SystemAsk{Dir: dir, Now: func() time.Time { return day(c.now) }}
		if c.from != "" {
			a.From = day(c.from)
		}
		if c.to != "" {
			a.To = day(c.to)
		}
		err := a.setSpan()
		if c.wantFrom == "" {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			continue
		}
		wantTo := day(c.wantFrom).UnixMilli() + 1
		if c.wantTo != "" {
			wantTo = day(c.wantTo).UnixMilli()
		}
		if err != nil || a.FromMs != day(c.wantFrom).UnixMilli() || a.ToMs != wantTo {
			t.Errorf("%s: %v to %v: %v", name, time.UnixMilli(a.FromMs).UTC(), time.UnixMilli(a.ToMs).UTC(), err)
		}
	}
}

// TestMachineCores: cores are known only where each type tells its nodes and CPUs.
func TestMachineCores(t *testing.T) {
	thin := config.NodeType{Nodes: "n[1-10]", CPUs: 96, ThreadsPerCore: 2}
	fat := config.NodeType{Nodes: "f[1-2],x", CPUs: 64}
	for _, c := range []struct {
		types []config.NodeType
		cores float64
	}{
		{nil, 0},
		{[]config.NodeType{thin}, 960},
		{[]config.NodeType{thin, fat}, 1152},
		{[]config.NodeType{thin, {Nodes: "", CPUs: 64}}, 0},
		{[]config.NodeType{thin, {Nodes: "y"}}, 0},
		{[]config.NodeType{{Nodes: "n[", CPUs: 1}}, 0},
	} {
		if cores := machineCores(c.types); cores != c.cores {
			t.Errorf("%+v: %v cores", c.types, cores)
		}
	}
}

// TestThreads: a type tells the threads of its cores, whether or not it tells its nodes and CPUs. Of nodes that are not
// known, all types together tell them, if they agree.
func TestThreads(t *testing.T) {
	thin := config.NodeType{Name: "thin", Nodes: "n[1-10]", ThreadsPerCore: 2}
	others := config.NodeType{Name: "others"}
	twofold := config.NodeType{Name: "twofold", ThreadsPerCore: 2}
	for _, c := range []struct {
		all   []config.NodeType
		nodes []string
		want  int
	}{
		{nil, nil, 0},
		{nil, []string{"n1"}, 1},
		{[]config.NodeType{twofold}, nil, 2},
		{[]config.NodeType{twofold}, []string{"any", "other"}, 2},
		{[]config.NodeType{thin, others}, []string{"n1", "n2"}, 2},
		{[]config.NodeType{thin, others}, []string{"x"}, 1},
		{[]config.NodeType{thin, others}, nil, 0},
		{[]config.NodeType{thin, twofold}, nil, 2},
		{[]config.NodeType{thin, others, thin}, nil, 0},
	} {
		types, _ := rules.NewTypes(c.all) // that a type comes twice is a fault of the configuration alone
		if got := threadsOf(c.all, types)(c.nodes); got != c.want {
			t.Errorf("%+v of %+v: %d threads", c.nodes, c.all, got)
		}
	}
}

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
	list, err := LoadLines(t.Context(), cfg, ListAsk{Dir: d.dir, Sort: "wasted"})
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
		r, err := LoadSystem(t.Context(), cfg, SystemAsk{Dir: d.dir})
		if err != nil {
			t.Fatal(err)
		}
		near("weir report system", r.Cores.Wasted, jobs)
		near("its day", r.Days[0].Wasted, jobs)
	}
	types, err := rules.NewTypes(cfg.Machine)
	if err != nil {
		t.Fatal(err)
	}
	k := &machine.Known{Jobs: map[schemas.JobKey]*schemas.Job{}, Threads: threadsOf(cfg.Machine, types)}
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
	r, err := LoadSystem(t.Context(), config.Default(), SystemAsk{Dir: d.dir, From: day, Set: set})
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
