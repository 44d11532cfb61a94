package fold

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/kafka/kafkatest"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// feed folds a log record by record, and keeps what the fold says.
type feed struct {
	t      *testing.T
	fold   Fold
	offset int64
	nowMs  int64
	counts schemas.ProgressCounts
}

func newFeed(t *testing.T, fold Fold) *feed {
	t.Helper()
	return &feed{t: t, fold: fold, nowMs: simEpochMs + simT}
}

func (f *feed) put(records ...schemas.Record) (all Effects) {
	f.t.Helper()
	for _, r := range records {
		fx := f.fold.Apply(Entry{Offset: f.offset, AppendedMs: f.nowMs, Value: encode(f.t, r)})
		f.offset++
		f.counts.Add(fx.Counts)
		all.Counts.Add(fx.Counts)
		all.Outputs, all.Rejects = append(all.Outputs, fx.Outputs...), append(all.Rejects, fx.Rejects...)
		all.Closes = all.Closes || fx.Closes
	}
	return all
}

// closes fails the test unless each record has one fate or is open.
func (f *feed) closes(open int64) {
	f.t.Helper()
	all := fatesOf(f.counts)
	if got := f.fold.Progress(f.offset).Open; got != open || all+open != f.offset {
		f.t.Errorf("%d records: %d open, want %d, and %d with a fate: %+v", f.offset, got, open, all, f.counts)
	}
}

// saidOf names outputs: a job with its reported and expected nodes, or a Watermark.
func saidOf(outputs []schemas.Record) (said []string) {
	for _, o := range outputs {
		switch o := o.(type) {
		case *schemas.JobSummary:
			said = append(said, fmt.Sprintf("%s %d/%d", o.JobID, o.NodesReported, o.NodesExpected))
		case *schemas.JobPartial:
			said = append(said, fmt.Sprintf("%s %d/%d", o.JobID, o.NodesReported, o.NodesExpected))
		case *schemas.Watermark:
			said = append(said, "watermark")
		}
	}
	return said
}

func expectSaid(t *testing.T, fx Effects, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, saidOf(fx.Outputs)); diff != "" {
		t.Errorf("outputs (+), expected (-):\n%s", diff)
	}
}

// TestTickInParts: each part closes its jobs; _system and the Watermark come with the last one. A successor that starts
// between two parts says the same.
func TestTickInParts(t *testing.T) {
	parts := []*schemas.Tick{
		tickOf(simEpochMs, true, tickJob("a", 1, "n1"), tickJob("b", 1, "n1", "n2")),
		tickOf(simEpochMs, true, tickJob("c", 1, "n3")),
		tickOf(simEpochMs, false, tickJob("d", 0, "n4"), tickJob("_rest", 1, "n5")),
	}
	records := []schemas.Record{
		batch("n1", "a", simEpochMs, simT, 1), batch("n2", "b", simEpochMs, simT, 2),
		batch("n3", "c", simEpochMs, simT, 3), batch("n4", "d", simEpochMs, simT, 4),
		batch("n1", "nobody", simEpochMs, simT, 5),
	}
	f := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	f.put(records...)
	f.closes(5)
	expectSaid(t, f.put(parts[0]), "a 1/1", "b 1/2")
	f.closes(3)
	p := f.fold.Progress(f.offset)
	if p.Closed != nil || p.Hold != 0 || p.Loads != nil {
		t.Errorf("after the first part: %+v", p)
	}
	expectSaid(t, f.put(parts[1], parts[0]), "c 1/1") // a part twice
	fx := f.put(batch("n2", "a", simEpochMs, simT, 6))
	if fx.Counts.Late != 1 {
		t.Errorf("a record of a job that is closed: %+v", fx.Counts)
	}
	last := f.put(parts[2])
	expectSaid(t, last, "_rest 0/1", "_system 4/5", "watermark")
	f.closes(0)
	for _, again := range parts {
		if fx := f.put(again); len(fx.Outputs) > 0 || fx.Closes {
			t.Errorf("a second copy says %v", saidOf(fx.Outputs))
		}
	}
	if p := f.fold.Progress(f.offset); *p.Closed != simEpochMs || p.Hold != f.offset || len(p.Loads) != 3 {
		t.Errorf("at the end: %+v", p)
	}

	successor := newFeed(t, NewCollector(simCluster, 0, 1, p))
	var again Effects
	for _, r := range append(slices.Clone(records), parts[0], parts[1], parts[2]) {
		again = successor.put(r)
	}
	for i, o := range again.Outputs {
		if !bytes.Equal(encode(t, o), encode(t, last.Outputs[i])) {
			t.Errorf("a successor says %v", saidOf(again.Outputs))
		}
	}

	first := newFeed(t, NewCollector(simCluster, 0, 1, nil)) // nothing but a part: it opens the interval
	first.put(&schemas.Gap{Node: "n1"}, parts[0])
	if p := first.fold.Progress(first.offset); p.Hold != 1 {
		t.Errorf("hold %d would not read the part again", p.Hold)
	}
}

