package view

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// rowOf returns a row with the distribution of values.
func rowOf(metric string, startMs, intervalMs int64, values []float64) schemas.Row {
	d := quantile.Reduce(slices.Clone(values))
	unit, scope, node, zero := "1", "core", "a1", 0.0
	return schemas.Row{
		JobID: "1", IntervalStart: startMs, IntervalMs: intervalMs, Metric: &metric, Unit: &unit, Scope: &scope,
		NodesExpected: 2, NodesReported: 2, Count: &d.Count, Mean: &d.Mean, LowNode: &node, HighNode: &node,
		RankError: &zero, D0: &d.Deciles[0], D1: &d.Deciles[1], D2: &d.Deciles[2], D3: &d.Deciles[3], D4: &d.Deciles[4],
		D5: &d.Deciles[5], D6: &d.Deciles[6], D7: &d.Deciles[7], D8: &d.Deciles[8], D9: &d.Deciles[9],
		D10: &d.Deciles[10],
	}
}

// TestBinsHoldWhateverTheOrder: bins double until all intervals fit, in any order, and lose nothing.
func TestBinsHoldWhateverTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 200 {
		n := 1 + r.IntN(400)
		rows := make([]schemas.Row, n)
		for i := range rows {
			values := make([]float64, 1+r.IntN(30))
			for k := range values {
				values[k] = r.NormFloat64()
			}
			rows[i] = rowOf("m", int64(i)*1000, 1000, values)
		}
		r.Shuffle(n, func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
		bins := 2 + r.IntN(60)
		b := NewBuilder(rows[r.IntN(n)].IntervalStart, 1000, bins) // the origin may be anywhere
		for i := range rows {
			b.Row(&rows[i], true)
		}
		var j Job
		if !b.Into(&j) || j.Intervals != int64(n) || j.FirstMs != 0 || j.UntilMs != int64(n)*1000 || len(j.Gaps) > 0 {
			t.Fatalf("%d intervals from %d to %d, %v", j.Intervals, j.FirstMs, j.UntilMs, j.Gaps)
		}
		got := j.Metrics[0].Bins
		if len(got) > bins {
			t.Fatalf("%d bins, not %d", len(got), bins)
		}
		seen := 0
		for _, bin := range got {
			low, high, of := math.Inf(1), math.Inf(-1), 0
			for i := range rows {
				if at := rows[i].IntervalStart; at >= bin.StartMs && at < bin.EndMs {
					low, high = min(low, *rows[i].D1), max(high, *rows[i].D9)
					of++
				}
			}
			seen += of
			if int(bin.Intervals) != of || of > 0 && (bin.Low[1] != low || bin.High[9] != high) ||
				of == 0 && !math.IsNaN(bin.Low[1]) {
				t.Fatalf("%+v, want %d intervals, d1 of at least %g and d9 of at most %g", bin, of, low, high)
			}
		}
		if seen != n {
			t.Fatalf("%d of %d intervals are in a bin", seen, n)
		}
	}
}

// TestGapsAreTheLongestFirst: nodes that are missing, and time without any interval.
func TestGapsAreTheLongestFirst(t *testing.T) {
	b := NewBuilder(0, 1000, 10)
	for i, reported := range []int32{2, 1, 2, 0, 1, -1, 2, -1, -1, -1, -1, 2} {
		if reported >= 0 {
			r := rowOf("m", int64(i)*1000, 1000, []float64{1})
			r.NodesReported = reported
			b.Row(&r, true)
		}
	}
	var j Job
	b.Into(&j)
	want := []Gap{{FromMs: 7000, UntilMs: 11000, Missing: 8}, {FromMs: 3000, UntilMs: 6000, Missing: 5}, {
		FromMs:  1000,
		UntilMs: 2000, Missing: 1,
	}}
	if diff := gocmp.Diff(want, j.Gaps); diff != "" || j.Expected != 14 || j.Reported != 10 || j.Complete != 4 {
		t.Errorf("%s: %+v", diff, j)
	}
}

