package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

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
		{0.6, 0.7, 0.8, "OPEN CERTAIN", "OPEN CERTAIN"},
		{0.4, 0.7, 0.8, "OPEN POSSIBLE", ""},
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
		strings.Replace(strings.Replace(idleRule, "id: idle", "id: maybe", 1), "cpu_idle.mean > 0.5",
			"cpu_idle.lo4 > 0.5", 1)
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
		{"by: high_node", 1, true, 98},
		{"by: high_node", 2, true, 49},
		{"by: high_node", 3, false, 0},
		{"by: high_node\n  same: false", 3, true, 33},
		{"by: high_node\n  same: false", 90, true, 2},
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
	if f := run(func(j *Job) { j.MemRequested = 5e9 }); f.Hint != "alice on 4 at 90 %, 5 GB" ||
		f.Slurm != "#SBATCH 1" {
		t.Errorf("%q, %q", f.Hint, f.Slurm)
	}
	if f := run(func(*Job) {}); f.Hint != "idle" {
		t.Errorf("%q", f.Hint)
	}
	hostile := strings.Repeat("<b>\x1b[31m\u202e\xff", 200)
	if f := run(func(j *Job) { j.MemRequested, j.User = 1, hostile }); strings.ContainsAny(f.Hint, "\x1b\u202e") ||
		strings.Contains(f.Hint, "\xff") ||
		len(f.Hint) > schemas.MaxFindingText || !strings.HasPrefix(f.Hint, "<b>?[31m??") {
		t.Errorf("%q", f.Hint)
	}
	for _, c := range []struct {
		nodes, value float64
		want         int
	}{{64, 0.1, 58}, {8, 1.0 / 8, 7}, {4, 0.9, 1}, {1, 1, 1}, {10, 0.3, 7}, {3, -1, 3}} {
		f := &frame{job: [jobNumbers]float64{c.nodes}}
		if got := hintData(f, c.value, nil, nil)["nodes_needed"]; got != c.want {
			t.Errorf("%v of %v nodes are not needed: %v remain, not %v", c.value, c.nodes, got, c.want)
		}
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

// TestHostsOfMany: nodes that share the matches evenly are named by the first few, and no finding names none.
func TestHostsOfMany(t *testing.T) {
	var many tally
	for i := range 6400 {
		many.matched++
		many.at(fmt.Sprintf("n%03d", i%80))
	}
	many.at("n009")
	if got, want := many.hosts(false), []string{"n000", "n001", "n002", "n003", "n009"}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestADarkNodeIsNotHidden: a node without work is a finding of some weight, however large the job is. Cores without
// work do not tell the same beside it.
func TestADarkNodeIsNotHidden(t *testing.T) {
	for dark, class := range map[int]string{1: schemas.ClassMed, 12: schemas.ClassHigh} {
		s := scene{name: "dark", nodes: 24, metrics: work(func(_, node, _ int) bool { return node >= dark })}
		e, err := ReadExample(s.text(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		e.Job.Node = config.NodeType{} // this needs no machine
		w := shippedSet(t).NewWatch(e.Job, false)
		for i := range e.intervals {
			w.Add(&e.intervals[i])
		}
		all := w.End(nil)
		if len(all) != 1 || all[0].Rule != "unused-node" || all[0].Class != class {
			t.Errorf("%d of 24 nodes: %+v", dark, all)
		}
	}
}

// TestPeakAtTheEnd: the largest value of a life may be in the interval in which the job ends, which is no whole one. So
// it may be in the one behind that at which the guards first held.
func TestPeakAtTheEnd(t *testing.T) {
	rule := strings.Replace(wholeRule, "job: cpu_user.mean < 0.5", "job: cpu_user.d10 < 0.5", 1)
	for last, want := range map[float64]int{0.2: 1, 0.9: 0} {
		for _, end := range []int{31, 50} {
			w := siteSet(t, rule).NewWatch(life4711(), false)
			for i := range end {
				w.Add(at(i, map[string]float64{"cpu_user": 0.1}))
			}
			w.Add(at(end, map[string]float64{"cpu_user": last}))
			j := life4711()
			j.State, j.EndMs = schemas.StateCompleted, j.StartMs+int64(end)*minute+minute/2
			w.Know(j)
			all := w.End(nil)
			all = slices.DeleteFunc(all, func(f schemas.Finding) bool { return f.State != schemas.FindingOpen })
			if len(all) != want {
				t.Errorf("%v in interval %d, the last one: %+v", last, end, all)
			}
		}
	}
}

// TestLifeTellsItsLastNumbers: the numbers of a finding on a whole life are those of the whole life. They are no means
// of what the marks before saw.
func TestLifeTellsItsLastNumbers(t *testing.T) {
	rule := strings.TrimRight(wholeRule, "\n") + "\n  hint: \"{{pct .value}}\"\n  evidence: [cpu_user.mean]\n"
	w := siteSet(t, rule).NewWatch(life4711(), false)
	for i := range 100 {
		w.Add(at(i, map[string]float64{"cpu_user": 0.4 * float64(1-i/50)}))
	}
	j := life4711()
	j.State, j.EndMs = schemas.StateCompleted, j.StartMs+100*minute
	w.Know(j)
	all := w.End(nil)
	if len(all) != 1 || all[0].Hint != "20 %" || len(all[0].Evidence) != 1 { // the guards leave out the first minute
		t.Fatalf("%+v", all)
	}
	if e := all[0].Evidence[0]; e.Low != e.High || math.Abs(e.Mean-49*0.4/99) > 1e-8 {
		t.Errorf("the evidence is %+v", e)
	}
}
