package audit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

func certifiedOf(s quantile.Summary) *schemas.Certified {
	c := schemas.NewCertified(s.Eps, slices.Clone(s.Order), s.Knots, s.Atoms)
	return &c
}

// randomColumn has values of one of several shapes: continuous, few distinct ones, one that most others equal, and
// magnitudes whose differences overflow.
func randomColumn(r *rand.Rand) []float64 {
	values := make([]float64, 1+r.IntN(1<<(1+r.IntN(9))))
	shape, distinct := r.IntN(5), 1+r.IntN(60)
	for i := range values {
		switch shape {
		case 0:
			values[i] = r.NormFloat64()
		case 1:
			values[i] = float64(r.IntN(distinct))
		case 2:
			values[i] = max(0, r.Float64()-0.9)
		case 3:
			values[i] = math.Exp(10 * r.NormFloat64())
		default:
			values[i] = (r.Float64() - 0.5) * 2 * math.MaxFloat64
		}
	}
	return values
}

// TestCertifiedSummariesAreTrue: package quantile makes summaries of random shares, of one share and joined ones, also
// of nodes that reduced their values. None is found to be wrong.
func TestCertifiedSummariesAreTrue(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	budgets := []quantile.Budget{quantile.Large, quantile.Small, quantile.Quick}
	forms := map[string]int{}
	for i := range 3000 {
		var shares []quantile.Summary
		var all, low, high []float64
		for range 1 + r.IntN(4) {
			values := randomColumn(r)
			_, s := quantile.Certify(slices.Clone(values), budgets[r.IntN(3)])
			node := &schemas.NodeSummaryMetric{Certified: *certifiedOf(s)}
			node.Count = s.Count
			one := newTruth(sortedOf(values), sortedOf(values))
			if err := one.compare(&node.Certified); err != nil {
				t.Fatalf("%d: one share of %d values: %v", i, s.Count, err)
			}
			shares, all = append(shares, s), append(all, values...)
			if r.IntN(2) == 0 { // the share of a node that reduced them
				low, high = known(low, high, node)
			} else {
				low, high = append(low, values...), append(high, values...)
			}
		}
		joined, _ := quantile.Recompress(shares, quantile.Budget{Bytes: budgets[r.IntN(2)].Bytes, Ranks: 256})
		c := certifiedOf(joined)
		if err := newTruth(sortedOf(all), sortedOf(all)).compare(c); err != nil {
			t.Fatalf("%d: %d shares of %d values: %v", i, len(shares), len(all), err)
		}
		bounded := newTruth(sortedOf(low), sortedOf(high))
		if err := bounded.compare(c); err != nil {
			t.Fatalf("%d: %d shares of %d values, some of nodes: %v", i, len(shares), len(all), err)
		}
		forms[fmt.Sprint(len(c.Atoms) > 0, bounded.known())]++
	}
	t.Log(forms)
	if len(forms) != 3 { // atoms are always known
		t.Errorf("not every form was needed: %v", forms)
	}
}

func sortedOf(values []float64) []float64 { return slices.Sorted(slices.Values(values)) }

