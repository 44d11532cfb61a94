package fold

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// reporting is a batch with further metrics, which the job reported.
func reporting(node, job string, names ...string) *schemas.CounterBatch {
	b := batch(node, job, simEpochMs, simT, 1)
	for _, name := range names {
		b.Metrics = append(b.Metrics, schemas.CounterBatchMetric{
			Name: name, Unit: "1/s", Scope: schemas.ScopeNode, Values: []float64{3},
		})
	}
	slices.Sort(names)
	b.Reported = names
	return b
}

// foldReports folds records and a Tick in a new collector, and returns the job's summary and the share of _system.
func foldReports(t *testing.T, tick *schemas.Tick, records ...schemas.Record) (
	job schemas.Record, system *schemas.JobPartial, surplus int64,
) {
	t.Helper()
	c := NewCollector(simCluster, 0, 1, nil)
	for i, r := range append(slices.Clone(records), tick) {
		fx := c.Apply(Entry{Offset: int64(i), AppendedMs: simEpochMs + simT, Value: encode(t, r)})
		if len(fx.Outputs) > 1 {
			return fx.Outputs[0], fx.Outputs[1].(*schemas.JobPartial), fx.Counts.Surplus
		}
	}
	t.Fatal("no summary")
	return nil, nil, 0
}

func namesOf(metrics []schemas.JobSummaryMetric) (names []string) {
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	return names
}

func names(format string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

// TestReportedMetricsStayWithTheJob: the summary has them, _system has not.
func TestReportedMetricsStayWithTheJob(t *testing.T) {
	tick := tickOf(simEpochMs, false, tickJob("j", 1, "n1", "n2"))
	job, system, _ := foldReports(t, tick, reporting("n1", "j", "rate"), reporting("n2", "j", "rate", "steps"))
	s := job.(*schemas.JobSummary)
	if got := namesOf(s.Metrics); !slices.Equal(got, []string{"cpu_user", "rate", "steps"}) {
		t.Fatalf("the job has %v", got)
	}
	if m := s.Metrics[1]; m.Count != 2 || m.Nodes != 2 || *m.Mean != 3 || m.Unit != "1/s" {
		t.Errorf("rate is %+v", m)
	}
	if m := s.Metrics[2]; m.Count != 1 || m.Nodes != 1 || *m.LowNode != "n2" {
		t.Errorf("steps is %+v", m)
	}
	if len(system.Metrics) != 1 || system.Metrics[0].Name != "cpu_user" || system.Metrics[0].Count != 4 {
		t.Errorf("_system has %+v", system.Metrics)
	}
}

// TestReportedMetricsOfALocalJob: the node has reduced them.
func TestReportedMetricsOfALocalJob(t *testing.T) {
	b := reporting("n1", "j", "rate")
	r := reducedBatch(b)
	r.Reported = b.Reported
	job, system, _ := foldReports(t, tickOf(simEpochMs, false, tickJob("j", 1, "n1")), r)
	s := job.(*schemas.JobSummary)
	if s.Method != schemas.MethodNode || !slices.Equal(namesOf(s.Metrics), []string{"cpu_user", "rate"}) {
		t.Errorf("the job has %v by %s", namesOf(s.Metrics), s.Method)
	}
	if len(system.Metrics) != 1 || system.Metrics[0].Name != "cpu_user" {
		t.Errorf("_system has %+v", system.Metrics)
	}
}

// TestReportedMetricsOfASplitJob: each collector has a share, and the merge joins them like those of any metric.
func TestReportedMetricsOfASplitJob(t *testing.T) {
	var shares []*schemas.JobPartial
	for i, node := range []string{"n1", "n2"} {
		job := tickJob("j", 2, node)
		job.JobNodes = 2
		share, _, _ := foldReports(t, tickOf(simEpochMs, false, job), reporting(node, "j", "rate"))
		p := share.(*schemas.JobPartial)
		p.Collector = int32(i)
		shares = append(shares, p)
	}
	s, _ := mergePartials(shares, 0)
	if m := s.Metrics[1]; m.Name != "rate" || m.Count != 2 || m.Nodes != 2 || *m.Mean != 3 {
		t.Errorf("%+v", m)
	}
}

// TestUsersCannotPushMetricsOut: a job of two nodes reports 20 names that come before all others. Its summary has the
// 16 least, and counts 4 as left out. The machine's 1,024 metrics are all there. The order of arrival does not matter.
func TestUsersCannotPushMetricsOut(t *testing.T) {
	first := reporting("n1", "j", names("a%02d", 0, 12)...)
	second := reporting("n2", "j", names("a%02d", 8, 20)...)
	system := wide("n3", "_rest", simEpochMs, simT, "real", schemas.MaxMetrics-1) // and cpu_user
	tick := tickOf(simEpochMs, false, tickJob("j", 1, "n1", "n2"), tickJob("_rest", 1, "n3"))
	r := rand.New(rand.NewPCG(5, 5))
	records := []schemas.Record{first, second, system}
	for range 6 {
		r.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		c := NewCollector(simCluster, 0, 1, nil)
		var fx Effects
		for i, rec := range append(slices.Clone(records), tick) {
			fx = c.Apply(Entry{Offset: int64(i), AppendedMs: simEpochMs + simT, Value: encode(t, rec)})
		}
		job, share := fx.Outputs[0].(*schemas.JobSummary), fx.Outputs[2].(*schemas.JobPartial)
		want := append(names("a%02d", 0, schemas.MaxReported), "cpu_user")
		if got := namesOf(job.Metrics); !slices.Equal(got, want) || fx.Counts.Surplus != 4 {
			t.Fatalf("the job has %v, %d are left out", got, fx.Counts.Surplus)
		}
		if job.Metrics[0].Count != 1 || job.Metrics[8].Count != 2 {
			t.Fatalf("%+v, %+v", job.Metrics[0], job.Metrics[8])
		}
		if len(share.Metrics) != schemas.MaxMetrics || share.Metrics[0].Name != "cpu_user" {
			t.Fatalf("_system has %d metrics, the first is %s", len(share.Metrics), share.Metrics[0].Name)
		}
	}
}
