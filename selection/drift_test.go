package selection

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestCusum computes the sums by hand: min(z, 4) − 1 is added, and below 0 the sum is 0.
func TestCusum(t *testing.T) {
	for _, c := range []struct {
		logs       []float64
		centre, sd float64
		highest    float64
		alarm      int
	}{
		{[]float64{10, 10, 10, 10}, 10, .5, 0, -1},
		{[]float64{12, 10, 10}, 10, .5, 3, -1},       // 3, 2, 1: the cap of one stretch is no alarm
		{[]float64{12, 12, 10}, 10, .5, 6, 1},        // 3, 6, 5
		{[]float64{10.75, 12, 12}, 10, .5, 6.5, 2},   // .5, 3.5, 6.5
		{[]float64{10.6, 10.6, 10.6}, 10, .1, 3, -1}, // the least deviation is .3: 1, 2, 3
		{[]float64{12, 2, 11.5, 11.5, 11.5}, 10, .5, 6, 4},
		{nil, 10, .5, 0, -1},
	} {
		highest, alarm := cusum(c.logs, c.centre, c.sd)
		if math.Abs(highest-c.highest) > 1e-9 || alarm != c.alarm {
			t.Errorf("%v: highest %v, alarm at %d; want %v and %d", c.logs, highest, alarm, c.highest, c.alarm)
		}
	}
}

