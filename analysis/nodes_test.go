package analysis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/report/view"
)

// ofNodes are the summaries of a job of some nodes, and what its nodes measured.
type ofNodes struct {
	job       schemas.Job
	summaries []*schemas.JobSummary
	idle      map[string][]float64 // of each node, an interval each
	memory    map[string][]float64
}

// measureNodes makes up a job of up to three nodes with four cores each.
func measureNodes(r *rand.Rand, nodes, intervals int, intervalMs int64) ofNodes {
	end := loadStart + int64(intervals)*intervalMs
	m := ofNodes{idle: map[string][]float64{}, memory: map[string][]float64{}, job: schemas.Job{
		JobID: "47", Nodes: []string{"a", "b", "c"}[:nodes], Cores: new(int64(4 * nodes)), Start: new(loadStart), End: &end,
		State: schemas.StateCompleted,
	}}
	for i := range intervals {
		s := &schemas.JobSummary{
			Cluster: "c", JobID: "47", IntervalStart: loadStart + int64(i)*intervalMs, IntervalMs: intervalMs,
			Method: schemas.MethodExact, Parts: 1, PartsReported: 1, NodesExpected: int32(nodes), NodesReported: int32(nodes),
		}
		idle, memory := make([][]float64, nodes), make([][]float64, nodes)
		for n, node := range m.job.Nodes {
			for range 4 {
				idle[n] = append(idle[n], r.Float64())
			}
			memory[n] = []float64{r.Float64() * 1e11}
			m.idle[node] = append(m.idle[node], quantile.Reduce(slices.Clone(idle[n])).Mean)
			m.memory[node] = append(m.memory[node], memory[n][0])
		}
		s.Metrics = []schemas.JobSummaryMetric{
			nodeMetric("cpu_idle", m.job.Nodes, idle), nodeMetric("mem_used", m.job.Nodes, memory),
		}
		m.summaries = append(m.summaries, s)
	}
	return m
}

func nodeMetric(name string, nodes []string, values [][]float64) schemas.JobSummaryMetric {
	means := make([]float64, len(nodes))
	for i, v := range values {
		means[i] = quantile.Reduce(slices.Clone(v)).Mean
	}
	low, high := slices.Index(means, slices.Min(means)), slices.Index(means, slices.Max(means))
	d, summary := quantile.Certify(slices.Concat(values...), quantile.Large)
	certified := schemas.NewCertified(summary.Eps, summary.Order, summary.Knots, summary.Atoms)
	return schemas.JobSummaryMetric{
		Name: name, Unit: "1", Scope: schemas.ScopeCore, Count: d.Count, Nodes: int32(len(nodes)), Mean: &d.Mean,
		Stddev: new(d.Stddev()), NodeStddev: new(quantile.Reduce(slices.Clone(means)).Stddev()), LowNode: &nodes[low],
		HighNode: &nodes[high], LowNodeMean: &means[low], HighNodeMean: &means[high], Deciles: new(d.Deciles[:]),
		RankError: new(0.0), Certified: &certified,
	}
}

// same compares the table with the measurements of some intervals.
func (m *ofNodes) same(t *testing.T, what string, table *view.NodeTable, from, to int) {
	t.Helper()
	if table == nil || len(table.Lines) != len(m.job.Nodes) {
		t.Fatalf("%s: %+v", what, table)
	}
	for _, l := range table.Lines {
		busy := 1 - meanOf(m.idle[l.Node][from:to])
		memory := slices.Max(m.memory[l.Node][from:to])
		near := math.Abs(l.Busy-busy) <= 1e-9 && math.Abs(l.Memory-memory) <= 1e-9*1e11 // false for NaN
		if !near || l.Intervals != int64(to-from) {
			t.Errorf("%s: %+v, want %v busy, %v of memory in %d intervals", what, l, busy, memory, to-from)
		}
	}
	if !slices.IsSortedFunc(table.Lines, func(a, b view.NodeLine) int { return int(math.Copysign(1, a.Busy-b.Busy)) }) {
		t.Errorf("%s: the worst node is not the first", what)
	}
	if !strings.HasSuffix(table.Source, ": 100 % of the intervals of its nodes") {
		t.Errorf("%s: from %s", what, table.Source)
	}
}

// TestNodesOfSmallJobs: the rows of jobs of up to three nodes give the numbers of each node, from small files,
// compacted ones, totals, a part of the life, and hours.
func TestNodesOfSmallJobs(t *testing.T) {
	t.Parallel()
	for nodes := 1; nodes <= 3; nodes++ {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(33, uint64(nodes)))
			m := measureNodes(r, nodes, 300, 60_000)
			d := &disk{dir: t.TempDir()}
			d.append(t, m.summaries, 50)
			d.jobs(t, m.job)
			check := func(what string, from, to int) {
				t.Helper()
				a := Ask{Dir: d.dir, Restart: -1, Metrics: []string{"mem_used"}} // cpu_idle is not shown
				if from > 0 {
					a.From = time.UnixMilli(m.summaries[from].IntervalStart)
				}
				if to < len(m.summaries) {
					a.To = time.UnixMilli(m.summaries[to].IntervalStart)
				}
				j, err := Load(t.Context(), config.Default(), everybody, nil, "47", a)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				m.same(t, what, j.ByNode, from, to)
			}
			check("small files", 0, 300)
			check("a part", 20, 280)
			far := measure(r, "99", 0, loadStart+48*3_600_000, 60_000, 2, "cpu_user")
			d.append(t, far.summaries[:1], 1)
			d.compact(t)
			check("compacted", 0, 300)
			d.totals(t)
			check("totals", 0, 300)
			check("a part with totals", 250, 300)
		})
	}
}