// jobOf returns a job whose metric has these values, interval by interval.
func jobOf(id string, startMs int64, certified bool, intervals ...[]float64) *Job {
	b := NewBuilder(startMs, 1000, 0)
	var all []float64
	for i, values := range intervals {
		r := rowOf("m", startMs+int64(i)*1000, 1000, values)
		b.Row(&r, true)
		all = append(all, values...)
	}
	j := &Job{Cluster: "c"}
	j.JobID, j.User = id, "ada"
	cores := int64(4)
	j.Cores, j.Start = &cores, &startMs
	b.Into(j)
	_, summary := quantile.Certify(slices.Clone(all), quantile.Large)
	total := &j.Metrics[0].Total
	total.SetMerged([]quantile.Summary{summary})
	if certified {
		total.Certified = &summary
	}
	return j
}

// TestMergeHoldsTheTruth: the bounds of a merge hold the deciles of all values, with certified summaries and without.
// With few distinct values in certified summaries they are exact.
func TestMergeHoldsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	exact := 0
	for c := range 300 {
		var jobs []*Job
		var all []float64
		for i := range 1 + r.IntN(8) {
			var intervals [][]float64
			for range 1 + r.IntN(5) {
				values := make([]float64, 1+r.IntN(40))
				for k := range values {
					values[k] = r.ExpFloat64()
					if c%2 == 0 {
						values[k] = float64(r.IntN(6))
					}
				}
				intervals, all = append(intervals, values), append(all, values...)
			}
			jobs = append(jobs, jobOf(fmt.Sprint(i), int64(i)*500_000, c%3 > 0, intervals...))
		}
		j, err := Merge(jobs)
		if err != nil {
			t.Fatal(err)
		}
		truth, got := quantile.Reduce(slices.Clone(all)), j.Metrics[0].Total
		if !got.Known || got.Count != truth.Count || math.Abs(got.Mean-truth.Mean) > 1e-9 {
			t.Fatalf("%+v, want %+v", got, truth)
		}
		if got.Exact {
			exact++
		}
		for k, d := range truth.Deciles {
			if d < got.Lo[k] || d > got.Hi[k] || got.Exact && got.D[k] != d {
				t.Fatalf("case %d: decile %d is %g, not in %g to %g of %d values", c, k, d, got.Lo[k], got.Hi[k],
					got.Count)
			}
		}
	}
	if exact < 90 {
		t.Errorf("%d merges are exact", exact)
	}
}

// TestMergeAlignsByTheStart: the first bins of all jobs are one, and sums are sums.
func TestMergeAlignsByTheStart(t *testing.T) {
	a := jobOf("1", 0, true, []float64{1}, []float64{2}, []float64{9})
	b := jobOf("2", 7_000_000, true, []float64{5}, []float64{3})
	a.Map = []Property{{Rule: "r", Title: "t", Worst: []float64{0.1, math.NaN(), 0.2}, Mean: 0.1, Max: 0.2}}
	b.Map = []Property{{Rule: "r", Title: "t", Worst: []float64{0.5, 0.3}, Mean: 0.4, Max: 0.5}, {
		Rule: "s",
		Why:  "no metric", Worst: []float64{math.NaN(), math.NaN()},
	}}
	a.Findings = []schemas.Finding{{Rule: "low", Severity: 0.1}}
	b.Findings = []schemas.Finding{{Rule: "high", Severity: 0.9}}
	b.Type = config.NodeType{Name: "fat"}
	j, err := Merge([]*Job{a, b})
	if err != nil {
		t.Fatal(err)
	}
	var low, high []float64
	for _, bin := range j.Metrics[0].Bins {
		low, high = append(low, bin.Low[5]), append(high, bin.High[5])
	}
	nan := cmpopts.EquateNaNs()
	if diff := gocmp.Diff([][]float64{{1, 2, 9}, {5, 3, 9}}, [][]float64{low, high}, nan); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]float64{0.5, 0.3, 0.2}, j.Map[0].Worst, nan); diff != "" || len(j.Map) != 2 ||
		j.Map[1].Why == "" ||
		math.Abs(j.Map[0].Mean-(0.1*3+0.4*2)/5) > 1e-12 || j.Map[0].Max != 0.5 {
		t.Errorf("%s: %+v", diff, j.Map)
	}
	if *j.Cores != 8 || j.Intervals != 5 || j.Type.Name != "" || j.User != "ada" || j.Findings[0].Rule != "high" ||
		j.FirstMs != 0 || j.UntilMs != 7_002_000 {
		t.Errorf("%+v", j)
	}
	if _, err := Merge(nil); err == nil {
		t.Error("nothing is merged")
	}
	b.Cluster = "other"
	if _, err := Merge([]*Job{a, b}); err == nil {
		t.Error("jobs of two clusters are merged")
	}
}

