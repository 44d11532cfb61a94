package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

var names = []struct{ name, unit string }{
	{"cpu_user", "1"},
	{"cpu_idle", "1"},
	{"ipc", "1"},
	{"mem_used", "B"},
	{"disk_bytes", "B/s"},
	{"clock", "Hz"},
	{"swap_pages", "1/s"},
	{"node_power", "W"},
	{"acc_utilization", "1"},
	{"flops_any", "FLOP/s"},
}

// random returns a job with some metrics, exact ones and ones with bounds, and values from a few bytes to terabytes.
func random(r *rand.Rand, id string) *view.Job {
	cores, start := int64(64), int64(1_800_000_000_000)
	end := start + 3_600_000
	j := &view.Job{Intervals: 360, Expected: 360, Reported: 360, IntervalMs: 10_000, FirstMs: start, UntilMs: end}
	j.JobID, j.Cores, j.Start, j.End, j.State = id, &cores, &start, &end, "COMPLETED"
	for _, n := range names {
		if r.IntN(6) == 0 {
			continue
		}
		m := view.Metric{Name: n.name, Unit: n.unit, Scope: "core"}
		scale := 1.0
		if n.unit != "1" {
			scale = math.Pow(10, r.Float64()*12)
		}
		t := &m.Total
		t.Count, t.Known, t.Exact = 1000, r.IntN(8) > 0, r.IntN(2) == 0
		t.Of.Measured, t.Of.MeasuredS = 360, 3600
		var d []float64
		for range 11 {
			d = append(d, math.Round(r.Float64()*20)/20*scale)
		}
		slices.Sort(d)
		t.D = [11]float64(d)
		t.Lo, t.Hi = t.D, t.D
		for k := range d {
			if !t.Exact {
				t.Lo[k], t.Hi[k] = d[max(0, k-r.IntN(2))], d[min(10, k+r.IntN(3))]
			}
			t.Mean += d[k] / 11
		}
		if !t.Known {
			for k := range d {
				t.D[k], t.Lo[k], t.Hi[k] = math.NaN(), math.NaN(), math.NaN()
			}
		}
		j.Metrics = append(j.Metrics, m)
	}
	for _, rule := range []string{"a", "b", "c", "d"} {
		switch r.IntN(3) {
		case 0:
			j.Findings = append(j.Findings, schemas.Finding{
				JobID: id, Rule: rule, State: schemas.FindingOpen, Severity: r.Float64(),
			})
		case 1:
			j.NotEvaluated = append(j.NotEvaluated, rules.Reason{Rule: rule})
		}
	}
	return j
}

// each runs a test on many pairs of random jobs.
func each(t *testing.T, check func(t *testing.T, r *rand.Rand, a, b *view.Job)) {
	t.Helper()
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		check(t, r, random(r, "a"), random(r, "b"))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestCompareIsAntisymmetric: the comparison of b and a is the one of a and b with both sides exchanged.
func TestCompareIsAntisymmetric(t *testing.T) {
	set := &rules.Set{Rules: []rules.Rule{{ID: "a", Silences: []string{"b"}}}}
	each(t, func(t *testing.T, _ *rand.Rand, a, b *view.Job) {
		c, back := Jobs(a, b, set), Jobs(b, a, set)
		for i := range back.Metrics {
			m := &back.Metrics[i]
			m.Effect = -m.Effect
			m.Totals[0], m.Totals[1] = m.Totals[1], m.Totals[0]
		}
		for _, all := range [][]Fact{back.Asked, back.Used} {
			for i := range all {
				f := &all[i]
				f.Text[0], f.Text[1] = f.Text[1], f.Text[0]
				f.Value[0], f.Value[1] = f.Value[1], f.Value[0]
			}
		}
		back.Only[0], back.Only[1] = back.Only[1], back.Only[0]
		swap := map[string]string{Appeared: Gone, Gone: Appeared}
		kinds := map[string]string{}
		for i := range back.Found {
			kind := back.Found[i].Kind
			if other := swap[kind]; other != "" {
				kind = other
			}
			kinds[back.Found[i].Finding().Rule] = kind
		}
		if d := cmp.Diff(c.Metrics, back.Metrics, cmpopts.EquateNaNs()); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]any{c.Asked, c.Used, c.Only, len(c.Reasons), len(c.Caveats), len(c.Found)},
			[]any{back.Asked, back.Used, back.Only, len(back.Reasons), len(back.Caveats), len(back.Found)}, cmpopts.EquateNaNs()); d != "" {
			t.Error(d)
		}
		for i := range c.Found {
			if f := &c.Found[i]; kinds[f.Finding().Rule] != f.Kind {
				t.Errorf("%s %s, and back %s", f.Finding().Rule, f.Kind, kinds[f.Finding().Rule])
			}
		}
	})
}

