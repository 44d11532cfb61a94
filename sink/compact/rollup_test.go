package compact

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// rowOfValues returns the row of an interval with these values, as collect makes it.
func rowOfValues(start int64, values []float64, budget quantile.Budget) *row {
	d, s := quantile.Certify(slices.Clone(values), budget)
	metric, unit, scope, node := "m", "%", schemas.ScopeCore, "n1"
	zero, stddev := 0.0, quantile.Stddev(d.M2, d.Count)
	r := &row{Row: schemas.Row{
		Cluster: "c", JobID: "7", IntervalStart: start, IntervalMs: 10_000, Metric: &metric, Unit: &unit, Scope: &scope,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 2, NodesReported: 1,
		Count: &d.Count, Invalid: &d.Invalid, Mean: &d.Mean, Stddev: &stddev, NodeStddev: &zero,
		LowNode: &node, HighNode: &node, D0: &d.Deciles[0], D10: &d.Deciles[10], Eps: &s.Eps, OrderStatistics: s.Order,
	}}
	for _, k := range s.Knots {
		r.KnotValues, r.KnotRanks = append(r.KnotValues, k.Value), append(r.KnotRanks, k.Rank)
	}
	for _, a := range s.Atoms {
		r.AtomValues, r.AtomCounts = append(r.AtomValues, a.Value), append(r.AtomCounts, a.Count)
	}
	return r
}

// fold returns the rollups of rows.
func fold(t testing.TB, rows ...*row) (all []Rollup) {
	t.Helper()
	f := &folder{out: func(r *Rollup) error { all = append(all, *r); return nil }}
	for _, r := range rows {
		if err := f.add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.flush(); err != nil {
		t.Fatal(err)
	}
	return all
}

func decilesOf(r *Rollup) []*float64 {
	return []*float64{r.D0, r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9, r.D10}
}

// judgeRollup holds a rollup against the sorted values of all its rows, and returns how many brackets it has.
func judgeRollup(r *Rollup, values []float64) (brackets int, err error) {
	slices.Sort(values)
	d := quantile.Reduce(slices.Clone(values))
	if r.Count != d.Count || r.CertifiedCount != d.Count {
		return 0, fmt.Errorf("%d values, %d certified, not %d", r.Count, r.CertifiedCount, d.Count)
	}
	stddev := quantile.Stddev(d.M2, d.Count)
	size := math.Abs(d.Mean) + stddev
	if math.Abs(*r.Mean-d.Mean) > 1e-12*size || math.Abs(*r.Stddev-stddev) > 1e-7*size {
		return 0, fmt.Errorf("mean %g, stddev %g, not %g and %g", *r.Mean, *r.Stddev, d.Mean, stddev)
	}
	if *r.D0 != d.Deciles[0] || *r.D10 != d.Deciles[10] {
		return 0, fmt.Errorf("from %g to %g, not from %g to %g", *r.D0, *r.D10, d.Deciles[0], d.Deciles[10])
	}
	for k, got := range decilesOf(r) {
		switch want := d.Deciles[k]; {
		case r.Lo == nil && (*got != want || *r.RankError != 0):
			return 0, fmt.Errorf("decile %d is %g, not %g, and has no bracket", k, *got, want)
		case r.Lo != nil && (r.Lo[k] > want || r.Hi[k] < want || *got < r.Lo[k] || *got > r.Hi[k]):
			return 0, fmt.Errorf("decile %d is %g, not in [%g, %g] with %g", k, want, r.Lo[k], r.Hi[k], *got)
		case r.Lo != nil:
			brackets++
		}
	}
	return brackets, nil
}

// randomValues returns values of one of several kinds.
func randomValues(rnd *rand.Rand, kind, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		switch x := rnd.NormFloat64(); kind {
		case 0:
			v[i] = x
		case 1: // in steps
			v[i] = math.Round(x*30) / 10
		case 2: // mostly zero, and some below
			if v[i] = 0; rnd.IntN(4) == 0 {
				v[i] = x
			}
		case 3: // far apart
			v[i] = math.Exp(8 * x)
		case 4: // two phases
			v[i] = x + 100*float64(i*2/n)
		}
	}
	return v
}

// TestRollupsHoldTheTruth folds random rows, at once and in two generations. All brackets must hold the deciles of the
// sorted values: 10^5 of them, and more.
func TestRollupsHoldTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 22))
	budgets := []quantile.Budget{quantile.Small, quantile.Large, quantile.Quick}
	brackets, exact := 0, 0
	for cases := 0; brackets < minCases; cases++ {
		var values []float64
		var rows []*row
		for i := range 2 + rnd.IntN(6) {
			v := randomValues(rnd, (cases+rnd.IntN(2))%5, 1+rnd.IntN(150))
			rows = append(rows, rowOfValues(int64(i), v, budgets[rnd.IntN(3)]))
			values = append(values, v...)
		}
		early := 1 + rnd.IntN(len(rows)-1)
		h := newHour(keyOf(rows[0]))
		for _, part := range [][]*row{rows[:early], rows[early:]} {
			h.join(&fold(t, part...)[0])
		}
		joined := h.done()
		for _, r := range []*Rollup{&fold(t, rows...)[0], &joined} {
			n, err := judgeRollup(r, values)
			if err != nil {
				t.Fatalf("case %d: %v", cases, err)
			}
			if brackets += n; n == 0 {
				exact++
			}
		}
	}
	t.Logf("%d brackets, %d exact rollups", brackets, exact)
}