// TestTickWithoutItsLastPart: an interval whose last Tick never comes is closed by whatever comes next, and no record
// is without a fate.
func TestTickWithoutItsLastPart(t *testing.T) {
	begin := func(t *testing.T) *feed {
		t.Helper()
		f := newFeed(t, NewCollector(simCluster, 0, 1, nil))
		f.put(batch("n1", "a", simEpochMs, simT, 1), batch("n2", "b", simEpochMs, simT, 2))
		expectSaid(t, f.put(tickOf(simEpochMs, true, tickJob("a", 1, "n1"))), "a 1/1")
		return f
	}
	t.Run("a Tick of a later interval", func(t *testing.T) {
		f := begin(t)
		f.nowMs += simT
		fx := f.put(tickOf(simEpochMs+simT, false, tickJob("a", 1, "n1")))
		expectSaid(t, fx, "_system 1/1", "watermark", "a 0/1", "_system 0/1", "watermark")
		if f.counts.Misrouted != 1 {
			t.Errorf("%+v", f.counts)
		}
		f.closes(0)
	})
	t.Run("a Tick of an earlier interval", func(t *testing.T) {
		f := begin(t)
		expectSaid(t, f.put(tickOf(simEpochMs-simT, false, tickJob("a", 1, "n1"))))
		expectSaid(t, f.put(tickOf(simEpochMs, false, tickJob("b", 1, "n2"))), "b 1/1", "_system 2/2", "watermark")
		f.closes(0)
	})
	t.Run("another length", func(t *testing.T) {
		f := begin(t)
		other := tickOf(simEpochMs, false, tickJob("b", 1, "n2"))
		other.IntervalMs = simT / 2
		fx := f.put(other)
		if len(fx.Rejects) != 1 || len(fx.Outputs) > 0 {
			t.Errorf("%+v", fx)
		}
		expectSaid(t, f.put(tickOf(simEpochMs, false, tickJob("b", 1, "n2"))), "b 1/1", "_system 2/2", "watermark")
		f.closes(0)
	})
	t.Run("the outage", func(t *testing.T) {
		f := begin(t)
		f.nowMs = simEpochMs + (config.Outage+2)*simT
		expectSaid(t, f.put(batch("n1", "a", f.nowMs-simT, simT, 1)), "_system 1/1", "watermark")
		f.closes(1)
		if p := f.fold.Progress(f.offset); p.Hold != f.offset-1 {
			t.Errorf("hold %d of %d", p.Hold, f.offset)
		}
	})
	t.Run("Ticks for ever", func(t *testing.T) {
		f := begin(t)
		var number, node [20_000]string
		for i := range number {
			number[i] = fmt.Sprintf("-%030d", i)
		}
		for n, sent := 0, 0; ; n++ {
			job := fmt.Sprintf("%032d", n)
			for i := range node {
				node[i] = job + number[i]
				sent += len(node[i])
			}
			fx := f.put(tickOf(simEpochMs, true, tickJob(fmt.Sprint("j", n), 1, node[:]...)))
			if sent > 40<<20 {
				t.Fatalf("%d bytes of Ticks, and the interval is open", sent)
			}
			if fx.Closes {
				break
			}
		}
		f.closes(0)
	})
}

// TestLoadsFitIntoProgress: a Progress that could not be read again would stop its partition for ever.
func TestLoadsFitIntoProgress(t *testing.T) {
	f := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	jobs, aPart := kafkatest.Cases(100_000, 20_000), 10_000
	id := func(n int) string { return fmt.Sprintf("%064d", n) }
	for n := range jobs {
		b := batch("n1", id(n), simEpochMs, simT, 1)
		if n%50 == 7 {
			b.RunID = "more-bytes"
		}
		f.put(b)
	}
	for from := 0; from < jobs; from += aPart {
		tick := tickOf(simEpochMs, from+aPart < jobs)
		for n := from; n < from+aPart; n++ {
			tick.Jobs = append(tick.Jobs, tickJob(id(n), 1, "n1"))
		}
		f.put(tick)
	}
	p := f.fold.Progress(f.offset)
	value := encode(t, p)
	if _, err := schemas.Unmarshal(value); err != nil || len(value) > 1<<20+1000 {
		t.Fatalf("%d bytes: %v", len(value), err)
	}
	if len(p.Loads) < 12_000 || len(p.Loads) > 15_000 {
		t.Fatalf("%d loads", len(p.Loads))
	}
	heavy, kept := 0, map[string]bool{}
	for i, l := range p.Loads {
		kept[l.JobID] = true
		if i > 0 && l.JobID <= p.Loads[i-1].JobID {
			t.Fatalf("loads are not in the order of their Ticks: %s after %s", l.JobID, p.Loads[i-1].JobID)
		}
		if l.Bytes > p.Loads[0].Bytes {
			heavy++
		}
	}
	if heavy != jobs/50 {
		t.Errorf("%d of the %d heaviest jobs are kept", heavy, jobs/50)
	}
	light := 0
	for n := 0; light < len(p.Loads)-heavy; n++ {
		if n%50 == 7 {
			continue
		}
		light++
		if !kept[id(n)] {
			t.Fatalf("%s is not kept, and %d others are", id(n), len(p.Loads))
		}
	}
}

