package sink

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/config/sizing"
)

// TestRowsAreAsSizeSays: a row takes as many bytes of the archive as weir size computes, with values that are
// exponential, mostly 0, or integers.
func TestRowsAreAsSizeSays(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	for _, sketch := range []int{210, 0, 512}[:kafkatest.Cases(3, 1)] {
		random := rand.New(rand.NewPCG(1, 1))
		var rows []schemas.Row
		certified := 0 // bytes, encoded
		for n := range 150 {
			bare := sizedSummary(random, n, 0)
			full := sizedSummary(random, n, sketch)
			certified += len(marshal(t, full)) - len(marshal(t, bare))
			rows = append(rows, full.Rows()...)
		}
		var file bytes.Buffer
		if err := encode(&file, rows, &Footer{}); err != nil {
			t.Fatal(err)
		}
		got, each := float64(file.Len())/float64(len(rows)), float64(certified)/float64(len(rows))
		want := sizing.RowBytes + sizing.RowCertified*each
		t.Logf("collect.sketch %d: %.0f bytes a row, %.0f by weir size", sketch, got, want)
		if math.Abs(got/want-1) > .15 {
			t.Errorf("collect.sketch %d: %.0f bytes a row, and weir size says %.0f", sketch, got, want)
		}
	}
}

// sizedSummary is the summary of a job of 50 nodes with 16 cores.
func sizedSummary(random *rand.Rand, n, sketch int) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: "cluster01", JobID: fmt.Sprint(4_000_000 + n%25),
		IntervalStart: 1_795_305_600_000 + int64(n/25)*10_000, IntervalMs: 10_000,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: 50, NodesReported: 50,
	}
	for m := range 37 {
		values := make([]float64, 800)
		for i := range values {
			switch v := random.ExpFloat64(); (m + n) % 4 {
			case 0, 1:
				values[i] = v
			case 2:
				values[i] = max(0, v-2.3)
			default:
				values[i] = math.Floor(100 * v)
			}
		}
		d, c := quantile.Certify(values, quantile.Budget{Bytes: max(sketch, quantile.Small.Bytes), Ranks: 1024})
		stddev, zero, deciles, low, high := d.Stddev(), 0.0, d.Deciles[:], "rack001n0001", "rack021n0077"
		metric := schemas.JobSummaryMetric{
			Name: fmt.Sprintf("metric_%04d", m), Unit: "1", Scope: schemas.ScopeCore, Count: d.Count, Nodes: 50,
			Mean: &d.Mean, Stddev: &stddev, NodeStddev: &stddev, Deciles: &deciles, RankError: &zero,
			LowNode: &low, HighNode: &high, LowNodeMean: &deciles[2], HighNodeMean: &deciles[8],
		}
		if sketch > 0 {
			certified := schemas.NewCertified(c.Eps, c.Order, c.Knots, c.Atoms)
			metric.Certified = &certified
		}
		s.Metrics = append(s.Metrics, metric)
	}
	return s
}
