package fold

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// metricOf is a metric of a node with one value for each of so many places.
func metricOf(name, unit, scope string, values ...float64) schemas.CounterBatchMetric {
	return schemas.CounterBatchMetric{Name: name, Unit: unit, Scope: scope, Values: values}
}

// batchOf is a record of a node with two CPUs.
func batchOf(node, job string, metrics ...schemas.CounterBatchMetric) *schemas.CounterBatch {
	b := batch(node, job, simEpochMs, simT, 1)
	b.Metrics = metrics
	return b
}

// invented are the least names that there are, as many as a record may have.
func invented(n int) (all []schemas.CounterBatchMetric) {
	for i := range n {
		all = append(all, metricOf(fmt.Sprintf("-%04d", i), "1", schemas.ScopeNode, 1))
	}
	return all
}

func findMetric(list []schemas.JobSummaryMetric, name string) *schemas.JobSummaryMetric {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// pipeline folds the records of each partition and its Tick in random orders, and merges the shares. The result must
// be the same in each.
func pipeline(t *testing.T, records [][]schemas.Record, ticks []*schemas.Tick) (
	summaries map[string]*schemas.JobSummary, surplus int64,
) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	var want []byte
	for range 3 {
		m := newFeed(t, NewMerger(simCluster, int32(len(ticks)), nil))
		var got []byte
		summaries, surplus = map[string]*schemas.JobSummary{}, 0
		take := func(outputs []schemas.Record) {
			for _, s := range summariesOf(outputs) {
				summaries[s.JobID] = s
				got = append(got, encode(t, s)...)
			}
		}
		for p, tick := range ticks {
			r.Shuffle(len(records[p]), func(i, k int) { records[p][i], records[p][k] = records[p][k], records[p][i] })
			f := newFeed(t, NewCollector(simCluster, int32(p), int32(len(ticks)), nil))
			f.put(records[p]...)
			fx := f.put(tick)
			surplus += fx.Counts.Surplus
			take(fx.Outputs)
			for _, o := range fx.Outputs {
				if share, ok := o.(*schemas.JobPartial); ok {
					merged := m.put(share)
					surplus += merged.Counts.Surplus
					take(merged.Outputs)
				}
			}
		}
		if want != nil && !bytes.Equal(got, want) {
			t.Fatal("another order of arrival gives other summaries")
		}
		want = got
	}
	return summaries, surplus
}

// TestInventedNamesDisplaceNothing: a node of a job of 21 sends a valid record with the least 1,024 names. The job,
// whole and split, and _system keep the metrics of the others, and the names beyond 1,024 are counted.
func TestInventedNamesDisplaceNothing(t *testing.T) {
	const others = 20
	for _, collectors := range []int{1, 2} {
		records, ticks := make([][]schemas.Record, collectors), make([]*schemas.Tick, collectors)
		for p := range ticks {
			job := schemas.TickJob{JobID: "j", Parts: int32(collectors), JobNodes: others + 1}
			for n := p; n < others; n += collectors {
				node := fmt.Sprintf("n%02d", n)
				job.Nodes = append(job.Nodes, node)
				records[p] = append(records[p], batchOf(node, "j", metricOf("cpu_user", "1", schemas.ScopeCore, 1, 2),
					metricOf("site_flow", "l/s", schemas.ScopeNode, 3)))
			}
			if p == 0 {
				job.Nodes = append(job.Nodes, "hostile")
				records[p] = append(records[p], batchOf("hostile", "j", invented(schemas.MaxMetrics)...))
			}
			ticks[p] = tickOf(simEpochMs, false, job)
		}
		summaries, surplus := pipeline(t, records, ticks)
		for _, id := range []string{"j", schemas.JobSystem} {
			s := summaries[id]
			for name, values := range map[string]int64{"cpu_user": 2 * others, "site_flow": others} {
				if m := findMetric(s.Metrics, name); m == nil || m.Count != values || m.Nodes != others {
					t.Errorf("%d collectors: %s has %+v", collectors, id, m)
				}
			}
			if len(s.Metrics) != schemas.MaxMetrics || s.Metrics[0].Name != "-0000" {
				t.Errorf("%d collectors: %s has %d metrics, the first is %s", collectors, id, len(s.Metrics),
					s.Metrics[0].Name)
			}
		}
		if surplus == 0 {
			t.Error("nothing is counted as left out")
		}
	}
}

