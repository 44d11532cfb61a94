package rules

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		State: schemas.StateRunning, Nodes: []string{
			"n1", "n2", "n3",
			"n4",
		}, StartMs: markMs * 3_000_000, LimitS: 86400,
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
	text := fmt.Sprintf("%s %s %s %s %.3f %d/%d/%d", f.Rule, f.State, f.Class, f.Certainty, f.Severity, f.Matched,
		f.Evaluated,
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
		{name: "nodes are missing", guards: "{intervals: 3}", first: -1, change: func(_ int,
			iv *Interval,
		) {
			iv.Reported = 3
		}},
		{name: "three nodes are enough", guards: "{intervals: 3, complete: 0.75}", first: 10, change: func(_ int,
			iv *Interval,
		) {
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
		{name: "no metric", guards: "{intervals: 3}", first: -1, change: func(_ int,
			iv *Interval,
		) {
			iv.Metrics = nil
		}},
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
	s, err := Compile(catalogue, nil, Source{
		"site.yaml",
		[]byte("guards: {complete: 0.5, intervals: 7, last: false, " +
			"after: 1s, duration: 2s, seen: 0.25}\nrules:" + strings.ReplaceAll(idleRule, "\n", "\n  ")),
	})
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
	if e := f.Evidence; len(e) != 1 || e[0].Low != 0.6 || e[0].High != 0.9 ||
		math.Abs(e[0].Mean-(16*0.9+120*0.6)/136) > 1e-8 {
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
		j.LimitS, j.State = 100*3600, state // the scheduler may tell before the last summaries come
		w := set.NewWatch(j, false)
		for i := range 100 {
			if w.Add(idle(i, 0.05)) {
				t.Error("a rule about the end has a finding before it")
			}
		}
		j.EndMs = j.StartMs + 100*minute
		w.Know(j)
		if end := w.End(nil); len(end) != found {
			t.Errorf("%q: %v", state, end)
		}
	}
}
