package audit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/processors/fold"
	"github.com/weirhpc/weir/schemas"
)

// installation is a log of counters of two partitions, and the records that collect and merge make of it. Job a lies in
// partition 0, job c in partition 1, and job b in both.
type installation struct {
	t        *testing.T
	r        *rand.Rand
	counters [2][]Entry
	partials []Entry
	outputs  []*schemas.JobSummary
	counts   [3]schemas.ProgressCounts // of both partitions of collect, and of merge
	folds    [3]fold.Fold
	seq      map[string]int64
}

const (
	testSketch    = 512
	testIntervals = 6
)

func newInstallation(t *testing.T, seed uint64) *installation {
	t.Helper()
	in := &installation{t: t, r: rand.New(rand.NewPCG(21, seed)), seq: map[string]int64{}}
	for p := range 2 {
		c := fold.NewCollector("c", int32(p), 2, nil)
		c.Sketch, in.folds[p] = testSketch, c
	}
	m := fold.NewMerger("c", 2, nil)
	m.Sketch, in.folds[2] = testSketch, m
	for k := range int64(testIntervals) {
		start := (10 + k) * 10_000
		for _, job := range []string{"a", "b", "c"} {
			for n := range 2 {
				in.send(job, fmt.Sprintf("%s%d", job, n), start)
			}
		}
		in.tick(0, start, schemas.TickJob{JobID: "a", Parts: 1, JobNodes: 2, Nodes: []string{"a0", "a1"}},
			schemas.TickJob{JobID: "b", Parts: 2, JobNodes: 2, Nodes: []string{"b0"}})
		in.tick(1, start, schemas.TickJob{JobID: "c", Parts: 1, JobNodes: 2, Nodes: []string{"c0", "c1"}},
			schemas.TickJob{JobID: "b", Parts: 2, JobNodes: 2, Nodes: []string{"b1"}})
		if in.r.IntN(3) == 0 {
			in.batch(0, "a", "a0", start, start+12_000) // late
		}
	}
	return in
}

// send sends the record of a node, or none. It may come twice, and a node that no Tick lists may send one, too.
func (in *installation) send(job, node string, start int64) {
	p := map[string]int{"a0": 0, "a1": 0, "b0": 0, "b1": 1, "c0": 1, "c1": 1}[node]
	if in.r.IntN(8) == 0 {
		return
	}
	in.batch(p, job, node, start, start+10_500)
	if in.r.IntN(8) == 0 {
		last := in.counters[p][len(in.counters[p])-1]
		in.put(p, last.Value, start+10_600)
	}
	if in.r.IntN(8) == 0 {
		in.batch(p, job, "stray", start, start+10_700)
	}
}

func (in *installation) batch(p int, job, node string, start, at int64) {
	b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
		Cluster: "c", Node: node, RunID: "r", Seq: in.seq[node], IntervalStart: start, IntervalMs: 10_000, JobID: job,
	}}
	in.seq[node]++
	values := make([]float64, 1+in.r.IntN(40))
	for i := range values {
		b.Cpus = append(b.Cpus, int32(i))
		values[i] = in.r.NormFloat64()
	}
	b.Metrics = []schemas.CounterBatchMetric{{Name: "m", Unit: "1", Scope: schemas.ScopeCore, Values: values}}
	in.put(p, in.bytes(b), at)
}

func (in *installation) tick(p int, start int64, jobs ...schemas.TickJob) {
	in.put(p, in.bytes(&schemas.Tick{
		IntervalStart: start, IntervalMs: 10_000, MachineNodes: 6, Jobs: jobs,
	}), start+11_000)
}

func (in *installation) bytes(r schemas.Record) []byte {
	in.t.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		in.t.Fatal(err)
	}
	return value
}

// put appends a record to a partition of counters, and folds it.
func (in *installation) put(p int, value []byte, at int64) {
	e := Entry{Offset: int64(len(in.counters[p])), AppendedMs: at, Value: value}
	in.counters[p] = append(in.counters[p], e)
	in.fold(p, e)
}

func (in *installation) fold(stage int, e Entry) {
	fx := in.folds[stage].Apply(fold.Entry(e))
	in.counts[stage].Add(fx.Counts)
	for _, out := range fx.Outputs {
		if s, is := out.(*schemas.JobSummary); is {
			in.outputs = append(in.outputs, s)
			continue
		}
		made := Entry{Offset: int64(len(in.partials)), AppendedMs: e.AppendedMs, Value: in.bytes(out)}
		in.partials = append(in.partials, made)
		in.fold(2, made)
	}
}

// audit audits the installation.
func (in *installation) audit() *Report {
	in.t.Helper()
	terms := Terms{
		Cluster: "c", Collectors: 2, Partials: 1, Summaries: 1, Sketch: testSketch, From: Beginning, Only: -1,
		Counters: map[int32]Span{}, Merges: map[int32]Span{},
	}
	span := func(log []Entry, counts schemas.ProgressCounts) Span {
		end := int64(len(log))
		return Span{Position: end, Later: end, Opening: &schemas.ProgressCounts{}, Closing: counts}
	}
	logs := map[Source][]Entry{{schemas.TopicPartials, 0}: in.partials}
	for p := range int32(2) {
		logs[Source{schemas.TopicCounters, p}] = in.counters[p]
		terms.Counters[p] = span(in.counters[p], in.counts[p])
	}
	terms.Merges[0] = span(in.partials, in.counts[2])
	var summaries []Entry
	for o, s := range in.outputs {
		summaries = append(summaries, Entry{Offset: int64(o), AppendedMs: s.IntervalStart + 12_000, Value: in.bytes(s)})
	}
	logs[Source{schemas.TopicJobSummary, 0}] = summaries
	b := NewBooks(terms)
	for s, ok := b.Next(); ok; s, ok = b.Next() {
		if len(logs[s]) == 0 {
			b.End(s)
			continue
		}
		b.Add(s, logs[s][0])
		logs[s] = logs[s][1:]
	}
	return b.Close()
}