// TestOutputsHaveBoundedColumns: of more metrics than an output may have the least names stay, in whatever order
// records come, and the others are counted.
func TestOutputsHaveBoundedColumns(t *testing.T) {
	const nodes, each = 5, 900
	r := rand.New(rand.NewPCG(5, 5))
	job := schemas.TickJob{JobID: "j", Parts: 1, JobNodes: nodes}
	var records []schemas.Record
	for n := range nodes {
		node := fmt.Sprint("n", n)
		job.Nodes = append(job.Nodes, node)
		b := wide(node, "j", simEpochMs, simT, "", 0)
		for m := range each {
			name := fmt.Sprintf("m%05d", m*nodes+n)
			b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
				Name: name, Unit: "1", Scope: schemas.ScopeNode, Values: []float64{float64(m)},
			})
		}
		r.Shuffle(len(b.Metrics), func(i, k int) { b.Metrics[i], b.Metrics[k] = b.Metrics[k], b.Metrics[i] })
		records = append(records, b)
	}
	var want []byte
	for range 3 {
		r.Shuffle(len(records), func(i, k int) { records[i], records[k] = records[k], records[i] })
		f := newFeed(t, NewCollector(simCluster, 0, 1, nil))
		f.put(records...)
		fx := f.put(tickOf(simEpochMs, false, job, tickJob("_rest", 1, "n9")))
		s, machine := fx.Outputs[0].(*schemas.JobSummary), fx.Outputs[2].(*schemas.JobPartial)
		if len(s.Metrics) != 1024 || s.Metrics[0].Name != "cpu_user" || s.Metrics[1023].Name != "m01022" ||
			s.NodesReported != nodes {
			t.Fatalf("%d metrics, last %s", len(s.Metrics), s.Metrics[len(s.Metrics)-1].Name)
		}
		surplus := 2 * int64(nodes*each+1-1024) // of the job, and of _system
		if len(machine.Metrics) != 1024 || fx.Counts.Surplus != surplus {
			t.Fatalf("%d metrics of _system, %d left out, not %d", len(machine.Metrics), fx.Counts.Surplus, surplus)
		}
		got := append(encode(t, s), encode(t, machine)...)
		if want != nil && !bytes.Equal(got, want) {
			t.Fatal("another order of arrival gives other outputs")
		}
		want = got
	}

	// Jobs that each have few metrics, and _system that has all of them.
	f := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	tick := tickOf(simEpochMs, false)
	for n := range 9 {
		id := fmt.Sprint("j", n)
		f.put(wide("n1", id, simEpochMs, simT, string(rune('z'-n)), 500))
		tick.Jobs = append(tick.Jobs, tickJob(id, 1, "n1"))
	}
	fx := f.put(tick)
	machine := fx.Outputs[9].(*schemas.JobPartial)
	if m := machine.Metrics; len(m) != 1024 || m[0].Name != "cpu_user" || m[1].Name != "r0000" ||
		m[1023].Name != "t0022" || m[1].Count != 1 {
		t.Errorf("_system has %d metrics, from %s to %s", len(m), m[0].Name, m[len(m)-1].Name)
	}
	if fx.Counts.Surplus != 9*500+1-1024 {
		t.Errorf("%d metrics are left out", fx.Counts.Surplus)
	}

	// Shares that together have more.
	m := newFeed(t, NewMerger(simCluster, simCollectors, nil))
	for c := range int32(simCollectors) {
		p := partial("all", c, simEpochMs, simCollectors)
		one := p.Metrics[0]
		for n := range 600 {
			one.Name = fmt.Sprintf("m%d-%03d", c, n)
			p.Metrics = append(p.Metrics, one)
		}
		fx = m.put(p)
	}
	if s := fx.Outputs[0].(*schemas.JobSummary); len(s.Metrics) != 1024 || s.Metrics[1023].Name != "m1-422" ||
		fx.Counts.Surplus != 3*600+1-1024 {
		t.Errorf("%d metrics, %d left out", len(s.Metrics), fx.Counts.Surplus)
	}
}

