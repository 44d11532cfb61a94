package analysis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/schemas"
)

// A node that is 9 s ahead is named with its offset, whether its agent measures its clock or not. So is one that is 3 s
// behind, where its agent does. A node that was set right is not, although its records of before are there.
func TestClocksOff(t *testing.T) {
	c := clockSigns{}
	add := func(cluster, node string, sentAt, appended int64, offsetUs ...float64) {
		b := &schemas.CounterBatch{NodeHeader: schemas.NodeHeader{
			Cluster: cluster, Node: node, IntervalMs: 10_000, SentAt: sentAt,
		}}
		for _, v := range offsetUs {
			b.Metrics = append(b.Metrics,
				schemas.CounterBatchMetric{Name: schemas.MetricClockOffset, Values: []float64{v}},
				schemas.CounterBatchMetric{Name: schemas.MetricClockBound, Values: []float64{2000}})
		}
		c.add("c", b, appended)
	}
	add("c", "old", 59_000, 50_000)
	add("c", "ahead", 60_001, 50_000, 10_001_000)
	add("c", "behind", 47_000, 50_000, -3_000_000)
	add("c", "set", 59_000, 50_000, 9_000_000)
	add("c", "set", 60_000, 60_001, 300)
	add("c", "set", 59_000, 50_000, 9_000_000) // of another partition, read later
	add("c", "good", 50_000, 50_001, 300)
	add("other", "foreign", 59_000, 50_000)
	c.add("c", &schemas.Tick{}, 50_000)
	want := []ClockStatus{{"ahead", 10_001}, {"old", 9000}, {"behind", -3000}}
	if diff := cmp.Diff(want, c.off()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s := &Status{ClocksOff: c.off()}
	s.judgeClocks(config.Default())
	says := "clocks of 3 nodes are off by more than 1s, against the broker's: " +
		"[ahead +10.001s, old +9s, behind -3s]: set"
	if len(s.Wrong) != 1 || !strings.HasPrefix(s.Wrong[0], says) {
		t.Errorf("%q, want %q", s.Wrong, says)
	}
	s = &Status{ClocksOff: clockSigns{}.off()}
	if s.judgeClocks(config.Default()); len(s.Wrong) != 0 || s.ClocksOff == nil {
		t.Errorf("of nothing: %+v", s)
	}
}

// The newest row of the whole machine that tells counts, in whatever order rows come.
func TestSynchronyIsThatOfTheNewestRow(t *testing.T) {
	row := func(job string, start int64, share ...float64) *schemas.JobSummary {
		s := &schemas.JobSummary{JobID: job, IntervalStart: start}
		for _, v := range share {
			s.Metrics = append(s.Metrics, schemas.JobSummaryMetric{Name: schemas.MetricInWindow, Nodes: 4, Mean: &v})
		}
		return s
	}
	var s *Synchrony
	for _, r := range []*schemas.JobSummary{
		row(schemas.JobSystem, 1000), row("j", 5000, 1), row(schemas.JobSystem, 3000, 0.75),
		row(schemas.JobSystem, 2000, 1), row(schemas.JobSystem, 4000),
	} {
		s = s.newer(r)
	}
	if diff := cmp.Diff(&Synchrony{3000, 4, 0.75}, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
