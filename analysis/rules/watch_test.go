package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// siteSet compiles rules without the shipped ones.
func siteSet(t testing.TB, text string) *Set {
	t.Helper()
	var off []string
	for _, id := range regexp.MustCompile(`(?m)^- id: (\S+)`).FindAllSubmatch(Shipped(), -1) {
		off = append(off, string(id[1]))
	}
	s, err := Compile(catalogue, off, Source{"site.yaml", []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// idleRule is found where the mean of cpu_idle is above a half.
const idleRule = `
- id: idle
  title: idle
  needs: [cpu_idle]
  each: cpu_idle.mean > 0.5
  share: 0.5
  severity: {of: cpu_idle.mean, from: 0, to: 1}
  evidence: [cpu_idle.mean]
`

// wholeRule is found where the mean of cpu_user over the life is below a half.
const wholeRule = `
- id: whole
  title: whole
  needs: [cpu_user]
  job: cpu_user.mean < 0.5
  severity: {of: cpu_user.mean, low: 0.5, exponent: 1}
`

const minute = 60_000

// life4711 is a job that began at a mark, on four nodes of 16 CPUs.
func life4711() Job {
	none := 0
	return Job{
		Key: schemas.JobKey{JobID: "4711"}, Cluster: "alpha", User: "alice", Account: "phys", Queue: "normal",
		State: schemas.StateRunning, Nodes: []string{"n1", "n2", "n3", "n4"}, StartMs: markMs * 3_000_000, LimitS: 86400,
		MemRequested: -1, Cores: 64, Gpus: 0, Node: config.NodeType{
			CPUs: 16, ThreadsPerCore: 1, Memory: 1e11, PeakFlops: 1e12, PeakMemBW: 2e11, GPUs: &none,
		},
	}
}

// at is the job's interval of minute i, with metrics of one value each.
func at(i int, metrics map[string]float64) *Interval {
	iv := &Interval{StartMs: life4711().StartMs + int64(i)*minute, LengthMs: minute, Expected: 4, Reported: 4}
	for name, v := range metrics {
		iv.Metrics = append(iv.Metrics, Named{Name: name, Scope: "core", Low: "n1", High: "n2", Metric: exactly(v)})
	}
	iv.order()
	return iv
}

func idle(i int, v float64) *Interval { return at(i, map[string]float64{"cpu_idle": v}) }

// told is the history of a job's records: at which minute, what.
func history(w *Watch, all ...*Interval) (records []string) {
	for i, iv := range all {
		if w.Add(iv) != (len(w.due) > 0) {
			records = append(records, "Add and Due differ")
		}
		for _, f := range w.Due(nil) {
			records = append(records, fmt.Sprintf("%d %s", i, shortly(&f)))
		}
	}
	return records
}

func shortly(f *schemas.Finding) string {
	if err := f.Validate(); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %s %s %s %.3f %d/%d/%d", f.Rule, f.State, f.Class, f.Certainty, f.Severity, f.Matched, f.Evaluated,
		f.Intervals)
	if f.Final {
		text += " final"
	}
	return text
}

func minutes(from, to int, v func(i int) float64) (all []*Interval) {
	for i := from; i < to; i++ {
		all = append(all, idle(i, v(i)))
	}
	return all
}

func always(v float64) func(int) float64 { return func(int) float64 { return v } }

// TestGuards: a finding opens with the interval at which the last of its guards holds, and not before.
func TestGuards(t *testing.T) {
	for _, c := range []struct {
		name, guards string
		change       func(i int, iv *Interval)
		first        int // interval with which the record comes; -1: none
	}{
		// Interval 0 is of the first minute, and an interval counts once the next one comes.
		{name: "intervals", guards: "", first: 31},
		{name: "fewer intervals", guards: "{intervals: 12}", first: 13},
		{name: "duration", guards: "{intervals: 3}", first: 10},
		{name: "a short duration", guards: "{intervals: 3, duration: 5m}", first: 5},
		{name: "at once", guards: "{intervals: 1, duration: 0s, after: 0s}", first: 1},
		{name: "after", guards: "{intervals: 1, duration: 0s, after: 15m}", first: 16},
		{name: "nodes are missing", guards: "{intervals: 3}", first: -1, change: func(_ int, iv *Interval) { iv.Reported = 3 }},
		{name: "three nodes are enough", guards: "{intervals: 3, complete: 0.75}", first: 10, change: func(_ int, iv *Interval) {
			iv.Reported = 3
		}},
		{name: "nobody is expected", guards: "{intervals: 3}", first: -1, change: func(_ int, iv *Interval) {
			iv.Expected, iv.Reported = 0, 0
		}},
		{name: "too little is seen", guards: "{intervals: 3}", first: -1, change: func(i int, iv *Interval) {
			if i%5 == 0 {
				iv.Reported = 3
			}
		}},
		{name: "enough is seen", guards: "{intervals: 3, seen: 0.7}", first: 10, change: func(i int, iv *Interval) {
			if i%5 == 0 {
				iv.Reported = 3
			}
		}},
		{name: "no metric", guards: "{intervals: 3}", first: -1, change: func(_ int, iv *Interval) { iv.Metrics = nil }},
		{name: "seen at the end", guards: "{intervals: 3}", first: 11, change: func(i int, iv *Interval) {
			if i == 1 {
				iv.Reported = 3
			}
		}},
	} {
		rule := idleRule
		if c.guards != "" {
			rule += "  guards: " + c.guards + "\n"
		}
		w := siteSet(t, rule).NewWatch(life4711(), false)
		first := -1
		for i := range 60 {
			iv := idle(i, 0.8)
			if c.change != nil {
				c.change(i, iv)
			}
			if w.Add(iv); first < 0 && len(w.Due(nil)) > 0 {
				first = i
			}
		}
		if first != c.first {
			t.Errorf("%s: the finding comes with interval %d, not %d", c.name, first, c.first)
		}
		if why := w.NotEvaluated(); (c.first < 0) != (len(why) == 1) {
			t.Errorf("%s: not evaluated: %v", c.name, why)
		}
	}
}

// TestFileGuards: guards at the head of a site's file are those of all rules.
func TestFileGuards(t *testing.T) {
	s, err := Compile(catalogue, nil, Source{"site.yaml", []byte("guards: {complete: 0.5, intervals: 7, last: false, " +
		"after: 1s, duration: 2s, seen: 0.25}\nrules:" + strings.ReplaceAll(idleRule, "\n", "\n  "))})
	if err != nil {
		t.Fatal(err)
	}
	want := Guards{AfterMs: 1000, DurationMs: 2000, Intervals: 7, Seen: 0.25, Complete: 0.5}
	for i := range s.Rules {
		if s.Guards != want || s.Rules[i].guards != want {
			t.Errorf("%s has the guards %+v", s.Rules[i].ID, s.Rules[i].guards)
		}
	}
	w := s.NewWatch(life4711(), false)
	for i := range 7 {
		w.Add(idle(i+1, 0.8))
	}
	if due := w.Due(nil); len(due) == 0 {
		t.Errorf("the last interval does not count, though the guard is off")
	}
}

// TestEachOpensAndCloses: open from the share on, closed below half of it, and nothing between. A finding is written
// when it opens, at each mark while it is open, when it closes, and at the end.
func TestEachOpensAndCloses(t *testing.T) {
	w := siteSet(t, idleRule).NewWatch(life4711(), false)
	v := func(i int) float64 {
		switch {
		case i <= 16: // half of the first 32
			return 0.9
		case i >= 110 && i < 230:
			return 0.6
		}
		return 0.1
	}
	got := history(w, minutes(0, 250, v)...)
	want := []string{
		"31 idle OPEN HIGH CERTAIN 0.480 16/30/32", // the guards hold
		"41 idle OPEN HIGH CERTAIN 0.369 16/39/42", // marks
		"51 idle OPEN HIGH CERTAIN 0.294 16/49/52",
		"61 idle OPEN HIGH CERTAIN 0.244 16/59/62",
		"71 idle CLOSED HIGH CERTAIN 0.209 16/69/72", // 16 of 69 is below a quarter
		"191 idle OPEN MED CERTAIN 0.330 96/189/192", // 86 of 179 were not yet a half
		"201 idle OPEN MED CERTAIN 0.344 106/199/202",
		"211 idle OPEN MED CERTAIN 0.356 116/209/212",
		"221 idle OPEN MED CERTAIN 0.367 126/219/222",
		"231 idle OPEN MED CERTAIN 0.377 136/229/232",
		"241 idle OPEN MED CERTAIN 0.362 136/239/242",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	j := life4711()
	j.State, j.EndMs = schemas.StateCompleted, j.StartMs+250*minute
	w.Know(j)
	end := w.End(nil)
	if len(end) != 1 || shortly(&end[0]) != "idle OPEN MED CERTAIN 0.347 136/249/250 final" {
		t.Errorf("at the end: %s", shortly(&end[0]))
	}
	if more := w.End(nil); w.Add(idle(260, 0.9)) || len(more) > 0 {
		t.Errorf("after the end the Watch finds %v", more)
	}
	f := end[0]
	if at := func(ms int64) int64 { return (ms - j.StartMs) / minute }; at(f.FirstInterval) != 1 ||
		at(f.LastInterval) != 229 || at(f.AsOf) != 249 || f.IntervalMs != minute || f.Worst != 0.9 {
		t.Errorf("%+v", f)
	}
	if e := f.Evidence; len(e) != 1 || e[0].Low != 0.6 || e[0].High != 0.9 || math.Abs(e[0].Mean-(16*0.9+120*0.6)/136) > 1e-8 {
		t.Errorf("evidence %+v", e)
	}
}

// TestLastInterval: the last interval of a job counts where its end is known, and the interval is whole.
func TestLastInterval(t *testing.T) {
	set := siteSet(t, idleRule)
	for _, c := range []struct {
		endMs     int64
		evaluated int64
	}{{0, 39}, {40 * minute, 40}, {40*minute + 59_000, 40}, {40*minute - 1, 39}} {
		w := set.NewWatch(life4711(), false)
		history(w, minutes(0, 40, always(0.9))...)
		j := life4711()
		if c.endMs > 0 {
			j.EndMs = j.StartMs + c.endMs
		}
		w.Know(j)
		if f := w.End(nil); len(f) != 1 || f[0].Evaluated != c.evaluated-1 { // without the first minute
			t.Errorf("end after %d ms: %v", c.endMs, f)
		}
	}
}

// TestNeverOpenNeverWritten: a rule that did not hold has no record, not at the end either. One that has closed has a
// final record.
func TestNeverOpenNeverWritten(t *testing.T) {
	set := siteSet(t, idleRule)
	w := set.NewWatch(life4711(), false)
	if got := history(w, minutes(0, 100, always(0.4))...); len(got) > 0 || len(w.End(nil)) > 0 {
		t.Errorf("records without a match: %v", got)
	}
	w = set.NewWatch(life4711(), false)
	history(w, minutes(0, 200, func(i int) float64 { return 0.9 - 0.02*float64(min(i, 45)) })...)
	end := w.End(nil)
	if len(end) != 1 || end[0].State != schemas.FindingClosed || !end[0].Final {
		t.Errorf("a closed finding ends as %+v", end)
	}
}

// TestWholeLifeRules: they are judged when the guards first hold, at each mark, and at the end. Two marks in a row
// close them.
func TestWholeLifeRules(t *testing.T) {
	w := siteSet(t, wholeRule).NewWatch(life4711(), false)
	user := func(from, to int, v float64) (all []*Interval) {
		for i := from; i < to; i++ {
			all = append(all, at(i, map[string]float64{"cpu_user": v}))
		}
		return all
	}
	got := history(w, slices.Concat(user(0, 35, 0.4), user(35, 90, 0.9))...)
	want := []string{
		"31 whole OPEN LOW CERTAIN 0.200 1/1/32",
		"41 whole OPEN LOW CERTAIN 0.136 2/2/42", // 34 at 0.4 and 5 at 0.9
		"51 whole OPEN LOW CERTAIN 0.091 2/3/52", // one mark is not enough
		"61 whole CLOSED LOW CERTAIN 0.068 2/4/62",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if end := w.End(nil); len(end) != 1 || shortly(&end[0]) != "whole CLOSED LOW CERTAIN 0.039 2/7/90 final" {
		t.Errorf("at the end: %s", shortly(&end[0]))
	}
}

// TestStateWaitsForTheEnd: a rule that asks how the job ended is judged once, at its end.
func TestStateWaitsForTheEnd(t *testing.T) {
	set := shippedSet(t)
	for state, found := range map[string]int{schemas.StateCompleted: 1, schemas.StateTimeout: 0, "": 0} {
		j := life4711()
		j.LimitS = 100 * 3600
		w := set.NewWatch(j, false)
		for i := range 100 {
			if w.Add(idle(i, 0.05)) {
				t.Error("a rule about the end has a finding before it")
			}
		}
		j.State, j.EndMs = state, j.StartMs+100*minute
		w.Know(j)
		if end := w.End(nil); len(end) != found {
			t.Errorf("%q: %v", state, end)
		}
	}
}

// TestSilences: what a finding silences is closed, and written as closed, for as long as it is open.
func TestSilences(t *testing.T) {
	set := siteSet(t, strings.Replace(idleRule, "needs", "silences: [whole]\n  needs", 1)+wholeRule)
	w := set.NewWatch(life4711(), false)
	var all []*Interval
	for i := range 130 {
		v := 0.1
		if i >= 40 {
			v = 0.9
		}
		all = append(all, at(i, map[string]float64{"cpu_idle": v, "cpu_user": 0.2}))
	}
	got := history(w, all...)
	want := []string{
		"31 whole OPEN MED CERTAIN 0.600 1/1/32", "41 whole OPEN MED CERTAIN 0.600 2/2/42",
		"51 whole OPEN MED CERTAIN 0.600 3/3/52", "61 whole OPEN MED CERTAIN 0.600 4/4/62",
		"71 whole OPEN MED CERTAIN 0.600 5/5/72",
		"81 idle OPEN HIGH CERTAIN 0.456 40/79/82", "81 whole CLOSED MED CERTAIN 0.600 6/6/82",
		"91 idle OPEN HIGH CERTAIN 0.506 50/89/92", "101 idle OPEN HIGH CERTAIN 0.545 60/99/102",
		"111 idle OPEN HIGH CERTAIN 0.578 70/109/112", "121 idle OPEN HIGH CERTAIN 0.605 80/119/122",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestClassIsOfTheMatches: a rare event keeps its class, and its severity tells that it is rare.
func TestClassIsOfTheMatches(t *testing.T) {
	w := siteSet(t, strings.Replace(idleRule, "share: 0.5", "share: 0.01", 1)).NewWatch(life4711(), false)
	history(w, minutes(0, 100, func(i int) float64 {
		if i == 50 {
			return 0.95
		}
		return 0
	})...)
	end := w.End(nil)
	if len(end) != 1 || end[0].Class != schemas.ClassHigh || end[0].Severity != 0.95/98 || end[0].Worst != 0.95 {
		t.Errorf("%+v", end)
	}
	for severity, want := range map[float64]string{
		0: "LOW", 0.333: "LOW", 1.0 / 3: "MED", 0.666: "MED", 2.0 / 3: "HIGH", 1: "HIGH",
		(&scale{from: 0.05, to: 0.5}).of(0.35): "HIGH",
	} {
		if got := Class(severity); got != want {
			t.Errorf("severity %v is %s, not %s", severity, got, want)
		}
	}
}

// bounds is the interval of minute i of a split job: the median is known from lo to hi.
func bounds(i int, lo, d, hi float64, possible bool) *Interval {
	name, unit, mean, low := "cpu_idle", "1", d, "n1"
	deciles, los, his := make([]float64, decils), make([]float64, decils), make([]float64, decils)
	for k := range deciles {
		deciles[k], los[k], his[k] = d, lo, hi
	}
	var iv Interval
	FromSummary(&schemas.JobSummary{
		IntervalStart: life4711().StartMs + int64(i)*minute, IntervalMs: minute, NodesExpected: 4, NodesReported: 4,
		Metrics: []schemas.JobSummaryMetric{{
			Name: name, Unit: unit, Scope: "core", Count: 64, Nodes: 4, Mean: &mean, LowNode: &low, HighNode: &low,
			Deciles: &deciles, Lo: &los, Hi: &his,
		}},
	}, possible, &iv)
	return &iv
}

// TestPossible: what bounds do not prove is found on request alone, and never as certain. What is certain stays so.
func TestPossible(t *testing.T) {
	set := siteSet(t, strings.Replace(idleRule, "cpu_idle.mean > 0.5", "cpu_idle.lo5 > 0.5", 1))
	for _, c := range []struct {
		lo, d, hi float64
		asked     string // of a Watch that is asked for possible findings
		certain   string
	}{
		{0.6, 0.7, 0.8, "OPEN CERTAIN", "OPEN CERTAIN"}, {0.4, 0.7, 0.8, "OPEN POSSIBLE", ""},
		{0.2, 0.4, 0.8, "", ""},
	} {
		for _, asked := range []bool{false, true} {
			w, want := set.NewWatch(life4711(), asked), c.certain
			if asked {
				want = c.asked
			}
			for i := range 50 {
				w.Add(bounds(i, c.lo, c.d, c.hi, asked))
			}
			got := ""
			for _, f := range w.End(nil) {
				got += f.State + " " + f.Certainty
			}
			if got != want {
				t.Errorf("median %v in %v to %v, asked %v: %q, not %q", c.d, c.lo, c.hi, asked, got, want)
			}
		}
	}
	// A possible finding becomes certain: one key, and the last record counts.
	w := set.NewWatch(life4711(), true)
	var last schemas.Finding
	for i := range 100 {
		lo := 0.4
		if i > 40 {
			lo = 0.6
		}
		w.Add(bounds(i, lo, 0.7, 0.8, true))
		for _, f := range w.Due(nil) {
			if i < 80 && f.Certainty == schemas.Certain {
				t.Errorf("minute %d: certain too early", i)
			}
			last = f
		}
	}
	if last.Certainty != schemas.Certain || last.Matched >= last.Evaluated {
		t.Errorf("%+v", last)
	}
}

// TestPossibleSilencesNothingCertain: a merely possible finding leaves certain ones open.
func TestPossibleSilencesNothingCertain(t *testing.T) {
	rules := strings.Replace(strings.Replace(idleRule, "cpu_idle.mean > 0.5", "cpu_idle.lo5 > 0.5", 1), "needs",
		"silences: [sure, maybe]\n  needs", 1) +
		strings.Replace(idleRule, "id: idle", "id: sure", 1) +
		strings.Replace(strings.Replace(idleRule, "id: idle", "id: maybe", 1), "cpu_idle.mean > 0.5", "cpu_idle.lo4 > 0.5", 1)
	w := siteSet(t, rules).NewWatch(life4711(), true)
	for i := range 50 {
		w.Add(bounds(i, 0.4, 0.7, 0.8, true))
	}
	var got []string
	for _, f := range w.End(nil) {
		got = append(got, f.Rule+" "+f.State+" "+f.Certainty)
	}
	if diff := cmp.Diff([]string{"idle OPEN POSSIBLE", "sure OPEN CERTAIN"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestBy: the share is that of one and the same node, or of all nodes together. The finding names the node.
func TestBy(t *testing.T) {
	for _, c := range []struct {
		by    string
		nodes int // that are the highest in turn
		found bool
		top   int64
	}{
		{"by: high_node", 1, true, 98}, {"by: high_node", 2, true, 49}, {"by: high_node", 3, false, 0},
		{"by: high_node\n  same: false", 3, true, 33}, {"by: high_node\n  same: false", 90, true, 2},
		{"by: low_node", 3, true, 98},
	} {
		w := siteSet(t, strings.Replace(idleRule, "share: 0.5", "share: 0.5\n  "+c.by, 1)).NewWatch(life4711(), false)
		for i := range 100 {
			iv := idle(i, 0.9)
			iv.Metrics[0].High = fmt.Sprintf("n%02d", i%c.nodes)
			w.Add(iv)
		}
		end := w.End(nil)
		if len(end) > 0 != c.found {
			t.Errorf("%s of %d nodes: %v", c.by, c.nodes, end)
			continue
		}
		if c.found && (end[0].Node == nil || end[0].NodeIntervals != c.top) {
			t.Errorf("%s of %d nodes: %v in %d intervals", c.by, c.nodes, end[0].Node, end[0].NodeIntervals)
		}
		if n := len(w.states[0].tallies[0].nodes); n > maxNodesOfRule {
			t.Errorf("%d nodes are counted by name", n)
		}
	}
}

// TestNotEvaluated: each reason is told in words.
func TestNotEvaluated(t *testing.T) {
	set := shippedSet(t)
	reason := func(w *Watch, rule string) string {
		for _, r := range w.NotEvaluated() {
			if r.Rule == rule {
				return r.Why
			}
		}
		return ""
	}
	run := func(j Job, n int, metrics map[string]float64) *Watch {
		w := set.NewWatch(j, false)
		for i := range n {
			w.Add(at(i, metrics))
		}
		return w
	}
	unknown := life4711()
	unknown.Gpus, unknown.Node = -1, config.NodeType{}
	old := func(n int) *Watch {
		w := set.NewWatch(life4711(), false)
		for i := range n {
			iv := at(i, map[string]float64{"clock": 2e9})
			iv.Metrics[0].LowNodeMean = math.NaN()
			w.Add(iv)
		}
		return w
	}
	all := map[string]float64{"cpu_idle": 0.1, "cpu_user": 0.9, "mem_bw": 1e9, "flops_any": 1e9, "job_mem_peak": 1e9}
	for _, c := range []struct {
		w          *Watch
		rule, want string
	}{
		{run(life4711(), 50, all), "swapping", "no metric swap_pages"},
		{run(life4711(), 50, all), "unused-gpu", "it requires job.gpus > 0"},
		{run(life4711(), 50, all), "time-over", "it waits for the end of the job"},
		{run(life4711(), 50, all), "memory-over", "it requires job.cores < p.cores * node.cpus * job.nodes"},
		{run(life4711(), 50, all), "idle-cores", ""},
		{run(life4711(), 50, all), "low-cpu", ""},
		{run(life4711(), 14, all), "idle-cores", "guard: 12 of 30 intervals"},
		{run(life4711(), 0, all), "idle-cores", "no metric cpu_idle"},
		{run(unknown, 50, all), "idle-cores", "job.gpus is not known"},
		{run(unknown, 50, all), "imbalance", "machine.threads_per_core is not set"},
		{run(unknown, 50, all), "memory-bound", "machine.peak_mem_bw is not set"},
		{old(50), "slow-node", "clock.low_node_mean is not known: an older version wrote the summaries"},
	} {
		if got := reason(c.w, c.rule); got != c.want {
			t.Errorf("%s: %q, not %q", c.rule, got, c.want)
		}
	}
	bad := siteSet(t, strings.Replace(idleRule, "of: cpu_idle.mean,", "of: 1 / (cpu_idle.d0 - cpu_idle.d10),", 1))
	w := bad.NewWatch(life4711(), false)
	if got := history(w, minutes(0, 50, always(0.9))...); len(got) > 0 || reason(w, "idle") != "its severity is not a number" {
		t.Errorf("%v, %q", got, reason(w, "idle"))
	}
	w = siteSet(t, idleRule+"  guards: {intervals: 3}\n").NewWatch(life4711(), false)
	for i := range 100 {
		iv := idle(i, 0.9)
		if i%2 == 0 {
			iv.Reported = 3
		}
		w.Add(iv)
	}
	if got := reason(w, "idle"); got != "guard: 49 of 98 intervals are known, 90 % must be" {
		t.Errorf("%q", got)
	}
	if w = siteSet(t, idleRule+"  guards: {intervals: 1}\n").NewWatch(life4711(), false); true {
		history(w, minutes(0, 4, always(0.9))...)
	}
	if got := reason(w, "idle"); got != "guard: 180 of 600 s" {
		t.Errorf("%q", got)
	}
}

// TestSeverityMap: what the map shows of an interval is what the finding counts.
func TestSeverityMap(t *testing.T) {
	set := siteSet(t, idleRule+wholeRule)
	w, shown := set.NewWatch(life4711(), false), set.NewWatch(life4711(), false)
	sum, evaluated := 0.0, int64(0)
	for i := range 60 {
		iv := idle(i, 0.3+0.01*float64(i))
		if i%20 == 7 {
			iv.Reported = 1
		}
		if i%20 == 9 {
			iv.Metrics = nil
		}
		w.Add(iv)
		all := shown.Severities(iv, nil)
		if len(all) != 2 || all[1].Evaluated || all[1].Why != whyWhole {
			t.Fatalf("%+v", all)
		}
		s := all[0]
		if s.Evaluated {
			sum += s.Value
			evaluated++
		}
		want := ""
		switch {
		case i%20 == 7:
			want = whyIncomplete
		case i%20 == 9:
			want = "no metric cpu_idle"
		case i == 0:
			want = whyEarly
		}
		if s.Why != want || s.Evaluated != (want == "") {
			t.Errorf("minute %d: %+v", i, s)
		}
	}
	j := life4711()
	j.EndMs = j.StartMs + 60*minute
	w.Know(j)
	f := w.End(nil)
	if len(f) != 1 || f[0].Evaluated != evaluated || math.Abs(f[0].Severity-sum/float64(evaluated)) > 1e-9 {
		t.Errorf("%+v, the map has %v in %d", f, sum, evaluated)
	}
}

// TestLateKnowledge: the scheduler may tell of a job later than the first summaries come. What needs it is evaluated
// from then on, and cores are taken from the metrics until then.
func TestLateKnowledge(t *testing.T) {
	rule := strings.Replace(idleRule, "each: cpu_idle.mean > 0.5", "each: cpu_idle.mean > 0.5 && job.cores == 64", 1)
	bare := Job{Key: schemas.JobKey{JobID: "4711"}, Cluster: "alpha", Cores: -1, Gpus: -1, LimitS: -1, MemRequested: -1}
	w := siteSet(t, rule).NewWatch(bare, false)
	for i := range 50 {
		w.Add(idle(i, 0.9))
	}
	if f := w.End(nil); len(f) != 1 || f[0].Evaluated != 48 {
		t.Errorf("with the cores of the metrics: %+v, %v", f, w.NotEvaluated())
	}
	w = siteSet(t, strings.Replace(rule, "job.cores == 64", "node.memory > 1", 1)).NewWatch(bare, false)
	for i := range 100 {
		if i == 5 {
			w.Know(life4711())
		}
		w.Add(idle(i, 0.9))
	}
	if f := w.End(nil); len(f) != 1 || f[0].Evaluated != 94 {
		t.Errorf("after the job is known: %+v, %v", f, w.NotEvaluated())
	}
}

// TestHints: a text that needs what is not known gives way to the title. No text drives a terminal or breaks a record.
func TestHints(t *testing.T) {
	words := "  hint: \"{{.job.user}} on {{.job.nodes}} at {{pct .value}}, {{bytes .job.mem_requested}}\"\n" +
		"  slurm: \"{{if gt .job.nodes 2}}#SBATCH {{.nodes_needed}} {{hostlist .hosts}}{{end}}\"\n"
	run := func(change func(*Job)) schemas.Finding {
		j := life4711()
		change(&j)
		w := siteSet(t, idleRule+words).NewWatch(j, false)
		history(w, minutes(0, 50, always(0.9))...)
		f := w.End(nil)
		if len(f) != 1 || f[0].Validate() != nil {
			t.Fatalf("%+v", f)
		}
		return f[0]
	}
	if f := run(func(j *Job) { j.MemRequested = 5e9 }); f.Hint != "alice on 4 at 90 %, 5 GB" || f.Slurm != "#SBATCH 1" {
		t.Errorf("%q, %q", f.Hint, f.Slurm)
	}
	if f := run(func(*Job) {}); f.Hint != "idle" {
		t.Errorf("%q", f.Hint)
	}
	hostile := strings.Repeat("<b>\x1b[31m\u202e\xff", 200)
	if f := run(func(j *Job) { j.MemRequested, j.User = 1, hostile }); strings.ContainsAny(f.Hint, "\x1b\u202e\xff") ||
		len(f.Hint) > schemas.MaxFindingText || !strings.HasPrefix(f.Hint, "<b>?[31m??") {
		t.Errorf("%q", f.Hint)
	}
	for text, want := range map[string]string{
		pct(0.5): "50 %", pct(0.031): "3.1 %", pct(0): "0 %", siBytes(97e9): "97 GB", si(1.9e9, "Hz"): "1.9 GHz",
		si(999.6, "B"): "1 kB", si(0.5, "x"): "0.5 x", duration(10800): "3:00:00", duration(59.6): "0:01:00",
		mib(116.4e9): "111008",
	} {
		if text != want {
			t.Errorf("%q, not %q", text, want)
		}
	}
}

// shuffled permutes intervals between two marks, but not across them. The first beyond a mark stays where it is.
func shuffled(r *rand.Rand, all []*Interval) []*Interval {
	all = slices.Clone(all)
	for from := 0; from < len(all); {
		to := from
		for to < len(all) && all[to].StartMs/markMs == all[from].StartMs/markMs {
			to++
		}
		part := all[from+1 : max(from+1, to-1)]
		r.Shuffle(len(part), func(i, k int) { part[i], part[k] = part[k], part[i] })
		from = to
	}
	return all
}

// randomLife is a job with all metrics of the shipped rules, of which some are missing at times.
func randomLife(r *rand.Rand, n int) (all []*Interval) {
	base := map[string]float64{}
	for _, k := range catalogue {
		base[k.Name] = r.Float64()
	}
	scale := map[string]float64{"clock": 3e9, "mem_bw": 1.2e11, "disk_bytes": 1e6, "flops_any": 1e9, "mem_used": 1e11,
		"job_mem_peak": 5e10, "swap_pages": 30, "cpu_load": 30, "lustre_read_bw": 1e6}
	for i := range n {
		iv := &Interval{StartMs: life4711().StartMs + int64(i)*minute, LengthMs: minute, Expected: 4, Reported: 4}
		if r.IntN(30) == 0 {
			iv.Reported = 3
		}
		for _, k := range catalogue {
			if r.IntN(40) == 0 {
				continue
			}
			by := max(scale[k.Name], 1)
			d := make([]float64, decils)
			for x := range d {
				d[x] = by * math.Abs(base[k.Name]+0.4*r.Float64()-0.2+0.002*float64(i)*r.Float64())
			}
			slices.Sort(d)
			lo, hi := slices.Clone(d), slices.Clone(d)
			if r.IntN(3) == 0 {
				for x := 1; x < 10; x++ {
					lo[x], hi[x] = d[x-1], d[x+1]
				}
			}
			n := Named{Name: k.Name, Scope: k.Scope, Low: fmt.Sprint("n", r.IntN(4)), High: fmt.Sprint("n", r.IntN(4))}
			n.moments(d[5], 64, 4, &d[1], &d[9])
			n.ranks(d, lo, hi, true)
			iv.Metrics = append(iv.Metrics, n)
		}
		iv.order()
		all = append(all, iv)
	}
	return all
}

// records is what a Watch writes of a life, with the end.
func records(w *Watch, all []*Interval) (out []schemas.Finding) {
	for _, iv := range all {
		w.Add(iv)
		out = w.Due(out)
	}
	j := life4711()
	j.State, j.EndMs = schemas.StateCompleted, all[len(all)-1].StartMs+minute
	w.Know(j)
	return w.End(out)
}

// TestOrderDoesNotMatter: intervals that come in another order between two marks give the same records at the marks,
// byte for byte. The guards first hold with an interval that stays in its place: a rule is judged at that moment too.
func TestOrderDoesNotMatter(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	set, err := Compile(catalogue, nil, Source{"site.yaml", []byte("guards: {intervals: 5, duration: 31m, seen: 0.1}")})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for n := range 40 {
		r := rand.New(rand.NewPCG(seed, uint64(n)))
		all := randomLife(r, 60+r.IntN(200))
		inOrder := func(f []schemas.Finding) (text []string) {
			for i := range f {
				b, err := schemas.Marshal(&f[i])
				if err != nil {
					t.Fatal(err)
				}
				text = append(text, fmt.Sprintf("%s %x", shortly(&f[i]), b))
			}
			return text
		}
		want := inOrder(records(set.NewWatch(life4711(), true), all))
		got := inOrder(records(set.NewWatch(life4711(), true), shuffled(r, all)))
		found += len(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, life %d: %s", seed, n, diff)
		}
	}
	if found < 100 {
		t.Errorf("only %d records were compared", found)
	}
}