// TestLargestOutputsFit: what is as large as an output can be is far from the largest message.
func TestLargestOutputsFit(t *testing.T) {
	const most = schemas.MaxMessageBytes - 64<<10
	long := strings.Repeat("x", 60)
	name := func(n int) string { return fmt.Sprintf("%s%04d", long, n%10_000) }
	v, eleven := math.Pi, make([]float64, quantile.N)
	node := name(0)
	const many, most64 = math.MaxInt32, math.MaxInt64
	p := &schemas.JobPartial{
		Cluster: node, JobID: node, Restart: many, IntervalStart: simEpochMs, IntervalMs: simT,
		Collector: many, Parts: many, JobNodes: many, NodesExpected: many, NodesReported: many,
	}
	s := &schemas.JobSummary{
		Cluster: node, JobID: node, Restart: many, IntervalStart: simEpochMs, IntervalMs: simT,
		Method: schemas.MethodEstimated, Parts: many, PartsReported: many, NodesExpected: many, NodesReported: many,
	}
	column := make([]float64, 100_000)
	for i := range column {
		column[i] = float64(i * i)
	}
	_, certified := quantile.Certify(column, quantile.Large)
	if got := certified.Bytes(); got < quantile.Large.Bytes-20 {
		t.Fatalf("a summary of %d bytes is not the largest", got)
	}
	for n := range schemas.MaxMetrics {
		p.Metrics = append(p.Metrics, schemas.JobPartialMetric{
			Name: name(n), Unit: node, Scope: schemas.ScopeCore,
			Count: most64, Invalid: most64, Nodes: many, NodeMeans: most64,
			Mean: &v, M2: &v, NodeMean: &v, NodeM2: &v, LowNode: &node, LowNodeMean: &v,
			HighNode: &node, HighNodeMean: &v,
			Certified: schemas.NewCertified(certified.Eps, certified.Order, certified.Knots, certified.Atoms),
		})
		s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
			Name: name(n), Unit: node, Scope: schemas.ScopeCore, Count: most64, Invalid: most64, Nodes: many,
			Mean: &v, Stddev: &v, NodeStddev: &v, LowNode: &node, HighNode: &node,
			Deciles: &eleven, RankError: &v, Lo: &eleven, Hi: &eleven, Certified: CertifiedOf(&certified),
		})
	}
	job, summary := len(encode(t, p)), len(encode(t, s))

	// 80,000 nodes that all collectors have: _system names as many as fit, and counts the others as its own.
	f := newFeed(t, NewCollector(simCluster, 0, 2, nil))
	const nodes, aPart = 80_000, 20_000
	var fx Effects
	for from := 0; from < nodes; from += aPart {
		var names []string
		for n := from; n < from+aPart; n++ {
			names = append(names, fmt.Sprintf("%064d", n))
		}
		tick := tickOf(simEpochMs, from+aPart < nodes, tickJob(fmt.Sprint("j", from), 1, names...))
		tick.Shared = names
		fx = f.put(tick)
	}
	machine := fx.Outputs[len(fx.Outputs)-2].(*schemas.JobPartial)
	if n := len(machine.Shared); n < 30_000 || n+int(machine.NodesExpected) != nodes ||
		machine.Shared[n-1].Node != fmt.Sprintf("%064d", n-1) {
		t.Errorf("%d shared nodes and %d others of %d", n, machine.NodesExpected, nodes)
	}
	share := len(encode(t, machine))
	t.Logf("JobPartial %d bytes, JobSummary %d, the nodes of _system %d; a message %d",
		job, summary, share, schemas.MaxMessageBytes)
	for what, size := range map[string]int{"JobPartial": job, "JobSummary": summary, "_system": job + share} {
		if size > most {
			t.Errorf("%s: %d bytes", what, size)
		}
	}
}

// TestSystemCountsNodes: a node that has several jobs, ended ones among them, and several collectors, is one node of
// the machine; its values all count.
func TestSystemCountsNodes(t *testing.T) {
	records := [][]schemas.Record{
		{
			batch("n1", "a", simEpochMs, simT, 1), batch("n1", "gone", simEpochMs, simT, 3),
			batch("n2", "gone", simEpochMs, simT, 5), nodeSummary("n3", "local-gone", simEpochMs, simT),
			batch("n2", "nobody", simEpochMs, simT, 99), batch("n1", "a", simEpochMs, simT, 98),
		},
		{batch("n1", "_rest", simEpochMs, simT, 7), batch("n4", "b", simEpochMs, simT, 9)},
	}
	ticks := []*schemas.Tick{
		tickOf(simEpochMs, false, tickJob("a", 1, "n1"), tickJob("b", 1, "n5"),
			tickJob("gone", 0, "n1", "n2"), tickJob("local-gone", 0, "n3")),
		tickOf(simEpochMs, false, tickJob("_rest", 1, "n1", "n2"), tickJob("b", 1, "n4", "n5")),
	}
	ticks[0].Shared, ticks[1].Shared = []string{"n1", "n2", "n5"}, []string{"n5", "n2", "n1", "not-listed"}
	m := newFeed(t, NewMerger(simCluster, 2, nil))
	var merged *schemas.JobSummary
	for c := range int32(2) {
		f := newFeed(t, NewCollector(simCluster, c, 2, nil))
		f.put(records[c]...)
		fx := f.put(ticks[c])
		share := fx.Outputs[len(fx.Outputs)-2].(*schemas.JobPartial)
		if c == 0 {
			if fx.Counts.Ended != 3 || fx.Counts.Misrouted != 1 ||
				share.NodesExpected != 1 || share.NodesReported != 1 ||
				share.Metrics[0].Nodes != 3 || share.Metrics[0].NodeMeans != 4 {
				t.Errorf("%+v %+v", fx.Counts, share)
			}
			want := []schemas.SharedNode{{Node: "n1", Reported: true}, {Node: "n2", Reported: true}, {Node: "n5"}}
			if diff := cmp.Diff(want, share.Shared); diff != "" {
				t.Error(diff)
			}
		}
		for _, o := range m.put(share).Outputs {
			merged = o.(*schemas.JobSummary)
		}
	}
	if merged == nil || merged.NodesExpected != 5 || merged.NodesReported != 4 {
		t.Fatalf("%+v", merged)
	}
	// 1 2, 3 4, 5 6, the 1 and 2 of the NodeSummary, 7 8, 9 10
	if c := merged.Metrics[0]; c.Count != 12 || c.Nodes != 4 || math.Abs(*c.Mean-58.0/12) > 1e-12 ||
		*c.LowNode != "n1" || *c.HighNode != "n4" {
		t.Errorf("%+v", c)
	}
	means := []float64{1.5, 3.5, 5.5, 1.5, 7.5, 9.5}
	if d := quantile.Reduce(slices.Clone(means)); math.Abs(*merged.Metrics[0].NodeStddev-d.Stddev()) > 1e-12 {
		t.Errorf("node_stddev %v of the jobs' shares of nodes, want %v", *merged.Metrics[0].NodeStddev, d.Stddev())
	}
}