// TestMostByChance draws quiet stretches: in few cases of all has any metric more above the limit.
func TestMostByChance(t *testing.T) {
	for _, c := range []struct{ stretches, metrics, want int }{
		{1, 1, 0}, {24, 1, 0}, {24, 400, 2}, {1000, 400, 7}, {0, 1, 0},
	} {
		if got := mostByChance(c.stretches, c.metrics); got != c.want {
			t.Errorf("%d stretches of %d metrics: %d, want %d", c.stretches, c.metrics, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	wrong, most := 0, mostByChance(100, 50)
	for range 1000 {
		for range 50 {
			n := 0
			for range 100 {
				if r.Float64() < canaryFalse {
					n++
				}
			}
			if n > most {
				wrong++
				break
			}
		}
	}
	if wrong > 70 {
		t.Errorf("%d of 1000 quiet cases have an alarm, want at most 50 or so", wrong)
	}
}

// driven is rows whose response is 3 cpu + 2 disk + noise. khz is cpu in another unit, and lone is alone. Each unit has
// a level and weights of its own.
func driven(seed uint64, units, rows int) *Table {
	r := rand.New(rand.NewPCG(seed, 2))
	t := &Table{}
	names := []string{"cpu", "disk", "khz", "lone"}
	x := make([][]float64, len(names)+1)
	for u := range units {
		t.Units = append(t.Units, fmt.Sprintf("%d/0", u))
		a, b := 0.0, 0.0
		for i := range rows {
			a, b = .7*a+r.NormFloat64(), .7*b+r.NormFloat64()
			t.Unit = append(t.Unit, int32(u))
			t.Start = append(t.Start, int64(u*rows+i)*10_000)
			level, weight := 100*float64(u), 1+.2*float64(u)
			cpu := 50 + level + 10*a
			for k, v := range []float64{
				cpu, 7 + b, 1000*cpu + 100*r.NormFloat64(), r.NormFloat64(),
				level + weight*(3*a+2*b) + .5*r.NormFloat64(),
			} {
				x[k] = append(x[k], v)
			}
		}
	}
	for k, name := range names {
		t.Metrics = append(t.Metrics, Metric{Name: name, Columns: []Column{{Statistic: "mean", Values: x[k]}}})
	}
	t.Responses = []Response{{Name: "rate", Values: x[len(names)]}}
	if units == 1 {
		t.Unit, t.Units = nil, nil
	}
	return t
}

// learned is what drift watches after a selection on driven rows.
func learned(t *testing.T, units, rows int) *Drift {
	t.Helper()
	train := driven(1, units, rows)
	s, err := Select(train, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewDrift(train, Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Models) != 1 || len(w.Canaries) != 1 || w.Canaries[0].Metric != "khz" ||
		w.Canaries[0].Terms[0].Metric != "cpu" {
		t.Fatalf("models %+v, canaries %+v; want one of rate, and khz by cpu", w.Models, w.Canaries)
	}
	return w
}

func values(t *Table, metric string) []float64 {
	for _, m := range t.Metrics {
		if m.Name == metric {
			return m.Columns[0].Values
		}
	}
	panic(metric)
}

// without removes a metric.
func without(t *Table, metric string) {
	for i, m := range t.Metrics {
		if m.Name == metric {
			t.Metrics = append(t.Metrics[:i:i], t.Metrics[i+1:]...)
			return
		}
	}
}

func withNodes(t *Table, metric string, n func(row int) float64) {
	for i := range t.Metrics {
		if m := &t.Metrics[i]; m.Name == metric {
			nodes := make([]float64, t.Rows())
			for row := range nodes {
				nodes[row] = n(row)
			}
			m.Columns = append(m.Columns, Column{Statistic: StatisticNodes, Values: nodes})
		}
	}
}

// TestWatch changes what comes later in one way each.
func TestWatch(t *testing.T) {
	noise := rand.New(rand.NewPCG(3, 3))
	apart := func(later *Table) {
		x := values(later, "khz")
		for i := len(x) / 2; i < len(x); i++ {
			x[i] = 1000 * (50 + 14*noise.NormFloat64())
		}
	}
	for name, c := range map[string]struct {
		change  func(*Table)
		verdict string
		why     string
	}{
		"quiet": {func(*Table) {}, VerdictHold, "rate: the kept metrics explain it as in training"},
		"explained by others": {func(later *Table) {
			y := later.Responses[0].Values
			for i := len(y) / 2; i < len(y); i++ {
				y[i] = 6 * noise.NormFloat64()
			}
		}, VerdictRedo, "rate: the kept metrics explain it worse"},
		"parted":        {apart, VerdictRedo, "khz no longer follows from cpu"},
		"response gone": {func(later *Table) { later.Responses = nil }, VerdictUnknown, "no row has this response"},
		"response missing": {func(later *Table) {
			for i := range later.Responses[0].Values {
				later.Responses[0].Values[i] = math.NaN()
			}
		}, VerdictUnknown, "no row has this response"},
		"response is a metric": {func(later *Table) {
			later.Metrics = append(later.Metrics, Metric{Name: "rate", Columns: []Column{
				{Statistic: "d10", Values: values(later, "lone")},
				{Statistic: "mean", Values: later.Responses[0].Values},
			}})
			later.Responses = nil
		}, VerdictHold, "explain it as in training"},
		"kept metric gone": {func(later *Table) { without(later, "cpu") }, VerdictRedo, "none has the kept metric cpu"},
		"no canary":        {func(later *Table) { without(later, "khz") }, VerdictHold, "explain it as in training"},
		"canary of part of the nodes": {func(later *Table) {
			apart(later)
			withNodes(later, "khz", func(int) float64 { return 1 })
			withNodes(later, "cpu", func(int) float64 { return 8 })
		}, VerdictHold, "explain it as in training"},
		"canary of all nodes": {func(later *Table) {
			apart(later)
			withNodes(later, "khz", func(int) float64 { return 8 })
			withNodes(later, "cpu", func(int) float64 { return 8 })
		}, VerdictRedo, "khz no longer follows"},
		"few rows": {func(later *Table) { *later = *driven(9, 1, 119) }, VerdictUnknown, "not enough rows: 119"},
		"no rows":  {func(later *Table) { *later = Table{} }, VerdictUnknown, "no row has this response"},
		"a torn reading": {func(later *Table) {
			later.Responses[0].Values[100], later.Responses[0].Values[200] = 1e9, math.Inf(1)
			values(later, "cpu")[300] = math.Inf(1)
		}, VerdictHold, "explain it as in training"},
	} {
		t.Run(name, func(t *testing.T) {
			w := learned(t, 1, 1200)
			later := driven(2, 1, 900)
			c.change(later)
			r := w.Watch(later)
			if r.Verdict != c.verdict || len(r.Why) == 0 || !strings.Contains(r.Why[0], c.why) {
				t.Errorf("%s: %q; want %s: %s", r.Verdict, r.Why, c.verdict, c.why)
			}
		})
	}
}

// TestWatchOfJobs watches jobs that no training saw: each has a level and coefficients of its own.
func TestWatchOfJobs(t *testing.T) {
	w := learned(t, 8, 300)
	if m := w.Models[0]; !m.Renewed || m.Unit != "" || m.Terms[0].Coefficient != 0 {
		t.Fatalf("the model is of job %q, renewed %v: %+v", m.Unit, m.Renewed, m.Terms)
	}
	later := driven(2, 12, 300)
	if r := w.Watch(later); r.Verdict != VerdictHold || r.Responses[0].Stretches != 12 ||
		r.Canaries[0].Stretches != 60 {
		t.Errorf("%s: %q; %+v", r.Verdict, r.Why, r)
	}
	r := rand.New(rand.NewPCG(4, 4))
	for i := 6 * 300; i < 12*300; i++ {
		later.Responses[0].Values[i] = r.NormFloat64()
	}
	report := w.Watch(later)
	if report.Verdict != VerdictRedo || *report.Responses[0].AlarmMs < 7*300*10_000 {
		t.Errorf("%s: %q; want an alarm after the seventh job", report.Verdict, report.Why)
	}
}

// TestNothingToWatch has a drift of neither responses nor canaries, and one of canaries alone.
func TestNothingToWatch(t *testing.T) {
	if r := (&Drift{}).Watch(driven(1, 1, 300)); r.Verdict != VerdictUnknown {
		t.Errorf("%s: %q, want unknown", r.Verdict, r.Why)
	}
	w := learned(t, 1, 1200)
	w.Models = nil
	later := driven(2, 1, 300)
	if r := w.Watch(later); r.Verdict != VerdictHold {
		t.Errorf("%s: %q, want hold", r.Verdict, r.Why)
	}
	without(later, "khz")
	if r := w.Watch(later); r.Verdict != VerdictUnknown || !strings.Contains(r.Why[0], "canary: 0") {
		t.Errorf("%s: %q, want unknown", r.Verdict, r.Why)
	}
}