func TestNumbersOfALine(t *testing.T) {
	threads := config.NodeType{ThreadsPerCore: 2}
	for _, c := range []struct {
		idle, busy float64
		of         config.NodeType
	}{{0.25, 0.75, config.NodeType{}}, {0.5, 1, threads}, {0.2, 1, threads}, {0.75, 0.5, threads}, {1.1, 0, threads}} {
		if got := Busy(c.idle, c.of); math.Abs(got-c.busy) > 1e-12 {
			t.Errorf("busy at idle %g is %g, want %g", c.idle, got, c.busy)
		}
	}
	if got := WastedHours(0.75, 64*120, 60); got != 32 {
		t.Errorf("wasted: %g", got)
	}
	for cores, class := range map[int64]int64{0: 0, 1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 4096: 4096, 4097: 8192} {
		if got := SizeClass(cores); got != class {
			t.Errorf("%d cores are of class %d, want %d", cores, got, class)
		}
	}
}

func TestShownMetrics(t *testing.T) {
	names := []string{"zeta", "ipc", "alpha", "cpu_user", "ipc"}
	if diff := gocmp.Diff([]string{"cpu_user", "ipc", "alpha", "zeta"}, Shown(names)); diff != "" {
		t.Error(diff)
	}
	for i := range 40 {
		names = append(names, fmt.Sprint("m", i))
	}
	if got := Shown(names); len(got) != byDefault || got[0] != "cpu_user" {
		t.Error(got)
	}
	if x := TextOf("zeta"); x.Title != "zeta" || x.Percent || !TextOf("cpu_idle").Percent || !TextOf("psi_io").Percent {
		t.Errorf("%+v", x)
	}
}

// FuzzRows: whatever rows come, there is a picture, or none, and never a panic.
func FuzzRows(f *testing.F) {
	f.Add(int64(0), int64(1000), int64(5000), int64(1000), 1.5, int64(3), uint8(4))
	f.Add(int64(1)<<42, int64(1), int64(0), int64(3_600_000), math.NaN(), int64(-1), uint8(0))
	f.Fuzz(func(t *testing.T, start, length, other, long int64, value float64, count int64, bins uint8) {
		const far = 1 << 43
		b := NewBuilder(start%far, length, int(bins))
		for _, at := range []int64{start % far, other % far, start % far} {
			r := rowOf("m", at, max(1, long%far), []float64{1})
			r.D5, r.Mean, r.Count = &value, &value, &count
			b.Row(&r, true)
			b.Hour(&r, Sums{StartMs: at, EndMs: at + long%far, Intervals: count}, true)
		}
		var j Job
		b.Into(&j)
		for _, m := range j.Metrics {
			if len(m.Bins) > MaxBins+16 {
				t.Errorf("%d bins", len(m.Bins))
			}
		}
		if _, err := Merge([]*Job{&j, &j}); err != nil {
			t.Error(err)
		}
	})
}

// TestWasteOfGPUJobs: a job that uses its GPUs wastes no cores beside them, in whatever order its metrics come.
func TestWasteOfGPUJobs(t *testing.T) {
	var none [11]*float64
	for _, metrics := range [][]string{{"cpu_idle", "acc_utilization"}, {"acc_utilization", "cpu_idle"}} {
		for _, c := range []struct{ utilization, cores, gpus float64 }{{1, 0, 0}, {0.75, 16, 2}, {0, 64, 8}} {
			var l JobLine
			for _, metric := range metrics {
				mean, count := new(1.0), int64(64) // all cores idle, for an hour
				if metric == "acc_utilization" {
					mean, count = new(c.utilization), 8
				}
				l.Take(metric, mean, none, config.NodeType{})
				l.Waste(metric, count, 3600)
			}
			if *l.WastedH != c.cores || *l.GPUWastedH != c.gpus {
				t.Errorf("%v, GPUs at %v: %v core-hours and %v GPU-hours are wasted, want %v and %v", metrics, c.utilization,
					*l.WastedH, *l.GPUWastedH, c.cores, c.gpus)
			}
		}
	}
	var l JobLine
	l.Take("cpu_idle", new(0.5), none, config.NodeType{})
	l.Waste("cpu_idle", 64, 3600)
	if *l.WastedH != 32 || l.GPUWastedH != nil {
		t.Errorf("without GPUs: %v, %v", *l.WastedH, l.GPUWastedH)
	}
}