// TestOlderSharesMerge: a share written before node_means and shared existed is merged as it was then.
func TestOlderSharesMerge(t *testing.T) {
	m := newFeed(t, NewMerger(simCluster, 2, nil))
	var fx Effects
	for c := range int32(2) {
		p := partial("all", c, simEpochMs, 2) // node_means 0
		fx = m.put(p)
	}
	if got := *fx.Outputs[0].(*schemas.JobSummary).Metrics[0].NodeStddev; got != 0.5 {
		t.Errorf("node_stddev of 0 and 1 is %v", got)
	}
}

// TestExactMeansOneThing: a metric whose rank_error is 0 has neither lo nor hi, whatever the others have. A merge is
// EXACT if it knows every value of all its metrics, of which there is at least one.
func TestExactMeansOneThing(t *testing.T) {
	metric := func(name string, values []float64) schemas.JobPartialMetric {
		d, certified := quantile.Certify(slices.Clone(values), quantile.Small)
		node := "n"
		m := schemas.JobPartialMetric{
			Name: name, Unit: "1", Scope: schemas.ScopeCore, Count: d.Count, Invalid: d.Invalid,
			Certified: schemas.NewCertified(certified.Eps, certified.Order, certified.Knots, certified.Atoms),
		}
		if d.Count > 0 {
			m.Nodes, m.NodeMeans, m.Mean, m.M2, m.NodeMean, m.NodeM2 = 1, 1, &d.Mean, &d.M2, &d.Mean, new(0.0)
			m.LowNode, m.HighNode, m.LowNodeMean, m.HighNodeMean = &node, &node, &d.Mean, &d.Mean
		}
		return m
	}
	many, invalid := make([]float64, 997), []float64{math.NaN()}
	for i := range many {
		many[i] = math.Sqrt(float64(i))
	}
	few := []float64{1, 2, 3}
	plateau := metric("plateau", slices.Repeat([]float64{4}, 100)) // one value, not said to be all
	plateau.Certified = schemas.Certified{OrderStatistics: slices.Repeat([]float64{4}, quantile.N)}
	type metrics = []schemas.JobPartialMetric
	for name, c := range map[string]struct {
		metrics metrics
		method  string
		exact   []bool
	}{
		"all values": {metrics{metric("few", few)}, schemas.MethodExact, []bool{true}},
		"one metric of two": {
			metrics{metric("few", few), metric("many", many)}, schemas.MethodEstimated, []bool{true, false},
		},
		"deciles that must be": {metrics{plateau}, schemas.MethodEstimated, []bool{true}},
		"an invalid value": {
			metrics{metric("invalid", invalid), metric("many", many)}, schemas.MethodEstimated, []bool{false, false},
		},
		"nothing but invalid":   {metrics{metric("invalid", invalid)}, schemas.MethodExact, []bool{false}},
		"no metrics, no record": {nil, schemas.MethodEstimated, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFeed(t, NewMerger(simCluster, 2, nil))
			var s *schemas.JobSummary
			for collector := range int32(2) {
				p := partial("two", collector, simEpochMs, 2)
				p.Metrics = c.metrics
				for _, o := range m.put(p).Outputs {
					s = o.(*schemas.JobSummary)
				}
			}
			if s.Method != c.method || len(s.Metrics) != len(c.exact) {
				t.Errorf("method %s of %d metrics", s.Method, len(s.Metrics))
			}
			for i, m := range s.Metrics {
				switch {
				case m.Count == 0:
					if m.RankError != nil || m.Lo != nil || m.Hi != nil || m.Deciles != nil || m.NodeStddev != nil {
						t.Errorf("no value, and yet %+v", m)
					}
				case (*m.RankError == 0) != c.exact[i] || (m.Lo == nil) != c.exact[i] || (m.Hi == nil) != c.exact[i]:
					t.Errorf("%s: rank_error %v, lo %v, hi %v", m.Name, *m.RankError, m.Lo, m.Hi)
				}
			}
		})
	}
	f := newFeed(t, NewCollector(simCluster, 0, 1, nil))
	empty := batch("n2", "empty", simEpochMs, simT, 1)
	empty.Metrics = nil
	f.put(empty)
	fx := f.put(tickOf(simEpochMs, false, tickJob("silent", 1, "n1"), tickJob("empty", 1, "n2")))
	for _, o := range fx.Outputs[:2] {
		if s := o.(*schemas.JobSummary); s.Method != schemas.MethodEstimated {
			t.Errorf("%s has no metrics and is %s", s.JobID, s.Method)
		}
	}
}

