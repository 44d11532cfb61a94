package analysis

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/findings"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/analysis/topics/topicstest"
)

const ruleText = `
metrics: [{name: alpha, unit: "1", scope: core}, {name: beta, unit: "1", scope: core}]
guards: {after: 60s, duration: 300s, intervals: 5, seen: 0.2, complete: 0.5}
rules:
  - {id: high-alpha, title: a, needs: [alpha], each: alpha.lo5 > 0.7, share: 0.3, by: high_node,
     severity: {of: alpha.mean, from: 0.5, to: 1.5}, hint: "h", evidence: [alpha.mean, alpha.d9], silences: [both]}
  - {id: both, title: b, needs: [alpha, beta], each: alpha.mean > beta.mean, share: 0.4,
     severity: {of: alpha.mean, from: 0, to: 2}, hint: "h"}
  - {id: life, title: c, needs: [beta], job: beta.mean > 0.9, severity: {of: beta.mean, from: 0, to: 2}, hint: "h"}
`

func ruleSetOf(t testing.TB) *rules.Set {
	t.Helper()
	set, err := rules.Compile(nil, shippedIDs(), rules.Source{Name: "x", Text: []byte(ruleText)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// shippedIDs returns the ids of the shipped rules.
func shippedIDs() (ids []string) {
	for line := range strings.Lines(string(rules.Shipped())) {
		if id, is := strings.CutPrefix(strings.TrimSpace(line), "- id: "); is {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	return ids
}

// live folds the summaries of a life as the service does that watches them, and returns its final findings.
func live(set *rules.Set, m *measured, possible bool) (final []schemas.Finding) {
	running := m.job
	running.End, running.State = nil, schemas.StateRunning
	w := set.NewWatch(rules.JobOf("c", &running, nil), possible)
	var iv rules.Interval
	for _, s := range m.summaries {
		rules.FromSummary(s, possible, &iv)
		if w.Add(&iv) {
			w.Due(nil)
		}
	}
	w.Know(rules.JobOf("c", &m.job, nil))
	return w.End(nil)
}

func encoded(t testing.TB, all []schemas.Finding) []byte {
	t.Helper()
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b schemas.Finding) int { return bytes.Compare(a.Key(), b.Key()) })
	var text []byte
	for i := range all {
		b, err := schemas.Marshal(&all[i])
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	return text
}

// TestHistoryFindsWhatLiveFinds: byte for byte, whether the archive has small files or compacted ones. A report that
// evaluates the rules itself finds the same.
func TestHistoryFindsWhatLiveFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 20))
	set := ruleSetOf(t)
	d := &disk{dir: t.TempDir()}
	var all []measured
	var known []schemas.Job
	var log []*schemas.JobSummary
	for i := range 12 {
		m := measure(r, fmt.Sprint(40+i), int32(i%2), loadStart+int64(i%4)*3_600_000, 60_000, 40+30*i, "alpha", "beta",
			"gamma")
		for _, s := range m.summaries { // some metrics are missing in some intervals
			s.Metrics = slices.DeleteFunc(s.Metrics, func(schemas.JobSummaryMetric) bool { return r.IntN(12) == 0 })
		}
		all, known, log = append(all, m), append(known, m.job), interleave(log, m.summaries)
	}
	d.jobs(t, known...)
	d.append(t, log, 200)
	d.append(t, measure(r, "99", 0, loadStart+72*3_600_000, 60_000, 1).summaries, 1)
	want, found := map[schemas.JobKey][]byte{}, 0
	for i := range all {
		f := live(set, &all[i], false)
		found += len(f)
		want[all[i].job.Identity()] = encoded(t, f)
	}
	if found < 8 || found > 30 {
		t.Fatalf("%d findings", found)
	}
	for _, state := range []string{"small", "compacted"} {
		if state == "compacted" {
			d.compact(t)
		}
		got := map[schemas.JobKey][]byte{}
		judged, err := History(t.Context(), config.Default(), everybody, d.dir, set, time.Time{},
			func(j rules.Job, f []schemas.Finding) error { got[j.Key] = encoded(t, f); return nil })
		if err != nil || judged != len(all) {
			t.Fatal(judged, err)
		}
		for key, w := range want {
			if !bytes.Equal(got[key], w) {
				t.Errorf("%s: job %v: %q, want %q", state, key, got[key], w)
			}
		}
		for i := range all {
			key := all[i].job.Identity()
			j, err := Load(t.Context(), config.Default(), everybody, set, key.JobID, Ask{Dir: d.dir, Restart: key.Restart})
			if err != nil {
				t.Fatal(err)
			}
			open := slices.DeleteFunc(live(set, &all[i], false),
				func(f schemas.Finding) bool { return f.State != schemas.FindingOpen })
			if !bytes.Equal(encoded(t, j.Findings), encoded(t, open)) || !strings.HasSuffix(j.From, "evaluated now") {
				t.Errorf("%s: job %v has other findings in its report, from %s", state, key, j.From)
			}
		}
	}
	if n, err := History(t.Context(), config.Default(), everybody, d.dir, set, time.UnixMilli(*all[11].job.End),
		nope); err != nil || n != 1 {
		t.Error(n, err)
	}
}

// TestPossibleFindingsAreTheSame: with find.possible, history and a report that evaluates the rules itself find what live
// finds: some findings are certain, and some are not.
func TestPossibleFindingsAreTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 24))
	set, cfg := ruleSetOf(t), config.Default()
	cfg.Find.Possible = true
	d := &disk{dir: t.TempDir()}
	certainties := map[string]int{}
	want := map[schemas.JobKey][]schemas.Finding{}
	for i := range 8 {
		m := measure(r, fmt.Sprint(40+i), 0, loadStart, 60_000, 60, "alpha", "beta")
		d.append(t, m.summaries, 30)
		d.jobs(t, m.job)
		want[m.job.Identity()] = live(set, &m, true)
	}
	_, err := History(t.Context(), cfg, everybody, d.dir, set, time.Time{}, func(j rules.Job, f []schemas.Finding) error {
		if !bytes.Equal(encoded(t, f), encoded(t, want[j.Key])) {
			t.Errorf("job %v: history finds %+v, want %+v", j.Key, f, want[j.Key])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, all := range want {
		j, err := Load(t.Context(), cfg, everybody, set, key.JobID, Ask{Dir: d.dir, Restart: -1})
		if err != nil {
			t.Fatal(err)
		}
		open := worstFirst(all)
		if !bytes.Equal(encoded(t, j.Findings), encoded(t, open)) {
			t.Errorf("job %v: its report has %+v, want %+v", key, j.Findings, open)
		}
		for _, f := range open {
			certainties[f.Certainty]++
		}
	}
	if len(certainties) != 2 {
		t.Errorf("findings by certainty: %v", certainties)
	}
}

// TestHistoryClosesFindings: a problem that went away during the life is a closed finding, as live, which saw it open.
func TestHistoryClosesFindings(t *testing.T) {
	set, d := ruleSetOf(t), &disk{dir: t.TempDir()}
	m := measure(rand.New(rand.NewPCG(16, 25)), "47", 0, loadStart, 60_000, 60, "alpha", "beta")
	for i, s := range m.summaries {
		above, below := 2.0, 1.0
		if i > 8 {
			above, below = below, above
		}
		low := make([]float64, 11) // so that high-alpha, which silences both, does not hold
		s.Metrics[0].Deciles, s.Metrics[0].Lo, s.Metrics[0].Hi = &low, nil, nil
		s.Metrics[0].Mean, s.Metrics[1].Mean = &above, &below
	}
	d.jobs(t, m.job)
	d.append(t, m.summaries, 30)
	want := live(set, &m, false)
	closed := func(f schemas.Finding) bool { return f.Rule == "both" && f.State == schemas.FindingClosed }
	if !slices.ContainsFunc(want, closed) {
		t.Fatalf("live closes nothing: %+v", want)
	}
	_, err := History(t.Context(), config.Default(), everybody, d.dir, set, time.Time{},
		func(_ rules.Job, f []schemas.Finding) error {
			if !bytes.Equal(encoded(t, f), encoded(t, want)) {
				t.Errorf("history finds %+v, want %+v", f, want)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHistoryBesideACompaction: rules run without the lock of the archive, so that a compaction need not wait. What it
// replaces is found again, whether the file was still open or not.
func TestHistoryBesideACompaction(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	r := rand.New(rand.NewPCG(16, 23))
	set := ruleSetOf(t)
	first := measure(r, "40", 0, loadStart, 60_000, 30, "alpha", "beta")
	second := measure(r, "41", 0, loadStart, 10_000, 450, "alpha", "beta") // it ends later
	d := &disk{dir: t.TempDir()}
	d.jobs(t, first.job, second.job)
	d.append(t, first.summaries, 30)
	d.append(t, second.summaries, 1) // more files than stay open
	d.append(t, measure(r, "99", 0, loadStart+72*3_600_000, 60_000, 1).summaries, 1)
	got := map[string][]byte{}
	judged, err := History(t.Context(), config.Default(), everybody, d.dir, set, time.Time{},
		func(j rules.Job, f []schemas.Finding) error {
			if got[j.Key.JobID] = encoded(t, f); len(got) == 1 {
				d.compact(t)
			}
			return nil
		})
	if err != nil || judged != 2 || !bytes.Equal(got["40"], encoded(t, live(set, &first, false))) ||
		!bytes.Equal(got["41"], encoded(t, live(set, &second, false))) || len(got["41"]) == 0 {
		t.Errorf("%d jobs, %v: %q", judged, err, got)
	}
}

func nope(rules.Job, []schemas.Finding) error { return nil }

// TestSeverityMapIsTheWorstOfEachBin, by the definition of the rule.
func TestSeverityMapIsTheWorstOfEachBin(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 21))
	set := ruleSetOf(t)
	m := measure(r, "47", 0, loadStart, 60_000, 300, "alpha", "beta")
	d := &disk{dir: t.TempDir()}
	d.jobs(t, m.job)
	d.append(t, m.summaries, 50)
	j, err := Load(t.Context(), config.Default(), everybody, set, "47", Ask{Dir: d.dir, Restart: -1, MaxBins: 50})
	if err != nil {
		t.Fatal(err)
	}
	if len(j.Map) != 2 || j.Map[0].Mean < j.Map[1].Mean {
		t.Fatalf("%+v", j.Map)
	}
	at := slices.IndexFunc(set.Rules, func(r rules.Rule) bool { return r.ID == "both" })
	p := j.Map[slices.IndexFunc(j.Map, func(p view.Property) bool { return p.Rule == "both" })]
	w := set.NewWatch(rules.JobOf("c", &m.job, nil), false)
	want := make([]float64, len(p.Worst))
	for i := range want {
		want[i] = math.NaN()
	}
	var iv rules.Interval
	for _, s := range m.summaries {
		rules.FromSummary(s, false, &iv)
		w.Add(&iv)
		for _, sev := range w.Severities(&iv, nil) {
			for k, b := range j.Metrics[0].Bins {
				if sev.Rule == at && sev.Evaluated && s.IntervalStart >= b.StartMs && s.IntervalStart < b.EndMs &&
					!(want[k] >= sev.Value) {
					want[k] = sev.Value
				}
			}
		}
	}
	if len(p.Worst) != len(j.Metrics[0].Bins) {
		t.Fatalf("%d cells for %d bins", len(p.Worst), len(j.Metrics[0].Bins))
	}
	positive := 0
	for k := range want {
		if want[k] > 0 {
			positive++
		}
		if want[k] != p.Worst[k] && !(math.IsNaN(want[k]) && math.IsNaN(p.Worst[k])) {
			t.Errorf("bin %d: %g, want %g", k, p.Worst[k], want[k])
		}
	}
	if positive < 5 {
		t.Errorf("%d bins of %d have a severity", positive, len(want))
	}
}

// TestRecordedFindingsAreShown: those on record win over what comes out now, from the archive and from the topic.
// Closed ones are left out. A finding of a rule that nobody knows any longer is shown.
func TestRecordedFindingsAreShown(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 22))
	set := ruleSetOf(t)
	m := measure(r, "47", 0, loadStart, 60_000, 300, "alpha", "beta")
	b := topicstest.NewBrokers(t, t.TempDir())
	d := &disk{dir: b.Config.Sink.Dir}
	d.append(t, m.summaries, 90)
	record := func(rule, state, class string, severity float64) schemas.Finding {
		return schemas.Finding{
			Cluster: "c", JobID: "47", Rule: rule, RuleHash: "0", State: state, Final: true, Class: class,
			Certainty: schemas.Certain, Severity: severity, Worst: 1, FirstInterval: loadStart, LastInterval: loadStart,
			AsOf: loadStart, IntervalMs: 60_000, Title: "t", Hint: "h",
			Evidence: []schemas.FindingEvidence{{Name: "a.mean", Low: 1, Mean: 2, High: 3}},
		}
	}
	recorded := []schemas.Finding{
		record("gone", schemas.FindingOpen, schemas.ClassMed, 0.9),
		record("both", schemas.FindingOpen, schemas.ClassHigh, 0.1),
		record("life", schemas.FindingClosed, schemas.ClassHigh, 0.5),
	}
	want := encoded(t, recorded[:2])
	check := func(from string) {
		t.Helper()
		j, err := Load(t.Context(), b.Config, everybody, set, "47", Ask{Topic: true, Restart: -1})
		if err != nil || !bytes.Equal(encoded(t, j.Findings), want) || j.Findings[0].Rule != "both" ||
			j.From != "archive" {
			t.Errorf("%s: %v, from %s: %+v", from, err, j.From, j.Findings)
		}
	}
	for i := range recorded {
		b.Put(t, schemas.TopicFindings, recorded[i].Key(), &recorded[i])
	}
	other := record("both", schemas.FindingOpen, schemas.ClassHigh, 1)
	other.JobID = "471"
	b.Put(t, schemas.TopicFindings, other.Key(), &other)
	b.Raw(t, schemas.TopicFindings, []byte("47/0/x"), []byte("rubbish"))
	check("topic")
	d.jobs(t, m.job)
	if err := findings.Write(t.Context(), d.dir, "weir.findings", recorded); err != nil {
		t.Fatal(err)
	}
	b.Config.Prefix = "weir."
	check("archive")
	l, err := LoadLines(t.Context(), b.Config, everybody, ListAsk{Dir: d.dir, Finding: "gone"})
	if err != nil || len(l.Rows) != 1 || l.Rows[0].Finding.Rule != "both" {
		t.Errorf("%v: %+v", err, l)
	}
}
