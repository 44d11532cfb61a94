package schemas

import (
	"math"
	"testing"
)

// The interval is 10 s, so a clock may be off by 1,000 ms. The record was appended at 50,000 ms by the broker's clock.
func TestClockOf(t *testing.T) {
	type measured struct{ offset, bound float64 } // microseconds
	none := measured{math.NaN(), math.NaN()}
	for name, c := range map[string]struct {
		sentAt int64
		agent  measured
		want   ClockSign
	}{
		"an old agent, 9 s ahead":              {59_000, none, ClockSign{true, true, 9000}},
		"an old agent, just within":            {51_000, none, ClockSign{}},
		"an old agent, just outside":           {51_001, none, ClockSign{true, true, 1001}},
		"an old agent, 9 s behind or late":     {41_000, none, ClockSign{}},
		"measured ahead, sent 5 ms before":     {58_995, measured{9_000_000, 3000}, ClockSign{true, true, 9000}},
		"measured behind":                      {47_000, measured{-3_000_000, 3000}, ClockSign{true, true, -3000}},
		"measured right":                       {50_000, measured{200, 3000}, ClockSign{true, false, 0}},
		"measured right, and waited for long":  {20_000, measured{-400_000, 3000}, ClockSign{true, false, -400}},
		"off by the error alone":               {50_000, measured{-1_200_000, 200_000}, ClockSign{true, false, -1200}},
		"off by a microsecond more":            {50_000, measured{-1_200_001, 200_000}, ClockSign{true, true, -1200}},
		"stepped ahead behind the measurement": {59_000, measured{200, 3000}, ClockSign{true, true, 9000}},
		"no bound":                             {50_000, measured{9_000_000, math.NaN()}, ClockSign{}},
		"a value that no clock has":            {50_000, measured{math.Inf(1), 1}, ClockSign{}},
		"a bound larger than the offset":       {50_000, measured{9_000_000, 1e14}, ClockSign{true, false, 9000}},
	} {
		head := NodeHeader{IntervalMs: 10_000, SentAt: c.sentAt}
		b := &CounterBatch{NodeHeader: head}
		s := &NodeSummary{NodeHeader: head}
		for name, v := range map[string]float64{MetricClockOffset: c.agent.offset, MetricClockBound: c.agent.bound} {
			b.Metrics = append(b.Metrics, CounterBatchMetric{Name: name, Scope: ScopeNode, Values: []float64{v}})
			m := NodeSummaryMetric{JobSummaryMetric: JobSummaryMetric{Name: name, Scope: ScopeNode}}
			if !math.IsNaN(v) {
				m.Mean = &v
			}
			s.Metrics = append(s.Metrics, m)
		}
		for _, r := range []Record{b, s} {
			if got := ClockOf(r, 50_000); got != c.want {
				t.Errorf("%s: %T: %+v, want %+v", name, r, got, c.want)
			}
		}
	}
	if got := ClockOf(&Tick{}, 0); got.Known {
		t.Errorf("a Tick tells of a clock: %+v", got)
	}
}

// TestOneNodeDecidesNothingOfABrokersClock: a node that differs from all others makes no verdict about a broker, undoes
// none, and is no witness for another.
func TestOneNodeDecidesNothingOfABrokersClock(t *testing.T) {
	for of := 3; of < 40; of++ {
		shifted := func(n int, odd ...int64) (all []int64) {
			for i := range n {
				all = append(all, 7_200_000+int64(i))
			}
			return append(all, odd...)
		}
		for name, off := range map[string][]int64{
			"right": shifted(of - 1), "off by something else": shifted(of-1, -50_000),
		} {
			ms, alike, right := Alike(off, of)
			if right || of >= 5 && (!alike || ms < 7_200_000 || ms > 7_200_000+int64(of)) {
				t.Errorf("one of %d is %s: off by %d, alike %t, right %t", of, name, ms, alike, right)
			}
		}
		if _, alike, right := Alike(shifted(0, -50_000), of); alike || !right {
			t.Errorf("one of %d is off: alike %t, right %t", of, alike, right)
		}
		if _, alike, right := Alike(shifted(of/2), of); alike || right != (of%2 == 1) {
			t.Errorf("%d of %d are off: alike %t, right %t", of/2, of, alike, right)
		}
		if _, alike, right := Alike(shifted(of), of); !alike || right {
			t.Errorf("%d are off: alike %t, right %t", of, alike, right)
		}
	}
	if _, alike, right := Alike([]int64{9000, 9000}, 2); alike || right {
		t.Error("two nodes are witnesses")
	}
}
