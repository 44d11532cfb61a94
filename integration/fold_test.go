package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

const (
	foldCluster    = "testbed"
	foldCollectors = 3
	foldNodes      = 12
	foldT          = int64(1000)
	foldStart      = int64(1_700_000_000_000)
)

// foldLog is a log of counters as agents and a balancer write it. It contains nodes with several jobs, jobs over
// several partitions, jobs that ended, missing records, and Ticks in parts.
type foldLog struct {
	t   *testing.T
	r   *rand.Rand
	log [foldCollectors][]*kgo.Record
}

func (l *foldLog) put(partition int32, start int64, rec schemas.Record) {
	value, err := schemas.Marshal(rec)
	if err != nil {
		l.t.Fatal(err)
	}
	l.log[partition] = append(l.log[partition], &kgo.Record{
		Partition: partition, Offset: int64(len(l.log[partition])), Timestamp: time.UnixMilli(start + foldT),
		Value: value,
	})
}

// reportedBy returns the metrics that a job reports on a node: some of its own, and one that all nodes share. A job on
// all nodes reports more than 16 in a partition.
func reportedBy(node, job string) (names []string) {
	if job == schemas.JobRest {
		return nil
	}
	for i := range 3 {
		names = append(names, fmt.Sprintf("%s_%s_%d", reportedPrefix, node, i))
	}
	return append(names, reportedPrefix+"_of_all")
}

// reducedOf returns a metric as its node sends it after reducing the values itself.
func reducedOf(node string, of *schemas.CounterBatchMetric) schemas.NodeSummaryMetric {
	d, c := quantile.Certify(slices.Clone(of.Values), quantile.Large)
	m := schemas.NodeSummaryMetric{JobSummaryMetric: schemas.JobSummaryMetric{
		Name: of.Name, Unit: of.Unit, Scope: of.Scope, Count: d.Count, Invalid: d.Invalid,
	}}
	if d.Count == 0 {
		return m
	}
	stddev, deciles := d.Stddev(), d.Deciles[:]
	m.Nodes, m.Mean, m.Stddev, m.NodeStddev, m.RankError = 1, &d.Mean, &stddev, new(0.0), new(0.0)
	m.LowNode, m.HighNode, m.Deciles = &node, &node, &deciles
	m.Certified = schemas.Certified{Eps: c.Eps, OrderStatistics: c.Order}
	for _, k := range c.Knots {
		m.Certified.Knots = append(m.Certified.Knots, schemas.Knot(k))
	}
	for _, a := range c.Atoms {
		m.Certified.Atoms = append(m.Certified.Atoms, schemas.Atom(a))
	}
	return m
}

// send writes the record of a node for a job: its values, or with local their summary.
func (l *foldLog) send(partition int32, node, job string, start int64, cpus []int32, local bool) {
	head := schemas.NodeHeader{
		Cluster: foldCluster, Node: node, IntervalStart: start, IntervalMs: foldT, JobID: job,
		Cpus: cpus,
	}
	b, s := &schemas.CounterBatch{NodeHeader: head}, &schemas.NodeSummary{NodeHeader: head}
	b.Reported = reportedBy(node, job)
	s.Reported = b.Reported
	for _, metric := range slices.Concat(b.Reported, []string{
		"sim_tail", "sim_tied", "sim_gaps", "not_simulated", "video_power", "work_memory",
	}) {
		scope, values := measured(node, metric, cpus, start)
		b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{Name: metric, Unit: "1", Scope: scope, Values: values})
		s.Metrics = append(s.Metrics, reducedOf(node, &b.Metrics[len(b.Metrics)-1]))
	}
	if local {
		l.put(partition, start, s)
	} else {
		l.put(partition, start, b)
	}
}

