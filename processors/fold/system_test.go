package fold

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// reducedBatch is what a node sends for a job that it has alone: the values of a batch, reduced.
func reducedBatch(b *schemas.CounterBatch) *schemas.NodeSummary {
	s := &schemas.NodeSummary{NodeHeader: b.NodeHeader}
	for _, m := range b.Metrics {
		d, certified := quantile.Certify(slices.Clone(m.Values), quantile.Large)
		stddev, deciles := d.Stddev(), d.Deciles[:]
		s.Metrics = append(s.Metrics, schemas.NodeSummaryMetric{
			JobSummaryMetric: schemas.JobSummaryMetric{
				Name: m.Name, Unit: m.Unit, Scope: m.Scope, Count: d.Count, Invalid: d.Invalid, Nodes: 1,
				Mean: &d.Mean, Stddev: &stddev, NodeStddev: new(0.0), LowNode: &b.Node, HighNode: &b.Node,
				Deciles: &deciles, RankError: new(0.0),
			},
			Certified: schemas.NewCertified(certified.Eps, certified.Order, certified.Knots, certified.Atoms),
		})
	}
	return s
}

// TestSystemHoldsTheWholeMachine folds an interval of several collectors and merges their shares of _system. Jobs are
// whole, split, or reduced on their node. Every value counts once, and every bracket holds the true decile.
func TestSystemHoldsTheWholeMachine(t *testing.T) {
	const collectors = 3
	for name, c := range map[string]struct {
		cpus, nodes int
		exact       bool
	}{
		"few values, all of them known":           {2, 2, true},
		"reduced nodes that say all their values": {16, 40, false},
		"reduced nodes that say a summary":        {200, 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(c.cpus)))
			var all []float64
			var shares []*schemas.JobPartial
			means, reported := 0, int32(0)
			for p := range int32(collectors) {
				fold := NewCollector(simCluster, p, collectors, nil)
				tick := &schemas.Tick{IntervalStart: simEpochMs, IntervalMs: simT}
				offset := int64(0)
				apply := func(rec schemas.Record) Effects {
					offset++
					return fold.Apply(Entry{Offset: offset, AppendedMs: simEpochMs + simT, Value: encode(t, rec)})
				}
				for n := range c.nodes {
					node := fmt.Sprintf("n%d-%d", p, n)
					ipc := schemas.CounterBatchMetric{Name: "ipc", Unit: "1", Scope: schemas.ScopeCore}
					b := &schemas.CounterBatch{
						NodeHeader: header(node, "", simEpochMs, simT), Metrics: []schemas.CounterBatchMetric{ipc},
					}
					b.Cpus = nil
					for i := range c.cpus {
						b.Cpus = append(b.Cpus, int32(i))
						b.Metrics[0].Values = append(b.Metrics[0].Values, r.NormFloat64()*float64(p+1))
					}
					all = append(all, b.Metrics[0].Values...)
					means++
					id := []string{"split", fmt.Sprint("whole", p), "local" + node, "_rest"}[n%4]
					job := tickJob(id, 1, node)
					if job.JobID == "split" {
						job.Parts, job.JobNodes = collectors, int32(collectors*c.nodes)
					}
					b.JobID = job.JobID
					if strings.HasPrefix(job.JobID, "local") {
						apply(reducedBatch(b))
					} else {
						job.JobNodes = int32(c.nodes * collectors)
						apply(b)
					}
					same := func(k schemas.TickJob) bool { return k.JobID == job.JobID }
					if i := slices.IndexFunc(tick.Jobs, same); i >= 0 {
						tick.Jobs[i].Nodes = append(tick.Jobs[i].Nodes, node)
					} else {
						tick.Jobs = append(tick.Jobs, job)
					}
					reported++
				}
				tick.Jobs[0].Nodes = append(tick.Jobs[0].Nodes, "silent")
				fx := apply(tick)
				if fx.Counts.Outputs != int64(len(tick.Jobs))+1 {
					t.Fatalf("%d outputs of %d jobs", fx.Counts.Outputs, len(tick.Jobs))
				}
				share, ok := fx.Outputs[len(tick.Jobs)].(*schemas.JobPartial)
				if !ok || share.JobID != schemas.JobSystem || share.Parts != collectors {
					t.Fatalf("no share of the whole machine: %+v", fx.Outputs[len(tick.Jobs)])
				}
				shares = append(shares, share)
			}
			s, _ := mergePartials(shares, 0)
			m := s.Metrics[0]
			if s.NodesReported != reported || s.NodesExpected != reported+collectors ||
				m.Count != int64(len(all)) || int(m.Nodes) != means {
				t.Errorf("nodes %d of %d, %d values of %d nodes; want %d of %d, %d of %d",
					s.NodesReported, s.NodesExpected, m.Count, m.Nodes, reported, reported+collectors, len(all), means)
			}
			if (s.Method == schemas.MethodExact) != c.exact || (m.Lo == nil) != c.exact {
				t.Errorf("method %s, lo %v", s.Method, m.Lo)
			}
			want := quantile.Reduce(slices.Clone(all))
			for k, d := range want.Deciles {
				lo, hi := (*m.Deciles)[k], (*m.Deciles)[k]
				if m.Lo != nil {
					lo, hi = (*m.Lo)[k], (*m.Hi)[k]
				}
				if d < lo || d > hi {
					t.Errorf("decile %d is %v, not in [%v, %v]", k, d, lo, hi)
				}
			}
			if math := *m.Mean - want.Mean; math > 1e-12 || math < -1e-12 {
				t.Errorf("mean %v, want %v", *m.Mean, want.Mean)
			}
			if ratio := *m.Stddev / want.Stddev(); ratio < 1-1e-9 || ratio > 1+1e-9 {
				t.Errorf("stddev %v, want %v", *m.Stddev, want.Stddev())
			}
		})
	}
}