// TestCatalogueComesFirst: a metric of weir's own keeps its place where as many nodes send each invented name.
func TestCatalogueComesFirst(t *testing.T) {
	records := []schemas.Record{
		batchOf("n1", "j", metricOf("cpu_user", "1", schemas.ScopeCore, 1, 2)),
		batchOf("hostile", "j", invented(schemas.MaxMetrics)...),
		batchOf("another", "j", invented(schemas.MaxMetrics)...),
	}
	tick := tickOf(simEpochMs, false, tickJob("j", 1, "n1", "hostile", "another"))
	summaries, surplus := pipeline(t, [][]schemas.Record{records}, []*schemas.Tick{tick})
	for _, s := range summaries {
		if m := findMetric(s.Metrics, "cpu_user"); m == nil || m.Count != 2 {
			t.Errorf("%s has %+v", s.JobID, m)
		}
	}
	if surplus != 2 { // one of the job, and one of _system
		t.Errorf("%d metrics are left out", surplus)
	}
}

// TestMachineKeepsMetricsThatAJobLoses: in a job of two nodes, the holder of one node displaces the other's metrics by
// their names. In _system more nodes have these metrics, so they keep their place, with the values of all nodes.
func TestMachineKeepsMetricsThatAJobLoses(t *testing.T) {
	flow := metricOf("site_flow", "l/s", schemas.ScopeNode, 3)
	records := []schemas.Record{
		batchOf("n1", "small", flow), batchOf("hostile", "small", invented(schemas.MaxMetrics)...),
		batchOf("n2", "other", flow), batchOf("n3", "other", flow),
	}
	tick := tickOf(simEpochMs, false, tickJob("small", 1, "n1", "hostile"), tickJob("other", 1, "n2", "n3"))
	summaries, _ := pipeline(t, [][]schemas.Record{records}, []*schemas.Tick{tick})
	if m := findMetric(summaries["small"].Metrics, flow.Name); m != nil {
		t.Errorf("the job has %+v: then this test shows nothing", m)
	}
	if m := findMetric(summaries[schemas.JobSystem].Metrics, flow.Name); m == nil || m.Count != 3 || m.Nodes != 3 {
		t.Errorf("_system has %+v", m)
	}
}

// TestOneNodeOfAnotherUnit: of 400 nodes, one sends A in place of W, and another sends 1,000 values of sockets. The
// rows of the job and of _system contain the values of the other 398 nodes. This holds for a whole and a split job, and
// for every name of the node.
func TestOneNodeOfAnotherUnit(t *testing.T) {
	const nodes = 400
	for _, collectors := range []int{1, 3} {
		for _, odd := range []int{0, nodes / 2, nodes - 1} {
			records, ticks := make([][]schemas.Record, collectors), make([]*schemas.Tick, collectors)
			for p := range ticks {
				job := schemas.TickJob{JobID: "j", Parts: int32(collectors), JobNodes: nodes}
				for n := p; n < nodes; n += collectors {
					node := fmt.Sprintf("n%03d", n)
					power := metricOf("node_power", "W", schemas.ScopeNode, 300)
					switch n {
					case odd:
						power = metricOf("node_power", "A", schemas.ScopeNode, 0.3)
					case (odd + 1) % nodes:
						power = metricOf("node_power", "W", schemas.ScopeSocket, slices.Repeat([]float64{3}, 1000)...)
					}
					job.Nodes = append(job.Nodes, node)
					records[p] = append(records[p], batchOf(node, "j", power))
				}
				ticks[p] = tickOf(simEpochMs, false, job)
			}
			summaries, _ := pipeline(t, records, ticks)
			for _, id := range []string{"j", schemas.JobSystem} {
				m := &summaries[id].Metrics[0]
				if len(summaries[id].Metrics) != 1 || m.Unit != "W" || m.Scope != schemas.ScopeNode ||
					m.Count != nodes-2 || m.Nodes != nodes-2 || m.Invalid != 1001 || *m.Mean != 300 {
					t.Errorf("%d collectors, n%03d: %s has %+v", collectors, odd, id, m)
				}
			}
		}
	}
}