// TestOneNodeWithAnotherInterval: a node with a wrong interval_ms, and starts that no Tick names, takes nothing from
// the others and holds nothing up.
func TestOneNodeWithAnotherInterval(t *testing.T) {
	run := func(wrong bool) (said []string, f *feed) {
		f = newFeed(t, NewCollector(simCluster, 0, 1, nil))
		f.put(tickOf(simEpochMs-simT, false)) // the partition knows the interval
		for i := range int64(3 * config.Outage) {
			start := simEpochMs + i*simT
			f.nowMs = start + simT
			if wrong {
				for _, length := range []int64{1, 7, 10 * simT, 24 * 3600 * 1000} {
					at := f.nowMs / length * length
					f.put(batch("n9", "j", at-length, length, 99), batch("n9", "j", at, length, 99))
				}
			}
			f.put(batch("n1", "j", start, simT, float64(i)))
			if i/config.Outage == 1 && i%config.Outage < 60 {
				continue // Ticks stay away for less than the outage
			}
			for _, o := range f.put(tickOf(start, false, tickJob("j", 1, "n1", "n9"))).Outputs {
				said = append(said, string(encode(t, o)))
			}
			p := f.fold.Progress(f.offset)
			if held := f.fold.(*Collector).held(); held > 8 || p.Hold < f.offset-60 || p.Open > 8 {
				t.Fatalf("after interval %d: %d intervals held, hold %d of %d, %d open",
					i, held, p.Hold, f.offset, p.Open)
			}
		}
		f.closes(f.fold.Progress(f.offset).Open)
		return said, f
	}
	want, _ := run(false)
	got, f := run(true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with the wrong node (+), without (-):\n%s", diff)
	}
	if f.counts.Dropped > 0 || f.counts.Misrouted == 0 || f.counts.Late == 0 {
		t.Errorf("%+v", f.counts)
	}
}

// TestOpenCountsPartials: Watermarks do not count, nor does what was emitted.
func TestOpenCountsPartials(t *testing.T) {
	f := newFeed(t, NewMerger(simCluster, simCollectors, nil))
	f.put(partial("two", 0, simEpochMs, 2), partial("all", 0, simEpochMs, 3),
		&schemas.Watermark{Collector: 0, IntervalStart: simEpochMs, IntervalMs: simT})
	f.closes(2)
	f.put(partial("two", 1, simEpochMs, 2), partial("two", 1, simEpochMs, 2))
	f.closes(1)
	f.nowMs += 100 * simT
	f.put(&schemas.Watermark{Collector: 1, IntervalStart: simEpochMs + 70*simT, IntervalMs: simT})
	f.closes(0)
}

// TestWatermarkOfAnotherInterval: a Watermark with a wrong interval_ms drops no window that is in time for everybody
// else.
func TestWatermarkOfAnotherInterval(t *testing.T) {
	f := newFeed(t, NewMerger(simCluster, simCollectors, nil))
	for c := range int32(simCollectors) {
		f.put(&schemas.Watermark{Collector: c, IntervalStart: simEpochMs, IntervalMs: simT})
	}
	next := simEpochMs + simT
	f.nowMs += 2 * simT
	f.put(partial("two", 0, next, 2), &schemas.Watermark{Collector: 0, IntervalStart: next + 1000, IntervalMs: 1})
	f.put(partial("two", 1, next, 2))
	if p := f.fold.Progress(f.offset); p.Open != 0 || p.Dropped != nil && *p.Dropped >= next {
		t.Errorf("%+v", p)
	}
	if n := f.counts.Late; n != 0 {
		t.Errorf("%d late", n)
	}
}

// extreme is a number that arithmetic goes wrong with.
func extreme(r *rand.Rand) float64 {
	all := []float64{
		math.MaxFloat64, -math.MaxFloat64, 1e308, -1e308, 1.7e308, 0, math.Copysign(0, -1),
		5e-324, -5e-324, 1, -1, 1e-300, 0x1p-1022, r.NormFloat64(),
	}
	return all[r.IntN(len(all))]
}

func extremes(r *rand.Rand, n int, invalid bool) []float64 {
	values := make([]float64, n)
	for i := range values {
		switch values[i] = extreme(r); {
		case invalid && r.IntN(9) == 0:
			values[i] = math.NaN()
		case invalid && r.IntN(9) == 0:
			values[i] = math.Inf(1 - 2*r.IntN(2))
		}
	}
	return values
}

// hostileCertified passes Check for n values.
func hostileCertified(r *rand.Rand, n int64) schemas.Certified {
	var c schemas.Certified
	values := extremes(r, 2+r.IntN(30), false)
	slices.Sort(values)
	values = slices.Compact(values)
	switch {
	case n <= int64(len(values)) || r.IntN(3) == 0:
		left := n
		for i, v := range values {
			if left == 0 {
				break
			}
			count := left
			if i < len(values)-1 {
				count = 1 + r.Int64N(max(1, left/2))
			}
			c.Atoms = append(c.Atoms, schemas.Atom{Value: v + 0, Count: count})
			left -= count
		}
	case r.IntN(2) == 0 || n < 30:
		for k := range quantile.N {
			c.OrderStatistics = append(c.OrderStatistics, values[min(k, len(values)-1)])
			if k > 0 && quantile.Rank(k, n) == quantile.Rank(k-1, n) {
				c.OrderStatistics[k] = c.OrderStatistics[k-1]
			}
		}
		c.Eps = []float64{0, 1, float64(n), 0.5}[r.IntN(4)]
	default:
		rank := int64(1)
		for i, v := range values {
			if i == len(values)-1 {
				rank = n
			}
			c.Knots = append(c.Knots, schemas.Knot{Value: v, Rank: rank})
			if rank++; rank < n-int64(len(values)) {
				rank += r.Int64N(n - int64(len(values)) - rank + 1)
			}
		}
		c.Eps = []float64{0, 1, float64(n), 0.5}[r.IntN(4)]
	}
	return c
}