// TestContradictionsAreRejected: what a merge could not believe is refused before it counts, by the name of the field.
func TestContradictionsAreRejected(t *testing.T) {
	for field, spoil := range map[string]func(c *schemas.Certified){
		"knots": func(c *schemas.Certified) { c.Knots = []schemas.Knot{{Value: 1, Rank: 99}} },
		"order_statistics": func(c *schemas.Certified) {
			c.Atoms, c.OrderStatistics = nil, []float64{2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}
		},
		"eps":   func(c *schemas.Certified) { c.Eps = -1 },
		"atoms": func(c *schemas.Certified) { c.OrderStatistics, c.Atoms = nil, []schemas.Atom{{Value: 1, Count: 7}} },
	} {
		p := partial("two", 0, simEpochMs, 2)
		spoil(&p.Metrics[0].Certified)
		n := nodeSummary("n0", "local", simEpochMs, simT)
		n.Metrics[0].Certified = schemas.Certified{OrderStatistics: []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}}
		spoil(&n.Metrics[0].Certified)
		for _, c := range []struct {
			fold   Fold
			record schemas.Record
		}{{NewMerger(simCluster, simCollectors, nil), p}, {newCollectorFold(nil), n}} {
			fx := c.fold.Apply(Entry{Offset: 1, AppendedMs: simEpochMs + simT, Value: encode(t, c.record)})
			if len(fx.Rejects) != 1 || !strings.Contains(fx.Rejects[0].Reason, field) {
				t.Errorf("%s of a %T: %+v", field, c.record, fx.Rejects)
			}
		}
	}
}

// TestTooManyValuesToMerge: shares that each may be believed can together say more than ranks are counted to. That is
// no reason to stop, and none to say deciles.
func TestTooManyValuesToMerge(t *testing.T) {
	var parts []*schemas.JobPartial
	for c := range int32(6) {
		p := partial("all", c, simEpochMs, 6)
		p.Metrics[0].Count = 1e12
		if err := checkPartial(p); err != nil {
			t.Fatal(err)
		}
		encode(t, p)
		parts = append(parts, p)
	}
	s, _ := mergePartials(parts, 0)
	if m := s.Metrics[0]; m.Count != 0 || m.Invalid != 6e12 || m.Deciles != nil {
		t.Errorf("%+v", m)
	}
	encode(t, s) // or the loop would stand still
}