// TestUnitsChangeNodeByNode: a site changes a unit on one node after the other. In each step the row has the side of
// more nodes, and never loses both.
func TestUnitsChangeNodeByNode(t *testing.T) {
	const nodes = 9
	for changed := range nodes + 1 {
		records, ticks := make([][]schemas.Record, 3), make([]*schemas.Tick, 3)
		for p := range ticks {
			job := schemas.TickJob{JobID: "j", Parts: 3, JobNodes: nodes}
			for n := p * 3; n < p*3+3; n++ {
				node, m := fmt.Sprint("n", n), metricOf("node_power", "W", schemas.ScopeNode, 300)
				if n < changed {
					m = metricOf("node_power", "kW", schemas.ScopeNode, 0.3)
				}
				job.Nodes, records[p] = append(job.Nodes, node), append(records[p], batchOf(node, "j", m))
			}
			ticks[p] = tickOf(simEpochMs, false, job)
		}
		summaries, _ := pipeline(t, records, ticks)
		unit, count := "W", nodes-changed
		if changed > nodes/2 {
			unit, count = "kW", changed
		}
		for id, s := range summaries {
			if m := s.Metrics[0]; m.Unit != unit || m.Count != int64(count) || m.Invalid != int64(nodes-count) {
				t.Errorf("%d of %d nodes are changed: %s has %+v", changed, nodes, id, m)
			}
		}
	}
}

// TestReportedIsARecordsWord: a node marks a metric as reported by the job, while the other nodes measured it. Only the
// node's own value is left out of _system.
func TestReportedIsARecordsWord(t *testing.T) {
	for _, hostile := range []string{"a", "z"} {
		var records []schemas.Record
		var nodes []string
		for n := range 5 {
			nodes = append(nodes, fmt.Sprint("n", n))
			records = append(records, batchOf(nodes[n], "j", metricOf("mem_used", "B", schemas.ScopeNode, 5)))
		}
		b := batchOf(hostile, "j", metricOf("mem_used", "B", schemas.ScopeNode, 9))
		b.Reported = []string{"mem_used"}
		records, nodes = append(records, b), append(nodes, hostile)
		summaries, _ := pipeline(t, [][]schemas.Record{records},
			[]*schemas.Tick{tickOf(simEpochMs, false, tickJob("j", 1, nodes...))})
		for id, invalid := range map[string]int64{"j": 1, schemas.JobSystem: 0} {
			m := findMetric(summaries[id].Metrics, "mem_used")
			if m == nil || m.Count != 5 || m.Nodes != 5 || m.Invalid != invalid || *m.Mean != 5 {
				t.Errorf("%s, %s: %+v", hostile, id, m)
			}
		}
	}
}

// TestReportedNamesOfMostNodesStay: if a job reports more than 16 names, the names of most nodes stay.
func TestReportedNamesOfMostNodesStay(t *testing.T) {
	records := []schemas.Record{
		reporting("n1", "j", "rate", "steps"), reporting("n2", "j", "rate", "steps"),
		reporting("n3", "j", names("-%02d", 0, schemas.MaxReported)...),
	}
	tick := tickOf(simEpochMs, false, tickJob("j", 1, "n1", "n2", "n3"))
	summaries, surplus := pipeline(t, [][]schemas.Record{records}, []*schemas.Tick{tick})
	want := append(names("-%02d", 0, schemas.MaxReported-2), "cpu_user", "rate", "steps")
	if got := namesOf(summaries["j"].Metrics); !slices.Equal(got, want) || surplus != 2 {
		t.Errorf("the job has %v, %d are left out", got, surplus)
	}
}