// TestWidthsOfRollups: a stationary job of 64 nodes with 32 cores. Brackets of an hour, and of six hours together, hold
// at most 1 % of the values.
func TestWidthsOfRollups(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var all []float64
	var hours []quantile.Summary
	width := func(lo, hi, values []float64) (mean float64) {
		slices.Sort(values)
		for k := 1; k < 10; k++ {
			from, _ := slices.BinarySearch(values, lo[k])
			to, _ := slices.BinarySearch(values, hi[k])
			mean += float64(to-from) / float64(len(values)) / 9
		}
		return mean
	}
	for range 6 {
		var rows []*row
		var values []float64
		for i := range 60 {
			v := randomValues(rnd, 0, 64*32)
			rows = append(rows, rowOfValues(int64(i), v, quantile.Large))
			values = append(values, v...)
		}
		r := fold(t, rows...)[0]
		if _, err := judgeRollup(&r, values); err != nil {
			t.Fatal(err)
		}
		if w := width(r.Lo, r.Hi, values); w > 0.010 {
			t.Errorf("brackets of an hour hold %.2f %% of its values", 100*w)
		} else {
			t.Logf("an hour: %.2f %%, rank error %.2f %%", 100*w, 100**r.RankError)
		}
		s, _ := r.Summary()
		hours, all = append(hours, s), append(all, values...)
	}
	e, _ := quantile.Merge(hours)
	if w := width(e.Lo[:], e.Hi[:], all); w > 0.010 {
		t.Errorf("brackets of all hours hold %.2f %% of the values", 100*w)
	} else {
		t.Logf("six hours: %.2f %%, rank error %.2f %%", 100*w, 100*e.RankError)
	}
}

// TestRollupOfOddRows: rows without values, without a summary, of two units, and without a metric.
func TestRollupOfOddRows(t *testing.T) {
	texts := func(r *row, unit, low string) *row { r.Unit, r.LowNode = &unit, &low; return r }
	with := func(start int64, values ...float64) *row { return rowOfValues(start, values, quantile.Large) }
	empty := with(0, 1)
	empty.Count, empty.Invalid = new(int64), copied(empty.Count)
	empty.Eps, empty.AtomValues, empty.AtomCounts = nil, nil, nil
	bare := with(20_000, 7, 9)
	bare.Eps, bare.AtomValues, bare.AtomCounts = nil, nil, nil
	silent := &row{Row: schemas.Row{Cluster: "c", JobID: "6", IntervalMs: 10_000, NodesExpected: 4}}
	got := fold(t, silent, empty, texts(with(10_000, 1, 2), "%", "n2"), texts(with(15_000, 1), "s", "n3"), bare,
		texts(with(hourMs-1, 3), "%", "n2"), with(hourMs, 5))
	if len(got) != 4 {
		t.Fatalf("%d rollups, want 4: one job without a metric, two units, two hours: %+v", len(got), got)
	}
	if r := got[0]; r.Metric != nil || r.Intervals != 1 || r.IntervalsMeasured != 0 || r.NodesExpectedSum != 4 ||
		r.Count != 0 || r.Mean != nil || r.D0 != nil {
		t.Errorf("a job without a metric: %+v", r)
	}
	r := got[1]
	if r.Intervals != 4 || r.IntervalsMeasured != 3 || r.MeasuredMs != 30_000 || r.NodesExpectedSum != 8 ||
		r.NodesReportedSum != 4 || r.Count != 5 || r.Invalid != 1 || *r.Mean != 22.0/5 {
		t.Errorf("an hour: %+v", r)
	}
	if *r.D0 != 1 || *r.D10 != 9 || r.D5 != nil || r.CertifiedCount != 3 || *r.LowNode != "n2" ||
		*r.LowNodeShare != 2.0/3 {
		t.Errorf("an hour with a row that has no summary: %+v", r)
	}
	if r := got[2]; *r.Unit != "s" || r.Count != 1 || *r.D5 != 1 || *r.RankError != 0 || r.Lo != nil {
		t.Errorf("another unit: %+v", r)
	}
	if r := got[3]; r.Hour != hourMs || r.Count != 1 || *r.D5 != 5 {
		t.Errorf("the next hour: %+v", r)
	}
}

// TestRollupsOfRollups: a rollup joined with one of no rows keeps its numbers, and sums add up.
func TestRollupsOfRollups(t *testing.T) {
	a := fold(t, rowOfValues(0, []float64{1, 2}, quantile.Large), rowOfValues(10_000, []float64{3}, quantile.Large))[0]
	b := fold(t, rowOfValues(20_000, []float64{9}, quantile.Large))[0]
	b.LowNodes[0], b.HighNodes[0] = "n0", "n0"
	h := newHour(Rollup{JobID: "7"})
	h.join(&a)
	h.join(&b)
	got := h.done()
	if got.Intervals != 3 || got.MeasuredMs != 30_000 || got.Count != 4 || *got.LowNode != "n1" ||
		*got.LowNodeShare != 2.0/3 || *got.D10 != 9 || got.NodesExpectedSum != 6 || got.NodesReportedSum != 3 {
		t.Errorf("joined: %+v", got)
	}
	if diff := cmp.Diff([]float64{1, 2, 3, 9}, got.AtomValues); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// BenchmarkFold: an hour of 60 rows.
func BenchmarkFold(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var rows []*row
	for i := range 60 {
		rows = append(rows, rowOfValues(int64(i), randomValues(rnd, 0, 64*32), quantile.Quick))
	}
	for b.Loop() {
		fold(b, rows...)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/60, "µs/row")
}
