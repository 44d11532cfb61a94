package totals

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"
)

// rowOf returns the row of an interval with these values, as collect makes it.
func rowOf(job string, start int64, values []float64, budget quantile.Budget, node string) schemas.Row {
	d, s := quantile.Certify(slices.Clone(values), budget)
	metric, unit, scope := "m", "%", schemas.ScopeCore
	stddev, between := quantile.Stddev(d.M2, d.Count), float64(len(values)%7)
	r := schemas.Row{
		Cluster: "c", JobID: job, IntervalStart: start, IntervalMs: 10_000, Metric: &metric, Unit: &unit,
		Scope: &scope, Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 3, NodesReported: 2,
		Count: &d.Count, Invalid: &d.Invalid, Mean: &d.Mean, Stddev: &stddev, NodeStddev: &between,
		LowNode: &node, HighNode: &node, D0: &d.Deciles[0], D10: &d.Deciles[10], Eps: &s.Eps, OrderStatistics: s.Order,
	}
	for _, k := range s.Knots {
		r.KnotValues, r.KnotRanks = append(r.KnotValues, k.Value), append(r.KnotRanks, k.Rank)
	}
	for _, a := range s.Atoms {
		r.AtomValues, r.AtomCounts = append(r.AtomValues, a.Value), append(r.AtomCounts, a.Count)
	}
	return r
}

// fold returns the total of rows, hour by hour.
func fold(t testing.TB, rows ...schemas.Row) Total {
	t.Helper()
	hours, err := compact.Fold(rows)
	if err != nil {
		t.Fatal(err)
	}
	return totalOf(t, hours)
}

// every is a job to which all hours belong.
var every = picked{final: true}