var units = []string{"1", "", "percent"}

func hostileRecord(r *rand.Rand, node, job string) schemas.Record {
	h := header(node, job, simEpochMs, simT)
	for c := range int32(r.IntN(200)) {
		h.Cpus = append(h.Cpus, c+2)
	}
	if r.IntN(3) > 0 {
		b := &schemas.CounterBatch{NodeHeader: h}
		for m := range r.IntN(5) {
			metric := schemas.CounterBatchMetric{
				Name: fmt.Sprint("m", m), Unit: units[r.IntN(3)], Scope: schemas.ScopeCore,
				Values: extremes(r, len(h.Cpus), true),
			}
			if r.IntN(4) == 0 {
				metric.Scope, metric.Values = schemas.ScopeNode, extremes(r, 1, true)
			} else if r.IntN(4) == 0 {
				metric.Scope, metric.Values = schemas.ScopeGPU, extremes(r, 1+r.IntN(16), true)
			}
			b.Metrics = append(b.Metrics, metric)
		}
		return b
	}
	s := &schemas.NodeSummary{NodeHeader: h}
	for m := range r.IntN(5) {
		stddev, nodeStddev := math.Abs(extreme(r)), math.Abs(extreme(r))
		metric := schemas.NodeSummaryMetric{JobSummaryMetric: schemas.JobSummaryMetric{
			Name: fmt.Sprint("m", m), Unit: units[r.IntN(3)], Scope: schemas.ScopeCore,
			Count: r.Int64N(int64(len(h.Cpus)) + 1), Nodes: int32(r.IntN(2)),
			Stddev: &stddev, NodeStddev: &nodeStddev, RankError: new(0.0),
		}}
		metric.Invalid = r.Int64N(int64(len(h.Cpus)) - metric.Count + 1)
		if metric.Count > 0 {
			metric.Certified = hostileCertified(r, metric.Count)
			deciles := hostileDeciles(r, &metric.Certified)
			metric.Mean, metric.Deciles = &deciles[r.IntN(quantile.N)], &deciles
		}
		if r.IntN(20) == 0 {
			metric.Invalid = math.MaxInt64 - r.Int64N(1<<42) // beside count it overflows
		}
		s.Metrics = append(s.Metrics, metric)
	}
	return s
}

// hostileDeciles could be those of c.
func hostileDeciles(r *rand.Rand, c *schemas.Certified) []float64 {
	if len(c.OrderStatistics) > 0 {
		return slices.Clone(c.OrderStatistics)
	}
	var known []float64
	for _, a := range c.Atoms {
		known = append(known, a.Value)
	}
	for _, k := range c.Knots {
		known = append(known, k.Value)
	}
	deciles := []float64{known[0], known[len(known)-1]}
	for range quantile.N - 2 {
		deciles = append(deciles, known[r.IntN(len(known))])
	}
	slices.Sort(deciles)
	return deciles
}

func hostilePartial(r *rand.Rand, collector int32) *schemas.JobPartial {
	nodes := []int32{0, 1, 5, schemas.MaxNodes}[r.IntN(4)]
	p := &schemas.JobPartial{
		Cluster: simCluster, JobID: []string{"two", schemas.JobSystem}[r.IntN(2)],
		IntervalStart: simEpochMs, IntervalMs: simT,
		Collector: collector, Parts: simCollectors, JobNodes: nodes, NodesExpected: nodes, NodesReported: nodes,
	}
	for n := range r.IntN(3) {
		p.Shared = append(p.Shared, schemas.SharedNode{Node: fmt.Sprint("n", n), Reported: r.IntN(2) == 0})
	}
	for m := range r.IntN(5) {
		v := extremes(r, 6, false)
		slices.Sort(v[2:4])
		node, m2, nodeM2 := "n1", math.Abs(v[4]), math.Abs(v[5])
		metric := schemas.JobPartialMetric{
			Name: fmt.Sprint("m", m), Unit: units[r.IntN(3)], Scope: schemas.ScopeCore,
			Count: []int64{0, 1, 2, 1000, 1e12}[r.IntN(5)], Invalid: []int64{0, 1, 1e12}[r.IntN(3)],
		}
		if metric.Count > 0 {
			metric.Nodes = int32(min(metric.Count, int64(nodes)))
			metric.NodeMeans = []int64{0, 1, metric.Count, 1, metric.Count + 1}[r.IntN(5)]
			metric.Mean, metric.M2, metric.NodeMean, metric.NodeM2 = &v[0], &m2, &v[1], &nodeM2
			metric.LowNode, metric.LowNodeMean, metric.HighNode, metric.HighNodeMean = &node, &v[2], &node, &v[3]
			metric.Certified = hostileCertified(r, metric.Count)
		}
		p.Metrics = append(p.Metrics, metric)
	}
	return p
}