// TestSpoiledCertifiedSummaries: a summary that is not true of the values is found, whatever its form.
func TestSpoiledCertifiedSummaries(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	values := make([]float64, 2000)
	for i := range values {
		values[i] = r.NormFloat64()
	}
	few := make([]float64, 100)
	for i := range few {
		few[i] = float64(r.IntN(7))
	}
	_, curve := quantile.Certify(slices.Clone(values), quantile.Large)
	_, atoms := quantile.Certify(slices.Clone(few), quantile.Large)
	_, head := quantile.Certify(slices.Clone(values[:1000]), quantile.Large)
	_, tail := quantile.Certify(slices.Clone(values[1000:]), quantile.Large)
	joined, _ := quantile.Recompress([]quantile.Summary{head, tail}, quantile.Small)
	sorted := sortedOf(values)
	for name, c := range map[string]struct {
		of     []float64
		s      quantile.Summary
		change func(c *schemas.Certified)
		want   string
	}{
		"count of an atom": {
			few, atoms, func(c *schemas.Certified) { c.Atoms[2].Count++ }, "atoms: not 100 values in all",
		},
		"counts of two atoms": {
			few, atoms, func(c *schemas.Certified) { c.Atoms[2].Count++; c.Atoms[3].Count-- }, "atom 2 of ",
		},
		"value of an atom": {few, atoms, func(c *schemas.Certified) { c.Atoms[6].Value++ }, "atom 7 of "},
		"order statistic": {
			values, curve, func(c *schemas.Certified) { c.OrderStatistics[5] = sorted[1000] }, " at rank 1000 of ",
		},
		"knot": {
			values, curve, func(c *schemas.Certified) { c.Knots[9].Value = sorted[c.Knots[9].Rank] }, " at rank ",
		},
		"eps of a share": {values, curve, func(c *schemas.Certified) { c.Eps /= 2 }, "misses a value by "},
		"eps of a merge": {values, joined, func(c *schemas.Certified) { c.Eps = 0 }, "misses a value by "},
		"greatest value": {
			values, joined, func(c *schemas.Certified) { c.Knots[len(c.Knots)-1].Value++ }, " at rank 2000 of ",
		},
		"knot of a merge": {
			values, joined, func(c *schemas.Certified) { c.Knots[4].Value = c.Knots[5].Value }, "misses a value by ",
		},
		"knot is missing": {
			values, joined, func(c *schemas.Certified) { c.Knots = slices.Delete(c.Knots, 3, 6) }, "misses a value by ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			certified := certifiedOf(c.s)
			all := sortedOf(c.of)
			if err := (truth{all, all}).compare(certified); err != nil {
				t.Fatal(err)
			}
			c.change(certified)
			if err := (truth{all, all}).compare(certified); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestCoarserThanTheNode: the summary of a node's row is the node's, or one that was made of it.
func TestCoarserThanTheNode(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 1))
	values := make([]float64, 128)
	for i := range values {
		values[i] = r.NormFloat64()
	}
	_, s := quantile.Certify(slices.Clone(values), quantile.Large)
	node := &schemas.NodeSummaryMetric{Certified: *certifiedOf(s)}
	node.Count = s.Count
	coarser, _ := quantile.Recompress([]quantile.Summary{s}, quantile.Small)
	for name, c := range map[string]struct {
		of   quantile.Summary
		to   func(m *schemas.JobSummaryMetric)
		want string
	}{
		"the same": {s, func(*schemas.JobSummaryMetric) {}, ""},
		"coarser":  {coarser, func(*schemas.JobSummaryMetric) {}, ""},
		"a knot moved": {s, func(m *schemas.JobSummaryMetric) {
			m.Certified.Knots[7].Value += 1e-6
		}, " at rank "},
		"eps below the node's": {s, func(m *schemas.JobSummaryMetric) { m.Certified.Eps = 0 }, "eps 0 of "},
		"coarser, and without knots": {coarser, func(m *schemas.JobSummaryMetric) {
			m.Certified.Knots = slices.Delete(m.Certified.Knots, 2, 9)
		}, "misses a value by "},
		"missing": {s, func(m *schemas.JobSummaryMetric) { m.Certified = nil }, "collect.sketch is 210"},
	} {
		m := &schemas.JobSummaryMetric{Count: s.Count, Certified: certifiedOf(c.of)}
		c.to(m)
		err := compareCoarser(&Terms{Sketch: 210}, m, node, &Summaries{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestSummariesThatCameLate: values wait for their summaries up to a bound. The summaries of values beyond it are
// compared in themselves only, and the report says so.
func TestSummariesThatCameLate(t *testing.T) {
	b := NewBooks(Terms{Cluster: "c", Sketch: 512, From: Beginning, Only: -1, Summaries: 1})
	b.mostWaiting = 3
	want := map[string]*expectation{}
	cpu := recount.Metric{Name: "cpu", Unit: "1", Scope: schemas.ScopeCore}
	for _, job := range []string{"1", "2"} {
		c := &column{values: []float64{1, 2}, means: []nodeMean{{"n", 1.5, 2}}}
		of := &recount.Share{Parts: 1, Nodes: map[string]bool{"n": true}}
		s := &share{Share: of, columns: map[recount.Metric]*column{cpu: c}}
		want[job] = expectWhole(jobInterval{schemas.JobKey{JobID: job}, 1000}, 1000, s)
		b.expect(want[job])
	}
	if b.waiting != 2 {
		t.Errorf("%d values wait", b.waiting)
	}
	for o, job := range []string{"1", "2"} {
		s := summaryOfJob(job)
		s.Method, s.Parts, s.PartsReported, s.NodesExpected, s.NodesReported = schemas.MethodExact, 1, 1, 1, 1
		m, d := &s.Metrics[0], deciles([]float64{1, 2})
		list := d[:]
		m.Count, m.Nodes, m.Mean, m.Stddev, m.NodeStddev = 2, 1, new(1.5), new(0.5), new(0.0)
		m.LowNode, m.HighNode, m.Deciles, m.RankError, m.Lo, m.Hi = new("n"), new("n"), &list, new(0.0), nil, nil
		m.LowNodeMean, m.HighNodeMean = nil, nil // as an older collect writes them
		wrong := schemas.Atom{Value: 3, Count: 1}
		m.Certified = &schemas.Certified{Atoms: []schemas.Atom{{Value: 1, Count: 1}, wrong}}
		s.Metrics = s.Metrics[:1]
		value, err := schemas.MarshalChecked(s)
		if err != nil {
			t.Fatal(err)
		}
		b.Add(Source{schemas.TopicJobSummary, 0}, Entry{Offset: int64(o), AppendedMs: 2000, Value: value})
	}
	report := b.Close()
	if b.waiting != 0 || report.Found != 1 || !strings.HasSuffix(report.Differences[0].Text, "at 2: recomputed 2") {
		t.Errorf("%d values wait, differences %v", b.waiting, report.Differences)
	}
	if len(report.Notes) != 1 || !strings.HasPrefix(report.Notes[0], "1 certified summaries came long after ") {
		t.Errorf("notes %q", report.Notes)
	}
}