// victim returns a random summary with values, and its index. If whole, its job lies in one partition, so that its
// numbers are exact.
func (in *installation) victim(whole bool) (s *schemas.JobSummary, at int) {
	var fit []int
	for i, s := range in.outputs {
		if len(s.Metrics) > 0 && s.Metrics[0].Count > 2 && (!whole || s.Parts == 1) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		in.t.Skip("no summary has values")
	}
	at = fit[in.r.IntN(len(fit))]
	return in.outputs[at], at
}

// TestAuditFindsPlantedFaults: the output of collect and merge is clean. One fault is found, at its job and interval.
func TestAuditFindsPlantedFaults(t *testing.T) {
	change := func(of func(in *installation, m *schemas.JobSummaryMetric)) func(*installation) *schemas.JobSummary {
		return func(in *installation) *schemas.JobSummary {
			s, _ := in.victim(true)
			of(in, &s.Metrics[0])
			return s
		}
	}
	for name, fault := range map[string]struct {
		plant func(in *installation) *schemas.JobSummary // returns the victim; nil: no summary
		kind  string
		text  string
	}{
		"nothing": {func(*installation) *schemas.JobSummary { return nil }, "", ""},
		"a summary is lost": {func(in *installation) *schemas.JobSummary {
			s, at := in.victim(false)
			in.outputs = slices.Delete(in.outputs, at, at+1)
			return s
		}, KindSummary, "topic job-summary lacks its summary"},
		"a summary is doubled": {func(in *installation) *schemas.JobSummary {
			s, at := in.victim(false)
			in.outputs = slices.Insert(in.outputs, at+1, s)
			return s
		}, KindSummary, "second summary"},
		"another decile": {change(func(in *installation, m *schemas.JobSummaryMetric) {
			d := slices.Clone(*m.Deciles)
			k := in.r.IntN(10)
			for d[k] == d[k+1] {
				k = (k + 1) % 10
			}
			d[k] += (d[k+1] - d[k]) / 1e6
			m.Deciles = &d
		}), KindSummary, "recomputed"},
		"another mean": {change(func(_ *installation, m *schemas.JobSummaryMetric) {
			m.Mean = new(*m.Mean + ((*m.Deciles)[10]-*m.Mean)/1e6)
		}), KindSummary, "mean "},
		"another stddev": {change(func(_ *installation, m *schemas.JobSummaryMetric) {
			m.Stddev = new(*m.Stddev * 1.000001)
		}), KindSummary, "stddev "},
		"a value more":  {change(func(_ *installation, m *schemas.JobSummaryMetric) { m.Count++ }), KindSummary, "count "},
		"a missing one": {change(func(_ *installation, m *schemas.JobSummaryMetric) { m.Invalid++ }), KindSummary, "invalid "},
		"another node": {change(func(_ *installation, m *schemas.JobSummaryMetric) {
			m.LowNode = new("stray")
		}), KindSummary, "low_node stray"},
		"a node less": {func(in *installation) *schemas.JobSummary {
			s, _ := in.victim(false)
			s.NodesReported--
			return s
		}, KindSummary, "nodes "},
		"another interval": {func(in *installation) *schemas.JobSummary {
			s, _ := in.victim(false)
			s.IntervalStart += 10_000 * testIntervals
			return s
		}, KindSummary, "no Tick lists it"},
		"another fate": {func(in *installation) *schemas.JobSummary {
			stage := in.r.IntN(3)
			in.counts[stage].Late++
			return nil
		}, kindFates, "late: "},
		"a share is lost": {func(in *installation) *schemas.JobSummary {
			for i, e := range in.partials {
				v, err := schemas.Unmarshal(e.Value)
				if p, is := v.(*schemas.JobPartial); err == nil && is && p.JobID == "b" {
					in.partials[i].Value = in.bytes(&schemas.Watermark{Collector: 0, IntervalMs: 10_000})
					break
				}
			}
			return nil
		}, kindShare, "topic partials lacks its share"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(30) {
				in := newInstallation(t, seed)
				victim := fault.plant(in)
				report := in.audit()
				if fault.kind == "" {
					if report.Found > 0 || report.Summaries.Recomputed != int64(len(in.outputs)) {
						t.Fatalf("seed %d: %d of %d summaries, %v", seed, report.Summaries.Recomputed, len(in.outputs),
							report.Differences)
					}
					continue
				}
				if !slices.ContainsFunc(report.Differences, func(d Difference) bool {
					of := victim == nil || d.JobID != nil && *d.JobID == victim.JobID &&
						*d.IntervalStart == victim.IntervalStart
					return d.Kind == fault.kind && of && strings.Contains(d.Text, fault.text)
				}) {
					t.Fatalf("seed %d: no %s with %q: %v", seed, fault.kind, fault.text, report.Differences)
				}
			}
		})
	}
}
