package machine

import (
	"math"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// summary is one interval of a job, with some metrics whose deciles run from 0 to twice the mean.
func summary(id string, start, count int64, means map[string]float64) *schemas.JobSummary {
	s := &schemas.JobSummary{
		Cluster: "c", JobID: id, IntervalStart: start, IntervalMs: 3_600_000, Method: schemas.MethodExact,
		NodesExpected: 2, NodesReported: 1,
	}
	for name, mean := range means {
		deciles := make([]float64, 11)
		for k := range deciles {
			deciles[k] = mean * float64(k) / 5
		}
		low, high := "n1", "n2"
		s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{
			Name: name, Unit: "1", Scope: schemas.ScopeCore, Count: count, Mean: &mean, Deciles: &deciles,
			LowNode: &low, HighNode: &high,
		})
	}
	return s
}

// TestFrame: a frame has the jobs of its interval, with what the scheduler, the rules and the machine tell.
func TestFrame(t *testing.T) {
	var live Live
	job := schemas.JobKey{JobID: "7"}
	k := &Known{
		Jobs:     map[schemas.JobKey]*schemas.Job{job: {JobID: "7", User: "u", Nodes: []string{"n1"}}},
		Findings: map[schemas.JobKey][]schemas.Finding{job: {{Rule: "idle"}}},
		Type:     func([]string) config.NodeType { return config.NodeType{ThreadsPerCore: 2} },
	}
	k.MachineHour, k.MachineGPUs = 20, 16
	k.Threads = func(nodes []string) int { return 2 * len(nodes) } // nobody knows the nodes of job 8
	f := live.Fold([]*schemas.JobSummary{
		summary("7", 0, 4, map[string]float64{"cpu_user": 0.25, "cpu_idle": 0.75}),
		summary("8", 0, 4, map[string]float64{"ipc": 1}),
		summary("9", 0, 4, map[string]float64{"acc_utilization": 1.25}),
		summary(schemas.JobSystem, 0, 12, map[string]float64{"cpu_idle": 0.75, "acc_utilization": 0.5}),
		summary(schemas.JobRest, 0, 4, map[string]float64{"cpu_idle": 1, "acc_utilization": 0}),
	}, k)
	names := []string{"acc_utilization", "cpu_idle", "cpu_user", "ipc"}
	if f.Seen != 1 || f.Expected != 2 || len(f.Jobs) != 3 || gocmp.Diff(names, f.Metrics) != "" {
		t.Fatalf("%+v", f)
	}
	if c := f.Cores; c.Seen != 12 || c.Busy != 4 || c.Wasted != 4 || c.Free != 4 || *c.NotSeen != 8 {
		t.Errorf("%+v", c)
	}
	if g := f.GPUs; g.Seen != 12 || g.Busy != 6 || g.Wasted != 2 || g.Free != 4 || *g.NotSeen != 4 {
		t.Errorf("GPUs: %+v", g)
	}
	if f.Jobs[0].GPUBusy != nil || f.Jobs[2].GPUBusy == nil || *f.Jobs[2].GPUBusy != 1 {
		t.Errorf("GPUs of jobs: %v, %v", f.Jobs[0].GPUBusy, f.Jobs[2].GPUBusy)
	}
	j := f.Jobs[0]
	if j.User != "u" || len(j.Findings) != 1 || j.Busy == nil || *j.Busy != 0.5 || j.Metric("ipc") != nil {
		t.Errorf("%+v", j) // two threads a core: half of the CPUs may be idle
	}
	if d, ok := j.Metric("cpu_user").Spread(); !ok || math.Abs(d-0.4) > 1e-12 {
		t.Errorf("spread %v", d)
	}
	if other := f.Jobs[1]; other.Busy != nil || other.User != "" {
		t.Errorf("a job without cpu_idle and without a record: %+v", other)
	}
	if _, ok := f.Jobs[1].Metric("cpu_user").Spread(); ok {
		t.Error("a metric that is not there has a spread")
	}
}

// TestPast: a job has the medians of its last intervals, and none of another life or of one before it was away.
func TestPast(t *testing.T) {
	var live Live
	k := &Known{}
	past := func(summaries ...*schemas.JobSummary) []float64 {
		f := live.Fold(summaries, k)
		if len(f.Jobs) == 0 {
			return nil
		}
		return f.Jobs[0].Metrics[0].Past
	}
	for i := range 50 {
		got := past(summary("7", int64(i), 4, map[string]float64{"ipc": float64(i)}))
		if len(got) != min(i+1, pastIntervals) || got[len(got)-1] != float64(i) {
			t.Fatalf("interval %d: %v", i, got)
		}
	}
	past(summary("8", 50, 4, map[string]float64{"ipc": 1}))
	if got := past(summary("7", 51, 4, map[string]float64{"ipc": 2})); len(got) != 1 {
		t.Errorf("after an interval without it: %v", got)
	}
	again := summary("7", 52, 4, map[string]float64{"ipc": 3})
	again.Restart = 1
	if got := past(again); len(got) != 1 {
		t.Errorf("another life: %v", got)
	}
	if f := live.Fold(nil, k); f != nil {
		t.Errorf("a frame of nothing: %+v", f)
	}
}