// totalOf returns the only total of hours.
func totalOf(t testing.TB, hours []compact.Rollup) Total {
	t.Helper()
	var all []Total
	f := folder{
		whose: func(schemas.JobKey, int64) *picked { return &every },
		out:   func(t *Total) error { all = append(all, *t); return nil },
	}
	for i := range hours {
		if err := f.add(&hours[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.flush(); err != nil || len(all) != 1 {
		t.Fatalf("%d totals, %v", len(all), err)
	}
	return all[0]
}

func decilesOf(t *Total) []*float64 {
	return []*float64{t.D0, t.D1, t.D2, t.D3, t.D4, t.D5, t.D6, t.D7, t.D8, t.D9, t.D10}
}

// judge holds a total against the values of all its rows, and returns how many brackets it has.
func judge(t *Total, values []float64) (brackets int, err error) {
	d := quantile.Reduce(slices.Clone(values))
	if t.Count != d.Count || t.CertifiedCount != d.Count {
		return 0, fmt.Errorf("%d values, %d certified, not %d", t.Count, t.CertifiedCount, d.Count)
	}
	stddev := quantile.Stddev(d.M2, d.Count)
	size := math.Abs(d.Mean) + stddev
	if math.Abs(*t.Mean-d.Mean) > 1e-12*size || math.Abs(*t.Stddev-stddev) > 1e-7*size {
		return 0, fmt.Errorf("mean %g, stddev %g, not %g and %g", *t.Mean, *t.Stddev, d.Mean, stddev)
	}
	if *t.Min != d.Deciles[0] || *t.Max != d.Deciles[10] {
		return 0, fmt.Errorf("from %g to %g, not from %g to %g", *t.Min, *t.Max, d.Deciles[0], d.Deciles[10])
	}
	for k, got := range decilesOf(t) {
		switch want := d.Deciles[k]; {
		case t.Lo == nil && (*got != want || *t.RankError != 0):
			return 0, fmt.Errorf("decile %d is %g, not %g, and has no bracket", k, *got, want)
		case t.Lo != nil && (t.Lo[k] > want || t.Hi[k] < want || *got < t.Lo[k] || *got > t.Hi[k]):
			return 0, fmt.Errorf("decile %d is %g, not in [%g, %g] with %g", k, want, t.Lo[k], t.Hi[k], *got)
		case t.Lo != nil:
			brackets++
		}
	}
	return brackets, nil
}

// valuesOf returns values of one of several kinds.
func valuesOf(rnd *rand.Rand, kind, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		switch x := rnd.NormFloat64(); kind {
		case 0:
			v[i] = x
		case 1: // in steps
			v[i] = math.Round(x*30) / 10
		case 2: // mostly zero, and some below
			if rnd.IntN(4) == 0 {
				v[i] = x
			}
		case 3: // far apart
			v[i] = math.Exp(8 * x)
		}
	}
	return v
}

// TestTotalsOfTheLargestNumbers: totals are right although sums of squares overflow. An hour of an older weir may have
// an infinite number, and values computed from it are null.
func TestTotalsOfTheLargestNumbers(t *testing.T) {
	for _, v := range []float64{1e150, 1e155, 1e200, 1e308, math.MaxFloat64} {
		var rows []schemas.Row
		for i := range 2000 { // five and a half hours
			row := rowOf("1", int64(i)*10_000, []float64{v, -v, v / 3}, quantile.Budget{Bytes: 512, Ranks: 2048}, "n1")
			row.NodeStddev = &v
			rows = append(rows, row)
		}
		hours, err := compact.Fold(rows)
		if err != nil {
			t.Fatal(err)
		}
		total := totalOf(t, hours)
		if _, err := json.Marshal(total); err != nil || total.NodeStddevRMS == nil ||
			math.Abs(*total.NodeStddevRMS/v-1) > 1e-12 {
			t.Errorf("%g: %v, %v", v, err, total.NodeStddevRMS)
		}
		if total.Mean == nil || total.Stddev == nil || total.D5 == nil || total.Lo == nil && *total.RankError > 0 {
			t.Errorf("%g: %+v", v, total)
		}
		infinite := math.Inf(1)
		hours[2].NodeStddevRMS, hours[3].D10 = &infinite, &infinite
		total = totalOf(t, hours)
		if _, err := json.Marshal(total); err != nil || total.NodeStddevRMS != nil || total.Max != nil ||
			total.D5 == nil {
			t.Errorf("%g beside an infinite hour: %v, %+v", v, err, total)
		}
	}
}

// TestTotalsHoldTheTruth splits random values into rows and hours at random. All brackets must hold the deciles of the
// sorted values: 10^5 of them, and more. Counts, shares of nodes and times must be exact.
func TestTotalsHoldTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	budgets := []quantile.Budget{quantile.Small, quantile.Large, quantile.Quick}
	brackets, exact := 0, 0
	for cases := 0; brackets < minCases; cases++ {
		var values []float64
		var rows []schemas.Row
		squares, low := 0.0, map[string]int{}
		start := rnd.Int64N(1000) * hourMs
		n := 1 + rnd.IntN(8)
		for i := range n {
			v := valuesOf(rnd, (cases+rnd.IntN(2))%4, 1+rnd.IntN(120))
			node := fmt.Sprint("n", rnd.IntN(3))
			at := start + int64(i*rnd.IntN(2))*hourMs + int64(i)*10_000
			rows = append(rows, rowOf("7", at, v, budgets[rnd.IntN(3)], node))
			values = append(values, v...)
			squares += float64(len(v)%7) * float64(len(v)%7)
			low[node]++
		}
		slices.SortFunc(rows, func(a, b schemas.Row) int { return int(a.IntervalStart - b.IntervalStart) })
		got := fold(t, rows...)
		more, err := judge(&got, values)
		if err != nil {
			t.Fatalf("case %d: %v", cases, err)
		}
		if brackets += more; more == 0 {
			exact++
		}
		best := ""
		for _, node := range []string{"n0", "n1", "n2"} {
			if low[node] > low[best] {
				best = node
			}
		}
		if got.Intervals != int64(n) || got.MeasuredS != float64(n)*10 || *got.Completeness != 2.0/3 ||
			got.Start != rows[0].IntervalStart || got.End != rows[n-1].IntervalStart+10_000 ||
			*got.LowNode != best || *got.LowNodeShare != float64(low[best])/float64(n) || *got.HighNode != best ||
			math.Abs(*got.NodeStddevRMS-math.Sqrt(squares/float64(n))) > 1e-12*(1+squares) {
			t.Fatalf("case %d: %+v, lowest %v", cases, got, low)
		}
	}
	t.Logf("%d brackets, %d exact totals", brackets, exact)
}

// TestTotalOfOddRows: rows without values, without a certified summary, and without a metric.
func TestTotalOfOddRows(t *testing.T) {
	silent := schemas.Row{Cluster: "c", JobID: "7", IntervalMs: 10_000, NodesExpected: 4}
	got := fold(t, silent)
	if got.Metric != nil || got.Intervals != 1 || got.IntervalsMeasured != 0 || got.MeasuredS != 0 || got.Count != 0 ||
		*got.Completeness != 0 || got.Mean != nil || got.D5 != nil || got.LowNode != nil {
		t.Errorf("a job without metrics: %+v", got)
	}
	bare := rowOf("7", hourMs, []float64{7, 9}, quantile.Large, "n1")
	bare.Eps, bare.AtomValues, bare.AtomCounts = nil, nil, nil
	got = fold(t, rowOf("7", 0, []float64{1, 2}, quantile.Large, "n0"), bare)
	if *got.Min != 1 || *got.Max != 9 || *got.Mean != 19.0/4 || got.D1 != nil || got.D5 != nil || got.Lo != nil ||
		got.RankError != nil || got.CertifiedCount != 2 || got.Count != 4 || *got.LowNode != "n0" {
		t.Errorf("an hour without a certified summary: %+v", got)
	}
	odd := rowOf("7", 0, []float64{1}, quantile.Large, "n0")
	odd.NodesExpected = 0
	if got := fold(t, odd); got.Completeness != nil {
		t.Errorf("a job of which no node was expected: %v", *got.Completeness)
	}
}

// TestTotalsOfSeveralUnits: a metric that changed its unit has a total of each, in order, and so has each restart.
func TestTotalsOfSeveralUnits(t *testing.T) {
	var rows []schemas.Row
	for i, c := range []struct {
		restart int32
		unit    string
	}{{0, "s"}, {0, "%"}, {0, "s"}, {1, "s"}} {
		r := rowOf("7", int64(i)*hourMs, []float64{float64(i)}, quantile.Large, "n0")
		r.Restart, r.Unit = c.restart, &c.unit
		rows = append(rows, r)
	}
	hours, err := compact.Fold(rows)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	lives := []picked{{}, {final: true}}
	f := folder{whose: func(k schemas.JobKey, _ int64) *picked { return &lives[k.Restart] }, out: func(t *Total) error {
		got = append(got, fmt.Sprintf("%d%s %d %g %v", t.Restart, *t.Unit, t.Intervals, *t.D5, t.Final))
		return nil
	}}
	for i := range hours {
		if err := f.add(&hours[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.flush(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0% 1 1 false", "0s 2 0 false", "1s 1 3 true"}, got); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// TestWidthsOfTotals: a stationary job of 64 nodes with 32 cores. Brackets of a day hold at most 1 % of the values.
func TestWidthsOfTotals(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	const hours, intervals = 24, 12
	var all []float64
	var rows []schemas.Row
	for i := range hours * intervals {
		v := valuesOf(rnd, 0, 64*32)
		rows = append(rows, rowOf("7", int64(i)*hourMs/intervals, v, quantile.Large, "n0"))
		all = append(all, v...)
	}
	got := fold(t, rows...)
	if _, err := judge(&got, all); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	mean := 0.0
	for k := 1; k < 10; k++ {
		from, _ := slices.BinarySearch(all, got.Lo[k])
		to, _ := slices.BinarySearch(all, got.Hi[k])
		mean += float64(to-from) / float64(len(all)) / 9
	}
	if mean > 0.010 {
		t.Errorf("brackets hold %.2f %% of the values", 100*mean)
	}
	t.Logf("%d hours: %.2f %%, rank error %.2f %%", hours, 100*mean, 100**got.RankError)
}
