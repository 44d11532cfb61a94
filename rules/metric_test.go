package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/config/nodetypes"
	"github.com/weirhpc/weir/schemas"
)

// TestScales: a severity is in 0 to 1, grows the right way, and is worst where DCDB's code has 0.
func TestScales(t *testing.T) {
	for _, c := range []struct {
		s       scale
		v, want float64
	}{
		{scale{from: 0, to: 0.5}, 0.25, 0.5},
		{scale{from: 0, to: 0.5}, -1, 0},
		{scale{from: 0, to: 0.5}, 9, 1},
		{scale{from: 1, to: 0}, 0.25, 0.75},
		{scale{from: 0.85, to: 1}, 0.925, 0.5},
		{scale{kind: scaleHigh, limit: 10, exponent: 1}, 15, 0.5},
		{scale{kind: scaleHigh, limit: 10, exponent: 1}, 10, 0},
		{scale{kind: scaleHigh, limit: 10, exponent: 1}, 0, 0},
		{scale{kind: scaleHigh, limit: 10, exponent: 1}, 99, 1},
		{scale{kind: scaleHigh, limit: 10, exponent: 0.5}, 12.5, 0.5},
		{scale{kind: scaleLow, limit: 0.4, exponent: 1}, 0, 1},
		{scale{kind: scaleLow, limit: 0.4, exponent: 1}, 0.1, 0.75},
		{scale{kind: scaleLow, limit: 0.4, exponent: 2}, 0.2, 0.75},
		{scale{kind: scaleLow, limit: 0.4, exponent: 1}, 2, 0},
		{scale{kind: scaleLow, limit: 0.4, exponent: 0.5}, -3, 1},
		{scale{from: 0, to: 1}, math.NaN(), math.NaN()},
	} {
		if got := c.s.of(c.v); math.Abs(got-c.want) > 1e-12 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%+v of %v is %v, not %v", c.s, c.v, got, c.want)
		}
	}
}

// TestSeverityOfDeciles: a severity grows or falls with its number. So the severities of the deciles bound the mean
// severity of all values, as closely as deciles can.
func TestSeverityOfDeciles(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range 20_000 {
		all := make([]float64, 1+r.IntN(300))
		for i := range all {
			if all[i] = 3 * r.Float64(); r.IntN(4) == 0 {
				all[i] = 1
			}
		}
		slices.Sort(all)
		s := scale{
			kind: r.IntN(3), from: r.Float64(), to: 1 + r.Float64(), limit: 0.1 + r.Float64(),
			exponent: 0.1 + 2*r.Float64(),
		}
		rank := func(k int) int { return (k*len(all) + 9) / 10 }
		d := []float64{all[0]}
		for k := 1; k <= 10; k++ {
			d = append(d, all[max(rank(k), 1)-1])
		}
		var mean, low, high float64
		for _, v := range all {
			mean += s.of(v) / float64(len(all))
		}
		for k := 1; k <= 10; k++ {
			a, b := s.of(d[k-1]), s.of(d[k])
			share := float64(rank(k)-rank(k-1)) / float64(len(all))
			low, high = low+share*min(a, b), high+share*max(a, b)
		}
		widest := (0.1 + 1/float64(len(all))) * math.Abs(s.of(d[10])-s.of(d[0]))
		if mean < low-1e-9 || mean > high+1e-9 || high-low > widest+1e-9 || low < -1e-9 || high > 1+1e-9 {
			t.Fatalf("seed %d, case %d: %v is not in %v to %v, of width %v at most", seed, n, mean, low, high, widest)
		}
	}
}

