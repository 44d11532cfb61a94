package analysis

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"

	"github.com/weirhpc/weir/rules"
)

// TestLoadWatchesWhatIsAsked: memory for rules does not grow with the life of a job that runs, if a part is asked for.
func TestLoadWatchesWhatIsAsked(t *testing.T) {
	mine := measure(rand.New(rand.NewPCG(16, 10)), "47", 0, loadStart, 60_000, 600, "alpha", "beta")
	d := &disk{dir: t.TempDir()}
	d.append(t, mine.summaries, 100)
	from, to := mine.summaries[100].IntervalStart, mine.summaries[150].IntervalStart
	l, err := newLoader(t.Context(), config.Default(), everybody, ruleSetOf(t), "47", Ask{
		Dir: d.dir, Restart: -1, From: time.UnixMilli(from), To: time.UnixMilli(to),
	})
	if err != nil {
		t.Fatal(err)
	}
	j, err := l.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l.watcher.came != 50 || len(l.watcher.spare) != 50 {
		t.Errorf("%d intervals are watched, not 50, and %d in memory", l.watcher.came, len(l.watcher.spare))
	}
	if got := j.Metrics[0].Total.Count; got != int64(len(mine.values[j.Metrics[0].Name])) {
		t.Errorf("a total of %d values", got)
	}
	if !strings.HasSuffix(j.From, "findings evaluated now of the part that is shown") {
		t.Errorf("from %q", j.From)
	}
}

// TestLoadOfRulesOfALongJob: the rules of a job that is read by the hour, and of a part of it.
func TestLoadOfRulesOfALongJob(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	mine := measure(rand.New(rand.NewPCG(16, 11)), "47", 0, loadStart, 5000, 21_000, "alpha", "beta",
		"flops_any") // 29 hours
	d := &disk{dir: t.TempDir()}
	d.jobs(t, mine.job)
	d.append(t, mine.summaries, 5000)
	far := loadStart + 96*3_600_000
	d.append(t, measure(rand.New(rand.NewPCG(16, 12)), "99", 0, far, 1000, 1).summaries, 1)
	if err := compactDates(t, d, "2026-01-05", "2026-01-06", "2026-01-07"); err != nil {
		t.Fatal(err)
	}
	evaluatesALongJob(t, d, mine)
	saysWhyNoRule(t, d)
	evaluatesAPart(t, d, mine)
}

