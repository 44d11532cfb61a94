package fold

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// add adds a node's values, as gather does.
func (c *column) add(node string, number int32, values []float64) {
	c.values = append(c.values, values...)
	c.note(node, number, values)
}

// measured returns a record and the values of its metric "flops", which are all different. "cpu_user" has three values.
// Those of "none" are all invalid.
func measured(r *rand.Rand, node, job string, cpus int32) (*schemas.CounterBatch, []float64) {
	b := &schemas.CounterBatch{NodeHeader: header(node, job, simEpochMs, simT)}
	b.Cpus = nil
	var flops, user, none []float64
	for c := range cpus {
		b.Cpus = append(b.Cpus, c)
		flops, user, none = append(flops, r.ExpFloat64()), append(user, float64(c%3)), append(none, -1/zero)
	}
	b.Metrics = []schemas.CounterBatchMetric{
		{Name: "cpu_user", Unit: "1", Scope: schemas.ScopeCore, Values: user},
		{Name: "flops", Unit: "1/s", Scope: schemas.ScopeCore, Values: flops},
		{Name: "none", Unit: "1", Scope: schemas.ScopeCore, Values: none},
	}
	return b, flops
}

var zero float64

// summariesOf are the JobSummaries among outputs.
func summariesOf(outputs []schemas.Record) (all []*schemas.JobSummary) {
	for _, o := range outputs {
		if s, ok := o.(*schemas.JobSummary); ok {
			all = append(all, s)
		}
	}
	return all
}