// TestJobEqualsItself: nothing differs between a job and itself.
func TestJobEqualsItself(t *testing.T) {
	each(t, func(t *testing.T, _ *rand.Rand, a, _ *view.Job) {
		c := Jobs(a, a, nil)
		if len(c.Changes()) > 0 || len(c.Slight()) > 0 || len(c.Only[0])+len(c.Only[1]) > 0 || !c.Comparable() {
			t.Errorf("%+v %+v %v %v", c.Changes(), c.Slight(), c.Only, c.Reasons)
		}
		for _, f := range append(c.Asked, c.Used...) {
			if f.Differs() {
				t.Errorf("%+v", f)
			}
		}
		for i := range c.Found {
			if c.Found[i].Kind != Stays {
				t.Errorf("%s %s", c.Found[i].Finding().Rule, c.Found[i].Kind)
			}
		}
	})
}

// TestChangesAreCertain: bounds that overlap are never reported. Any values within the bounds differ in the direction
// of a change, and by at least its effect. Metrics that are alike overlap in every decile.
func TestChangesAreCertain(t *testing.T) {
	changes := 0
	each(t, func(t *testing.T, r *rand.Rand, a, b *view.Job) {
		c := Jobs(a, b, nil)
		for _, m := range append(slices.Clone(c.Changes()), c.Slight()...) {
			changes++
			x, y := m.Totals[0], m.Totals[1]
			if m.At == Mean {
				if (y.Mean-x.Mean)*m.Effect <= 0 {
					t.Errorf("%s: means %v and %v, effect %v", m.Name, x.Mean, y.Mean, m.Effect)
				}
				continue
			}
			if x.Hi[m.At] >= y.Lo[m.At] && y.Hi[m.At] >= x.Lo[m.At] {
				t.Errorf("%s: the bounds of d%d overlap", m.Name, m.At)
			}
			for range 10 {
				u := x.Lo[m.At] + r.Float64()*(x.Hi[m.At]-x.Lo[m.At])
				v := y.Lo[m.At] + r.Float64()*(y.Hi[m.At]-y.Lo[m.At])
				if (v-u)*m.Effect <= 0 || m.Share() && math.Abs(v-u) < math.Abs(m.Effect)-1e-12 {
					t.Errorf("%s: %v and %v are possible, effect %v", m.Name, u, v, m.Effect)
				}
			}
		}
		for _, m := range c.Alike() {
			x, y := m.Totals[0], m.Totals[1]
			for k := 1; k < 10; k++ {
				if x.Hi[k] < y.Lo[k] || y.Hi[k] < x.Lo[k] {
					t.Errorf("%s: d%d differs for certain, and is not reported", m.Name, k)
				}
			}
		}
	})
	if changes < 300 {
		t.Errorf("only %d changes were looked at", changes)
	}
}