// evaluatesALongJob: rules find in a job that is read by the hour what they find live. No more intervals are in
// memory than a date has. A finding on record is shown instead, and its rule was evaluated.
func evaluatesALongJob(t *testing.T, d *disk, mine measured) {
	t.Helper()
	set := ruleSetOf(t)
	l, err := newLoader(t.Context(), config.Default(), everybody, set, "47", Ask{Dir: d.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	j, err := l.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := worstFirst(live(set, &mine, false))
	if len(want) == 0 || !bytes.Equal(encoded(t, j.Findings), encoded(t, want)) || len(j.NotEvaluated) > 0 ||
		j.From != "archive, findings evaluated now" || !j.Metrics[0].Bins[0].Hourly {
		t.Errorf("from %s: %+v, not %+v; not evaluated: %v", j.From, j.Findings, want, j.NotEvaluated)
	}
	if len(j.Map) != 2 || j.Map[0].Why != "" || len(j.Map[0].Worst) != 30 || math.IsNaN(j.Map[0].Worst[29]) {
		t.Errorf("the map: %+v", j.Map)
	}
	if n := int64(len(l.watcher.spare)); l.watcher.came != j.Intervals || n > dayMs/5000 {
		t.Errorf("%d of %d intervals are evaluated, %d at once", l.watcher.came, j.Intervals, n)
	}
	f := want[0]
	f.Rule = "life"
	if err := findings.Write(t.Context(), d.dir, "weir.findings", []schemas.Finding{f}); err != nil {
		t.Fatal(err)
	}
	j, err = Load(t.Context(), config.Default(), everybody, set, "47", Ask{Dir: d.dir, Restart: -1})
	if err != nil || len(j.Findings) != 1 || j.Findings[0].Rule != "life" || j.From != "archive" {
		t.Errorf("%v, from %s: %+v", err, j.From, j.Findings)
	}
}

// saysWhyNoRule: the rules of a job of too many intervals are not evaluated. They lack no metric.
func saysWhyNoRule(t *testing.T, d *disk) {
	t.Helper()
	l, err := newLoader(t.Context(), config.Default(), everybody, ruleSetOf(t), "47", Ask{Dir: d.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	l.mostRules = 20_500
	j, err := l.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []rules.Reason{{Rule: "high-alpha", Why: whyUnwatched}, {Rule: "both", Why: whyUnwatched}}
	if !slices.Equal(j.NotEvaluated, want) || len(j.Findings) != 1 || l.watcher.came > 0 {
		t.Errorf("not evaluated: %v; findings: %v; %d intervals", j.NotEvaluated, j.Findings, l.watcher.came)
	}
	if got := j.PerNode(j.Find("flops_any")); got != 4 { // a bar needs it, and hours do not tell
		t.Errorf("%g values of a node, not 4", got)
	}
	for _, p := range j.Map {
		if p.Why != whyUnwatched {
			t.Errorf("the map of %s: %s", p.Rule, p.Why)
		}
	}
}

// evaluatesAPart: of a part of a long life only that part is read by the interval. Totals are those of the
// life, and what rules say is said of the part.
func evaluatesAPart(t *testing.T, d *disk, mine measured) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(d.dir, "findings")); err != nil {
		t.Fatal(err)
	}
	from := loadStart + 5*3_600_000
	for _, running := range []bool{true, false} {
		if running {
			if err := os.RemoveAll(filepath.Join(d.dir, "jobs")); err != nil {
				t.Fatal(err)
			}
		} else {
			d.jobs(t, mine.job)
		}
		j, err := Load(t.Context(), config.Default(), everybody, ruleSetOf(t), "47", Ask{
			Dir: d.dir, Restart: -1, From: time.UnixMilli(from), To: time.UnixMilli(from + 120_000),
		})
		if err != nil {
			t.Fatal(err)
		}
		m := &j.Metrics[0]
		if m.Total.Count != int64(len(mine.values[m.Name])) || !m.Total.Known || m.Bins[0].Hourly ||
			m.Bins[0].StartMs < from || j.Intervals != int64(len(mine.summaries)) {
			t.Errorf("%d intervals, a total of %d values: %+v", j.Intervals, m.Total.Count, m.Bins[0])
		}
		ofLife := func(f schemas.Finding) bool { return f.Rule == "life" }
		if !strings.HasSuffix(j.From, ", findings evaluated now of the part that is shown") ||
			!slices.Equal(j.NotEvaluated, []rules.Reason{{Rule: "life", Why: whyPart}}) ||
			slices.ContainsFunc(j.Findings, ofLife) {
			t.Errorf("from %s: %v; not evaluated: %v", j.From, j.Findings, j.NotEvaluated)
		}
	}
}

// TestLoadOfAPartFromMidnight: of a final life only the dates of the part are read. What is said of the whole is said
// of the whole, and rules see a part.
func TestLoadOfAPartFromMidnight(t *testing.T) {
	mine := measure(rand.New(rand.NewPCG(16, 13)), "47", 0, loadStart, 60_000, 700, "alpha", "beta")
	d := &disk{dir: t.TempDir()}
	d.jobs(t, mine.job)
	d.append(t, mine.summaries, 90)
	d.append(t, measure(rand.New(rand.NewPCG(16, 14)), "99", 0, loadStart+48*3_600_000, 60_000, 1).summaries, 1)
	d.compact(t)
	d.totals(t)
	midnight := time.Date(2026, 1, 6, 0, 0, 0, 0, time.UTC)
	for name, a := range map[string]Ask{"from": {From: midnight}, "to": {To: midnight.Add(-time.Hour)}} {
		a.Dir, a.Restart = d.dir, -1
		j, err := Load(t.Context(), config.Default(), everybody, ruleSetOf(t), "47", a)
		if err != nil {
			t.Fatal(err)
		}
		expected, reported := int64(0), int64(0)
		for _, s := range mine.summaries {
			expected, reported = expected+int64(s.NodesExpected), reported+int64(s.NodesReported)
		}
		last := mine.summaries[len(mine.summaries)-1]
		if j.FirstMs != loadStart || j.UntilMs != last.IntervalStart+last.IntervalMs ||
			j.Intervals != int64(len(mine.summaries)) || j.Expected != expected || j.Reported != reported {
			t.Errorf("%s: %d to %d, %d intervals, %d of %d nodes", name, j.FirstMs, j.UntilMs, j.Intervals, j.Reported,
				j.Expected)
		}
		if !strings.HasSuffix(j.From, ", findings evaluated now of the part that is shown") || !j.Part ||
			!slices.Equal(j.NotEvaluated, []rules.Reason{{Rule: "life", Why: whyPart}}) ||
			slices.ContainsFunc(j.Findings, func(f schemas.Finding) bool { return f.Rule == "life" }) {
			t.Errorf("%s: %s: %v; not evaluated: %v", name, j.From, j.Findings, j.NotEvaluated)
		}
	}
}

// TestLoadOfAnOldJobWithoutARecord: a short life that no scheduler knows is read by the interval, however old it is.
func TestLoadOfAnOldJobWithoutARecord(t *testing.T) {
	mine := measure(rand.New(rand.NewPCG(16, 15)), "47", 2, loadStart, 60_000, 230, "alpha", "beta")
	d := &disk{dir: t.TempDir()}
	d.append(t, mine.summaries, 90)
	d.append(t, measure(rand.New(rand.NewPCG(16, 16)), "99", 0, loadStart+48*3_600_000, 60_000, 1).summaries, 1)
	d.compact(t)
	j, err := Load(t.Context(), config.Default(), everybody, ruleSetOf(t), "47", Ask{Dir: d.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	mine.same(t, j, "alpha", "beta")
	if bins := j.Metrics[0].Bins; len(bins) != 230 || bins[0].Hourly || len(j.NotEvaluated) > 0 || j.Restart != 2 {
		t.Errorf("restart %d, %d bins of %d ms; not evaluated: %v", j.Restart, len(bins), bins[0].EndMs-bins[0].StartMs,
			j.NotEvaluated)
	}
}