// interval writes one interval: each node has a job of its own, a job of several nodes, a job that ended, and _rest at
// its home.
func (l *foldLog) interval(start int64) {
	var ticks [foldCollectors]schemas.Tick
	listed := map[string]map[int32]bool{}
	expect := func(partition int32, job string, parts, jobNodes int, node string) {
		t := &ticks[partition]
		i := slices.IndexFunc(t.Jobs, func(j schemas.TickJob) bool { return j.JobID == job })
		if i < 0 {
			i, t.Jobs = len(t.Jobs), append(t.Jobs, schemas.TickJob{
				JobID: job, Parts: int32(parts),
				JobNodes: int32(jobNodes),
			})
		}
		t.Jobs[i].Nodes = append(t.Jobs[i].Nodes, node)
		if listed[node] == nil {
			listed[node] = map[int32]bool{}
		}
		listed[node][partition] = true
	}
	for n := range foldNodes {
		node, home := fmt.Sprintf("n%02d", n), int32(n%foldCollectors)
		for _, job := range []struct {
			name         string
			partition    int32
			parts, nodes int
			cpus         []int32
			local        bool
		}{
			{fmt.Sprint("own-", n), home, 1, 1, []int32{0, 1}, n%2 == 0},
			{"whole", 1, 1, foldNodes, []int32{2, 3, 4}, false},
			{"split", int32(n % 2), 2, foldNodes, []int32{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, false},
			{fmt.Sprint("gone-", n), 2, 0, 1, []int32{17}, n%4 == 0},
			{schemas.JobRest, home, foldCollectors, foldNodes, []int32{18, 19}, false},
		} {
			if n == 5 && job.name != "whole" && job.name != "own-5" {
				continue // a node with two jobs that sends nothing
			}
			expect(job.partition, job.name, job.parts, job.nodes, node)
			if n != 5 && l.r.IntN(12) > 0 {
				l.send(job.partition, node, job.name, start, job.cpus, job.local)
			}
		}
	}
	for p := range ticks {
		t := &ticks[p]
		t.IntervalStart, t.IntervalMs = start, foldT
		for node, partitions := range listed {
			if len(partitions) > 1 && partitions[int32(p)] {
				t.Shared = append(t.Shared, node)
			}
		}
		slices.Sort(t.Shared)
		for len(t.Jobs) > 2 && l.r.IntN(2) == 0 {
			part := *t
			part.Jobs, part.Shared, part.More = t.Jobs[:2], nil, true
			t.Jobs = t.Jobs[2:]
			l.put(int32(p), start, &part)
			if l.r.IntN(3) == 0 {
				l.send(int32(p), "n00", part.Jobs[0].JobID, start, []int32{0}, false) // late, or a late duplicate
			}
		}
		l.put(int32(p), start, t)
	}
}

// TestOracleJudgesTheFolds checks both folds by the oracle on a log that exercises every rule, and checks the oracle on
// summaries that break each rule.
func TestOracleJudgesTheFolds(t *testing.T) {
	o, summaries := foldAndJudge(t, 1)
	for _, rule := range []string{
		ruleEnded, ruleJobs, ruleShared, ruleExact, ruleNothing, ruleNoMetric, ruleParts,
	} {
		if o.rules[rule] == 0 {
			t.Errorf("nothing was met of %q: the run proves nothing about it", rule)
		}
	}
	expectOracleSees(t, o, summaries)
}

// TestOracleJudgesOtherFolds is the same test with another log each time, which may exercise any of the rules.
func TestOracleJudgesOtherFolds(t *testing.T) {
	foldAndJudge(t, uint64(time.Now().UnixNano()))
}

// foldAndJudge makes a log, folds it, and checks the output by the oracle.
func foldAndJudge(t *testing.T, seed uint64) (*oracle, []*schemas.JobSummary) {
	t.Helper()
	t.Logf("seed %d", seed)
	l := &foldLog{t: t, r: rand.New(rand.NewPCG(seed, 1))}
	for i := range int64(20) {
		l.interval(foldStart + i*foldT)
	}
	var all []*kgo.Record
	for _, log := range l.log {
		all = append(all, log...)
	}
	o := newOracle(t, foldCluster, all)
	var summaries []*schemas.JobSummary
	merger, offset := fold.NewMerger(foldCluster, foldCollectors, nil), int64(0)
	for p, log := range l.log {
		collector := fold.NewCollector(foldCluster, int32(p), foldCollectors, nil)
		var f fates
		for _, r := range log {
			fx := collector.Apply(fold.Entry{Offset: r.Offset, AppendedMs: r.Timestamp.UnixMilli(), Value: r.Value})
			f.add(fatesOf(fx.Counts))
			for _, out := range fx.Outputs {
				if s, ok := out.(*schemas.JobSummary); ok {
					summaries = append(summaries, s)
					continue
				}
				value, err := schemas.Marshal(out)
				if err != nil {
					t.Fatal(err)
				}
				offset++
				part := fold.Entry{Offset: offset, AppendedMs: r.Timestamp.UnixMilli(), Value: value}
				for _, s := range merger.Apply(part).Outputs {
					summaries = append(summaries, s.(*schemas.JobSummary))
				}
			}
		}
		if f != *o.fates[int32(p)] {
			t.Errorf("partition %d: fates %+v, the oracle has %+v", p, f, *o.fates[int32(p)])
		}
	}
	for _, s := range summaries {
		if err := o.check(s); err != nil {
			t.Errorf("%s %s %d: %v", s.Method, s.JobID, s.IntervalStart, err)
		}
	}
	if len(summaries) != len(o.windows) {
		t.Errorf("%d summaries of %d windows", len(summaries), len(o.windows))
	}
	t.Logf("%d summaries, %d brackets, %v", len(summaries), o.brackets, o.rules)
	return o, summaries
}

// expectOracleSees breaks one promise of a summary after the other.
func expectOracleSees(t *testing.T, o *oracle, summaries []*schemas.JobSummary) {
	t.Helper()
	metric := func(s *schemas.JobSummary, fits func(m *schemas.JobSummaryMetric) bool) *schemas.JobSummaryMetric {
		for i := range s.Metrics {
			if s.Metrics[i].Count > 0 && fits(&s.Metrics[i]) {
				return &s.Metrics[i]
			}
		}
		return nil
	}
	exact := func(m *schemas.JobSummaryMetric) bool { return *m.RankError == 0 }
	machine := func(s *schemas.JobSummary) bool { return s.JobID == schemas.JobSystem }
	for rule, spoil := range map[string]func(s *schemas.JobSummary) bool{
		"nodes_expected":  func(s *schemas.JobSummary) bool { s.NodesExpected++; return machine(s) },
		"nodes_reported":  func(s *schemas.JobSummary) bool { s.NodesReported--; return machine(s) },
		"EXACT estimates": func(s *schemas.JobSummary) bool { s.Method = schemas.MethodExact; return machine(s) },
		"EXACT nothing": func(s *schemas.JobSummary) bool {
			s.Method = schemas.MethodExact
			return len(s.Metrics) == 0
		},
		"nodes": func(s *schemas.JobSummary) bool {
			m := metric(s, exact)
			if m != nil {
				m.Nodes++
			}
			return m != nil && s.JobID == schemas.JobSystem
		},
		"bounds of what is exact": func(s *schemas.JobSummary) bool {
			m := metric(s, exact)
			if m != nil {
				m.Lo, m.Hi = m.Deciles, m.Deciles
			}
			return m != nil
		},
		"no bounds of an estimate": func(s *schemas.JobSummary) bool {
			m := metric(s, func(m *schemas.JobSummaryMetric) bool { return *m.RankError > 0 })
			if m != nil {
				m.Lo, m.Hi = nil, nil
			}
			return m != nil
		},
	} {
		seen := false
		for _, s := range summaries {
			wrong := *s
			wrong.Metrics = slices.Clone(s.Metrics)
			if spoil(&wrong) {
				if seen = true; o.check(&wrong) == nil {
					t.Errorf("%s: the oracle sees nothing wrong with %+v", rule, wrong)
				}
				break
			}
		}
		if !seen {
			t.Errorf("%s: no summary to break", rule)
		}
	}
}