// TestLargestEffectComesFirst, every metric stands in one list, and a change has the effect of its largest decile.
func TestLargestEffectComesFirst(t *testing.T) {
	each(t, func(t *testing.T, _ *rand.Rand, a, b *view.Job) {
		c := Jobs(a, b, nil)
		last := math.Inf(1)
		for _, m := range c.Metrics {
			if e := math.Abs(m.Effect); e > last {
				t.Errorf("%s with effect %v comes after %v", m.Name, e, last)
			} else {
				last = e
			}
		}
		for _, m := range c.Changes() {
			if math.Abs(m.Effect) < LeastEffect {
				t.Errorf("%s: %v is no change", m.Name, m.Effect)
			}
		}
		for _, m := range c.Slight() {
			if e := math.Abs(m.Effect); e == 0 || e >= LeastEffect {
				t.Errorf("%s: %v is not slight", m.Name, m.Effect)
			}
		}
		if n := len(c.Changes()) + len(c.Slight()) + len(c.Alike()); n != len(c.Metrics) {
			t.Errorf("%d of %d metrics", n, len(c.Metrics))
		}
		if len(c.Metrics)+len(c.Only[0]) != len(a.Metrics) || len(c.Metrics)+len(c.Only[1]) != len(b.Metrics) {
			t.Errorf("%d metrics, %v", len(c.Metrics), c.Only)
		}
	})
}

// metric returns a metric whose deciles are all one value.
func metric(name, unit string, v float64) view.Metric {
	m := view.Metric{Name: name, Unit: unit}
	m.Total.Count, m.Total.Known, m.Total.Exact, m.Total.Mean = 100, true, true, v
	m.Total.Of.Measured, m.Total.Of.MeasuredS = 100, 1000
	for k := range m.Total.D {
		m.Total.D[k] = v
	}
	m.Total.Lo, m.Total.Hi = m.Total.D, m.Total.D
	return m
}

func plain(id string, metrics ...view.Metric) *view.Job {
	j := &view.Job{Intervals: 100, Expected: 100, Reported: 100, Metrics: metrics, IntervalMs: 10_000}
	j.JobID = id
	return j
}

// TestTriflesAreNoChange: a few bytes in place of none rank below a core that idles.
func TestTriflesAreNoChange(t *testing.T) {
	c := Jobs(plain("1", metric("disk_bytes", "B/s", 0), metric("cpu_idle", "1", 0.9), metric("clock", "Hz", 2.6e9)),
		plain("2", metric("disk_bytes", "B/s", 12), metric("cpu_idle", "1", 0.05), metric("clock", "Hz", 1.9e9)), nil)
	var got []string
	for _, m := range c.Changes() {
		got = append(got, fmt.Sprintf("%s d%d %.2f", m.Name, m.At, m.Effect))
	}
	if strings.Join(got, ", ") != "cpu_idle d5 -0.85, clock d5 -0.27" {
		t.Errorf("%v", got)
	}
	if s := c.Slight(); len(s) != 1 || s[0].Name != "disk_bytes" {
		t.Errorf("%+v", s)
	}
}

// TestMeansAloneMayDiffer: rare values move no decile.
func TestMeansAloneMayDiffer(t *testing.T) {
	a, b := metric("swap_pages", "1/s", 0), metric("swap_pages", "1/s", 0)
	b.Total.Mean, b.Total.D[10], b.Total.Hi[10], b.Total.Lo[10] = 500, 1e5, 1e5, 1e5
	c := Jobs(plain("1", a), plain("2", b), nil)
	if all := c.Changes(); len(all) != 1 || all[0].At != Mean || all[0].Value() != [2]float64{0, 500} {
		t.Errorf("%+v", all)
	}
}

// TestIntervalsOfOtherLengths: a longer interval averages more, so only means are compared.
func TestIntervalsOfOtherLengths(t *testing.T) {
	a, b := metric("cpu_user", "1", 0.2), metric("cpu_user", "1", 0.9)
	b.Total.Of.MeasuredS, b.Total.Mean = 100, 0.2
	c := Jobs(plain("1", a), plain("2", b), nil)
	if len(c.Changes()) > 0 || len(c.Caveats) != 1 || !strings.Contains(c.Caveats[0], "cpu_user") {
		t.Errorf("%+v %v", c.Changes(), c.Caveats)
	}
}