// certifiedIn checks the certified summary of a metric, and returns it as a merge takes it.
func certifiedIn(t *testing.T, s *schemas.JobSummary, metric, sketch int) quantile.Summary {
	t.Helper()
	m := &s.Metrics[metric]
	if m.Certified == nil {
		t.Fatalf("sketch %d: %s of %s has no certified summary", sketch, m.Name, s.JobID)
	}
	c := summaryOf(m.Count, m.Certified)
	if err := c.Check(); err != nil || c.Bytes() > sketch {
		t.Fatalf("sketch %d: %d bytes, %v", sketch, c.Bytes(), err)
	}
	if _, err := schemas.MarshalChecked(s); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSummariesCarryTheirValues: who reads a summary of a whole job gets its deciles from the certified summary again,
// and can merge it with others. The size is what collect.sketch says.
func TestSummariesCarryTheirValues(t *testing.T) {
	for _, sketch := range []int{512, 210, 0} {
		r := rand.New(rand.NewPCG(1, 1))
		fold := NewCollector(simCluster, 0, 1, nil)
		fold.Sketch = sketch
		f := newFeed(t, fold)
		var names []string
		for n := range 20 {
			b, _ := measured(r, fmt.Sprintf("n%02d", n), "whole", 16)
			f.put(b)
			names = append(names, b.Node)
		}
		local := goodLocal(t, r)
		f.put(local)
		fx := f.put(tickOf(simEpochMs, false, tickJob("whole", 1, names...), tickJob("local", 1, "n99")))
		all := summariesOf(fx.Outputs)
		if len(all) != 2 || all[0].Method != schemas.MethodExact || all[1].Method != schemas.MethodNode {
			t.Fatalf("%+v", all)
		}
		for _, s := range all {
			if last := s.Metrics[len(s.Metrics)-1]; last.Certified != nil || last.Count != 0 {
				t.Errorf("sketch %d: %+v, and there are no values", sketch, last)
			}
			for i := range s.Metrics[:2] {
				expectDeciles(t, s, i, sketch)
			}
		}
		if got := all[1].Metrics[1].Certified; sketch == 512 {
			if diff := cmp.Diff(local.Metrics[1].Certified, *got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the node's certified summary has changed: %s", diff)
			}
		}
	}
}

// expectDeciles merges the certified summary of a metric: it gives the metric's deciles again.
func expectDeciles(t *testing.T, s *schemas.JobSummary, metric, sketch int) {
	t.Helper()
	m := &s.Metrics[metric]
	if sketch == 0 {
		if m.Certified != nil {
			t.Errorf("sketch 0: %+v", m.Certified)
		}
		return
	}
	e, ok := quantile.Merge([]quantile.Summary{certifiedIn(t, s, metric, sketch)})
	if exact := slices.Equal(e.Deciles[:], *m.Deciles); !ok || !exact && s.Method == schemas.MethodExact {
		t.Errorf("sketch %d: %s has %v, its certified summary says %v", sketch, m.Name, *m.Deciles, e.Deciles)
	}
	for k, d := range *m.Deciles {
		if d < e.Lo[k] || d > e.Hi[k] {
			t.Errorf("sketch %d: D%d of %s is %v, not in [%v, %v]", sketch, k, m.Name, d, e.Lo[k], e.Hi[k])
		}
	}
}

// goodLocal is a NodeSummary of job "local" on n99, whose metrics are those of measured.
func goodLocal(t *testing.T, r *rand.Rand) *schemas.NodeSummary {
	t.Helper()
	b, _ := measured(r, "n99", "local", 128)
	s := &schemas.NodeSummary{NodeHeader: b.NodeHeader}
	for _, m := range b.Metrics {
		c := column{metricID: metricID{name: m.Name, unit: m.Unit, scope: m.Scope}}
		c.add(b.Node, 0, m.Values)
		reduced := c.reduce(quantile.Large.Bytes, &quantile.Joiner{})
		local := schemas.NodeSummaryMetric{JobSummaryMetric: c.exact(&reduced)}
		if local.JobSummaryMetric.Certified != nil {
			local.Certified, local.JobSummaryMetric.Certified = *local.JobSummaryMetric.Certified, nil
		}
		s.Metrics = append(s.Metrics, local)
	}
	return s
}

// TestMergedSummariesCarryTheirValues: the bounds that follow from the certified summary of a split job hold all its
// values' deciles. Few values stay values with their counts, so that what is made of them is exact.
func TestMergedSummariesCarryTheirValues(t *testing.T) {
	const parts, nodes = 4, 8
	for _, sketch := range []int{512, 210, 0} {
		r := rand.New(rand.NewPCG(2, 2))
		merger := NewMerger(simCluster, parts, nil)
		merger.Sketch = sketch
		m := newFeed(t, merger)
		var column []float64
		var all []*schemas.JobSummary
		for p := range int32(parts) {
			f := newFeed(t, NewCollector(simCluster, p, parts, nil))
			job := tickJob("split", parts)
			job.JobNodes = parts * nodes
			for n := range nodes {
				b, values := measured(r, fmt.Sprintf("n%d-%d", p, n), "split", 32)
				f.put(b)
				job.Nodes, column = append(job.Nodes, b.Node), append(column, values...)
			}
			for _, o := range f.put(tickOf(simEpochMs, false, job)).Outputs {
				all = append(all, summariesOf(m.put(o).Outputs)...)
			}
		}
		if len(all) != 2 || all[0].JobID != "split" || all[1].JobID != schemas.JobSystem {
			t.Fatalf("%+v", all)
		}
		truth := quantile.Reduce(column)
		for _, s := range all {
			if sketch == 0 {
				if s.Metrics[0].Certified != nil || s.Metrics[1].Certified != nil {
					t.Errorf("sketch 0: %+v", s.Metrics)
				}
				continue
			}
			if c := certifiedIn(t, s, 0, sketch); len(c.Atoms) != 3 {
				t.Errorf("sketch %d: three values are %+v", sketch, c)
			}
			e, ok := quantile.Merge([]quantile.Summary{certifiedIn(t, s, 1, sketch)})
			for k, d := range truth.Deciles {
				if !ok || d < e.Lo[k] || d > e.Hi[k] || e.RankError > 0.1 {
					t.Errorf("sketch %d, %s: D%d is %v, not in [%v, %v]", sketch, s.JobID, k, d, e.Lo[k], e.Hi[k])
				}
			}
		}
	}
}

// TestEveryScopeIsReduced: a job on two nodes has all values of its sockets and GPUs. Of other scopes it has one of
// each node. Merge has the same counts and means of two collectors as one collector alone.
func TestEveryScopeIsReduced(t *testing.T) {
	metrics := func(add float64) []schemas.CounterBatchMetric {
		return []schemas.CounterBatchMetric{
			{
				Name: "acc_power", Unit: "W", Scope: schemas.ScopeGPU,
				Values: []float64{100 + add, -1 / zero, 300 + add, 400 + add},
			},
			{Name: "cpu_power", Unit: "W", Scope: schemas.ScopeSocket, Values: []float64{80 + add, 120 + add}},
			{Name: "job_mem", Unit: "B", Scope: schemas.ScopeJob, Values: []float64{10 + add}},
		}
	}
	check := func(s *schemas.JobSummary) {
		t.Helper()
		want := []schemas.JobSummaryMetric{
			// (100 + 300 + 400 + 106 + 306 + 406) / 6, and one GPU of each node without a value
			{Name: "acc_power", Unit: "W", Scope: schemas.ScopeGPU, Count: 6, Invalid: 2, Mean: new(1618.0 / 6)},
			// (80 + 120 + 86 + 126) / 4
			{Name: "cpu_power", Unit: "W", Scope: schemas.ScopeSocket, Count: 4, Mean: new(103.0)},
			// (10 + 16) / 2
			{Name: "job_mem", Unit: "B", Scope: schemas.ScopeJob, Count: 2, Mean: new(13.0)},
		}
		if len(s.Metrics) != len(want) {
			t.Fatalf("%+v", s)
		}
		for i, w := range want {
			m := &s.Metrics[i]
			if m.Name != w.Name || m.Unit != w.Unit || m.Scope != w.Scope || m.Count != w.Count ||
				m.Invalid != w.Invalid || m.Nodes != 2 ||
				math.Abs(*m.Mean-*w.Mean) > 1e-9 || *m.LowNode != "n1" || *m.HighNode != "n2" {
				t.Errorf("%s: %+v, mean %v, low %v", s.Method, m, *m.Mean, *m.LowNode)
			}
		}
	}
	merger := newFeed(t, NewMerger(simCluster, 2, nil))
	one := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	split := tickJob("j", 2)
	split.JobNodes = 2
	var merged []*schemas.JobSummary
	for p, node := range []string{"n1", "n2"} {
		b := &schemas.CounterBatch{NodeHeader: header(node, "j", simEpochMs, simT), Metrics: metrics(6 * float64(p))}
		one.put(b)
		f := newFeed(t, NewCollector(simCluster, int32(p), 2, nil))
		f.put(b)
		part := split
		part.Nodes = []string{node}
		for _, o := range f.put(tickOf(simEpochMs, false, part)).Outputs {
			merged = append(merged, summariesOf(merger.put(o).Outputs)...)
		}
	}
	whole := tickJob("j", 1, "n1", "n2")
	exact := summariesOf(one.put(tickOf(simEpochMs, false, whole)).Outputs)
	if len(exact) != 1 || len(merged) != 2 || merged[0].JobID != "j" {
		t.Fatalf("%+v, %+v", exact, merged)
	}
	check(exact[0])
	check(merged[0])
}

// TestIntervalsMergeIntoAJob: the certified summaries of a job's intervals hold the deciles of its whole life.
func TestIntervalsMergeIntoAJob(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	fold := NewCollector(simCluster, 0, 1, nil)
	fold.Sketch = 512
	f := newFeed(t, fold)
	var life []float64
	var shares []quantile.Summary
	for i := range int64(60) {
		start := simEpochMs + i*simT
		f.nowMs = start + simT
		for n := range 4 {
			b, values := measured(r, fmt.Sprint("n", n), "j", 24)
			b.IntervalStart = start
			for k := range values {
				values[k] += float64(i / 20) // phases
			}
			f.put(b)
			life = append(life, values...)
		}
		for _, s := range summariesOf(f.put(tickOf(start, false, tickJob("j", 1, "n0", "n1", "n2", "n3"))).Outputs) {
			shares = append(shares, certifiedIn(t, s, 1, 512))
		}
	}
	truth := quantile.Reduce(life)
	hour, _ := quantile.Recompress(shares, quantile.Large)
	for name, of := range map[string][]quantile.Summary{"intervals": shares, "an hour": {hour}} {
		e, ok := quantile.Merge(of)
		if !ok || e.Count != truth.Count || e.RankError > 0.02 {
			t.Fatalf("%s: %+v", name, e)
		}
		for k, d := range truth.Deciles {
			if d < e.Lo[k] || d > e.Hi[k] {
				t.Errorf("%s: D%d is %v, not in [%v, %v]", name, k, d, e.Lo[k], e.Hi[k])
			}
		}
	}
}

// TestCertifiedSummariesOfNodesAreCut: a node may send a larger certified summary than collect.sketch allows. A row
// does not have it.
func TestCertifiedSummariesOfNodesAreCut(t *testing.T) {
	s := goodLocal(t, rand.New(rand.NewPCG(4, 4)))
	m := &s.Metrics[1]
	want := *m.Deciles
	m.Certified = schemas.Certified{Eps: 1}
	for i := range m.Count {
		v := want[0] + (want[10]-want[0])*(float64(i)/float64(m.Count-1))
		m.Certified.Knots = append(m.Certified.Knots, schemas.Knot{Value: v, Rank: i + 1})
	}
	for _, sketch := range []int{512, 210} {
		fold := NewCollector(simCluster, 0, 1, nil)
		fold.Sketch = sketch
		f := newFeed(t, fold)
		f.put(s)
		got := summariesOf(f.put(tickOf(simEpochMs, false, tickJob("local", 1, "n99"))).Outputs)[0]
		if c := certifiedIn(t, got, 1, sketch); c.Eps < 1 || !slices.Equal(*got.Metrics[1].Deciles, want) {
			t.Errorf("%+v", got.Metrics[1])
		}
	}
}

// BenchmarkSketch is what certified summaries add to an interval of SuperMUC's shape, 148,608 values of 40 metrics in
// 185 jobs. Collect certifies what it reduced before. Merge joins 64 shares of _system. Both are measured with and
// without, in turn, and each at its best. core-% is of one core at an interval of 10 s.
func BenchmarkSketch(b *testing.B) {
	const jobs, metrics, nodes, cpus, collectors = 185, 40, 50, 16, 64
	r := rand.New(rand.NewPCG(1, 1))
	job := &schemas.TickJob{JobID: "j", Parts: 1, JobNodes: nodes}
	tick := &schemas.Tick{IntervalStart: simEpochMs, IntervalMs: simT, Jobs: []schemas.TickJob{*job}}
	names, values := make([]string, nodes), make([]float64, nodes*cpus)
	for n := range names {
		names[n] = fmt.Sprintf("n%03d", n)
	}
	for i := range values {
		values[i] = r.ExpFloat64()
	}
	part := func() *schemas.JobPartial {
		p := &schemas.JobPartial{Cluster: simCluster, JobID: schemas.JobSystem, IntervalMs: simT, Parts: collectors}
		for m := range metrics {
			c := column{metricID: metricID{name: fmt.Sprintf("metric_%02d", m), scope: schemas.ScopeCore}}
			for n := range 145 {
				v := make([]float64, cpus)
				for i := range v {
					v[i] = r.ExpFloat64()
				}
				c.add(fmt.Sprint("n", n), int32(n), v)
			}
			reduced := c.reduce(quantile.Large.Bytes, &quantile.Joiner{})
			p.Metrics = append(p.Metrics, c.partial(&reduced))
		}
		return p
	}
	var parts []*schemas.JobPartial
	for range collectors {
		parts = append(parts, part())
	}
	written := func(r schemas.Record) {
		if _, err := schemas.MarshalChecked(r); err != nil {
			b.Fatal(err)
		}
	}
	var room quantile.Joiner
	best := map[string]time.Duration{}
	note := func(what string, sketch int, took time.Duration) {
		key := fmt.Sprint(what, sketch)
		if old, ok := best[key]; !ok || took < old {
			best[key] = took
		}
	}
	for b.Loop() {
		for _, sketch := range []int{0, 210, 512} {
			for m := range 4 { // metrics of a job
				c := column{metricID: metricID{name: fmt.Sprint("metric_", m), scope: schemas.ScopeCore}}
				for n := range names {
					c.add(names[n], int32(n), values[n*cpus:(n+1)*cpus])
				}
				began := time.Now()
				out := newOutput(simCluster, 0, tick, job, nil, sketch)
				reduced := c.reduce(sketch, &room)
				out.add(&c, &reduced)
				written(out.record())
				note("collect", sketch, time.Since(began))
			}
			began := time.Now()
			s, _ := mergePartials(parts, sketch)
			written(s)
			note("merge", sketch, time.Since(began))
		}
	}
	for _, sketch := range []int{210, 512} {
		collect := best[fmt.Sprint("collect", sketch)] - best["collect0"]
		merge := best[fmt.Sprint("merge", sketch)] - best["merge0"]
		b.ReportMetric(float64(collect.Nanoseconds())/float64(nodes*cpus), fmt.Sprint("collect-ns/value-", sketch))
		b.ReportMetric(100*collect.Seconds()*jobs*metrics/10, fmt.Sprint("collect-core-%-", sketch))
		b.ReportMetric(100*merge.Seconds()/10, fmt.Sprint("merge-core-%-", sketch))
	}
}

// TestMissingValuesCountOnce: values are missing from a column, which is summarized for its job and for _system. Both
// have each value once.
func TestMissingValuesCountOnce(t *testing.T) {
	const values, missing = 1000, 300
	for _, sketch := range []int{0, 210, 512} {
		var c column
		for i := range values {
			c.values = append(c.values, float64(i))
			if i < missing {
				c.values[i] = math.NaN()
			}
		}
		r := c.reduce(sketch, &quantile.Joiner{})
		if r.Count != values-missing || r.Invalid != missing || r.share.Count != values-missing ||
			r.Mean != (values+missing-1)/2. {
			t.Errorf("sketch %d: %d values, %d invalid, mean %v; %d in _system", sketch, r.Count, r.Invalid, r.Mean,
				r.share.Count)
		}
	}
}