// TestMetricOf: a metric of a summary and of its row are the same. What has no values, or bounds of another length, is
// none.
func TestMetricOf(t *testing.T) {
	mean, low, high := 0.5, 0.25, 0.75
	d, lo, hi := make([]float64, decils), make([]float64, decils), make([]float64, decils)
	for k := range d {
		d[k], lo[k], hi[k] = float64(k), float64(k)-0.5, float64(k)+0.5
	}
	node := "n1"
	m := schemas.JobSummaryMetric{
		Name: "cpu_idle", Scope: "core", Count: 60, Invalid: 4, Nodes: 4, Mean: &mean, LowNode: &node,
		HighNode: &node,
		Deciles:  &d, Lo: &lo, Hi: &hi, LowNodeMean: &low, HighNodeMean: &high,
	}
	s := schemas.JobSummary{
		IntervalStart: 7, IntervalMs: 1000, NodesExpected: 4, NodesReported: 3, Metrics: []schemas.JobSummaryMetric{
			{Name: "without"}, {Name: "z"}, m,
		},
	}
	s.Metrics[1] = m
	s.Metrics[1].Name = "z"
	var a, b Interval
	for range 2 { // what an interval had before does not matter
		FromSummary(&s, false, &a)
		FromRows(s.Rows(), &b)
	}
	for _, iv := range []Interval{a, b} {
		if len(iv.Metrics) != 2 || iv.Metrics[0].Name != "cpu_idle" || iv.StartMs != 7 || iv.LengthMs != 1000 ||
			iv.Expected != 4 || iv.Reported != 3 || iv.cores() != 64 {
			t.Errorf("%+v", iv)
		}
	}
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
		t.Errorf("%+v\n%+v", a, b)
	}
	for _, possible := range []bool{false, true} {
		got, ok := MetricOf(&m, possible)
		ofRow, okRow := metricOfRow(&s.Rows()[2], possible)
		if !ok || !okRow || got != ofRow || got.D5 != 5 || got.PerNode != 15 || got.LowNodeMean != 0.25 ||
			got.HighNodeMean != 0.75 {
			t.Errorf("%+v, %+v", got, ofRow)
		}
		if wantLo, wantHi := 4.5, 5.5; !possible && (got.Lo5 != wantLo || got.Hi5 != wantHi) || possible &&
			(got.Lo5 != 5 || got.Hi5 != 5) {
			t.Errorf("possible %v: %v to %v", possible, got.Lo5, got.Hi5)
		}
	}
	m.Lo, m.Hi = nil, nil
	if got, ok := MetricOf(&m, false); !ok || got.Lo5 != 5 || got.Hi5 != 5 {
		t.Errorf("exact: %+v", got)
	}
	short := d[:10]
	m.Lo, m.Hi = &short, &hi
	if _, ok := MetricOf(&m, false); ok {
		t.Error("ten bounds of eleven are taken")
	}
	m.Mean = nil
	if _, ok := MetricOf(&m, false); ok {
		t.Error("a metric without values is taken")
	}
}

// TestJobOf: what the scheduler does not tell is not known. A node type without GPUs tells that the job has none.
func TestJobOf(t *testing.T) {
	none, some := 0, 4
	types, err := nodetypes.New([]config.NodeType{
		{Name: "thin", Nodes: "n[1-4]", CPUs: 8, GPUs: &none}, {
			Name: "gpu", Nodes: "g[1-2]",
			GPUs: &some,
		}, {Name: "rest", CPUs: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	for nodes, want := range map[string]struct {
		name string
		gpus int
	}{"n1 n2": {"thin", 0}, "g1": {"gpu", -1}, "n1 g1": {"", -1}, "x1 x2": {"rest", -1}, "": {"", -1}, "n1 x1": {
		"",
		-1,
	}} {
		j := JobOf("alpha", &schemas.Job{JobID: "1", Nodes: strings.Fields(nodes)}, types)
		if j.Node.Name != want.name || j.Gpus != want.gpus || j.Cores != -1 || j.LimitS != -1 ||
			j.MemRequested != -1 ||
			j.StartMs != 0 || j.EndMs != 0 || j.Cluster != "alpha" {
			t.Errorf("%q: %+v", nodes, j)
		}
	}
	n, g := int64(64), int32(3)
	j := JobOf("alpha", &schemas.Job{
		JobID: "1", Restart: 2, User: "u", Account: "a", Queue: "q", State: "RUNNING", Nodes: []string{"n1"},
		Start: &n, End: &n,
		Cores: &n, Gpus: &g, TimeLimitS: &n, MemRequestedBytes: &n,
	}, nil)
	if j.StartMs != 64 || j.EndMs != 64 || j.Cores != 64 || j.Gpus != 3 || j.LimitS != 64 || j.MemRequested != 64 ||
		j.Key != (schemas.JobKey{JobID: "1", Restart: 2}) || j.User != "u" || j.Account != "a" || j.Queue != "q" ||
		j.State != "RUNNING" {
		t.Errorf("%+v", j)
	}
}
