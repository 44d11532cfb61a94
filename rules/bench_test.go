package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/schemas"
)

// machineOf is an interval of a machine: jobs with 40 metrics each, those of the shipped rules among them.
func machineOf(jobs int) (summaries []*schemas.JobSummary) {
	r := rand.New(rand.NewPCG(3, 4))
	names := []string{}
	for _, k := range catalogue {
		names = append(names, k.Name)
	}
	for i := len(names); i < 40; i++ {
		names = append(names, fmt.Sprintf("m%02d", i))
	}
	low, high := "n0001", "n0002"
	for range jobs {
		s := &schemas.JobSummary{
			Cluster: "alpha", JobID: "4711", IntervalStart: life4711().StartMs, IntervalMs: minute, NodesExpected: 4,
			NodesReported: 4,
		}
		for i, name := range sorted(names) {
			d := make([]float64, decils)
			for k := range d {
				d[k] = float64(k)/10*0.3 + 0.1*r.Float64()
			}
			m := schemas.JobSummaryMetric{
				Name: name, Scope: "core", Count: 64, Nodes: 4, Mean: &d[5], LowNode: &low, HighNode: &high,
				Deciles:     &d,
				LowNodeMean: &d[1], HighNodeMean: &d[9],
			}
			if i%2 == 0 {
				m.Lo, m.Hi = &d, &d
			}
			s.Metrics = append(s.Metrics, m)
		}
		summaries = append(summaries, s)
	}
	return summaries
}

// fold adds an interval of the machine to its Watches.
func fold(all []*schemas.JobSummary, watches []*Watch, iv *Interval, n int) {
	for k, s := range all {
		s.IntervalStart = life4711().StartMs + int64(n)*minute
		FromSummary(s, false, iv)
		watches[k].Add(iv)
	}
}

// BenchmarkInterval: the shipped rules over an interval of 185 jobs with 40 metrics each.
func BenchmarkInterval(b *testing.B) {
	const jobs = 185
	all, set := machineOf(jobs), shippedSet(b)
	watches := make([]*Watch, jobs)
	for k := range watches {
		watches[k] = set.NewWatch(life4711(), false)
	}
	var iv Interval
	var out []schemas.Finding
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		fold(all, watches, &iv, n)
		n++
		for _, w := range watches {
			out = w.Due(out[:0])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(jobs*40), "ns/row")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/interval")
}

// TestAddAllocatesNothing: between two marks a Watch folds an interval without memory of its own.
func TestAddAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	all, set := machineOf(1), shippedSet(t)
	watches := []*Watch{set.NewWatch(life4711(), false)}
	var iv Interval
	var severities []Severity
	n := 0
	for ; n < 130; n++ { // beyond the guards, and all bins
		fold(all, watches, &iv, n)
		watches[0].Due(nil)
	}
	start := life4711().StartMs + int64(n)/10*10*minute
	all[0].IntervalMs = 1000
	add := func() {
		start += 1000
		all[0].IntervalStart = start
		FromSummary(all[0], false, &iv)
		watches[0].Add(&iv)
		severities = watches[0].Severities(&iv, severities[:0])
	}
	for range 5 { // beyond the mark
		add()
		watches[0].Due(nil)
	}
	if got := testing.AllocsPerRun(200, add); got > 0 {
		t.Errorf("%v allocations an interval", got)
	}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