// TestOneNodeHasOneVote: a node of a small machine has a job at each of many collectors. Its unit and its names count
// once in _system.
func TestOneNodeHasOneVote(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	const collectors, others = 30, 4
	for _, parts := range []int{1, collectors} { // the others' jobs are at one collector, or at all
		records, ticks := make([][]schemas.Record, collectors), make([]*schemas.Tick, collectors)
		for p := range ticks {
			ticks[p] = tickOf(simEpochMs, false, tickJob(fmt.Sprint("hostile-", p), 1, "hostile"))
			ticks[p].Shared = []string{"hostile"}
			forged := append(invented(1000), metricOf("node_power", "A", schemas.ScopeNode, 1),
				metricOf("site_flow", "A", schemas.ScopeNode, 1))
			records[p] = append(records[p], batchOf("hostile", fmt.Sprint("hostile-", p), forged...))
			if p >= parts {
				continue
			}
			job := schemas.TickJob{JobID: "j", Parts: int32(parts), JobNodes: others}
			for n := range others {
				if n%parts != p {
					continue
				}
				node := fmt.Sprint("n", n)
				job.Nodes = append(job.Nodes, node)
				records[p] = append(records[p], batchOf(node, "j", metricOf("node_power", "W", schemas.ScopeNode, 300),
					metricOf("site_flow", "l/s", schemas.ScopeNode, 3)))
			}
			ticks[p].Jobs = append(ticks[p].Jobs, job)
		}
		summaries, _ := pipeline(t, records, ticks)
		for name, unit := range map[string]string{"node_power": "W", "site_flow": "l/s"} {
			m := findMetric(summaries[schemas.JobSystem].Metrics, name)
			if m == nil || m.Unit != unit || m.Count != others || m.Nodes != others {
				t.Errorf("%d parts: _system has %+v", parts, m)
			}
		}
	}
}

// TestInventedNamesNeedLittleMemory: a node with 200 jobs invents 1,024 names in each. They need no more than their
// records do, and the next interval has forgotten them.
func TestInventedNamesNeedLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-full runs it")
	}
	const jobs = 200
	c := NewCollector(simCluster, 0, 1, nil)
	f := newFeed(t, c)
	tick := tickOf(simEpochMs, false)
	for n := range 5000 {
		tick.Jobs = append(tick.Jobs, tickJob(fmt.Sprint("one-", n), 1, fmt.Sprint("n", n)))
	}
	for n := range jobs {
		id := fmt.Sprintf("j%03d", n)
		b := batchOf("hostile", id)
		for i := range schemas.MaxMetrics {
			b.Metrics = append(b.Metrics, metricOf(fmt.Sprintf("-%03d-%04d", n, i), "1", schemas.ScopeNode, 1))
		}
		f.put(b)
		tick.Jobs = append(tick.Jobs, tickJob(id, 1, "hostile"))
	}
	before := liveHeap()
	fx := f.put(tick)
	if fx.Counts.Surplus != (jobs-1)*schemas.MaxMetrics {
		t.Errorf("%d metrics are left out", fx.Counts.Surplus)
	}
	if grown := liveHeap() - before; grown > jobs*schemas.MaxMetrics*500 {
		t.Errorf("%d MB more in memory", grown>>20)
	}
	f.nowMs += simT
	f.put(tickOf(simEpochMs+simT, false))
	if n := len(c.all.columns) + len(c.all.spare); n > 2*schemas.MaxMetrics {
		t.Errorf("%d columns are kept", n)
	}
}

// TestSystemKnowsWhatItLacks: shares are missing from a row of _system, and it still expects the nodes of the whole
// machine.
func TestSystemKnowsWhatItLacks(t *testing.T) {
	const collectors, nodes = 5, 4
	m := newFeed(t, NewMerger(simCluster, collectors, nil))
	var rows []*schemas.JobSummary
	put := func(records ...schemas.Record) {
		for _, o := range m.put(records...).Outputs {
			rows = append(rows, o.(*schemas.JobSummary))
		}
	}
	for c := range int32(collectors) {
		f := newFeed(t, NewCollector(simCluster, c, collectors, nil))
		tick := tickOf(simEpochMs, false)
		tick.MachineNodes = collectors * nodes
		for n := range nodes {
			node := fmt.Sprintf("n%d-%d", c, n)
			f.put(batch(node, "j"+node, simEpochMs, simT, 1))
			tick.Jobs = append(tick.Jobs, tickJob("j"+node, 1, node))
		}
		fx := f.put(tick)
		if share := fx.Outputs[nodes].(*schemas.JobPartial); c > 0 { // that of the first collector never comes
			put(share)
		}
	}
	for c := range int32(collectors) {
		put(&schemas.Watermark{Collector: c, IntervalStart: simEpochMs, IntervalMs: simT})
	}
	if len(rows) != 1 || rows[0].PartsReported != collectors-1 || rows[0].NodesExpected != collectors*nodes {
		t.Errorf("%+v", rows)
	}
}