// TestNodesOfALongJob: a job of one node that is read by the hour has its numbers from hours.
func TestNodesOfALongJob(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(33, 4))
	m := measureNodes(r, 1, hourlyFrom+1000, 1000)
	d := &disk{dir: t.TempDir()}
	d.append(t, m.summaries, 5000)
	d.jobs(t, m.job)
	far := measure(r, "99", 0, loadStart+96*3_600_000, 60_000, 2, "cpu_user")
	d.append(t, far.summaries[:1], 1)
	d.compact(t)
	j, err := Load(t.Context(), config.Default(), everybody, nil, "47", Ask{Dir: d.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	if !j.Metrics[0].Bins[0].Hourly {
		t.Fatal("it is not read by the hour")
	}
	m.same(t, "hours", j.ByNode, 0, len(m.summaries))
}

// TestNodesThatAreNotKnown: a job of four nodes has a line about it, and weir's own jobs have no table.
func TestNodesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(33, 5))
	m := measure(r, "47", 0, loadStart, 60_000, 20, "cpu_idle")
	m.job.Nodes = []string{"a1", "a2", "a3", "a4"}
	rest := measure(r, schemas.JobRest, 0, loadStart, 60_000, 20, "cpu_idle")
	d := &disk{dir: t.TempDir()}
	d.append(t, interleave(m.summaries, rest.summaries), 50)
	d.jobs(t, m.job)
	for id, want := range map[string]string{"47": noNodes, schemas.JobRest: ""} {
		j, err := Load(t.Context(), config.Default(), everybody, nil, id, Ask{Dir: d.dir, Restart: -1})
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && j.ByNode != nil || want != "" && (j.ByNode == nil || j.ByNode.Why != want) {
			t.Errorf("%s: %+v", id, j.ByNode)
		}
	}
}

// TestNodesOfTheArchive: a job of many nodes has the numbers of table nodes, from several files of the same hours, and
// of its own life alone.
func TestNodesOfTheArchive(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(33, 6))
	m := measure(r, "47", 1, loadStart, 60_000, 100, "cpu_user")
	m.job.Nodes = []string{"n1", "n2", "n3", "n4"}
	d := &disk{dir: t.TempDir()}
	d.append(t, m.summaries, 50)
	d.jobs(t, m.job)
	want := map[string][]float64{}
	batch := func(node, job string, restart int32, at int64) schemas.CounterBatch {
		idle, memory := []float64{r.Float64(), r.Float64()}, []float64{r.Float64()}
		b := schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: "c", Node: node, BootID: "b", RunID: "r", Seq: 1, JobID: job, Restart: restart, IntervalStart: at,
			IntervalMs: 60_000, SampledAt: (at + 60_000) * 1000, SentAt: at + 60_001, Cpus: []int32{0, 1},
		}}
		b.Metrics = []schemas.CounterBatchMetric{
			{Name: "cpu_idle", Unit: "1", Scope: schemas.ScopeCore, Values: idle},
			{Name: "mem_used", Unit: "B", Scope: schemas.ScopeNode, Values: memory},
		}
		if job == "47" && restart == 1 && at >= loadStart {
			want[node] = append(want[node], idle...)
		}
		return b
	}
	var all []schemas.CounterBatch
	for i := range int64(100) {
		for _, node := range m.job.Nodes {
			all = append(all, batch(node, "47", 1, loadStart+i*60_000))
		}
		all = append(all, batch("n1", "48", 1, loadStart+i*60_000), batch("n1", "47", 0, loadStart+i*60_000),
			batch("n1", "47", 1, loadStart-24*3_600_000+i*60_000)) // others, and a namesake of the day before
	}
	cfg := config.Default()
	cfg.Cluster = "c"
	w, err := sink.NewNodesWriter(cfg, d.dir)
	for i := range all {
		if err == nil {
			err = w.Add(&all[i])
		}
		if err == nil && i%130 == 129 || i == len(all)-1 {
			err = w.End()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	j, err := Load(t.Context(), config.Default(), everybody, nil, "47", Ask{Dir: d.dir, Restart: -1})
	if err != nil {
		t.Fatal(err)
	}
	if j.ByNode == nil || len(j.ByNode.Lines) != 4 || !strings.HasPrefix(j.ByNode.Source, "table nodes of the archive") {
		t.Fatalf("%+v", j.ByNode)
	}
	for _, l := range j.ByNode.Lines {
		if near := math.Abs(l.Busy-(1-meanOf(want[l.Node]))) <= 1e-9; !near || l.Intervals != 100 {
			t.Errorf("%+v, want %v busy", l, 1-meanOf(want[l.Node]))
		}
	}
	if !slices.IsSortedFunc(j.ByNode.Lines, func(a, b view.NodeLine) int { return int(math.Copysign(1, a.Busy-b.Busy)) }) {
		t.Error("the worst node is not the first")
	}
}