// TestNotComparable: each reason is named, and a pair without any is compared.
func TestNotComparable(t *testing.T) {
	for want, change := range map[string]func(*view.Job){
		"":                                       func(*view.Job) {},
		"different node types":                   func(j *view.Job) { j.Type = config.NodeType{Name: "fat"} },
		"has not ended":                          func(j *view.Job) { j.Running = true },
		"too short: 1 measured interval, and 30": func(j *view.Job) { j.Intervals = 1 },
		"no metric in common":                    func(j *view.Job) { j.Metrics[0].Unit = "%" },
		"not read in full":                       func(j *view.Job) { j.Part = true },
		"different clusters":                     func(j *view.Job) { j.Cluster = "d" },
	} {
		a, b := plain("1", metric("cpu_user", "1", 0.5)), plain("2", metric("cpu_user", "1", 0.5))
		a.Cluster, b.Cluster, a.Type.Name, b.Type.Name = "c", "c", "thin", "thin"
		change(b)
		why := strings.Join(Jobs(a, b, nil).Reasons, "; ")
		if want == "" && why != "" || !strings.Contains(why, want) || strings.Contains(why, ";") {
			t.Errorf("%q: %q", want, why)
		}
	}
}

// TestFindingsOfTwoJobs: a rule that was not evaluated, or that another finding silences, neither appears nor goes.
func TestFindingsOfTwoJobs(t *testing.T) {
	job := func(id string, not []string, open ...string) *view.Job {
		j := plain(id, metric("cpu_user", "1", 0.5))
		for _, r := range open {
			j.Findings = append(j.Findings, schemas.Finding{JobID: id, Rule: r, State: schemas.FindingOpen})
		}
		for _, r := range not {
			j.NotEvaluated = append(j.NotEvaluated, rules.Reason{Rule: r})
		}
		return j
	}
	a := job("1", []string{"blind"}, "gone", "stays", "idle-cores")
	b := job("2", nil, "stays", "new", "blind", "low-cpu")
	b.Findings = append(b.Findings, schemas.Finding{Rule: "over", State: schemas.FindingClosed})
	set := &rules.Set{Rules: []rules.Rule{{ID: "idle-cores", Silences: []string{"low-cpu"}}}}
	var got []string
	for _, f := range Jobs(a, b, set).Found {
		got = append(got, f.Kind+" "+f.Finding().Rule)
	}
	want := "appeared new, gone gone, gone idle-cores, unknown blind, unknown low-cpu, stays stays"
	if strings.Join(got, ", ") != want {
		t.Errorf("%v", got)
	}
}

// TestMedianIsPreferred: a change is shown at the median if another decile differs hardly more.
func TestMedianIsPreferred(t *testing.T) {
	a, b := metric("cpu_user", "1", 0.2), metric("cpu_user", "1", 0.7)
	b.Total.D[8], b.Total.Lo[8], b.Total.Hi[8] = 0.75, 0.75, 0.75
	if m := Jobs(plain("1", a), plain("2", b), nil).Metrics[0]; m.At != 5 {
		t.Errorf("d%d", m.At)
	}
	b.Total.D[8], b.Total.Lo[8], b.Total.Hi[8] = 0.9, 0.9, 0.9
	if m := Jobs(plain("1", a), plain("2", b), nil).Metrics[0]; m.At != 8 {
		t.Errorf("d%d", m.At)
	}
}

// TestHoursAndEnergy: hours follow from the request, and energy from the power of the nodes.
func TestHoursAndEnergy(t *testing.T) {
	power := metric("node_power", "W", 500) // 100 values of 10 s
	a, b := plain("1", power, metric("cpu_idle", "1", 0.25)), plain("2", metric("acc_power", "W", 300))
	cores, gpus, start, end := int64(8), int32(2), int64(1000), int64(7_201_000)
	a.Cores, a.Gpus, a.Start, a.End = &cores, &gpus, &start, &end
	got := map[string]string{}
	for _, f := range Jobs(a, b, nil).Used {
		for i, v := range f.Value {
			if v != nil {
				got[fmt.Sprint(f.Name, i)] = fmt.Sprintf("%.4g %s", *v, f.Unit)
			}
		}
	}
	for k, want := range map[string]string{
		"time0": "7200 s", "core-hours0": "16 h", "GPU-hours0": "4 h", "energy of nodes0": "5e+05 J",
		"energy of GPUs1": "3e+05 J", "cores busy0": "0.75 %", "core-hours wasted0": "0.06944 h", "seen0": "1 %",
	} {
		if got[k] != want {
			t.Errorf("%s: %q, want %q", k, got[k], want)
		}
	}
}