// hostile counts what came of hostile inputs.
type hostile struct {
	t                          *testing.T
	what                       string // the case, for a failure
	offset                     int64
	outputs, partials, rejects int
}

// apply folds a record, and checks each output.
func (h *hostile) apply(f Fold, rec schemas.Record) Effects {
	h.t.Helper()
	h.offset++
	fx := f.Apply(entry(h.t, h.offset, rec))
	h.rejects += len(fx.Rejects)
	for _, o := range fx.Outputs {
		h.outputs++
		if err := o.Validate(); err != nil {
			h.t.Fatalf("%s: %v", h.what, err)
		}
		if _, err := schemas.Unmarshal(encode(h.t, o)); err != nil {
			h.t.Fatalf("%s: %v", h.what, err)
		}
		if p, ok := o.(*schemas.JobPartial); ok {
			h.partials++
			if err := checkPartial(p); err != nil {
				h.t.Fatalf("%s: %s: %v", h.what, p.JobID, err)
			}
		}
		if s, ok := o.(*schemas.JobSummary); ok {
			expectConsistent(h.t, s)
		}
	}
	return fx
}

// interval folds the hostile records of one interval, and merges what comes of them.
func (h *hostile) interval(r *rand.Rand) {
	h.t.Helper()
	h.offset = 0
	merger := NewMerger(simCluster, simCollectors, nil)
	for collector := range int32(simCollectors) {
		fold := NewCollector(simCluster, collector, simCollectors, nil)
		tick := tickOf(simEpochMs, false)
		for j, parts := range []int32{0, 1, 1, 2, simCollectors} {
			id := []string{"gone", "local", "one", "two", "all"}[j]
			job := schemas.TickJob{JobID: id, Parts: parts, JobNodes: int32(1 + r.IntN(2)*r.IntN(schemas.MaxNodes))}
			for i := range min(3, int(job.JobNodes)) {
				job.Nodes = append(job.Nodes, fmt.Sprint("n", i))
				h.apply(fold, hostileRecord(r, job.Nodes[i], job.JobID))
			}
			tick.Jobs = append(tick.Jobs, job)
		}
		tick.Shared = []string{"n0", "n2"}[:r.IntN(3)]
		for _, o := range h.apply(fold, tick).Outputs {
			if p, ok := o.(*schemas.JobPartial); ok && r.IntN(4) > 0 {
				h.apply(merger, p)
			}
		}
		h.apply(merger, hostilePartial(r, collector))
	}
	for collector := range int32(simCollectors) {
		h.apply(merger, &schemas.Watermark{Collector: collector, IntervalStart: simEpochMs, IntervalMs: simT})
	}
}

// TestHostileInputsGiveValidOutputs: each output passes its own Validate, can be encoded and read again, and a
// collector's partials pass the merger's checks. One that did not would be met again at every start.
func TestHostileInputsGiveValidOutputs(t *testing.T) {
	t.Parallel()
	run := func(seed, cases uint64) *hostile {
		h := &hostile{t: t}
		for n := range cases {
			h.what = fmt.Sprintf("seed %d, case %d", seed, n)
			h.interval(rand.New(rand.NewPCG(seed, n)))
		}
		t.Logf("seed %d: %d outputs, %d of them partials; %d records rejected", seed, h.outputs, h.partials, h.rejects)
		// Each collector has two whole jobs, three partials and a Watermark, whatever comes.
		if least := int(cases) * simCollectors; h.outputs < 6*least || h.partials < 3*least {
			t.Error("outputs are missing")
		}
		return h
	}
	run(newSeed(), uint64(kafkatest.Cases(2000, 40)))
	if h := run(1, 10); h.rejects == 0 { // the same in every run
		t.Error("no input was hostile")
	}
}

// expectConsistent checks what every JobSummary promises of itself.
func expectConsistent(t *testing.T, s *schemas.JobSummary) {
	t.Helper()
	if s.NodesReported < 0 || s.NodesExpected < 0 || len(s.Metrics) == 0 && s.Method == schemas.MethodExact {
		t.Fatalf("%+v", s)
	}
	for _, m := range s.Metrics {
		switch {
		case m.Count == 0 && (m.RankError != nil || m.Lo != nil || m.Hi != nil ||
			m.LowNode != nil || m.Stddev != nil || m.Nodes != 0):
			t.Fatalf("%s: nothing has no distribution: %+v", s.Method, m)
		case m.Count > 0 && (*m.RankError == 0) != (m.Lo == nil && m.Hi == nil):
			t.Fatalf("%s: rank_error %v, lo %v, hi %v", s.Method, *m.RankError, m.Lo, m.Hi)
		case s.Method == schemas.MethodExact && m.Count > 0 && *m.RankError != 0:
			t.Fatalf("EXACT with rank_error %v", *m.RankError)
		}
	}
}
